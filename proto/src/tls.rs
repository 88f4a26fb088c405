//! Mutual TLS between the fleet's members.

use std::fmt;

/// The name in every coordinator's certificate: they are reached by address, and any of them may lead.
pub const COORDINATOR_NAME: &str = "flotilla-coordinator";

/// What a member proves itself with and checks others by, as PEM text.
#[derive(Clone)]
pub struct Tls {
    /// Our certificate and its chain.
    pub certificate: String,
    /// Our private key.
    pub key: String,
    /// Who signs the certificates of the other side.
    pub ca: String,
}

/// Shows nothing: what holds a key may end up in a log.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_text_hides_the_key() {
        let tls = Tls { certificate: "certificate".into(), key: "private".into(), ca: "authority".into() };
        assert_eq!(format!("{tls:?}"), "Tls { .. }");
    }
}
