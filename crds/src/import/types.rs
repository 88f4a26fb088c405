//! Types that we write ourselves, for what Azure does not publish: a table `types/<group>.tsv` per group, read as if it were published.
//!
//! Columns: type, property, of, flags. `of` says what the property holds (see `Table::of`). A line whose first column is `resource` says that a type is
//! the body of a resource: `resource`, `Provider/type@api-version`, the type, and the scopes at which it can be written. With `action` it says what a POST
//! action answers: `action`, `Provider/type@api-version`, the type of the answer, and the action.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::raw::{File, Ordered, RawProp, RawType, Ref, Resource};
use super::{Error, table};

/// Our own types of every group.
#[derive(Default)]
pub(super) struct OwnTypes {
    groups: HashMap<String, (Arc<File>, HashMap<String, Ref>)>,
}

impl OwnTypes {
    /// Reads every `<group>.tsv` of the folder; there may be no folder.
    pub(super) fn read(folder: &Path) -> Result<Self, Error> {
        let mut groups = HashMap::new();
        for path in super::raw::list(folder)?.iter().filter(|p| p.extension().is_some_and(|e| e == "tsv")) {
            let group = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
            groups.insert(group, Table::read(path)?);
        }
        Ok(Self { groups })
    }

    /// The tables, as files of types.
    pub(super) fn files(&self) -> impl Iterator<Item = &Arc<File>> {
        self.groups.values().map(|(file, _)| file)
    }

    /// A type of a group's table.
    pub(super) fn find(&self, group: &str, name: &str) -> Option<(&Arc<File>, Ref)> {
        let (file, names) = self.groups.get(group)?;
        names.get(name).map(|&at| (file, at))
    }
}

/// A table while it is read.
struct Table {
    types: Vec<RawType>,
    /// Where each named type stands; its place is held from the first time that it is named.
    names: HashMap<String, Ref>,
}

impl Table {
    fn read(path: &Path) -> Result<(Arc<File>, HashMap<String, Ref>), Error> {
        let mut reading = Self { types: Vec::new(), names: HashMap::new() };
        let mut resources = Vec::new();
        let mut defined: HashMap<String, usize> = HashMap::new();
        let mut named_at: Vec<(String, usize)> = Vec::new();
        for (line, cells) in table(path, 4)? {
            let fail = |rule: String| Error::Line { path: path.to_owned(), line, rule };
            let [first, second, of, flags] = cells.try_into().unwrap_or_default();
            if matches!(first.as_str(), "resource" | "action") {
                let (arm_type, api_version) =
                    second.split_once('@').ok_or_else(|| fail(format!("{second:?} is not type@api-version")))?;
                let (arm_type, api_version) = (arm_type.to_owned(), api_version.to_owned());
                let named = reading.named(&of);
                named_at.push((of, line));
                if first == "action" {
                    let (name, resource_type, output) = (flags, arm_type, named);
                    reading.add(RawType::ResourceFunctionType { name, resource_type, api_version, output });
                } else {
                    let writable = flags.parse().map_err(|_| fail(format!("scopes {flags:?} is not a number")))?;
                    resources.push(Resource { arm_type, api_version, body: named, writable });
                }
                continue;
            }
            let node = reading.of(&of, &mut |name| named_at.push((name.to_owned(), line))).map_err(&fail)?;
            let prop = RawProp { node, flags: bits(&flags).map_err(&fail)?, description: String::new() };
            let at = reading.named(&first);
            defined.entry(first).or_insert(line);
            if let RawType::ObjectType { properties, .. } = &mut reading.types[at.0] {
                if properties.0.iter().any(|(name, _)| *name == second) {
                    return Err(fail(format!("{second} appears twice")));
                }
                properties.0.push((second, prop));
            }
        }
        if let Some((name, line)) = named_at.into_iter().find(|(name, _)| !defined.contains_key(name)) {
            let rule = format!("{name:?} is not a type of this table");
            return Err(Error::Line { path: path.to_owned(), line, rule });
        }
        let file = File { path: path.to_owned(), types: reading.types, resources };
        Ok((Arc::new(file), reading.names))
    }

    fn add(&mut self, raw: RawType) -> Ref {
        self.types.push(raw);
        Ref(self.types.len() - 1)
    }

    /// The object of this name; it has no properties yet where it is first named.
    fn named(&mut self, name: &str) -> Ref {
        if let Some(&at) = self.names.get(name) {
            return at;
        }
        let at = self.add(RawType::ObjectType {
            name: name.to_owned(),
            properties: Ordered::default(),
            additional_properties: None,
            sensitive: false,
        });
        self.names.insert(name.to_owned(), at);
        at
    }

