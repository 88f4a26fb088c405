//! One reconcile of an object: gather, plan, apply, until nothing is left to do now.

mod azure;
mod object;
mod operation;
mod reading;
mod unsupported;

use std::sync::Arc;
use std::time::{Duration, Instant};

use flotilla_crds::Kind;
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use tracing::Instrument;

use super::cluster;
use super::context::Context;
use super::decide::{Observed, decide};
use super::done::{Done, Next, WaitsFor};
use super::memory::{Mind, Outcome as Progress};
use super::object::{Id, Policy};
use super::plan::Plan;
use super::queue::Class;
use super::record::Job;
use super::resolve::{self, Resolution, Subject};
use super::standing::Standing;
use super::trouble::Trouble;
use super::view;
use crate::budget::Priority;
use crate::fleet::{Claim, Handover};
use crate::metrics::Outcome;
use reading::Reading;

/// How a reconcile ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The object stays.
    Done {
        /// Its UID; empty if it could not be read.
        uid: String,
        /// For the metrics.
        outcome: Outcome,
        /// What to remember, and when the next reconcile is due.
        done: Box<Done>,
    },
    /// The object does not exist any more.
    Gone,
    /// The claim ended: the shard was handed off, or the lease ran out.
    Lost(Box<Mind>),
}

/// What the last step says about the next reconcile.
#[derive(Debug)]
struct Ending {
    next: Next,
    waits_for: WaitsFor,
}

impl Ending {
    /// Nothing is left to do, and no other object matters.
    const SETTLED: Self = Self { next: Next::AfterResync, waits_for: WaitsFor::NOBODY };
}

/// Steps of one reconcile. More than this means that the steps repeat each other: better to start anew later.
const STEPS: usize = 24;
/// Until the next reconcile after the API server failed.
const AFTER_API_SERVER: Duration = Duration::from_secs(2);
/// Until the next reconcile of an object that nothing can be done for: its kind or version is unknown, or its steps repeat.
const STUCK: Duration = Duration::from_mins(1);

/// One reconcile.
struct Reconcile<'a> {
    ctx: &'a Context,
    id: &'a Id,
    claim: Claim,
    class: Class,
    kind: Arc<Kind>,
    version: String,
    policy: Policy,
    object: DynamicObject,
    mind: Mind,
    /// The operation ended, for better or worse.
    ended: Option<Progress>,
    resolution: Option<Resolution>,
    /// What Azure showed, as long as it counts.
    live: Reading,
    /// Writes to Azure and claims so far; each voids what was read before it.
    writes: u32,
    due: bool,
    /// Clean once the former owner's last writes are known.
    handover: Handover,
    correlation: uuid::Uuid,
    outcome: Outcome,
    standing: Option<Standing>,
}

/// Why a reconcile breaks off.
enum Break {
    /// The claim has ended.
    Lost,
    /// The object has changed: reconcile again at once.
    Conflict,
    /// The API server failed: reconcile again soon.
    Later,
}

impl From<cluster::Error> for Break {
    fn from(error: cluster::Error) -> Self {
        match error {
            cluster::Error::Lost(_) => Break::Lost,
            cluster::Error::Conflict(_) => Break::Conflict,
            error => {
                tracing::warn!(error = &error as &dyn std::error::Error, "Failed to write to the API server");
                Break::Later
            }
        }
    }
}

/// Reconciles an object once.
pub(crate) async fn run(ctx: &Context, job: Job) -> End {
    let Job { id, key, class, mind, handover } = job;
    let Some(claim) = ctx.shards.claim(&key) else { return End::Lost(Box::new(mind)) };
    let span =
        tracing::info_span!("reconcile", object = %id, %key, epoch = %claim.epoch(), term = %claim.term(), %class);
    let started = Instant::now();
    let end = reconcile(ctx, &id, claim, class, mind, handover).instrument(span).await;
    let outcome = match &end {
        End::Done { outcome, .. } => *outcome,
        End::Gone => Outcome::Deleted,
        End::Lost(_) => Outcome::Lost,
    };
    ctx.metrics.reconciled(outcome, &class, started.elapsed());
    end
}

async fn reconcile(ctx: &Context, id: &Id, claim: Claim, class: Class, mind: Mind, handover: Handover) -> End {
    let object = match ctx.cluster.get(id).await {
        Ok(Some(object)) => object,
        Ok(None) => return End::Gone,
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "Failed to read the object");
            return later(mind, String::new(), Outcome::Failed, AFTER_API_SERVER);
        }
    };
    let uid = object.uid().unwrap_or_default();
    let Some(kind) = ctx.catalog.kind(&id.kind.group, &id.kind.kind) else {
        return later(mind, uid, Outcome::Failed, STUCK);
    };
    let stated = view::spec_version(&object).and_then(|version| kind.version(&version));
    let Some(version) = stated.or_else(|| kind.hub()).map(|version| version.name().to_owned()) else {
        return later(mind, uid, Outcome::Failed, STUCK);
    };
    let policy = ctx.policy(&id.namespace, view::annotation(&object, super::names::RECONCILE_POLICY)).await;
    let resting = mind.memory.resting.is_some();
    let mut this = Reconcile {
        ctx,
        id,
        claim,
        class,
        kind,
        version,
        policy,
        object,
        mind,
        ended: None,
        resolution: None,
        live: Reading::default(),
        writes: 0,
        due: matches!(class, Class::Resync | Class::Wake) || resting,
        handover,
        correlation: uuid::Uuid::new_v4(),
        outcome: Outcome::Unchanged,
        standing: None,
    };
    this.recall_operation();
    match this.walk().await {
        Ok(Ending { next, waits_for }) => {
            // A settled object needs no memory: what is not known is read.
            if next == Next::AfterResync && !this.mind.memory.tolerates() {
                this.mind = Mind::default();
            }
            let Reconcile { mind, handover, standing, outcome, .. } = this;
            End::Done { uid, outcome, done: Box::new(Done { mind, next, waits_for, handover, standing }) }
        }
        Err(Break::Lost) => End::Lost(Box::new(this.mind)),
        Err(Break::Conflict) => later(this.mind, uid, Outcome::Conflict, Duration::ZERO),
        Err(Break::Later) => later(this.mind, uid, Outcome::Failed, AFTER_API_SERVER),
    }
}

