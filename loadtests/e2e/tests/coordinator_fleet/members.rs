//! Coordinators and workers of a test: real elections, leases and streams; only the engine behind a worker is made up.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

use flotilla_coordinator::{Config, Coordinator, KubernetesStore, Role, ShardMap, Store};
use flotilla_proto::{GroupKind, Key, KeyRange, Term, Tls, WorkerId, v1};
use flotilla_testbed::control_plane::ControlPlane;
use flotilla_worker::fleet::leader::Finder;
use flotilla_worker::fleet::lease::{Keeper, Timers};
use flotilla_worker::fleet::stream::{Reports, Stream};
use flotilla_worker::fleet::{Event, Shards};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Waits until the condition holds; says what was missing if it does not in time.
pub(crate) async fn eventually<T>(what: &str, within: Duration, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = check().await {
            return found;
        }
        assert!(began.elapsed() < within, "not within {within:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) fn begin() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let filter = std::env::var("FLOTILLA_TEST_LOG").unwrap_or_else(|_| "warn".into());
        tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().init();
    });
}

/// A coordinator in this process.
pub(crate) struct Member {
    pub(crate) role: watch::Receiver<Role>,
    task: JoinHandle<Result<(), flotilla_coordinator::Error>>,
    stop: CancellationToken,
}

impl Member {
    pub(crate) fn start(cluster: &ControlPlane, namespace: &str, pod: &str, adjust: impl FnOnce(&mut Config)) -> Self {
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut config = Config::new(cluster.client_config().clone(), namespace, pod, listen);
        adjust(&mut config);
        let coordinator = Coordinator::new(config);
        let (role, stop) = (coordinator.role(), CancellationToken::new());
        let task = tokio::spawn(coordinator.run(stop.clone()));
        Self { role, task, stop }
    }

    /// Waits until it leads.
    pub(crate) async fn leads(&mut self, within: Duration) -> Term {
        let leads = self.role.wait_for(|role| matches!(role, Role::Leader(_)));
        let role = *tokio::time::timeout(within, leads).await.expect("leads in time").expect("coordinator runs");
        let Role::Leader(term) = role else { unreachable!("waited for it") };
        term
    }

    /// Ends without a word, as a crash does.
    pub(crate) async fn crash(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("no panic").expect("ends well");
    }
}

/// What a made-up engine was told.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) gained: Vec<(KeyRange, bool)>,
    pub(crate) kinds: Vec<GroupKind>,
    pub(crate) woken: Vec<String>,
}

/// A worker's side of the fleet with made-up objects.
pub(crate) struct Worker {
    pub(crate) shards: Shards,
    pub(crate) told: Arc<Mutex<Told>>,
    pub(crate) interest: watch::Sender<Vec<v1::ObjectName>>,
    objects: Arc<Mutex<Vec<Key>>>,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    lease: Option<flotilla_worker::fleet::lease::Running>,
}

impl Worker {
    /// All workers of a fleet see the same objects, each those in its shards.
    pub(crate) fn start(cluster: &ControlPlane, namespace: &str, pod: &str, objects: Arc<Mutex<Vec<Key>>>) -> Self {
        Self::start_immortal(cluster, namespace, pod, objects, None)
    }

    /// A worker with a certificate.
    pub(crate) fn start_with_tls(cluster: &ControlPlane, namespace: &str, pod: &str, tls: Tls) -> Self {
        Self::start_immortal(cluster, namespace, pod, Arc::default(), Some(tls))
    }

    fn start_immortal(
        cluster: &ControlPlane,
        namespace: &str,
        pod: &str,
        objects: Arc<Mutex<Vec<Key>>>,
        tls: Option<Tls>,
    ) -> Self {
        let id = WorkerId::new(pod, &uuid::Uuid::new_v4().simple().to_string()[..8]);
        let shards = Shards::new();
        let config = cluster.client_config().clone();
        let lease = Keeper::start(config, namespace, id.clone(), Timers::default(), shards.clone());
        let lease = lease.expect("a thread for the lease");
        let losses = lease.losses();
        Self { lease: Some(lease), ..Self::with(cluster, namespace, id, shards, losses, objects, tls) }
    }

    /// A worker that can crash.
    pub(crate) fn start_mortal(
        cluster: &ControlPlane,
        namespace: &str,
        pod: &str,
        objects: Arc<Mutex<Vec<Key>>>,
    ) -> Self {
        let id = WorkerId::new(pod, &uuid::Uuid::new_v4().simple().to_string()[..8]);
        let shards = Shards::new();
        let lease = tokio::spawn(renew(cluster.client(), namespace.to_owned(), id.clone(), shards.clone()));
        let (_never, losses) = watch::channel(0);
        let mut worker = Self::with(cluster, namespace, id, shards, losses, objects, None);
        worker.tasks.push(lease);
        worker
    }

