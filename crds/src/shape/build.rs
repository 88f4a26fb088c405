//! The rules that turn ARM types into the fields of a custom resource.
//!
//! *Flattening*: an object called `properties` is replaced by its members, which come after the others so that outer names win. A union, a map,
//! a `properties` directly inside a `properties`, and kinds that say so keep it.
//! *Recursion*: a type may occur twice on a path; the property that would enter it a third time is dropped.
//! *Emptiness*: an object of which nothing is left is dropped, with the property it was for.

use super::{Field, Object, Role, Shape};
use crate::graph::{Flags, Graph, Node, NodeId, Prop};
use crate::names;

const ENVELOPE: [&str; 4] = ["id", "name", "type", "apiVersion"];
/// Fields of ours, at the top; Azure's of the same name give way.
const RESERVED_IN_SPEC: [&str; 3] = ["azureName", "owner", "operatorSpec"];
const RESERVED_IN_STATUS: [&str; 1] = ["conditions"];
/// How often one type may occur on a path.
pub(crate) const MAX_VISITS: usize = 2;

/// The fields of a spec, less azureName, owner and operatorSpec, which only kinds that are none of ARM's bring themselves.
pub(crate) fn spec(graph: &Graph, root: NodeId, of_arm: bool) -> Object {
    Builder { graph, side: Side::Spec, checked: true, path: Vec::new() }.root(root, of_arm)
}

/// The fields of a status, less the conditions. What ARM returns of every resource is in it whether the type has it or not.
pub(crate) fn status(graph: &Graph, root: NodeId, of_arm: bool) -> Object {
    Builder { graph, side: Side::Status, checked: false, path: Vec::new() }.root(root, of_arm)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Spec,
    Status,
}

struct Builder<'a> {
    graph: &'a Graph,
    side: Side,
    /// Whether values are restricted here: in a spec everywhere, in a status where a fact says so.
    checked: bool,
    /// The objects that are being built, outermost first.
    path: Vec<NodeId>,
}

