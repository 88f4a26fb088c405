//! The type graph of one kind: what ARM accepts and returns, with the facts that a custom resource needs written on it.
//!
//! Kept true here: node ids are indices into the same graph, so a graph can be walked without look-ups that may fail, and
//! a line of the catalog reads back to the node it was written from.

use serde_json::{Value, json};

/// Index of a node in its graph.
pub(crate) type NodeId = u32;

/// What is known about a property, as bits. The first five are Azure's own; the others are facts of ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u32);

impl Flags {
    /// The service refuses a body without it.
    pub const REQUIRED: Self = Self(1);
    /// Only the service writes it.
    pub const READ_ONLY: Self = Self(2);
    /// Never returned by a GET.
    pub const WRITE_ONLY: Self = Self(4);
    // 8 (must be known when a deployment starts) and 16 (part of the resource's identity) are Azure's too; nothing needs them.
    /// The string holds an ARM id, so the spec has a reference in its place.
    pub const REFERENCE: Self = Self(32);
    /// The value is a secret, so the spec names a key of a Secret.
    pub const SECRET: Self = Self(64);
    /// A child list owned by its own resource type: not in the spec.
    pub const CHILD_LIST: Self = Self(128);
    /// The spec has a sibling `…FromConfig` that names a key of a config map.
    pub const FROM_CONFIG: Self = Self(256);
    /// Not in the spec although it is writable.
    pub const NOT_IN_SPEC: Self = Self(512);
    /// Not in the status.
    pub const NOT_IN_STATUS: Self = Self(1024);
    /// An object called `properties` that is not flattened in the spec.
    pub const KEEP_NESTED: Self = Self(2048);
    /// In the spec although the type data call it read-only.
    pub const IN_SPEC: Self = Self(4096);
    /// The reference may also name a well-known resource.
    pub const WELL_KNOWN: Self = Self(8192);
    /// The plain string stands beside the reference.
    pub const COMPAT: Self = Self(16_384);
    /// Not required in the spec although the service requires it.
    pub const OPTIONAL: Self = Self(32_768);
    /// A whole number in the spec, any number in the status.
    pub const STATUS_NUMBER: Self = Self(65_536);
    /// An object called `properties` that is not flattened in the status.
    pub const STATUS_NESTED: Self = Self(131_072);
    /// An open enum or a plain value in the spec, whatever the values listed.
    pub const ANY_VALUE: Self = Self(262_144);
    /// Of the object, or of each item of the list, the spec has only a reference.
    pub const SPEC_ID_ONLY: Self = Self(524_288);
    /// Of the object, or of each item of the list, the status has only the id.
    pub const STATUS_ID_ONLY: Self = Self(1_048_576);
    /// Replaced by its members, as `properties` is.
    pub const FLATTEN: Self = Self(2_097_152);
    /// The spec has a sibling `…FromSecret` that names a key of a Secret.
    pub const FROM_SECRET: Self = Self(4_194_304);

    /// The status is checked as the spec is: this property, and all that is below it.
    pub const STATUS_CHECKED: Self = Self(8_388_608);

    /// Whether all bits of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of bits.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This set less the bits of `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// A property of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Prop {
    /// The ARM JSON name.
    pub name: Box<str>,
    /// What is known about it.
    pub flags: Flags,
    /// Its type.
    pub node: NodeId,
    /// The name in the custom resource, where the rules would give another one: `name`, `spec:name` or `status:name`.
    pub rename: Option<Box<str>>,
}

impl Prop {
    /// The name given in the spec or status, if it is not that of the rules.
    pub fn renamed(&self, side: &str) -> Option<&str> {
        let rename = self.rename.as_deref()?;
        match rename.split_once(':') {
            None => Some(rename),
            Some((only, name)) => (only == side).then_some(name),
        }
    }
}

