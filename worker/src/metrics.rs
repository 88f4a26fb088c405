//! The worker's metrics, all in one place. Label values come from closed sets.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use opentelemetry::metrics::{Counter, Histogram, Meter};
use opentelemetry::{KeyValue, global};

use crate::arm::Verb;
use crate::engine::condition::Severity;
use crate::engine::queue::Class;
use crate::engine::unready::{Group, Tally};

/// The instruments.
#[derive(Debug)]
pub struct Metrics {
    reconciles: Counter<u64>,
    duration: Histogram<f64>,
    time_to_ready: Histogram<f64>,
    arm_calls: Counter<u64>,
    writes: Counter<u64>,
    dropped: Counter<u64>,
}

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The object became ready, or its status changed.
    Ready,
    /// Nothing was to be done.
    Unchanged,
    /// It waits: for an operation, an owner, a reference.
    Waiting,
    /// Something went wrong.
    Failed,
    /// The object was let go.
    Deleted,
    /// It is another installation's.
    Ignored,
    /// The object changed meanwhile; it is looked at again.
    Conflict,
    /// The shard was handed on, or the lease ran out.
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

/// Figures that are asked for when metrics are collected.
pub trait Gauges: Send + Sync + 'static {
    /// How many objects wait in each class.
    fn queue(&self) -> Vec<(Class, u64)>;
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
    /// The process's instruments. The first call makes them, so the meter provider must be set before.
    pub fn global() -> &'static Metrics {
        static METRICS: OnceLock<Metrics> = OnceLock::new();
        METRICS.get_or_init(|| Metrics::new(&meter()))
    }

    fn new(meter: &Meter) -> Self {
        Self {
            reconciles: meter
                .u64_counter("flotilla.reconciles")
                .with_description("Looks at objects, by how they ended and why the object was looked at.")
                .build(),
            duration: meter
                .f64_histogram("flotilla.reconcile.duration")
                .with_unit("s")
                .with_description("Time from the begin to the end of a look at an object.")
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
                .with_description("Writes that were not made because the claim on the object had ended.")
                .build(),
        }
    }

    /// A look at an object ended.
    pub fn reconciled(&self, outcome: Outcome, class: Class, took: Duration) {
        let labels = [KeyValue::new("result", outcome.as_str()), KeyValue::new("class", class.as_str())];
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
}

/// Shows figures of a running worker as gauges, until its process ends.
pub fn show(gauges: std::sync::Arc<dyn Gauges>) {
    let meter = meter();
    let source = std::sync::Arc::clone(&gauges);
    meter
        .u64_observable_gauge("flotilla.queue.length")
        .with_description("Objects that wait to be looked at now, by why.")
        .with_callback(move |observer| {
            for (class, length) in source.queue() {
                observer.observe(length, &[KeyValue::new("class", class.as_str())]);
            }
        })
        .build();
    let source = std::sync::Arc::clone(&gauges);
    meter
        .u64_observable_gauge("flotilla.shards.held")
        .with_description("Shards that this worker holds.")
        .with_callback(move |observer| observer.observe(source.shards(), &[]))
        .build();
    let source = std::sync::Arc::clone(&gauges);
    meter
        .u64_observable_gauge("flotilla.operations.in_flight")
        .with_description("Long-running operations that this worker follows.")
        .with_callback(move |observer| observer.observe(source.operations(), &[]))
        .build();
    let source = std::sync::Arc::clone(&gauges);
    meter
        .u64_observable_gauge("flotilla.objects")
        .with_description("Objects in the shards that this worker holds.")
        .with_callback(move |observer| observer.observe(source.objects(), &[]))
        .build();
    let source = std::sync::Arc::clone(&gauges);
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
pub fn connected() -> tokio::sync::watch::Sender<bool> {
    let (sender, receiver) = tokio::sync::watch::channel(false);
    meter()
        .u64_observable_gauge("flotilla.leader.connected")
        .with_description("1 while a leading coordinator answers this worker.")
        .with_callback(move |observer| observer.observe(u64::from(*receiver.borrow()), &[]))
        .build();
    sender
}

fn meter() -> Meter {
    global::meter("flotilla_worker")
}
