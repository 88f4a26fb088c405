//! What Azure's type data do not say: our tables of facts, one per group, by ARM object type and property.
//!
//! A row holds for all kinds and api-versions unless it says otherwise, so that it outlives an api-version. Columns: kind, versions, type, property, fact,
//! value, reason. `versions` is `*`, a list, or a bound (`>=2024-01-01`, `<2024-01-01`). `type` is the name in `types.json`, or `*`.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Error, table};
use crate::entry::KindEntry;

/// Whose types are being converted.
pub(super) struct About<'a> {
    pub(super) group: &'a str,
    pub(super) kind: &'a str,
    pub(super) api_version: &'a str,
    /// Whether the kind is outside our table, so that guesses stand in for facts.
    pub(super) further: bool,
}

/// In which half of a custom resource a fact holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Spec,
    Status,
    Both,
}

impl Side {
    pub(super) fn spec(self) -> bool {
        self != Self::Status
    }

    pub(super) fn status(self) -> bool {
        self != Self::Spec
    }
}

/// A fact about a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fact {
    /// Its string holds an ARM id.
    Reference,
    /// It does not, although it looks so.
    NotReference,
    /// The reference may also name a well-known resource.
    WellKnown,
    /// The plain string stands beside the reference.
    Compat,
    /// A secret that is not marked as one.
    Secret,
    /// Marked as a secret, and yet plain in the custom resource.
    NotSecret,
    /// It may also come from a config map.
    FromConfig,
    /// Not in the custom resource.
    Drop(Side),
    /// It may also come from a Secret.
    FromSecret,
    /// In the spec although it is read-only.
    Include,
    /// A `properties` that is not flattened.
    Nested(Side),
    /// Called otherwise in the custom resource; for a union's alternative, `property` is the discriminator's value.
    Rename(String),
    /// Exactly these values.
    Values(Vec<String>),
    /// Exactly these whole numbers.
    Integers(Vec<i64>),
    /// Any string, whatever values are listed.
    AnyValue,
    /// Of this type.
    Type(Side, NewType),
    /// Required in the spec.
    Required,
    /// Not required in the spec.
    Optional,
    /// Another resource of which only the id is kept (of a type, whatever the property).
    Prune(Side),
    /// Never cut down to its id (of a type, whatever the property).
    Whole,
    /// A child that stays in its parent although it has a kind of its own (of a type, whatever the property).
    Keep,
    /// An object that is replaced by its members.
    Flatten,
    /// A property that the type data do not have.
    Add(Side, Added),
    /// The status is checked as the spec is: of the property and all below it; of a type (whatever the property), all its properties.
    Checked,
}

/// What an added property holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Added {
    Plain(NewType),
    /// A type of the group's own table.
    Own(String),
}

/// A type that a fact gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NewType {
    Number,
    Integer,
    String,
    Boolean,
    Any,
    AnyMap,
    AnyList,
}

struct Row {
    kind: String,
    versions: String,
    fact: Fact,
    line: usize,
    place: String,
    used: AtomicBool,
}

/// All tables.
pub(super) struct Facts {
    rows: HashMap<(String, String, String), Vec<Row>>,
    /// By group and type, the properties that are added to it, in the order of the table.
    added: HashMap<(String, String), Vec<String>>,
}

impl Facts {
    /// Reads every `<group>.tsv` of the folder.
    pub(super) fn read(folder: &Path) -> Result<Self, Error> {
        let fail = |source| Error::File { action: "list", path: folder.to_owned(), source };
        let mut rows: HashMap<_, Vec<Row>> = HashMap::new();
        let mut added: HashMap<_, Vec<String>> = HashMap::new();
        let mut paths = Vec::new();
        for file in std::fs::read_dir(folder).map_err(fail)? {
            paths.push(file.map_err(fail)?.path());
        }
        paths.sort();
        for path in paths.iter().filter(|p| p.extension().is_some_and(|e| e == "tsv")) {
            let group = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
            for (line, cells) in table(path, 7)? {
                let [kind, versions, arm_type, property, fact, value, reason] = cells.try_into().unwrap_or_default();
                let fail = |rule: String| Error::Line { path: path.clone(), line, rule };
                if reason.is_empty() {
                    return Err(fail("a fact needs a reason in its last column".to_owned()));
                }
                if let Some(version) = versions_of(&versions).find(|v| !is_version(v)) {
                    return Err(fail(format!("{version:?} is not an api-version, * or a bound of one")));
                }
                if arm_type.is_empty() || property.is_empty() {
                    return Err(fail("a fact is about a type and a property, or *".to_owned()));
                }
                let place = format!("{group}.tsv:{line} {arm_type}.{property} {fact}");
                let fact = parse(&fact, &value).map_err(fail)?;
                if matches!(fact, Fact::Add(..)) {
                    let properties: &mut Vec<String> = added.entry((group.clone(), arm_type.clone())).or_default();
                    properties.retain(|known| *known != property);
                    properties.push(property.clone());
                }
                let row = Row { kind, versions, fact, line, place, used: AtomicBool::new(false) };
                let known: &mut Vec<Row> = rows.entry((group.clone(), arm_type, property)).or_default();
                let same = |r: &&Row| r.kind == row.kind && r.versions == row.versions && r.fact == row.fact;
                if let Some(other) = known.iter().find(same) {
                    return Err(fail(format!("line {} says the same", other.line)));
                }
                known.push(row);
            }
        }
        Ok(Self { rows, added })
    }

