//! What a spec needs from elsewhere, with the field that each need comes from.

use serde_json::Value;

use super::{AZURE_NAME_FROM_CONFIG, Cause, Error, OWNER, Subject};
use crate::arm_id::ArmId;
use crate::body::{FieldPath, KeyInput, Target};
use crate::kind::Owner;

/// What a spec needs from elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Needs {
    /// The owner, of kinds that have one.
    pub owner: Option<Need>,
    /// The key of a config map that has the resource's name.
    pub name: Option<KeyInput>,
    /// Other resources whose ids the body has, in the order of their paths.
    pub references: Vec<Need>,
    /// Keys of Secrets, or whole Secrets.
    pub secrets: Vec<KeyInput>,
    /// Keys of config maps, less the one that has the name.
    pub config_maps: Vec<KeyInput>,
}

/// A field that names another resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Need {
    /// The field.
    pub path: FieldPath,
    /// The resource, or why the field names none.
    pub wanted: Result<Wanted, Error>,
}

/// Another resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// By its id: nothing is to be looked up.
    Id(ArmId),
    /// The resource of an object in the same namespace.
    Object {
        /// Its group.
        group: String,
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
}

impl Subject<'_> {
    /// What this spec needs from elsewhere.
    pub fn needs(&self) -> Needs {
        let inputs = self.version.inputs(self.spec);
        let reference = |reference: crate::body::Reference| {
            let wanted = self.wanted(&reference.path, reference.target);
            Need { path: reference.path, wanted }
        };
        Needs {
            owner: self.needed_owner(),
            name: self.needed_name(),
            references: inputs.references.into_iter().map(reference).collect(),
            secrets: inputs.secrets,
            config_maps: inputs.config_maps,
        }
    }

    /// The owner; None if the kind has none.
    pub(super) fn needed_owner(&self) -> Option<Need> {
        let stated = self.spec.get("owner").unwrap_or(&Value::Null);
        let target = match self.kind.owner() {
            Owner::None => return None,
            Owner::Kind { group, kind } => Target::of_owner(stated, Some((&group, &kind))),
            Owner::Extension | Owner::Resource { .. } => Target::of_owner(stated, None),
        };
        let wanted = match target {
            _ if stated.is_null() => Err(Error::new(OWNER, Cause::NoOwner)),
            Target::WellKnown(_) => Err(Error::new(OWNER, Cause::WellKnownOwner)),
            Target::ArmId(id) => match self.kind.check_owner(&id) {
                Ok(()) => Ok(Wanted::Id(id)),
                Err(error) => Err(Error::new(format!("{OWNER}.armId"), Cause::Owner(error))),
            },
            target => self.wanted(OWNER, target),
        };
        Some(Need { path: OWNER.to_owned(), wanted })
    }

    fn wanted(&self, path: &str, target: Target) -> Result<Wanted, Error> {
        let refuse = |cause| Err(Error::new(path, cause));
        match target {
            Target::ArmId(id) => Ok(Wanted::Id(id)),
            Target::WellKnown(name) => refuse(Cause::WellKnown(name)),
            Target::Malformed(why) => refuse(Cause::Malformed(why)),
            Target::Object { group, kind, name } => match self.catalog.entry(&group, &kind) {
                None => refuse(Cause::UnknownKind { group, kind }),
                Some(entry) if !entry.manager.is_arm() => refuse(Cause::NotOfArm(kind)),
                Some(_) => Ok(Wanted::Object { group, kind, name }),
            },
        }
    }

    /// The key with the name. A name that the spec has itself needs none; [`Subject::name`] refuses both.
    fn needed_name(&self) -> Option<KeyInput> {
        let from = self.spec.get("azureNameFromConfig")?;
        let text = |field: &str| from.get(field).and_then(Value::as_str).map(str::to_owned);
        Some(KeyInput { path: AZURE_NAME_FROM_CONFIG.to_owned(), name: text("name")?, key: Some(text("key")?) })
    }
}
