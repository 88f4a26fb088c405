//! The engine's edge to ARM: every call is paid for from the budget, and every write is made under a valid claim.

use std::sync::Arc;
use std::time::Instant;

use crate::arm::{self, Answer, Call, Client, Identity};
use crate::budget::{Budget, Class, Parked};
use crate::fleet::Claim;
use crate::metrics::Metrics;

/// A call that was not made, or did not succeed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The claim on the object has ended: another worker may own it.
    #[error("the claim has ended")]
    Lost,
    /// ARM asked all callers to wait.
    #[error(transparent)]
    Parked(#[from] Parked),
    /// ARM refused, or did not answer.
    #[error(transparent)]
    Arm(#[from] arm::Error),
}

/// ARM, as one worker may use it.
#[derive(Clone, Debug)]
pub(crate) struct Azure {
    client: Client,
    budget: Budget,
    metrics: Arc<Metrics>,
}

impl Azure {
    /// Calls go out through `client` and are paid from `budget`.
    pub(crate) fn new(client: Client, budget: Budget, metrics: Arc<Metrics>) -> Self {
        Self { client, budget, metrics }
    }

    /// How much faster than the real one the ARM on the other side runs.
    pub(crate) fn scale(&self) -> arm::TimeScale {
        self.client.scale()
    }

    /// Makes one call. Waiting for the budget may take long, so the claim is checked after it.
    pub(crate) async fn call(&self, claim: &Claim, identity: &Arc<Identity>, call: Call<'_>) -> Result<Answer, Error> {
        let bucket = identity.bucket("", call.verb.class());
        let permit = tokio::select! {
            permit = self.budget.acquire(&bucket, call.priority) => permit?,
            () = claim.leaving() => return Err(Error::Lost),
        };
        if !claim.valid(Instant::now()) {
            permit.give_back();
            self.metrics.dropped();
            return Err(Error::Lost);
        }
        let answer = self.client.send(identity, call).await;
        drop(permit);
        let (status, rate) = match &answer {
            Ok(answer) => (Some(answer.status), &answer.rate),
            Err(error) => (error.status(), error.rate()),
        };
        self.metrics.called(call.verb, status);
        self.budget.observe(&bucket, rate);
        Ok(answer?)
    }

    /// Registers the resource provider whose absence an error reports; one POST, paid like any other write.
    pub(crate) async fn register(&self, claim: &Claim, identity: &Arc<Identity>, error: &arm::Error) {
        if error.unregistered().is_none() || !claim.valid(Instant::now()) {
            return;
        }
        let bucket = identity.bucket("", Class::Write);
        let Ok(permit) = self.budget.acquire(&bucket, crate::budget::Priority::Retry).await else { return };
        match self.client.register(identity, error).await {
            Ok(true) => drop(permit),
            Ok(false) => permit.give_back(),
            Err(error) => tracing::warn!(%error, "Failed to register a resource provider"),
        }
    }
}
