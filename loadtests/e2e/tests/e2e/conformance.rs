//! Recorded cases against a fleet: the same objects lead to the same requests as those recorded from the real ARM.
//!
//! For every step of a case: the first PUT of each resource has the recorded body, URL and api-version; one PUT is
//! enough; parents come before children and what is referred to before those who refer to it; in the end nothing is
//! left. Polls and reads are the operator's own affair and not compared.

mod body;
mod case;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};
use flotilla_armsim::{DEMO_SUBSCRIPTION, Entry, Method};
use flotilla_testbed::cluster::Named;
use futures::future::join_all;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

use self::case::{Case, Step};
use crate::journal::is_accepted_put;
use crate::sandbox::{Sandbox, WITHIN};
use crate::testbed::{Testbed, share};

/// The recorded cases that the installed kinds cover.
const RECORDED: [&str; 7] = [
    "resources-rg-crud",
    "app-managedenvironment",
    "app-containerapp",
    "app-sample",
    "storage-account-crud",
    "managedidentity-crud",
    "network-vnet",
];

#[test]
fn own_case_leads_to_the_requests_written_down_for_it() -> ExitCode {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/cases/network-and-identity");
    share(async |testbed| replay(testbed, &folder).await)
}

#[test]
fn recorded_cases_lead_to_the_recorded_requests() -> ExitCode {
    let Some(folder) = recordings() else { return ExitCode::SUCCESS };
    share(async |testbed| {
        let replays = RECORDED.iter().map(async |name| (*name, replay(testbed, &folder.join(name)).await));
        let failed: Vec<String> = join_all(replays)
            .await
            .into_iter()
            .filter_map(|(name, result)| result.err().map(|error| format!("{name}: {error:#}")))
            .collect();
        ensure!(failed.is_empty(), "{} of {} cases fail:\n{}", failed.len(), RECORDED.len(), failed.join("\n"));
        println!("{} recorded cases: bodies, URLs and order are those recorded", RECORDED.len());
        Ok(())
    })
}

/// The folder with the recorded cases, from `FLOTILLA_SHARED` or beside the repository. None, loudly, where there is none.
fn recordings() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let folder = std::env::var_os("FLOTILLA_SHARED").map_or(beside, PathBuf::from).join("parity/conformance/cases");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("SKIPPED: no recorded cases in {}; set FLOTILLA_SHARED to the folder that has parity/", folder.display());
    None
}

/// A case on its way.
struct Replay {
    case: Case,
    sandbox: Sandbox,
    objects: Vec<DynamicObject>,
    /// Those that are there at the moment, in the order in which they came.
    present: Vec<DynamicObject>,
    /// Where the case's group is in Azure.
    group: String,
}

async fn replay(testbed: &'static Testbed, folder: &Path) -> Result<()> {
    let case = Case::read(folder, DEMO_SUBSCRIPTION)?;
    let sandbox = Sandbox::create(testbed, "case").await?;
    let objects = sandbox.read(&case.manifest)?;
    let group = objects.iter().find(|object| is_kind(object, "ResourceGroup")).context("the case has no group")?;
    let group = format!("/subscriptions/{DEMO_SUBSCRIPTION}/resourceGroups/{}", group.name_any());
    let mut replay = Replay { case, sandbox, objects, present: Vec::new(), group };
    for (index, step) in replay.case.steps.clone().iter().enumerate() {
        replay.step(step).await.with_context(|| format!("step {} {step}", index + 1))?;
    }
    // What would now be collected with its owner, by a controller that does not run here.
    replay.sandbox.clear(&replay.present).await?;
    replay.sandbox.check_azure_has_nothing(&replay.group)?;
    replay.check_all_recorded_puts_were_sent()?;
    replay.check_order()
}

impl Replay {
    async fn step(&mut self, step: &Step) -> Result<()> {
        let before = self.calls()?.len();
        match step {
            Step::Apply(names) => {
                let objects = names.iter().map(|name| self.object(name)).collect::<Result<Vec<_>>>()?;
                self.sandbox.apply(&objects).await?;
                self.sandbox.wait_ready(&objects).await?;
                self.present.extend(objects.iter().cloned());
                self.check_puts(before, objects.len(), 0)
            }
            Step::Expect => self.sandbox.wait_ready(&self.present).await,
            Step::Patch { object, merge, first_put } => {
                let object = self.object(object)?;
                self.sandbox.cluster().patch(&object, merge).await?;
                self.sandbox.wait_ready(std::slice::from_ref(&object)).await?;
                self.check_puts(before, 1, *first_put)
            }
            Step::Delete(name) => {
                let object = self.object(name)?;
                let uid = self.sandbox.get(&object).await?.uid();
                self.sandbox.cluster().delete(&object).await?;
                self.sandbox.cluster().wait_gone(std::slice::from_ref(&object), WITHIN).await?;
                self.present.retain(|other| Named::of(other) != Named::of(&object));
                self.check_deletes(before)?;
                self.collect_garbage(uid).await
            }
        }
    }

