//! How armsim behaves: what is set at the start, and the part of it that can be changed while it runs.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::entra::App;
use super::fault::{self, matcher};
use super::limits::{Rates, Throttle};
use super::lro::Work;
use super::type_data::{CatalogTypes, TypeData};
use super::{card, profile};

/// The tenant of the application that is registered from the start.
pub const DEMO_TENANT: &str = "11111111-1111-4111-8111-111111111111";
/// Its client id.
pub const DEMO_CLIENT_ID: &str = "22222222-2222-4222-8222-222222222222";
/// Its client secret.
pub const DEMO_CLIENT_SECRET: &str = "armsim-demo-secret";
/// The subscription it may use.
pub const DEMO_SUBSCRIPTION: &str = "33333333-3333-4333-8333-333333333333";

/// How to start armsim.
pub struct Options {
    /// Where ARM and Entra listen (HTTPS); port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where the admin API listens (plain HTTP, loopback).
    pub admin: SocketAddr,
    /// Where the certificate of armsim's own authority is written; without it, into a directory that goes with armsim.
    pub ca_file: Option<PathBuf>,
    /// How many simulated seconds pass in a real one.
    pub time_scale: f64,
    /// How long each call takes, in real time.
    pub latency: Duration,
    /// ARM's own buckets; `None` turns them off.
    pub rates: Option<Rates>,
    /// Throttles of single services.
    pub throttles: Vec<Throttle>,
    /// Types whose operations wait until they are ended by hand: globs without letter case.
    pub hold: Vec<String>,
    /// Simulated seconds that operations on types take instead of the usual; the keys are globs without letter case.
    pub durations: BTreeMap<String, f64>,
    /// The ARM region that answers, as `x-ms-routing-request-id` names it.
    pub region: String,
    /// What random values are made from.
    pub seed: u64,
    /// The registered applications.
    pub apps: Vec<App>,
    /// How long tokens are good, in real time.
    pub token_lifetime: Duration,
    /// Simulated time after which the record of an operation that ended is gone.
    pub operation_retention: Duration,
    /// Resources on a page of a list.
    pub page_size: usize,
    /// Azure's type data, by default the catalog's; without it any api-version and any body is taken.
    pub type_data: Option<Arc<dyn TypeData>>,
    /// Keep the bodies of ARM's calls in the journal. Off by default: load tests make many.
    pub record_bodies: bool,
}

