//! The stream to the leader: reports what we hold, obeys grants and revokes, passes on everything else.
//!
//! It keeps true that a shard is said to be released only after its work has ended, and that a stream's end changes nothing:
//! the worker goes on with what it holds, including shards that were revoked and that it had not released yet.

use std::sync::Arc;
use std::time::Duration;

use flotilla_proto::v1::fleet_client::FleetClient;
use flotilla_proto::v1::leader_message::Message as FromLeader;
use flotilla_proto::v1::worker_message::Message as ToLeader;
use flotilla_proto::v1::{self, LeaderMessage, WorkerMessage};
use flotilla_proto::{Epoch, GroupKind, KeyRange, Term, Tls, WorkerId, timing, tls};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use super::handover::Handover;
use super::held::Gained;
use super::leader::{self, Finder};
use super::lease::Losses;
use super::shards::Shards;
use crate::id::Id;

/// What the fleet asks of the engine.
#[derive(Debug)]
pub enum Event {
    /// These keys are ours from now on, or still: list their objects.
    Gained(Vec<Gained>),
    /// Finish or park what runs in these ranges, forget their objects, then send `done`.
    Leaving {
        /// The ranges.
        ranges: Vec<KeyRange>,
        /// How long that may take.
        within: Duration,
        /// Sent when nothing runs there any more. Closed if the shards stay after all.
        done: oneshot::Sender<()>,
    },
    /// Everything is lost already: forget all objects.
    Lost,
    /// The kinds that have objects.
    Kinds(Vec<GroupKind>),
    /// These have changed: reconcile what waits for them.
    Wake(Vec<Id>),
}

/// What the rest of the worker reports to the leader.
pub struct Reports {
    /// The whole list of what we wait for.
    pub interest: watch::Receiver<Vec<v1::ObjectName>>,
    /// Objects that became ready or went away, and the budget's messages.
    pub outgoing: mpsc::Receiver<ToLeader>,
    /// What each held shard costs now.
    pub load: Arc<dyn Fn() -> v1::LoadReport + Send + Sync>,
}

impl std::fmt::Debug for Reports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reports").finish_non_exhaustive()
    }
}

/// Takes the leader's messages about budgets.
pub type BudgetInbox = Arc<dyn Fn(FromLeader) + Send + Sync>;
/// Hears whether there is a leader.
pub type Connected = watch::Sender<bool>;

/// Why a stream ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No coordinator leads.
    #[error("failed to find the leader")]
    Leader(#[from] leader::Error),
    /// The address is not valid.
    #[error("the leader's address {address} can't be used")]
    Address {
        /// The address.
        address: String,
        /// Cause.
        #[source]
        source: tonic::transport::Error,
    },
    /// The leader can't be reached.
    #[error("failed to connect to the leader at {address}")]
    Connect {
        /// The address.
        address: String,
        /// Cause.
        #[source]
        source: tonic::transport::Error,
    },
    /// The leader closed the stream, or it broke.
    #[error("the stream to the leader ended")]
    Ended(#[source] Option<Box<tonic::Status>>),
    /// A leader of the past answered.
    #[error("the leader at {address} is of term {term} and a newer one is known")]
    Past {
        /// The address.
        address: String,
        /// Its term.
        term: Term,
    },
}

/// Waits between two tries to connect: short, because a new leader is elected within seconds.
const FIRST_WAIT: Duration = timing::STREAM_RECONNECT_AFTER;
const LONGEST_WAIT: Duration = timing::STREAM_RECONNECT_WITHIN;
/// Messages to the leader that may wait for the network. Each is a whole list or a total, so a few seconds of all of them fit. Where
/// the queue is full the stream waits: nothing is dropped, and a leader that does not read closes the stream.
const OUTBOX: usize = 64;
/// How long the leader may take to read our last message.
const FAREWELL: Duration = Duration::from_secs(1);

/// A stream on which Hello was said.
struct Leader {
    address: String,
    outbox: mpsc::Sender<WorkerMessage>,
    incoming: tonic::Streaming<LeaderMessage>,
}

/// Keeps a stream to the leader, whichever coordinator that is.
pub struct Stream {
    /// Who we are.
    pub worker: WorkerId,
    /// What we hold.
    pub shards: Shards,
    /// Finds the leader.
    pub finder: Finder,
    /// Mutual TLS, if the fleet uses it.
    pub tls: Option<Tls>,
    /// Told when our lease was lost.
    pub losses: Losses,
    /// The engine.
    pub events: mpsc::Sender<Event>,
    /// What the leader hears of us.
    pub reports: Reports,
    /// The budget.
    pub budget: BudgetInbox,
    /// Whether there is a leader.
    pub connected: Connected,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("worker", &self.worker).finish_non_exhaustive()
    }
}

