//! Reads a credential from a Secret's keys or from the operator's variables, which have the same names.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use azure_core::credentials::Secret as Hidden;
use k8s_openapi::api::core::v1::Secret;
use sha2::{Digest, Sha256};

use super::super::error::ConfigError;
use super::super::identity::Cloud;
use super::super::token::Proof;
use super::Error;

/// What a Secret or the variables say.
#[derive(Clone)]
pub(super) struct Credential {
    pub(super) subscription: String,
    pub(super) tenant: String,
    pub(super) client_id: String,
    pub(super) cloud: Arc<Cloud>,
    pub(super) proof: Proof,
    /// Equal for credentials that get the same tokens.
    pub(super) fingerprint: [u8; 32],
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("client_id", &self.client_id).field("proof", &self.proof).finish_non_exhaustive()
    }
}

/// Where the chart mounts the service account token that is exchanged with Entra.
const TOKEN_FILE: &str = "/var/run/secrets/tokens/azure-identity";

const SUBSCRIPTION: &str = "AZURE_SUBSCRIPTION_ID";
const TENANT: &str = "AZURE_TENANT_ID";
const CLIENT: &str = "AZURE_CLIENT_ID";
const CLIENT_SECRET: &str = "AZURE_CLIENT_SECRET";
const CERTIFICATE: &str = "AZURE_CLIENT_CERTIFICATE";
const FIRST_PARTY: &str = "AZURE_USER_ASSIGNED_IDENTITY_CREDENTIALS";
const AUTH_MODE: &str = "AUTH_MODE";
const CLOUD: [&str; 3] =
    ["AZURE_RESOURCE_MANAGER_ENDPOINT", "AZURE_RESOURCE_MANAGER_AUDIENCE", "AZURE_AUTHORITY_HOST"];

