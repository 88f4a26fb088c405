//! Tokens of one credential: fetched once for all who wait, kept until shortly before they end.
//!
//! `azure_identity` makes the request to Entra. Its own cache can't be told that ARM rejected a token, and it forgets
//! failures, so a thousand objects with a wrong secret would ask Entra a thousand times: hence this one.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwapOption;
use azure_core::cloud::{CloudConfiguration, CustomConfiguration};
use azure_core::credentials::{Secret, TokenCredential};
use azure_core::error::ErrorKind;
use azure_core::http::{ClientOptions, HttpClient, RetryOptions, Transport};
use azure_identity::{
    ClientAssertionCredentialOptions, ClientSecretCredential, ClientSecretCredentialOptions, ManagedIdentityCredential,
    ManagedIdentityCredentialOptions, UserAssignedId, WorkloadIdentityCredential, WorkloadIdentityCredentialOptions,
};
use jiff::Timestamp;
use tokio::sync::Mutex;

use super::cloud::Cloud;
use super::error::Fault;
use super::rate;
use super::scale::TimeScale;

/// How a client proves who it is.
#[derive(Clone)]
pub enum Proof {
    /// A client secret.
    ClientSecret(Secret),
    /// A service account token, projected into a file and exchanged.
    WorkloadIdentity {
        /// The file with the token.
        token_file: PathBuf,
    },
    /// The identity of the machine.
    ManagedIdentity,
}

impl Proof {
    /// A client secret.
    pub fn client_secret(secret: impl Into<String>) -> Self {
        Self::ClientSecret(Secret::new(secret.into()))
    }
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClientSecret(_) => "ClientSecret",
            Self::WorkloadIdentity { .. } => "WorkloadIdentity",
            Self::ManagedIdentity => "ManagedIdentity",
        })
    }
}

/// Why there is no token. Kept and handed to all who ask in the meantime.
#[derive(Clone, Debug)]
pub(super) struct NoToken {
    /// What Entra said.
    pub(super) fault: Fault,
    /// Entra refused, rather than could not be reached or could not answer.
    pub(super) refused: bool,
    /// When to ask again, counted from now.
    pub(super) retry_after: Duration,
}

impl fmt::Display for NoToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no token: {}", self.fault.text())
    }
}

impl std::error::Error for NoToken {}

/// A token, with the number that tells it from the ones before.
pub(super) struct Token {
    pub(super) secret: Secret,
    pub(super) number: u64,
    refresh_at: SystemTime,
    expires_at: SystemTime,
}

/// The tokens of one credential for one cloud's ARM.
pub(super) struct Tokens {
    tenant: String,
    client_id: String,
    proof: Proof,
    cloud: Arc<Cloud>,
    http: Arc<dyn HttpClient>,
    scale: TimeScale,
    current: ArcSwapOption<Token>,
    fetch: Mutex<Fetch>,
}

#[derive(Default)]
struct Fetch {
    fetched: u64,
    /// The last token that ARM rejected was replaced then.
    replaced: Option<Instant>,
    failures: u32,
    /// The last failure, and until when it is the answer.
    failed: Option<(NoToken, Instant)>,
}

/// Refreshed this long before its end.
const EARLY: Duration = Duration::from_mins(5);
/// A token is not sent in its last seconds.
const LAST: Duration = Duration::from_secs(10);
/// A failed early refresh is repeated after this.
const AGAIN: Duration = Duration::from_secs(30);
/// A rejected token is not replaced more often: if the new one is rejected too, the cause lies elsewhere.
const REPLACE_EVERY: Duration = Duration::from_secs(5);

impl Tokens {
    pub(super) fn new(
        tenant: &str,
        client_id: &str,
        proof: Proof,
        cloud: Arc<Cloud>,
        http: Arc<dyn HttpClient>,
        scale: TimeScale,
    ) -> Self {
        Self {
            tenant: tenant.to_owned(),
            client_id: client_id.to_owned(),
            proof,
            cloud,
            http,
            scale,
            current: ArcSwapOption::empty(),
            fetch: Mutex::default(),
        }
    }

    /// A token that is good for some minutes at least.
    pub(super) async fn get(&self) -> Result<Arc<Token>, NoToken> {
        if let Some(token) = self.good() {
            return Ok(token);
        }
        let mut fetch = match (self.usable(), self.fetch.try_lock()) {
            (_, Ok(fetch)) => fetch,
            // Another task is fetching one; until then the old one will do.
            (Some(token), Err(_)) => return Ok(token),
            (None, Err(_)) => self.fetch.lock().await,
        };
        if let Some(token) = self.good() {
            return Ok(token);
        }
        match self.renew(&mut fetch).await {
            Ok(token) => Ok(token),
            Err(failure) => match self.usable() {
                // It was early anyway: the old one still works.
                Some(token) => {
                    let again = SystemTime::now() + AGAIN;
                    let token = Arc::new(Token { secret: token.secret.clone(), refresh_at: again, ..*token });
                    self.current.store(Some(token.clone()));
                    Ok(token)
                }
                None => Err(failure),
            },
        }
    }

    /// Another token in place of the one that ARM rejected; none if that was one already.
    pub(super) async fn replace(&self, rejected: u64) -> Result<Option<Arc<Token>>, NoToken> {
        let mut fetch = self.fetch.lock().await;
        if let Some(token) = self.good().filter(|token| token.number != rejected) {
            return Ok(Some(token));
        }
        if fetch.replaced.is_some_and(|at| at.elapsed() < REPLACE_EVERY) {
            return Ok(None);
        }
        fetch.replaced = Some(Instant::now());
        self.current.store(None);
        self.renew(&mut fetch).await.map(Some)
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.fetch.try_lock().is_ok()
    }