    /// The properties that are added to a type, and the fact that says so.
    pub(super) fn added<'a>(&'a self, about: &'a About<'_>, arm_type: &'a str) -> Vec<(&'a str, Side, &'a Added)> {
        let key = (about.group.to_owned(), arm_type.to_owned());
        let properties = self.added.get(&key).into_iter().flatten();
        let facts = properties.flat_map(|property| {
            self.about(about, arm_type, property).filter_map(move |fact| match fact {
                Fact::Add(side, added) => Some((property.as_str(), *side, added)),
                _ => None,
            })
        });
        facts.collect()
    }

    /// The facts about a property, most general first.
    pub(super) fn about<'a>(
        &'a self,
        about: &'a About<'_>,
        arm_type: &str,
        property: &str,
    ) -> impl Iterator<Item = &'a Fact> {
        let key = |t: &str, p: &str| (about.group.to_owned(), t.to_owned(), p.to_owned());
        let keys = [key("*", property), key(arm_type, property)];
        let rows = keys.into_iter().filter_map(|key| self.rows.get(&key)).flatten();
        rows.filter(|row| row.holds(about)).map(|row| {
            row.used.store(true, Ordering::Relaxed);
            &row.fact
        })
    }

    /// Refuses facts about kinds that there are not.
    pub(super) fn check_kinds(&self, folder: &Path, entries: &[KindEntry]) -> Result<(), Error> {
        let exists = |group: &str, kind: &str| entries.iter().any(|e| e.group == group && e.kind == kind);
        for ((group, ..), row) in self.rows.iter().flat_map(|(key, rows)| rows.iter().map(move |row| (key, row))) {
            let unknown = row.kind.split(',').find(|kind| *kind != "*" && !exists(group, kind));
            if let Some(kind) = unknown {
                let path = folder.join(format!("{group}.tsv"));
                return Err(Error::Line {
                    path,
                    line: row.line,
                    rule: format!("the kind {group}/{kind} does not exist"),
                });
            }
        }
        Ok(())
    }

    /// Rows that no type had.
    pub(super) fn unused(&self) -> Vec<String> {
        let rows = self.rows.values().flatten().filter(|r| !r.used.load(Ordering::Relaxed));
        let mut places: Vec<String> = rows.map(|r| r.place.clone()).collect();
        places.sort();
        places
    }
}

impl Row {
    fn holds(&self, about: &About<'_>) -> bool {
        (self.kind == "*" || self.kind.split(',').any(|k| k == about.kind))
            && version_matches(&self.versions, about.api_version)
    }
}

/// The api-versions that a cell names.
fn versions_of(cell: &str) -> impl Iterator<Item = &str> {
    let bare = cell.strip_prefix(">=").or_else(|| cell.strip_prefix('<')).unwrap_or(cell);
    let bound = bare.len() < cell.len();
    bare.split(move |c| c == ',' && !bound).filter(move |version| *version != "*" || bound)
}

/// `2024-01-01`, with or without `-preview` or the like.
fn is_version(text: &str) -> bool {
    let Some((date, rest)) = text.split_at_checked(10) else { return false };
    let digits = |range: std::ops::Range<usize>| date.as_bytes()[range].iter().all(u8::is_ascii_digit);
    digits(0..4)
        && digits(5..7)
        && digits(8..10)
        && date.as_bytes()[4] == b'-'
        && date.as_bytes()[7] == b'-'
        && (rest.is_empty() || rest.starts_with('-') && rest[1..].bytes().all(|b| b.is_ascii_alphanumeric()))
}

