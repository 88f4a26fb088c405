//! The simulated resources and the operations on them.
//!
//! Kept true here: a resource never outlives its group or parent; an operation ends once, and has an effect only on the
//! life of the resource that it began with.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::ArmId;
use super::clock::{self, SimTime};
use super::dice::Dice;
use super::lro::{Operation, Progress, Work};
use super::render::Rendering;
use super::route::key;
use super::{card, profile};

/// A resource group or a resource.
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    pub(crate) id: ArmId,
    pub(crate) arm_type: String,
    /// What the last request said.
    pub(crate) spec: Value,
    /// In the form of ids.
    pub(crate) location: Option<String>,
    /// What a GET shows.
    pub(crate) body: Arc<Value>,
    pub(crate) etag: Option<String>,
    /// `provisioningState`, for types that have one.
    pub(crate) state: Option<String>,
    /// Whether it was ever provisioned, and did not fail since.
    pub(crate) provisioned: bool,
    /// The operation that it waits for.
    pub(crate) operation: Option<Arc<str>>,
    /// Whether it is being deleted.
    pub(crate) deleting: bool,
    /// Counts on with each creation, of whatever resource.
    pub(crate) life: u64,
    created: SimTime,
    created_by: Arc<str>,
    modified: SimTime,
    modified_by: Arc<str>,
    tenant: Arc<str>,
}

/// Who writes, and when.
#[derive(Debug, Clone)]
pub(crate) struct Author {
    pub(crate) now: SimTime,
    pub(crate) client_id: Arc<str>,
    pub(crate) tenant: Arc<str>,
}

#[derive(Debug)]
enum Event {
    /// An operation is done.
    End(Arc<str>),
    /// A resource goes because its group goes.
    Vanish { key: String, life: u64 },
    /// The record of an operation expires.
    Forget(Arc<str>),
}

/// Azure as armsim simulates it: all resources, operations and events to come.
#[derive(Debug)]
pub(crate) struct Azure {
    resources: BTreeMap<String, Resource>,
    operations: HashMap<String, Operation>,
    /// What happens when; the number keeps events of one moment apart and in order.
    events: BTreeMap<(SimTime, u64), Event>,
    /// Names that only one resource in the cloud can have, with its key.
    taken: HashMap<(String, String), String>,
    counter: u64,
    seed: u64,
    epoch: jiff::Timestamp,
    retention: Duration,
    pub(crate) dice: Dice,
}

impl Azure {
    pub(crate) fn new(seed: u64, epoch: jiff::Timestamp, retention: Duration) -> Self {
        Self {
            resources: BTreeMap::new(),
            operations: HashMap::new(),
            events: BTreeMap::new(),
            taken: HashMap::new(),
            counter: 0,
            seed,
            epoch,
            retention,
            dice: Dice::new(seed),
        }
    }

    pub(crate) fn epoch(&self) -> jiff::Timestamp {
        self.epoch
    }

    /// The number of resources and groups.
    pub(crate) fn len(&self) -> usize {
        self.resources.len()
    }

    pub(crate) fn resource(&self, key: &str) -> Option<&Resource> {
        self.resources.get(key)
    }

