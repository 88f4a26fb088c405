//! One look at an object: gather, plan, apply, until nothing is left to do now.

mod steps;
mod unsupported;

use std::sync::Arc;
use std::time::{Duration, Instant};

use flotilla_crds::Kind;
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;
use tracing::Instrument;

use super::cluster;
use super::condition::{self, Condition, Ready};
use super::context::Context;
use super::decide::{Observed, decide};
use super::live::Live;
use super::memory::{Operation, Outcome as Progress, Trouble};
use super::object::{Id, Policy};
use super::plan::Plan;
use super::queue::Class;
use super::record::{self, Left, Mind, Standing};
use super::resolve::{self, Resolution, Subject};
use super::{patch, view};
use crate::arm::Verb;
use crate::arm::operation::Handle;
use crate::budget::Priority;
use crate::fleet::Claim;
use crate::metrics::{Metrics, Outcome};

/// How a turn ended.
#[derive(Debug)]
pub enum End {
    /// The object stays, and is looked at again.
    Left(Box<Left>, String, Outcome),
    /// The object does not exist any more.
    Gone,
    /// The shard was handed on, or the lease ran out.
    Lost(Box<Mind>),
}

/// Steps of one turn. More than this means that steps do not lead anywhere: better to look again later.
const STEPS: usize = 24;

/// What a turn holds.
struct Turn<'a> {
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
    live: Option<(Live, Value)>,
    due: bool,
    unclean: bool,
    correlation: uuid::Uuid,
    outcome: Outcome,
    standing: Option<Standing>,
}

/// Why a turn breaks off.
enum Break {
    /// The claim has ended.
    Lost,
    /// The object has changed: look again at once.
    Conflict,
    /// The API server is in trouble: look again soon.
    Later,
}

impl From<cluster::Error> for Break {
    fn from(error: cluster::Error) -> Self {
        match error {
            cluster::Error::Lost(_) => Break::Lost,
            cluster::Error::Conflict(_) => Break::Conflict,
            error => {
                tracing::warn!(error = &error as &dyn std::error::Error, "Did not write to the API server");
                Break::Later
            }
        }
    }
}

/// Looks at an object once.
pub async fn run(ctx: &Context, turn: record::Turn) -> End {
    let record::Turn { id, key, class, mind, unclean } = turn;
    let Some(claim) = ctx.shards.claim(&key) else { return End::Lost(Box::new(mind)) };
    let span =
        tracing::info_span!("reconcile", object = %id, %key, epoch = %claim.epoch(), term = %claim.term(), %class);
    let started = Instant::now();
    let end = look(ctx, &id, claim, class, mind, unclean).instrument(span).await;
    let outcome = match &end {
        End::Left(_, _, outcome) => *outcome,
        End::Gone => Outcome::Deleted,
        End::Lost(_) => Outcome::Lost,
    };
    Metrics::global().reconciled(outcome, class, started.elapsed());
    end
}

