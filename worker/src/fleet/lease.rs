//! Keeps the worker's own Lease, and with it the right to write.
//!
//! It runs on a thread and a connection of its own, so that neither a busy runtime nor a slow list of 40,000 objects delays
//! a renewal. Taking the lease away changes it, and a renewal that meets a changed lease loses everything, whatever the clock
//! says. So it is safe to go on after a renewal that came late and met no change.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use flotilla_proto::names::{self, ROLE, ROLE_WORKER};
use flotilla_proto::{WorkerId, kubernetes, timing};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::shards::Shards;

/// How often the lease is renewed, and how long it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// Between two renewals.
    pub renew_every: Duration,
    /// Without a renewal for so long, we write no more. It must be shorter than the time after which the leader takes over.
    pub fence_after: Duration,
}

impl Default for Timers {
    fn default() -> Self {
        Self { renew_every: timing::LEASE_RENEW_EVERY, fence_after: timing::LEASE_FENCE_AFTER }
    }
}

/// The lease is not ours any more.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It was changed: the leader took it away, or another process uses our name.
    #[error("lease {name} was taken away; its holder is now {}", .holder.as_deref().unwrap_or("nobody"))]
    Taken {
        /// The lease.
        name: String,
        /// Whom it names.
        holder: Option<String>,
    },
    /// The API server did not take the renewal.
    #[error("failed to renew lease {name}")]
    Renew {
        /// The lease.
        name: String,
        /// Cause.
        #[source]
        source: kubernetes::Error,
    },
    /// The API server did not answer in time.
    #[error("the API server did not renew lease {name} in time")]
    TimedOut {
        /// The lease.
        name: String,
    },
    /// The thread could not be started, or its runtime could not be built.
    #[error("failed to start the keeper of lease {name}")]
    Start {
        /// The lease.
        name: String,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
}

/// How often the lease was lost, and every shard with it.
pub type Losses = watch::Receiver<u64>;

/// Keeps the lease until it is stopped, then vacates it.
#[derive(Debug)]
pub struct Keeper {
    api: Api<Lease>,
    name: String,
    worker: WorkerId,
    timers: Timers,
    shards: Shards,
    losses: watch::Sender<u64>,
    lease: Option<Lease>,
}

/// A keeper at work on its own thread.
#[derive(Debug)]
pub struct Running {
    losses: Losses,
    stop: CancellationToken,
    ended: tokio::sync::oneshot::Receiver<()>,
}

impl Running {
    /// Counts the times that the lease was lost.
    pub fn losses(&self) -> Losses {
        self.losses.clone()
    }

    /// Vacates the lease. Call it last: nothing may be written after it.
    pub async fn vacate(self) {
        self.stop.cancel();
        // An error means that the thread is gone, and with it the keeper.
        let _ = self.ended.await;
    }
}

impl Keeper {
    /// Starts a keeper on its own thread, with a client of its own that makes every call once.
    pub fn start(
        mut config: kube::Config,
        namespace: &str,
        worker: WorkerId,
        timers: Timers,
        shards: Shards,
    ) -> Result<Running, Error> {
        let name = names::worker_lease(worker.pod());
        let failed = |source| Error::Start { name: name.clone(), source };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        // The next renewal is the retry.
        config.default_retry = false;
        config.read_timeout = Some(timers.fence_after);
        let (losses, receiver) = watch::channel(0);
        let (ended_sender, ended) = tokio::sync::oneshot::channel();
        let stop = CancellationToken::new();
        let (stopped, thread_name, namespace) = (stop.clone(), name.clone(), namespace.to_owned());
        let body = move || {
            runtime.block_on(async move {
                match Client::try_from(config) {
                    Ok(client) => {
                        let api = Api::namespaced(client, &namespace);
                        let keeper = Self { api, name: thread_name, worker, timers, shards, losses, lease: None };
                        keeper.run(stopped).await;
                    }
                    Err(error) => tracing::error!(%error, "Failed to build the client for the lease"),
                }
            });
            let _ = ended_sender.send(());
        };
        std::thread::Builder::new().name("lease".into()).spawn(body).map_err(failed)?;
        Ok(Running { losses: receiver, stop, ended })
    }

