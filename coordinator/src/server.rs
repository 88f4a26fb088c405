//! The gRPC edge: one Join stream per worker, answered only by the leader.
//!
//! Every coordinator serves; a standby refuses and says where the leader is. The leader's loop owns all state: a stream is
//! two small tasks that pass messages in and out. A worker that does not read is cut off rather than waited for.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flotilla_proto::task::{Kind, Process};
use flotilla_proto::v1::fleet_server::{Fleet, FleetServer};
use flotilla_proto::v1::worker_message::Message as FromWorker;
use flotilla_proto::v1::{LeaderMessage, WorkerMessage};
use flotilla_proto::{Epoch, KeyRange, Tls, WorkerId, timing, v1};
use futures::Stream;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_util::sync::CancellationToken;
use tonic::transport::{self, Certificate, Identity, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};

use crate::fleet::StreamId;

/// Messages under way to one worker. Grants and budgets are small and few; more than this means that it does not read.
const OUTBOX: usize = 1024;
/// Messages under way to the leader's loop from all workers; more waits in the streams.
const INBOX: usize = 4096;
/// A message larger than this is refused; a report about thousands of shards has some hundred KiB.
const LARGEST_MESSAGE: usize = 16 * 1024 * 1024;

/// Something that came from a worker's stream.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// Its first message.
    Joined { worker: WorkerId, stream: StreamId, hello: v1::Hello, outbox: Outbox },
    /// Any later one.
    Said { worker: WorkerId, stream: StreamId, message: FromWorker },
    /// It ended.
    Left { worker: WorkerId, stream: StreamId },
}

/// Where messages to one worker go. Dropping it ends the stream.
pub(crate) type Outbox = mpsc::Sender<Result<LeaderMessage, Status>>;

/// Whether workers are let in.
#[derive(Clone, Debug)]
pub(crate) enum Door {
    /// Somebody else leads, at this address if known.
    Closed { leader: Option<String> },
    /// We lead; streams end when the token says so.
    Open { inbox: mpsc::Sender<Incoming>, closed: CancellationToken },
}

impl Door {
    /// Opens the door: where the leader's loop finds what comes in.
    pub(crate) fn open(door: &watch::Sender<Door>, closed: CancellationToken) -> mpsc::Receiver<Incoming> {
        let (inbox, incoming) = mpsc::channel(INBOX);
        door.send_replace(Door::Open { inbox, closed });
        incoming
    }
}

/// The service behind the generated code.
struct Service {
    door: watch::Receiver<Door>,
    process: Process,
    streams: Arc<AtomicU64>,
}

#[tonic::async_trait]
impl Fleet for Service {
    type JoinStream = Pin<Box<dyn Stream<Item = Result<LeaderMessage, Status>> + Send>>;

    async fn join(&self, request: Request<Streaming<WorkerMessage>>) -> Result<Response<Self::JoinStream>, Status> {
        let door = self.door.borrow().clone();
        let (inbox, closed) = match door {
            Door::Open { inbox, closed } => (inbox, closed),
            Door::Closed { leader } => return Err(not_the_leader(leader.as_deref())),
        };
        let mut messages = request.into_inner();
        let hello = tokio::time::timeout(timing::STREAM_HELLO_WITHIN, messages.message()).await;
        let hello = hello.map_err(|_| Status::deadline_exceeded("the first message did not arrive in time"))??;
        let Some(WorkerMessage { message: Some(FromWorker::Hello(hello)) }) = hello else {
            return Err(Status::failed_precondition("the first message must be Hello"));
        };
        if hello.worker.is_empty() || hello.worker.contains('/') || hello.incarnation.is_empty() {
            return Err(Status::invalid_argument("Hello must name the worker's pod and incarnation"));
        }
        let worker = WorkerId::new(&hello.worker, &hello.incarnation);
        let stream = StreamId(self.streams.fetch_add(1, Ordering::Relaxed));
        let (outbox, outgoing) = mpsc::channel(OUTBOX);
        let joined = Incoming::Joined { worker: worker.clone(), stream, hello, outbox: outbox.clone() };
        inbox.send(joined).await.map_err(|_| not_the_leader(None))?;
        let reader = read(messages, worker, stream, inbox, outbox.downgrade(), closed);
        self.process.start(Kind::StreamReader, |_| reader).detach();
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }
}

