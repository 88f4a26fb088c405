//! `flotilla plan`: the requests to ARM that applying some manifests would cause.
//!
//! *Flow*: `input` reads texts, `yaml` their values with places, `manifest` the objects; `check` finds mistakes as the API server would;
//! `planner` makes the requests, in the order that `order` gives; `text` prints them for people. With `--diff`, `diff` asks Azure between
//! the steps.
//!
//! Kept true here: without `--diff` nothing leaves the machine. What can be planned is printed even if other objects have errors.

mod check;
mod diff;
mod exports;
mod input;
mod manifest;
mod metadata;
mod order;
mod planner;
mod problem;
mod text;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clap::ValueEnum;
use serde_json::{Value, json};

use self::diff::Change;
use self::input::LeftOver;
use self::problem::{Place, Severity};
use crate::names;
use crate::output::{self, Out};
use crate::settings::{Azure, Credential};

pub use self::check::Checker;
pub use self::input::{Source, left_over, substitute};
pub use self::manifest::{Manifests, Resource};
pub use self::planner::{Planner, Request};
pub use self::problem::Problem;
pub use self::yaml::parse;

const NIL: &str = "00000000-0000-0000-0000-000000000000";

/// The flags of `flotilla plan`.
#[expect(clippy::struct_excessive_bools, reason = "flags")]
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A file, a folder or - for the standard input; can be repeated.
    #[arg(short, long = "filename", value_name = "FILE|DIR|-", required = true)]
    pub filenames: Vec<PathBuf>,

    /// Read folders recursively.
    #[arg(short = 'R', long)]
    pub recursive: bool,

    /// The namespace of objects that do not name one.
    #[arg(short, long, default_value = "default", value_parser = parse_namespace)]
    pub namespace: String,

    /// Replace ${NAME} in the manifests with VALUE; can be repeated.
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = parse_variable)]
    pub variables: Vec<(String, String)>,

    /// How to print.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub output: Format,

    /// Read Azure with the credential below, and print only what would change.
    #[arg(long)]
    pub diff: bool,

    /// Exit with code 2 if something would change.
    #[arg(long)]
    pub exit_code: bool,

    /// Show the values of Secrets in the text output; JSON and YAML always show them.
    #[arg(long)]
    pub show_secrets: bool,

    /// The subscription to plan for, and the credential to read Azure with.
    #[command(flatten)]
    pub credential: Credential,

    /// The cloud.
    #[command(flatten)]
    pub azure: Azure,
}

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// A list of requests.
    Json,
    /// The same as YAML.
    Yaml,
}

/// The requests that some manifests lead to.
#[derive(Debug, Default)]
pub struct Plan {
    /// Requests in the order in which they can be made.
    pub requests: Vec<Request>,
    /// With `--diff`, what each would change.
    pub changes: Vec<Change>,
    /// What is wrong, or worth a note.
    pub problems: Vec<Problem>,
}

/// Plans without further input.
pub fn plan(manifests: &Manifests, subscription: &str) -> Plan {
    let mut planner = Planner::new(manifests, subscription);
    let mut checker = Checker::default();
    let mut plan = Plan::default();
    for index in ordered(manifests, &mut planner, &mut plan.problems) {
        plan.requests.extend(step(manifests, &mut planner, &mut checker, index, &mut plan.problems));
    }
    plan
}

/// The order of the resources; those that have none are reported as errors.
pub fn ordered(manifests: &Manifests, planner: &mut Planner<'_>, problems: &mut Vec<Problem>) -> Vec<usize> {
    let order = planner.order();
    let label = |index: usize| manifests.resources[index].label();
    for ring in &order.cycles {
        let Some((first, edge)) = ring.first() else { continue };
        let way: Vec<String> = ring.iter().map(|(node, edge)| format!("{} ({})", label(*node), edge.field)).collect();
        let message = format!("these wait for each other: {} → {}", way.join(" → "), label(*first));
        let problem = manifests.resources[*first].error(&edge.field, message);
        problems.push(problem.help("name one of them by its armId, or remove one reference"));
    }
    for &index in &order.stuck {
        let resource = &manifests.resources[index];
        let message = "it depends on objects that wait for each other";
        problems.push(Problem::error(resource.place(""), message).of(resource.label()));
    }
    order.sequence
}

