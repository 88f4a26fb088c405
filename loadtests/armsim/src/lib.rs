//! ARM as its clients see it, from records of the real one: tokens, ids, api-versions, bodies, long-running operations,
//! limits and refusals, with faults on demand and a journal of every call.
//!
//! # Flow
//! [`edge`](self) reads a request into a call; the pure core (`sim`, `arm`, `azure`, `limits`, `lro`) decides under one lock
//! what it does and answers; the edge writes the answer. [`Control`] and the admin API change the core by hand.
//!
//! # Guarantees
//! The journal has every call, in the order in which calls took effect. The same seed and calls give the same ids and values.
//!
//! # Caveats
//! One ARM region answers, and it is always up to date: lists do not lag behind. Nothing is kept on disk.

mod admin;
mod answer;
mod arm;
mod azure;
mod bucket;
mod card;
mod clock;
mod control;
mod dice;
mod edge;
mod entra;
mod error;
mod fault;
mod journal;
mod limits;
pub mod load;
mod lro;
mod made_up;
mod profile;
mod region;
mod render;
mod route;
mod settings;
mod sim;
mod template;
mod tls;
mod type_data;

use std::net::{SocketAddr, TcpListener};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Instant;

use flotilla_crds::ArmId;
use tokio_util::sync::CancellationToken;

pub use answer::Method;
pub use bucket::Rate;
pub use control::{
    Control, Counts, Error as ControlError, OperationView, ResourceChange, ResourceFilter, ResourceView,
};
pub use entra::App;
pub use fault::{Action as FaultAction, Match as FaultMatch, Rule as FaultRule, Status as FaultStatus};
pub use journal::{Entry, Filter as JournalFilter, Outcome, Page as JournalPage, Summary as JournalSummary, Text};
pub use limits::{Rates, Throttle};
pub use lro::{Progress, Work};
pub use settings::{
    Change as SettingsChange, DEMO_CLIENT_ID, DEMO_CLIENT_SECRET, DEMO_SUBSCRIPTION, DEMO_TENANT, Options, RatesChange,
    Settings,
};
pub use type_data::{CatalogTypes, TypeData, Violation};

/// Why armsim does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address cannot be used.
    #[error("failed to listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The directory for the authority's certificate cannot be created.
    #[error("failed to make a directory for the certificate")]
    Directory(#[source] std::io::Error),
    /// The certificates cannot be made.
    #[error("failed to make the certificates")]
    Tls(#[from] tls::Error),
    /// An option makes no sense.
    #[error("failed to use the options")]
    Options(#[from] settings::Error),
    /// A throttle's type cannot be read.
    #[error("failed to use a throttle")]
    Throttle(#[from] fault::Error),
}

/// A running armsim. Dropping it stops it; its [`Control`] can be used directly on it.
pub struct Armsim {
    control: Control,
    endpoint: String,
    admin_url: String,
    ca_file: PathBuf,
    /// The directory that the certificate is in, if it is ours.
    _directory: Option<tempfile::TempDir>,
    front: axum_server::Handle<SocketAddr>,
    stop: CancellationToken,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Armsim {
    /// Starts armsim on the current runtime.
    #[expect(clippy::unused_async, reason = "it needs a runtime, and says so")]
    pub async fn start(options: Options) -> Result<Self, Error> {
        let (directory, ca_file) = if let Some(file) = options.ca_file.clone() {
            (None, file)
        } else {
            let directory = tempfile::Builder::new().prefix("armsim").tempdir().map_err(Error::Directory)?;
            let file = directory.path().join("ca.pem");
            (Some(directory), file)
        };
        let (front_listener, front_address) = listen(options.listen)?;
        let (admin_listener, admin_address) = listen(options.admin)?;
        let tls = tls::server(&ca_file, front_address.ip())?;
        let endpoint = format!("https://{front_address}");
        let control = Control(edge::Shared::new(sim(options, &endpoint)?));

        let front = axum_server::Handle::new();
        let stop = CancellationToken::new();
        let listen_error = |address| move |source| Error::Listen { address, source };
        let acceptor =
            axum_server::tls_rustls::RustlsAcceptor::new(axum_server::tls_rustls::RustlsConfig::from_config(tls))
                .acceptor(axum_server::accept::NoDelayAcceptor::new());
        let server = axum_server::from_tcp(front_listener).map_err(listen_error(front_address))?;
        let serve = server.acceptor(acceptor).handle(front.clone()).serve(edge::Fronts(control.0.clone()));
        let admin = tokio::net::TcpListener::from_std(admin_listener).map_err(listen_error(admin_address))?;
        let router = admin::router(control.clone());
        let stopped = stop.clone();
        let serve_admin = axum::serve(admin, router).with_graceful_shutdown(stopped.cancelled_owned());
        let tasks = vec![
            tokio::spawn(async move {
                if let Err(error) = serve.await {
                    tracing::error!(%error, "Armsim's endpoint ended");
                }
            }),
            tokio::spawn(async move {
                if let Err(error) = serve_admin.await {
                    tracing::error!(%error, "Armsim's admin API ended");
                }
            }),
        ];
        let admin_url = format!("http://{admin_address}");
        Ok(Self { control, endpoint, admin_url, ca_file, _directory: directory, front, stop, tasks })
    }

    /// Where ARM and Entra are: `https://127.0.0.1:port`, without a trailing slash.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Where the admin API is: `http://127.0.0.1:port`; its paths begin with `/_sim/`.
    pub fn admin_url(&self) -> &str {
        &self.admin_url
    }

    /// The certificate of the authority that clients have to trust, in PEM.
    pub fn ca_pem_path(&self) -> &Path {
        &self.ca_file
    }

    /// The controls, to be kept elsewhere.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// All calls so far.
    pub fn calls(&self) -> Vec<Entry> {
        // Without globs a filter cannot be wrong.
        self.control.journal(&JournalFilter::default()).map(|page| page.entries).unwrap_or_default()
    }

    /// Stops, and waits until it has.
    pub async fn stop(mut self) {
        self.front.shutdown();
        self.stop.cancel();
        for task in self.tasks.drain(..) {
            // Hanging admin connections must not keep it.
            let _ = tokio::time::timeout(std::time::Duration::from_secs(2), task).await;
        }
    }
}

impl Deref for Armsim {
    type Target = Control;
    fn deref(&self) -> &Control {
        &self.control
    }
}

impl Drop for Armsim {
    fn drop(&mut self) {
        self.front.shutdown();
        self.stop.cancel();
        for task in &self.tasks {
            task.abort();
        }
    }
}

fn sim(options: Options, endpoint: &str) -> Result<sim::Sim, Error> {
    let settings = Settings {
        time_scale: options.time_scale,
        latency_millis: u64::try_from(options.latency.as_millis()).unwrap_or(u64::MAX),
        rates: options.rates,
        hold: options.hold,
        durations: options.durations,
        region: options.region,
        page_size: options.page_size,
    };
    settings.check()?;
    let epoch = jiff::Timestamp::now();
    Ok(sim::Sim {
        clock: clock::Clock::new(Instant::now(), settings.time_scale),
        azure: azure::Azure::new(options.seed, epoch, options.operation_retention),
        directory: entra::Directory::new(options.apps, options.token_lifetime, endpoint),
        faults: fault::Faults::default(),
        journal: journal::Journal::default(),
        limits: limits::Limits::new(options.rates, options.throttles)?,
        types: options.type_data,
        record_bodies: options.record_bodies,
        base: endpoint.to_owned(),
        settings,
    })
}

fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let failed = |source| Error::Listen { address, source };
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}
