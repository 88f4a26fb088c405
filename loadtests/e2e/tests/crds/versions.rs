//! Objects survive every order of writes through every version.
//!
//! Each case is an object that is made through one version, changed through a second and again through a third. All cases take
//! their first step before any takes its second: times in `managedFields` are whole seconds, and people are slower than that.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use flotilla_crds::Kind;
use futures::stream::{self, StreamExt};

use super::api::Api;
use super::installation::installation;
use super::subject::{ACTS, Act, BIRTHS, Birth, Subject};

/// Kinds for which every act through every version follows a birth through every version.
const CLOSELY: [&str; 5] =
    ["StorageAccount", "ManagedEnvironment", "ContainerApp", "VirtualNetwork", "UserAssignedIdentity"];

/// How many requests are under way: enough to keep the server busy.
const AT_ONCE: usize = 8;

/// Longer than the second by which `managedFields` counts.
const PAUSE: Duration = Duration::from_millis(1100);

struct Case {
    kind: Arc<Kind>,
    birth: (Birth, String),
    status_through: String,
    acts: [(Act, String); 2],
    variants: [u64; 2],
}

/// The versions of a kind of which no two are the same api-version under different names.
fn distinct(kind: &Kind) -> Vec<String> {
    let mut seen = BTreeSet::new();
    kind.versions().iter().rev().filter(|v| seen.insert(v.api_version())).map(|v| v.name().to_owned()).collect()
}

/// Every act through every version after a birth through every version.
fn every_order(kind: &Arc<Kind>) -> Vec<Case> {
    let versions = distinct(kind);
    let pairs = (0..versions.len()).flat_map(|first| (0..=versions.len()).map(move |second| (first, second)));
    let acts = pairs.flat_map(|(first, second)| ACTS.map(|act| (first, second, act)));
    let numbered = acts.enumerate();
    numbered.filter_map(|(number, (first, second, act))| case(kind, &versions, number, first, second, act)).collect()
}

/// Every version first, every version second, and all acts over all kinds.
fn every_version(kind: &Arc<Kind>, from: usize) -> Vec<Case> {
    let versions: Vec<String> = kind.versions().iter().map(|version| version.name().to_owned()).collect();
    let pairs = (0..versions.len()).flat_map(|first| [1, 2].map(|step| (first, (first + step) % (versions.len() + 1))));
    let numbered = pairs.enumerate().map(|(i, pair)| (from + i, pair));
    let act = |number: usize| ACTS[(number + number / ACTS.len()) % ACTS.len()];
    numbered.filter_map(|(n, (first, second))| case(kind, &versions, n, first, second, act(n))).collect()
}

/// None for writes of a spec through the storage version, which nobody does.
fn case(kind: &Arc<Kind>, versions: &[String], number: usize, first: usize, second: usize, act: Act) -> Option<Case> {
    let storage = kind.entry().storage_version();
    if second == versions.len() && matches!(act, Act::Edit | Act::ClientApply | Act::ServerApply) {
        return None;
    }
    let through = |i: usize| versions.get(i % (versions.len() + 1)).unwrap_or(&storage).clone();
    let then = (ACTS[(number / 5 + 3) % ACTS.len()], versions[number % versions.len()].clone());
    Some(Case {
        kind: Arc::clone(kind),
        birth: (BIRTHS[number % BIRTHS.len()], through(first)),
        status_through: through(second + number),
        acts: [(act, through(second)), then],
        // Most applies change values; some change nothing but the version.
        variants: if number % 5 == 4 { [0, 0] } else { [1, 2] },
    })
}

async fn run(api: &Api, cases: Vec<Case>) {
    let started = Instant::now();
    let births = stream::iter(cases.iter().enumerate()).map(|(i, case)| async move {
        let (birth, version) = &case.birth;
        Subject::born(api, &case.kind, format!("case-{i}"), *birth, version, &case.status_through).await
    });
    let mut subjects: Vec<Result<Subject>> = births.buffered(AT_ONCE).collect().await;
    for step in 0..2 {
        tokio::time::sleep(PAUSE).await;
        let turns = subjects.into_iter().zip(&cases).map(|(subject, case)| async move {
            let (mut subject, (act, version)) = (subject?, &case.acts[step]);
            subject.act(api, *act, version, case.variants[step]).await?;
            Ok(subject)
        });
        subjects = stream::iter(turns).buffered(AT_ONCE).collect().await;
    }
    let reads = subjects.into_iter().zip(&cases).enumerate().map(|(i, (subject, case))| async move {
        let (subject, versions) = (subject?, case.kind.versions());
        subject.reads_the_same(api, versions[i % versions.len()].name()).await?;
        Ok(subject.refused)
    });
    let outcomes: Vec<Result<usize>> = stream::iter(reads).buffered(AT_ONCE).collect().await;

    let refused: usize = outcomes.iter().flatten().sum();
    let kinds = cases.iter().map(|case| case.kind.name()).collect::<BTreeSet<_>>().len();
    let took = started.elapsed().as_secs_f64();
    println!("{} objects of {kinds} kinds, {refused} changes refused, {took:.1} s", cases.len());
    let failures: Vec<String> =
        outcomes.iter().filter_map(|outcome| Some(outcome.as_ref().err()?.to_string())).collect();
    assert!(failures.is_empty(), "{} cases failed:\n{}", failures.len(), failures.join("\n"));
}

#[tokio::test]
async fn first_kinds_survive_every_act_through_every_version() {
    let installation = installation().await;
    let api = installation.api("versions").await;
    let cases = CLOSELY.iter().flat_map(|kind| every_order(installation.kind(kind))).collect();
    run(&api, cases).await;
}

#[tokio::test]
async fn every_kind_survives_writes_through_all_its_versions() {
    let installation = installation().await;
    let api = installation.api("versions").await;
    let numbered = installation.kinds.iter().enumerate();
    run(&api, numbered.flat_map(|(i, kind)| every_version(kind, i)).collect()).await;
}
