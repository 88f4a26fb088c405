//! One resource type's published types to nodes of the graph, with our facts written on them.

mod props;

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

use super::Error;
use super::embedded::{self, Fate, Met};
use super::facts::{About, Fact, Facts, Side};
use super::guess;
use super::raw::{File, Ordered, RawProp, RawType, Ref, Resource};
use super::types::OwnTypes;
use super::unfold;
use crate::graph::{Case, Flags, Node, NodeId};

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
        return Err(converter.fail("its body is not an object".to_owned()));
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
                        return Err(self.fail(format!("alternative {value} of {name} is not an object")));
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
