//! The steps of a reconcile that call Azure for the object's resource.

use std::sync::Arc;
use std::time::Instant;

use flotilla_crds::ArmId;
use jiff::Timestamp;
use serde_json::Value;

use super::reading::Moment;
use super::{Break, Reconcile};
use crate::arm::identity::Origin;
use crate::arm::operation::{self, Start};
use crate::arm::{self, Answer, Call, Category, Verb};
use crate::budget::Class;
use crate::engine::azure::Error;
use crate::engine::live::{Live, State};
use crate::engine::object::Intent;
use crate::engine::trouble::{Trouble, core};
use crate::engine::{condition, names, patch, view};
use crate::fleet::Handover;

impl Reconcile<'_> {
    /// What a reading must have been taken in to count.
    pub(super) fn moment(&self) -> Moment {
        Moment {
            generation: self.generation(),
            deleting: self.object.metadata.deletion_timestamp.is_some(),
            writes: self.writes,
        }
    }

    /// Takes in what a read showed: others' unfinished work is known from here on.
    fn take_reading(&mut self, live: Live, body: Value) {
        self.live.take(self.moment(), live, body);
        self.handover = Handover::Clean;
    }

    /// The ARM id to act on: the one claimed, which stays the same unless the resource never came to exist.
    fn resource_id(&self) -> String {
        let claimed = view::claimed(&self.object, names::RESOURCE_ID).map(str::to_owned);
        let desired = || self.resolution.as_ref().map(|resolution| resolution.desired.id.clone());
        claimed.or_else(desired).unwrap_or_default()
    }

    fn intent(&self) -> Option<Intent> {
        Some(self.resolution.as_ref()?.desired.intent.clone())
    }

    /// Makes a call. Whatever was read before a write says nothing about the time after it.
    async fn call(&mut self, call: Call<'_>) -> Result<Answer, Error> {
        if call.verb.class() != Class::Read {
            self.writes += 1;
        }
        let Some(resolution) = &self.resolution else { return Err(Error::Lost) };
        self.ctx.azure.call(&self.claim, &resolution.identity, call.correlated(self.correlation)).await
    }

    fn api_version(&self) -> String {
        self.kind.version(&self.version).map(|version| version.api_version().to_owned()).unwrap_or_default()
    }

    pub(super) async fn read(&mut self, now: Timestamp) -> Result<(), Break> {
        let (id, api_version) = (self.resource_id(), self.api_version());
        match self.call(Call::get(&id, &api_version, self.priority())).await {
            Ok(answer) => self.take_live(answer.body),
            Err(Error::Arm(error)) if error.is_gone() => {
                let intent = self.intent();
                let live = self.mind.memory.read(intent.as_ref(), Live::Absent);
                self.take_reading(live, Value::Null);
            }
            Err(error) => {
                let category = match &error {
                    Error::Arm(error) => error.category(),
                    Error::Parked(_) | Error::Lost => Category::Throttled,
                };
                let deleting = self.object.metadata.deletion_timestamp.is_some();
                let forbidden = category == Category::Authorization && deleting;
                let parent_absent = forbidden && self.parent_is_absent(&id).await;
                self.live.take(self.moment(), Live::Refused { category, parent_absent }, Value::Null);
                // A read that was to explain a refusal leaves that as the trouble.
                if self.mind.memory.resting_at(self.generation(), now).is_none() && !parent_absent {
                    self.refused(error).await?;
                }
            }
        }
        Ok(())
    }

    /// Some services say "forbidden" about what is gone with its parent.
    async fn parent_is_absent(&mut self, id: &str) -> bool {
        let parent = ArmId::parse(id).ok().and_then(|id| id.parent());
        let Some(parent) = parent else { return false };
        let kind = self.ctx.catalog.kind_of_arm_type(&parent.resource_type());
        let version = kind.and_then(|entry| {
            entry.versions.iter().find(|version| version.name == entry.hub).or(entry.versions.last())
        });
        let Some(version) = version else { return false };
        let call = Call::get(parent.as_str(), &version.api_version, self.priority());
        matches!(self.call(call).await, Err(Error::Arm(error)) if error.is_gone())
    }

    /// Takes in a resource as Azure shows it.
    pub(super) fn take_live(&mut self, body: Value) {
        let Some(version) = self.kind.version(&self.version) else { return };
        let sent = self.resolution.as_ref().map(|resolution| &resolution.body).filter(|body| body.is_object());
        let differences = sent.map(|sent| version.stated_differences(sent, &body)).unwrap_or_default();
        let differences = differences.iter().map(|found| format!("{} {:?}", found.path, found.change)).collect();
        let shown = self
            .finished_status(&body, Timestamp::now())
            .is_some_and(|(status, _)| patch::difference(view::status(&self.object), &status).is_none());
        let intent = self.intent();
        let before = intent.as_ref().map(|intent| self.mind.memory.put(intent));
        let found = Live::Found { state: State::of(&body), differences, shown };
        let live = self.mind.memory.read(intent.as_ref(), found);
        let after = intent.as_ref().map(|intent| self.mind.memory.put(intent));
        if before != after && State::of(&body) == State::Failed {
            self.fail(Trouble::failed_state(&body));
        }
        self.take_reading(live, body);
    }

    pub(super) async fn put(&mut self) -> Result<(), Break> {
        let (Some(intent), Some(resolution)) = (self.intent(), &self.resolution) else { return Err(Break::Later) };
        let (id, api_version) = (resolution.desired.id.clone(), intent.api_version.clone());
        let mut body = resolution.body.clone();
        if let Err(error) = self.keep_children(&id, &api_version, &mut body).await {
            return self.refused(error).await;
        }
        self.mind.memory.sending(&intent);
        let call = Call::put(&id, &api_version, &body, self.priority());
        let answer = match self.call(call).await {
            Ok(answer) => answer,
            Err(error) => {
                // Parked and refused calls had no effect; what became of others is unknown.
                match &error {
                    Error::Parked(_) => self.mind.memory.intend(intent),
                    Error::Arm(error) if error.status().is_some_and(|status| status < 500 && status != 408) => {
                        self.mind.memory.rejected(&intent);
                    }
                    Error::Lost | Error::Arm(_) => {}
                }
                return self.refused(error).await;
            }
        };
        let start = Start {
            verb: Verb::Put,
            resource_id: &id,
            api_version: &api_version,
            generation: intent.generation,
            body_hash: &intent.hash,
        };
        match operation::begin(&start, &answer, Timestamp::now(), self.ctx.azure.scale()) {
            operation::Outcome::Done => self.mind.memory.accepted(&intent),
            operation::Outcome::Poll(handle) => {
                self.mind.memory.accepted(&intent);
                self.keep_handle(handle).await?;
            }
            operation::Outcome::Failed(failure) => {
                self.mind.memory.rejected(&intent);
                self.fail(Trouble::operation(&id, Verb::Put, &failure));
            }
        }
        Ok(())
    }

    /// A PUT of some parents deletes the children that it leaves out, so it includes those that Azure has.
    async fn keep_children(&mut self, id: &str, api_version: &str, body: &mut Value) -> Result<(), Error> {
        let kind = Arc::clone(&self.kind);
        let Some(version) = kind.version(&self.version).filter(|version| version.has_child_lists()) else {
            return Ok(());
        };
        match self.call(Call::get(id, api_version, self.priority())).await {
            Ok(answer) => {
                version.keep_children(body, &answer.body);
                Ok(())
            }
            Err(Error::Arm(error)) if error.is_gone() => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn delete(&mut self) -> Result<(), Break> {
        let (id, api_version) = (self.resource_id(), self.api_version());
        self.mind.memory.delete_refused = false;
        let answer = match self.call(Call::delete(&id, &api_version)).await {
            Ok(answer) => answer,
            // A subscription that the credential can't see does not prove that the resource is gone.
            Err(Error::Arm(error)) if error.is_gone() && error.code() != Some("SubscriptionNotFound") => {
                self.mind.memory.deleted = true;
                return Ok(());
            }
            Err(Error::Arm(error)) if error.status() == Some(405) => {
                self.fail(Trouble::not_deletable(&id));
                return Ok(());
            }
            Err(error) => {
                let explainable = matches!(
                    &error,
                    Error::Arm(error) if matches!(error.category(), Category::Authorization | Category::Invalid
                        | Category::NotFound | Category::MissingDependency)
                );
                self.mind.memory.delete_refused = explainable;
                return self.refused(error).await;
            }
        };
        let start = Start {
            verb: Verb::Delete,
            resource_id: &id,
            api_version: &api_version,
            generation: self.generation(),
            body_hash: "",
        };
        match operation::begin(&start, &answer, Timestamp::now(), self.ctx.azure.scale()) {
            operation::Outcome::Done => self.mind.memory.deleted = true,
            operation::Outcome::Poll(handle) => self.keep_handle(handle).await?,
            operation::Outcome::Failed(failure) => self.fail(Trouble::operation(&id, Verb::Delete, &failure)),
        }
        Ok(())
    }

    /// Takes in that a call failed.
    async fn refused(&mut self, error: Error) -> Result<(), Break> {
        match error {
            Error::Lost => return Err(Break::Lost),
            Error::Parked(parked) => {
                let wait = parked.until.saturating_duration_since(Instant::now());
                self.fail(Trouble::parked(wait));
            }
            Error::Arm(error) => {
                let mut trouble = Trouble::from(&error);
                // Another credential is the usual remedy; a changed Secret brings the next try forward.
                let denied = matches!(error.category(), Category::Authentication | Category::Authorization);
                let origin = self.resolution.as_ref().map(|resolution| resolution.identity.origin.clone());
                if let (true, Some(Origin::Secret { namespace, name })) = (denied, origin) {
                    trouble.waits_for.push(core("Secret", &namespace, &name));
                }
                if self.object.metadata.deletion_timestamp.is_some() {
                    // Deleting never stops.
                    trouble.ready.severity = condition::Severity::Warning;
                    if trouble.retry == arm::Retry::UntilSpecChanges {
                        trouble.retry = arm::Retry::VerySlow;
                    }
                }
                self.fail(trouble);
                if let Some(resolution) = &self.resolution {
                    self.ctx.azure.register(&self.claim, &resolution.identity, &error).await;
                }
            }
        }
        Ok(())
    }
}
