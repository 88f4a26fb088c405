//! Armsim's controls: everything the admin API can do, for tests in the same process.
//!
//! Kept true here: what is done by hand takes effect before the next call is answered.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ArmId;
use super::azure::Resource;
use super::clock::SimTime;
use super::edge::Shared;
use super::entra::App;
use super::fault::{self, Rule, Status};
use super::journal::{Filter, Page, Summary};
use super::limits::Rates;
use super::lro::{Operation, Progress, Work};
use super::profile;
use super::route::key;
use super::settings::{self, Change, RatesChange, Settings};
use super::sim::Sim;

/// The controls. Cheap to clone.
#[derive(Clone)]
pub struct Control(pub(crate) Shared);

/// Why something cannot be done by hand.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting makes no sense.
    #[error("failed to change the settings")]
    Settings(#[from] settings::Error),
    /// A glob cannot be read.
    #[error("failed to read a rule or filter")]
    Fault(#[from] fault::Error),
    /// It does not exist.
    #[error("{what} {name:?} was not found")]
    NotFound {
        /// What was looked for.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A number of seconds is out of bounds.
    #[error("{0} is not a number of seconds between 0 and a billion")]
    Seconds(f64),
    /// A text is not an id.
    #[error("failed to read an id")]
    Id(#[from] flotilla_crds::ArmIdError),
}

/// An operation, as the controls show it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationView {
    /// Its id: the last part of its URLs.
    pub id: String,
    /// What it does.
    pub work: Work,
    /// The id of its resource.
    pub target: String,
    /// The type of its resource.
    #[serde(rename = "type")]
    pub arm_type: String,
    /// How far it is.
    pub progress: Progress,
    /// When it began, in simulated seconds.
    pub started: f64,
    /// When it will be done, in simulated seconds; none if it is held.
    pub due: Option<f64>,
    /// When it ended, in simulated seconds.
    pub ended: Option<f64>,
}

/// A resource, as the controls show it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceView {
    /// Its id, in the casing of its creation.
    pub id: String,
    /// Its type.
    #[serde(rename = "type")]
    pub arm_type: String,
    /// Its provisioning state, if its type has one.
    pub provisioning_state: Option<String>,
    /// The operation it waits for.
    pub operation: Option<String>,
    /// What the last request said.
    pub spec: Value,
    /// What a GET shows.
    pub body: Value,
}

/// Which resources.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ResourceFilter {
    /// Only these types: a glob without letter case.
    #[serde(rename = "type")]
    pub arm_type: Option<String>,
    /// Only what is in this subscription, group or resource, and it itself.
    pub within: Option<String>,
}

/// A change of a resource behind everybody's back.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceChange {
    /// The resource.
    pub id: String,
    /// A JSON merge patch on what the last request said.
    #[serde(default)]
    pub merge: Value,
    /// Another provisioning state.
    #[serde(default)]
    pub provisioning_state: Option<String>,
}

/// How much there is.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Resources and groups.
    pub resources: usize,
    /// Operations that run.
    pub running_operations: usize,
    /// Calls in the journal.
    pub calls: u64,
    /// Simulated seconds since the start.
    pub sim_seconds: f64,
}

impl Control {
    /// How much there is.
    pub fn counts(&self) -> Counts {
        self.with(|sim, now| Counts {
            resources: sim.azure.len(),
            running_operations: sim.azure.operations().filter(|operation| operation.is_running()).count(),
            calls: sim.journal.next_seq() - 1,
            sim_seconds: now.as_secs_f64(),
        })
    }

    /// The settings.
    pub fn settings(&self) -> Settings {
        self.with(|sim, _| sim.settings.clone())
    }

    /// Changes settings; operations that run already keep their end.
    pub fn change(&self, change: Change) -> Result<Settings, Error> {
        self.with(|sim, _| {
            let old = sim.settings.clone();
            let new = Settings {
                time_scale: change.time_scale.unwrap_or(old.time_scale),
                latency_millis: change.latency_millis.unwrap_or(old.latency_millis),
                rates: change.rates.map_or(old.rates, RatesChange::rates),
                hold: change.hold.unwrap_or(old.hold),
                durations: change.durations.unwrap_or(old.durations),
                region: change.region.unwrap_or(old.region),
                page_size: change.page_size.unwrap_or(old.page_size),
            };
            new.check()?;
            sim.clock.set_scale(Instant::now(), new.time_scale);
            if new.rates != sim.limits.rates() {
                sim.limits.set_rates(new.rates);
            }
            sim.settings = new.clone();
            Ok(new)
        })
    }

