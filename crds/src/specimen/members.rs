//! Which members an object gets, and their values.

use serde_json::{Map, Value, json};

use super::{ARM_ID, Extent, NAME, text};
use crate::shape::{Field, Object, Role, Shape};

/// Makes values, and remembers how far chance has come.
pub(super) struct Maker {
    extent: Extent,
}

impl Maker {
    pub(super) fn new(extent: Extent) -> Self {
        Self { extent }
    }

    /// A number below `bound`.
    fn pick(&mut self, bound: usize) -> usize {
        let bound = bound.max(1);
        match &mut self.extent {
            Extent::Required => 0,
            Extent::Whole(number) => *number % bound,
            Extent::Part(state) => {
                // SplitMix64: good enough to pick with, and the same everywhere.
                *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut z = *state;
                z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                let wide = u128::from(z ^ (z >> 31)) * bound as u128;
                usize::try_from(wide >> 64).unwrap_or(0)
            }
        }
    }

    fn anything(&mut self) -> Value {
        match self.pick(6) {
            0 => json!({"key": "value"}),
            1 => json!({"key": {"key": {"list": [{"key": null}, {}]}}}),
            2 => json!([{"key": "value"}, 1]),
            3 => json!("text"),
            4 => json!(1.5),
            _ => json!(true),
        }
    }

    /// The value that people mostly start with, for those who want a small example.
    fn usual(&self, values: &[Box<str>]) -> Option<usize> {
        let usual = |value: &str| value == "Standard" || value.starts_with("Standard_");
        // Whoever starts with the other mode of a deployment loses what else is in the group.
        let harmless = values.iter().position(|value| &**value == "Incremental");
        let usual = values.iter().position(|value| usual(value)).filter(|_| self.extent == Extent::Required);
        harmless.filter(|_| matches!(self.extent, Extent::Required | Extent::Whole(0))).or(usual)
    }

    /// Whether to take what nobody demands.
    pub(super) fn likes(&mut self) -> bool {
        match self.extent {
            Extent::Required => false,
            Extent::Whole(_) => true,
            Extent::Part(_) => self.pick(3) == 0,
        }
    }

    pub(super) fn object(&mut self, shape: &Object) -> Map<String, Value> {
        let mut object = Map::new();
        let alternatives: Vec<&Field> =
            shape.fields.iter().filter(|f| matches!(f.role, Role::Alternative(_))).collect();
        if let Some(field) = alternatives.get(self.pick(alternatives.len())) {
            self.set(field, &mut object);
        }
        for field in shape.fields.iter().filter(|f| matches!(f.role, Role::Value | Role::Rest)) {
            if field.required || field.needed || self.likes() {
                let forms = forms(field, shape);
                let form = forms[self.pick(forms.len())];
                self.set(form, &mut object);
            }
        }
        for wrapper in &shape.wrappers {
            self.fill(wrapper, shape, &mut object);
        }
        object
    }

    fn set(&mut self, field: &Field, object: &mut Map<String, Value>) {
        let value = self.value(&field.name, &field.shape);
        object.insert(field.name.to_string(), value);
    }

    /// Sets a member of a flattened object that the type requires, if the object that it is in is there and it is not.
    fn fill(&mut self, wrapper: &[Box<str>], shape: &Object, object: &mut Map<String, Value>) {
        let below = |arm: &[Box<str>]| shape.fields.iter().filter(|f| f.arm.starts_with(arm)).collect::<Vec<_>>();
        let is_there = |arm: &[Box<str>], object: &Map<String, Value>| {
            arm.is_empty() || below(arm).iter().any(|f| object.contains_key(&*f.name))
        };
        let above = &wrapper[..wrapper.len().saturating_sub(1)];
        let members = below(wrapper);
        if is_there(above, object)
            && !is_there(wrapper, object)
            && let Some(field) = members.get(self.pick(members.len()))
        {
            self.set(field, object);
        }
    }

    fn value(&mut self, name: &str, shape: &Shape) -> Value {
        match shape {
            Shape::Object(members) => Value::Object(self.object(members)),
            Shape::Map(item) => json!({"key": self.value(name, item)}),
            Shape::List { item, min, .. } => (0..min.unwrap_or(1).max(1)).map(|_| self.value(name, item)).collect(),
            Shape::String { pattern, min, max } => json!(text::of_field(name, pattern.as_deref(), *min, *max)),
            Shape::Enum(values) => json!(values[self.usual(values).unwrap_or_else(|| self.pick(values.len()))]),
            Shape::Integers(values) | Shape::Numbers(values) => json!(values[self.pick(values.len())]),
            // No reader may round it.
            Shape::Number { min: None, max: None } if self.pick(2) == 1 => json!(1.5),
            Shape::Integer { min, max } | Shape::Number { min, max } => json!(within(*min, *max)),
            Shape::Boolean => json!(true),
            Shape::Any => self.anything(),
            Shape::AnyMap => json!({"key": self.anything()}),
            Shape::Reference { well_known } => match self.pick(if *well_known { 3 } else { 2 }) {
                0 => json!({"armId": ARM_ID}),
                1 => object_reference(),
                _ => json!({"wellKnownName": NAME}),
            },
            Shape::Identities => json!([{"reference": {"armId": ARM_ID}}]),
            Shape::SecretKey | Shape::ConfigKey => json!({"name": NAME, "key": name}),
            Shape::SecretMap => json!({"name": NAME}),
        }
    }
}

/// A reference to an object in the same namespace.
pub(super) fn object_reference() -> Value {
    json!({"group": "resources.azure.com", "kind": "ResourceGroup", "name": NAME})
}

/// The fields that stand for one ARM property, the one that people mostly take first.
fn forms<'a>(field: &'a Field, of: &'a Object) -> Vec<&'a Field> {
    let others = of.fields.iter().filter(|f| matches!(&f.role, Role::InsteadOf(plain) if **plain == *field.name));
    let mut forms: Vec<&Field> = std::iter::once(field).chain(others).collect();
    forms.sort_by_key(|form| match form.shape {
        Shape::Reference { .. } | Shape::SecretKey => 0,
        Shape::ConfigKey => 2,
        _ => 1,
    });
    forms
}

/// 1, or what is nearest to it.
fn within(min: Option<i64>, max: Option<i64>) -> i64 {
    1.max(min.unwrap_or(i64::MIN)).min(max.unwrap_or(i64::MAX))
}
