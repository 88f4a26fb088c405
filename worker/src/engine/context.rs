//! Everything that a reconcile needs, built once and handed down.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flotilla_crds::Catalog;
use flotilla_proto::task::Process;

use super::azure::Azure;
use super::changes::Changes;
use super::cluster::Cluster;
use super::events::Recorder;
use super::object::{Id, Policy};
use super::record::Records;
use super::trouble::Trouble;
use super::view;
use crate::arm::Identity;
use crate::arm::credentials::{self, Resolver};
use crate::fleet::Shards;
use crate::metrics::Metrics;

/// Settings of the engine.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The operator's namespace, which names the installation.
    pub installation: String,
    /// The policy of objects and namespaces that state none.
    pub policy: Policy,
    /// Unchanged objects are reconciled once per this period; never without one.
    pub resync: Option<Duration>,
    /// The namespaces to work in; all if empty.
    pub namespaces: Vec<String>,
}

/// A credential: the namespace, and the Secret that an annotation names.
type CredentialKey = (Arc<str>, Option<String>);
type Identities = HashMap<CredentialKey, Arc<Identity>>;
type Policies = HashMap<Arc<str>, (Instant, Option<Policy>)>;

/// What a context is made of.
pub(crate) struct Parts {
    /// Settings.
    pub settings: Settings,
    /// What Azure's types look like.
    pub catalog: &'static Catalog,
    /// The API server.
    pub cluster: Cluster,
    /// ARM.
    pub azure: Azure,
    /// Writes events.
    pub recorder: Recorder,
    /// What is held.
    pub shards: Shards,
    /// Finds credentials.
    pub resolver: Resolver,
    /// The instruments.
    pub metrics: Arc<Metrics>,
    /// Starts tasks.
    pub process: Process,
}

/// The context.
pub(crate) struct Context {
    /// Settings.
    pub settings: Settings,
    /// What Azure's types look like.
    pub catalog: &'static Catalog,
    /// The API server.
    pub cluster: Cluster,
    /// ARM.
    pub azure: Azure,
    /// Writes events.
    pub recorder: Recorder,
    /// What is held.
    pub shards: Shards,
    /// Finds credentials.
    pub resolver: Resolver,
    /// The instruments.
    pub metrics: Arc<Metrics>,
    /// Starts tasks.
    pub process: Process,
    /// Objects that became ready or went away.
    pub changes: Changes,
    records: Mutex<Records>,
    /// The last good identity of each credential, so that a namespace that is being deleted can still delete its resources
    /// after its Secret is gone.
    identities: Mutex<Identities>,
    policies: Mutex<Policies>,
    /// Notified when there is something new to do.
    pub work: tokio::sync::Notify,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// How long a Namespace's policy is taken to be unchanged.
const POLICY_AGE: Duration = Duration::from_secs(15);
/// Namespaces remembered; above it those go whose objects have gone.
const REMEMBERED: usize = 1024;

impl Context {
    /// Puts the parts together.
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { settings, catalog, cluster, azure, recorder, shards, resolver, metrics, process } = parts;
        let records = Mutex::new(Records::new(settings.resync));
        Self {
            settings,
            catalog,
            cluster,
            azure,
            recorder,
            shards,
            resolver,
            metrics,
            process,
            changes: Changes::default(),
            records,
            identities: Mutex::default(),
            policies: Mutex::default(),
            work: tokio::sync::Notify::new(),
        }
    }

    /// The records, for a few lines; never across an await.
    pub(crate) fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The identity of an object.
    pub(crate) async fn identity(&self, id: &Id, credential_from: Option<&str>) -> Result<Arc<Identity>, Trouble> {
        let found = self.resolver.for_object(&id.namespace, credential_from).await;
        let key = (Arc::clone(&id.namespace), credential_from.map(str::to_owned));
        match found {
            Ok(identity) => {
                if self.identities().len() >= REMEMBERED {
                    let used = self.records().used_namespaces();
                    self.identities().retain(|(namespace, _), _| used.contains(namespace));
                }
                self.identities().insert(key, Arc::clone(&identity));
                Ok(identity)
            }
            Err(error) => Err(Trouble::from(&error)),
        }
    }

    /// The identity to delete with: the present one, or the last one where its Secret is gone already.
    ///
    /// A namespace's deletion takes the Secret away before the objects that need it.
    pub(crate) async fn identity_for_deletion(
        &self,
        id: &Id,
        credential_from: Option<&str>,
    ) -> Result<Arc<Identity>, Trouble> {
        let key = (Arc::clone(&id.namespace), credential_from.map(str::to_owned));
        let last = self.identities().get(&key).cloned();
        let found = self.resolver.for_object(&id.namespace, credential_from).await;
        match (found, last) {
            (Ok(identity), Some(last)) if is_global(&identity) && !is_global(&last) => Ok(last),
            (Ok(identity), _) => Ok(identity),
            (Err(credentials::Error::NoSecret { .. } | credentials::Error::Nothing { .. }), Some(last)) => Ok(last),
            (Err(error), _) => Err(Trouble::from(&error)),
        }
    }

    /// The policy of an object: its own, its Namespace's, or the default.
    pub(crate) async fn policy(&self, namespace: &Arc<str>, stated: Option<&str>) -> Policy {
        if let Some(policy) = view::policy(stated) {
            return policy;
        }
        let known = self.policies().get(namespace).copied().filter(|(read, _)| read.elapsed() < POLICY_AGE);
        let policy = match known {
            Some((_, policy)) => policy,
            None => match self.cluster.namespace_policy(namespace).await {
                Ok(text) => {
                    let policy = view::policy(text.as_deref());
                    let mut policies = self.policies();
                    if policies.len() >= REMEMBERED {
                        policies.retain(|_, (read, _)| read.elapsed() < POLICY_AGE);
                    }
                    policies.insert(Arc::clone(namespace), (Instant::now(), policy));
                    policy
                }
                Err(error) => {
                    tracing::warn!(%namespace, %error, "Failed to read a namespace's policy");
                    // The last answer is the best guess; it was right a while ago.
                    self.policies().get(namespace).and_then(|(_, policy)| *policy)
                }
            },
        };
        policy.unwrap_or(self.settings.policy)
    }

    fn identities(&self) -> MutexGuard<'_, Identities> {
        self.identities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn policies(&self) -> MutexGuard<'_, Policies> {
        self.policies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_global(identity: &Identity) -> bool {
    identity.origin == crate::arm::identity::Origin::Global
}