    /// Jumps forward in simulated time. Returns the time reached, in seconds since the start.
    pub fn advance(&self, seconds: f64) -> Result<f64, Error> {
        let by = duration(seconds)?;
        Ok(self.with(|sim, _| {
            sim.clock.advance(by);
            let now = sim.clock.at(Instant::now());
            sim.azure.settle(now);
            now.as_secs_f64()
        }))
    }

    /// Adds a fault rule. Returns its number.
    pub fn add_fault(&self, rule: Rule) -> Result<u64, Error> {
        Ok(self.with(|sim, _| sim.faults.add(rule))?)
    }

    /// The fault rules and how often they were met.
    pub fn faults(&self) -> Vec<Status> {
        self.with(|sim, _| sim.faults.list())
    }

    /// Removes a fault rule.
    pub fn remove_fault(&self, id: u64) -> Result<(), Error> {
        found(self.with(|sim, _| sim.faults.remove(id)), "fault", &id.to_string())
    }

    /// Removes all fault rules.
    pub fn clear_faults(&self) {
        self.with(|sim, _| sim.faults.clear());
    }

    /// All operations that are remembered, the oldest first.
    pub fn operations(&self) -> Vec<OperationView> {
        let mut views: Vec<OperationView> = self.with(|sim, _| sim.azure.operations().map(OperationView::of).collect());
        views.sort_by(|a, b| a.started.total_cmp(&b.started).then_with(|| a.id.cmp(&b.id)));
        views
    }

    /// Lets an operation wait until it is ended by hand.
    pub fn hold_operation(&self, id: &str) -> Result<(), Error> {
        self.reschedule(id, |_, _| None, None)
    }

    /// Lets an operation end well, now.
    pub fn finish_operation(&self, id: &str) -> Result<(), Error> {
        self.reschedule(id, |_, now| Some(now), None)
    }

    /// Lets an operation fail, now.
    pub fn fail_operation(&self, id: &str, code: &str, message: &str) -> Result<(), Error> {
        self.reschedule(id, |_, now| Some(now), Some((code.to_owned(), message.to_owned())))
    }

    /// Brings the end of an operation nearer by simulated seconds; one that is held goes on.
    pub fn advance_operation(&self, id: &str, seconds: f64) -> Result<(), Error> {
        let by = duration(seconds)?;
        let due = move |operation: &Operation, now: SimTime| {
            Some(operation.due.map_or(now, |due| due.saturating_sub(by)).max(now))
        };
        self.reschedule(id, due, None)
    }

    /// Forgets the record of an operation, as a service may.
    pub fn forget_operation(&self, id: &str) -> Result<(), Error> {
        found(self.with(|sim, _| sim.azure.forget(id)), "operation", id)
    }

    /// The resources and groups that fit, in the order of their ids.
    pub fn resources(&self, filter: &ResourceFilter) -> Result<Vec<ResourceView>, Error> {
        let glob = filter.arm_type.as_deref().map(fault::matcher).transpose()?;
        let within = filter.within.as_deref().unwrap_or_default().trim_end_matches('/').to_ascii_lowercase();
        let inside = |key: &str| key.strip_prefix(&within).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let fits = |resource: &Resource| glob.as_ref().is_none_or(|glob| glob.is_match(&resource.arm_type));
        Ok(self.with(|sim, _| {
            let all = sim.azure.below(&within).filter(|(key, resource)| inside(key) && fits(resource));
            all.map(|(_, resource)| ResourceView::of(resource)).collect()
        }))
    }

    /// One resource or group.
    pub fn resource(&self, id: &str) -> Option<ResourceView> {
        let key = ArmId::parse(id).ok().map(|id| key(&id))?;
        self.with(|sim, _| sim.azure.resource(&key).map(ResourceView::of))
    }

    /// Changes a resource behind everybody's back. Nothing of it is in the journal.
    pub fn change_resource(&self, change: &ResourceChange) -> Result<ResourceView, Error> {
        let key = key(&ArmId::parse(&change.id)?);
        let changed = self.with(|sim, _| {
            let changed = sim.azure.change(&key, |resource| {
                json_patch::merge(&mut resource.spec, &merge_of(&change.merge));
                if let Some(state) = &change.provisioning_state {
                    resource.provisioned = profile::is_terminal(state) && !state.eq_ignore_ascii_case("Failed");
                    resource.state = Some(state.clone());
                }
            });
            changed.then(|| sim.azure.resource(&key).map(ResourceView::of)).flatten()
        });
        changed.ok_or_else(|| Error::NotFound { what: "resource", name: change.id.clone() })
    }

