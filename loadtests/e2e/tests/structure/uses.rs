//! The paths that a file names from `crate`, `self` or `super`, and the names that its `use`s bring in.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

/// A path from the crate's root.
pub(crate) type ModulePath = Vec<String>;

/// What a file says of others.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Uses {
    /// All paths, `use` or not.
    pub(crate) paths: Vec<ModulePath>,
    /// What a name that the file imports, or exports again, stands for.
    pub(crate) names: BTreeMap<String, ModulePath>,
    /// Modules that are compiled for tests only.
    pub(crate) tests: Vec<String>,
}

static COMMENT: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?m)^\s*//.*$|\s//\s.*$"));
static TEST_FILE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?m)^\s*#\[cfg\(test\)\]\s*(?:pub(?:\([a-z]+\))? )?mod (\w+);"));
static TEST_MODULE: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?ms)^#\[cfg\(test\)\]\s*mod \w+ \{.*?^\}"));
static USE: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?ms)^\s*(?:pub(?:\([^)]*\))? )?use ([^;]+);"));
static PATH: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b((?:crate|self|super)(?:::\w+)+)"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("it is well-formed")
}

/// Reads the text of the module at `at`. `children` are the modules inside of it.
pub(crate) fn read(text: &str, at: &[String], children: &[String]) -> Uses {
    let text = COMMENT.replace_all(text, "");
    let tests = TEST_FILE.captures_iter(&text).map(|captures| captures[1].to_owned()).collect();
    let text = TEST_MODULE.replace_all(&text, "");

    let mut uses = Uses { tests, ..Uses::default() };
    for captures in USE.captures_iter(&text) {
        for (path, name) in expand(&captures[1].split_whitespace().collect::<Vec<_>>().join(" ")) {
            if let Some(path) = absolute(&path, at, children) {
                uses.names.insert(name, path.clone());
                uses.paths.push(path);
            }
        }
    }
    let body = USE.replace_all(&text, "");
    for captures in PATH.captures_iter(&body) {
        let path: Vec<String> = captures[1].split("::").map(str::to_owned).collect();
        uses.paths.extend(absolute(&path, at, children));
    }
    uses
}

/// The path from the root, unless it begins in another crate.
fn absolute(path: &[String], at: &[String], children: &[String]) -> Option<ModulePath> {
    let mut base = match path.first()?.as_str() {
        "crate" => Vec::new(),
        "self" => at.to_vec(),
        "super" => at[..at.len().checked_sub(1)?].to_vec(),
        first if children.iter().any(|child| child == first) => at.iter().cloned().chain([first.to_owned()]).collect(),
        _ => return None,
    };
    for part in &path[1..] {
        match part.as_str() {
            "super" => drop(base.pop()?),
            "self" => {}
            part => base.push(part.to_owned()),
        }
    }
    Some(base)
}

/// The paths of a `use` tree with the name that each brings in.
fn expand(tree: &str) -> Vec<(ModulePath, String)> {
    let tree = tree.trim();
    if let Some((before, rest)) = tree.split_once('{') {
        let inside = rest.strip_suffix('}').unwrap_or(rest);
        let prefix: Vec<String> = before.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let within = |(path, name): (ModulePath, String)| (prefix.iter().cloned().chain(path).collect(), name);
        return parts(inside).into_iter().flat_map(expand).map(within).collect();
    }
    let (path, name) = tree.split_once(" as ").map_or((tree, None), |(path, name)| (path, Some(name)));
    let path: ModulePath = path.trim().split("::").map(str::to_owned).collect();
    let name = name.or(path.last().map(String::as_str)).unwrap_or_default().to_owned();
    vec![(path, name)]
}

/// The members of a list, split at the commas that are not inside of braces.
fn parts(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0_usize, 0, Vec::new());
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                found.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&list[start..]);
    found.into_iter().filter(|part| !part.trim().is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
//! Not crate::comment::this.
mod inner;
#[cfg(test)]
mod world;

use std::fmt;
pub(crate) use inner::Thing;
use crate::{a::{B, c::D as E}, f};
use super::super::g;

fn h() -> crate::i::J { super::k::l() } // nor crate::comment::that

#[cfg(test)]
mod tests {
    use crate::never::Seen;
}
";

    #[test]
    fn paths_are_found_in_uses_and_in_code_and_not_in_tests() {
        let at = ["x".to_owned(), "y".to_owned()];
        let uses = read(TEXT, &at, &["inner".to_owned()]);
        let paths: Vec<String> = uses.paths.iter().map(|path| path.join("::")).collect();
        assert_eq!(paths, ["x::y::inner::Thing", "a::B", "a::c::D", "f", "g", "i::J", "x::k::l"]);
        assert_eq!(uses.names["E"], ["a", "c", "D"]);
        assert_eq!(uses.tests, ["world"]);
    }
}
