//! A Grafana dashboard's queries, as Grafana would send them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::Value;

use super::{Prometheus, Sample};

/// What Grafana puts in place of its own variables, for a server that has scraped for some seconds.
const BUILT_IN: [(&str, &str); 4] =
    [("$__rate_interval", "30s"), ("$__interval", "15s"), ("$__range", "5m"), ("${datasource}", "prometheus")];

/// One query of a dashboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The panel's title, or the name of the variable or annotation.
    pub place: String,
    /// The query as it stands there.
    pub text: String,
}

/// What a query gave.
#[derive(Debug)]
pub struct Outcome {
    /// The query.
    pub query: Query,
    /// Its samples, or why there are none.
    pub result: Result<Vec<Sample>>,
}

/// A dashboard with its queries.
#[derive(Clone, Debug)]
pub struct Dashboard {
    queries: Vec<Query>,
    variables: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Panel {
    #[serde(default)]
    title: String,
    #[serde(default)]
    targets: Vec<Target>,
    #[serde(default)]
    panels: Vec<Panel>,
}

#[derive(Deserialize)]
struct Target {
    #[serde(default)]
    expr: String,
}

impl Dashboard {
    /// The one that is shipped.
    pub fn overview() -> Result<Self> {
        Self::read(&path())
    }

    /// Reads a dashboard's JSON.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
        let whole: Value = serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))?;
        let panels: Vec<Panel> =
            serde_json::from_value(whole["panels"].clone()).context("its panels have an unknown form")?;
        let mut queries = Vec::new();
        collect(&panels, &mut queries);
        for annotation in whole["annotations"]["list"].as_array().into_iter().flatten() {
            let word = |key: &str| annotation[key].as_str().unwrap_or_default().to_owned();
            queries.push(Query { place: word("name"), text: word("expr") });
        }
        let variables = whole["templating"]["list"].as_array().into_iter().flatten();
        let variables = variables.filter_map(|variable| variable["name"].as_str().map(str::to_owned)).collect();
        Ok(Self { queries, variables })
    }

    /// All queries of panels and annotations.
    pub fn queries(&self) -> &[Query] {
        &self.queries
    }

    /// Names of the metrics that queries use, with the queries that do. A histogram is named without its suffix.
    pub fn metrics(&self) -> BTreeMap<String, Vec<String>> {
        let mut metrics: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for query in &self.queries {
            let words = query.text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
            for word in words.filter(|word| word.starts_with("flotilla_")) {
                let name = ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
                metrics.entry(name.to_owned()).or_default().push(query.place.clone());
            }
        }
        metrics
    }

    /// Variables that queries use and the dashboard does not define.
    pub fn undefined_variables(&self) -> BTreeSet<String> {
        let used = self.queries.iter().flat_map(|query| variables(&query.text));
        let built_in = |name: &String| BUILT_IN.iter().any(|(known, _)| known.trim_start_matches('$') == name);
        used.filter(|name| !self.variables.contains(name) && !built_in(name)).collect()
    }

    /// Runs every query with all namespaces chosen.
    pub async fn run(&self, prometheus: &Prometheus) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for query in &self.queries {
            let result = prometheus.query(&fill(&query.text)).await;
            outcomes.push(Outcome { query: query.clone(), result });
        }
        outcomes
    }
}

/// Where the shipped dashboard is in the tree.
fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/grafana/flotilla-overview.json")
}

fn collect(panels: &[Panel], queries: &mut Vec<Query>) {
    for panel in panels {
        for target in &panel.targets {
            queries.push(Query { place: panel.title.clone(), text: target.expr.clone() });
        }
        collect(&panel.panels, queries);
    }
}

fn fill(text: &str) -> String {
    let text = text.replace("$namespace", ".*");
    BUILT_IN.iter().fold(text, |text, (name, value)| text.replace(name, value))
}

fn variables(text: &str) -> Vec<String> {
    let starts = text.match_indices('$').map(|(at, _)| &text[at + 1..]);
    let names = starts.map(|rest| rest.trim_start_matches('{'));
    names.map(|rest| rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()).collect()
}