async fn look(ctx: &Context, id: &Id, claim: Claim, class: Class, mind: Mind, unclean: bool) -> End {
    let object = match ctx.cluster.get(id).await {
        Ok(Some(object)) => object,
        Ok(None) => return End::Gone,
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "Did not read the object");
            return later(mind, String::new(), Outcome::Failed, Duration::from_secs(2));
        }
    };
    let uid = object.uid().unwrap_or_default();
    let Some(kind) = ctx.catalog.kind(&id.kind.group, &id.kind.kind) else {
        return later(mind, uid, Outcome::Failed, Duration::from_mins(1));
    };
    let stated = view::spec_version(&object).and_then(|version| kind.version(&version));
    let Some(version) = stated.or_else(|| kind.hub()).map(|version| version.name().to_owned()) else {
        return later(mind, uid, Outcome::Failed, Duration::from_mins(1));
    };
    let policy = ctx.policy(&id.namespace, view::annotation(&object, super::names::RECONCILE_POLICY)).await;
    let resting = mind.memory.resting.is_some();
    let mut turn = Turn {
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
        live: None,
        due: matches!(class, Class::Resync | Class::Wake) || resting,
        unclean,
        correlation: uuid::Uuid::new_v4(),
        outcome: Outcome::Unchanged,
        standing: None,
    };
    turn.recall_operation();
    match turn.walk().await {
        Ok((next, waits_for)) => {
            // A settled object needs no memory: what is not known is read.
            if next.is_none() && !turn.mind.memory.tolerates() {
                turn.mind = Mind::default();
            }
            let left = Left { mind: turn.mind, next, waits_for, clean: !turn.unclean, standing: turn.standing };
            End::Left(Box::new(left), uid, turn.outcome)
        }
        Err(Break::Lost) => End::Lost(Box::new(turn.mind)),
        Err(Break::Conflict) => later(turn.mind, uid, Outcome::Conflict, Duration::ZERO),
        Err(Break::Later) => later(turn.mind, uid, Outcome::Failed, Duration::from_secs(2)),
    }
}

fn later(mind: Mind, uid: String, outcome: Outcome, wait: Duration) -> End {
    let next = Some((Instant::now() + wait, Class::Retry));
    End::Left(Box::new(Left { mind, next, waits_for: None, clean: false, standing: None }), uid, outcome)
}

/// When to look again, and whose change to look for (without it, the same as before).
type Next = (Option<(Instant, Class)>, Option<Vec<Id>>);