    async fn run(mut self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(self.timers.renew_every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                _ = ticks.tick() => {}
            }
            let sent = Instant::now();
            // A renewal that takes longer is useless; the next one is due anyway.
            let answer = tokio::time::timeout(self.timers.renew_every, self.renew()).await;
            match answer.unwrap_or_else(|_| Err(Error::TimedOut { name: self.name.clone() })) {
                Ok(()) => self.shards.renew(sent + self.timers.fence_after),
                Err(error @ Error::Taken { .. }) => self.lose(&error),
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "Failed to renew the lease");
                    // The write may have arrived all the same: read the lease before the next one.
                    self.lease = None;
                }
            }
        }
        self.vacate().await;
    }

    fn lose(&mut self, error: &Error) {
        self.shards.expire();
        let lost = self.shards.lose_all();
        self.lease = None;
        tracing::error!(
            error = error as &dyn std::error::Error,
            shards = lost.len(),
            "Fenced: lost the lease and released all shards"
        );
        self.losses.send_modify(|losses| *losses += 1);
    }

    /// Renews the lease under the version we know, or takes it at the start.
    async fn renew(&mut self) -> Result<(), Error> {
        let failed = |source: kube::Error| Error::Renew { name: self.name.clone(), source: source.into() };
        let known = match &self.lease {
            Some(lease) => Some(lease.clone()),
            None => self.api.get_opt(&self.name).await.map_err(failed)?,
        };
        let Some(mut lease) = known else {
            // Holding shards without a lease means that it was deleted.
            if !self.shards.held().is_empty() {
                return Err(Error::Taken { name: self.name.clone(), holder: None });
            }
            let lease = self.written(Lease::default());
            self.lease = Some(self.api.create(&kubernetes::post(), &lease).await.map_err(failed)?);
            return Ok(());
        };
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
        let ours = holder.as_deref() == Some(self.worker.as_str());
        if !ours && !self.shards.held().is_empty() {
            return Err(Error::Taken { name: self.name.clone(), holder });
        }
        lease.metadata.managed_fields = None;
        let written = self.written(lease);
        match self.api.replace(&self.name, &kubernetes::post(), &written).await {
            Ok(lease) => self.lease = Some(lease),
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {
                let now = self.api.get_opt(&self.name).await.map_err(failed)?;
                let holder = now.as_ref().and_then(|lease| lease.spec.as_ref()?.holder_identity.clone());
                if holder.as_deref() != Some(self.worker.as_str()) {
                    return Err(Error::Taken { name: self.name.clone(), holder });
                }
                // An earlier renewal of ours arrived after we had stopped waiting for it.
                self.lease = now;
                return Err(Error::TimedOut { name: self.name.clone() });
            }
            Err(error) => return Err(failed(error)),
        }
        Ok(())
    }

    /// The lease as it should stand.
    fn written(&self, lease: Lease) -> Lease {
        let now = MicroTime(Timestamp::now());
        let before = lease.spec.unwrap_or_default();
        let ours = before.holder_identity.as_deref() == Some(self.worker.as_str());
        let transitions = before.lease_transitions.unwrap_or(0) + i32::from(before.holder_identity.is_some() && !ours);
        let seconds = i32::try_from(self.timers.fence_after.as_secs().max(1)).unwrap_or(i32::MAX);
        let mut labels = lease.metadata.labels.unwrap_or_default();
        labels.extend(BTreeMap::from([(ROLE.to_owned(), ROLE_WORKER.to_owned())]));
        let annotations = lease.metadata.annotations.filter(|_| ours);
        Lease {
            metadata: ObjectMeta { name: Some(self.name.clone()), labels: Some(labels), annotations, ..lease.metadata },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.worker.as_str().to_owned()),
                acquire_time: if ours { before.acquire_time } else { Some(now.clone()) },
                renew_time: Some(now),
                lease_duration_seconds: Some(seconds),
                lease_transitions: Some(transitions),
                ..LeaseSpec::default()
            }),
        }
    }

    /// Vacates the lease, so that the leader need not wait for it to run out.
    async fn vacate(mut self) {
        self.shards.expire();
        let Some(mut lease) = self.lease.take() else { return };
        lease.metadata.managed_fields = None;
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = None;
            spec.renew_time = Some(MicroTime(Timestamp::now()));
        }
        let replaced =
            tokio::time::timeout(self.timers.renew_every, self.api.replace(&self.name, &kubernetes::post(), &lease))
                .await;
        match replaced {
            Ok(Ok(_)) => tracing::info!(lease = %self.name, "Vacated the lease"),
            Ok(Err(error)) => {
                let error = kubernetes::Error::from(error);
                tracing::warn!(error = &error as &dyn std::error::Error, "Failed to vacate the lease");
            }
            Err(_) => tracing::warn!(lease = %self.name, "Failed to vacate the lease in time"),
        }
    }
}
