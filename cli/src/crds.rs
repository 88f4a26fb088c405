//! `flotilla crds`: which kinds there are, their CRDs, how a cluster's differ, and what the catalog costs.
//!
//! Kept true here: only `diff` talks to anybody, and it only reads.

mod compare;
mod diff;
mod list;
mod select;
mod stats;

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Subcommand, ValueEnum};
use flotilla_crds::{Catalog, KindEntry};
use serde_json::{Value, json};

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
    /// Compare with the CRDs of the cluster in KUBECONFIG.
    Diff {
        #[command(flatten)]
        which: Which,

        /// End with 2 if something differs.
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
    /// Kinds as group/Kind with * and ?, or a group or a kind alone: app.azure.com/*, app.azure.com, Job.
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
        Command::List { which, output } => {
            let kinds = select::kinds(catalog, &which.patterns)?;
            output::to_stdout(|out| list::print(out, &kinds, output))?;
        }
        Command::Print { which, output } => {
            let kinds = select::kinds(catalog, &which.patterns)?;
            output::to_stdout(|out| print(out, catalog, &kinds, output))?;
        }
        Command::Diff { which, exit_code } => {
            let kinds = select::kinds(catalog, &which.patterns)?;
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

/// The page `docs/reference/kinds.md`.
pub fn reference() -> Result<String> {
    let kinds: Vec<&KindEntry> = Catalog::embedded().kinds().collect();
    let mut page = Vec::new();
    list::print(&mut page, &kinds, ListFormat::Markdown)?;
    String::from_utf8(page).context("the page is no text")
}

fn crd(catalog: &Catalog, entry: &KindEntry) -> Result<Value> {
    let kind = catalog.try_load(&entry.group, &entry.kind).context("the catalog lost a kind")?;
    Ok(kind.with_context(|| format!("failed to load {}", entry.crd_name()))?.crd())
}

fn print(out: Out<'_>, catalog: &Catalog, kinds: &[&KindEntry], format: PrintFormat) -> Result<()> {
    match format {
        PrintFormat::Json => {
            let items: Vec<Value> = kinds.iter().map(|entry| crd(catalog, entry)).collect::<Result<_>>()?;
            output::json(out, &json!({"apiVersion": "v1", "kind": "List", "items": items}))
        }
        PrintFormat::Yaml => {
            for entry in kinds {
                writeln!(out, "---").context("failed to print")?;
                output::yaml(out, &crd(catalog, entry)?)?;
            }
            Ok(())
        }
    }
}
