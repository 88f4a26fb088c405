//! The leader's metadata watches: namespaces, and the Secrets and ConfigMaps that somebody waits for.
//!
//! Only names pass through here. A watch on Secrets or ConfigMaps begins when the first worker waits for one, so a cluster
//! where nobody does pays nothing; nothing is kept in memory either.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use flotilla_proto::{Key, kubernetes};
use futures::TryStreamExt;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};

use crate::wake::{ObjectName, Wanted};

/// Wait after a watch that ended with an error.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Follows the namespaces' names, by hash.
pub(crate) async fn namespaces(client: Client, hashes: watch::Sender<BTreeSet<u64>>) {
    let hash = |name: &str| Key::of_namespace(name).namespace;
    loop {
        let api: Api<PartialObjectMeta<Namespace>> = Api::all(client.clone());
        let mut events = pin!(watcher(api, Config::default()).default_backoff());
        let mut listed = BTreeSet::new();
        loop {
            match events.try_next().await {
                Ok(Some(Event::Init)) => listed.clear(),
                Ok(Some(Event::InitApply(namespace))) => {
                    listed.insert(hash(&namespace.name_any()));
                }
                Ok(Some(Event::InitDone)) => {
                    hashes.send_if_modified(|known| std::mem::replace(known, listed.clone()) != *known);
                }
                Ok(Some(Event::Apply(namespace))) => {
                    hashes.send_if_modified(|known| known.insert(hash(&namespace.name_any())));
                }
                Ok(Some(Event::Delete(namespace))) => {
                    hashes.send_if_modified(|known| known.remove(&hash(&namespace.name_any())));
                }
                Ok(None) => break,
                Err(error) => {
                    let error = kubernetes::Error::from(error);
                    tracing::debug!(
                        error = &error as &dyn std::error::Error,
                        "Watch on namespaces broke; it starts again"
                    );
                }
            }
        }
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

/// Follows Secrets and ConfigMaps once somebody waits for any.
pub(crate) async fn references(client: Client, wanted: watch::Receiver<Wanted>, changed: mpsc::Sender<ObjectName>) {
    let secrets = follow::<Secret>(client.clone(), "Secret", wanted.clone(), |wanted| wanted.secrets, changed.clone());
    let config_maps = follow::<ConfigMap>(client, "ConfigMap", wanted, |wanted| wanted.config_maps, changed);
    tokio::join!(secrets, config_maps);
    // The leader's loop has ended. This task ends with the term, not before it.
    std::future::pending::<()>().await;
}

async fn follow<K>(
    client: Client,
    kind: &'static str,
    mut wanted: watch::Receiver<Wanted>,
    is_wanted: fn(&Wanted) -> bool,
    changed: mpsc::Sender<ObjectName>,
) where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    loop {
        if wanted.wait_for(is_wanted).await.is_err() {
            return;
        }
        tracing::info!(kind, "Watching a kind because a worker waits for an object of it");
        let api: Api<PartialObjectMeta<K>> = Api::all(client.clone());
        let mut events = pin!(watcher(api, Config::default()).default_backoff());
        loop {
            let object = match events.try_next().await {
                // The first list shows what changed between the worker's own read and the watch.
                Ok(Some(Event::Apply(object) | Event::Delete(object) | Event::InitApply(object))) => object,
                Ok(Some(Event::Init | Event::InitDone)) => continue,
                Ok(None) => break,
                Err(error) => {
                    let error = kubernetes::Error::from(error);
                    tracing::debug!(kind, error = &error as &dyn std::error::Error, "Watch broke");
                    continue;
                }
            };
            let namespace = object.namespace().unwrap_or_default();
            if changed.send(ObjectName::core(kind, &namespace, &object.name_any())).await.is_err() {
                return;
            }
        }
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}