    /// Deletes a resource with everything in it behind everybody's back.
    pub fn delete_resource(&self, id: &str) -> Result<(), Error> {
        let key = key(&ArmId::parse(id)?);
        found(self.with(|sim, _| sim.azure.remove(&key)), "resource", id)
    }

    /// The calls that fit.
    pub fn journal(&self, filter: &Filter) -> Result<Page, Error> {
        Ok(self.with(|sim, _| sim.journal.page(filter))?)
    }

    /// How many calls fit, by what they were.
    pub fn summary(&self, filter: &Filter) -> Result<Summary, Error> {
        Ok(self.with(|sim, _| sim.journal.summary(filter))?)
    }

    /// Registers an application, or replaces the one of its tenant and client id.
    pub fn register_app(&self, app: App) {
        self.with(|sim, _| sim.directory.register(app));
    }

    /// Makes every token issued so far expire. Returns how many there are.
    pub fn expire_tokens(&self) -> usize {
        self.with(|sim, _| sim.directory.expire_tokens(Instant::now()))
    }

    /// Fills armsim with groups and resources without any call, for load tests: `groups` groups with `per_group` virtual
    /// networks each.
    pub fn populate(&self, subscription: &str, groups: usize, per_group: usize) {
        self.with(|sim, now| {
            let author = super::azure::Author { now, client_id: "armsim".into(), tenant: "armsim".into() };
            let mut write = |id: &ArmId, spec: Value| {
                sim.azure.write(id, spec, Some("westus2".into()), Some("Succeeded".into()), &author);
            };
            for group in 0..groups {
                let id = ArmId::resource_group(subscription, &format!("load-{group:04}"));
                write(&id, serde_json::json!({"location": "westus2"}));
                for vnet in 0..per_group {
                    let id = id.extension("Microsoft.Network/virtualNetworks", &format!("vnet-{vnet:04}"));
                    let spec = serde_json::json!({"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}}});
                    write(&id, spec);
                }
            }
        });
    }

    fn reschedule(
        &self,
        id: &str,
        due: impl FnOnce(&Operation, SimTime) -> Option<SimTime>,
        fail: Option<(String, String)>,
    ) -> Result<(), Error> {
        let done = self.with(|sim, now| {
            let Some(due) = sim.azure.operation(id).map(|operation| due(operation, now)) else { return false };
            let done = sim.azure.reschedule(id, due, fail);
            sim.azure.settle(now);
            done
        });
        found(done, "running operation", id)
    }

    fn with<T>(&self, act: impl FnOnce(&mut Sim, SimTime) -> T) -> T {
        let mut sim = self.0.lock();
        let now = sim.clock.at(Instant::now());
        sim.azure.settle(now);
        act(&mut sim, now)
    }
}

impl OperationView {
    fn of(operation: &Operation) -> Self {
        Self {
            id: operation.id.to_string(),
            work: operation.work,
            target: operation.target.to_string(),
            arm_type: operation.arm_type.clone(),
            progress: operation.progress.clone(),
            started: operation.started.as_secs_f64(),
            due: operation.due.map(|due| due.as_secs_f64()),
            ended: operation.ended.map(|ended| ended.as_secs_f64()),
        }
    }
}

impl ResourceView {
    fn of(resource: &Resource) -> Self {
        Self {
            id: resource.id.to_string(),
            arm_type: resource.arm_type.clone(),
            provisioning_state: resource.state.clone(),
            operation: resource.operation.as_deref().map(str::to_owned),
            spec: resource.spec.clone(),
            body: Value::clone(&resource.body),
        }
    }
}

impl RatesChange {
    fn rates(self) -> Option<Rates> {
        match self {
            Self::On(true) => Some(Rates::default()),
            Self::On(false) => None,
            Self::To(rates) => Some(rates),
        }
    }
}

/// No merge patch changes nothing; a merge patch `null` would replace everything.
fn merge_of(merge: &Value) -> Value {
    if merge.is_null() { Value::Object(serde_json::Map::new()) } else { merge.clone() }
}

fn duration(seconds: f64) -> Result<Duration, Error> {
    if (0.0..=1e9).contains(&seconds) { Ok(Duration::from_secs_f64(seconds)) } else { Err(Error::Seconds(seconds)) }
}

fn found(found: bool, what: &'static str, name: &str) -> Result<(), Error> {
    if found { Ok(()) } else { Err(Error::NotFound { what, name: name.to_owned() }) }
}