    /// All resources whose keys begin with a text, in the order of their keys.
    pub(crate) fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a Resource)> {
        self.resources
            .range(prefix.to_owned()..)
            .take_while(move |(key, _)| key.starts_with(prefix))
            .map(|(key, resource)| (key.as_str(), resource))
    }

    /// An operation by its id, whatever its casing.
    pub(crate) fn operation(&self, id: &str) -> Option<&Operation> {
        self.operations.get(&id.to_ascii_lowercase())
    }

    pub(crate) fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.operations.values()
    }

    /// The running operation that a resource waits for.
    pub(crate) fn running(&self, resource: &Resource) -> Option<&Operation> {
        resource.operation.as_deref().and_then(|id| self.operation(id)).filter(|operation| operation.is_running())
    }

    /// Who has a name that can only be had once.
    pub(crate) fn owner_of_name(&self, id: &ArmId) -> Option<&str> {
        self.taken.get(&unique_name(id)).map(String::as_str)
    }

    /// Creates or replaces.
    pub(crate) fn write(
        &mut self,
        id: &ArmId,
        spec: Value,
        location: Option<String>,
        state: Option<String>,
        author: &Author,
    ) {
        let key = key(id);
        let arm_type = id.resource_type();
        let etag = card::of(&arm_type).etag.then(|| format!("W/\"{}\"", self.dice.uuid()));
        let old = self.resources.remove(&key);
        let life = old.as_ref().map_or_else(|| self.count(), |old| old.life);
        if card::of(&arm_type).unique.is_some() {
            self.taken.insert(unique_name(id), key.clone());
        }
        let settled = state.as_deref().is_none_or(profile::is_terminal);
        let resource = Resource {
            // The casing of the creation is kept.
            id: old.as_ref().map_or_else(|| id.clone(), |old| old.id.clone()),
            arm_type,
            spec,
            location,
            body: Arc::new(Value::Null),
            etag,
            state,
            provisioned: settled || old.as_ref().is_some_and(|old| old.provisioned),
            operation: None,
            deleting: false,
            life,
            created: old.as_ref().map_or(author.now, |old| old.created),
            created_by: old.as_ref().map_or_else(|| Arc::clone(&author.client_id), |old| Arc::clone(&old.created_by)),
            modified: author.now,
            modified_by: Arc::clone(&author.client_id),
            tenant: Arc::clone(&author.tenant),
        };
        self.resources.insert(key.clone(), resource);
        self.render(&key);
    }

    /// Changes a resource in place and shows it anew.
    pub(crate) fn change(&mut self, key: &str, change: impl FnOnce(&mut Resource)) -> bool {
        let Some(resource) = self.resources.get_mut(key) else { return false };
        change(resource);
        let has_etag = resource.etag.is_some();
        if has_etag {
            let etag = format!("W/\"{}\"", self.dice.uuid());
            if let Some(resource) = self.resources.get_mut(key) {
                resource.etag = Some(etag);
            }
        }
        self.render(key);
        true
    }

    /// Removes a resource with everything in it.
    pub(crate) fn remove(&mut self, key: &str) -> bool {
        let inside: Vec<String> = self.below(&format!("{key}/")).map(|(key, _)| key.to_owned()).collect();
        for key in inside {
            self.remove_one(&key);
        }
        self.remove_one(key)
    }

    /// Starts an operation; its target waits for it.
    pub(crate) fn begin(&mut self, operation: Operation) {
        let (id, due) = (Arc::clone(&operation.id), operation.due);
        if let Some(resource) = self.resources.get_mut(&key(&operation.target)) {
            resource.operation = Some(Arc::clone(&id));
            resource.deleting = operation.work == Work::Delete;
        }
        self.operations.insert(id.to_ascii_lowercase(), operation);
        if let Some(due) = due {
            self.schedule(due, Event::End(id));
        }
    }

    /// Lets what is in a group go one by one, in any order, until `end`.
    pub(crate) fn empty_slowly(&mut self, group: &str, now: SimTime, end: SimTime) {
        let inside: Vec<(String, u64)> =
            self.below(&format!("{group}/")).map(|(key, resource)| (key.to_owned(), resource.life)).collect();
        for (key, life) in inside {
            let at = now + end.saturating_sub(now).mul_f64(self.dice.fraction() * 0.95);
            self.schedule(at, Event::Vanish { key, life });
        }
    }

    /// Moves the end of an operation; `None` holds it. False if no such operation runs.
    pub(crate) fn reschedule(&mut self, id: &str, due: Option<SimTime>, fail: Option<(String, String)>) -> bool {
        let Some(operation) =
            self.operations.get_mut(&id.to_ascii_lowercase()).filter(|operation| operation.is_running())
        else {
            return false;
        };
        operation.due = due;
        if fail.is_some() {
            operation.will_fail = fail;
        }
        let id = Arc::clone(&operation.id);
        if let Some(due) = due {
            self.schedule(due, Event::End(id));
        }
        true
    }

    /// Forgets an operation, as a service does after a while.
    pub(crate) fn forget(&mut self, id: &str) -> bool {
        self.operations.remove(&id.to_ascii_lowercase()).is_some()
    }

    /// Lets everything happen that is due.
    pub(crate) fn settle(&mut self, now: SimTime) {
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((at, _), event) = entry.remove_entry();
            match event {
                Event::End(id) => self.end(&id, at),
                Event::Forget(id) => {
                    self.forget(&id);
                }
                Event::Vanish { key, life } => {
                    if self.resources.get(&key).is_some_and(|resource| resource.life == life) {
                        self.remove(&key);
                    }
                }
            }
        }
    }

    fn end(&mut self, id: &str, at: SimTime) {
        let Some(operation) = self.operations.get_mut(&id.to_ascii_lowercase()) else { return };
        if !operation.is_running() || operation.due != Some(at) {
            return;
        }
        operation.ended = Some(at);
        operation.progress = match operation.will_fail.take() {
            Some((code, message)) => Progress::Failed { code, message },
            None => Progress::Succeeded,
        };
        let (operation, failed) = (operation.clone(), operation.progress != Progress::Succeeded);
        self.schedule(at + self.retention, Event::Forget(Arc::clone(&operation.id)));
        let key = key(&operation.target);
        let Some(resource) = self.resources.get(&key).filter(|resource| resource.life == operation.life) else {
            return;
        };
        // A later operation on the same resource decides what becomes of it.
        if resource.operation.as_deref() != Some(&*operation.id) {
            return;
        }
        if operation.work == Work::Delete && !failed {
            self.remove(&key);
            return;
        }
        self.change(&key, |resource| {
            resource.operation = None;
            resource.deleting = false;
            resource.provisioned = !failed;
            if resource.state.is_some() {
                resource.state = Some(if failed { "Failed" } else { "Succeeded" }.to_owned());
            }
        });
    }

    fn remove_one(&mut self, key: &str) -> bool {
        let Some(resource) = self.resources.remove(key) else { return false };
        let name = unique_name(&resource.id);
        if self.taken.get(&name).is_some_and(|owner| owner == key) {
            self.taken.remove(&name);
        }
        true
    }

    fn schedule(&mut self, at: SimTime, event: Event) {
        let number = self.count();
        self.events.insert((at, number), event);
    }

    fn count(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    fn render(&mut self, key: &str) {
        let Some(resource) = self.resources.get(key) else { return };
        #[expect(
            clippy::redundant_closure_for_method_calls,
            reason = "the method is only for one lifetime of the rendering, the closure for all"
        )]
        let body = self.rendering(resource, |rendering| rendering.body());
        if let Some(resource) = self.resources.get_mut(key) {
            resource.body = Arc::new(body);
        }
    }

    /// What is known of a resource when something is rendered for it.
    pub(crate) fn rendering<T>(&self, resource: &Resource, show: impl FnOnce(&Rendering<'_>) -> T) -> T {
        let other = |id: &str| self.resources.get(&id.to_ascii_lowercase()).map(|other| Arc::clone(&other.body));
        let state =
            if resource.deleting && resource.state.is_some() { Some("Deleting") } else { resource.state.as_deref() };
        show(&Rendering {
            id: &resource.id,
            arm_type: &resource.arm_type,
            spec: &resource.spec,
            location: resource.location.as_deref(),
            tenant: &resource.tenant,
            seed: &format!("{}/{}", self.seed, resource.life),
            created: &clock::text(self.epoch, resource.created),
            created_by: &resource.created_by,
            modified: &clock::text(self.epoch, resource.modified),
            modified_by: &resource.modified_by,
            etag: resource.etag.as_deref(),
            state,
            ready: resource.provisioned
                && resource.state.as_deref().is_none_or(|state| state.eq_ignore_ascii_case("Succeeded")),
            other: &other,
        })
    }
}

