//! `flotilla crds`: which kinds there are, their CRDs, manifests to start from, how a cluster's differ, and what the catalog costs.
//!
//! Kept true here: only `diff` talks to a cluster, and it only reads.

mod compare;
mod diff;
mod example;
mod list;
mod select;
mod stats;

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Subcommand, ValueEnum};
use flotilla_crds::Catalog;
use serde_json::{Value, json};

use self::select::Selected;
use crate::output::{self, Out};

/// The flags of `flotilla crds`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List kinds with their versions and ARM types.
    List {
        #[command(flatten)]
        which: Which,

        /// List the types outside of ASO's set instead of that set.
        #[arg(long, conflicts_with = "patterns")]
        further: bool,

        /// Also list the api-versions that are served only when a pattern names them.
        #[arg(long)]
        all_versions: bool,

        /// How to print.
        #[arg(short, long, value_enum, default_value_t = ListFormat::Table)]
        output: ListFormat,
    },
    /// Print CRDs.
    Print {
        #[command(flatten)]
        which: Which,

        /// How to print.
        #[arg(short, long, value_enum, default_value_t = PrintFormat::Yaml)]
        output: PrintFormat,
    },
    /// Print manifests to start from.
    #[command(disable_version_flag = true)]
    Example {
        /// Kinds as for the other commands: Job, app.azure.com/*.
        #[arg(value_name = "KIND|PATTERN", required = true)]
        patterns: Vec<String>,

        /// The version, as v1api20230101 or 2023-01-01; by default the newest that is not a preview.
        #[arg(long)]
        version: Option<String>,

        /// Every field, not only the required ones; where fields exclude each other, the first.
        #[arg(long)]
        full: bool,

        /// How to print.
        #[arg(short, long, value_enum, default_value_t = PrintFormat::Yaml)]
        output: PrintFormat,
    },
    /// Compare with the CRDs of the cluster in KUBECONFIG.
    Diff {
        #[command(flatten)]
        which: Which,

        /// Exit with code 2 if something differs.
        #[arg(long)]
        exit_code: bool,
    },
    /// Say how many kinds and versions there are and what they cost.
    Stats {
        #[command(flatten)]
        which: Which,

        /// How to print.
        #[arg(short, long, value_enum, default_value_t = StatsFormat::Table)]
        output: StatsFormat,
    },
}

/// Which kinds; all by default.
#[derive(Debug, clap::Args)]
struct Which {
    /// Kinds as group/Kind with * and ?, a group or a kind alone, or ARM types: app.azure.com/*, Job, Microsoft.Automation/automationAccounts@2023-11-01.
    #[arg(value_name = "PATTERN")]
    patterns: Vec<String>,
}

/// How a list is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// For people.
    Table,
    /// The names of the CRDs.
    Name,
    /// For tools.
    Json,
    /// For tools.
    Yaml,
    /// The page of the reference.
    Markdown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PrintFormat {
    Yaml,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StatsFormat {
    Table,
    Json,
}

/// Runs the tool.
pub async fn run(args: Args) -> Result<ExitCode> {
    let catalog = Catalog::embedded();
    match args.command {
        Command::List { which, further, all_versions, output } => {
            let listed = list::Listed::of(catalog, &which.patterns, further, all_versions)?;
            output::to_stdout(|out| list::print(out, &listed, output))?;
        }
        Command::Print { which, output } => {
            let kinds = select::selected(catalog, &which.patterns)?;
            output::to_stdout(|out| print(out, catalog, &kinds, output))?;
        }
        Command::Example { patterns, version, full, output } => {
            let kinds = select::selected(catalog, &patterns)?;
            let examples = example::examples(catalog, &kinds, &example::Wanted { version, full })?;
            output::to_stdout(|out| example::print(out, &examples, output))?;
        }
        Command::Diff { which, exit_code } => {
            let kinds = select::selected(catalog, &which.patterns)?;
            let found = diff::read(catalog, &kinds).await?;
            output::to_stdout(|out| diff::print(out, &found))?;
            if exit_code && found.iter().any(diff::Found::differs) {
                return Ok(ExitCode::from(2));
            }
        }
        Command::Stats { which, output } => {
            let kinds = select::kinds(catalog, &which.patterns)?;
            let stats = stats::Stats::measure(catalog, &kinds)?;
            output::to_stdout(|out| match output {
                StatsFormat::Table => stats.print(out),
                StatsFormat::Json => output::json(out, &stats.to_value()),
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A page of the reference: `docs/reference/kinds.md`, or `further_types.md`.
pub fn reference(further: bool) -> Result<String> {
    let mut page = Vec::new();
    let listed = list::Listed::of(Catalog::embedded(), &[], further, false)?;
    list::print(&mut page, &listed, ListFormat::Markdown)?;
    String::from_utf8(page).context("the page is not UTF-8")
}

fn crd(catalog: &Catalog, Selected { entry, asked }: &Selected<'_>) -> Result<Value> {
    let kind = catalog.try_load(&entry.group, &entry.kind).context("the catalog lost a kind")?;
    let kind = kind.with_context(|| format!("failed to load {}", entry.crd_name()))?;
    let versions: Vec<&str> = kind.versions_asked(asked)?.into_iter().collect();
    Ok(kind.crd_with(&versions))
}

fn print(out: Out<'_>, catalog: &Catalog, kinds: &[Selected<'_>], format: PrintFormat) -> Result<()> {
    match format {
        PrintFormat::Json => {
            let items: Vec<Value> = kinds.iter().map(|kind| crd(catalog, kind)).collect::<Result<_>>()?;
            output::json(out, &json!({"apiVersion": "v1", "kind": "List", "items": items}))
        }
        PrintFormat::Yaml => {
            for kind in kinds {
                writeln!(out, "---").context("failed to print")?;
                output::yaml(out, &crd(catalog, kind)?)?;
            }
            Ok(())
        }
    }
}
