//! Which nested objects are other resources, of which a custom resource keeps only the id.
//!
//! An object with both `id` and `properties` looks like a resource. What it is, is told by the node of its `properties`: whose body has the same one?
//! A child of the current type that can be written has its own kind, so the list is not in the spec; any other resource is referred to; what is
//! no resource at all belongs to the type whose first level it is on. Without this rule a network interface would expand to tens of thousands of fields.

use super::Error;
use super::raw::{File, Ordered, RawProp, RawType, Ref, Resource};

/// What to do with an object that looks like a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is none, or part of this one.
    Keep,
    /// Only its id.
    Reference,
    /// A list of children with their own kind.
    ChildList,
}

/// The properties of an object that looks like a resource: `id` and `properties`.
pub(super) fn looks_like_resource(properties: &Ordered<RawProp>) -> Option<(&RawProp, Ref)> {
    let get = |name: &str| properties.0.iter().find(|(n, _)| n == name).map(|(_, p)| p);
    Some((get("id")?, get("properties")?.node))
}

/// Where the object was met.
pub(super) struct Met<'a> {
    /// The type whose body is converted.
    pub(super) current: &'a str,
    /// Whether it is on the first level: a member of the body's `properties`, or an item of one.
    pub(super) first_level: bool,
}

/// What becomes of the object `object` with this name and `properties` node.
pub(super) fn fate(file: &File, object: Ref, name: &str, properties: Ref, met: &Met<'_>) -> Result<Fate, Error> {
    let parent_of = |t: &str| t.rsplit_once('/').map(|(p, _)| p.to_owned()).unwrap_or_default();
    let is_child = |t: &str| parent_of(t).eq_ignore_ascii_case(met.current);
    let mut same = Vec::new();
    for resource in &file.resources {
        if body_properties(file, resource.body, &resource.arm_type)? == Some(properties) {
            same.push(resource);
        }
    }
    if same.iter().any(|r| r.writable != 0) {
        let child = met.first_level && same.iter().any(|r| r.writable != 0 && is_child(&r.arm_type));
        return Ok(if child { Fate::ChildList } else { Fate::Reference });
    }
    if !same.is_empty() {
        return Ok(if same.iter().any(|r| is_child(&r.arm_type)) { Fate::Keep } else { Fate::Reference });
    }
    // A name that begins with a type's says whose part it is; the longest one counts.
    let mut owner: Option<&Resource> = None;
    let mut longest = 0;
    for resource in &file.resources {
        let last = resource.arm_type.rsplit('/').next().unwrap_or_default();
        let singular = last.strip_suffix('s').unwrap_or(last);
        let starts = name.get(..singular.len()).is_some_and(|start| start.eq_ignore_ascii_case(singular));
        if starts && singular.len() > longest {
            (owner, longest) = (Some(resource), singular.len());
        }
    }
    let other = owner.filter(|o| !o.arm_type.eq_ignore_ascii_case(met.current));
    if met.first_level {
        // On the first level of two types it belongs to the one that it is named after.
        let elsewhere = match other {
            Some(other) => is_first_level(file, other.body, object, &other.arm_type)?,
            None => false,
        };
        return Ok(if elsewhere { Fate::Reference } else { Fate::Keep });
    }
    for resource in &file.resources {
        if !resource.arm_type.eq_ignore_ascii_case(met.current)
            && is_first_level(file, resource.body, object, &resource.arm_type)?
        {
            return Ok(Fate::Reference);
        }
    }
    Ok(if other.is_some() { Fate::Reference } else { Fate::Keep })
}

/// The node of `properties` in a body.
fn body_properties(file: &File, body: Ref, of: &str) -> Result<Option<Ref>, Error> {
    Ok(match file.get(body, of)? {
        RawType::ObjectType { properties, .. } => {
            properties.0.iter().find(|(n, _)| n == "properties").map(|(_, p)| p.node)
        }
        _ => None,
    })
}

fn is_first_level(file: &File, body: Ref, object: Ref, of: &str) -> Result<bool, Error> {
    let Some(properties) = body_properties(file, body, of)? else { return Ok(false) };
    let RawType::ObjectType { properties, .. } = file.get(properties, of)? else { return Ok(false) };
    for (_, prop) in &properties.0 {
        if prop.node == object {
            return Ok(true);
        }
        if let RawType::ArrayType { item_type, .. } = file.get(prop.node, of)?
            && *item_type == object
        {
            return Ok(true);
        }
    }
    Ok(false)
}
