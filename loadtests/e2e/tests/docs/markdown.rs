//! A document's commands: fenced blocks for a shell, indented blocks that begin with a command, commands in backticks.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use regex::Regex;

use crate::command;

const INDENT: &str = "    ";
const FENCE: &str = "```";
const PROMPT: &str = "$ ";

/// What a reader may type.
#[derive(Debug, PartialEq)]
pub(crate) struct Snippet {
    /// `file:line`.
    pub(crate) place: String,
    pub(crate) script: String,
    /// The lines below a command behind a prompt: what it prints.
    pub(crate) shown: Vec<String>,
}

/// The root of the tree.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The commands of all documents for people.
pub(crate) fn commands() -> Result<Vec<Snippet>> {
    let mut paths: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(PathBuf::from).into();
    walk(Path::new("docs"), &mut paths)?;
    let mut found = Vec::new();
    for path in paths {
        let text = fs::read_to_string(root().join(&path)).with_context(|| path.display().to_string())?;
        found.extend(snippets(&path.display().to_string(), &text));
    }
    Ok(found)
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(root().join(folder)).with_context(|| format!("failed to read {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.map(|entry| Ok(folder.join(entry?.file_name()))).collect::<Result<_>>()?;
    paths.sort();
    for path in paths {
        if root().join(&path).is_dir() {
            walk(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    Ok(())
}

/// The commands of a text, in its order.
fn snippets(file: &str, text: &str) -> Vec<Snippet> {
    let mut found = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    let mut at = 0;
    while at < lines.len() {
        let place = format!("{file}:{}", at + 1);
        let indented = lines[at].starts_with(INDENT) && (at == 0 || lines[at - 1].trim().is_empty());
        if let Some(language) = lines[at].trim_start().strip_prefix(FENCE) {
            let length = lines[at + 1..].iter().take_while(|line| !is_fence(line)).count();
            let block = &lines[at + 1..at + 1 + length];
            let for_shell = ["sh", "bash", "console"].contains(&language);
            if for_shell || language.is_empty() {
                found.extend(block_of(&place, block, for_shell));
            }
            at += length + 2;
        } else if indented {
            let length = lines[at..].iter().take_while(|line| line.starts_with(INDENT)).count();
            found.extend(block_of(&place, &lines[at..at + length], false));
            at += length;
        } else {
            // A row of a table is a paragraph of its own, and so is an empty line.
            let goes_on = |line: &&&str| !line.trim().is_empty() && !line.starts_with('|') && !is_fence(line);
            let alone = lines[at].starts_with('|') || lines[at].trim().is_empty();
            let length = 1 + if alone { 0 } else { lines[at + 1..].iter().take_while(goes_on).count() };
            for script in in_backticks(&lines[at..at + length].join(" ")) {
                found.push(Snippet { place: place.clone(), script, shown: Vec::new() });
            }
            at += length;
        }
    }
    found
}

fn is_fence(line: &str) -> bool {
    line.trim_start().starts_with(FENCE)
}

fn block_of(place: &str, lines: &[&str], for_shell: bool) -> Vec<Snippet> {
    let indent = lines.iter().map(|line| line.len() - line.trim_start().len()).min().unwrap_or_default();
    let lines: Vec<&str> = lines.iter().map(|line| line.get(indent..).unwrap_or_default()).collect();
    let snippet = |script: String| Snippet { place: place.to_owned(), script, shown: Vec::new() };
    if lines.iter().any(|line| line.starts_with(PROMPT)) {
        let mut found: Vec<Snippet> = Vec::new();
        for line in lines {
            match (line.strip_prefix(PROMPT), found.last_mut()) {
                (Some(script), _) => found.push(snippet(script.to_owned())),
                (None, Some(last)) => last.shown.push(line.to_owned()),
                (None, None) => {}
            }
        }
        return found;
    }
    let script = for_shell || lines.first().is_some_and(|line| command::begins_script(line));
    script.then(|| snippet(lines.join("\n"))).into_iter().collect()
}

fn in_backticks(paragraph: &str) -> Vec<String> {
    let code = paragraph.split('`').skip(1).step_by(2);
    code.map(|code| code.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|code| command::is_command(code))
        .collect()
}

/// Whether a line of the output is this one, whatever the spaces and whatever stands where the document has "…".
pub(crate) fn shows(output: &str, line: &str) -> bool {
    let squeeze = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let pattern = regex::escape(&squeeze(line)).replace('…', ".*");
    Regex::new(&format!("^{pattern}$")).is_ok_and(|pattern| output.lines().any(|line| pattern.is_match(&squeeze(line))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Title

Run `make
demo`, not `flotilla`.

```sh
kubectl get nodes  # none
helm ls
```

```
figure of `make nothing`
```

    $ flotilla crds list
    GROUP   KIND
    $ make

1. Then

       make catalog TYPES=x

   and `az login`.

| `make a` | `b` |
| `c` | `make d` |

    Just words of a log
";

    #[test]
    fn commands_are_found_in_blocks_and_in_backticks() {
        let found = snippets("a.md", TEXT);
        let scripts: Vec<(&str, &str)> = found.iter().map(|snippet| (&*snippet.place, &*snippet.script)).collect();
        assert_eq!(
            scripts,
            [
                ("a.md:3", "make demo"),
                ("a.md:6", "kubectl get nodes  # none\nhelm ls"),
                ("a.md:15", "flotilla crds list"),
                ("a.md:15", "make"),
                ("a.md:21", "make catalog TYPES=x"),
                ("a.md:23", "az login"),
                ("a.md:25", "make a"),
                ("a.md:26", "make d"),
            ]
        );
        assert_eq!(found[2].shown, ["GROUP   KIND"]);
    }

    #[test]
    fn shown_line_is_compared_loosely() {
        assert!(shows("a\nid  /subscriptions/5/x", " id /subscriptions/…/x"));
        assert!(!shows("id /subscriptions/5/y", "id /subscriptions/…/x"));
    }
}