    #[cfg(test)]
    pub(super) fn age(&self, by: Duration) {
        if let Some(token) = self.current.load_full() {
            let (refresh_at, expires_at) = (token.refresh_at - by, token.expires_at - by);
            self.current.store(Some(Arc::new(Token {
                secret: token.secret.clone(),
                refresh_at,
                expires_at,
                ..*token
            })));
        }
    }

    /// The current token if it has not ended, nor will while a call is under way.
    fn usable(&self) -> Option<Arc<Token>> {
        self.current.load_full().filter(|token| token.expires_at > SystemTime::now() + LAST)
    }

    /// The current token if it need not be refreshed yet.
    fn good(&self) -> Option<Arc<Token>> {
        self.current.load_full().filter(|token| token.refresh_at > SystemTime::now())
    }

    async fn renew(&self, fetch: &mut Fetch) -> Result<Arc<Token>, NoToken> {
        let now = Instant::now();
        if let Some((failure, until)) = fetch.failed.as_ref().filter(|(_, until)| *until > now) {
            return Err(NoToken { retry_after: *until - now, ..failure.clone() });
        }
        match self.ask().await {
            Ok((secret, expires_at)) => {
                fetch.fetched += 1;
                fetch.failures = 0;
                fetch.failed = None;
                let left = expires_at.duration_since(SystemTime::now()).unwrap_or_default();
                // A short-lived one is used for its first half.
                let refresh_at = expires_at - EARLY.min(left / 2);
                let token = Arc::new(Token { secret, number: fetch.fetched, refresh_at, expires_at });
                self.current.store(Some(token.clone()));
                tracing::debug!(client_id = %self.client_id, lifetime_s = left.as_secs(), "Fetched a token");
                Ok(token)
            }
            Err(mut failure) => {
                fetch.failures = fetch.failures.saturating_add(1);
                let backoff = super::error::Retry::Fast.delay(fetch.failures, None);
                failure.retry_after = failure.retry_after.max(backoff);
                fetch.failed = Some((failure.clone(), Instant::now() + failure.retry_after));
                tracing::warn!(client_id = %self.client_id, tenant = %self.tenant, reason = %failure, "Failed to get a token");
                Err(failure)
            }
        }
    }

    async fn ask(&self) -> Result<(Secret, SystemTime), NoToken> {
        let credential = self.credential().map_err(|error| explain(&error, self.scale))?;
        let scope = self.cloud.scope();
        let token = credential.get_token(&[&scope], None).await.map_err(|error| explain(&error, self.scale))?;
        Ok((token.token, token.expires_on.into()))
    }

    /// A new one each time, so that none answers from a cache of its own.
    fn credential(&self) -> azure_core::Result<Arc<dyn TokenCredential>> {
        let mut custom = CustomConfiguration::default();
        custom.authority_host = self.cloud.authority.to_string();
        let client_options = ClientOptions {
            // The engine retries, together with all others that wait; the library would hold the call for minutes.
            retry: RetryOptions::none(),
            transport: Some(Transport::new(self.http.clone())),
            cloud: Some(Arc::new(CloudConfiguration::Custom(custom))),
            ..ClientOptions::default()
        };
        Ok(match &self.proof {
            Proof::ClientSecret(secret) => ClientSecretCredential::new(
                &self.tenant,
                self.client_id.clone(),
                secret.clone(),
                Some(ClientSecretCredentialOptions { client_options }),
            )?,
            Proof::WorkloadIdentity { token_file } => {
                WorkloadIdentityCredential::new(Some(WorkloadIdentityCredentialOptions {
                    credential_options: ClientAssertionCredentialOptions { client_options },
                    client_id: Some(self.client_id.clone()),
                    tenant_id: Some(self.tenant.clone()),
                    token_file_path: Some(token_file.clone()),
                }))?
            }
            Proof::ManagedIdentity => ManagedIdentityCredential::new(Some(ManagedIdentityCredentialOptions {
                user_assigned_id: (!self.client_id.is_empty())
                    .then(|| UserAssignedId::ClientId(self.client_id.clone())),
                client_options,
            }))?,
        })
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("client_id", &self.client_id).field("proof", &self.proof).finish_non_exhaustive()
    }
}

/// Finds Entra's own words in what the library makes of them.
fn explain(error: &azure_core::Error, scale: TimeScale) -> NoToken {
    let mut at: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut deepest = error.to_string();
    while let Some(current) = at {
        deepest = current.to_string();
        if let Some(ErrorKind::HttpResponse { raw_response: Some(response), .. }) =
            current.downcast_ref::<azure_core::Error>().map(azure_core::Error::kind)
        {
            let status = u16::from(response.status());
            return NoToken {
                fault: Fault::parse(response.body().as_ref()),
                refused: (400..500).contains(&status) && status != 429 && status != 408,
                retry_after: rate::retry_after(response.headers(), scale, Timestamp::now()).unwrap_or_default(),
            };
        }
        at = current.source();
    }
    let fault = Fault { message: Some(deepest), ..Fault::default() };
    NoToken { fault, refused: false, retry_after: Duration::ZERO }
}
