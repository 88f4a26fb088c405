//! From a spec to the request that asks ARM for it, in two steps and without I/O.
//!
//! *Flow*: [`Subject::needs`] lists what the spec needs from elsewhere: the owner, the resource's name, references, keys of Secrets and config
//! maps. The caller finds the answers: a worker in its cluster, a plan in manifests. From them [`Subject::name`], [`Subject::id`] and
//! [`Subject::body`] make the request.
//!
//! Kept true here: what a spec means is decided here and nowhere else, so that a plan shows the request that a worker sends. An [`Error`] names
//! the field, the cause and the next step; a worker makes a condition of it, a plan adds line and column.

mod error;
mod needs;
#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::arm_id::ArmId;
use crate::body::Resolved;
use crate::catalog::Catalog;
use crate::kind::{Kind, NameContext, NameError, Version};

pub use error::{Cause, Error};
pub use needs::{Need, Needs, Wanted};

const OWNER: &str = "spec.owner";
const AZURE_NAME: &str = "spec.azureName";
const AZURE_NAME_FROM_CONFIG: &str = "spec.azureNameFromConfig";

/// An object as its request depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Knows the kinds that a spec may name.
    pub catalog: &'a Catalog,
    /// The object's kind.
    pub kind: &'a Kind,
    /// The version that its spec is written in.
    pub version: &'a Version,
    /// `metadata.namespace`.
    pub namespace: &'a str,
    /// `metadata.name`.
    pub name: &'a str,
    /// `metadata.uid`; None before the object exists.
    pub uid: Option<&'a str>,
    /// `spec`.
    pub spec: &'a Value,
}

impl Subject<'_> {
    /// The resource's name in ARM. `from_config` is the value that [`Needs::name`] asks for.
    pub fn name(&self, from_config: Option<&str>) -> Result<String, Error> {
        let context =
            NameContext { namespace: self.namespace, name: self.name, uid: self.uid.unwrap_or_default(), from_config };
        let name = self.kind.arm_name(&context, self.spec);
        let path = if from_config.is_some() { AZURE_NAME_FROM_CONFIG } else { AZURE_NAME };
        let refuse = |error| Error::new(path, Cause::Name(error));
        match name {
            Ok(_) if self.uid.is_none() && self.kind.is_named_by_uid(&context, self.spec) => {
                Err(refuse(NameError::ByUid))
            }
            name => name.map_err(refuse),
        }
    }

    /// The resource's ARM id. `owner` is the answer to [`Needs::owner`]; kinds without an owner need the subscription instead.
    pub fn id(&self, owner: Option<&ArmId>, subscription: &str, name: &str) -> Result<ArmId, Error> {
        let owner_type = match self.needed_owner().map(|need| need.wanted) {
            Some(Ok(Wanted::Object { group, kind, .. })) => {
                self.catalog.entry(&group, &kind).map(|entry| &entry.arm_type)
            }
            _ => None,
        };
        let id = self.kind.arm_id_below(owner, owner_type.map(String::as_str), subscription, name);
        id.map_err(|error| Error::new(OWNER, Cause::Owner(error)))
    }

    /// The body of the PUT. `resolved` has the answers to [`Needs::references`], [`Needs::secrets`] and [`Needs::config_maps`].
    pub fn body(&self, id: &ArmId, resolved: &Resolved) -> Result<Value, Error> {
        let body = self.version.put_body(self.spec, id.name(), resolved);
        body.map_err(|error| Error::new(error.path().to_owned(), Cause::Body(error)))
    }
}