impl Turn<'_> {
    /// The operation as this worker knows it, or else as the object has it.
    fn recall_operation(&mut self) {
        let stored = view::operation(&self.object);
        // The stored one knows its begin to the millisecond.
        let begin = |handle: &Handle| (handle.verb, handle.generation, handle.started.as_millisecond());
        let same = |ours: &Handle| stored.as_ref().is_some_and(|theirs| begin(theirs) == begin(ours));
        if !self.mind.unstored && !self.mind.handle.as_ref().is_some_and(same) {
            self.mind.handle = stored;
        }
    }

    fn operation(&self) -> Option<Operation> {
        let handle = self.mind.handle.as_ref()?;
        Some(Operation {
            deletes: handle.verb == Verb::Delete,
            generation: handle.generation,
            outcome: self.ended.unwrap_or(Progress::Running(handle.next_poll)),
            unheard: self.mind.unheard.clone(),
        })
    }

    fn observed(&self) -> Observed {
        Observed {
            object: view::facts(&self.object),
            policy: self.policy,
            installation: self.ctx.settings.installation.clone(),
            memory: self.mind.memory.clone(),
            operation: self.operation(),
            desired: self.resolution.as_ref().map(|resolution| resolution.desired.clone()),
            live: self.live.as_ref().map(|(live, _)| live.clone()),
            due: self.due,
            unclean: self.unclean,
        }
    }

    fn generation(&self) -> i64 {
        self.object.metadata.generation.unwrap_or(0)
    }

    fn subject(&self) -> Option<Subject<'_>> {
        let version = self.kind.version(&self.version)?;
        Some(Subject { id: self.id, object: &self.object, kind: &self.kind, version, policy: self.policy })
    }

    /// How urgent this turn's calls are.
    fn priority(&self) -> Priority {
        match self.class {
            Class::Change | Class::Wake => Priority::UserChange,
            Class::Operation => Priority::Poll,
            Class::Retry => Priority::Retry,
            Class::Resync => Priority::Resync,
        }
    }

    /// Plans and applies until the turn is over.
    async fn walk(&mut self) -> Result<Next, Break> {
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
            if let Some(next) = self.apply(plan, now).await? {
                return Ok(next);
            }
        }
        tracing::error!("Steps do not lead anywhere");
        self.outcome = Outcome::Failed;
        Ok((Some((Instant::now() + Duration::from_mins(1), Class::Retry)), None))
    }

    /// Applies one step. An answer ends the turn.
    async fn apply(&mut self, plan: Plan, now: Timestamp) -> Result<Option<Next>, Break> {
        match plan {
            Plan::Ignore { .. } => {
                self.outcome = Outcome::Ignored;
                return Ok(Some((None, Some(Vec::new()))));
            }
            Plan::Nothing => {
                self.mind.memory.recover();
                // Without a look at the inputs they are what they were.
                let uses = self.resolution.as_ref().map(|resolution| resolution.uses.clone());
                return Ok(Some((None, uses)));
            }
            Plan::Wait { ready, until, class, mut waits_for } => {
                if let Some(ready) = ready {
                    self.show_ready(&ready, now).await?;
                }
                let resolved = self.resolution.is_some();
                if let Some(resolution) = &self.resolution {
                    waits_for.extend(resolution.uses.iter().cloned());
                }
                let waits_for = (resolved || !waits_for.is_empty()).then_some(waits_for);
                if self.outcome != Outcome::Failed {
                    self.outcome = Outcome::Waiting;
                }
                let wait = Duration::try_from(until.duration_since(now)).unwrap_or(Duration::ZERO);
                return Ok(Some((Some((Instant::now() + wait, class)), waits_for)));
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
                return Ok(Some((None, Some(Vec::new()))));
            }
        }
        Ok(None)
    }

    /// Remembers what went wrong; the next plan waits it out.
    fn fail(&mut self, trouble: Trouble) {
        // The step may have taken long, and what it was told to wait counts from its end.
        let now = Timestamp::now();
        tracing::info!(reason = trouble.ready.reason.as_str(), detail = %trouble.ready.message, "Held up");
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

    /// Writes the Ready condition if it is news.
    async fn show_ready(&mut self, ready: &Ready, now: Timestamp) -> Result<(), Break> {
        let present = Condition::ready_in(view::status(&self.object));
        let Some(next) = condition::replace(present.as_ref(), ready, self.generation(), now) else { return Ok(()) };
        let status = patch::status_ready(view::status(&self.object), &next);
        Ok(self.write_status(&status, present.as_ref(), &next).await?)
    }

    /// Writes the status if it is news.
    async fn write_status(
        &mut self,
        to: &Value,
        before: Option<&Condition>,
        ready: &Condition,
    ) -> Result<(), cluster::Error> {
        let Some(difference) = patch::difference(view::status(&self.object), to) else { return Ok(()) };
        let written =
            self.ctx.cluster.patch_status(&self.claim, self.id, &self.kind, &self.version, &difference).await?;
        // The answer is in the version of the write, which lacks nothing that decisions need but the spec's own version.
        self.object.data["status"] = written.data.get("status").cloned().unwrap_or(Value::Null);
        self.object.metadata.resource_version.clone_from(&written.metadata.resource_version);
        self.take_generation(&written);
        self.ctx.recorder.tell(self.id, &written, before, ready);
        self.standing = Some(resolve::standing_of(&self.object));
        Ok(())
    }

    /// A write's answer may show that the user changed the object meanwhile: then what was resolved is void.
    fn take_generation(&mut self, written: &DynamicObject) {
        let moved = written.metadata.generation != self.object.metadata.generation
            || written.metadata.deletion_timestamp.is_some() != self.object.metadata.deletion_timestamp.is_some();
        if moved {
            self.object.metadata.generation = written.metadata.generation;
            self.object.metadata.deletion_timestamp.clone_from(&written.metadata.deletion_timestamp);
            if let Some(spec) = written.data.get("spec") {
                self.object.data["spec"] = spec.clone();
            }
            self.object.metadata.managed_fields.clone_from(&written.metadata.managed_fields);
            let stated = view::spec_version(&self.object).and_then(|version| self.kind.version(&version));
            if let Some(version) = stated {
                self.version = version.name().to_owned();
            }
            self.resolution = None;
            self.live = None;
        }
    }
}
