//! The steps of a reconcile that follow a long-running operation.
//!
//! Keeps true: a handle is durable on the object before anything is done with the answer that brought it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::{Break, Progress, Reconcile};
use crate::arm::operation::{Form, Handle, Step};
use crate::arm::{self, Verb};
use crate::engine::azure::Error;
use crate::engine::memory::Operation;
use crate::engine::trouble::Trouble;
use crate::engine::{names, patch, resolve, view};
use crate::metrics::Write;

/// Polls that fail in a row before the condition says so.
const POLLS_UNHEARD: u32 = 3;
/// Until the next attempt to find a credential to poll with.
const NO_CREDENTIAL: Duration = Duration::from_secs(5);

impl Reconcile<'_> {
    /// The operation as this worker knows it, or else as the object has it.
    pub(super) fn recall_operation(&mut self) {
        let stored = view::operation(&self.object);
        // The stored one has its start to the millisecond.
        let start = |handle: &Handle| (handle.verb, handle.generation, handle.started.as_millisecond());
        let same = |ours: &Handle| stored.as_ref().is_some_and(|theirs| start(theirs) == start(ours));
        if !self.mind.unstored && !self.mind.handle.as_ref().is_some_and(same) {
            self.mind.handle = stored;
        }
    }

    pub(super) fn operation(&self) -> Option<Operation> {
        let handle = self.mind.handle.as_ref()?;
        Some(Operation {
            deletes: handle.verb == Verb::Delete,
            generation: handle.generation,
            outcome: self.ended.unwrap_or(Progress::Running(handle.next_poll)),
            unheard: self.mind.unheard.clone(),
        })
    }

    /// Makes the handle durable before anything is done with the answer.
    ///
    /// If that fails, the next reconcile does it before anything else.
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
            handle.next_poll = Timestamp::now().saturating_add(NO_CREDENTIAL).unwrap_or(Timestamp::MAX);
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
                let wait = parked.until.saturating_duration_since(Instant::now());
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
        // A poll that fails now and then is not worth a condition.
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
                self.fail(Trouble::operation(&id, verb, &failure));
            }
        }
        Ok(())
    }

    pub(super) async fn drop_operation(&mut self) -> Result<(), Break> {
        self.forget_handle();
        if view::annotation(&self.object, names::OPERATION).is_some() {
            self.patch(&patch::operation(None), Write::Operation).await?;
        }
        Ok(())
    }

    pub(super) fn forget_handle(&mut self) {
        self.mind.handle = None;
        self.mind.unstored = false;
        self.mind.unheard = None;
        self.ended = None;
    }

    async fn resolve_identity(&mut self) {
        // A poll that ends the operation is followed by a read for the status, which needs the body too.
        let Some(subject) = self.subject() else { return };
        match resolve::resolve(self.ctx, &subject).await {
            Ok(resolution) => self.resolution = Some(resolution),
            Err(trouble) => {
                tracing::debug!(reason = trouble.ready.reason.as_str(), "Polling with the credential alone");
            }
        }
    }

    async fn polling_identity(&self) -> Option<Arc<arm::Identity>> {
        if let Some(resolution) = &self.resolution {
            return Some(Arc::clone(&resolution.identity));
        }
        let credential = view::annotation(&self.object, names::CREDENTIAL_FROM);
        self.ctx.identity_for_deletion(self.id, credential).await.ok()
    }
}
