//! One object, what users do to it, and what must then be true.

use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use flotilla_crds::Kind;
use flotilla_worker::engine::spec_version;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::api::{Answer, Api, Target, Write, object};
use super::client_apply::{self, LAST_APPLIED};
use super::judge::{self, Objection, Why};
use super::{maximal, ownership};

/// What people and programs do to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// `kubectl label`.
    Label,
    /// Read, change an annotation, write all of it back: what controllers do.
    Update,
    /// Read and write all of it back as it is.
    Touch,
    /// `kubectl edit`: one value of the spec changes.
    Edit,
    /// `kubectl apply` of a manifest in this version.
    ClientApply,
    /// `kubectl apply --server-side` of a manifest in this version.
    ServerApply,
}

/// Every act.
pub(crate) const ACTS: [Act; 6] = [Act::Label, Act::Update, Act::Touch, Act::Edit, Act::ClientApply, Act::ServerApply];

/// How an object comes to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Birth {
    /// `kubectl create`.
    Create,
    /// `kubectl apply`.
    ClientApply,
    /// `kubectl apply --server-side`.
    ServerApply,
}

/// Every birth.
pub(crate) const BIRTHS: [Birth; 3] = [Birth::Create, Birth::ClientApply, Birth::ServerApply];

/// An object and what we know must be in it.
pub(crate) struct Subject {
    kind: Arc<Kind>,
    name: String,
    /// The server's last answer.
    live: Value,
    /// The version that the spec was last written through.
    version: String,
    /// The spec of the last client-side apply.
    last_applied: Value,
    /// What was done, for messages.
    story: Vec<String>,
    /// How many changes were refused.
    pub(crate) refused: usize,
}

impl Subject {
    /// Makes an object with every field that the version has, and writes its status through another version.
    pub(crate) async fn born(
        api: &Api,
        kind: &Arc<Kind>,
        name: String,
        birth: Birth,
        version: &str,
        status_through: &str,
    ) -> Result<Self> {
        let spec = maximal::spec(&kind.own_spec_schema(version).unwrap(), 0);
        let at = Target { kind, version, name: &name };
        let mut manifest = object(at, json!({}), &spec);
        let (write, manager) = match birth {
            Birth::Create => (Write::Create, "kubectl-create"),
            Birth::ClientApply => (Write::Create, "kubectl-client-side-apply"),
            Birth::ServerApply => (Write::Apply, "kubectl"),
        };
        if birth == Birth::ClientApply {
            manifest["metadata"]["annotations"] = json!({ LAST_APPLIED: manifest.to_string() });
        }
        let mut subject = Self {
            kind: Arc::clone(kind),
            name: name.clone(),
            live: Value::Null,
            version: version.to_owned(),
            last_applied: if birth == Birth::ClientApply { spec.clone() } else { Value::Null },
            story: vec![format!("{birth:?} through {version}")],
            refused: 0,
        };
        let answer = api.write(subject.at(version), write, manager, &manifest).await;
        subject.live = subject.accepted(answer)?;
        subject.is(&subject.live["metadata"]["generation"], &json!(1), "generation")?;
        subject.is(&subject.live["spec"], &spec, "spec")?;
        subject.has_version()?;

        subject.story.push(format!("status through {status_through}"));
        let newest = kind.versions().last().unwrap().name();
        let status = maximal::status(&kind.own_status_schema(newest).unwrap());
        let mut whole = object(subject.at(status_through), subject.live["metadata"].clone(), &spec);
        whole["metadata"].as_object_mut().unwrap().remove("managedFields");
        whole["status"] = status.clone();
        let answer = api.write_status(subject.at(status_through), Write::Update, "flotilla", &whole).await;
        subject.live = subject.accepted(answer)?;
        subject.is(&subject.live["status"], &status, "status")?;
        subject.is(&subject.live["metadata"]["generation"], &json!(1), "generation")?;
        subject.is(&subject.live["spec"], &spec, "spec")?;
        subject.has_version()?;
        Ok(subject)
    }

    /// Does something to the object through a version, and checks what comes of it.
    pub(crate) async fn act(&mut self, api: &Api, act: Act, version: &str, variant: u64) -> Result<()> {
        self.story.push(format!("{act:?} through {version}"));
        let at = Target { kind: &Arc::clone(&self.kind), version, name: &self.name.clone() };
        let mark = json!({ "story": self.story.len().to_string() });
        match act {
            Act::Label => {
                let patch = json!({ "metadata": { "labels": mark } });
                let answer = api.write(at, Write::Merge, "kubectl-label", &patch).await;
                self.kept(answer)?;
            }
            Act::Update | Act::Touch => {
                let mut read = api.get(at).await;
                if act == Act::Update {
                    read["metadata"]["annotations"]["story"] = mark["story"].clone();
                }
                let answer = api.write(at, Write::Update, "controller", &read).await;
                self.kept(answer)?;
            }
            Act::Edit => {
                let value = format!("self.status.id + '{}'", self.story.len());
                let mut expressions = api.get(at).await["spec"]["operatorSpec"]["configMapExpressions"].clone();
                expressions[0]["value"] = json!(value);
                let patch = json!({ "spec": { "operatorSpec": { "configMapExpressions": expressions } } });
                self.patched(api, at, "kubectl-edit", patch).await?;
            }
            Act::ClientApply => {
                let wanted = maximal::spec(&self.kind.own_spec_schema(version).unwrap(), variant);
                let spec = client_apply::patch(&self.last_applied, &self.live["spec"], &wanted);
                let manifest = object(at, json!({}), &wanted).to_string();
                let patch = json!({ "metadata": { "annotations": { LAST_APPLIED: manifest } }, "spec": spec });
                if self.patched(api, at, "kubectl-client-side-apply", patch).await? {
                    self.last_applied = wanted;
                }
            }
            Act::ServerApply => {
                let wanted = maximal::spec(&self.kind.own_spec_schema(version).unwrap(), variant);
                let expected = ownership::after_apply(&self.live, "kubectl", &wanted);
                let manifest = object(at, json!({}), &wanted);
                let answer = api.write(at, Write::Apply, "kubectl", &manifest).await;
                self.changed(at, answer, &expected)?;
            }
        }
        Ok(())
    }

