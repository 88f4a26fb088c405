//! One resource type's published types to nodes of the graph, with our facts written on them.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

use super::Error;
use super::embedded::{self, Fate, Met};
use super::facts::{About, Added, Fact, Facts, NewType, Side};
use super::guess;
use super::raw::{File, Ordered, RawProp, RawType, Ref, Resource};
use super::types::OwnTypes;
use super::unfold;
use crate::graph::{Case, Flags, Node, NodeId, Prop};
use crate::names;

/// Types that nest in each other. Azure's have 16; walking them recurses.
const MOST_LEVELS: usize = 100;
/// How often Go's regular expressions repeat something at most.
const MOST_REPEATS: u32 = 1000;

/// Adds the nodes of a resource's body and returns its root.
pub(super) fn root(
    file: &File,
    resource: &Resource,
    facts: &Facts,
    own: &OwnTypes,
    about: &About<'_>,
    nodes: &mut Vec<Node>,
) -> Result<NodeId, Error> {
    let name = format!("{}@{}", resource.arm_type, resource.api_version);
    let mut converter = Converter { file, resource, facts, own, about, nodes, done: HashMap::new(), depth: 0, name };
    if !matches!(
        file.get(resource.body, &converter.name)?,
        RawType::ObjectType { .. } | RawType::DiscriminatedObjectType { .. }
    ) {
        return Err(converter.fail("its body is no object".to_owned()));
    }
    let context = Context { level: Level::Body, read_only: false, sensitive: false };
    let root = converter.node(resource.body, context)?;
    unfold::check(converter.nodes, root).map_err(|rule| converter.fail(rule))?;
    Ok(root)
}

/// Where a type is met, as far as it makes a difference to its node.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Context {
    level: Level,
    /// Below a read-only property.
    read_only: bool,
    /// Inside an object that is a secret as a whole.
    sensitive: bool,
}

/// How deep.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Level {
    Body,
    /// The body's `properties`.
    Properties,
    /// A member of the body's `properties`, or an item of one.
    First,
    Deeper,
}

impl Level {
    /// The level of a property of an object on this one.
    fn below(self, property: &str) -> Self {
        match self {
            Self::Body if property == "properties" => Self::Properties,
            Self::Properties => Self::First,
            _ => Self::Deeper,
        }
    }
}

/// A published object: its place in the file, its name and its properties.
type ObjectType<'a> = (Ref, &'a str, &'a Ordered<RawProp>);

struct Converter<'a> {
    file: &'a File,
    resource: &'a Resource,
    facts: &'a Facts,
    own: &'a OwnTypes,
    about: &'a About<'a>,
    nodes: &'a mut Vec<Node>,
    done: HashMap<(Ref, Context), NodeId>,
    /// Types that are being converted.
    depth: usize,
    /// Type and api-version, for messages.
    name: String,
}

