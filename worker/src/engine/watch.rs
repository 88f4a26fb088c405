//! Watches the kinds that have objects, and no others: each watch costs the API server the schemas of its kind.
//!
//! What lies outside of our shards is dropped after a look at namespace and UID.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flotilla_proto::{GroupKind, Key};
use futures::TryStreamExt;
use kube::api::ListParams;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Resource};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::context::Context;
use super::object::Id;
use super::seen::Seen;

/// Objects per page of a list: enough to be quick, few enough that a page of large objects stays small.
const PAGE: u32 = 250;

/// Hears of objects that became ready or went away.
pub type Changes = tokio::sync::mpsc::UnboundedSender<Id>;

/// The watches, one or more per kind.
#[derive(Debug)]
pub struct Watches {
    ctx: Arc<Context>,
    changes: Changes,
    tasks: TaskTracker,
    running: HashMap<GroupKind, CancellationToken>,
}

impl Watches {
    /// No watch yet.
    pub fn new(ctx: Arc<Context>, changes: Changes) -> Self {
        Self { ctx, changes, tasks: TaskTracker::new(), running: HashMap::new() }
    }

    /// Watches these kinds from now on, and no others.
    pub fn set(&mut self, kinds: &[GroupKind]) {
        self.running.retain(|kind, stop| {
            let keep = kinds.contains(kind);
            if !keep {
                tracing::info!(%kind, "Stopped watching a kind");
                stop.cancel();
            }
            keep
        });
        for kind in kinds {
            if self.running.contains_key(kind) || self.ctx.cluster.read_as(kind).is_none() {
                continue;
            }
            tracing::info!(%kind, "Watching a kind");
            let stop = CancellationToken::new();
            for namespace in self.namespaces() {
                let task = Task {
                    ctx: Arc::clone(&self.ctx),
                    changes: self.changes.clone(),
                    kind: Arc::new(kind.clone()),
                    namespace,
                };
                self.tasks.spawn(task.watch(stop.clone()));
            }
            self.running.insert(kind.clone(), stop);
        }
    }

    /// Lists all watched kinds once: shards were gained whose objects the watches have passed over.
    pub fn list(&self) {
        for kind in self.running.keys() {
            for namespace in self.namespaces() {
                let task = Task {
                    ctx: Arc::clone(&self.ctx),
                    changes: self.changes.clone(),
                    kind: Arc::new(kind.clone()),
                    namespace,
                };
                self.tasks.spawn(task.list(self.running[kind].clone()));
            }
        }
    }

    /// Ends all watches.
    pub async fn stop(self) {
        for stop in self.running.values() {
            stop.cancel();
        }
        self.tasks.close();
        self.tasks.wait().await;
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
    changes: Changes,
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
                    tracing::warn!(kind = %self.kind, error = &error as &dyn std::error::Error, "A watch broke off");
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
                    tracing::warn!(kind = %self.kind, error = &error as &dyn std::error::Error, "A list broke off");
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
            // In a shard that is being handed back the new owner looks.
            if !self.ctx.shards.holds(&key) {
                self.ctx.records().forget(&id);
            }
            return None;
        };
        let became_ready = self.ctx.records().seen(id.clone(), &uid, key, seen, handover.is_unclean(), Instant::now());
        if became_ready {
            // The loop that gets the end wakes who waits; it ends only with the worker.
            let _ = self.changes.send(id.clone());
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
            let _ = self.changes.send(id.clone());
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
