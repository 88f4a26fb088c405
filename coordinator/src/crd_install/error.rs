//! Why a kind or a policy could not be installed, and whether another pass may do better.

use flotilla_crds::UnknownVersion;
use flotilla_proto::kubernetes;

/// A kind or policy that could not be installed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The cluster did not say which CRDs it has.
    #[error("failed to list CRDs")]
    List(#[source] kubernetes::Error),
    /// The catalog's entry could not be unpacked or printed.
    #[error("failed to render the CRD {name}: {reason}")]
    Render {
        /// The CRD.
        name: String,
        /// Why.
        reason: String,
    },
    /// The cluster did not say which CRDs it serves.
    #[error("failed to read which CRDs are served")]
    Discover(#[source] kubernetes::Error),
    /// The pattern names an api-version that the kind does not have.
    #[error("failed to choose the versions of {name}")]
    UnknownVersion {
        /// The CRD.
        name: String,
        /// Which there are.
        #[source]
        source: UnknownVersion,
    },
    /// The API server accepted it and does not serve it, or not in every version.
    #[error("the API server accepted {name} but does not serve it: {why}")]
    NotServed {
        /// The CRD.
        name: String,
        /// What its status says.
        why: String,
    },
    /// There is a CRD of this name that has nothing to do with ours. It is not touched.
    #[error(
        "the CRD {name} belongs to somebody else: it has versions that the kind does not have ({versions}), and its objects would \
         lose data; take the kind off the CRD pattern, or delete this CRD if nobody needs it"
    )]
    Foreign {
        /// The CRD.
        name: String,
        /// Its versions.
        versions: String,
    },
    /// The API server refused it or was not reached.
    #[error("failed to install {name}")]
    Install {
        /// The CRD or policy.
        name: String,
        /// Cause.
        #[source]
        source: kubernetes::Error,
    },
}

impl Error {
    /// Whether another pass may go well, with the pattern and the catalog as they are.
    pub(super) fn may_pass(&self) -> bool {
        !matches!(self, Self::UnknownVersion { .. })
    }
}