fn unique_name(id: &ArmId) -> (String, String) {
    (id.resource_type().to_ascii_lowercase(), id.name().to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::lro::Plan;
    use super::*;

    fn at(seconds: u64) -> SimTime {
        Duration::from_secs(seconds)
    }

    fn azure() -> Azure {
        Azure::new(1, jiff::Timestamp::UNIX_EPOCH, Duration::from_hours(1))
    }

    fn group() -> ArmId {
        ArmId::resource_group("s", "g")
    }

    fn write(azure: &mut Azure, id: &ArmId, state: &str, now: u64) {
        let author = Author { now: at(now), client_id: "c".into(), tenant: "t".into() };
        azure.write(id, json!({}), Some("westus2".into()), Some(state.into()), &author);
    }

    fn begin(azure: &mut Azure, id: &ArmId, work: Work, name: &str, due: Option<u64>) {
        let arm_type = id.resource_type();
        let life = azure.resource(&key(id)).unwrap().life;
        let reply = &profile::of(&arm_type).create;
        azure.begin(Operation::begin(Plan {
            id: name.into(),
            work,
            target: id,
            arm_type: &arm_type,
            location: "westus2",
            life,
            api_version: "v",
            reply,
            started: at(0),
            due: due.map(at),
            will_fail: None,
        }));
    }

    fn state(azure: &Azure, id: &ArmId) -> Option<String> {
        azure
            .resource(&key(id))
            .map(|resource| resource.body["properties"]["provisioningState"].as_str().unwrap().to_owned())
    }

    #[test]
    fn an_operation_ends_when_it_is_due_and_makes_its_resource_ready() {
        let mut azure = azure();
        let id = group().extension("Microsoft.App/managedEnvironments", "e");
        write(&mut azure, &id, "Waiting", 0);
        begin(&mut azure, &id, Work::Create, "op", Some(60));
        azure.settle(at(59));
        assert_eq!(state(&azure, &id).unwrap(), "Waiting");
        azure.settle(at(60));
        assert_eq!(
            (state(&azure, &id).unwrap(), azure.operation("OP").unwrap().ended),
            ("Succeeded".into(), Some(at(60)))
        );
        azure.settle(at(60 + 3601));
        assert!(azure.operation("op").is_none(), "records do not stay for ever");
    }

    #[test]
    fn a_held_operation_waits_for_a_hand_and_can_fail() {
        let mut azure = azure();
        let id = group().extension("Microsoft.App/jobs", "j");
        write(&mut azure, &id, "InProgress", 0);
        begin(&mut azure, &id, Work::Create, "op", None);
        azure.settle(at(9999));
        assert_eq!(state(&azure, &id).unwrap(), "InProgress");
        assert!(azure.reschedule("op", Some(at(9999)), Some(("Bad".into(), "luck".into()))));
        azure.settle(at(9999));
        assert_eq!(state(&azure, &id).unwrap(), "Failed");
        assert!(!azure.reschedule("op", None, None), "it is over");
    }

    #[test]
    fn a_deleted_and_created_again_resource_has_another_life() {
        let mut azure = azure();
        let id = group().extension("Microsoft.ManagedIdentity/userAssignedIdentities", "i");
        write(&mut azure, &id, "Succeeded", 0);
        let first = azure.resource(&key(&id)).unwrap().body["properties"]["principalId"].clone();
        begin(&mut azure, &id, Work::Delete, "op", Some(10));
        azure.remove(&key(&id));
        write(&mut azure, &id, "Succeeded", 5);
        azure.settle(at(10));
        let second =
            azure.resource(&key(&id)).expect("the delete was of the other life").body["properties"]["principalId"]
                .clone();
        assert_ne!(first, second);
        write(&mut azure, &id, "Succeeded", 11);
        assert_eq!(azure.resource(&key(&id)).unwrap().body["properties"]["principalId"], second, "an update keeps it");
    }

    #[test]
    fn a_group_that_goes_takes_everything_with_it_in_some_order() {
        let mut azure = azure();
        write(&mut azure, &group(), "Succeeded", 0);
        let ids: Vec<ArmId> = (0..20).map(|n| group().extension("Microsoft.X/y", &n.to_string())).collect();
        for id in &ids {
            write(&mut azure, id, "Succeeded", 0);
        }
        let role = ids[0].extension("Microsoft.Authorization/roleAssignments", "r");
        write(&mut azure, &role, "Succeeded", 0);
        begin(&mut azure, &group(), Work::Delete, "op", Some(30));
        azure.empty_slowly(&key(&group()), at(0), at(30));
        azure.settle(at(15));
        let left = azure.len();
        assert!((3..20).contains(&left), "{left} left half way");
        azure.settle(at(29));
        assert_eq!(azure.len(), 1, "only the group itself");
        azure.settle(at(30));
        assert_eq!(azure.len(), 0);
    }

    #[test]
    fn a_name_that_is_unique_is_free_again_after_the_delete() {
        let mut azure = azure();
        let id = group().extension("Microsoft.Storage/storageAccounts", "Acct");
        write(&mut azure, &id, "Succeeded", 0);
        assert_eq!(azure.owner_of_name(&id), Some(key(&id).as_str()));
        azure.remove(&key(&group()));
        assert_eq!(azure.owner_of_name(&id), None);
    }
}
