//! The steps of a reconcile that write to the object.

use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::Value;

use super::{Break, Reconcile};
use crate::engine::condition::{self, Condition, Ready};
use crate::engine::object::Policy;
use crate::engine::trouble::Trouble;
use crate::engine::{cluster, names, patch, resolve, view};
use crate::fleet::Handover;
use crate::metrics::{Outcome, Write};

impl Reconcile<'_> {
    /// Writes finalizer, ARM id, owner and intent, in one patch.
    pub(super) async fn make_claim(&mut self) -> Result<(), Break> {
        let Some(resolution) = &self.resolution else { return Err(Break::Later) };
        let intent = (self.policy != Policy::Skip).then(|| resolution.desired.intent.clone());
        let facts = patch::ClaimFacts {
            installation: &self.ctx.settings.installation,
            resource_id: &resolution.desired.id,
            intent: intent.as_ref(),
            owner: resolution.owner.as_ref(),
        };
        let patch = patch::claim(&self.object, &facts);
        // What became of a PUT that was announced before does not change when somebody takes parts of the claim away.
        let announced = view::claimed(&self.object, names::APPLIED).map(str::to_owned);
        let same_resource =
            view::resource_id(&self.object).is_some_and(|id| id.eq_ignore_ascii_case(facts.resource_id));
        self.patch(&patch, Write::Claim).await?;
        self.forget_handle();
        // What a former owner may have sent was read before this claim; what happens from here on is ours.
        self.handover = Handover::Clean;
        if let Some(intent) = intent.filter(|intent| !same_resource || announced != Some(intent.to_string())) {
            self.mind.memory.intend(intent);
        }
        Ok(())
    }

    /// Writes metadata. A claim, which may name another resource, voids what was read.
    pub(super) async fn patch(&mut self, patch: &Value, write: Write) -> Result<(), Break> {
        let written = self.ctx.cluster.patch(&self.claim, self.id, &self.kind, &self.version, patch, write).await?;
        if write == Write::Claim {
            self.writes += 1;
        }
        self.object.metadata.annotations.clone_from(&written.metadata.annotations);
        self.object.metadata.finalizers.clone_from(&written.metadata.finalizers);
        self.object.metadata.labels.clone_from(&written.metadata.labels);
        self.object.metadata.owner_references.clone_from(&written.metadata.owner_references);
        self.object.metadata.resource_version.clone_from(&written.metadata.resource_version);
        self.take_generation(&written);
        Ok(())
    }

    /// Writes the status that Azure shows, and Ready=True.
    pub(super) async fn finish(&mut self, now: Timestamp) -> Result<(), Break> {
        let finished = self.live.found(self.moment()).and_then(|body| self.finished_status(body, now));
        let Some((status, ready)) = finished else { return Err(Break::Later) };
        let before = Condition::ready_in(view::status(&self.object));
        match self.write_status(&status, before.as_ref(), &ready).await {
            Err(error) if error.is_too_large() => {
                self.fail(Trouble::status_too_large(self.ctx.settings.resync));
                return Ok(());
            }
            written => written?,
        }
        self.mind.memory.recover();
        self.outcome = Outcome::Ready;
        self.live.mark_shown(self.moment());
        Ok(())
    }

    /// The status as it should be once the resource is as this body shows it.
    pub(super) fn finished_status(&self, body: &Value, now: Timestamp) -> Option<(Value, Condition)> {
        let shown = self.kind.version(&self.version)?.status(body);
        let present = view::status(&self.object);
        let before = Condition::ready_in(present);
        let ready = condition::replace(before.as_ref(), &Ready::succeeded(), self.generation(), now).or(before)?;
        Some((patch::status(present, shown, &ready), ready))
    }

    pub(super) async fn release(&mut self, why: &'static str) -> Result<(), Break> {
        let patch = patch::release(&self.object);
        self.ctx.cluster.patch(&self.claim, self.id, &self.kind, &self.version, &patch, Write::Release).await?;
        self.forget_handle();
        tracing::info!(why, "Released object");
        self.outcome = Outcome::Deleted;
        Ok(())
    }

    /// Writes the Ready condition if it is news.
    pub(super) async fn show_ready(&mut self, ready: &Ready, now: Timestamp) -> Result<(), Break> {
        let present = Condition::ready_in(view::status(&self.object));
        let Some(next) = condition::replace(present.as_ref(), ready, self.generation(), now) else { return Ok(()) };
        let status = patch::status_ready(view::status(&self.object), &next);
        Ok(self.write_status(&status, present.as_ref(), &next).await?)
    }

    /// Writes the status if it is news.
    pub(super) async fn write_status(
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

    /// A write's answer may show that the user changed the object meanwhile: then what was resolved is void, and what was read
    /// with it (see [`super::reading`]).
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
        }
    }
}
