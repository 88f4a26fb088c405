//! The dashboard, the metrics' page and what members really serve say the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use flotilla_armsim::Armsim;
use flotilla_testbed::cluster::{Cluster, parse};
use flotilla_testbed::control_plane::ControlPlane;
use flotilla_testbed::fleet::{Fleet, Settings};
use flotilla_testbed::prometheus::dashboard::Dashboard;
use flotilla_testbed::prometheus::{Prometheus, Sample, Target, check_metrics};
use kube::api::DynamicObject;
use regex::Regex;
use tokio::time::{Instant, sleep};

/// What the fleet works on: two that need operations, one that ARM refuses, one that waits for an owner.
const OBJECTS: &str = "
apiVersion: resources.azure.com/v1api20200601
kind: ResourceGroup
metadata: {name: good}
spec: {location: westus2}
---
apiVersion: resources.azure.com/v1api20200601
kind: ResourceGroup
metadata: {name: refused}
spec: {location: atlantis}
---
apiVersion: network.azure.com/v1api20240301
kind: VirtualNetwork
metadata: {name: net}
spec: {location: westus2, owner: {name: good}, addressSpace: {addressPrefixes: [10.0.0.0/16]}}
---
apiVersion: network.azure.com/v1api20240301
kind: VirtualNetwork
metadata: {name: orphan}
spec: {location: westus2, owner: {name: nobody}, addressSpace: {addressPrefixes: [10.0.0.0/16]}}
";
const CRD_PATTERN: &str = "resources.azure.com/*;network.azure.com/VirtualNetwork";
const WITHIN: Duration = Duration::from_mins(3);

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A line of a table in docs/metrics.md.
#[derive(Clone, Debug)]
struct Documented {
    name: String,
    prometheus: String,
    kind: String,
    labels: BTreeSet<String>,
}

fn documented() -> Result<Vec<Documented>> {
    let text = fs::read_to_string(tree().join("docs/metrics.md")).context("docs/metrics.md is missing")?;
    let rows = text.lines().filter(|line| line.starts_with("| `flotilla."));
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let plain = |cell: &str| cell.replace('`', "");
        let labels =
            plain(cells[3]).split(',').map(|label| label.trim().to_owned()).filter(|l| !l.is_empty()).collect();
        Documented { name: plain(cells[0]), prometheus: plain(cells[1]), kind: cells[2].to_owned(), labels }
    };
    Ok(rows.map(row).collect())
}

/// Names of all instruments in the sources.
fn instruments(dir: &Path, name: &Regex, found: &mut BTreeSet<String>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            instruments(&path, name, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)?;
            found.extend(name.captures_iter(&text).map(|capture| capture[1].to_owned()));
        }
    }
    Ok(())
}

