//! Example resources of a version: to start a manifest from, and to test with.
//!
//! Kept true here: a specimen is what the version's CRD accepts, its body is what the type accepts, and the same call makes the same one
//! everywhere. All specimens have the same name, so those of several kinds own each other.

mod members;
mod pattern;
mod text;

use serde_json::{Map, Value, json};

use crate::arm_id::ArmId;
use crate::graph::Node;
use crate::kind::{Kind, NameRule, Owner, Version};
use crate::scopes::Scopes;
use crate::shape::Shape;
use members::Maker;

/// The name of every example, and of what it refers to.
pub const NAME: &str = "example";
/// The Secret or config map that a specimen writes, which is none that it reads.
const EXPORTED: &str = "example-exports";
/// What references of examples mean by its id: the resource group of this name.
pub const ARM_ID: &str = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/example";

/// Which fields a specimen has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Those that the CRD or the service demands; the first alternative where there are several.
    Required,
    /// All. Of alternatives, which exclude each other, the one with this number, counted in circles.
    Whole(usize),
    /// Those that are required, and others by chance. The seed decides.
    Part(u64),
}

impl Kind {
    /// A manifest of a resource in this version of the kind.
    pub fn specimen(&self, version: &Version, extent: Extent) -> Value {
        json!({
            "apiVersion": format!("{}/{}", self.group(), version.name()),
            "kind": self.name(),
            "metadata": {"name": NAME, "namespace": "default"},
            "spec": version.specimen(extent),
        })
    }
}

impl Version {
    /// The spec of a resource, with the name in Azure, owner and operatorSpec.
    pub fn specimen(&self, extent: Extent) -> Value {
        let mut maker = Maker::new(extent);
        let mut spec = maker.object(self.spec());
        if let Some(owner) = self.owner_specimen() {
            spec.insert("owner".to_owned(), owner);
        }
        if !self.entry().manager.is_arm() {
            // The other fields are the kind's own.
            return Value::Object(spec);
        }
        if let Some(name) = self.azure_name(&mut maker) {
            spec.insert("azureName".to_owned(), json!(name));
        }
        // Bodies of some kinds repeat the type.
        if let (Some(value), Some(Shape::String { .. })) =
            (spec.get_mut("type"), self.spec().field("type").map(|f| &f.shape))
        {
            *value = json!(self.entry().arm_type);
        }
        if maker.likes() {
            spec.insert("operatorSpec".to_owned(), Value::Object(self.operator_spec(&mut maker)));
        }
        Value::Object(spec)
    }

    /// A name for Azure, where the object's own does not do or every field is wanted.
    fn azure_name(&self, maker: &mut Maker) -> Option<String> {
        let plain = match self.name_rule() {
            NameRule::Fixed(_) => return None,
            NameRule::Uuid => text::UUID.to_owned(),
            NameRule::AzureName => NAME.to_owned(),
        };
        let name = match self.name_node() {
            Some(Node::Enum { values, .. }) if !values.is_empty() => values[0].to_string(),
            Some(Node::String { pattern, min, max }) => text::named(&plain, pattern.as_deref(), *min, *max),
            _ => plain.clone(),
        };
        (name != plain || maker.likes()).then_some(name)
    }

    fn owner_specimen(&self) -> Option<Value> {
        let entry = self.entry();
        match crate::kind::owner(entry) {
            Owner::None => None,
            Owner::Kind { .. } => Some(json!({ "name": NAME })),
            Owner::Resource { arm_type } => Some(json!({ "armId": id_of(&arm_type, self.entry().scopes).as_str() })),
            Owner::Extension => Some(members::object_reference()),
        }
    }

    fn operator_spec(&self, maker: &mut Maker) -> Map<String, Value> {
        let noted = |mut value: Value, maker: &mut Maker| {
            for notes in ["annotations", "labels"] {
                if maker.likes() {
                    value[notes] = json!({"team": NAME});
                }
            }
            value
        };
        let mut spec = Map::new();
        for list in ["configMapExpressions", "secretExpressions"] {
            if maker.likes() {
                let expression = json!({"name": EXPORTED, "key": "name", "value": "self.metadata.name"});
                spec.insert(list.to_owned(), json!([noted(expression, maker)]));
            }
        }
        if self.name_rule() == NameRule::Uuid && self.entry().group == "authorization.azure.com" && maker.likes() {
            spec.insert("namingConvention".to_owned(), json!("stable"));
        }
        for (list, secret) in [("configMaps", false), ("secrets", true)] {
            let mut exports = Map::new();
            for export in self.exports().filter(|export| export.secret == secret) {
                if maker.likes() {
                    let target = json!({"name": EXPORTED, "key": export.name});
                    exports.insert(export.name.clone(), noted(target, maker));
                }
            }
            if !exports.is_empty() {
                spec.insert(list.to_owned(), Value::Object(exports));
            }
        }
        spec
    }
}

/// The ARM id of a resource of this type, in a place where a child of it can be: `scopes` are the child's.
fn id_of(arm_type: &str, scopes: Scopes) -> ArmId {
    let mut segments = arm_type.split('/');
    let (provider, first) = (segments.next().unwrap_or_default(), segments.next().unwrap_or_default());
    let top = format!("{provider}/{first}");
    let top = match scopes {
        scopes if scopes.resource_group() => ArmId::resource_group(text::UUID, NAME).extension(&top, NAME),
        scopes if scopes.subscription() => ArmId::subscription(text::UUID).extension(&top, NAME),
        _ => ArmId::tenant_resource(&top, NAME),
    };
    segments.fold(top, |id, segment| id.child(segment, NAME))
}