    /// Deletes the objects whose owner is gone, and what they own, as Kubernetes' garbage collector does.
    async fn collect_garbage(&mut self, owner: Option<String>) -> Result<()> {
        let mut gone: BTreeSet<String> = owner.into_iter().collect();
        let mut orphans = Vec::new();
        loop {
            let mut found = Vec::new();
            for object in &self.present {
                let now = self.sandbox.get(object).await?;
                if now.owner_references().iter().any(|reference| gone.contains(&reference.uid)) {
                    gone.extend(now.uid());
                    found.push(object.clone());
                }
            }
            if found.is_empty() {
                break;
            }
            self.present.retain(|object| !found.iter().any(|orphan| Named::of(orphan) == Named::of(object)));
            orphans.extend(found);
        }
        for orphan in &orphans {
            self.sandbox.cluster().delete(orphan).await?;
        }
        self.sandbox.cluster().wait_gone(&orphans, WITHIN).await
    }

    fn object(&self, name: &str) -> Result<DynamicObject> {
        let (kind, name) = name.split_once('/').context("an object is named Kind/name")?;
        let found = self.objects.iter().find(|object| is_kind(object, kind) && object.name_any() == name);
        found.cloned().with_context(|| format!("no {kind} {name} in the manifest"))
    }

    fn calls(&self) -> Result<Vec<Entry>> {
        self.sandbox.calls_below(&self.group)
    }

    /// The PUTs since the step began: as many resources as objects, each first body as recorded from `index` on, each
    /// taken by ARM once.
    fn check_puts(&self, before: usize, objects: usize, index: usize) -> Result<()> {
        let mut puts: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
        for call in self.calls()?.into_iter().skip(before).filter(|call| call.method == Method::Put) {
            puts.entry(call.path.to_lowercase()).or_default().push(call);
        }
        ensure!(puts.len() == objects, "{objects} objects led to PUTs of {:?}", puts.keys());
        for (path, puts) in puts {
            let recorded =
                self.case.first_put(&path, index).with_context(|| format!("no PUT of {path} is recorded"))?;
            let first = &puts[0];
            let version = first.api_version.as_deref().unwrap_or_default();
            ensure!(
                version == recorded.api_version,
                "{path}: api-version {version}, recorded {}",
                recorded.api_version
            );
            let ours = first.body.as_deref().context("the journal keeps no bodies")?;
            let differences = body::differences(ours, &recorded.body);
            ensure!(differences.is_empty(), "PUT {path} differs:\n    {}", differences.join("\n    "));
            let accepted = puts.iter().filter(|put| is_accepted_put(put)).count();
            ensure!(accepted == 1, "PUT {path} was taken {accepted} times");
        }
        Ok(())
    }

    fn check_deletes(&self, before: usize) -> Result<()> {
        for call in self.calls()?.iter().skip(before).filter(|call| call.method == Method::Delete) {
            let version = call.api_version.as_deref().unwrap_or_default();
            let versions = self.case.delete_versions(&call.path.to_lowercase());
            ensure!(
                versions.contains(version),
                "DELETE {} with api-version {version}; recorded are {versions:?}",
                call.path
            );
        }
        Ok(())
    }

    fn check_all_recorded_puts_were_sent(&self) -> Result<()> {
        let sent: BTreeSet<String> =
            self.calls()?.iter().filter(|call| is_accepted_put(call)).map(|call| call.path.to_lowercase()).collect();
        let missing: Vec<_> = self.case.put_paths().into_iter().filter(|path| !sent.contains(path)).collect();
        ensure!(missing.is_empty(), "recorded and never sent: {missing:?}");
        Ok(())
    }

    /// Nothing is taken before what it lies in, and nothing before what its body refers to.
    fn check_order(&self) -> Result<()> {
        let mut first: BTreeMap<String, Entry> = BTreeMap::new();
        for call in self.calls()?.into_iter().filter(is_accepted_put) {
            first.entry(call.path.to_lowercase()).or_insert(call);
        }
        for (path, call) in &first {
            let body = call.body.as_deref().map(Value::to_string).unwrap_or_default().to_lowercase();
            for (other, earlier) in &first {
                let parent = path.strip_prefix(other.as_str()).is_some_and(|rest| rest.starts_with('/'));
                if (parent || (path != other && body.contains(&format!("\"{other}\"")))) && earlier.seq > call.seq {
                    bail!("{path} was taken before {other}");
                }
            }
        }
        Ok(())
    }
}

fn is_kind(object: &DynamicObject, kind: &str) -> bool {
    object.types.as_ref().is_some_and(|types| types.kind == kind)
}
