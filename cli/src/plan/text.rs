//! Prints plans for people.

use std::collections::BTreeMap;
use std::io::Write as _;

use anyhow::{Context as _, Result};
use clap::builder::styling::{AnsiColor, Style};
use serde_json::Value;

use super::Plan;
use super::diff::{Change, Found};
use super::manifest::Manifests;
use super::planner::Request;
use super::problem::{Problem, Severity};
use crate::output::Out;

const NAME: Style = Style::new().bold();
const METHOD: Style = AnsiColor::Green.on_default();
const QUIET: Style = Style::new().dimmed();
const NEW: Style = AnsiColor::Green.on_default();
const CHANGED: Style = AnsiColor::Yellow.on_default();
const FAILED: Style = AnsiColor::Red.on_default().bold();

fn painted(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Prints problems on the standard error.
pub(super) fn problems(problems: &[Problem]) -> Result<()> {
    let mut out = anstream::stderr().lock();
    for problem in problems {
        let (style, word) = match problem.severity {
            Severity::Note => (QUIET, "note"),
            Severity::Warning => (CHANGED, "warning"),
            Severity::Error => (FAILED, "error"),
        };
        writeln!(out, "{}: {problem}", painted(style, word)).context("failed to print")?;
    }
    Ok(())
}

/// Prints requests as a tree of owners, numbered in their order.
pub(super) fn requests(out: Out<'_>, manifests: &Manifests, plan: &Plan, endpoint: &str, secrets: bool) -> Result<()> {
    let count = plan.requests.len();
    let requests = if count == 1 { "request" } else { "requests" };
    writeln!(out, "{count} {requests}").context("failed to print")?;
    let numbers: BTreeMap<usize, usize> = plan.requests.iter().enumerate().map(|(i, r)| (r.resource, i)).collect();
    let mut children: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
    for (i, request) in plan.requests.iter().enumerate() {
        let above = request.owner.and_then(|owner| numbers.get(&owner).copied());
        children.entry(above).or_default().push(i);
    }
    let tree = Tree { manifests, plan, numbers: &numbers, children: &children, endpoint, secrets };
    for &root in children.get(&None).into_iter().flatten() {
        writeln!(out).context("failed to print")?;
        tree.print(out, root, "", "")?;
    }
    Ok(())
}

struct Tree<'a> {
    manifests: &'a Manifests,
    plan: &'a Plan,
    numbers: &'a BTreeMap<usize, usize>,
    children: &'a BTreeMap<Option<usize>, Vec<usize>>,
    endpoint: &'a str,
    secrets: bool,
}

impl Tree<'_> {
    /// `lead` stands before the first line and `rest` before the others.
    fn print(&self, out: Out<'_>, index: usize, lead: &str, rest: &str) -> Result<()> {
        let request = &self.plan.requests[index];
        let children = self.children.get(&Some(index)).map_or(&[][..], Vec::as_slice);
        let body_rest = if children.is_empty() { format!("{rest}   ") } else { format!("{rest}│  ") };
        writeln!(out, "{lead}{}. {}", index + 1, painted(NAME, &request.object))?;
        let url = format!("{}{}", self.endpoint.trim_end_matches('/'), request.url());
        writeln!(out, "{body_rest}{} {url}", painted(METHOD, request.method))?;
        for edge in &request.after {
            let name = self.manifests.resources[edge.to].label();
            let number = self.numbers.get(&edge.to).map_or(String::new(), |n| format!("{}. ", n + 1));
            writeln!(out, "{body_rest}{}", painted(QUIET, &format!("after {number}{name} ({})", edge.field)))?;
        }
        if request.method == "GET" {
            writeln!(out, "{body_rest}{}", painted(QUIET, "reconcile-policy skip: only read"))?;
        }
        self::body(out, request, &format!("{body_rest}  "), self.secrets)?;
        for (i, &child) in children.iter().enumerate() {
            let last = i + 1 == children.len();
            let (lead, below) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            writeln!(out, "{rest}│")?;
            self.print(out, child, &format!("{rest}{lead}"), &format!("{rest}{below}"))?;
        }
        Ok(())
    }
}

fn body(out: Out<'_>, request: &Request, indent: &str, secrets: bool) -> Result<()> {
    let body = if secrets { &request.body } else { &request.shown };
    if body.is_null() {
        return Ok(());
    }
    let text = serde_saphyr::to_string(body).context("failed to print a body")?;
    for line in text.lines() {
        writeln!(out, "{indent}{line}").context("failed to print")?;
    }
    Ok(())
}

/// Prints what would change in Azure.
pub(super) fn changes(out: Out<'_>, plan: &Plan, secrets: bool) -> Result<()> {
    let (mut new, mut changed) = (0, 0);
    for (request, change) in plan.requests.iter().zip(&plan.changes) {
        match change {
            Change::Create => {
                new += 1;
                writeln!(out, "{} {}", painted(NEW, "+"), painted(NAME, &request.object))?;
                writeln!(out, "    {}", request.url())?;
                body(out, request, "    ", secrets)?;
            }
            Change::Update(found) => {
                changed += 1;
                writeln!(out, "{} {}", painted(CHANGED, "~"), painted(NAME, &request.object))?;
                writeln!(out, "    {}", request.url())?;
                for found in found {
                    writeln!(out, "    {}", difference(found))?;
                }
            }
            Change::None => {}
        }
        writeln!(out)?;
    }
    writeln!(out, "{new} to create, {changed} to update").context("failed to print")
}

fn difference(found: &Found) -> String {
    let say = |value: &Value| match value {
        Value::Null => painted(QUIET, "nothing"),
        value => value.to_string(),
    };
    let live = painted(CHANGED, &say(&found.live));
    format!("{}: {live} → {}", found.path, painted(NEW, &say(&found.stated)))
}
