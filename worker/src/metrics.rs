//! The worker's metrics, all in one place. Label values come from closed sets.
//!
//! It stands below the engine and the fleet, which hand it what it shows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flotilla_proto::{GroupKind, Severity};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter};

use crate::arm::Verb;

/// The instruments.
#[derive(Debug)]
pub struct Metrics {
    reconciles: Counter<u64>,
    duration: Histogram<f64>,
    time_to_ready: Histogram<f64>,
    arm_calls: Counter<u64>,
    writes: Counter<u64>,
    dropped: Counter<u64>,
    overflows: Counter<u64>,
}

/// An enum whose values are those of a label.
pub trait Label {
    /// The value.
    fn label(&self) -> &'static str;
}

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The object became ready, or its status changed.
    Ready,
    /// There was nothing to do.
    Unchanged,
    /// It waits: for an operation, an owner, a reference.
    Waiting,
    /// Something went wrong.
    Failed,
    /// The object was released.
    Deleted,
    /// It belongs to another installation.
    Ignored,
    /// The object changed meanwhile; it is reconciled again.
    Conflict,
    /// The shard was handed off, or the lease ran out.
    Lost,
}

impl Outcome {
    /// As a metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Ready => "ready",
            Outcome::Unchanged => "unchanged",
            Outcome::Waiting => "waiting",
            Outcome::Failed => "failed",
            Outcome::Deleted => "deleted",
            Outcome::Ignored => "ignored",
            Outcome::Conflict => "conflict",
            Outcome::Lost => "lost",
        }
    }
}

/// A kind of write to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Finalizer, ARM id, owner and intent.
    Claim,
    /// The handle of an operation, set or removed.
    Operation,
    /// Status.
    Status,
    /// Removal of the finalizer.
    Release,
    /// An event.
    Event,
}

impl Write {
    /// As a metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            Write::Claim => "claim",
            Write::Operation => "operation",
            Write::Status => "status",
            Write::Release => "release",
            Write::Event => "event",
        }
    }
}

/// A bounded queue that drops what it has no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// Changed objects that the leader was to report to other workers.
    WakeUps,
    /// Kubernetes events.
    Events,
}

impl Label for Overflow {
    fn label(&self) -> &'static str {
        match self {
            Overflow::WakeUps => "wake_ups",
            Overflow::Events => "events",
        }
    }
}

/// Objects that are alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// Their kind.
    pub kind: Arc<GroupKind>,
    /// How bad.
    pub severity: Severity,
    /// Why.
    pub reason: String,
}

/// How many, and since when the first of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// How many.
    pub objects: u64,
    /// Since when the one that waits longest, in seconds of Unix time.
    pub since: i64,
}

/// Figures that are asked for when metrics are collected.
pub trait Gauges: Send + Sync + 'static {
    /// How many objects wait in each class.
    fn queue(&self) -> Vec<(&'static str, u64)>;
    /// How many shards are held.
    fn shards(&self) -> u64;
    /// How many long-running operations are followed.
    fn operations(&self) -> u64;
    /// How many objects are known.
    fn objects(&self) -> u64;
    /// What is not ready, why, and since when.
    fn unready(&self) -> BTreeMap<Group, Tally>;
}

impl Metrics {
    /// Registers the instruments with this meter.
    pub fn new(meter: &Meter) -> Self {
        Self {
            reconciles: meter
                .u64_counter("flotilla.reconciles")
                .with_description("Reconciles, by their result and their cause.")
                .build(),
            duration: meter
                .f64_histogram("flotilla.reconcile.duration")
                .with_unit("s")
                .with_description("Duration of one reconcile.")
                .build(),
            time_to_ready: meter
                .f64_histogram("flotilla.time_to_ready")
                .with_unit("s")
                .with_description("Time from the first sight of an object's new spec to Ready.")
                .with_boundaries(vec![0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0])
                .build(),
            arm_calls: meter
                .u64_counter("flotilla.arm.calls")
                .with_description("Calls to Azure Resource Manager, by method and class of the answer's status.")
                .build(),
            writes: meter
                .u64_counter("flotilla.object.writes")
                .with_description("Writes to the Kubernetes API server, by what is written.")
                .build(),
            dropped: meter
                .u64_counter("flotilla.writes.dropped")
                .with_description("Writes that the worker dropped because its claim on the object had ended.")
                .build(),
            overflows: meter
                .u64_counter("flotilla.overflows")
                .with_description("Items that the worker dropped because a bounded queue was full, by queue.")
                .build(),
        }
    }

