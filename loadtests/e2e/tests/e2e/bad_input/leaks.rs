//! No secret value shows anywhere that people look.

use anyhow::{Context as _, Result, ensure};
use flotilla_armsim::DEMO_CLIENT_SECRET;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DynamicObject, ListParams};

use crate::sandbox::Sandbox;

/// Looks for these values, and for the operator's own secret, in objects, events, logs and metrics.
pub(super) async fn check(sandbox: &Sandbox, objects: &[DynamicObject], secrets: &[&str]) -> Result<()> {
    let mut texts = Vec::new();
    for object in objects {
        let now = sandbox.get(object).await?;
        texts.push(("the object".to_owned(), serde_json::to_string(&now)?));
    }
    let events: Api<Event> = Api::namespaced(sandbox.cluster().client().clone(), &sandbox.namespace);
    for event in events.list(&ListParams::default()).await? {
        texts.push(("an event".to_owned(), serde_json::to_string(&event)?));
    }
    texts.extend(sandbox.testbed.logs()?);
    for (name, address) in sandbox.testbed.fleet().await.metrics() {
        let text = reqwest::get(format!("http://{address}/metrics")).await?.error_for_status()?.text().await?;
        ensure!(text.contains("flotilla"), "{name} has no metrics");
        texts.push((format!("the metrics of {name}"), text));
    }
    for (place, text) in &texts {
        for secret in secrets.iter().chain([&DEMO_CLIENT_SECRET]) {
            ensure!(!text.contains(*secret), "a secret value is in {place}");
        }
    }
    texts
        .iter()
        .find(|(place, text)| place.contains("worker") && !text.is_empty())
        .context("no worker logs anything")?;
    Ok(())
}
