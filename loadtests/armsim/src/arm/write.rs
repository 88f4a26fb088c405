//! PUT and PATCH.

use serde_json::{Map, Value, json};

use super::super::ArmId;
use super::super::answer::{Answer, Method};
use super::super::card::{self, Echo};
use super::super::error::Refusal;
use super::super::lro::Work;
use super::super::profile::{self, Follow, Reply};
use super::super::route::key;
use super::super::template;
use super::check::{json_body, not_found};
use super::{Arm, Visit};

impl Arm<'_> {
    pub(super) fn put(&mut self, id: &ArmId, api_version: &str, visit: &Visit<'_>) -> Result<Answer, Refusal> {
        let body = json_body(visit.call)?;
        self.check_scope(id, Method::Put)?;
        let location = self.check_location(id, &body)?;
        self.check_body(id, api_version, &body)?;
        self.check_name(id)?;
        self.check_etag(id, visit.call)?;
        self.check_busy(id, visit)?;
        self.check_needs(id, &body)?;
        let arm_type = id.resource_type();
        let profile = profile::of(&arm_type);
        let exists = self.azure.resource(&key(id)).is_some();
        let (work, reply) = if exists { (Work::Update, &profile.update) } else { (Work::Create, &profile.create) };
        let answer = self.write(id, body.clone(), location, (work, api_version, reply), visit);
        let answer = if card::of(&arm_type).echo == Echo::Request {
            Answer { body: Answer::json(200, body).body, ..answer }
        } else {
            answer
        };
        Ok(answer)
    }

    pub(super) fn patch(&mut self, id: &ArmId, api_version: &str, visit: &Visit<'_>) -> Result<Answer, Refusal> {
        let patch = json_body(visit.call)?;
        self.check_scope(id, Method::Patch)?;
        let Some(resource) = self.azure.resource(&key(id)) else { return Err(not_found(id)) };
        let mut body = resource.spec.clone();
        let old_location = resource.location.clone();
        json_patch::merge(&mut body, &patch);
        let location = self.check_location(id, &body)?.or(old_location);
        self.check_body(id, api_version, &body)?;
        self.check_etag(id, visit.call)?;
        self.check_busy(id, visit)?;
        self.check_needs(id, &body)?;
        let update = &profile::of(&id.resource_type()).update;
        // A PATCH that takes time answers 202 with Location, whatever a PUT does.
        let reply = if update.is_running() {
            let follow = if update.follow == Follow::Async { Follow::AsyncAndLocation } else { Follow::Location };
            Reply { status: 202, follow, ..update.clone() }
        } else {
            Reply { status: 200, follow: Follow::None, ..update.clone() }
        };
        Ok(self.write(id, body, location, (Work::Update, api_version, &reply), visit))
    }

    /// Writes what was checked, and answers in the form of the type.
    fn write(
        &mut self,
        id: &ArmId,
        mut spec: Value,
        location: Option<String>,
        how: (Work, &str, &Reply),
        visit: &Visit<'_>,
    ) -> Answer {
        let (work, api_version, reply) = how;
        let arm_type = id.resource_type();
        let create = &profile::of(&arm_type).create;
        let has_state = create.state.is_some() || create.follow.has_url();
        let running = if work == Work::Create { "Creating" } else { "Updating" };
        let state = has_state.then(|| {
            let settled = if reply.is_running() { running } else { "Succeeded" };
            reply.state.clone().unwrap_or_else(|| settled.to_owned())
        });
        self.write_embedded(id, &mut spec, work, visit);
        self.azure.write(id, spec, location, state, &visit.author());
        let key = key(id);
        let body = self.azure.resource(&key).map(|resource| self.shown(resource)).unwrap_or_default();
        // An accepted request whose body was never recorded has none.
        let mut answer = if reply.status == 202 && reply.state.is_none() {
            Answer::empty(202)
        } else {
            Answer::shared(reply.status, body)
        };
        if reply.follow == Follow::SelfLocation {
            let location =
                self.azure.resource(&key).and_then(|resource| resource.body["id"].as_str().map(str::to_owned));
            answer = answer.header("Location", location.unwrap_or_default());
        }
        if !reply.is_running() {
            return answer;
        }
        self.begin(work, id, api_version, reply, visit, answer)
    }

    /// Children that are part of the parent's body: those listed are written, the others go.
    fn write_embedded(&mut self, id: &ArmId, spec: &mut Value, work: Work, visit: &Visit<'_>) {
        for embed in &card::of(&id.resource_type()).embeds {
            let listed = template::at(spec, &embed.at).and_then(Value::as_array).cloned().unwrap_or_default();
            template::remove(spec, &embed.at);
            let prefix = format!("{}/{}/", key(id), embed.children.to_ascii_lowercase());
            let wanted: Vec<(ArmId, Value)> = listed
                .into_iter()
                .filter_map(|child| {
                    let name = child.get("name")?.as_str()?;
                    let child_spec = json!({"name": name, "properties": child.get("properties").cloned().unwrap_or(Value::Object(Map::new()))});
                    Some((id.child(&embed.children, name), child_spec))
                })
                .collect();
            if work == Work::Update {
                let there: Vec<String> = self.azure.below(&prefix).map(|(key, _)| key.to_owned()).collect();
                let stays = |there: &str| {
                    wanted.iter().any(|(id, _)| there == key(id) || there.starts_with(&format!("{}/", key(id))))
                };
                for gone in there.iter().filter(|there| !stays(there)) {
                    self.azure.remove(gone);
                }
            }
            for (child, spec) in wanted {
                self.azure.write(&child, spec, None, Some("Succeeded".to_owned()), &visit.author());
            }
        }
    }
}