fn version_matches(versions: &str, api_version: &str) -> bool {
    if let Some(least) = versions.strip_prefix(">=") {
        return api_version >= least;
    }
    if let Some(bound) = versions.strip_prefix('<') {
        return api_version < bound;
    }
    versions == "*" || versions.split(',').any(|v| v == api_version)
}

fn parse(fact: &str, value: &str) -> Result<Fact, String> {
    let (fact, side) = match fact.split_once('/') {
        None => (fact, Side::Both),
        Some((fact, "spec")) => (fact, Side::Spec),
        Some((fact, "status")) => (fact, Side::Status),
        Some((_, side)) => return Err(format!("side {side:?} is neither spec nor status")),
    };
    let sided = ["drop", "nested", "rename", "prune", "add", "type"].contains(&fact);
    if side != Side::Both && !sided {
        return Err(format!("fact {fact} holds for spec and status alike"));
    }
    let takes_value = ["rename", "values", "numbers", "add", "type"].contains(&fact);
    if !value.is_empty() && !takes_value {
        return Err(format!("fact {fact} takes no value, and {value:?} is one"));
    }
    let valued = || if value.is_empty() { Err(format!("fact {fact} needs a value")) } else { Ok(value.to_owned()) };
    Ok(match fact {
        "reference" => Fact::Reference,
        "not-reference" => Fact::NotReference,
        "well-known" => Fact::WellKnown,
        "compat" => Fact::Compat,
        "secret" => Fact::Secret,
        "not-secret" => Fact::NotSecret,
        "from-config" => Fact::FromConfig,
        "from-secret" => Fact::FromSecret,
        "drop" => Fact::Drop(side),
        "include" => Fact::Include,
        "nested" => Fact::Nested(side),
        "rename" if !value.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-$".contains(&b)) => {
            return Err(format!("{value:?} is not the name of a field"));
        }
        "rename" => Fact::Rename(match side {
            Side::Both => valued()?,
            Side::Spec => format!("spec:{}", valued()?),
            Side::Status => format!("status:{}", valued()?),
        }),
        "values" if value.split('|').any(str::is_empty) => {
            return Err(format!("{value:?} is not a list of values joined by |"));
        }
        "values" => Fact::Values(valued()?.split('|').map(str::to_owned).collect()),
        "numbers" => {
            let numbers: Result<_, _> = valued()?.split('|').map(str::parse).collect();
            Fact::Integers(numbers.map_err(|_| format!("{value:?} is not a list of whole numbers joined by |"))?)
        }
        "any-value" => Fact::AnyValue,
        "required" => Fact::Required,
        "optional" => Fact::Optional,
        "prune" => Fact::Prune(side),
        "keep" => Fact::Keep,
        "whole" => Fact::Whole,
        "flatten" => Fact::Flatten,
        "checked" => Fact::Checked,
        "add" => Fact::Add(side, new_type(&valued()?).map_or_else(|| Added::Own(value.to_owned()), Added::Plain)),
        "type" => Fact::Type(
            side,
            new_type(value).ok_or_else(|| {
                format!("type {value:?} is not one of number, integer, string, boolean, any, map, list")
            })?,
        ),
        other => return Err(format!("unknown fact {other:?}")),
    })
}

fn new_type(name: &str) -> Option<NewType> {
    Some(match name {
        "number" => NewType::Number,
        "integer" => NewType::Integer,
        "string" => NewType::String,
        "boolean" => NewType::Boolean,
        "any" => NewType::Any,
        "map" => NewType::AnyMap,
        "list" => NewType::AnyList,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_lists_or_bounds() {
        for (versions, api_version, expected) in [
            ("*", "2020-01-01", true),
            ("2020-01-01,2021-01-01", "2021-01-01", true),
            ("2020-01-01", "2020-01-01-preview", false),
            (">=2021-01-01", "2020-12-31", false),
            (">=2021-01-01", "2021-01-01", true),
            ("<2021-01-01", "2021-01-01", false),
        ] {
            assert_eq!(version_matches(versions, api_version), expected, "{versions} {api_version}");
        }
    }

    #[test]
    fn unknown_facts_and_missing_values_are_refused() {
        assert!(parse("refrence", "").is_err());
        assert!(parse("rename", "").is_err());
        assert!(parse("drop/body", "").is_err());
        assert!(parse("type", "float").is_err());
        assert!(parse("secret", "true").is_err());
        assert!(parse("secret/spec", "").is_err());
        assert!(parse("values", "a||b").is_err());
        assert!(parse("values", "").is_err());
        assert!(parse("rename", "a.b").is_err());
        assert_eq!(parse("drop/spec", ""), Ok(Fact::Drop(Side::Spec)));
    }
}