/// Passes a worker's messages on until the stream ends, or its outbox is dropped, or our term ends.
async fn read(
    mut messages: Streaming<WorkerMessage>,
    worker: WorkerId,
    stream: StreamId,
    inbox: mpsc::Sender<Incoming>,
    outbox: mpsc::WeakSender<Result<LeaderMessage, Status>>,
    closed: CancellationToken,
) {
    loop {
        let message = tokio::select! {
            () = closed.cancelled() => {
                if let Some(outbox) = outbox.upgrade() {
                    // The worker connects to the next leader either way.
                    let _ = outbox.try_send(Err(not_the_leader(None)));
                }
                return;
            }
            message = messages.message() => message,
        };
        let message = match message {
            Ok(Some(WorkerMessage { message: Some(message) })) => message,
            // A message of a kind that we don't know, from a newer worker.
            Ok(Some(WorkerMessage { message: None })) => continue,
            Ok(None) => break,
            Err(status) => {
                tracing::debug!(%worker, code = ?status.code(), "Stream broke");
                break;
            }
        };
        if inbox.send(Incoming::Said { worker: worker.clone(), stream, message }).await.is_err() {
            return;
        }
    }
    let _ = inbox.send(Incoming::Left { worker, stream }).await;
}

/// Metadata key with the leader's address on a refusal.
const LEADER: &str = "flotilla-leader";

fn not_the_leader(leader: Option<&str>) -> Status {
    let Some(address) = leader else { return Status::unavailable("this coordinator is not the leader") };
    let mut status = Status::unavailable(format!("this coordinator is not the leader; the leader is at {address}"));
    if let Ok(value) = address.parse() {
        status.metadata_mut().insert(LEADER, value);
    }
    status
}

/// The gRPC server. Its health service says SERVING for the fleet service while we lead.
pub(crate) struct Server {
    pub(crate) listener: TcpListener,
    pub(crate) tls: Option<Tls>,
    pub(crate) door: watch::Receiver<Door>,
    pub(crate) process: Process,
}

impl Server {
    /// Serves until told to stop.
    pub(crate) async fn run(self, stop: CancellationToken) -> Result<(), tonic::transport::Error> {
        let Self { listener, tls, door, process } = self;
        let service = Service { door: door.clone(), process, streams: Arc::new(AtomicU64::new(1)) };
        let service = FleetServer::new(service).max_decoding_message_size(LARGEST_MESSAGE);
        let (health, health_service) = tonic_health::server::health_reporter();
        let mut server = transport::Server::builder()
            .http2_keepalive_interval(Some(timing::STREAM_KEEP_ALIVE))
            .http2_keepalive_timeout(Some(timing::STREAM_KEEP_ALIVE))
            .tcp_nodelay(true);
        if let Some(tls) = tls {
            let identity = Identity::from_pem(tls.certificate, tls.key);
            let config = ServerTlsConfig::new().identity(identity).client_ca_root(Certificate::from_pem(tls.ca));
            server = server.tls_config(config)?;
        }
        let report = async move {
            let mut door = door;
            loop {
                let open = matches!(*door.borrow_and_update(), Door::Open { .. });
                if open {
                    health.set_serving::<FleetServer<Service>>().await;
                } else {
                    health.set_not_serving::<FleetServer<Service>>().await;
                }
                if door.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        let serving = server
            .add_service(health_service)
            .add_service(service)
            .serve_with_incoming_shutdown(TcpListenerStream::new(listener), stop.clone().cancelled_owned());
        tokio::select! {
            ended = serving => ended,
            () = report => Ok(()),
            // Streams of workers that don't close their side are not waited for.
            () = async { stop.cancelled().await; tokio::time::sleep(timing::STOP_STREAMS_WITHIN).await } => Ok(()),
        }
    }
}

/// Ranges with their epochs, leaving out what names no range.
pub(crate) fn ranges(shards: &[v1::Shard]) -> Vec<(KeyRange, Epoch)> {
    shards.iter().filter_map(|shard| Some((KeyRange::from(shard.range?), Epoch(shard.epoch)))).collect()
}
