//! Reads the texts of manifests: files, folders, the standard input.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::problem::{Place, Problem};

/// Larger files are refused: all manifests of a large cluster are smaller.
pub(crate) const MAX_BYTES: u64 = 64 << 20;
/// No name of a variable is longer.
const MAX_NAME: usize = 256;
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// A text and where it is from.
#[derive(Clone, Debug)]
pub struct Source {
    /// The file's name as given.
    pub file: Arc<str>,
    /// What it holds.
    pub text: String,
}

/// Reads `-`, files, and the manifests in folders, each folder's in the order of their names.
pub(crate) fn read(paths: &[PathBuf], recursive: bool) -> (Vec<Source>, Vec<Problem>) {
    let (mut sources, mut problems) = (Vec::new(), Vec::new());
    for path in paths {
        let mut files = Vec::new();
        if path.as_os_str() == "-" {
            files.push(path.clone());
        } else if path.is_dir() {
            let before = problems.len();
            list(path, recursive, &mut files, &mut problems);
            if files.is_empty() && problems.len() == before {
                problems.push(failure(path, "the folder contains no .yaml, .yml or .json file"));
            }
        } else {
            files.push(path.clone());
        }
        for file in files {
            match one(&file) {
                Ok(source) => sources.push(source),
                Err(problem) => problems.push(problem),
            }
        }
    }
    (sources, problems)
}

/// Puts values in the place of `${NAME}`. Names without a value stay as they are. None if that makes the text too large.
pub fn substitute(text: &str, variables: &BTreeMap<String, String>) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, tail) = rest.split_at(at);
        out.push_str(before);
        let value = name(tail).and_then(|name| Some((variables.get(name)?, &tail[name.len() + 3..])));
        let (put, after) = value.map_or(("${", &tail[2..]), |(value, after)| (value.as_str(), after));
        out.push_str(put);
        if out.len() as u64 > MAX_BYTES {
            return None;
        }
        rest = after;
    }
    out.push_str(rest);
    (out.len() as u64 <= MAX_BYTES).then_some(out)
}

/// What is in the braces of a text that begins with `${`. It ends where the line does: a search to the end of the text for each `${` would not end.
fn name(text: &str) -> Option<&str> {
    let inner = &text.as_bytes()[2..];
    let end = inner.iter().take(MAX_NAME).position(|b| matches!(b, b'}' | b'\n'))?;
    if inner[end] == b'}' { text.get(2..2 + end) } else { None }
}

/// The first `${NAME}`, or expression of a Helm template, that is left, and its line.
pub fn left_over(text: &str) -> Option<(LeftOver<'_>, u64)> {
    text.lines().zip(1..).find_map(|(line, number)| {
        let code = line.split(" #").next().filter(|code| !code.trim_start().starts_with('#'))?;
        let variable = || {
            let name = name(&code[code.find("${")?..])?;
            let fits = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            fits.then_some(LeftOver::Variable(name))
        };
        let template = || {
            let (inner, _) = code.split_once("{{")?.1.split_once("}}")?;
            let inner = inner.trim_start_matches('-').trim_start();
            // Azure has expressions in double braces of its own.
            let fits = [".Values", ".Release", ".Chart", "include "].iter().any(|start| inner.starts_with(start));
            fits.then_some(LeftOver::Template(inner.trim_end_matches('-').trim_end()))
        };
        Some((variable().or_else(template)?, number))
    })
}