#[test]
fn every_metric_is_described_and_every_description_has_a_metric() -> Result<()> {
    let name = Regex::new(r#""(flotilla\.[a-z_]+(?:\.[a-z_]+)*)""#)?;
    let mut in_code = BTreeSet::new();
    for part in ["cli", "coordinator", "worker"] {
        instruments(&tree().join(part).join("src"), &name, &mut in_code)?;
    }
    let described: BTreeSet<String> = documented()?.into_iter().map(|metric| metric.name).collect();
    assert_eq!(in_code, described);
    Ok(())
}

#[test]
fn the_dashboard_asks_only_for_metrics_that_are_described() -> Result<()> {
    let dashboard = Dashboard::overview()?;
    let described: BTreeSet<String> = documented()?.into_iter().map(|metric| metric.prometheus).collect();
    let asked = dashboard.metrics();
    let unknown: Vec<_> = asked.iter().filter(|(name, _)| !described.contains(*name)).collect();
    assert!(unknown.is_empty(), "not in docs/metrics.md: {unknown:?}");
    assert!(asked.len() > 20, "the dashboard's queries were not found: {asked:?}");
    assert_eq!(dashboard.undefined_variables(), BTreeSet::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_query_of_the_dashboard_finds_something_in_a_running_fleet() -> Result<()> {
    let control_plane = ControlPlane::shared().await;
    let azure =
        Armsim::start(flotilla_armsim::Options { time_scale: 30.0, ..flotilla_armsim::Options::default() }).await?;
    let logs = control_plane.directory().join("dashboard");
    fs::create_dir_all(&logs)?;
    let mut settings = Settings::local(control_plane, &azure, &logs);
    CRD_PATTERN.clone_into(&mut settings.crd_pattern);
    "flotilla-dashboard".clone_into(&mut settings.namespace);
    let mut fleet = Fleet::start(control_plane.client(), settings, 2, 2).await?;
    let targets: Vec<Target> = fleet.metrics().into_iter().map(Target::from).collect();
    let prometheus = Prometheus::start("flotilla-dashboard", &targets, Duration::from_secs(1)).await?;

    let cluster = Cluster::new(control_plane.client());
    cluster.wait_kinds(CRD_PATTERN, WITHIN).await?;
    let objects = objects(control_plane).await?;
    // A rate begins with the second event of a series, so the work comes in waves with scrapes between them.
    for wave in 1..=2 {
        for mut object in objects.iter().cloned() {
            let name = object.metadata.name.take().unwrap_or_default();
            object.metadata.name = Some(format!("{name}-{wave}"));
            if let Some(owner) = object.data.pointer_mut("/spec/owner/name") {
                *owner = format!("{}-{wave}", owner.as_str().unwrap_or_default()).into();
            }
            cluster.apply(&object).await?;
            if name == "good" || name == "net" {
                cluster.wait_ready(&[object], WITHIN).await?;
            }
        }
        prometheus.wait_for_scrapes(&targets, 3 * wave, WITHIN).await?;
    }

    let dashboard = Dashboard::overview()?;
    ensure!(dashboard.queries().len() > 25, "the dashboard has {} queries", dashboard.queries().len());
    let deadline = Instant::now() + WITHIN;
    loop {
        fleet.check_running()?;
        let outcomes = dashboard.run(&prometheus).await;
        let mut without = Vec::new();
        for outcome in outcomes {
            let place = outcome.query.place;
            let samples = outcome.result.with_context(|| format!("the query of {place} failed"))?;
            // Marks on the time axis are rare; they only have to be valid.
            let found = samples.iter().any(|sample| !sample.value.is_nan());
            if !found && place != "New leader" {
                without.push(format!("{place}: {}", outcome.query.text));
            }
        }
        if without.is_empty() {
            break;
        }
        ensure!(Instant::now() < deadline, "within {WITHIN:?} these queries found nothing:\n{}", without.join("\n"));
        sleep(Duration::from_secs(1)).await;
    }
    tells_what_fails(&prometheus).await?;
    for target in &targets {
        is_as_described(target).await?;
    }
    prometheus.stop().await?;
    fleet.stop().await
}

async fn objects(control_plane: &ControlPlane) -> Result<Vec<DynamicObject>> {
    let namespace = control_plane.namespace("dashboard").await?;
    let mut objects = parse(OBJECTS)?;
    for object in &mut objects {
        object.metadata.namespace = Some(namespace.clone());
    }
    Ok(objects)
}

/// The dashboard's first question: what fails, since when and why. A scrape may be a second old.
async fn tells_what_fails(prometheus: &Prometheus) -> Result<()> {
    let deadline = Instant::now() + WITHIN;
    loop {
        let unready = prometheus.query("sum by (kind, reason) (flotilla_objects_unready)").await?;
        let count = |kind: &str, reason: &str| {
            let is_it = |s: &&Sample| s.labels["kind"] == kind && (reason.is_empty() || s.labels["reason"] == reason);
            unready.iter().filter(is_it).map(|sample| sample.value).sum::<f64>()
        };
        let seen =
            (count("VirtualNetwork", "WaitingForOwner"), count("VirtualNetwork", ""), count("ResourceGroup", ""));
        if seen == (2.0, 2.0, 2.0) {
            break;
        }
        ensure!(Instant::now() < deadline, "two orphans and two refused groups are not what is counted: {unready:?}");
        sleep(Duration::from_millis(200)).await;
    }
    let ages = prometheus.query("time() - flotilla_objects_unready_since_seconds").await?;
    ensure!(ages.iter().all(|age| (0.0..300.0).contains(&age.value)), "since when is wrong: {ages:?}");
    Ok(())
}

/// What a member serves is well formed, and described with its type and its labels.
async fn is_as_described(target: &Target) -> Result<()> {
    let text = reqwest::get(format!("http://{}/metrics", target.address)).await?.text().await?;
    check_metrics(&text).await.with_context(|| format!("promtool objects to what {} serves", target.pod))?;
    let described: BTreeMap<String, Documented> =
        documented()?.into_iter().map(|metric| (metric.prometheus.clone(), metric)).collect();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE flotilla_")) {
        let (name, kind) = line.split_once(' ').context("a TYPE line has a name and a type")?;
        let name = format!("flotilla_{name}");
        let metric = described.get(&name).with_context(|| format!("{name} is not in docs/metrics.md"))?;
        ensure!(metric.kind == kind, "{name} is a {kind}, and described as a {}", metric.kind);
    }
    let label = Regex::new(r#"([a-z_]+)=""#)?;
    for line in text.lines().filter(|line| line.starts_with("flotilla_")) {
        let end = line.find(['{', ' ']).unwrap_or(line.len());
        let ends = ["_bucket", "_sum", "_count"];
        let name = ends.iter().find_map(|end_| line[..end].strip_suffix(end_)).unwrap_or(&line[..end]);
        let Some(metric) = described.get(name) else { continue };
        for capture in label.captures_iter(&line[end..]).filter(|capture| &capture[1] != "le") {
            ensure!(metric.labels.contains(&capture[1]), "{name} has label {}, which is not described", &capture[1]);
        }
    }
    Ok(())
}
