//! The steps of a turn that write to Azure or to the object.

use flotilla_crds::ArmId;
use jiff::Timestamp;
use serde_json::Value;

use super::{Break, Progress, Turn};
use crate::arm::identity::Origin;
use crate::arm::operation::{self, Failure, Form, Handle, Start, Step};
use crate::arm::{self, Answer, Call, Category, Verb};
use crate::engine::azure::Error;
use crate::engine::condition::{self, Condition, Ready, Reason};
use crate::engine::live::{Live, State};
use crate::engine::memory::Trouble;
use crate::engine::object::{Intent, Policy};
use crate::engine::trouble::core;
use crate::engine::{names, patch, retry, view};
use crate::metrics::{Outcome, Write};

/// Polls that fail in a row before people hear of it.
const POLLS_UNHEARD: u32 = 3;

impl Turn<'_> {
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
        // The fate of what another worker may have sent was looked at before; from here on it is ours.
        self.unclean = false;
        self.live = None;
        if let Some(intent) = intent.filter(|intent| !same_resource || announced != Some(intent.to_string())) {
            self.mind.memory.intend(intent);
        }
        Ok(())
    }

    async fn patch(&mut self, patch: &Value, write: Write) -> Result<(), Break> {
        let written = self.ctx.cluster.patch(&self.claim, self.id, &self.kind, &self.version, patch, write).await?;
        self.object.metadata.annotations.clone_from(&written.metadata.annotations);
        self.object.metadata.finalizers.clone_from(&written.metadata.finalizers);
        self.object.metadata.labels.clone_from(&written.metadata.labels);
        self.object.metadata.owner_references.clone_from(&written.metadata.owner_references);
        self.object.metadata.resource_version.clone_from(&written.metadata.resource_version);
        self.take_generation(&written);
        Ok(())
    }

    /// The ARM id to act on: the one claimed, which stays the same until nothing came of it.
    fn resource_id(&self) -> String {
        let claimed = view::claimed(&self.object, names::RESOURCE_ID).map(str::to_owned);
        let desired = || self.resolution.as_ref().map(|resolution| resolution.desired.id.clone());
        claimed.or_else(desired).unwrap_or_default()
    }

    fn intent(&self) -> Option<Intent> {
        Some(self.resolution.as_ref()?.desired.intent.clone())
    }

    async fn call(&self, call: Call<'_>) -> Result<Answer, Error> {
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
                self.live = Some((live, Value::Null));
                self.unclean = false;
            }
            Err(error) => {
                let category = match &error {
                    Error::Arm(error) => error.category(),
                    Error::Parked(_) | Error::Lost => Category::Throttled,
                };
                let deleting = self.object.metadata.deletion_timestamp.is_some();
                let forbidden = category == Category::Authorization && deleting;
                let parent_absent = forbidden && self.parent_is_absent(&id).await;
                self.live = Some((Live::Refused { category, parent_absent }, Value::Null));
                // A read that was to explain a refusal leaves that as the trouble.
                if self.mind.memory.resting_at(self.generation(), now).is_none() && !parent_absent {
                    self.refused(error).await?;
                }
            }
        }
        Ok(())
    }

    /// Some services say "forbidden" about what is gone with its parent.
    async fn parent_is_absent(&self, id: &str) -> bool {
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
    fn take_live(&mut self, body: Value) {
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
            let trouble = failed_state(&body);
            self.fail(trouble);
        }
        self.live = Some((live, body));
        self.unclean = false;
    }

    pub(super) async fn put(&mut self) -> Result<(), Break> {
        let (Some(intent), Some(resolution)) = (self.intent(), &self.resolution) else { return Err(Break::Later) };
        let (id, api_version) = (resolution.desired.id.clone(), intent.api_version.clone());
        let mut body = resolution.body.clone();
        if let Err(error) = self.keep_children(&id, &api_version, &mut body).await {
            return self.refused(error).await;
        }
        self.mind.memory.sending(&intent);
        // What was read before says nothing about after.
        self.live = None;
        let call = Call::put(&id, &api_version, &body, self.priority());
        let answer = match self.call(call).await {
            Ok(answer) => answer,
            Err(error) => {
                // Parked and refused calls left no trace; of others nobody knows what became.
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
                self.fail(operation_failed(&id, Verb::Put, &failure));
            }
        }
        Ok(())
    }

    /// A PUT of some parents deletes the children that it does not carry, so those that Azure has go along.
    async fn keep_children(&self, id: &str, api_version: &str, body: &mut Value) -> Result<(), Error> {
        let Some(version) = self.kind.version(&self.version).filter(|version| version.has_child_lists()) else {
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
        self.live = None;
        let answer = match self.call(Call::delete(&id, &api_version)).await {
            Ok(answer) => answer,
            // A subscription that nobody shows us is no proof that the resource is gone.
            Err(Error::Arm(error)) if error.is_gone() && error.code() != Some("SubscriptionNotFound") => {
                self.mind.memory.deleted = true;
                return Ok(());
            }
            Err(Error::Arm(error)) if error.status() == Some(405) => {
                self.fail(not_deletable(&id));
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
            operation::Outcome::Failed(failure) => self.fail(operation_failed(&id, Verb::Delete, &failure)),
        }
        Ok(())
    }

    /// Makes the handle durable before anything is done with the answer.
    ///
    /// If that fails it is tried again at the next look, before anything else.
    pub(super) async fn keep_handle(&mut self, handle: Handle) -> Result<(), Break> {
        let text = serde_json::to_string(&handle).map_err(|_| Break::Later)?;
        self.mind.handle = Some(handle);
        self.mind.unstored = true;
        self.ended = None;
        self.patch(&patch::operation(Some(&text)), Write::Operation).await?;
        self.mind.unstored = false;
        Ok(())
    }

    pub(super) async fn poll(&mut self) -> Result<(), Break> {
        if self.resolution.is_none() {
            // Only the credential is needed, and it may be found where the rest is not.
            self.resolve_identity().await;
        }
        let Some(mut handle) = self.mind.handle.take() else { return Err(Break::Later) };
        let Some(identity) = self.polling_identity().await else {
            let later = Timestamp::now().saturating_add(std::time::Duration::from_secs(5));
            handle.next_poll = later.unwrap_or(Timestamp::MAX);
            self.mind.handle = Some(handle);
            return Ok(());
        };
        let polled = self.ctx.azure.call(&self.claim, &identity, handle.call().correlated(self.correlation)).await;
        let scale = self.ctx.azure.scale();
        let now = Timestamp::now();
        let step = match &polled {
            Ok(answer) => handle.advance(Ok(answer), now, scale),
            Err(Error::Arm(error)) => handle.advance(Err(error), now, scale),
            Err(Error::Parked(parked)) => {
                let wait = parked.until.saturating_duration_since(std::time::Instant::now());
                handle.next_poll = now.saturating_add(wait).unwrap_or(Timestamp::MAX);
                Step::Wait { until: handle.next_poll }
            }
            Err(Error::Lost) => {
                self.mind.handle = Some(handle);
                return Err(Break::Lost);
            }
        };
        let (id, verb, generation) = (handle.resource_id.clone(), handle.verb, handle.generation);
        let showed_resource = handle.form == Form::Resource;
        // One that fails now and then is nobody's business.
        self.mind.unheard = match &polled {
            Err(Error::Arm(error)) if handle.failures() >= POLLS_UNHEARD => Some(Trouble::from(error).ready),
            _ => None,
        };
        self.mind.handle = Some(handle);
        let intent = view::facts(&self.object).intent.filter(|intent| intent.generation == generation);
        match step {
            Step::Wait { .. } => {}
            Step::Done | Step::ReadResource => {
                self.ended = Some(Progress::Done);
                if let Some(intent) = intent.filter(|_| verb == Verb::Put) {
                    self.mind.memory.accepted(&intent);
                }
                if let (Ok(answer), true, Verb::Put) = (polled, showed_resource && step == Step::Done, verb)
                    && self.resolution.is_some()
                {
                    self.take_live(answer.body);
                }
            }
            Step::Failed(failure) => {
                self.ended = Some(Progress::Failed);
                if let Some(intent) = intent.filter(|_| verb == Verb::Put) {
                    self.mind.memory.rejected(&intent);
                }
                self.fail(operation_failed(&id, verb, &failure));
            }
        }
        Ok(())
    }

    /// Writes the status that Azure shows, and Ready=True.
    pub(super) async fn finish(&mut self, now: Timestamp) -> Result<(), Break> {
        let Some((Live::Found { .. }, body)) = &self.live else { return Err(Break::Later) };
        let Some((status, ready)) = self.finished_status(&body.clone(), now) else { return Err(Break::Later) };
        let before = Condition::ready_in(view::status(&self.object));
        let generation = self.generation();
        match self.write_status(&status, before.as_ref(), &ready).await {
            Err(error) if error.is_too_large() => {
                self.fail(status_too_large(self.ctx.settings.resync));
                return Ok(());
            }
            written => written?,
        }
        self.mind.memory.recover();
        self.outcome = Outcome::Ready;
        if generation == self.generation()
            && let Some((Live::Found { shown, .. }, _)) = &mut self.live
        {
            *shown = true;
        }
        Ok(())
    }

    /// The status as it should be once the resource is as this body shows it.
    fn finished_status(&self, body: &Value, now: Timestamp) -> Option<(Value, Condition)> {
        let shown = self.kind.version(&self.version)?.status(body);
        let present = view::status(&self.object);
        let before = Condition::ready_in(present);
        let ready = condition::replace(before.as_ref(), &Ready::succeeded(), self.generation(), now).or(before)?;
        Some((patch::status(present, shown, &ready), ready))
    }

    pub(super) async fn drop_operation(&mut self) -> Result<(), Break> {
        self.forget_handle();
        if view::annotation(&self.object, names::OPERATION).is_some() {
            self.patch(&patch::operation(None), Write::Operation).await?;
        }
        Ok(())
    }

    fn forget_handle(&mut self) {
        self.mind.handle = None;
        self.mind.unstored = false;
        self.mind.unheard = None;
        self.ended = None;
    }

    pub(super) async fn release(&mut self, why: &'static str) -> Result<(), Break> {
        let patch = patch::release(&self.object);
        self.ctx.cluster.patch(&self.claim, self.id, &self.kind, &self.version, &patch, Write::Release).await?;
        self.forget_handle();
        tracing::info!(why, "Let the object go");
        self.outcome = Outcome::Deleted;
        Ok(())
    }

    /// A call did not succeed.
    async fn refused(&mut self, error: Error) -> Result<(), Break> {
        match error {
            Error::Lost => return Err(Break::Lost),
            Error::Parked(parked) => {
                let wait = parked.until.saturating_duration_since(std::time::Instant::now());
                self.fail(parked_trouble(wait));
            }
            Error::Arm(error) => {
                let mut trouble = Trouble::from(&error);
                // Another credential is the usual cure, and is looked for at once.
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

    async fn resolve_identity(&mut self) {
        // A poll that ends the operation is followed by a read for the status, which needs the body too.
        let Some(subject) = self.subject() else { return };
        match crate::engine::resolve::resolve(self.ctx, &subject).await {
            Ok(resolution) => self.resolution = Some(resolution),
            Err(trouble) => tracing::debug!(reason = trouble.ready.reason.as_str(), "Polls without the rest"),
        }
    }

    async fn polling_identity(&self) -> Option<std::sync::Arc<arm::Identity>> {
        if let Some(resolution) = &self.resolution {
            return Some(std::sync::Arc::clone(&resolution.identity));
        }
        let credential = view::annotation(&self.object, names::CREDENTIAL_FROM);
        self.ctx.identity_for_deletion(self.id, credential).await.ok()
    }
}

/// ARM asked everybody to wait.
fn parked_trouble(wait: std::time::Duration) -> Trouble {
    Trouble {
        ready: Ready::reconciling("Azure limits the rate of requests; this one waits for its turn."),
        category: Some(Category::Throttled),
        retry: arm::Retry::After(wait),
        waits_for: Vec::new(),
    }
}

/// A long-running operation ended badly.
fn operation_failed(id: &str, verb: Verb, failure: &Failure) -> Trouble {
    let context = arm::error::Context { verb: Some(verb), path: id.to_owned(), ..arm::error::Context::default() };
    Trouble::from(&arm::Error::operation(context, &failure.code, &failure.message))
}

/// A PUT was taken, and the resource says that it failed.
fn failed_state(body: &Value) -> Trouble {
    let id = body["id"].as_str().unwrap_or_default();
    let context = arm::error::Context { verb: Some(Verb::Put), path: id.to_owned(), ..arm::error::Context::default() };
    let word = body["properties"]["provisioningState"].as_str().unwrap_or("Failed");
    Trouble::from(&arm::Error::operation(context, "ProvisioningFailed", &format!("the resource's state is {word}")))
}

/// Azure has the resource as it should be, and the object can't hold what it shows.
fn status_too_large(resync: Option<std::time::Duration>) -> Trouble {
    let retry = arm::Retry::UntilSpecChanges;
    let message = format!(
        "Azure has the resource, and the object is too large to hold its status as well. Make the spec smaller. {}",
        retry::words(retry, resync)
    );
    Trouble { ready: Ready::error(Reason::Failed, message), category: None, retry, waits_for: Vec::new() }
}

/// Azure knows no DELETE for the type.
fn not_deletable(id: &str) -> Trouble {
    let message = format!(
        "Azure can't delete {id}. It goes with what it is part of; to let this object go now, set the annotation {}: \
         detach-on-delete.",
        names::RECONCILE_POLICY
    );
    Trouble {
        ready: Ready::warning(Reason::DeletionNotSupportedInAzure, message),
        category: None,
        retry: arm::Retry::VerySlow,
        waits_for: Vec::new(),
    }
}
