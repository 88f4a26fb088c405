//! Reads a credential from a Secret's keys, whose names are those of the operator's own variables.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use azure_core::credentials::Secret as Hidden;
use k8s_openapi::api::core::v1::Secret;
use sha2::{Digest, Sha256};

use super::super::client::Client;
use super::super::cloud::Cloud;
use super::super::error::ConfigError;
use super::super::identity::{Identity, Origin};
use super::super::token::{Proof, Tokens};
use super::{Error, Own, TOKEN_FILE};

/// What a Secret or the operator's settings say.
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

impl Credential {
    /// A set of tokens of its own.
    pub(super) fn tokens(&self, client: &Client) -> Tokens {
        Tokens::new(
            &self.tenant,
            &self.client_id,
            self.proof.clone(),
            self.cloud.clone(),
            client.http(),
            client.scale(),
        )
    }

    /// The identity that it makes with `tokens`.
    pub(super) fn identity(self, origin: Origin, tokens: Arc<Tokens>) -> Arc<Identity> {
        let Self { subscription, tenant, client_id, cloud, .. } = self;
        Arc::new(Identity { subscription, tenant, client_id, cloud, origin, tokens })
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("client_id", &self.client_id)
            .field("proof", &self.proof)
            .finish_non_exhaustive()
    }
}

const SUBSCRIPTION: &str = "AZURE_SUBSCRIPTION_ID";
const TENANT: &str = "AZURE_TENANT_ID";
const CLIENT: &str = "AZURE_CLIENT_ID";
const CLIENT_SECRET: &str = "AZURE_CLIENT_SECRET";
const CERTIFICATE: &str = "AZURE_CLIENT_CERTIFICATE";
const FIRST_PARTY: &str = "AZURE_USER_ASSIGNED_IDENTITY_CREDENTIALS";
const AUTH_MODE: &str = "AUTH_MODE";
const CLOUD: [&str; 3] = ["AZURE_RESOURCE_MANAGER_ENDPOINT", "AZURE_RESOURCE_MANAGER_AUDIENCE", "AZURE_AUTHORITY_HOST"];

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

/// The operator's own credential.
pub(super) fn own(own: Own, cloud: &Arc<Cloud>) -> Credential {
    let Own { subscription, tenant, client_id, proof } = own;
    credential(subscription, tenant, client_id, cloud.clone(), proof)
}

fn credential(subscription: String, tenant: String, client_id: String, cloud: Arc<Cloud>, proof: Proof) -> Credential {
    let mut hash = Sha256::new();
    let mut add = |part: &str| {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    };
    for part in [cloud.endpoint.as_str(), &cloud.audience, cloud.authority.as_str(), &subscription, &tenant, &client_id]
    {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::ByteString;

    use super::*;
    use crate::arm::error::{Category, Retry, Severity};

    const REQUIRED: [(&str, &str); 3] = [(SUBSCRIPTION, "sub"), (TENANT, "contoso"), (CLIENT, "client")];

    fn public() -> Arc<Cloud> {
        let [endpoint, audience, authority] = Cloud::PUBLIC;
        Arc::new(Cloud::new(endpoint, audience, authority).unwrap())
    }

    fn secret(more: &[(&str, &str)]) -> Secret {
        let data: BTreeMap<_, _> = REQUIRED
            .iter()
            .chain(more)
            .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())))
            .collect();
        Secret { data: Some(data), ..Secret::default() }
    }

    fn parse(secret: &Secret, multi_cloud: bool) -> Result<Credential, Error> {
        scoped(secret, "team-a", "aso-credential", &public(), multi_cloud)
    }

    #[test]
    fn first_proof_that_is_there_is_taken() {
        for (keys, proof) in [
            (&[][..], "WorkloadIdentity"),
            (&[(CLIENT_SECRET, "s3cret\n"), (AUTH_MODE, "podidentity")], "ClientSecret"),
            (&[(AUTH_MODE, "podidentity")], "ManagedIdentity"),
            (&[(AUTH_MODE, "workloadidentity")], "WorkloadIdentity"),
        ] {
            let found = parse(&secret(keys), false).unwrap();
            assert_eq!(format!("{:?}", found.proof), proof);
            assert_eq!((found.subscription.as_str(), found.client_id.as_str()), ("sub", "client"));
        }
    }

    #[test]
    fn what_is_missing_or_unsupported_is_named_without_its_value() {
        let mut without = secret(&[]);
        without.data.as_mut().unwrap().remove(TENANT);
        let error = parse(&without, false).unwrap_err();
        assert_eq!(error.to_string(), "secret team-a/aso-credential has no key AZURE_TENANT_ID");
        assert_eq!(
            (error.reason(), error.severity(), error.retry()),
            ("SecretNotFound", Severity::Warning, Retry::Fast)
        );
        assert_eq!(error.category(), Category::MissingDependency);
        for (key, value) in [(CERTIFICATE, "-----BEGIN"), (FIRST_PARTY, "{}"), (AUTH_MODE, "magic")] {
            let error = parse(&secret(&[(key, value)]), false).unwrap_err();
            let said = format!("{error:?} {}", error.message());
            assert!(said.contains(key) && !said.contains(value), "{said}");
            assert_eq!(error.reason(), "InvalidCredential");
        }
    }

    #[test]
    fn another_cloud_takes_all_three_urls_and_leave() {
        let urls = [
            (CLOUD[0], "https://arm.example"),
            (CLOUD[1], "https://arm.example/"),
            (CLOUD[2], "https://entra.example"),
        ];
        let found = parse(&secret(&urls), true).unwrap();
        assert_eq!(found.cloud.name(), "arm.example");
        assert_eq!(found.cloud.scope(), "https://arm.example//.default");
        for (keys, multi_cloud, part) in [
            (&urls[..], false, "ALLOW_MULTI_ENV_MANAGEMENT"),
            (&urls[..2], true, "AZURE_AUTHORITY_HOST is missing"),
            (&[urls[1], urls[2], (CLOUD[0], "http://arm.example")], true, "must be an https URL"),
        ] {
            let error = parse(&secret(keys), multi_cloud).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn fingerprint_changes_with_every_part_and_hides_them() {
        let of = |keys: &[(&str, &str)]| parse(&secret(keys), false).unwrap();
        let one = of(&[(CLIENT_SECRET, "s3cret")]);
        assert_eq!(one.fingerprint, of(&[(CLIENT_SECRET, "s3cret"), ("OTHER", "x")]).fingerprint);
        for other in [of(&[(CLIENT_SECRET, "s3creu")]), of(&[(CLIENT_SECRET, "s3cret"), (CLIENT, "other")]), of(&[])] {
            assert_ne!(one.fingerprint, other.fingerprint);
        }
        assert!(!format!("{one:?}").contains("s3cret"));
    }
}