impl Builder<'_> {
    fn root(mut self, root: NodeId, of_arm: bool) -> Object {
        self.path.push(root);
        let place = Place { at_root: true, in_properties: false, in_root_union: false };
        let mut object = self.members(root, place).unwrap_or_default();
        // A kind that is none of ARM's says itself what these are.
        let reserved = match self.side {
            _ if !of_arm => &[][..],
            Side::Spec => &RESERVED_IN_SPEC[..],
            Side::Status => &RESERVED_IN_STATUS[..],
        };
        for field in object.fields.iter_mut().filter(|f| reserved.contains(&&*f.name)) {
            field.name = format!("properties_{}", field.name).into();
        }
        if of_arm && self.side == Side::Status {
            // The alternatives of a body that is a union have id and type themselves.
            let is_union = matches!(self.graph.node(root), Node::Union { .. });
            for &name in if is_union { &["name"][..] } else { &["id", "name", "type"] } {
                if object.field(name).is_none() && !self.is_left_out(root, name) {
                    let shape = Shape::String { pattern: None, min: None, max: None };
                    let arm = vec![name.into()];
                    object.fields.push(plain(name, arm, shape));
                }
            }
        }
        object
    }

    /// Whether the body has this property and the status is said not to.
    fn is_left_out(&self, root: NodeId, name: &str) -> bool {
        let Node::Object { props, .. } = self.graph.node(root) else { return false };
        props.iter().any(|p| &*p.name == name && p.flags.has(Flags::NOT_IN_STATUS))
    }

    /// The members of an object or union.
    fn members(&mut self, id: NodeId, place: Place) -> Option<Object> {
        match self.graph.node(id) {
            Node::Object { props, extra } => {
                let mut object = Object::default();
                self.add(&mut object, props, place);
                if let Some(extra) = *extra
                    && let Some(shape) = self.shape(extra, Flags::default(), "")
                {
                    let field = plain("additionalProperties", Vec::new(), Shape::Map(Box::new(shape)));
                    push(&mut object, Field { role: Role::Rest, ..field });
                }
                Some(object)
            }
            Node::Union { discriminator, base, cases } => {
                let mut object = Object { discriminator: Some(discriminator.clone()), ..Object::default() };
                let place = Place { in_root_union: place.at_root, ..place };
                for case in cases {
                    let mut members = Object::default();
                    self.add(&mut members, base, place);
                    if let Some(own) = self.members(case.node, place) {
                        for field in own.fields {
                            members.fields.retain(|f| f.name != field.name);
                            members.fields.push(field);
                        }
                        members.discriminator = own.discriminator;
                        members.wrappers.extend(own.wrappers);
                    }
                    let renamed = case.rename.clone().filter(|_| self.side == Side::Spec);
                    let name = renamed.unwrap_or_else(|| names::alternative(&case.value).into());
                    let role = Role::Alternative(case.value.clone());
                    let field = plain(&name, Vec::new(), Shape::Object(members));
                    object.fields.push(Field { role, ..field });
                }
                Some(object)
            }
            _ => None,
        }
    }

    /// Adds the fields for some properties; flattened ones come last.
    fn add(&mut self, object: &mut Object, props: &[Prop], place: Place) {
        let mut flattened = Vec::new();
        for prop in props {
            if !self.wanted(prop, place) {
                continue;
            }
            if self.is_flattened(prop, place) {
                flattened.push(prop);
            } else {
                self.add_one(object, prop);
            }
        }
        for prop in flattened {
            if self.is_open(prop.node) {
                self.path.push(prop.node);
                let inner =
                    self.members(prop.node, Place { at_root: false, in_properties: true, in_root_union: false });
                self.path.pop();
                let inner = inner.unwrap_or_default();
                if self.side == Side::Spec && prop.flags.has(Flags::REQUIRED) && !prop.flags.has(Flags::READ_ONLY) {
                    object.wrappers.push(vec![prop.name.clone()]);
                }
                for mut wrapper in inner.wrappers {
                    wrapper.insert(0, prop.name.clone());
                    object.wrappers.push(wrapper);
                }
                for mut field in inner.fields {
                    field.arm.insert(0, prop.name.clone());
                    if object.field(&field.name).is_some() {
                        field.name = format!("{}_{}", prop.name, field.name).into();
                    }
                    object.fields.push(field);
                }
            }
        }
    }

    fn wanted(&self, prop: &Prop, place: Place) -> bool {
        let flags = prop.flags;
        match self.side {
            Side::Spec => {
                let envelope = place.at_root && ENVELOPE.contains(&&*prop.name);
                let read_only = flags.has(Flags::READ_ONLY);
                flags.has(Flags::IN_SPEC)
                    || !(envelope || read_only || flags.has(Flags::NOT_IN_SPEC) || flags.has(Flags::CHILD_LIST))
            }
            // A map of secrets is returned with its keys; a secret itself is not.
            Side::Status if place.in_root_union && &*prop.name == "name" => false,
            Side::Status => {
                !(flags.has(Flags::SECRET) && !self.graph.node(prop.node).is_map()
                    || flags.has(Flags::NOT_IN_STATUS)
                    || place.at_root && &*prop.name == "apiVersion")
            }
        }
    }

    fn is_flattened(&self, prop: &Prop, place: Place) -> bool {
        let nested = match self.side {
            Side::Spec => Flags::KEEP_NESTED,
            Side::Status => Flags::STATUS_NESTED,
        };
        (prop.flags.has(Flags::FLATTEN)
            || &*prop.name == "properties" && !place.in_properties && !prop.flags.has(nested))
            && matches!(self.graph.node(prop.node), Node::Object { props, .. } if !props.is_empty())
    }

    /// Whether this type may be entered once more on the present path.
    fn is_open(&self, id: NodeId) -> bool {
        self.path.iter().filter(|&&p| p == id).count() < MAX_VISITS
    }

    fn add_one(&mut self, object: &mut Object, prop: &Prop) {
        let outside = self.checked;
        self.checked |= prop.flags.has(Flags::STATUS_CHECKED);
        self.add_checked(object, prop);
        self.checked = outside;
    }

    fn add_checked(&mut self, object: &mut Object, prop: &Prop) {
        let spec = self.side == Side::Spec;
        let flags = prop.flags;
        let arm = vec![prop.name.clone()];
        let required = self.checked && flags.has(Flags::REQUIRED) && !flags.has(Flags::OPTIONAL);
        let needed = spec && flags.has(Flags::REQUIRED) && !flags.has(Flags::READ_ONLY);
        if spec
            && flags.has(Flags::REFERENCE)
            && let Some((shape, many)) = self.reference(prop.node, flags)
        {
            let name = prop.renamed("spec").map_or_else(|| names::reference(&prop.name, many), str::to_owned);
            if flags.has(Flags::COMPAT) {
                if let Some(text) = self.shape(prop.node, Flags::default(), &prop.name) {
                    push(object, Field { required, needed, ..plain(&prop.name, arm.clone(), text) });
                }
                // Both may be set; the reference comes later, so it wins.
                push(object, Field { required, ..plain(&name, arm, shape) });
            } else {
                push(object, Field { required, needed, ..plain(&name, arm, shape) });
            }
            return;
        }
        let Some(shape) = self.shape(prop.node, flags, &prop.name) else { return };
        let name = prop.renamed(if spec { "spec" } else { "status" }).unwrap_or(&prop.name);
        let siblings = [
            (Flags::FROM_CONFIG, "FromConfig", Shape::ConfigKey),
            (Flags::FROM_SECRET, "FromSecret", Shape::SecretKey),
        ];
        let mut alone = true;
        for (_, suffix, shape) in siblings.into_iter().filter(|(flag, ..)| spec && flags.has(*flag)) {
            alone = false;
            let role = Role::InsteadOf(name.into());
            push(object, Field { role, ..plain(&format!("{name}{suffix}"), arm.clone(), shape) });
        }
        push(object, Field { required: required && alone, needed, ..plain(name, arm, shape) });
    }

    /// The reference, or list or map of references, in place of this type.
    fn reference(&self, id: NodeId, flags: Flags) -> Option<(Shape, bool)> {
        let one = || Shape::Reference { well_known: flags.has(Flags::WELL_KNOWN) };
        match self.graph.node(id) {
            Node::String { .. } | Node::Enum { .. } | Node::Any => Some((one(), false)),
            Node::Array { item, min, max }
                if matches!(self.graph.node(*item), Node::String { .. } | Node::Enum { .. }) =>
            {
                Some((Shape::List { item: Box::new(one()), min: *min, max: *max }, true))
            }
            Node::Object { props, extra: Some(extra) }
                if props.is_empty() && matches!(self.graph.node(*extra), Node::String { .. } | Node::Enum { .. }) =>
            {
                Some((Shape::Map(Box::new(one())), true))
            }
            _ => None,
        }
    }

    fn shape(&mut self, id: NodeId, flags: Flags, name: &str) -> Option<Shape> {
        let spec = self.side == Side::Spec;
        let node = self.graph.node(id);
        if spec && flags.has(Flags::SECRET) {
            match node {
                Node::String { .. } | Node::Enum { .. } | Node::Any => return Some(Shape::SecretKey),
                Node::AnyMap => return Some(Shape::SecretMap),
                node if node.is_map() => return Some(Shape::SecretMap),
                _ => {}
            }
        }
        if spec && name == "userAssignedIdentities" && node.is_map() {
            return Some(Shape::Identities);
        }
        match node {
            Node::Object { .. } if flags.has(if spec { Flags::SPEC_ID_ONLY } else { Flags::STATUS_ID_ONLY }) => {
                self.embedded(false)
            }
            Node::Object { props, extra: Some(extra) } if props.is_empty() => {
                if !self.is_open(id) {
                    return None;
                }
                self.path.push(id);
                let value = self.shape(*extra, Flags::default(), "");
                self.path.pop();
                Some(match value? {
                    Shape::Any => Shape::AnyMap,
                    value => Shape::Map(Box::new(value)),
                })
            }
            Node::Object { .. } | Node::Union { .. } => {
                if !self.is_open(id) {
                    return None;
                }
                self.path.push(id);
                let object = self
                    .members(id, Place { at_root: false, in_properties: name == "properties", in_root_union: false });
                self.path.pop();
                // What is empty because secrets are left out is still returned.
                let stated = matches!(node, Node::Object { props, .. } if !props.is_empty());
                object.filter(|o| !o.fields.is_empty() || !spec && stated).map(Shape::Object)
            }
            Node::Array { item, min, max } => {
                let (min, max) = if self.checked { (*min, *max) } else { (None, None) };
                self.shape(*item, flags.without(Flags::FROM_CONFIG), "").map(|item| Shape::List {
                    item: Box::new(item),
                    min,
                    max,
                })
            }
            Node::Enum { values, .. } if self.checked && !flags.has(Flags::ANY_VALUE) => {
                let mut values = values.clone();
                values.sort();
                Some(Shape::Enum(values))
            }
            Node::String { pattern, min, max } if self.checked => {
                Some(Shape::String { pattern: pattern.clone(), min: *min, max: *max })
            }
            Node::Enum { .. } | Node::String { .. } => Some(Shape::String { pattern: None, min: None, max: None }),
            Node::Integers(values) if self.checked && flags.has(Flags::STATUS_NUMBER) => {
                Some(Shape::Numbers(values.clone()))
            }
            Node::Integers(values) if self.checked => Some(Shape::Integers(values.clone())),
            Node::Integer { min, max } if self.checked => Some(Shape::Integer { min: *min, max: *max }),
            Node::Integer { .. } | Node::Integers(_) if flags.has(Flags::STATUS_NUMBER) => {
                Some(Shape::Number { min: None, max: None })
            }
            Node::Integer { .. } | Node::Integers(_) => Some(Shape::Integer { min: None, max: None }),
            Node::Number { min, max } if self.checked => Some(Shape::Number { min: *min, max: *max }),
            Node::Number { .. } => Some(Shape::Number { min: None, max: None }),
            Node::Boolean => Some(Shape::Boolean),
            Node::Any => Some(Shape::Any),
            Node::AnyMap => Some(Shape::AnyMap),
            Node::Resource { read_only } => self.embedded(*read_only),
        }
    }

    /// Another resource: only its id.
    fn embedded(&self, read_only: bool) -> Option<Shape> {
        let (name, shape) = match self.side {
            Side::Spec if read_only => return None,
            Side::Spec => ("reference", Shape::Reference { well_known: false }),
            Side::Status => ("id", Shape::String { pattern: None, min: None, max: None }),
        };
        let needed = self.side == Side::Spec;
        let field = Field { needed, ..plain(name, vec!["id".into()], shape) };
        Some(Shape::Object(Object { fields: vec![field], ..Object::default() }))
    }
}

/// Where an object stands; it decides what happens to a member called `properties`.
#[derive(Clone, Copy)]
struct Place {
    at_root: bool,
    in_properties: bool,
    /// In an alternative of a body that is a union.
    in_root_union: bool,
}

/// A field that nothing demands.
fn plain(name: &str, arm: Vec<Box<str>>, shape: Shape) -> Field {
    Field { name: name.into(), arm, required: false, needed: false, shape, role: Role::Value }
}

fn push(object: &mut Object, field: Field) {
    if object.field(&field.name).is_none() {
        object.fields.push(field);
    }
}
