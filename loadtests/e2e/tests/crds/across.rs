//! For every kind with several versions: an object that is made through one of them is the same through all others.
//!
//! The objects have all or parts of what a version has, by fixed seeds, so most of them have fields that some other version lacks or demands
//! otherwise. Labels through such a version must pass all the same: who labels has not touched the spec.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use flotilla_crds::Extent;
use flotilla_crds::{Kind, Version};
use flotilla_worker::engine::spec_version;
use futures::stream::{self, StreamExt as _};
use serde_json::{Value, json};

use super::api::{Answer, Api, Target, Write, object};
use super::installation::installation;
use super::judge;

/// Variable with the number of objects that are made through each version.
const SEEDS: &str = "FLOTILLA_TEST_SEEDS";

/// How many requests are under way: enough to keep the server busy.
const AT_ONCE: usize = 8;

/// An object that is made through one version.
struct Case {
    kind: Arc<Kind>,
    /// The place of its version among the kind's.
    version: usize,
    round: usize,
}

/// What was seen of an object.
#[derive(Clone, Copy, Default)]
struct Seen {
    requests: usize,
    /// Versions through which the object was labelled although they would not let it be made.
    unfit: usize,
}

impl Case {
    fn version(&self) -> &Version {
        &self.kind.versions()[self.version]
    }

    fn name(&self) -> String {
        format!("{}-{}-{}", self.kind.name().to_lowercase(), self.version().name(), self.round)
    }

    /// Every third has all fields.
    fn extent(&self) -> Extent {
        let number = self.kind.name().len() + self.version + self.round;
        match number % 3 {
            0 => Extent::Whole(self.version + self.round),
            _ => Extent::Part(u64::try_from(self.round * 100 + self.version).unwrap()),
        }
    }

    /// Makes the object, labels it through each other version, and reads it through all.
    async fn run(&self, api: &Api) -> Result<Seen> {
        let (name, made_through) = (self.name(), self.version().name());
        let through = |version| Target { kind: &self.kind, version, name: &name };
        let spec = self.version().specimen(self.extent());
        let mut seen = Seen { requests: 1, unfit: 0 };
        let manifest = object(through(made_through), json!({}), &spec);
        let (write, manager) =
            if self.version.is_multiple_of(2) { (Write::Create, "kubectl-create") } else { (Write::Apply, "kubectl") };
        let made = api.write(through(made_through), write, manager, &manifest).await;
        self.is_unchanged(made, &spec, "created")?;
        for version in self.kind.versions().iter().filter(|version| version.name() != made_through) {
            let label = json!({ "metadata": { "labels": { "through": version.name() } } });
            let labelled = api.write(through(version.name()), Write::Merge, "kubectl-label", &label).await;
            self.is_unchanged(labelled, &spec, &format!("labelled through {}", version.name()))?;
            let schema = self.kind.own_spec_schema(version.name()).unwrap();
            seen.unfit += usize::from(!judge::objections(&schema, &spec).is_empty());
            seen.requests += 1;
        }
        for version in self.kind.versions() {
            let read = api.get(through(version.name())).await;
            self.is_unchanged(Ok(read), &spec, &format!("read through {}", version.name()))?;
            seen.requests += 1;
        }
        Ok(seen)
    }

    /// The object has the spec that it was made with, and counts as applied through the version that it was made through.
    fn is_unchanged(&self, answer: Answer, spec: &Value, done: &str) -> Result<()> {
        let story = || format!("{}/{} {done}", self.kind.group(), self.name());
        let object = answer.map_err(|refused| anyhow::anyhow!("{}: {refused}", story()))?;
        let found = &object["spec"];
        ensure!(found == spec, "{}: the spec differs by {}", story(), json_patch::diff(spec, found));
        let generation = &object["metadata"]["generation"];
        ensure!(generation == 1, "{}: generation {generation}", story());
        let version = spec_version(&serde_json::from_value(object.clone())?);
        ensure!(version.as_deref() == Some(self.version().name()), "{}: version {version:?}", story());
        Ok(())
    }
}

fn cases(kinds: &[Arc<Kind>]) -> Vec<Case> {
    let rounds = std::env::var(SEEDS).map_or(1, |rounds| rounds.parse().unwrap());
    let several = kinds.iter().filter(|kind| kind.versions().len() > 1);
    let versions = several.flat_map(|kind| (0..kind.versions().len()).map(move |version| (kind, version)));
    let case = |(kind, version): (&Arc<Kind>, usize)| {
        (0..rounds).map(move |round| Case { kind: Arc::clone(kind), version, round }).collect::<Vec<_>>()
    };
    versions.flat_map(case).collect()
}

#[tokio::test]
async fn object_made_through_any_version_is_the_same_through_all() {
    let installation = installation().await;
    let api = installation.api("across").await;
    let cases = cases(&installation.all);
    let started = Instant::now();
    let runs = cases.iter().map(|case| case.run(&api));
    let outcomes: Vec<Result<Seen>> = stream::iter(runs).buffer_unordered(AT_ONCE).collect().await;

    let sum = |count: fn(&Seen) -> usize| outcomes.iter().flatten().map(count).sum::<usize>();
    let mut kinds: Vec<String> = cases.iter().map(|case| case.kind.entry().crd_name()).collect();
    kinds.dedup();
    println!(
        "{} objects of {} kinds: {} requests, {} labels through versions that would refuse the object, {:.1} s",
        cases.len(),
        kinds.len(),
        sum(|seen| seen.requests),
        sum(|seen| seen.unfit),
        started.elapsed().as_secs_f64()
    );
    let failures: Vec<String> =
        outcomes.iter().filter_map(|outcome| Some(outcome.as_ref().err()?.to_string())).collect();
    assert!(failures.is_empty(), "{} objects failed:\n{}", failures.len(), failures.join("\n"));
    assert!(kinds.len() >= 190 && sum(|seen| seen.unfit) > 100, "too little was tried");
}

/// `flotilla crds example` prints these.
#[tokio::test]
async fn example_of_every_kind_is_accepted() {
    let installation = installation().await;
    let api = installation.api("examples").await;
    let extents = [Extent::Required, Extent::Whole(0)];
    let asked = installation.all.iter().flat_map(|kind| extents.map(|extent| (kind, extent))).map(|(kind, extent)| {
        let api = &api;
        async move {
            let version = kind.versions().last().unwrap();
            let at = Target { kind, version: version.name(), name: "example" };
            let refused = api.would_create(at, &version.specimen(extent)).await.err()?;
            Some(format!("{}/{} {extent:?}: {refused}", kind.group(), kind.name()))
        }
    });
    let refused: Vec<String> = stream::iter(asked).buffer_unordered(AT_ONCE).filter_map(async |r| r).collect().await;
    assert!(refused.is_empty(), "{} examples are refused:\n{}", refused.len(), refused.join("\n"));
}
