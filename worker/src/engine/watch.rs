//! Watches the kinds that have objects, and no others: each watch costs the API server the schemas of its kind.
//!
//! What lies outside of our shards is dropped as soon as its namespace and UID are decoded.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flotilla_proto::task::{self, Kind as TaskKind};
use flotilla_proto::{GroupKind, Key, kubernetes};
use futures::TryStreamExt;
use kube::api::ListParams;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Resource};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::context::Context;
use super::object::Id;
use super::seen::Seen;

/// Objects per page of a list: enough to be quick, few enough that a page of large objects stays small.
const PAGE: u32 = 250;

/// The watches, one or more per kind.
#[derive(Debug)]
pub(crate) struct Watches {
    ctx: Arc<Context>,
    lists: TaskTracker,
    running: HashMap<GroupKind, Running>,
}

/// The watches on one kind. They stop when this is dropped.
#[derive(Debug)]
struct Running {
    watches: Vec<task::Task>,
    /// Ends the lists of the kind.
    stop_lists: DropGuard,
}

impl Watches {
    /// No watch yet.
    pub(crate) fn new(ctx: Arc<Context>) -> Self {
        Self { ctx, lists: TaskTracker::new(), running: HashMap::new() }
    }

    /// Watches these kinds from now on, and no others.
    pub(crate) fn set(&mut self, kinds: &[GroupKind]) {
        self.running.retain(|kind, _| {
            let keep = kinds.contains(kind);
            if !keep {
                tracing::info!(%kind, "Stopped watching a kind");
            }
            keep
        });
        for kind in kinds {
            if self.running.contains_key(kind) || self.ctx.cluster.read_as(kind).is_none() {
                continue;
            }
            tracing::info!(%kind, "Watching a kind");
            let start = |task: Task| self.ctx.process.start(TaskKind::ObjectWatch, |stop| task.watch(stop));
            let watches = self.tasks(kind).map(start).collect();
            self.running.insert(kind.clone(), Running { watches, stop_lists: CancellationToken::new().drop_guard() });
        }
    }

    /// Lists all watched kinds once: shards were gained whose objects the watches have passed over.
    pub(crate) fn list(&self) {
        for (kind, running) in &self.running {
            for task in self.tasks(kind) {
                let list = self.lists.track_future(task.list(running.stop_lists.token().clone()));
                self.ctx.process.start(TaskKind::ObjectList, |_| list).detach();
            }
        }
    }

    /// Ends all watches.
    pub(crate) async fn stop(self) {
        for running in self.running.into_values() {
            drop(running.stop_lists);
            for watch in running.watches {
                watch.stop().await;
            }
        }
        self.lists.close();
        self.lists.wait().await;
    }

    /// One task for each namespace of a kind.
    fn tasks(&self, kind: &GroupKind) -> impl Iterator<Item = Task> {
        let (ctx, kind) = (Arc::clone(&self.ctx), Arc::new(kind.clone()));
        let task = move |namespace| Task { ctx: Arc::clone(&ctx), kind: Arc::clone(&kind), namespace };
        self.namespaces().into_iter().map(task)
    }

    /// The namespaces to watch one by one; `None` stands for all of them in one watch.
    fn namespaces(&self) -> Vec<Option<String>> {
        match self.ctx.settings.namespaces.as_slice() {
            [] => vec![None],
            some => some.iter().cloned().map(Some).collect(),
        }
    }
}

/// One watch or list.
#[derive(Debug)]
struct Task {
    ctx: Arc<Context>,
    kind: Arc<GroupKind>,
    namespace: Option<String>,
}

impl Task {
    fn api(&self) -> Option<Api<Seen>> {
        let resource = self.ctx.cluster.read_as(&self.kind)?;
        let client = self.ctx.cluster.client().clone();
        Some(match &self.namespace {
            None => Api::all_with(client, &resource),
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        })
    }

    async fn watch(self, stop: CancellationToken) {
        let Some(api) = self.api() else { return };
        let config = watcher::Config::default().page_size(PAGE);
        let mut events = std::pin::pin!(watch(api, config).default_backoff());
        let mut present = HashSet::new();
        loop {
            let event = tokio::select! {
                () = stop.cancelled() => return,
                event = events.try_next() => event,
            };
            match event {
                Ok(Some(Event::Init)) => present.clear(),
                Ok(Some(Event::InitApply(seen))) => present.extend(self.seen(&seen)),
                Ok(Some(Event::InitDone)) => {
                    let gone = self.ctx.records().absent(&self.kind, self.namespace.as_deref(), &present);
                    present = HashSet::new();
                    for id in gone {
                        self.gone(&id);
                    }
                }
                Ok(Some(Event::Apply(seen))) => drop(self.seen(&seen)),
                Ok(Some(Event::Delete(seen))) => self.deleted(&seen),
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(kind = %self.kind, error = &kubernetes::Error::from(error) as &dyn std::error::Error, "Watch failed");
                }
            }
        }
    }

    async fn list(self, stop: CancellationToken) {
        let Some(api) = self.api() else { return };
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = tokio::select! {
                () = stop.cancelled() => return,
                page = api.list(&params) => page,
            };
            match page {
                Ok(page) => {
                    for seen in &page.items {
                        self.seen(seen);
                    }
                    match page.metadata.continue_.filter(|next| !next.is_empty()) {
                        Some(next) => params = params.continue_token(&next),
                        None => return,
                    }
                }
                Err(error) => {
                    tracing::warn!(kind = %self.kind, error = &kubernetes::Error::from(error) as &dyn std::error::Error, "List failed");
                    params = ListParams::default().limit(PAGE);
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }

    /// Takes in an object if it is ours.
    fn seen(&self, seen: &Seen) -> Option<Id> {
        let (id, uid, key) = self.name(seen)?;
        let Some(handover) = self.ctx.shards.handover(&key) else {
            // In a shard that is being handed back the new owner takes it in.
            if !self.ctx.shards.holds(&key) {
                self.ctx.records().forget(&id);
            }
            return None;
        };
        let became_ready = self.ctx.records().seen(id.clone(), &uid, key, seen, handover, Instant::now());
        if became_ready {
            self.ctx.changes.add(id.clone());
        }
        self.ctx.work.notify_one();
        Some(id)
    }

    fn deleted(&self, seen: &Seen) {
        if let Some((id, uid, _)) = self.name(seen) {
            let same = self.ctx.records().standing(&id).is_some_and(|standing| standing.uid == uid);
            if same {
                self.gone(&id);
            }
        }
    }

    fn gone(&self, id: &Id) {
        if self.ctx.records().forget(id) {
            self.ctx.changes.add(id.clone());
        }
    }

    fn name(&self, seen: &Seen) -> Option<(Id, String, Key)> {
        let meta = seen.meta();
        let (namespace, name, uid) = (meta.namespace.as_deref()?, meta.name.as_deref()?, meta.uid.clone()?);
        let key = Key::of(namespace, &self.kind, &uid);
        let namespace = self.ctx.records().namespace(namespace);
        Some((Id { kind: Arc::clone(&self.kind), namespace, name: name.into() }, uid, key))
    }
}