    /// A reconcile ended.
    pub fn reconciled(&self, outcome: Outcome, class: &impl Label, took: Duration) {
        let labels = [KeyValue::new("result", outcome.as_str()), KeyValue::new("class", class.label())];
        self.reconciles.add(1, &labels);
        self.duration.record(took.as_secs_f64(), &labels[1..]);
    }

    /// An object became ready.
    pub fn became_ready(&self, after: Duration) {
        self.time_to_ready.record(after.as_secs_f64(), &[]);
    }

    /// ARM was called. Without a status there was no answer.
    pub fn called(&self, verb: Verb, status: Option<u16>) {
        let status = match status {
            Some(429) => "429",
            Some(200..=299) => "2xx",
            Some(300..=399) => "3xx",
            Some(400..=499) => "4xx",
            Some(_) => "5xx",
            None => "none",
        };
        self.arm_calls.add(1, &[KeyValue::new("verb", verb.as_str()), KeyValue::new("status", status)]);
    }

    /// Something was written to the API server.
    pub fn wrote(&self, write: Write) {
        self.writes.add(1, &[KeyValue::new("write", write.as_str())]);
    }

    /// A write was not made because its claim had ended.
    pub fn dropped(&self) {
        self.dropped.add(1, &[]);
    }

    /// A full queue dropped so many items.
    pub fn overflowed(&self, queue: Overflow, items: u64) {
        self.overflows.add(items, &[KeyValue::new("queue", queue.label())]);
    }
}

/// Shows figures of a running worker as gauges, until its process ends.
pub fn show(meter: &Meter, gauges: Arc<dyn Gauges>) {
    let source = Arc::clone(&gauges);
    meter
        .u64_observable_gauge("flotilla.queue.length")
        .with_description("Objects that wait for a reconcile now, by its cause.")
        .with_callback(move |observer| {
            for (class, length) in source.queue() {
                observer.observe(length, &[KeyValue::new("class", class)]);
            }
        })
        .build();
    let source = Arc::clone(&gauges);
    meter
        .u64_observable_gauge("flotilla.shards.held")
        .with_description("Shards that this worker holds.")
        .with_callback(move |observer| observer.observe(source.shards(), &[]))
        .build();
    let source = Arc::clone(&gauges);
    meter
        .u64_observable_gauge("flotilla.operations.in_flight")
        .with_description("Long-running operations that this worker polls.")
        .with_callback(move |observer| observer.observe(source.operations(), &[]))
        .build();
    let source = Arc::clone(&gauges);
    meter
        .u64_observable_gauge("flotilla.objects")
        .with_description("Objects in the shards that this worker holds.")
        .with_callback(move |observer| observer.observe(source.objects(), &[]))
        .build();
    let source = Arc::clone(&gauges);
    meter
        .u64_observable_gauge("flotilla.objects.unready")
        .with_description("Objects that are not ready, by kind and by reason and severity of their Ready condition.")
        .with_callback(move |observer| {
            for (group, tally) in source.unready() {
                observer.observe(tally.objects, &labels(&group));
            }
        })
        .build();
    meter
        .i64_observable_gauge("flotilla.objects.unready.since")
        .with_unit("s")
        .with_description("Unix time since which the first of these objects has not been ready.")
        .with_callback(move |observer| {
            for (group, tally) in gauges.unready() {
                observer.observe(tally.since, &labels(&group));
            }
        })
        .build();
}

fn labels(group: &Group) -> [KeyValue; 4] {
    let severity = match group.severity {
        Severity::None => "none",
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Error => "error",
    };
    [
        KeyValue::new("group", group.kind.group.clone()),
        KeyValue::new("kind", group.kind.kind.clone()),
        KeyValue::new("reason", group.reason.clone()),
        KeyValue::new("severity", severity),
    ]
}

/// Shows whether a leader answers. The last value sent counts.
pub fn connected(meter: &Meter) -> tokio::sync::watch::Sender<bool> {
    let (sender, receiver) = tokio::sync::watch::channel(false);
    meter
        .u64_observable_gauge("flotilla.leader.connected")
        .with_description("1 while a leading coordinator answers this worker.")
        .with_callback(move |observer| observer.observe(u64::from(*receiver.borrow()), &[]))
        .build();
    sender
}
