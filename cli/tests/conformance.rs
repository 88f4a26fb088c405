//! The first PUT of every resource in recorded cases, and the PUTs of later patches, against what `flotilla plan` makes of the manifests.
//!
//! Azure's answers in a recording take the place of Azure, so values that one object exports and another uses are compared too. What differs all the
//! same is in `conformance_deviations.tsv` with its reason; a line there that no longer holds fails the test.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a test that reports")]

#[path = "../../crds/tests/shared/mod.rs"]
mod shared;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flotilla::plan::{Checker, Manifests, Planner, Request, Source, ordered, plan, step};
use serde_json::Value;

const SUBSCRIPTION: &str = "00000000-0000-0000-0000-000000000000";
const DEVIATIONS: &str = include_str!("conformance_deviations.tsv");

/// A recorded case.
struct Case {
    name: String,
    documents: Vec<Value>,
    interactions: Vec<Value>,
    steps: Vec<Value>,
}

/// What was found, by case and object.
#[derive(Default)]
struct Report {
    cases: usize,
    equal: usize,
    patches: usize,
    deviations: BTreeMap<(String, String), String>,
    planning: Duration,
}

impl Case {
    fn read(folder: &Path) -> Self {
        let read = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
        let arm: Value = serde_json::from_str(&read("arm.json")).unwrap();
        let steps: Value = serde_saphyr::from_str(&read("steps.yaml")).unwrap();
        Self {
            name: folder.file_name().unwrap().to_string_lossy().into_owned(),
            documents: serde_saphyr::from_multiple(&read("manifest.yaml")).unwrap(),
            interactions: arm["interactions"].as_array().unwrap().clone(),
            steps: steps["steps"].as_array().cloned().unwrap_or_default(),
        }
    }

    fn source(&self) -> Source {
        let texts: Vec<String> = self.documents.iter().map(ToString::to_string).collect();
        Source { file: self.name.as_str().into(), text: texts.join("\n---\n") }
    }

    fn of_id<'a>(&'a self, request: &'a Request) -> impl DoubleEndedIterator<Item = &'a Value> {
        self.interactions.iter().filter(|i| {
            let path = i["url"].as_str().unwrap().split('?').next().unwrap();
            path.eq_ignore_ascii_case(request.id.as_str())
        })
    }

    /// Every request that the manifests lead to, when Azure answers as recorded.
    fn requests(&self, manifests: &Manifests) -> (Vec<Request>, Vec<String>) {
        let mut planner = Planner::new(manifests, SUBSCRIPTION);
        let (mut checker, mut problems, mut requests) = (Checker::default(), Vec::new(), Vec::new());
        for index in ordered(manifests, &mut planner, &mut problems) {
            let Some(request) = step(manifests, &mut planner, &mut checker, index, &mut problems) else { continue };
            let good = |i: &&Value| i["response_body"].is_object() && i["status"].as_u64() < Some(300);
            if let Some(answer) = self.of_id(&request).rfind(good) {
                planner.observe(index, answer["response_body"].clone());
            }
            requests.push(request);
        }
        (requests, problems.iter().map(ToString::to_string).collect())
    }

    fn compare_first_puts(&self, report: &mut Report) {
        let manifests = Manifests::read(&[self.source()], "default", &mut Vec::new());
        let (requests, problems) = self.requests(&manifests);
        let mut deviate = |object: &str, what: String| {
            report.deviations.insert((self.name.clone(), object.to_owned()), what);
        };
        let refused: Vec<&String> = problems.iter().filter(|p| p.contains("Azure may refuse")).collect();
        assert!(refused.is_empty(), "bodies that Azure took do not fit its types: {refused:?}");
        let mut planned = BTreeSet::new();
        for request in &requests {
            let Some(first) = self.of_id(request).find(|i| i["method"] == "PUT") else { continue };
            if !planned.insert(request.id.as_str().to_lowercase()) {
                continue;
            }
            let wanted = (Some("PUT"), first["url"].as_str(), &first["request_body"]);
            if (Some(request.method), Some(request.url().as_str()), &request.body) == wanted {
                report.equal += 1;
            } else {
                let ours = format!("{} {} {}", request.method, request.url(), request.body);
                deviate(
                    &request.object,
                    format!("\n  ours     {ours}\n  recorded PUT {} {}", first["url"], first["request_body"]),
                );
            }
        }
        for put in self.interactions.iter().filter(|i| i["method"] == "PUT") {
            let path = put["url"].as_str().unwrap().split('?').next().unwrap().to_lowercase();
            if planned.insert(path.clone()) {
                deviate(path.rsplit('/').next().unwrap(), format!("no request for {path}: {problems:?}"));
            }
        }
    }

