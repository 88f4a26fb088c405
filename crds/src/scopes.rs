//! Where in ARM resources of a type can be written, as Azure's type data say it: one bit for each kind of scope.

use serde::{Deserialize, Serialize};

/// The scopes at which a type can be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Scopes(u32);

const TENANT: u32 = 1;
const MANAGEMENT_GROUP: u32 = 2;
const SUBSCRIPTION: u32 = 4;
const RESOURCE_GROUP: u32 = 8;
const EXTENSION: u32 = 16;

impl Scopes {
    /// From the bits of the type data (`writableScopes`).
    pub(crate) fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// In the tenant.
    pub fn tenant(self) -> bool {
        self.0 & TENANT != 0
    }

    /// In a management group and nowhere else.
    pub fn only_management_group(self) -> bool {
        self.0 == MANAGEMENT_GROUP
    }

    /// In a subscription.
    pub fn subscription(self) -> bool {
        self.0 & SUBSCRIPTION != 0
    }

    /// In a resource group.
    pub fn resource_group(self) -> bool {
        self.0 & RESOURCE_GROUP != 0
    }

    /// On any resource.
    pub fn extension(self) -> bool {
        self.0 & EXTENSION != 0
    }
}
