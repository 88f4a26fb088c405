//! Finds the identity that an object is to be reconciled with.
//!
//! First the Secret that the object's annotation names, then the Secret `aso-credential` of its namespace, then the
//! operator's own settings. A Secret is read only when an object of its namespace asks, and seldom; what is kept of it is
//! the identity. One identity, and so one set of tokens, serves all who use the same credential, and another takes its
//! place as soon as the Secret's data change.

mod error;
mod format;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

pub use error::Error;
use format::Credential;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;

use super::client::Client;
use super::cloud::Cloud;
use super::identity::{Identity, Origin};
pub use super::token::Proof;
use super::token::Tokens;

/// Name of the Secret that holds a namespace's credential.
pub(crate) const NAMESPACE_SECRET: &str = "aso-credential";
/// Where the chart mounts the service account token that is exchanged with Entra.
pub const TOKEN_FILE: &str = "/var/run/secrets/tokens/azure-identity";

/// The operator's own credential.
#[derive(Clone, Debug)]
pub struct Own {
    /// The subscription of what is created with it.
    pub subscription: String,
    /// The tenant; empty for a managed identity.
    pub tenant: String,
    /// The application or the user-assigned identity; empty for the machine's only managed identity.
    pub client_id: String,
    /// What proves it.
    pub proof: Proof,
}

/// The operator's own settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The cloud, for Secrets that name none.
    cloud: Arc<Cloud>,
    /// The operator's own credential; none if every namespace brings one.
    global: Option<Credential>,
    /// Secrets may name another cloud.
    multi_cloud: bool,
    /// How long a Secret is trusted to be unchanged.
    trust: Duration,
}

impl Settings {
    /// Settings for `cloud`. Without a credential of the operator's own, every namespace brings one.
    pub fn new(cloud: Cloud, own: Option<Own>) -> Self {
        let cloud = Arc::new(cloud);
        let global = own.map(|own| format::own(own, &cloud));
        Self { cloud, global, multi_cloud: false, trust: Duration::from_secs(10) }
    }

    /// The same settings, in which Secrets may name another cloud if `allowed`.
    pub fn with_multiple_clouds(self, allowed: bool) -> Self {
        Self { multi_cloud: allowed, ..self }
    }

    /// The operator's own identity, which needs no cluster; none if there is none.
    pub fn global(&self, client: &Client) -> Option<Arc<Identity>> {
        let found = self.global.clone()?;
        let tokens = Arc::new(found.tokens(client));
        Some(found.identity(Origin::Global, tokens))
    }

    /// The same settings with another time for which a Secret is trusted to be unchanged.
    pub fn trusting_secrets_for(self, trust: Duration) -> Self {
        Self { trust, ..self }
    }
}

/// Finds identities. Shared by all who reconcile.
pub struct Resolver {
    kube: kube::Client,
    client: Client,
    settings: Settings,
    global: Option<Arc<Identity>>,
    /// What each Secret held when it was last read.
    secrets: Mutex<HashMap<(String, String), Arc<Slot>>>,
    /// Tokens by credential, as long as an identity has them.
    tokens: Mutex<HashMap<[u8; 32], Weak<Tokens>>>,
}

type Slot = tokio::sync::Mutex<Option<Known>>;

struct Known {
    read: Instant,
    fingerprint: Option<[u8; 32]>,
    found: Result<Arc<Identity>, Error>,
}

/// Secrets remembered. Above that, those go that no object has asked about for a while.
const REMEMBERED: usize = 1024;
const FORGOTTEN_AFTER: Duration = Duration::from_mins(10);

impl Resolver {
    /// A resolver that reads Secrets with `kube` and fetches tokens over the connections of `client`.
    pub fn new(kube: kube::Client, client: Client, settings: Settings) -> Self {
        let mut resolver =
            Self { kube, client, settings, global: None, secrets: Mutex::default(), tokens: Mutex::default() };
        resolver.global = resolver.settings.global.clone().map(|found| resolver.identity(found, Origin::Global));
        resolver
    }

    /// The identity for an object of `namespace` whose annotation says `credential_from`.
    pub async fn for_object(&self, namespace: &str, credential_from: Option<&str>) -> Result<Arc<Identity>, Error> {
        if let Some(name) = credential_from {
            if name.is_empty() || name.contains('/') {
                return Err(Error::BadName { name: name.to_owned() });
            }
            return self.of_secret(namespace, name).await;
        }
        match self.of_secret(namespace, NAMESPACE_SECRET).await {
            Err(Error::NoSecret { .. }) => {
                self.global.clone().ok_or_else(|| Error::Nothing { namespace: namespace.to_owned() })
            }
            found => found,
        }
    }

    /// Forgets what a Secret held; the next object that needs it reads it again. For wake-ups.
    pub fn forget(&self, namespace: &str, name: &str) {
        lock(&self.secrets).remove(&(namespace.to_owned(), name.to_owned()));
    }

    async fn of_secret(&self, namespace: &str, name: &str) -> Result<Arc<Identity>, Error> {
        let slot = self.slot(namespace, name);
        // Held while the Secret is read: the others who want it wait for that one answer.
        let mut known = slot.lock().await;
        if let Some(known) = known.as_ref().filter(|known| known.read.elapsed() < self.settings.trust) {
            return known.found.clone();
        }
        let api = Api::<Secret>::namespaced(self.kube.clone(), namespace);
        let read = api.get_opt(name).await;
        let (fingerprint, found) = match read {
            Ok(Some(secret)) => {
                let parsed = format::scoped(&secret, namespace, name, &self.settings.cloud, self.settings.multi_cloud);
                let fingerprint = parsed.as_ref().ok().map(|found| found.fingerprint);
                let unchanged = known.take().filter(|known| fingerprint.is_some() && known.fingerprint == fingerprint);
                let found = match unchanged {
                    Some(known) => known.found,
                    None => parsed.map(|found| {
                        let origin = Origin::Secret { namespace: namespace.to_owned(), name: name.to_owned() };
                        tracing::info!(namespace, name, client_id = %found.client_id, "Read a credential");
                        self.identity(found, origin)
                    }),
                };
                (fingerprint, found)
            }
            Ok(None) => (None, Err(Error::NoSecret { namespace: namespace.to_owned(), name: name.to_owned() })),
            // Not remembered: the next one asks again.
            Err(error) => return Err(Error::unreadable(namespace, name, error)),
        };
        *known = Some(Known { read: Instant::now(), fingerprint, found: found.clone() });
        found
    }

    fn slot(&self, namespace: &str, name: &str) -> Arc<Slot> {
        let mut secrets = lock(&self.secrets);
        if secrets.len() >= REMEMBERED {
            secrets.retain(|_, slot| match slot.try_lock() {
                Ok(known) => known.as_ref().is_some_and(|known| known.read.elapsed() < FORGOTTEN_AFTER),
                Err(_) => true,
            });
        }
        secrets.entry((namespace.to_owned(), name.to_owned())).or_default().clone()
    }

    fn identity(&self, found: Credential, origin: Origin) -> Arc<Identity> {
        let tokens = {
            let mut all = lock(&self.tokens);
            all.retain(|_, tokens| tokens.strong_count() > 0);
            all.get(&found.fingerprint).and_then(Weak::upgrade).unwrap_or_else(|| {
                let tokens = Arc::new(found.tokens(&self.client));
                all.insert(found.fingerprint, Arc::downgrade(&tokens));
                tokens
            })
        };
        found.identity(origin, tokens)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
