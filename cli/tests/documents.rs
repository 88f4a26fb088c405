//! The documents agree with the tree: links resolve, every metric is described, plans and decisions state their status.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use regex::Regex;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the workspace has a root")
}

/// All files with an extension below a folder; hidden folders and what was built are left out.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).expect("the folder can be read");
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.expect("the folder can be read").path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') || ["target", "node_modules"].contains(&&*name) {
            continue;
        }
        if path.is_dir() && !path.is_symlink() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is valid")
}

/// A document without its code blocks.
fn prose(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("a document is UTF-8");
    regex(r"(?ms)^```.*?^```$").replace_all(&text, "").into_owned()
}

/// The anchors of a document's headings, as GitHub makes them.
fn anchors(path: &Path) -> BTreeSet<String> {
    let heading = regex(r"(?m)^#+ (.+)$");
    let anchor = |text: &str| {
        let kept = |c: &char| c.is_alphanumeric() || ['-', '_', ' '].contains(c);
        text.to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    heading.captures_iter(&prose(path)).map(|found| anchor(&found[1])).collect()
}

/// Resolves `..` in the text of a path, so that a link can't leave the tree and come back.
fn normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut normal, part| {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            part => normal.push(part),
        }
        normal
    })
}

#[test]
fn every_relative_link_resolves() {
    let (root, link, code) = (root(), regex(r"\]\(([^)\s]+)\)"), regex(r"`[^`\n]*`"));
    // Below `src` there are parts that a program puts into documents elsewhere.
    let is_document = |path: &PathBuf| path.strip_prefix(&root).is_ok_and(|path| path.iter().all(|part| part != "src"));
    let documents: Vec<PathBuf> = files(&root, "md").into_iter().filter(is_document).collect();
    assert!(documents.len() > 20, "found only {} documents", documents.len());
    let (mut links, mut broken) = (0, Vec::new());
    for document in &documents {
        let text = prose(document);
        let text = code.replace_all(&text, "");
        for found in link.captures_iter(&text) {
            let target = &found[1];
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            links += 1;
            let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
            let folder = document.parent().unwrap_or(&root);
            let path = if path.is_empty() { document.clone() } else { normal(&folder.join(path)) };
            let good =
                path.starts_with(&root) && path.exists() && anchor.is_none_or(|anchor| anchors(&path).contains(anchor));
            if !good {
                broken.push(format!("{}: {target}", document.strip_prefix(&root).unwrap_or(document).display()));
            }
        }
    }
    assert!(links > 50, "found only {links} links");
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn every_metric_is_described_and_every_described_metric_exists() {
    let (root, name) = (root(), regex(r#""(flotilla\.[a-z_.]+)""#));
    let sources =
        ["proto/src", "worker/src", "coordinator/src", "cli/src"].map(|folder| files(&root.join(folder), "rs"));
    // Our annotations have the same prefix.
    let is_metric = |name: &String| name != "flotilla.dev";
    let names =
        |text: &str| name.captures_iter(text).map(|found| found[1].to_owned()).filter(is_metric).collect::<Vec<_>>();
    let registered: BTreeSet<String> =
        sources.iter().flatten().flat_map(|path| names(&fs::read_to_string(path).unwrap())).collect();
    let row = regex(r"(?m)^\| `(flotilla\.[a-z_.]+)` \|");
    let text = fs::read_to_string(root.join("docs/metrics.md")).unwrap();
    let described: BTreeSet<String> = row.captures_iter(&text).map(|found| found[1].to_owned()).collect();
    assert!(described.len() > 30, "docs/metrics.md has a table of {} metrics", described.len());
    assert_eq!(described, registered, "docs/metrics.md on the left, the code on the right");
}

#[test]
fn every_section_of_the_design_says_what_is_built() {
    let text = fs::read_to_string(root().join("docs/design.md")).unwrap();
    let sections: Vec<&str> = text.split("\n## ").skip(1).collect();
    assert!(sections.len() > 10, "the design has {} sections", sections.len());
    for section in sections {
        let (heading, body) = section.split_once('\n').unwrap_or((section, ""));
        assert!(body.trim_start().starts_with("*Status: "), "section {heading} has no status");
    }
}

#[test]
fn every_decision_has_a_status_and_a_date_and_is_listed() {
    let folder = root().join("docs/decisions");
    let status = regex(r"^# (\d{3}) .+\n\nStatus: (accepted|superseded by \d{3}) · (\d{4}-\d{2}-\d{2})\n");
    let list = fs::read_to_string(folder.join("README.md")).unwrap();
    for path in files(&folder, "md").into_iter().filter(|path| !path.ends_with("README.md")) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        let found = status.captures(&text).unwrap_or_else(|| panic!("{name} has no status with a date"));
        assert!(name.starts_with(&format!("{}_", &found[1])), "{name} has the number {}", &found[1]);
        let line = list.lines().find(|line| line.contains(&format!("]({name})")));
        let line = line.unwrap_or_else(|| panic!("README.md does not list {name}"));
        assert!(
            line.contains(&format!("| {} | {} |", &found[2], &found[3])),
            "README.md says otherwise of {name}: {line}"
        );
    }
}
