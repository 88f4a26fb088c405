//! One object with its API server and its Azure, in which every step may fail before it takes effect, lose its answer, or meet a
//! crash.
//!
//! Whatever happens on the way: Azure takes at most one PUT for each generation, the object ends Ready, and a deletion
//! ends with nothing left.

use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::arm::error::Retry;
use crate::engine::condition;

/// What goes wrong with a step.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// It has no effect and says so.
    Refused,
    /// It takes effect and its answer is lost.
    AnswerLost,
    /// It takes effect and then the worker dies: another one, without memory, goes on.
    Crash,
    /// The worker dies before it.
    CrashBefore,
    /// The user changes the spec meanwhile.
    Edit,
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        3 => Just(Fault::None),
        1 => Just(Fault::Refused),
        1 => Just(Fault::AnswerLost),
        1 => Just(Fault::Crash),
        1 => Just(Fault::CrashBefore),
        1 => Just(Fault::Edit),
    ]
}

#[derive(Clone, Debug)]
struct Resource {
    generation: i64,
    running: bool,
    deleting: bool,
}

/// The API server, Azure and the worker's memory, as far as they matter to one object.
struct OneObject {
    now: Timestamp,
    // The API server.
    object: Object,
    handle: Option<(bool, i64)>,
    gone: bool,
    // Azure.
    resource: Option<Resource>,
    slow: bool,
    accepted: Vec<i64>,
    // The worker.
    memory: Memory,
    operation: Option<Operation>,
    desired: Option<Desired>,
    live: Option<Live>,
    handover: Handover,
}

impl OneObject {
    fn new(slow: bool) -> Self {
        Self {
            now: Timestamp::from_second(1_800_000_000).unwrap(),
            object: Object { generation: 1, ..Object::default() },
            handle: None,
            gone: false,
            resource: None,
            slow,
            accepted: Vec::new(),
            memory: Memory::default(),
            operation: None,
            desired: None,
            live: None,
            handover: Handover::Clean,
        }
    }

    fn observed(&self) -> Observed {
        Observed {
            object: self.object.clone(),
            policy: Policy::Manage,
            installation: "us".into(),
            memory: self.memory.clone(),
            operation: self.operation.clone(),
            desired: self.desired.clone(),
            live: self.live.clone(),
            due: false,
            handover: self.handover,
        }
    }

    fn intent(&self) -> Intent {
        let generation = self.object.generation;
        Intent { generation, api_version: "v".into(), hash: generation.to_string() }
    }

    fn new_reconcile(&mut self) {
        (self.desired, self.live) = (None, None);
    }

    fn crash(&mut self) {
        self.new_reconcile();
        self.memory = Memory::default();
        self.handover = Handover::Unclean;
        self.operation = self.handle.map(|(deletes, generation)| Operation {
            deletes,
            generation,
            outcome: Outcome::Running(self.now),
            unheard: None,
        });
    }

    fn trouble(&mut self) {
        let trouble =
            Trouble::new(Ready::warning(Reason::UnknownError, "refused"), Retry::Slow).of(Category::Transient);
        self.memory.fail(trouble, self.object.generation, self.now, None);
    }

    fn read(&mut self) {
        let differs = |resource: &Resource, generation| {
            if resource.generation == generation { Vec::new() } else { vec!["tags".to_owned()] }
        };
        let live = match &self.resource {
            None => Live::Absent,
            Some(resource) => Live::Found {
                state: match resource {
                    Resource { deleting: true, .. } => State::Deleting,
                    Resource { running: true, .. } => State::Running,
                    _ => State::Settled,
                },
                differences: differs(resource, self.object.generation),
                shown: self.object.confirmed(),
            },
        };
        let intent = self.intent();
        self.live = Some(self.memory.read(Some(&intent), live));
        self.handover = Handover::Clean;
    }