impl Default for Options {
    fn default() -> Self {
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self {
            listen: loopback,
            admin: loopback,
            ca_file: None,
            time_scale: 1.0,
            latency: Duration::ZERO,
            rates: Some(Rates::default()),
            throttles: Vec::new(),
            hold: Vec::new(),
            durations: BTreeMap::new(),
            region: "WESTUS2".into(),
            seed: 1,
            apps: vec![App {
                tenant: DEMO_TENANT.into(),
                client_id: DEMO_CLIENT_ID.into(),
                client_secret: DEMO_CLIENT_SECRET.into(),
                subscriptions: vec![DEMO_SUBSCRIPTION.into()],
            }],
            token_lifetime: Duration::from_hours(1),
            operation_retention: Duration::from_hours(24),
            page_size: 100,
            type_data: Some(Arc::new(CatalogTypes::embedded())),
            record_bodies: false,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("listen", &self.listen)
            .field("admin", &self.admin)
            .field("time_scale", &self.time_scale)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

/// The settings that can be changed while armsim runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// How many simulated seconds pass in a real one.
    pub time_scale: f64,
    /// Real milliseconds that each call takes.
    pub latency_millis: u64,
    /// ARM's own buckets; null turns them off.
    pub rates: Option<Rates>,
    /// Types whose operations wait until they are ended by hand.
    pub hold: Vec<String>,
    /// Simulated seconds that operations on types take instead of the usual.
    pub durations: BTreeMap<String, f64>,
    /// The ARM region that answers.
    pub region: String,
    /// Resources on a page of a list.
    pub page_size: usize,
}

/// A change of settings; what is not stated stays.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Change {
    /// See [`Settings::time_scale`].
    pub time_scale: Option<f64>,
    /// See [`Settings::latency_millis`].
    pub latency_millis: Option<u64>,
    /// See [`Settings::rates`]; false turns the buckets off, true on with ARM's numbers.
    pub rates: Option<RatesChange>,
    /// See [`Settings::hold`].
    pub hold: Option<Vec<String>>,
    /// See [`Settings::durations`].
    pub durations: Option<BTreeMap<String, f64>>,
    /// See [`Settings::region`].
    pub region: Option<String>,
    /// See [`Settings::page_size`].
    pub page_size: Option<usize>,
}

/// A change of ARM's buckets.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged)]
pub enum RatesChange {
    /// On with ARM's numbers, or off.
    On(bool),
    /// On with these.
    To(Rates),
}

/// A setting that makes no sense.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A glob cannot be read.
    #[error("failed to read a type")]
    Glob(#[from] fault::Error),
    /// A number is out of bounds.
    #[error("{name} is {value}, but has to be {bounds}")]
    Number {
        /// The setting.
        name: &'static str,
        /// What it was to be.
        value: f64,
        /// What it can be.
        bounds: &'static str,
    },
}

impl Settings {
    /// Checks the settings.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if !(self.time_scale.is_finite() && self.time_scale > 0.0 && self.time_scale <= 1e6) {
            return Err(Error::Number {
                name: "timeScale",
                value: self.time_scale,
                bounds: "above 0 and at most 1000000",
            });
        }
        if self.page_size == 0 {
            return Err(Error::Number { name: "pageSize", value: 0.0, bounds: "above 0" });
        }
        if let Some(seconds) = self.durations.values().find(|seconds| !(0.0..=1e9).contains(*seconds)) {
            return Err(Error::Number {
                name: "durations",
                value: *seconds,
                bounds: "between 0 and a billion seconds",
            });
        }
        for glob in self.hold.iter().chain(self.durations.keys()) {
            matcher(glob)?;
        }
        Ok(())
    }

    /// Whether operations on a type wait for a hand.
    pub(crate) fn holds(&self, arm_type: &str) -> bool {
        self.hold.iter().any(|glob| matcher(glob).is_ok_and(|glob| glob.is_match(arm_type)))
    }

    /// How long an operation takes, in simulated time.
    pub(crate) fn duration(&self, arm_type: &str, work: Work) -> Duration {
        let set = self.durations.iter().find(|(glob, _)| matcher(glob).is_ok_and(|glob| glob.is_match(arm_type)));
        let known = &card::of(arm_type).durations;
        let known = match work {
            Work::Create => known.create,
            Work::Update => known.update.or(known.create),
            Work::Delete => known.delete,
        };
        let usual = || {
            let profile = profile::of(arm_type);
            let network = profile.name.starts_with("Microsoft.Network/");
            if network { 6.0 } else { 15.0 }
        };
        Duration::from_secs_f64(set.map(|(_, seconds)| *seconds).or(known).unwrap_or_else(usual))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            time_scale: 1.0,
            latency_millis: 0,
            rates: None,
            hold: vec!["microsoft.app/*".into()],
            durations: BTreeMap::from([("Microsoft.Storage/*".into(), 1.5)]),
            region: "X".into(),
            page_size: 1,
        }
    }

    #[test]
    fn operations_take_what_is_set_or_what_is_known() {
        let seconds = |arm_type, work| settings().duration(arm_type, work).as_secs_f64();
        assert_eq!(seconds("microsoft.storage/storageaccounts", Work::Create).to_bits(), 1.5_f64.to_bits());
        assert_eq!(settings().duration("Microsoft.App/managedEnvironments", Work::Create), Duration::from_mins(1));
        assert_eq!(settings().duration("Microsoft.Resources/resourceGroups", Work::Delete), Duration::from_secs(30));
        assert_eq!(settings().duration("Microsoft.Network/natGateways", Work::Create), Duration::from_secs(6));
        assert!(settings().holds("Microsoft.App/jobs") && !settings().holds("Microsoft.Web/sites"));
    }

    #[test]
    fn senseless_settings_are_refused() {
        assert!(settings().check().is_ok());
        for scale in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Settings { time_scale: scale, ..settings() }.check().is_err(), "{scale}");
        }
        assert!(Settings { page_size: 0, ..settings() }.check().is_err());
        assert!(Settings { hold: vec!["[".into()], ..settings() }.check().is_err());
    }
}