    /// Reads the object through a version: it must be all there.
    pub(crate) async fn reads_the_same(&self, api: &Api, version: &str) -> Result<()> {
        let read = api.get(self.at(version)).await;
        for part in ["spec", "status"] {
            self.is(&read[part], &self.live[part], &format!("{part} read through {version}"))?;
        }
        Ok(())
    }

    async fn patched(&mut self, api: &Api, at: Target<'_>, manager: &str, patch: Value) -> Result<bool> {
        let mut expected = self.live["spec"].clone();
        json_patch::merge(&mut expected, &patch["spec"]);
        let answer = api.write(at, Write::Merge, manager, &patch).await;
        self.changed(at, answer, &expected)
    }

    /// The act left spec and status alone.
    fn kept(&mut self, answer: Answer) -> Result<()> {
        let new = self.accepted(answer)?;
        for part in ["/spec", "/status", "/metadata/generation"] {
            self.is(new.pointer(part).unwrap(), self.live.pointer(part).unwrap(), part)?;
        }
        self.live = new;
        self.has_version()
    }

    /// The act made the spec as expected, or was refused for a good reason.
    fn changed(&mut self, at: Target<'_>, answer: Answer, expected: &Value) -> Result<bool> {
        let objections = judge::objections(&self.kind.own_spec_schema(at.version).unwrap(), expected);
        let lacking = objections.iter().find(|objection| objection.why == Why::Unknown && objection.at_top());
        match answer {
            Ok(new) => {
                self.is(&new["spec"], expected, "spec")?;
                self.is(&new["status"], &self.live["status"], "status")?;
                let moved = i64::from(new["spec"] != self.live["spec"]);
                let generation = self.live["metadata"]["generation"].as_i64().unwrap();
                self.is(&new["metadata"]["generation"], &json!(generation + moved), "generation")?;
                if let (1, Some(Objection { path, .. })) = (moved, lacking) {
                    bail!("{}: accepted {path}, which the version lacks", self.story());
                }
                self.live = new;
                self.version = self.version_after(at.version, moved == 1)?;
                self.has_version()?;
                Ok(true)
            }
            Err(refused) => {
                ensure!(refused.code == 422, "{}: {refused}", self.story());
                ensure!(!objections.is_empty(), "{}: refused for nothing: {refused}", self.story());
                if let Some(Objection { path, .. }) = lacking {
                    let fact = format!("{} does not exist in {}", path.trim_start_matches("spec."), at.version);
                    let advice = format!("use kubectl edit {}.", at.kind.entry().plural);
                    let said = |part: &str| refused.message.contains(part);
                    ensure!(said(&fact) && said(&advice), "{}: {fact}, {advice}: {refused}", self.story());
                }
                self.story.push("(refused)".to_owned());
                self.refused += 1;
                Ok(false)
            }
        }
    }

    /// The version that counts after an apply or edit through `version`.
    ///
    /// A server-side apply that changes no value gets no time of its own, or none at all. So it counts where nobody
    /// else owns the spec; else nobody can tell.
    fn version_after(&self, version: &str, moved: bool) -> Result<String> {
        let server_apply = self.story.last().is_some_and(|act| act.starts_with("ServerApply"));
        let entries = self.live["metadata"]["managedFields"].as_array().unwrap();
        let note = format!("/f:metadata/f:annotations/f:{}", LAST_APPLIED.replace('/', "~1"));
        let states = |fields: &Value| fields.get("f:spec").is_some() || fields.pointer(&note).is_some();
        let owners = entries.iter().filter(|entry| states(&entry["fieldsV1"])).count();
        let found = spec_version(&serde_json::from_value(self.live.clone())?);
        let unclear = server_apply && !moved && owners > 1 && found.as_deref() == Some(&*self.version);
        Ok(if unclear { self.version.clone() } else { version.to_owned() })
    }

    /// The worker sends what the user last wrote through the version that they wrote it through.
    fn has_version(&self) -> Result<()> {
        let object: DynamicObject = serde_json::from_value(self.live.clone())?;
        let found = spec_version(&object);
        if found.as_deref() != Some(&*self.version) {
            let mut entries = self.live["metadata"]["managedFields"].clone();
            for entry in entries.as_array_mut().into_iter().flatten() {
                let fields = entry["fieldsV1"].as_object().map(|fields| fields.keys().cloned().collect::<Vec<_>>());
                entry["fieldsV1"] = json!(fields);
            }
            bail!("{}: found version {found:?}, not {}, in {entries}", self.story(), self.version);
        }
        Ok(())
    }

    fn accepted(&self, answer: Answer) -> Result<Value> {
        answer.or_else(|refused| bail!("{}: {refused}", self.story()))
    }

    fn is(&self, found: &Value, expected: &Value, what: &str) -> Result<()> {
        let patch = || json_patch::diff(expected, found);
        ensure!(found == expected, "{}: {what} differs from what is expected by {}", self.story(), patch());
        Ok(())
    }

    fn at<'a>(&'a self, version: &'a str) -> Target<'a> {
        Target { kind: &self.kind, version, name: &self.name }
    }

    fn story(&self) -> String {
        format!("{} {}", self.kind.name(), self.story.join(", "))
    }
}
