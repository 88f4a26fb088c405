//! How every member speaks to the API server: under one name, and with one type for what it answers when it refuses.

mod error;

use flotilla_names::FIELD_MANAGER;
use kube::api::{ApiResource, PatchParams, PostParams};
use kube::core::GroupVersionKind;

pub use self::error::Error;

/// A kind through one of its versions.
pub fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

/// Creates or replaces an object as Flotilla.
pub fn post() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

/// Patches an object as Flotilla.
pub fn patch() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

/// Applies an object as Flotilla, and takes over fields that others manage.
pub fn apply() -> PatchParams {
    PatchParams::apply(FIELD_MANAGER).force()
}
