//! Situations in which an object is reconciled, and the step that each asks for.

use flotilla_worker::arm::error::Retry;
use flotilla_worker::engine::{
    Condition, Desired, Id, Intent, Live, Memory, Object, Observed, Operation, Outcome, Plan, Policy, Ready, Reason,
    Resting, State, Trouble, decide, replace,
};
use flotilla_worker::fleet::Handover;
use jiff::{Timestamp, ToSpan as _};

const RESOURCE_ID: &str = "/subscriptions/33333333-3333-4333-8333-333333333333/resourceGroups/rg-bench/providers/\
    Microsoft.Storage/storageAccounts/stbench";
const INSTALLATION: &str = "flotilla-system";

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Situation {
    /// Its owner is absent.
    WaitingForOwner,
    /// It is new, and was resolved.
    Claim,
    /// It is claimed, and nothing was sent.
    Put,
    /// Its operation is due for a poll.
    Poll,
    /// The resource was read after the PUT.
    Finish,
    /// It is Ready, and nothing changed.
    Steady,
    /// It is Ready, and was read again after a resync period.
    Resync,
    /// It was deleted.
    Delete,
}

impl Situation {
    /// All of them, in the order of an object's life.
    pub(super) const ALL: [Self; 8] = [
        Self::WaitingForOwner,
        Self::Claim,
        Self::Put,
        Self::Poll,
        Self::Finish,
        Self::Steady,
        Self::Resync,
        Self::Delete,
    ];

    /// In words, and as the command line has it.
    pub(super) fn name(self) -> String {
        clap::ValueEnum::to_possible_value(&self).map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// The step that it asks for.
    fn step(self) -> &'static str {
        match self {
            Self::WaitingForOwner => "wait",
            Self::Claim => "claim",
            Self::Put => "put",
            Self::Poll => "poll",
            Self::Finish => "finish",
            Self::Steady | Self::Resync => "nothing",
            Self::Delete => "delete",
        }
    }

    fn observed(self, now: Timestamp) -> Observed {
        let intent = intent();
        match self {
            Self::WaitingForOwner => {
                let mut memory = Memory::default();
                let until = now + 30.seconds();
                memory.resting = Some(Resting { trouble: missing_owner(), generation: 1, until });
                Observed { memory, desired: None, ..fresh() }
            }
            Self::Claim => fresh(),
            Self::Put => {
                let mut put = claimed();
                put.memory.intend(intent);
                put
            }
            Self::Poll => {
                let outcome = Outcome::Running(now);
                let operation = Operation { deletes: false, generation: 1, outcome, unheard: None };
                Observed { operation: Some(operation), desired: None, ..claimed() }
            }
            Self::Finish => {
                let mut sent = claimed();
                sent.memory.accepted(&intent);
                Observed { live: Some(found(false)), ..sent }
            }
            Self::Steady => Observed { desired: None, ..ready(now) },
            Self::Resync => Observed { due: true, live: Some(found(true)), ..ready(now) },
            Self::Delete => {
                let mut deleted = ready(now);
                deleted.object.deleting = true;
                deleted.object.generation = 2;
                deleted
            }
        }
    }

    /// Decides so many times; an error if the decision is not the one that this situation stands for.
    pub fn run(self, rounds: u32) -> anyhow::Result<()> {
        let now = Timestamp::UNIX_EPOCH + 500_000.hours();
        let observed = self.observed(now);
        let plan = decide(&observed, now);
        anyhow::ensure!(plan.as_str() == self.step(), "{self:?} asks for {}, but the plan is {plan}", self.step());
        for _ in 0..rounds {
            let plan: Plan = decide(std::hint::black_box(&observed), std::hint::black_box(now));
            drop(std::hint::black_box(plan));
        }
        Ok(())
    }
}

fn intent() -> Intent {
    Intent { generation: 1, api_version: "2023-01-01".into(), hash: "0123456789abcdef".into() }
}

fn fresh() -> Observed {
    Observed {
        object: Object { generation: 1, ..Object::default() },
        policy: Policy::Manage,
        installation: INSTALLATION.into(),
        memory: Memory::default(),
        operation: None,
        desired: Some(Desired { id: RESOURCE_ID.into(), intent: intent(), secrets: false, deletable: true }),
        live: None,
        due: false,
        handover: Handover::Clean,
    }
}

fn claimed() -> Observed {
    let mut observed = fresh();
    observed.object = Object {
        finalizer: true,
        installation: Some(INSTALLATION.into()),
        resource_id: Some(RESOURCE_ID.into()),
        intent: Some(intent()),
        ..observed.object
    };
    observed
}

fn ready(now: Timestamp) -> Observed {
    let mut observed = claimed();
    let condition: Option<Condition> = replace(None, &Ready::succeeded(), 1, now);
    observed.object.ready = condition;
    observed.object.created = true;
    observed
}

fn found(shown: bool) -> Live {
    Live::Found { state: State::Settled, differences: Vec::new(), shown }
}

fn missing_owner() -> Trouble {
    let kind = flotilla_proto::GroupKind::new("resources.azure.com", "ResourceGroup");
    let owner = Id { kind: kind.into(), namespace: "bench".into(), name: "rg-bench".into() };
    let message = "Waiting for the owner ResourceGroup rg-bench: the object does not exist in namespace bench.";
    Trouble::new(Ready::warning(Reason::WaitingForOwner, message.to_owned()), Retry::Slow).until(vec![owner])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_situation_asks_for_its_step() {
        for situation in Situation::ALL {
            situation.run(1).unwrap();
        }
    }
}