fn later(mind: Mind, uid: String, outcome: Outcome, wait: Duration) -> End {
    let done = Done {
        mind,
        next: Next::At { due: Instant::now() + wait, class: Class::Retry },
        waits_for: WaitsFor::Unchanged,
        handover: Handover::Unclean,
        standing: None,
    };
    End::Done { uid, outcome, done: Box::new(done) }
}

impl Reconcile<'_> {
    fn observed(&self) -> Observed {
        Observed {
            object: view::facts(&self.object),
            policy: self.policy,
            installation: self.ctx.settings.installation.clone(),
            memory: self.mind.memory.clone(),
            operation: self.operation(),
            desired: self.resolution.as_ref().map(|resolution| resolution.desired.clone()),
            live: self.live.live(self.moment()).cloned(),
            due: self.due,
            handover: self.handover,
        }
    }

    fn generation(&self) -> i64 {
        self.object.metadata.generation.unwrap_or(0)
    }

    fn subject(&self) -> Option<Subject<'_>> {
        let version = self.kind.version(&self.version)?;
        Some(Subject { id: self.id, object: &self.object, kind: &self.kind, version, policy: self.policy })
    }

    /// How urgent this reconcile's calls are.
    fn priority(&self) -> Priority {
        match self.class {
            Class::Change | Class::Wake => Priority::UserChange,
            Class::Operation => Priority::Poll,
            Class::Retry => Priority::Retry,
            Class::Resync => Priority::Resync,
        }
    }

    /// Plans and applies until a plan ends the reconcile.
    async fn walk(&mut self) -> Result<Ending, Break> {
        if !self.kind.entry().manager.is_arm() {
            return self.leave_alone(Timestamp::now()).await;
        }
        if self.mind.unstored
            && let Some(handle) = self.mind.handle.clone()
        {
            self.keep_handle(handle).await?;
        }
        for _ in 0..STEPS {
            let now = Timestamp::now();
            let plan = decide(&self.observed(), now);
            tracing::debug!(%plan, "Planned");
            if let Some(ending) = self.apply(plan, now).await? {
                return Ok(ending);
            }
        }
        tracing::error!(steps = STEPS, "Stopped a reconcile that does not come to an end");
        self.outcome = Outcome::Failed;
        let next = Next::At { due: Instant::now() + STUCK, class: Class::Retry };
        Ok(Ending { next, waits_for: WaitsFor::Unchanged })
    }

    /// Applies one step. An answer ends the reconcile.
    async fn apply(&mut self, plan: Plan, now: Timestamp) -> Result<Option<Ending>, Break> {
        match plan {
            Plan::Ignore { .. } => {
                self.outcome = Outcome::Ignored;
                return Ok(Some(Ending::SETTLED));
            }
            Plan::Nothing => {
                self.mind.memory.recover();
                let uses = self.resolution.as_ref().map(|resolution| resolution.uses.clone());
                let waits_for = uses.map_or(WaitsFor::Unchanged, WaitsFor::These);
                return Ok(Some(Ending { next: Next::AfterResync, waits_for }));
            }
            Plan::Wait { ready, until, class, mut waits_for } => {
                if let Some(ready) = ready {
                    self.show_ready(&ready, now).await?;
                }
                let resolved = self.resolution.is_some();
                if let Some(resolution) = &self.resolution {
                    waits_for.extend(resolution.uses.iter().cloned());
                }
                let known = resolved || !waits_for.is_empty();
                let waits_for = if known { WaitsFor::These(waits_for) } else { WaitsFor::Unchanged };
                if self.outcome != Outcome::Failed {
                    self.outcome = Outcome::Waiting;
                }
                let wait = Duration::try_from(until.duration_since(now)).unwrap_or(Duration::ZERO);
                let next = Next::At { due: Instant::now() + wait, class };
                return Ok(Some(Ending { next, waits_for }));
            }
            Plan::Refuse(trouble) => self.fail(trouble),
            Plan::Resolve => self.resolve().await,
            Plan::Claim { .. } => self.make_claim().await?,
            Plan::Read { .. } => self.read(now).await?,
            Plan::Put { .. } => self.put().await?,
            Plan::Poll => self.poll().await?,
            Plan::Finish => self.finish(now).await?,
            Plan::DropOperation => self.drop_operation().await?,
            Plan::Delete { .. } => self.delete().await?,
            Plan::RemoveFinalizer { why } => {
                self.release(why).await?;
                return Ok(Some(Ending::SETTLED));
            }
        }
        Ok(None)
    }

    /// Remembers what went wrong; the next plan waits it out.
    fn fail(&mut self, trouble: Trouble) {
        // The step may have taken long, and the wait counts from its end.
        let now = Timestamp::now();
        tracing::info!(reason = trouble.ready.reason.as_str(), detail = %trouble.ready.message, "Reconcile blocked");
        self.outcome = Outcome::Failed;
        self.mind.memory.fail(trouble, self.generation(), now, self.ctx.settings.resync);
    }

    async fn resolve(&mut self) {
        let Some(subject) = self.subject() else { return };
        match resolve::resolve(self.ctx, &subject).await {
            Ok(resolution) => self.resolution = Some(resolution),
            Err(trouble) => self.fail(trouble),
        }
    }
}