impl Stream {
    /// Connects, serves, and connects again until `stop`. Cancel it when nothing runs any more: it gives all shards back.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut wait = FIRST_WAIT;
        let mut said = String::new();
        // Answers to revokes under way.
        let mut released = JoinSet::new();
        loop {
            let connected = tokio::select! {
                () = stop.cancelled() => return,
                connected = self.connect() => connected,
            };
            let served = match connected {
                Ok(leader) => self.serve(leader, &mut released, &stop).await,
                Err(error) => Err(error),
            };
            if stop.is_cancelled() {
                return;
            }
            // No leader hears the answer any more, and the next one knows nothing of the revoke.
            released.shutdown().await;
            let stays = self.shards.keep_revoked();
            if !stays.is_empty() {
                tracing::info!(shards = stays.len(), "Kept revoked shards: their leader is gone");
                // Their objects may have been forgotten already.
                self.tell(Event::Gained(stays)).await;
            }
            if self.connected.send_replace(false) {
                wait = FIRST_WAIT;
            }
            if let Err(error) = served {
                // While no coordinator leads, the same line would come every few seconds.
                let words = error.to_string();
                if words != said {
                    tracing::warn!(error = &error as &dyn std::error::Error, "Failed to keep a stream to the leader");
                }
                said = words;
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
            wait = (wait * 2).min(LONGEST_WAIT);
            // Messages of the time without a leader are void: lists are sent whole on the next stream.
            while self.reports.outgoing.try_recv().is_ok() {}
        }
    }