    /// Applies the patches of the steps one after the other; each that led to a PUT must lead to it here.
    fn compare_patches(&mut self, report: &mut Report) {
        for (number, step) in std::mem::take(&mut self.steps).into_iter().enumerate() {
            let Some((kind, name)) = step["patch"].as_str().and_then(|p| p.split_once('/')) else { continue };
            let object =
                self.documents.iter_mut().find(|d| d["kind"] == kind && d["metadata"]["name"] == name).unwrap();
            json_patch::merge(object, &step["merge"]);
            let Some(put) = step["first_put"].as_u64().and_then(|i| usize::try_from(i).ok()) else { continue };
            let recorded = self.interactions[put]["request_body"].clone();
            let manifests = Manifests::read(&[self.source()], "default", &mut Vec::new());
            let (requests, problems) = self.requests(&manifests);
            let suffix = format!("/{name}");
            let ours =
                requests.into_iter().find(|r| r.object.starts_with(&format!("{kind}/")) && r.object.ends_with(&suffix));
            let ours = ours.map(|mut ours| {
                let before = self.interactions[..put].iter().filter(|i| {
                    i["url"].as_str().unwrap().split('?').next().unwrap().eq_ignore_ascii_case(ours.id.as_str())
                });
                let read = |i: &&Value| i["method"] == "GET" && i["status"] == 200;
                let version = manifests.resources[ours.resource].version().unwrap();
                if let Some(live) = before.rev().find(read) {
                    ours.keep_children(version, &live["response_body"]);
                }
                ours
            });
            if ours.as_ref().is_some_and(|ours| ours.body == recorded) {
                report.patches += 1;
            } else {
                let ours = ours.map(|ours| ours.body.to_string());
                let what = format!("\n  ours     {ours:?} {problems:?}\n  recorded {recorded}");
                report.deviations.insert((self.name.clone(), format!("{kind}/{name} patch {number}")), what);
            }
        }
    }
}

/// Plans as the program does, without answers.
fn plan_offline(folders: &[PathBuf]) -> Duration {
    let sources: Vec<Source> = folders
        .iter()
        .map(|folder| {
            let path = folder.join("manifest.yaml");
            Source { file: path.to_string_lossy().into(), text: std::fs::read_to_string(&path).unwrap() }
        })
        .collect();
    let start = Instant::now();
    for source in sources {
        let manifests = Manifests::read(&[source], "default", &mut Vec::new());
        plan(&manifests, SUBSCRIPTION);
    }
    start.elapsed()
}

fn run(cases: &Path) -> Report {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(cases).unwrap().map(|f| f.unwrap().path()).collect();
    folders.sort();
    let mut report = Report { planning: plan_offline(&folders), ..Report::default() };
    for folder in &folders {
        let mut case = Case::read(folder);
        case.compare_first_puts(&mut report);
        case.compare_patches(&mut report);
        report.cases += 1;
    }
    report
}

fn listed() -> BTreeMap<(String, String), &'static str> {
    let lines = DEVIATIONS.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let columns: Vec<&str> = line.split('\t').collect();
            let [case, object, reason] = columns[..] else { panic!("not three columns: {line}") };
            ((case.to_owned(), object.to_owned()), reason)
        })
        .collect()
}

#[test]
fn recorded_requests_are_planned() {
    let Some(shared) = shared::folder() else { return };
    let report = run(&shared.join("parity/conformance/cases"));
    let listed = listed();
    println!(
        "{} cases planned in {:?}; {} first PUTs and {} PUTs of patches are equal, {} deviate",
        report.cases,
        report.planning,
        report.equal,
        report.patches,
        report.deviations.len()
    );
    let unlisted: Vec<_> = report.deviations.iter().filter(|(key, _)| !listed.contains_key(*key)).collect();
    for ((case, object), what) in &unlisted {
        println!("{case}\t{object}\t{what}");
    }
    let stale: Vec<_> = listed.keys().filter(|key| !report.deviations.contains_key(*key)).collect();
    assert!(report.equal > 0, "nothing was compared");
    assert!(unlisted.is_empty(), "{} deviations without a reason", unlisted.len());
    assert!(stale.is_empty(), "these no longer deviate: {stale:?}");
}

#[test]
fn our_own_cases_are_planned() {
    let report = run(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/conformance"));
    let found: Vec<String> = report.deviations.iter().map(|(key, what)| format!("{key:?} {what}")).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert_eq!((report.cases, report.equal, report.patches), (1, 8, 1));
}
