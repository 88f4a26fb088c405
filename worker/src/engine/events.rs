//! Kubernetes events: one when an object becomes ready, one when something keeps it from that, none while nothing changes.
//!
//! An event is a copy of what the condition says. It is written after the condition, and only if the condition was news, so
//! that there are never more events than changes. Losing one costs nothing that the condition does not say.

use std::sync::Arc;

use flotilla_proto::task::{Kind as TaskKind, Process};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::DynamicObject;
use tokio::sync::Semaphore;

use super::cluster::Cluster;
use super::condition::{Condition, Severity};
use super::names;
use super::object::Id;
use crate::metrics::{Metrics, Overflow};

/// Kubernetes refuses longer notes.
const NOTE_LENGTH: usize = 1000;
/// Events in flight: a second's worth at the API server's pace of 10 to 15 ms for each. Further ones are dropped and counted.
const IN_FLIGHT: usize = 64;

/// Writes events in the background.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    cluster: Cluster,
    pod: Arc<str>,
    slots: Arc<Semaphore>,
    process: Process,
    metrics: Arc<Metrics>,
}

impl Recorder {
    /// Events are reported by this pod.
    pub(crate) fn new(cluster: Cluster, pod: &str, process: Process, metrics: Arc<Metrics>) -> Self {
        Self { cluster, pod: pod.into(), slots: Arc::new(Semaphore::new(IN_FLIGHT)), process, metrics }
    }

    /// Writes an event about a condition that was just written in place of `before`.
    pub(crate) fn tell(&self, id: &Id, object: &DynamicObject, before: Option<&Condition>, now: &Condition) {
        let same = before.is_some_and(|before| before.reason == now.reason && before.status == now.status);
        let worth = now.is_true() || now.severity >= Severity::Warning;
        if !worth || (same && before.is_some_and(|before| before.observed_generation == now.observed_generation)) {
            return;
        }
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            self.metrics.overflowed(Overflow::Events, 1);
            return;
        };
        let (cluster, event, id) = (self.cluster.clone(), self.event(id, object, now), id.clone());
        let write = async move {
            if let Err(error) = cluster.event(&id.namespace, &event).await {
                tracing::debug!(object = %id, error = &error as &dyn std::error::Error, "Failed to write an event");
            }
            drop(slot);
        };
        self.process.start(TaskKind::EventWriter, |_| write).detach();
    }

    fn event(&self, id: &Id, object: &DynamicObject, condition: &Condition) -> Event {
        let types = object.types.clone().unwrap_or_default();
        let note = if condition.message.is_empty() { "Azure has what the spec states." } else { &condition.message };
        let unique = uuid::Uuid::new_v4().simple().to_string();
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{}", id.name, &unique[..16])),
                namespace: Some(id.namespace.to_string()),
                ..ObjectMeta::default()
            },
            action: Some("Reconcile".into()),
            event_time: Some(MicroTime(Timestamp::now())),
            note: Some(note.chars().take(NOTE_LENGTH).collect()),
            reason: Some(condition.reason.chars().take(128).collect()),
            regarding: Some(ObjectReference {
                api_version: Some(types.api_version),
                kind: Some(id.kind.kind.clone()),
                name: Some(id.name.to_string()),
                namespace: Some(id.namespace.to_string()),
                uid: object.metadata.uid.clone(),
                resource_version: object.metadata.resource_version.clone(),
                ..ObjectReference::default()
            }),
            reporting_controller: Some(names::REPORTER.into()),
            reporting_instance: Some(self.pod.to_string()),
            type_: Some(if condition.is_true() { "Normal" } else { "Warning" }.into()),
            ..Event::default()
        }
    }
}