    /// Finds the leader and says Hello.
    async fn connect(&self) -> Result<Leader, Error> {
        let address = self.finder.find().await?;
        let failed = |source| Error::Address { address: address.clone(), source };
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}")).map_err(failed)?;
        if let Some(tls) = &self.tls {
            let config = ClientTlsConfig::new()
                .domain_name(tls::COORDINATOR_NAME)
                .ca_certificate(Certificate::from_pem(&tls.ca))
                .identity(Identity::from_pem(&tls.certificate, &tls.key));
            endpoint = endpoint.tls_config(config).map_err(failed)?;
        }
        let endpoint = endpoint
            .connect_timeout(timing::STREAM_CONNECT_WITHIN)
            .http2_keep_alive_interval(timing::STREAM_KEEP_ALIVE)
            .keep_alive_timeout(timing::STREAM_KEEP_ALIVE)
            .keep_alive_while_idle(true);
        let channel = endpoint.connect().await.map_err(|source| Error::Connect { address: address.clone(), source })?;
        let (outbox, messages) = mpsc::channel(OUTBOX);
        send(&outbox, ToLeader::Hello(self.hello())).await;
        let answer = FleetClient::new(channel).join(ReceiverStream::new(messages)).await;
        let incoming = answer.map_err(|status| Error::Ended(Some(Box::new(status))))?.into_inner();
        Ok(Leader { address, outbox, incoming })
    }

    /// One stream, from Welcome to its end.
    async fn serve(
        &mut self,
        leader: Leader,
        released: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        let Leader { address, outbox, mut incoming } = leader;
        let ended = |status: tonic::Status| Error::Ended(Some(Box::new(status)));
        let mut heartbeat = tokio::time::interval(timing::STREAM_HEARTBEAT);
        self.losses.mark_unchanged();
        self.reports.interest.mark_changed();
        loop {
            tokio::select! {
                () = stop.cancelled() => {
                    self.leave(outbox).await;
                    // The leader closes its side once it has read ours to the end.
                    let _ = tokio::time::timeout(FAREWELL, async { while let Ok(Some(_)) = incoming.message().await {} }).await;
                    return Ok(());
                }
                message = incoming.message() => {
                    let Some(LeaderMessage { message: Some(message) }) = message.map_err(ended)? else {
                        return Err(Error::Ended(None));
                    };
                    match message {
                        FromLeader::Welcome(welcome) => {
                            let term = Term(welcome.term);
                            if !self.shards.hear(term) {
                                return Err(Error::Past { address, term });
                            }
                            tracing::info!(%term, leader = %welcome.leader, %address, "Joined the fleet");
                            let every = Duration::from_secs(u64::from(welcome.heartbeat_seconds.max(1)));
                            heartbeat = tokio::time::interval(every);
                            self.connected.send_replace(true);
                        }
                        FromLeader::Grant(grant) => self.granted(grant).await,
                        FromLeader::Revoke(revoke) => self.revoked(&revoke, &outbox, released).await,
                        FromLeader::Kinds(kinds) => {
                            let kinds = kinds.kinds.into_iter().map(|k| GroupKind::new(k.group, k.kind)).collect();
                            self.tell(Event::Kinds(kinds)).await;
                        }
                        FromLeader::Wake(wake) => {
                            self.tell(Event::Wake(wake.objects.into_iter().map(Id::from).collect())).await;
                        }
                        budget => (self.budget)(budget),
                    }
                }
                _ = heartbeat.tick() => send(&outbox, ToLeader::Load((self.reports.load)())).await,
                changed = self.reports.interest.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    let objects = self.reports.interest.borrow_and_update().clone();
                    send(&outbox, ToLeader::Interest(v1::Interest { objects })).await;
                    // Waits come in bursts; the next list holds them all.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Some(message) = self.reports.outgoing.recv() => send(&outbox, message).await,
                Ok(()) = self.losses.changed() => {
                    self.tell(Event::Lost).await;
                    // Another stream says Hello with nothing held.
                    return Err(Error::Ended(None));
                }
                Some(_) = released.join_next() => {}
            }
        }
    }

    fn hello(&self) -> v1::Hello {
        let held = self.shards.held();
        v1::Hello {
            worker: self.worker.pod().to_owned(),
            incarnation: self.worker.incarnation().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            held: held.iter().map(|shard| wire(shard.range, shard.epoch)).collect(),
        }
    }

    async fn granted(&self, grant: v1::Grant) {
        let term = Term(grant.term);
        let mut gained = Vec::new();
        for shard in grant.shards {
            let Some(range) = shard.range else { continue };
            let (range, epoch) = (KeyRange::from(range), Epoch(shard.epoch));
            let new = self.shards.grant(term, range, epoch, Handover::from_unclean(grant.unclean));
            if !new.is_empty() {
                tracing::info!(shard = %range, %epoch, %term, unclean = grant.unclean, "Acquired shard");
            }
            gained.extend(new);
        }
        if !gained.is_empty() {
            self.tell(Event::Gained(gained)).await;
        }
    }

    /// Stops intake at once, and answers when what runs has ended.
    async fn revoked(&self, revoke: &v1::Revoke, outbox: &mpsc::Sender<WorkerMessage>, released: &mut JoinSet<()>) {
        let term = Term(revoke.term);
        let asked: Vec<_> =
            revoke.shards.iter().filter_map(|shard| Some((KeyRange::from(shard.range?), Epoch(shard.epoch)))).collect();
        let ranges: Vec<_> = asked.iter().flat_map(|(range, epoch)| self.shards.revoke(term, *range, *epoch)).collect();
        let within = Duration::from_millis(u64::from(revoke.deadline_ms));
        let (done, ended) = oneshot::channel();
        self.tell(Event::Leaving { ranges, within, done }).await;
        let (shards, outbox) = (self.shards.clone(), outbox.clone());
        released.spawn(async move {
            if ended.await.is_err() {
                return;
            }
            let held = shards.held();
            let kept = |range: &KeyRange| held.iter().any(|s| s.range.overlaps(range) && !s.leaving);
            let mut answer = Vec::new();
            // A grant of a newer epoch that came meanwhile is not given back.
            for (range, epoch) in asked.into_iter().filter(|(range, _)| !kept(range)) {
                shards.release(range);
                tracing::info!(shard = %range, %epoch, "Released shard");
                answer.push(wire(range, epoch));
            }
            send(&outbox, ToLeader::Released(v1::Released { term: term.0, shards: answer })).await;
        });
    }

    /// Gives everything back. Nothing runs any more.
    async fn leave(&self, outbox: mpsc::Sender<WorkerMessage>) {
        let held = self.shards.held();
        let term = self.shards.term();
        self.shards.lose_all();
        let shards: Vec<_> = held.iter().map(|shard| wire(shard.range, shard.epoch)).collect();
        tracing::info!(shards = shards.len(), "Released all shards");
        send(&outbox, ToLeader::Released(v1::Released { term: term.0, shards })).await;
    }

    async fn tell(&self, event: Event) {
        // The engine is gone only when the worker stops.
        let _ = self.events.send(event).await;
    }
}

/// A shard as it goes over the wire.
pub(crate) fn wire(range: KeyRange, epoch: Epoch) -> v1::Shard {
    v1::Shard { range: Some(range.into()), epoch: epoch.0 }
}

async fn send(outbox: &mpsc::Sender<WorkerMessage>, message: ToLeader) {
    // An error means that the stream has ended; its reader says so.
    let _ = outbox.send(WorkerMessage { message: Some(message) }).await;
}