/// Something that should have been replaced before a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOver<'a> {
    /// The name in `${NAME}`.
    Variable(&'a str),
    /// What is in `{{ … }}`.
    Template(&'a str),
}

fn list(folder: &Path, recursive: bool, files: &mut Vec<PathBuf>, problems: &mut Vec<Problem>) {
    let entries: std::io::Result<Vec<PathBuf>> =
        std::fs::read_dir(folder).and_then(|entries| entries.map(|entry| entry.map(|e| e.path())).collect());
    let mut entries = match entries {
        Ok(entries) => entries,
        Err(error) => return problems.push(failure(folder, format!("failed to read the folder: {error}"))),
    };
    entries.sort();
    for path in entries {
        let is_manifest = path.extension().and_then(|e| e.to_str()).is_some_and(|e| EXTENSIONS.contains(&e));
        // A link to a folder is not followed: it may lead back up.
        if path.is_dir() {
            if recursive && !path.is_symlink() {
                list(&path, recursive, files, problems);
            }
        } else if is_manifest && path.metadata().is_ok_and(|data| !data.is_file()) {
            // A pipe in a folder is nobody's manifest, and reading it may wait for ever.
            problems.push(failure(&path, "neither a file nor a folder"));
        } else if is_manifest {
            files.push(path);
        }
    }
}

fn one(path: &Path) -> Result<Source, Problem> {
    let unreadable = |error: std::io::Error| failure(path, format!("failed to read: {error}"));
    let mut bytes = Vec::new();
    if path.as_os_str() == "-" {
        std::io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    } else {
        let file = std::fs::File::open(path).map_err(unreadable)?;
        // Asked before reading, and again after it: a pipe has no length.
        if file.metadata().map_err(unreadable)?.len() <= MAX_BYTES {
            file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        } else {
            return Err(too_large(path));
        }
    }
    if bytes.len() as u64 > MAX_BYTES {
        return Err(too_large(path));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
        let mut problem = failure(path, "this is not UTF-8 text");
        problem.place.line = good.split('\n').count() as u64;
        problem.place.column = good.rsplit('\n').next().unwrap_or_default().chars().count() as u64 + 1;
        let wide = matches!(error.as_bytes(), [0xff, 0xfe, ..] | [0xfe, 0xff, ..]);
        problem.help(if wide { "it is UTF-16: save it as UTF-8" } else { "save it as UTF-8" })
    })?;
    Ok(Source { file: path.to_string_lossy().into(), text })
}

/// That a text is too large.
pub(super) fn too_large(path: &Path) -> Problem {
    failure(path, format!("larger than {} MiB", MAX_BYTES >> 20)).help("split it into several files")
}

fn failure(path: &Path, message: impl Into<Box<str>>) -> Problem {
    Problem::error(Place { file: path.to_string_lossy().into(), line: 0, column: 0 }, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_names_are_replaced() {
        let variables = BTreeMap::from([("A".to_owned(), "1".to_owned()), ("B_2".to_owned(), "${A}".to_owned())]);
        let replaced = substitute("${A}-${B_2}-${C} ${ ${A", &variables);
        assert_eq!(replaced.as_deref(), Some("1-${A}-${C} ${ ${A"));
        assert_eq!(left_over("x: 1 # ${A}\n# ${B}\ny: ${C}"), Some((LeftOver::Variable("C"), 3)));
        assert_eq!(left_over("\na: \"{{- .Values.x -}}\""), Some((LeftOver::Template(".Values.x"), 2)));
        for other in ["${schema.spec.name}", "{{ $labels.instance }}", "${A\n}", "${", "${ä}"] {
            assert_eq!(left_over(other), None, "{other}");
        }
    }

    #[test]
    fn replacing_takes_time_and_room_by_the_size_of_the_text() {
        let variables = BTreeMap::from([("A".to_owned(), "y".repeat(1 << 20))]);
        assert_eq!(substitute(&"${A}".repeat(65), &variables), None);
        let open = "${ #\n".repeat(1 << 20);
        assert_eq!(substitute(&open, &variables).as_ref(), Some(&open));
        assert_eq!(left_over(&open), None);
    }

    #[test]
    fn files_that_are_not_text_are_refused_with_their_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.yaml");
        std::fs::write(&path, b"a: 1\nb: \xff\n").unwrap();
        let (sources, problems) = read(&[path], false);
        assert!(sources.is_empty());
        assert!(
            problems[0].to_string().ends_with("a.yaml:2:4: this is not UTF-8 text; save it as UTF-8"),
            "{}",
            problems[0]
        );
    }

    #[test]
    fn large_files_are_refused_unread() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.yaml");
        std::fs::File::create(&path).unwrap().set_len(100 << 20).unwrap();
        let (_, problems) = read(&[path], false);
        assert!(problems[0].to_string().contains("larger than 64 MiB"), "{}", problems[0]);
    }
}