/// Something wrong with one key.
enum Problem {
    Missing(&'static str),
    Bad(&'static str, &'static str),
}

/// Reads a Secret.
pub(super) fn scoped(
    secret: &Secret,
    namespace: &str,
    name: &str,
    cloud: &Arc<Cloud>,
    multi_cloud: bool,
) -> Result<Credential, Error> {
    let get = |key: &str| {
        let bytes = &secret.data.as_ref()?.get(key)?.0;
        let text = std::str::from_utf8(bytes).ok()?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    read(get, cloud, multi_cloud).map_err(|problem| {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        match problem {
            Problem::Missing(key) => Error::NoKey { namespace, name, key },
            Problem::Bad(key, problem) => Error::Unusable { namespace, name, key, problem },
        }
    })
}

fn read(get: impl Fn(&str) -> Option<String>, cloud: &Arc<Cloud>, multi_cloud: bool) -> Result<Credential, Problem> {
    let need = |key: &'static str| get(key).ok_or(Problem::Missing(key));
    let (subscription, tenant, client_id) = (need(SUBSCRIPTION)?, need(TENANT)?, need(CLIENT)?);
    let cloud = named_cloud(&get, cloud, multi_cloud)?;
    let proof = if let Some(secret) = get(CLIENT_SECRET) {
        Proof::ClientSecret(Hidden::new(secret))
    } else if get(CERTIFICATE).is_some() {
        return Err(Problem::Bad(CERTIFICATE, "is not supported yet; give AZURE_CLIENT_SECRET"));
    } else if get(FIRST_PARTY).is_some() {
        return Err(Problem::Bad(FIRST_PARTY, "is not supported yet; give AZURE_CLIENT_SECRET"));
    } else {
        match get(AUTH_MODE).as_deref() {
            None | Some("workloadidentity") => Proof::WorkloadIdentity { token_file: PathBuf::from(TOKEN_FILE) },
            Some("podidentity") => Proof::ManagedIdentity,
            Some(_) => return Err(Problem::Bad(AUTH_MODE, "must be workloadidentity or podidentity")),
        }
    };
    Ok(credential(subscription, tenant, client_id, cloud, proof))
}

/// A Secret may name another cloud, by all three of its URLs, where the operator allows it.
fn named_cloud(
    get: impl Fn(&str) -> Option<String>,
    cloud: &Arc<Cloud>,
    multi_cloud: bool,
) -> Result<Arc<Cloud>, Problem> {
    let urls = CLOUD.map(&get);
    if urls.iter().all(Option::is_none) {
        return Ok(cloud.clone());
    }
    for (key, url) in CLOUD.into_iter().zip(&urls) {
        match url {
            None => return Err(Problem::Bad(key, "is missing; the three URLs of a cloud go together")),
            Some(_) if !multi_cloud => {
                return Err(Problem::Bad(key, "is not allowed; the operator's ALLOW_MULTI_ENV_MANAGEMENT is not true"));
            }
            Some(_) => {}
        }
    }
    let [endpoint, audience, authority] = urls.map(Option::unwrap_or_default);
    Cloud::new(&endpoint, &audience, &authority).map(Arc::new).map_err(|error| match error {
        ConfigError::Value { key, .. } => Problem::Bad(key, "must be an https URL"),
        _ => Problem::Bad(CLOUD[0], "is not usable"),
    })
}

/// Reads the operator's variables; none of them means that every namespace brings a credential.
pub(super) fn global(
    get: impl Fn(&str) -> Option<String>,
    cloud: &Arc<Cloud>,
) -> Result<Option<Credential>, ConfigError> {
    let Some(subscription) = get(SUBSCRIPTION) else { return Ok(None) };
    let (tenant, client_id) = (get(TENANT).unwrap_or_default(), get(CLIENT).unwrap_or_default());
    let is_true = |key: &str| get(key).is_some_and(|text| text.eq_ignore_ascii_case("true"));
    let refused = |key: &'static str, wanted: &'static str| ConfigError::Value { key, value: "<hidden>".to_owned(), wanted };
    let proof = if is_true("USE_WORKLOAD_IDENTITY_AUTH") {
        let file = get("AZURE_FEDERATED_TOKEN_FILE").unwrap_or_else(|| TOKEN_FILE.to_owned());
        Proof::WorkloadIdentity { token_file: PathBuf::from(file) }
    } else if get(CERTIFICATE).is_some() {
        return Err(refused(CERTIFICATE, "unset: certificates are not supported yet, give AZURE_CLIENT_SECRET"));
    } else if get(FIRST_PARTY).is_some() {
        return Err(refused(FIRST_PARTY, "unset: it is not supported yet, give AZURE_CLIENT_SECRET"));
    } else if let Some(secret) = get(CLIENT_SECRET) {
        Proof::ClientSecret(Hidden::new(secret))
    } else {
        Proof::ManagedIdentity
    };
    if !matches!(proof, Proof::ManagedIdentity) {
        for (key, value) in [(TENANT, &tenant), (CLIENT, &client_id)] {
            if value.is_empty() {
                return Err(ConfigError::Value { key, value: String::new(), wanted: "set beside the subscription" });
            }
        }
    }
    Ok(Some(credential(subscription, tenant, client_id, cloud.clone(), proof)))
}

fn credential(subscription: String, tenant: String, client_id: String, cloud: Arc<Cloud>, proof: Proof) -> Credential {
    let mut hash = Sha256::new();
    let mut add = |part: &str| {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    };
    for part in [cloud.endpoint.as_str(), &cloud.audience, cloud.authority.as_str(), &subscription, &tenant, &client_id] {
        add(part);
    }
    match &proof {
        Proof::ClientSecret(secret) => {
            add("secret");
            add(secret.secret());
        }
        Proof::WorkloadIdentity { token_file } => {
            add("workload");
            add(&token_file.to_string_lossy());
        }
        Proof::ManagedIdentity => add("managed"),
    }
    let fingerprint = hash.finalize().into();
    Credential { subscription, tenant, client_id, cloud, proof, fingerprint }
}