/// One alternative of a union.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Case {
    /// The discriminator's value.
    pub value: Box<str>,
    /// The object it selects.
    pub node: NodeId,
    /// The name in the spec, where the rules would give another one.
    pub rename: Option<Box<str>>,
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// An object; without properties and with `extra` it is a map.
    Object {
        /// Properties by name.
        props: Vec<Prop>,
        /// Type of properties that have no name here.
        extra: Option<NodeId>,
    },
    /// An object whose shape depends on the value of one property.
    Union {
        /// Name of that property.
        discriminator: Box<str>,
        /// Properties of all alternatives.
        base: Vec<Prop>,
        /// The alternatives.
        cases: Vec<Case>,
    },
    /// A list.
    Array {
        /// Type of an item.
        item: NodeId,
        /// Least number of items.
        min: Option<u64>,
        /// Largest number of items.
        max: Option<u64>,
    },
    /// One of some strings; other strings are fine too if it is open.
    Enum {
        /// The values.
        values: Vec<Box<str>>,
        /// Whether the service accepts others.
        open: bool,
    },
    /// One of some whole numbers.
    Integers(Vec<i64>),
    /// A string.
    String {
        /// Regular expression it matches.
        pattern: Option<Box<str>>,
        /// Least length.
        min: Option<u64>,
        /// Largest length.
        max: Option<u64>,
    },
    /// A whole number.
    Integer {
        /// Least value.
        min: Option<i64>,
        /// Largest value.
        max: Option<i64>,
    },
    /// Any number.
    Number {
        /// Least value.
        min: Option<i64>,
        /// Largest value.
        max: Option<i64>,
    },
    /// True or false.
    Boolean,
    /// Anything.
    Any,
    /// A map whose values can be anything.
    AnyMap,
    /// Another resource, of which only the id is written and read.
    Resource {
        /// Whether the id is read-only here, so that the spec has nothing.
        read_only: bool,
    },
}

/// A line of the catalog that can't be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the catalog line is not a node: {0}")]
pub struct BadLine(pub String);

impl Node {
    /// The line of the catalog for this node.
    pub fn to_line(&self) -> Value {
        match self {
            Self::Object { props, extra } => json!(["O", props.iter().map(prop_line).collect::<Vec<_>>(), extra]),
            Self::Union { discriminator, base, cases } => json!([
                "D",
                discriminator,
                base.iter().map(prop_line).collect::<Vec<_>>(),
                cases.iter().map(case_line).collect::<Vec<_>>()
            ]),
            Self::Array { item, min, max } => json!(["A", item, min, max]),
            Self::Enum { values, open } => json!(["E", values, open]),
            Self::Integers(values) => json!(["J", values]),
            Self::String { pattern, min, max } => json!(["S", pattern, min, max]),
            Self::Integer { min, max } => json!(["I", min, max]),
            Self::Number { min, max } => json!(["N", min, max]),
            Self::Boolean => json!(["B"]),
            Self::Any => json!(["Y"]),
            Self::AnyMap => json!(["M"]),
            Self::Resource { read_only } => json!(["X", read_only]),
        }
    }

    /// The node of a line of the catalog.
    pub fn from_line(line: &str) -> Result<Self, BadLine> {
        let bad = || BadLine(line.chars().take(120).collect());
        let value: Value = serde_json::from_str(line).map_err(|_| bad())?;
        Self::from_value(&value).ok_or_else(bad)
    }

    fn from_value(value: &Value) -> Option<Self> {
        let at = |i: usize| value.get(i).unwrap_or(&Value::Null);
        Some(match value.get(0)?.as_str()? {
            "O" => Self::Object { props: props(at(1))?, extra: id(at(2)) },
            "D" => Self::Union {
                discriminator: at(1).as_str()?.into(),
                base: props(at(2))?,
                cases: at(3).as_array()?.iter().map(case).collect::<Option<_>>()?,
            },
            "A" => Self::Array { item: id(at(1))?, min: at(2).as_u64(), max: at(3).as_u64() },
            "E" => Self::Enum {
                values: at(1).as_array()?.iter().map(|v| v.as_str().map(Into::into)).collect::<Option<_>>()?,
                open: at(2).as_bool()?,
            },
            "J" => Self::Integers(at(1).as_array()?.iter().map(Value::as_i64).collect::<Option<_>>()?),
            "S" => Self::String { pattern: at(1).as_str().map(Into::into), min: at(2).as_u64(), max: at(3).as_u64() },
            "I" => Self::Integer { min: at(1).as_i64(), max: at(2).as_i64() },
            "N" => Self::Number { min: at(1).as_i64(), max: at(2).as_i64() },
            "B" => Self::Boolean,
            "Y" => Self::Any,
            "M" => Self::AnyMap,
            "X" => Self::Resource { read_only: at(1).as_bool()? },
            _ => return None,
        })
    }