    fn with(
        cluster: &ControlPlane,
        namespace: &str,
        id: WorkerId,
        shards: Shards,
        losses: watch::Receiver<u64>,
        objects: Arc<Mutex<Vec<Key>>>,
        tls: Option<Tls>,
    ) -> Self {
        let told: Arc<Mutex<Told>> = Arc::default();
        let (events, mut heard) = mpsc::channel(64);
        let (interest, interests) = watch::channel(Vec::new());
        let (keep, outgoing) = mpsc::channel(1);
        let load = {
            let (shards, objects) = (shards.clone(), objects.clone());
            Arc::new(move || report(&shards, &objects.lock().expect("no panic")))
        };
        let stream = Stream {
            worker: id,
            shards: shards.clone(),
            tls,
            finder: Finder::new(cluster.client(), namespace),
            losses,
            events,
            reports: Reports { interest: interests, outgoing, load },
            budget: Arc::new(|_| ()),
            connected: watch::Sender::new(false),
        };
        let stop = CancellationToken::new();
        let stream = tokio::spawn(stream.run(stop.clone()));
        let engine = tokio::spawn({
            let told = told.clone();
            async move {
                // While it lives the stream waits for messages that never come.
                let _keep = keep;
                while let Some(event) = heard.recv().await {
                    let mut told = told.lock().expect("no panic");
                    match event {
                        Event::Gained(gained) => {
                            told.gained.extend(gained.iter().map(|g| (g.range, g.handover.is_unclean())));
                        }
                        Event::Leaving { done, .. } => drop(done.send(())),
                        Event::Kinds(kinds) => told.kinds = kinds,
                        Event::Wake(ids) => told.woken.extend(ids.iter().map(|id| format!("{id:?}"))),
                        Event::Lost => {}
                    }
                }
            }
        });
        Self { shards, told, interest, objects, stop, tasks: vec![stream, engine], lease: None }
    }

    /// How many of the objects it would write for now.
    pub(crate) fn owns(&self) -> usize {
        let objects = self.objects.lock().expect("no panic");
        objects.iter().filter(|key| self.shards.claim(key).is_some()).count()
    }

    /// Whether it would write for any key at all.
    pub(crate) fn owns_everything(&self) -> bool {
        let held = self.shards.held();
        let starts = held.first().is_some_and(|shard| shard.range.start == Key::MIN);
        let meet = held.windows(2).all(|two| two[0].range.end == Some(two[1].range.start));
        starts && meet && held.last().is_some_and(|shard| shard.range.end.is_none())
    }

    /// Stops in order: hands its shards back, then lets its lease go.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        let _ = self.tasks.remove(0).await;
        if let Some(lease) = self.lease.take() {
            lease.vacate().await;
        }
    }

    /// Ends without a word, as a crash does.
    pub(crate) fn crash(self) -> Instant {
        for task in &self.tasks {
            task.abort();
        }
        Instant::now()
    }
}

/// What each held range costs, with cuts between namespaces.
fn report(shards: &Shards, objects: &[Key]) -> v1::LoadReport {
    let load = |range: KeyRange, epoch: u64| {
        let mut inside: BTreeMap<u64, u64> = BTreeMap::new();
        for key in objects.iter().filter(|key| range.contains(key)) {
            *inside.entry(key.namespace).or_default() += 1;
        }
        let mut before = 0;
        let mut cuts = Vec::new();
        for (namespace, count) in &inside {
            let key = Key { namespace: *namespace, ..Key::MIN };
            cuts.push(v1::CutPoint { key: Some(key.into()), objects_before: before });
            before += count;
        }
        let shard = v1::Shard { range: Some(range.into()), epoch };
        v1::ShardLoad { shard: Some(shard), objects: before, reconciles_per_second: 0.0, cuts }
    };
    let shards = shards.held().iter().map(|shard| load(shard.range, shard.epoch.0)).collect();
    v1::LoadReport { shards, kinds: Vec::new() }
}

/// So many objects in each of so many namespaces.
pub(crate) fn objects(namespaces: usize, each: usize) -> Vec<Key> {
    let kind = GroupKind::new("resources.azure.com", "ResourceGroup");
    let key = |index: usize| Key::of(&format!("team-{}", index / each), &kind, &index.to_string());
    (0..namespaces * each).map(key).collect()
}

/// The map as it is stored, if it is.
pub(crate) async fn stored_map(cluster: &ControlPlane, namespace: &str) -> Option<ShardMap> {
    let store = KubernetesStore::new(cluster.client(), namespace);
    Some(store.map().await.expect("API server answers")?.record.expect("it can be read"))
}

/// Renews a worker's lease on a task that a crash can end.
async fn renew(cluster: kube::Client, namespace: String, id: WorkerId, shards: Shards) {
    let leases: Api<Lease> = Api::namespaced(cluster, &namespace);
    let name = format!("flotilla-worker-{}", id.pod());
    let mut known: Option<Lease> = None;
    loop {
        let sent = Instant::now();
        let metadata = ObjectMeta {
            name: Some(name.clone()),
            labels: Some([("flotilla.dev/role".to_owned(), "worker".to_owned())].into()),
            resource_version: known.as_ref().and_then(|lease| lease.metadata.resource_version.clone()),
            ..ObjectMeta::default()
        };
        let spec = LeaseSpec {
            holder_identity: Some(id.as_str().to_owned()),
            renew_time: Some(MicroTime(jiff::Timestamp::now())),
            ..LeaseSpec::default()
        };
        let lease = Lease { metadata, spec: Some(spec) };
        let written = match &known {
            None => leases.create(&PostParams::default(), &lease).await,
            Some(_) => leases.replace(&name, &PostParams::default(), &lease).await,
        };
        known = Some(written.expect("nobody takes this lease"));
        shards.renew(sent + Timers::default().fence_after);
        tokio::time::sleep(Timers::default().renew_every).await;
    }
}
