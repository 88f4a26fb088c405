//! What the catalog's index says about a kind, without its types.

use serde::{Deserialize, Serialize};

use crate::graph::NodeId;
use crate::manager::Manager;
use crate::scopes::Scopes;

/// What the index says about a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindEntry {
    /// The Kubernetes group, as in `storage.azure.com`.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The plural, lower case.
    pub plural: String,
    /// The ARM type, as Azure spells it; empty for a kind that is none of ARM's.
    pub arm_type: String,
    /// What its objects are resources of.
    #[serde(default, skip_serializing_if = "Manager::is_arm")]
    pub manager: Manager,
    /// Served API versions, oldest first.
    pub versions: Vec<VersionEntry>,
    /// The API version whose `…storage` version objects are stored in.
    pub hub: String,
    /// What the operator can write to Secrets and config maps by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exports: Vec<Export>,
    /// How the PUT body treats collections that are not set.
    #[serde(default, skip_serializing_if = "Payload::is_plain")]
    pub payload: Payload,
    /// Where in ARM it can be written.
    pub scopes: Scopes,
    /// The group and kind of its owner, where that is a kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<(String, String)>,
    /// Whether it is outside ASO's set, and so named by rule and guessed at where facts are missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub further: bool,
    /// The block with its types.
    pub block: u32,
}

/// A served version of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionEntry {
    /// The Kubernetes version, as in `v1api20230101`.
    pub name: String,
    /// The ARM api-version, as in `2023-01-01`; the version's own name where there is no ARM.
    pub api_version: String,
    /// The node of the body in the kind's block.
    pub root: NodeId,
}

/// Something the operator can write to a Secret or a config map, named in `operatorSpec`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    /// The field under `operatorSpec.secrets` or `operatorSpec.configMaps`.
    pub name: String,
    /// Whether it is a secret.
    pub secret: bool,
    /// Served versions that have it; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<String>,
    /// Where the value comes from: `status:path` or `action:path`.
    pub source: String,
}

/// How collections that a spec does not set appear in the PUT body.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// Every collection that is not set is sent as null, because the service's PUT keeps what is not mentioned.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nulls: bool,
    /// Fields of the spec (dots, `[]` for items) whose empty or missing collection is sent as an empty one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub empty: Vec<String>,
}

impl Payload {
    fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

impl KindEntry {
    /// The version that objects are stored in.
    pub fn storage_version(&self) -> String {
        if self.manager.is_arm() { format!("{}storage", self.hub) } else { self.hub.clone() }
    }

    /// What its objects are resources of, for people: the ARM type, or what else keeps them.
    pub fn belongs_to(&self) -> &str {
        if self.manager.is_arm() { &self.arm_type } else { self.manager.noun() }
    }

    /// The CRD's name.
    pub fn crd_name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }
}
