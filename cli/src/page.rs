//! `docs/settings.md`: a text of ours with a table of flags for each role, made from what clap knows.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, Command, CommandFactory as _};

use crate::args::Cli;

const TEXT: &str = include_str!("page.txt");

fn page() -> String {
    let cli = Cli::command();
    let role = |name: &str| cli.find_subcommand(name).into_iter().flat_map(Command::get_arguments).collect::<Vec<_>>();
    let (coordinator, worker) = (role("coordinator"), role("worker"));
    let ids = |args: &[&Arg]| args.iter().map(|arg| arg.get_id().clone()).collect::<BTreeSet<_>>();
    let (of_coordinator, of_worker) = (ids(&coordinator), ids(&worker));
    TEXT.replace("{{both}}", &tables(worker.iter().filter(|arg| of_coordinator.contains(arg.get_id()))))
        .replace("{{coordinator}}", &tables(coordinator.iter().filter(|arg| !of_worker.contains(arg.get_id()))))
        .replace("{{worker}}", &tables(worker.iter().filter(|arg| !of_coordinator.contains(arg.get_id()))))
}

/// One table per heading, in the order of the flags.
fn tables<'a>(args: impl Iterator<Item = &'a &'a Arg>) -> String {
    let (mut text, mut heading) = (String::new(), None);
    for arg in args.filter(|arg| !arg.is_hide_set() && arg.get_env().is_some()) {
        if heading != arg.get_help_heading() {
            heading = arg.get_help_heading();
            let gap = if text.is_empty() { "" } else { "\n" };
            let title = heading.unwrap_or("Options");
            let _ = write!(text, "{gap}### {title}\n\n| flag | variable | default | meaning |\n|---|---|---|---|\n");
        }
        text += &row(arg);
    }
    text.trim_end().to_owned()
}

fn row(arg: &Arg) -> String {
    let variable = arg.get_env().map(|name| name.to_string_lossy()).unwrap_or_default();
    let defaults: Vec<String> = arg.get_default_values().iter().map(|v| format!("`{}`", v.to_string_lossy())).collect();
    let default = if arg.is_hide_default_value_set() { String::new() } else { defaults.join(", ") };
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let values: Vec<String> = arg
        .get_possible_values()
        .iter()
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}`: {help}", value.get_name()),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    let values = if values.is_empty() { String::new() } else { format!(" One of: {}.", values.join("; ")) };
    let meaning = format!("{}{values}", sentence(&help)).replace('\n', " ").replace('|', "\\|");
    format!("| `--{}` | `{variable}` | {default} | {meaning} |\n", arg.get_long().unwrap_or_default())
}

/// clap takes the full stop off the end of a help text.
fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.ends_with(['.', ']', '`']) { text.to_owned() } else { format!("{text}.") }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test's own switch")]
fn page_of_settings_is_what_the_flags_say() {
    let path = root().join("docs/settings.md");
    if std::env::var_os("FLOTILLA_GENERATE").is_some() {
        fs::write(&path, page()).unwrap();
    }
    let committed = fs::read_to_string(path).unwrap();
    assert!(committed == page(), "docs/settings.md is old: run `make generate`");
}

/// A chart that sets a variable which nobody reads would be believed.
#[test]
fn chart_sets_no_variable_that_is_not_a_flags() {
    const OTHERS: [&str; 2] = ["POD_IP", "NO_COLOR"];
    let cli = Cli::command();
    let flags = cli.get_subcommands().flat_map(Command::get_arguments);
    let known: BTreeSet<String> = flags.filter_map(|arg| Some(arg.get_env()?.to_string_lossy().into_owned())).collect();
    let templates = root().join("deploy/helm/flotilla/templates");
    let mut found = 0;
    for file in ["_helpers.tpl", "worker/settings.yaml", "worker/deployment.yaml", "coordinator/deployment.yaml"] {
        let text = fs::read_to_string(templates.join(file)).unwrap();
        for line in text.lines() {
            let line = line.trim();
            let name = line.strip_prefix("- {name: ").and_then(|rest| rest.split(',').next());
            let name = name.or_else(|| line.split_once(": ").map(|(key, _)| key)).unwrap_or_default();
            let is_variable = name.contains('_') && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
            if is_variable && !OTHERS.contains(&name) {
                found += 1;
                assert!(known.contains(name), "{file} sets {name}");
            }
        }
    }
    assert!(found > 25, "only {found} variables were found in the chart");
}
