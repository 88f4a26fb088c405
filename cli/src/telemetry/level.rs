//! The filter of the log, which can be replaced at run time.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use tracing_subscriber::{EnvFilter, Registry, reload};

use crate::args::check_log_level;

/// Shows and replaces the filter. Cheap to clone.
#[derive(Clone)]
pub(super) struct Level {
    handle: reload::Handle<EnvFilter, Registry>,
    /// The filter as it was set: printing an `EnvFilter` adds and reorders parts.
    text: Arc<Mutex<String>>,
}

/// A filter for the subscriber, and what replaces it.
pub(super) fn new(text: &str) -> Result<(reload::Layer<EnvFilter, Registry>, Level)> {
    let filter = EnvFilter::try_new(text).with_context(|| format!("failed to read the log level {text:?}"))?;
    let (layer, handle) = reload::Layer::new(filter);
    Ok((layer, Level { handle, text: Arc::new(Mutex::new(text.to_owned())) }))
}

impl Level {
    /// The present filter.
    pub(super) fn text(&self) -> String {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the filter; if it can't be used, the old one stays.
    pub(super) fn set(&self, text: &str) -> Result<(), String> {
        let text = check_log_level(text)?;
        let filter = EnvFilter::try_new(&text).map_err(|error| error.to_string())?;
        let before = {
            let mut present = self.text.lock().unwrap_or_else(PoisonError::into_inner);
            self.handle.reload(filter).map_err(|error| error.to_string())?;
            std::mem::replace(&mut *present, text.clone())
        };
        tracing::info!(from = %before, to = %text, "Changed the log level");
        Ok(())
    }
}

/// Whether a client at `peer` may change the level: only from inside the pod, which is where `kubectl port-forward` connects from.
///
/// Others on the network may read metrics, but could fill disks and slow a member down with logs. Istio's proxy forwards the
/// calls of others from 127.0.0.6, which is on loopback, too: hence exactly the two addresses.
pub(super) fn may_change(peer: IpAddr) -> bool {
    matches!(peer.to_canonical(), IpAddr::V4(std::net::Ipv4Addr::LOCALHOST) | IpAddr::V6(std::net::Ipv6Addr::LOCALHOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clients_in_the_pod_change_the_level() {
        for (peer, may) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("127.0.0.6", false),
            ("10.0.0.7", false),
            ("::ffff:10.0.0.7", false),
            ("fe80::1", false),
        ] {
            assert_eq!(may_change(peer.parse().unwrap()), may, "{peer}");
        }
    }

    #[test]
    fn a_filter_that_cannot_be_used_changes_nothing() {
        let (_layer, level) = new("info").unwrap();
        for bad in ["loud", "", "flotilla=loud"] {
            assert!(level.set(bad).is_err(), "{bad}");
        }
        assert_eq!(level.text(), "info");
        level.set("info,flotilla_worker=debug\n").unwrap();
        assert_eq!(level.text(), "info,flotilla_worker=debug");
    }
}