/// Checks one resource and makes its request.
pub fn step(
    manifests: &Manifests,
    planner: &mut Planner<'_>,
    checker: &mut Checker,
    index: usize,
    problems: &mut Vec<Problem>,
) -> Option<Request> {
    let mut found = checker.check(&manifests.resources[index]);
    let told: BTreeSet<Option<Box<str>>> = found.iter().map(|p| p.field.clone()).collect();
    let (request, more) = planner.request(index);
    found.extend(more.into_iter().filter(|p| !told.contains(&p.field)));
    let failed = found.iter().any(|p| p.severity == Severity::Error);
    problems.extend(found);
    request.filter(|_| !failed)
}

/// Runs the tool.
pub async fn run(args: Args) -> Result<ExitCode> {
    let (mut sources, mut problems) = input::read(&args.filenames, args.recursive);
    let variables: BTreeMap<String, String> = args.variables.iter().cloned().collect();
    sources.retain_mut(|source| {
        let Some(text) = input::substitute(&source.text, &variables) else {
            problems.push(input::too_large(Path::new(&*source.file)));
            return false;
        };
        source.text = text;
        problems.extend(not_replaced(source));
        true
    });
    let manifests = Manifests::read(&sources, &args.namespace, &mut problems);
    if manifests.is_empty() && problems.is_empty() {
        let places = sources.iter().map(|s| Place { file: Arc::clone(&s.file), line: 0, column: 0 });
        problems.extend(places.map(|place| Problem::error(place, "the file contains no object")));
    }
    let mut plan = if args.diff {
        diff::plan(&manifests, &args.credential, &args.azure).await?
    } else {
        let plan = plan(&manifests, args.credential.subscription.as_deref().unwrap_or(NIL));
        if args.credential.subscription.is_none() && !plan.requests.is_empty() {
            let place = Place { file: "flotilla plan".into(), line: 0, column: 0 };
            let message = "the plan shows the nil UUID as the subscription";
            problems.push(Problem::error(place, message).note().help("set --subscription or AZURE_SUBSCRIPTION_ID"));
        }
        plan
    };
    problems.append(&mut plan.problems);
    problems.sort_by(|a, b| a.place.cmp(&b.place));
    text::problems(&problems)?;
    output::to_stdout(|out| print(out, &args, &manifests, &plan))?;
    let failed = problems.iter().any(|p| p.severity == Severity::Error);
    let changes = !plan.requests.is_empty();
    Ok(ExitCode::from(match (failed, args.exit_code && changes) {
        (true, _) => 1,
        (false, true) => 2,
        (false, false) => 0,
    }))
}

fn print(out: Out<'_>, args: &Args, manifests: &Manifests, plan: &Plan) -> Result<()> {
    match args.output {
        Format::Json => output::json(out, &to_value(plan)),
        Format::Yaml => output::yaml(out, &to_value(plan)),
        Format::Text if args.diff => text::changes(out, plan, args.show_secrets),
        Format::Text => text::requests(out, manifests, plan, &args.azure.endpoint, args.show_secrets),
    }
}

/// The requests for tools.
pub fn to_value(plan: &Plan) -> Value {
    let requests = plan.requests.iter().enumerate().map(|(i, request)| {
        let mut value = json!({
            "object": request.object,
            "method": request.method,
            "url": request.url(),
            "body": request.body,
        });
        if let Some(change) = plan.changes.get(i) {
            value["change"] = change.to_value();
        }
        value
    });
    requests.collect()
}

fn not_replaced(source: &Source) -> Option<Problem> {
    let (what, line) = input::left_over(&source.text)?;
    let place = Place { file: source.file.clone(), line, column: 1 };
    let (what, help) = match what {
        LeftOver::Variable(name) => (format!("${{{name}}}"), format!("--var {name}=… replaces it")),
        LeftOver::Template(inner) => {
            (format!("{{{{ {inner} }}}}"), "helm template … | flotilla plan -f - replaces it".to_owned())
        }
    };
    Some(Problem::error(place, format!("{what} is not replaced")).note().help(help))
}

fn parse_namespace(text: &str) -> Result<String, &'static str> {
    names::namespace(text).map(|()| text.to_owned())
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("{text} is not of the form NAME=VALUE"))?;
    if name.is_empty() || name.contains('}') {
        return Err(format!("{name:?} can't be a name"));
    }
    Ok((name.to_owned(), value.to_owned()))
}