impl Converter<'_> {
    fn add(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId::try_from(self.nodes.len() - 1).unwrap_or(NodeId::MAX)
    }

    fn fail(&self, rule: String) -> Error {
        Error::Type { path: self.file.path.clone(), arm_type: self.name.clone(), rule }
    }

    /// Refuses bounds that nothing is between.
    fn check_bounds<T: PartialOrd + std::fmt::Display>(&self, least: Option<T>, most: Option<T>) -> Result<(), Error> {
        match (least, most) {
            (Some(least), Some(most)) if least > most => {
                Err(self.fail(format!("one of its types is at least {least} and at most {most}")))
            }
            _ => Ok(()),
        }
    }

    fn node(&mut self, reference: Ref, context: Context) -> Result<NodeId, Error> {
        if let Some(&id) = self.done.get(&(reference, context)) {
            return Ok(id);
        }
        if self.depth > MOST_LEVELS {
            return Err(self.fail(format!("its types nest deeper than {MOST_LEVELS} levels")));
        }
        self.depth += 1;
        // Holds the place, so that a type that contains itself finds it.
        let id = self.add(Node::Any);
        self.done.insert((reference, context), id);
        let node = self.convert(reference, context)?;
        self.nodes[id as usize] = node;
        self.depth -= 1;
        Ok(id)
    }

    fn convert(&mut self, reference: Ref, context: Context) -> Result<Node, Error> {
        let deeper =
            Context { level: if context.level == Level::First { Level::First } else { Level::Deeper }, ..context };
        let raw = self.file.get(reference, &self.name)?;
        match raw {
            RawType::ArrayType { min_length: least, max_length: most, .. }
            | RawType::StringType { min_length: least, max_length: most, .. } => self.check_bounds(*least, *most)?,
            RawType::IntegerType { min_value: least, max_value: most } => self.check_bounds(*least, *most)?,
            _ => {}
        }
        Ok(match raw {
            RawType::ObjectType { name, properties, additional_properties, .. } => {
                if let Some(node) = self.cut_down(reference, name, properties, context)? {
                    return Ok(node);
                }
                let props = self.props(name, properties, context)?;
                let said = |fact: &Fact| self.facts.about(self.about, name, "additionalProperties").any(|f| f == fact);
                let extra = match additional_properties {
                    Some(_) if said(&Fact::Drop(Side::Both)) => None,
                    None if said(&Fact::Include) => Some(self.add(Node::Any)),
                    Some(extra) => Some(self.node(*extra, Context { level: Level::Deeper, ..context })?),
                    None => None,
                };
                match extra {
                    Some(extra) if props.is_empty() && self.nodes[extra as usize] == Node::Any => Node::AnyMap,
                    extra => Node::Object { props, extra },
                }
            }
            RawType::DiscriminatedObjectType { name, discriminator, base_properties, elements } => {
                let base = self.props(name, base_properties, context)?;
                let mut cases = Vec::new();
                for (value, element) in &elements.0 {
                    if self.facts.about(self.about, name, value).any(|fact| *fact == Fact::Drop(Side::Both)) {
                        continue;
                    }
                    if !matches!(self.file.get(*element, &self.name)?, RawType::ObjectType { .. }) {
                        return Err(self.fail(format!("alternative {value} of {name} is no object")));
                    }
                    let node = self.node(*element, context)?;
                    let renamed = self.facts.about(self.about, name, value).find_map(|fact| match fact {
                        Fact::Rename(to) => Some(to.trim_start_matches("spec:").into()),
                        _ => None,
                    });
                    cases.push(Case { value: value.as_str().into(), node, rename: renamed });
                }
                Node::Union { discriminator: discriminator.as_str().into(), base, cases }
            }
            RawType::ArrayType { item_type, min_length, max_length } => {
                Node::Array { item: self.node(*item_type, deeper)?, min: *min_length, max: *max_length }
            }
            RawType::UnionType { elements } => self.union(elements)?,
            RawType::StringLiteralType { value } => Node::Enum { values: vec![value.as_str().into()], open: false },
            RawType::StringType { pattern, min_length, max_length, .. } => Node::String {
                pattern: pattern.as_deref().filter(|p| is_usable(p)).map(Into::into),
                min: *min_length,
                max: *max_length,
            },
            RawType::IntegerType { min_value, max_value } if self.about.further => {
                guess::number(*min_value, *max_value)
            }
            RawType::IntegerType { min_value, max_value } => Node::Integer { min: *min_value, max: *max_value },
            RawType::BooleanType {} => Node::Boolean,
            RawType::AnyType {} | RawType::NullType {} => Node::Any,
            RawType::ResourceType { .. } | RawType::ResourceFunctionType { .. } => {
                return Err(self.fail(format!("type {} is a resource and can't be nested", reference.0)));
            }
        })
    }

    /// A union of literals is an enum; one with a plain string in it is open. Others are not told apart.
    fn union(&self, elements: &[Ref]) -> Result<Node, Error> {
        let mut values: Vec<Box<str>> = Vec::new();
        let mut open = false;
        for element in elements {
            match self.file.get(*element, &self.name)? {
                RawType::StringLiteralType { value } => values.push(value.as_str().into()),
                RawType::StringType { .. } => open = true,
                RawType::NullType {} => {}
                _ => return Ok(Node::Any),
            }
        }
        Ok(if values.is_empty() {
            Node::String { pattern: None, min: None, max: None }
        } else {
            Node::Enum { values, open }
        })
    }

    /// The node of an object of which only the id is kept, if it is one.
    fn cut_down(
        &self,
        reference: Ref,
        name: &str,
        properties: &Ordered<RawProp>,
        context: Context,
    ) -> Result<Option<Node>, Error> {
        let whole = self.facts.about(self.about, name, "*").any(|fact| *fact == Fact::Whole);
        if whole || matches!(context.level, Level::Body | Level::Properties) {
            return Ok(None);
        }
        let id_read_only = |id: Option<&RawProp>| id.is_none_or(|id| Flags(id.flags).has(Flags::READ_ONLY));
        let resource = |id| Ok(Some(Node::Resource { read_only: id_read_only(id) }));
        if self.facts.about(self.about, name, "*").any(|fact| *fact == Fact::Prune(Side::Both)) {
            return resource(properties.0.iter().find(|(n, _)| n == "id").map(|(_, p)| p));
        }
        let Some((id, inner)) = embedded::looks_like_resource(properties) else { return Ok(None) };
        let fate = self.fate(reference, name, inner, context)?;
        if fate == Fate::Keep && !context.read_only { Ok(None) } else { resource(Some(id)) }
    }

    fn fate(&self, reference: Ref, name: &str, inner: Ref, context: Context) -> Result<Fate, Error> {
        let met = Met { current: &self.resource.arm_type, first_level: context.level == Level::First };
        let fate = embedded::fate(self.file, reference, name, inner, &met)?;
        let stays = fate == Fate::ChildList && self.facts.about(self.about, name, "*").any(|fact| *fact == Fact::Keep);
        Ok(if stays { Fate::Keep } else { fate })
    }

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

    fn props(&mut self, of: &str, properties: &Ordered<RawProp>, context: Context) -> Result<Vec<Prop>, Error> {
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

/// Whether the API server and we can match a pattern: no look-around, no back-references, and nothing repeated over a thousand times.
fn is_usable(pattern: &str) -> bool {
    static REPEAT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\{(\d+)(?:,(\d*))?\}").ok());
    let repeats = REPEAT.iter().flat_map(|repeat| repeat.captures_iter(pattern));
    let mut counts = repeats.flat_map(|found| [found.get(1), found.get(2)]).flatten();
    let is_too_large = |count: &str| !count.is_empty() && count.parse::<u32>().is_ok_and(|n| n > MOST_REPEATS);
    Regex::new(pattern).is_ok() && !counts.any(|count| is_too_large(count.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_kept_that_the_api_server_can_match() {
        for (pattern, usable) in [
            ("^[a-z]{3,24}$", true),
            ("^.{0,2048}$", false),
            ("^.{1001}$", false),
            ("^.{2,}$", true),
            ("^(?!x).*$", false),
        ] {
            assert_eq!(is_usable(pattern), usable, "{pattern}");
        }
    }
}
