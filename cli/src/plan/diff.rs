//! What a plan would change in Azure: reads every resource and compares.
//!
//! *Guarantees*: only GETs are sent. Resources are read in the plan's order, so values that one exports are known when the next is made.
//! *Caveats*: what a GET never returns, such as a password, can't be compared and counts as equal.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use flotilla_crds::Version;
use flotilla_worker::arm::{Call, Client, Identity, error};
use flotilla_worker::budget::Priority;
use serde_json::{Value, json};

use super::check::Checker;
use super::manifest::Manifests;
use super::planner::{Planner, Request, UNKNOWN};
use super::{Plan, yaml};
use crate::settings::{Azure, Credential};

/// A read that Azure refuses for the moment is tried so often.
const TRIES: u32 = 5;
/// The longest wait before another try.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a request would do.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Nothing.
    None,
    /// Make a resource that is not there.
    Create,
    /// Change some properties.
    Update(Vec<Found>),
}

/// A property that Azure has otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The property, as in `properties.sku.name`.
    pub path: String,
    /// What the manifest states.
    pub stated: Value,
    /// What Azure has; null where it has nothing.
    pub live: Value,
}

impl Change {
    /// For tools.
    pub fn to_value(&self) -> Value {
        match self {
            Self::None => json!({"kind": "none"}),
            Self::Create => json!({"kind": "create"}),
            Self::Update(found) => {
                let differences: Vec<Value> =
                    found.iter().map(|f| json!({"path": f.path, "azure": f.live, "stated": f.stated})).collect();
                json!({"kind": "update", "differences": differences})
            }
        }
    }
}

/// Plans, reads Azure, and keeps the requests that would change something.
pub(crate) async fn plan(manifests: &Manifests, credential: &Credential, azure: &Azure) -> Result<Plan> {
    let client = Client::new(&azure.client("plan")).context("failed to build the ARM client")?;
    let identity = credential.settings(azure.cloud()?)?.global(&client).ok_or_else(|| {
        anyhow!("--diff needs a credential: set AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_CLIENT_SECRET and AZURE_SUBSCRIPTION_ID")
    })?;
    let mut planner = Planner::new(manifests, &identity.subscription);
    let mut checker = Checker::default();
    let mut plan = Plan::default();
    for index in super::ordered(manifests, &mut planner, &mut plan.problems) {
        let request = super::step(manifests, &mut planner, &mut checker, index, &mut plan.problems);
        let Some(mut request) = request else { continue };
        let live =
            read(&client, &identity, &request).await.with_context(|| format!("failed to read {}", request.object))?;
        if let Some(version) = manifests.resources[index].version() {
            if let Some(live) = &live {
                request.keep_children(version, live);
            }
            let change = compare(version, &request, live.as_ref());
            if change != Change::None {
                plan.changes.push(change);
                plan.requests.push(request);
            }
        }
        if let Some(live) = live {
            planner.observe(index, live);
        }
    }
    Ok(plan)
}

/// What a request would change, given what Azure has.
pub(crate) fn compare(version: &Version, request: &Request, live: Option<&Value>) -> Change {
    let Some(live) = live else {
        return if request.method == "PUT" { Change::Create } else { Change::None };
    };
    let mut found = Vec::new();
    for difference in version.stated_differences(&request.body, live) {
        let stated = look_up(&request.shown, &request.shown, &difference.path);
        // What is not known yet can't differ.
        if !stated.to_string().contains(UNKNOWN) {
            found.push(Found { live: look_up(live, &request.shown, &difference.path), stated, path: difference.path });
        }
    }
    if found.is_empty() { Change::None } else { Change::Update(found) }
}

/// The value at a path of `stated`, in `of`, whose lists may have the same objects in another order.
fn look_up(of: &Value, stated: &Value, path: &str) -> Value {
    let (mut of, mut stated) = (of, stated);
    for segment in yaml::segments(path) {
        let step = match (stated, of) {
            (Value::Array(items), Value::Array(others)) => segment.parse().ok().and_then(|i: usize| {
                let item = items.get(i)?;
                let same = |other: &&Value| {
                    ["name", "id", "key"].iter().find(|k| item[**k].is_string()).is_some_and(|k| {
                        let text = |value: &Value| value[*k].as_str().map(str::to_lowercase);
                        text(item) == text(other)
                    })
                };
                Some((item, others.iter().find(same).or(others.get(i))?))
            }),
            (Value::Object(_), Value::Object(others)) => stated.get(segment).and_then(|next| {
                let found = others.get(segment);
                let alike = || others.iter().find(|(k, _)| k.eq_ignore_ascii_case(segment)).map(|(_, v)| v);
                Some((next, found.or_else(alike)?))
            }),
            _ => None,
        };
        let Some(step) = step else { return Value::Null };
        (stated, of) = step;
    }
    of.clone()
}

async fn read(client: &Client, identity: &Arc<Identity>, request: &Request) -> Result<Option<Value>> {
    // What has no full id yet can't be there.
    if request.is_unknown() {
        return Ok(None);
    }
    let call = || Call::get(request.id.as_str(), &request.api_version, Priority::UserChange);
    let mut tries = 1;
    loop {
        let failure = match client.send(identity, call()).await {
            Ok(answer) => return Ok(Some(answer.body)),
            Err(failure) if failure.is_gone() => return Ok(None),
            Err(failure) => failure,
        };
        let passes = matches!(
            failure.category(),
            error::Category::Throttled | error::Category::Transient | error::Category::Unreachable
        );
        if !passes || tries == TRIES {
            return Err(anyhow!("{}", failure.message()));
        }
        let wait = failure.retry_after().unwrap_or_else(|| failure.retry().delay(tries, None));
        tokio::time::sleep(wait.min(PATIENCE)).await;
        tries += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_items_are_found_by_their_name() {
        let stated = json!({"p": {"c": [{"name": "a", "x": 1}, {"name": "B", "x": 2}], "l": [1, 2]}});
        let live = json!({"p": {"C": [{"name": "b", "x": 3}, {"name": "a"}], "l": [1]}});
        assert_eq!(look_up(&live, &stated, "p.c[1].x"), json!(3));
        assert_eq!(look_up(&live, &stated, "p.c[0].x"), Value::Null);
        assert_eq!(look_up(&live, &stated, "p.l[1]"), Value::Null);
        assert_eq!(look_up(&stated, &stated, "p.c[0].x"), json!(1));
    }
}