    /// Carries out one step, as the executor does.
    #[expect(clippy::too_many_lines, reason = "one arm per step; splitting hides what each does")]
    fn step(&mut self, plan: &Plan, fault: Fault) {
        match fault {
            Fault::CrashBefore => return self.crash(),
            Fault::Refused => match plan {
                Plan::Put { .. } => {
                    let intent = self.intent();
                    self.memory.rejected(&intent);
                    return self.trouble();
                }
                Plan::Delete { .. } => {
                    self.memory.delete_refused = true;
                    return self.trouble();
                }
                Plan::Claim { .. } | Plan::Finish | Plan::DropOperation | Plan::RemoveFinalizer { .. } => {
                    return self.new_reconcile();
                }
                Plan::Read { .. } | Plan::Poll => return self.trouble(),
                _ => {}
            },
            _ => {}
        }
        let lost = matches!(fault, Fault::AnswerLost);
        match plan {
            Plan::Resolve => {
                let intent = self.intent();
                self.desired =
                    Some(Desired { id: "/subscriptions/s/x".into(), intent, secrets: false, deletable: true });
            }
            Plan::Claim { .. } => {
                self.object.finalizer = true;
                self.object.installation = Some("us".into());
                self.object.resource_id = Some("/subscriptions/s/x".into());
                self.object.intent = Some(self.intent());
                self.handle = None;
                if lost {
                    return self.crash();
                }
                self.operation = None;
                self.memory.intend(self.intent());
            }
            Plan::Read { .. } => self.read(),
            Plan::Put { .. } => {
                let intent = self.intent();
                self.memory.sending(&intent);
                // What was read before says nothing about after.
                self.live = None;
                self.accepted.push(intent.generation);
                self.resource = Some(Resource { generation: intent.generation, running: self.slow, deleting: false });
                if lost {
                    return self.trouble();
                }
                if matches!(fault, Fault::Crash) {
                    return self.crash();
                }
                if self.slow {
                    self.handle = Some((false, intent.generation));
                    self.operation = Some(Operation {
                        deletes: false,
                        generation: intent.generation,
                        outcome: Outcome::Running(self.now + Duration::from_secs(5)),
                        unheard: None,
                    });
                }
                self.memory.accepted(&intent);
            }
            Plan::Poll => {
                let Some(operation) = &mut self.operation else { panic!("polled without an operation") };
                let running = self.resource.as_ref().is_some_and(|resource| resource.running || resource.deleting);
                operation.outcome =
                    if running { Outcome::Running(self.now + Duration::from_secs(5)) } else { Outcome::Done };
                if !running && !operation.deletes && operation.generation == self.object.generation {
                    let intent = self.intent();
                    self.memory.accepted(&intent);
                }
            }
            Plan::Finish => {
                let live = self.live.clone();
                assert!(matches!(live, Some(Live::Found { .. })), "finished without a read");
                self.object.ready = condition::replace(
                    self.object.ready.as_ref(),
                    &Ready::succeeded(),
                    self.object.generation,
                    self.now,
                )
                .or(self.object.ready.take());
                self.object.created = true;
                self.memory.recover();
                if let Some(Live::Found { shown, .. }) = &mut self.live {
                    *shown = true;
                }
            }
            Plan::DropOperation => (self.handle, self.operation) = (None, None),
            Plan::Delete { .. } => {
                self.memory.delete_refused = false;
                self.live = None;
                match &mut self.resource {
                    Some(resource) if self.slow => resource.deleting = true,
                    resource => *resource = None,
                }
                if lost {
                    return self.trouble();
                }
                if matches!(fault, Fault::Crash) {
                    return self.crash();
                }
                if self.resource.is_some() {
                    self.handle = Some((true, self.object.generation));
                    self.operation = Some(Operation {
                        deletes: true,
                        generation: self.object.generation,
                        outcome: Outcome::Running(self.now + Duration::from_secs(5)),
                        unheard: None,
                    });
                } else {
                    self.memory.deleted = true;
                }
            }
            Plan::RemoveFinalizer { .. } => {
                self.object.finalizer = false;
                self.gone = true;
            }
            Plan::Refuse(_) => self.trouble(),
            Plan::Ignore { .. } | Plan::Nothing => self.new_reconcile(),
            Plan::Wait { until, .. } => {
                self.now = self.now.max(*until);
                self.new_reconcile();
            }
        }
        match fault {
            Fault::Crash => self.crash(),
            Fault::Edit if !self.object.deleting => {
                self.object.generation += 1;
                self.new_reconcile();
            }
            _ => {}
        }
    }

    /// Azure moves on, as time does.
    fn tick(&mut self) {
        self.now += Duration::from_secs(1);
        match &mut self.resource {
            Some(resource) if resource.deleting => self.resource = None,
            Some(resource) => resource.running = false,
            None => {}
        }
    }

    /// Steps until nothing is left to do; the faults come first, one per step.
    fn run(&mut self, faults: &[Fault], ticks_every: usize) -> Result<(), String> {
        for step in 0..400 {
            let plan = decide(&self.observed(), self.now);
            let fault = faults.get(step).copied().unwrap_or(Fault::None);
            if step >= faults.len() && (plan == Plan::Nothing || self.gone) {
                return Ok(());
            }
            self.step(&plan, fault);
            if self.gone {
                return Ok(());
            }
            if step % ticks_every == 0 {
                self.tick();
            }
        }
        Err(format!("does not come to rest: {}", decide(&self.observed(), self.now)))
    }
}

fn at_most_once_each(accepted: &[i64]) -> bool {
    let mut generations = accepted.to_vec();
    generations.sort_unstable();
    generations.windows(2).all(|pair| pair[0] != pair[1])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_generation_is_put_once_and_the_object_ends_ready(
        faults in prop::collection::vec(fault(), 0..40), slow in any::<bool>(), ticks_every in 1..6usize,
    ) {
        let mut world = OneObject::new(slow);
        world.run(&faults, ticks_every).map_err(TestCaseError::fail)?;
        prop_assert!(world.object.confirmed(), "not ready");
        prop_assert_eq!(world.resource.as_ref().map(|r| r.generation), Some(world.object.generation));
        prop_assert_eq!(&world.handle, &None);
        prop_assert!(at_most_once_each(&world.accepted), "put {:?}", world.accepted);
    }

    #[test]
    fn a_deletion_ends_with_nothing_left_whenever_it_comes(
        before in prop::collection::vec(fault(), 0..20), faults in prop::collection::vec(fault(), 0..20),
        slow in any::<bool>(), ticks_every in 1..6usize,
    ) {
        let mut world = OneObject::new(slow);
        for fault in before {
            let plan = decide(&world.observed(), world.now);
            world.step(&plan, fault);
            world.tick();
        }
        let puts = world.accepted.len();
        world.object.deleting = true;
        world.object.generation += 1;
        world.new_reconcile();
        if world.object.finalizer {
            world.run(&faults, ticks_every).map_err(TestCaseError::fail)?;
            prop_assert!(world.gone, "the object stays");
        }
        prop_assert!(world.resource.is_none_or(|resource| resource.deleting), "a resource stays");
        prop_assert_eq!(world.accepted.len(), puts, "a PUT after the deletion");
    }
}