    /// Calls `visit` with every node id that this node names, in a fixed order.
    pub fn for_each_child(&mut self, mut visit: impl FnMut(&mut NodeId)) {
        let (props, others) = match self {
            Self::Object { props, extra } => (props, Children::Extra(extra)),
            Self::Union { base, cases, .. } => (base, Children::Cases(cases)),
            Self::Array { item, .. } => return visit(item),
            _ => return,
        };
        for prop in props {
            visit(&mut prop.node);
        }
        match others {
            Children::Extra(Some(extra)) => visit(extra),
            Children::Extra(None) => {}
            Children::Cases(cases) => {
                for case in cases {
                    visit(&mut case.node);
                }
            }
        }
    }

    /// Whether this is an object without named properties whose values have a type.
    pub fn is_map(&self) -> bool {
        matches!(self, Self::AnyMap) || matches!(self, Self::Object { props, extra: Some(_) } if props.is_empty())
    }
}

/// What a node has beside properties.
enum Children<'a> {
    Extra(&'a mut Option<NodeId>),
    Cases(&'a mut Vec<Case>),
}

fn prop_line(prop: &Prop) -> Value {
    match &prop.rename {
        None => json!([prop.name, prop.flags.0, prop.node]),
        Some(rename) => json!([prop.name, prop.flags.0, prop.node, rename]),
    }
}

fn case_line(case: &Case) -> Value {
    match &case.rename {
        None => json!([case.value, case.node]),
        Some(rename) => json!([case.value, case.node, rename]),
    }
}

fn id(value: &Value) -> Option<NodeId> {
    value.as_u64().and_then(|n| NodeId::try_from(n).ok())
}

fn props(value: &Value) -> Option<Vec<Prop>> {
    value
        .as_array()?
        .iter()
        .map(|p| {
            Some(Prop {
                name: p.get(0)?.as_str()?.into(),
                flags: Flags(u32::try_from(p.get(1)?.as_u64()?).ok()?),
                node: id(p.get(2)?)?,
                rename: p.get(3).and_then(Value::as_str).map(Into::into),
            })
        })
        .collect()
}

fn case(value: &Value) -> Option<Case> {
    Some(Case {
        value: value.get(0)?.as_str()?.into(),
        node: id(value.get(1)?)?,
        rename: value.get(2).and_then(Value::as_str).map(Into::into),
    })
}

/// The nodes of one kind.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: Vec<Node>,
}

impl Graph {
    /// A graph of these nodes. Ids that they name must be indices into `nodes`.
    pub fn new(nodes: Vec<Node>) -> Self {
        Self { nodes }
    }

    /// The node with this id; an id that is not of this graph means "anything".
    pub fn node(&self, id: NodeId) -> &Node {
        self.nodes.get(id as usize).unwrap_or(&Node::Any)
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_back_to_its_node() {
        for line in [
            r#"["O",[["a",33,1],["b",0,2,"c"]],null]"#,
            r#"["O",[],4]"#,
            r#"["D","type",[["x",1,0]],[["A",3],["B",4,"bb"]]]"#,
            r#"["A",1,null,5]"#,
            r#"["E",["x","y"],true]"#,
            r#"["S","^a$",1,null]"#,
            r#"["I",-1,null]"#,
            r#"["J",[0,3]]"#,
            r#"["N",null,null]"#,
            r#"["B"]"#,
            r#"["X",false]"#,
        ] {
            assert_eq!(Node::from_line(line).map(|n| n.to_line().to_string()), Ok(line.to_owned()));
        }
    }

    #[test]
    fn a_broken_line_is_refused() {
        for line in ["", "[]", r#"["Q"]"#, r#"["A","x"]"#, r#"["O",[["a"]],null]"#] {
            assert!(Node::from_line(line).is_err(), "{line}");
        }
    }
}
