//! The shape of a custom resource's spec and status, derived from the type graph, and for each field where its value lies in the ARM body.
//!
//! Kept true here: every field carries exactly one ARM path, relative to the object that it is in; so a spec converts to a body, and a body to a status, by
//! walking the shape. The rules that make the shape are in `shape/build.rs`.

mod build;

pub(crate) use build::{MAX_VISITS, spec, status};

/// The type of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// An object with named fields.
    Object(Object),
    /// A map from string to something.
    Map(Box<Shape>),
    /// A list.
    List {
        /// Type of an item.
        item: Box<Shape>,
        /// Least number of items.
        min: Option<u64>,
        /// Largest number of items.
        max: Option<u64>,
    },
    /// A string.
    String {
        /// Regular expression it matches.
        pattern: Option<Box<str>>,
        /// Least length.
        min: Option<u64>,
        /// Largest length.
        max: Option<u64>,
    },
    /// One of these strings.
    Enum(Vec<Box<str>>),
    /// One of these whole numbers.
    Integers(Vec<i64>),
    /// One of these numbers, however they are written.
    Numbers(Vec<i64>),
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
    /// `{armId}`, or `{group, kind, name}`; an id in the body.
    Reference {
        /// Whether `{wellKnownName}` is a third form.
        well_known: bool,
    },
    /// A list of `{reference}`; in the body a map from id to an empty object.
    Identities,
    /// `{name, key}` of a Secret; the value in the body.
    SecretKey,
    /// `{name}` of a Secret; all its values as a map in the body.
    SecretMap,
    /// `{name, key}` of a config map; the value in the body.
    ConfigKey,
}

/// An object with named fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object {
    /// The fields.
    pub fields: Vec<Field>,
    /// The name of the property that says which alternative it is, where the fields are alternatives.
    pub discriminator: Option<Box<str>>,
    /// Flattened objects that the service requires in this one, by their ARM paths. A body has one only if a field in it is set.
    pub wrappers: Vec<Vec<Box<str>>>,
}

/// A field of a custom resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name in the custom resource.
    pub name: Box<str>,
    /// Where its value lies in the ARM object, segment by segment; empty for alternatives and `Rest`, which merge into the object itself.
    pub arm: Vec<Box<str>>,
    /// Whether the spec must have it.
    pub required: bool,
    /// Whether the service refuses the object without it; the spec may have another field in its stead.
    pub needed: bool,
    /// Its type.
    pub shape: Shape,
    /// How the value gets into the body.
    pub role: Role,
}

/// How a field's value gets into the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// At its path.
    Value,
    /// Its members are merged into the object; at most one alternative of an object may be set. The text is the discriminator's value.
    Alternative(Box<str>),
    /// Its entries are merged into the object: properties that have no name of their own.
    Rest,
    /// At the path of the named sibling, which must then not be set.
    InsteadOf(Box<str>),
}

impl Object {
    /// The field with this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|f| &*f.name == name)
    }
}

impl Shape {
    /// Whether this is a list or a map.
    pub fn is_collection(&self) -> bool {
        matches!(self, Self::Map(_) | Self::List { .. } | Self::AnyMap | Self::Identities)
    }

    /// What a person would call it, for messages.
    pub fn noun(&self) -> &'static str {
        match self {
            Self::Object(_) => "an object",
            Self::Map(_) | Self::AnyMap => "a map",
            Self::List { .. } => "a list",
            Self::String { .. } | Self::Enum(_) => "a string",
            Self::Integer { .. } | Self::Integers(_) => "a whole number",
            Self::Number { .. } | Self::Numbers(_) => "a number",
            Self::Boolean => "true or false",
            Self::Any => "anything",
            Self::Reference { .. } => "a reference {armId} or {group, kind, name}",
            Self::Identities => "a list of {reference}",
            Self::SecretKey => "a Secret's {name, key}",
            Self::SecretMap => "a Secret's {name}",
            Self::ConfigKey => "a config map's {name, key}",
        }
    }
}
