//! The properties of an object: what the type data say of them, then what our facts do.

use std::collections::HashMap;

use super::{Context, Converter, Level};
use crate::graph::{Flags, Node, NodeId, Prop};
use crate::import::Error;
use crate::import::embedded::{self, Fate};
use crate::import::facts::{Added, Fact, NewType, Side};
use crate::import::guess;
use crate::import::raw::{Ordered, RawProp, RawType, Ref};
use crate::names;

/// A published object: its place in the file, its name and its properties.
type ObjectType<'a> = (Ref, &'a str, &'a Ordered<RawProp>);

impl Converter<'_> {
    /// The object that a property is or has a list of.
    fn object_of(&self, prop: &RawProp) -> Result<Option<ObjectType<'_>>, Error> {
        let mut object = prop.node;
        if let RawType::ArrayType { item_type, .. } = self.file.get(object, &self.name)? {
            object = *item_type;
        }
        Ok(match self.file.get(object, &self.name)? {
            RawType::ObjectType { name, properties, .. } => Some((object, name, properties)),
            _ => None,
        })
    }

    /// What the type of a property's object says about the property: a list of children that have their own kind, or only an id on one side.
    fn flags_of_object(&self, prop: &RawProp, context: Context) -> Result<Flags, Error> {
        let Some((object, name, properties)) = self.object_of(prop)? else { return Ok(Flags(0)) };
        let mut flags = Flags(0);
        for fact in self.facts.about(self.about, name, "*") {
            match fact {
                Fact::Prune(Side::Spec) => flags = flags.with(Flags::SPEC_ID_ONLY),
                Fact::Prune(Side::Status) => flags = flags.with(Flags::STATUS_ID_ONLY),
                _ => {}
            }
        }
        if context.level == Level::Properties
            && let Some((_, inner)) = embedded::looks_like_resource(properties)
            && !self.facts.about(self.about, name, "*").any(|fact| *fact == Fact::Whole)
            && self.fate(object, name, inner, Context { level: Level::First, ..context })? == Fate::ChildList
        {
            flags = flags.with(Flags::CHILD_LIST);
        }
        Ok(flags)
    }

    pub(super) fn props(
        &mut self,
        of: &str,
        properties: &Ordered<RawProp>,
        context: Context,
    ) -> Result<Vec<Prop>, Error> {
        let kept_resource =
            !matches!(context.level, Level::Body) && embedded::looks_like_resource(properties).is_some();
        let named = properties.0.iter().any(|(n, _)| n == "name" || n == "etag");
        let mut props = Vec::new();
        for (name, raw) in &properties.0 {
            let level = context.level.below(name);
            let read_only = context.read_only || Flags(raw.flags).has(Flags::READ_ONLY);
            let sensitive = context.sensitive || self.is_sensitive_object(raw.node)?;
            let mut prop = Prop {
                name: name.as_str().into(),
                flags: Flags(raw.flags & 31),
                node: self.node(raw.node, Context { level, read_only, sensitive })?,
                rename: None,
            };
            let inside =
                context.sensitive && matches!(self.file.get(raw.node, &self.name)?, RawType::StringType { .. });
            if inside || self.is_sensitive(raw.node)? {
                prop.flags = prop.flags.with(Flags::SECRET);
            }
            if is_reference_by_hint(name, &raw.description) && self.holds_ids(raw.node)? {
                prop.flags = prop.flags.with(Flags::REFERENCE);
            }
            prop.flags = prop.flags.with(self.flags_of_object(raw, context)?);
            if kept_resource && name == "id" {
                prop.flags =
                    if named { prop.flags.with(Flags::NOT_IN_SPEC) } else { prop.flags.with(Flags::REFERENCE) };
            }
            if self.about.further {
                let node = &self.nodes[prop.node as usize];
                guess::flags(&mut prop, node);
                let taken = |many| properties.0.iter().any(|(other, _)| *other == names::reference(name, many));
                if taken(false) || taken(true) {
                    prop.flags = prop.flags.without(Flags::REFERENCE);
                }
                if context.level == Level::Body
                    && name == "name"
                    && matches!(node, Node::Integer { .. } | Node::Number { .. })
                {
                    // A number in the type data, a segment of the path in every request.
                    prop.node = self.add(Node::String { pattern: None, min: None, max: None });
                }
            }
            self.apply_facts(of, &mut prop);
            props.push(prop);
        }
        self.add_props(of, context, &mut props)?;
        if self.facts.about(self.about, of, "*").any(|fact| *fact == Fact::Checked) {
            for prop in &mut props {
                prop.flags = prop.flags.with(Flags::STATUS_CHECKED);
            }
        }
        Ok(props)
    }

    /// Adds the properties that only our tables know. One that the type data have too stands beside it, for the other side.
    fn add_props(&mut self, of: &str, context: Context, props: &mut Vec<Prop>) -> Result<(), Error> {
        let facts = self.facts;
        for (name, side, added) in facts.added(self.about, of) {
            let level = context.level.below(name);
            let node = match added {
                Added::Plain(plain) => {
                    let any = self.add(Node::Any);
                    self.retype(any, *plain)
                }
                Added::Own(own) => self.own_type(own, Context { level, ..context })?,
            };
            let flags = match side {
                Side::Both => Flags(0),
                Side::Spec => Flags::NOT_IN_STATUS,
                Side::Status => Flags::NOT_IN_SPEC,
            };
            props.push(Prop { name: name.into(), flags, node, rename: None });
        }
        Ok(())
    }

    /// The node of a type of our own.
    fn own_type(&mut self, name: &str, context: Context) -> Result<NodeId, Error> {
        let found = self.own.find(self.about.group, name);
        let (file, at) = found.ok_or_else(|| self.fail(format!("our own types have no {name}")))?;
        let mut converter = Converter {
            file,
            resource: self.resource,
            facts: self.facts,
            own: self.own,
            about: self.about,
            nodes: self.nodes,
            done: HashMap::new(),
            depth: self.depth,
            name: self.name.clone(),
        };
        converter.node(at, context)
    }

    fn apply_facts(&mut self, of: &str, prop: &mut Prop) {
        let name = prop.name.clone();
        let facts = self.facts;
        let about = self.about;
        for fact in facts.about(about, of, &name) {
            let flags = prop.flags;
            prop.flags = match fact {
                Fact::Reference => flags.with(Flags::REFERENCE).without(Flags::NOT_IN_SPEC),
                Fact::NotReference => flags.without(Flags::REFERENCE),
                Fact::WellKnown => flags.with(Flags::REFERENCE).with(Flags::WELL_KNOWN),
                Fact::Compat => flags.with(Flags::REFERENCE).with(Flags::COMPAT),
                Fact::Secret => flags.with(Flags::SECRET).without(Flags::REFERENCE),
                Fact::NotSecret => flags.without(Flags::SECRET),
                Fact::FromConfig => flags.with(Flags::FROM_CONFIG),
                Fact::FromSecret => flags.with(Flags::FROM_SECRET),
                Fact::Integers(values) => {
                    prop.node = self.add(Node::Integers(values.clone()));
                    flags
                }
                Fact::Drop(side) => {
                    let spec = if side.spec() { Flags::NOT_IN_SPEC } else { Flags(0) };
                    let status = if side.status() { Flags::NOT_IN_STATUS } else { Flags(0) };
                    flags.with(spec).with(status)
                }
                Fact::Include => flags.with(Flags::IN_SPEC).without(Flags::CHILD_LIST),
                Fact::Nested(side) => {
                    let spec = if side.spec() { Flags::KEEP_NESTED } else { Flags(0) };
                    let status = if side.status() { Flags::STATUS_NESTED } else { Flags(0) };
                    flags.with(spec).with(status)
                }
                Fact::Required => flags.with(Flags::REQUIRED).without(Flags::OPTIONAL),
                Fact::Optional => flags.with(Flags::OPTIONAL),
                Fact::AnyValue => flags.with(Flags::ANY_VALUE),
                Fact::Type(Side::Status, NewType::Number) => flags.with(Flags::STATUS_NUMBER),
                Fact::Rename(to) => {
                    prop.rename = Some(to.as_str().into());
                    flags
                }
                Fact::Values(values) => {
                    let open = matches!(self.nodes[prop.node as usize], Node::Enum { open: true, .. });
                    prop.node =
                        self.add(Node::Enum { values: values.iter().map(|v| v.as_str().into()).collect(), open });
                    flags
                }
                Fact::Type(_, to) => {
                    prop.node = self.retype(prop.node, *to);
                    flags
                }
                Fact::Flatten => flags.with(Flags::FLATTEN),
                Fact::Checked => flags.with(Flags::STATUS_CHECKED),
                Fact::Prune(_) | Fact::Keep | Fact::Whole | Fact::Add(..) => flags,
            };
        }
    }

    /// Another type in place of a node; in a list or map it is the items' that changes.
    fn retype(&mut self, id: NodeId, to: NewType) -> NodeId {
        let node = self.nodes[id as usize].clone();
        match (node, to) {
            (
                Node::Array { item, min, max },
                NewType::Number | NewType::Integer | NewType::String | NewType::Boolean | NewType::AnyMap,
            ) => {
                let item = self.retype(item, to);
                self.add(Node::Array { item, min, max })
            }
            (Node::Integer { min, max }, NewType::Number) => self.add(Node::Number { min, max }),
            (_, NewType::Number) => self.add(Node::Number { min: None, max: None }),
            (_, NewType::Integer) => self.add(Node::Integer { min: None, max: None }),
            (_, NewType::String) => self.add(Node::String { pattern: None, min: None, max: None }),
            (_, NewType::Boolean) => self.add(Node::Boolean),
            (_, NewType::Any) => self.add(Node::Any),
            (_, NewType::AnyMap) => self.add(Node::AnyMap),
            (_, NewType::AnyList) => {
                let item = self.add(Node::Any);
                self.add(Node::Array { item, min: None, max: None })
            }
        }
    }

    /// Whether all strings of an object are secrets.
    fn is_sensitive_object(&self, reference: Ref) -> Result<bool, Error> {
        let raw = self.file.get(reference, &self.name)?;
        Ok(matches!(raw, RawType::ObjectType { sensitive: true, properties, .. } if !properties.0.is_empty()))
    }

    fn is_sensitive(&self, reference: Ref) -> Result<bool, Error> {
        Ok(match self.file.get(reference, &self.name)? {
            RawType::StringType { sensitive, .. } => *sensitive,
            RawType::ObjectType { sensitive, properties, .. } => *sensitive && properties.0.is_empty(),
            RawType::ArrayType { item_type, .. } => {
                matches!(self.file.get(*item_type, &self.name)?, RawType::StringType { sensitive: true, .. })
            }
            _ => false,
        })
    }

    /// Whether a type is a string, or a list or map of strings.
    fn holds_ids(&self, reference: Ref) -> Result<bool, Error> {
        let is_string = |raw: &RawType| matches!(raw, RawType::StringType { .. });
        Ok(match self.file.get(reference, &self.name)? {
            RawType::ArrayType { item_type, .. } => is_string(self.file.get(*item_type, &self.name)?),
            raw => is_string(raw),
        })
    }
}

/// Whether a name or description says that a string holds an ARM id.
fn is_reference_by_hint(name: &str, description: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let text = description.to_ascii_lowercase();
    name == "id"
        || ["resourceid", "armid", "resourceids"].iter().any(|end| name.ends_with(end))
        || [
            "arm id",
            "arm resource id",
            "resource id",
            "resourceid",
            "/subscriptions/",
            "fully qualified azure resource",
        ]
        .iter()
        .any(|hint| text.contains(hint))
}