    /// What a cell says: `string`, `secret`, `integer`, `boolean`, `any`, `one of a|b`, `[T]` a list, `{T}` a map, or a type of the table. Bounds come after
    /// it as `1..5`, `1..` or `..5`, and after a string's bounds its pattern as `/…/`.
    fn of(&mut self, cell: &str, named: &mut dyn FnMut(&str)) -> Result<Ref, String> {
        let (head, rest) = head(cell);
        let within = |open: char, close: char| head.strip_prefix(open).and_then(|inner| inner.strip_suffix(close));
        if let Some(values) = cell.strip_prefix("one of ") {
            let elements =
                values.split('|').map(|value| self.add(RawType::StringLiteralType { value: value.to_owned() }));
            let elements = elements.collect();
            return Ok(self.add(RawType::UnionType { elements }));
        }
        let (bounds, pattern) = rest.split_once('/').unwrap_or((rest, ""));
        let bounds = bounds.trim();
        let pattern = pattern.strip_suffix('/').map(str::to_owned);
        let (least, most) = bounds.split_once("..").unwrap_or(("", ""));
        if !bounds.is_empty() && !bounds.contains("..") {
            return Err(format!("{bounds:?} is not a range such as 1..5"));
        }
        if let Some(inner) = within('[', ']') {
            let item_type = self.of(inner, named)?;
            let (min_length, max_length) = (number(least)?, number(most)?);
            return Ok(self.add(RawType::ArrayType { item_type, min_length, max_length }));
        }
        if let Some(inner) = within('{', '}') {
            let values = self.of(inner, named)?;
            return Ok(self.add(RawType::ObjectType {
                name: String::new(),
                properties: Ordered::default(),
                additional_properties: Some(values),
                sensitive: false,
            }));
        }
        Ok(match head {
            "string" | "secret" => {
                let (min_length, max_length) = (number(least)?, number(most)?);
                self.add(RawType::StringType { pattern, min_length, max_length, sensitive: head == "secret" })
            }
            "integer" => {
                let (min_value, max_value) = (number(least)?, number(most)?);
                self.add(RawType::IntegerType { min_value, max_value })
            }
            "boolean" => self.add(RawType::BooleanType {}),
            "any" => self.add(RawType::AnyType {}),
            "" => return Err("the type of the property is missing".to_owned()),
            name => {
                named(name);
                self.named(name)
            }
        })
    }
}

/// The type and what comes after it; a list's or map's brackets may hold spaces.
fn head(cell: &str) -> (&str, &str) {
    let mut depth = 0_i32;
    for (at, c) in cell.char_indices() {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            ' ' if depth == 0 => return (&cell[..at], cell[at..].trim()),
            _ => {}
        }
    }
    (cell, "")
}

fn number<T: std::str::FromStr>(text: &str) -> Result<Option<T>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| format!("{text:?} is not a number"))
}

/// The published bits for the words of the last column.
fn bits(flags: &str) -> Result<u32, String> {
    flags.split(' ').filter(|word| !word.is_empty()).try_fold(0, |bits, word| match word {
        "required" => Ok(bits | 1),
        "read-only" => Ok(bits | 2),
        "write-only" => Ok(bits | 4),
        other => Err(format!("flag {other:?} is not one of required, read-only, write-only")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table_of(text: &str) -> Result<(Arc<File>, HashMap<String, Ref>), Error> {
        let folder = std::env::temp_dir().join(format!("flotilla-types-{}-{:p}", std::process::id(), &raw const text));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("x.azure.com.tsv");
        std::fs::write(&path, text).unwrap();
        let read = Table::read(&path);
        std::fs::remove_dir_all(&folder).unwrap();
        read
    }

    #[test]
    fn cells_say_types_bounds_and_patterns() {
        let text = "resource\tA.B/cs@2020-01-01\tC\t8\nC\tname\tstring 1..5 /^a b$/\trequired\nC\tlist\t[string ..3] 1..2\t\n\
                    C\tmap\t{D}\tread-only\nD\tsize\tinteger 0..\t\nD\tmode\tone of a b|c\t\n";
        let (file, names) = table_of(text).unwrap();
        assert_eq!((file.resources[0].arm_type.as_str(), file.resources[0].writable), ("A.B/cs", 8));
        let RawType::ObjectType { properties, .. } = &file.types[names["C"].0] else { panic!("not an object") };
        let [(_, name), (_, list), (_, map)] = &properties.0[..] else { panic!("not three properties") };
        assert_eq!((name.flags, map.flags), (1, 2));
        let RawType::StringType { pattern, min_length, max_length, .. } = &file.types[name.node.0] else {
            panic!("not a string")
        };
        assert_eq!((pattern.as_deref(), *min_length, *max_length), (Some("^a b$"), Some(1), Some(5)));
        assert!(matches!(file.types[list.node.0], RawType::ArrayType { min_length: Some(1), max_length: Some(2), .. }));
        let RawType::ObjectType { properties, .. } = &file.types[names["D"].0] else { panic!("not an object") };
        assert!(
            matches!(&file.types[properties.0[1].1.node.0], RawType::UnionType { elements } if elements.len() == 2)
        );
    }

    #[test]
    fn mistakes_name_the_line() {
        for (text, line, rule) in [
            ("C\ta\tD\t", 1, "\"D\" is not a type of this table"),
            ("C\ta\tstring\t\nC\ta\tstring\t", 2, "a appears twice"),
            ("C\ta\tstring 1-5\t", 1, "\"1-5\" is not a range such as 1..5"),
            ("C\ta\tstring\tneeded", 1, "flag \"needed\" is not one of required, read-only, write-only"),
            ("C\ta\t\t", 1, "the type of the property is missing"),
        ] {
            let Err(Error::Line { line: at, rule: told, .. }) = table_of(text) else { panic!("{text} was read") };
            assert_eq!((at, told.as_str()), (line, rule));
        }
    }
}
