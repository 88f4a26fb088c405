//! `make bench`: what decisions, the catalog, plans, objects and members cost, and how much armsim bears.
//!
//! What depends on nothing but the code is counted in instructions. What depends on the machine is taken several times
//! and shown with its spread; figures are compared only within one run.

mod catalog;
mod crds;
mod decide;
mod fleet;
mod machine;
mod measured;
mod objects;
mod plan;
mod report;
mod situation;
mod tally;
mod usage;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use self::machine::Machine;
use self::objects::Kind;
use self::report::{Figure, Report};
pub use self::situation::Situation;
use flotilla_armsim::load::{self, Load};

/// Where the figures go as JSON, and the members' logs.
const DIRECTORY: &str = "target/bench";

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Instructions per decision.
    Decide,
    /// Bytes of the catalog, and time and memory of a loaded kind.
    Catalog,
    /// `flotilla plan` of many manifests.
    Plan,
    /// What kinds cost the API server: their installation, and its memory.
    Crds,
    /// Calls that armsim answers on one core.
    Armsim,
    /// CPU, memory and starts of a fleet.
    Fleet,
}

/// What the caller may choose.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// A few kinds, few objects, once: under a minute.
    #[arg(long)]
    pub short: bool,
    /// Only this; may be repeated.
    #[arg(long, value_enum)]
    pub only: Vec<Part>,
    /// How often what is short is measured.
    #[arg(long, default_value_t = 3)]
    pub runs: usize,
    /// How many objects there are in the end.
    #[arg(long, default_value_t = 10_000)]
    pub objects: usize,
}

impl Options {
    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    fn runs(&self) -> usize {
        if self.short { 1 } else { self.runs }
    }

    fn size(&self) -> fleet::Size {
        if self.short {
            let quiet = Duration::from_secs(2);
            return fleet::Size { pattern: Kind::PATTERN, runs: 1, plain: 200, slow: 40, many: None, quiet };
        }
        let quiet = Duration::from_secs(10);
        fleet::Size { pattern: "*", runs: self.runs, plain: 1_000, slow: 200, many: Some(self.objects), quiet }
    }
}

/// Measures, prints the table and writes the JSON.
pub async fn run(options: Options) -> Result<()> {
    let (started, directory) = (Instant::now(), Path::new(DIRECTORY));
    let say = |what: &str| anstream::eprintln!("{:6.1} s  {what}", started.elapsed().as_secs_f64());
    let mut report = Report::new(Machine::here(), options.short);
    if options.wants(Part::Decide) {
        say("instructions per decision");
        report.extend(decide::measure(situations(options.short))?);
    }
    // Before whatever makes the heap of this process grow.
    if options.wants(Part::Catalog) {
        say("loading kinds");
        report.extend(catalog::measure(options.runs())?);
    }
    if options.wants(Part::Plan) {
        say("planning manifests");
        report.extend(plan::measure(options.runs(), &say)?);
    }
    if options.wants(Part::Crds) {
        let pattern = if options.short { Kind::PATTERN } else { "*" };
        report.extend(crds::measure(pattern, &directory.join("logs-crds"), &say).await?);
    }
    if options.wants(Part::Armsim) {
        say("armsim under load");
        report.extend(armsim(options.runs(), options.short).await?);
    }
    if options.wants(Part::Fleet) {
        report.extend(fleet::measure(options.size(), &directory.join("logs"), &say).await?);
    }
    let path = report.write(directory)?;
    say(&format!("done; {}", path.display()));
    anstream::println!("{}", report.table());
    Ok(())
}

/// In short: the one that happens most, and the one that costs most.
fn situations(short: bool) -> &'static [Situation] {
    if short { &[Situation::Steady, Situation::WaitingForOwner] } else { &Situation::ALL }
}

async fn armsim(runs: usize, short: bool) -> Result<[Figure; 2]> {
    let time = Duration::from_secs(if short { 2 } else { 8 });
    let (mut calls, mut slowest) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let load = load::run(Load { resources: 10_000, clients: 16, time }).await.context("failed to load armsim")?;
        calls.push(load.calls_per_core_second);
        slowest.push(load.p99_millis);
    }
    Ok([
        Figure::new("armsim, 10,000 resources: calls per CPU second", "1/s", calls).at_least(2_000.0),
        Figure::new("· slowest of a hundred calls, with 16 clients on the same cores", "ms", slowest),
    ])
}
