//! What the leader tells of itself. Every name of this crate is here, except the budget's; described in `docs/metrics.md`.
//!
//! All are the leader's: sum over the coordinators, since a standby reports nothing.

use std::collections::BTreeMap;

use flotilla_proto::WorkerId;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Histogram, Meter};

use crate::fleet::Note;
use crate::handoff::Reason;
use crate::membership::State;

/// The instruments, registered once.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    leader: Gauge<u64>,
    term: Gauge<u64>,
    epoch: Gauge<u64>,
    shards: Gauge<u64>,
    objects: Gauge<f64>,
    workers: Gauge<u64>,
    kinds: Gauge<u64>,
    moves: Counter<u64>,
    move_seconds: Histogram<f64>,
    strays: Counter<u64>,
    unanswered: Counter<u64>,
    stale: Counter<u64>,
    slow_streams: Counter<u64>,
    map_writes: Counter<u64>,
    fences: Counter<u64>,
    wakes: Counter<u64>,
    crds: Gauge<u64>,
    crd_writes: Counter<u64>,
    kind_checks: Counter<u64>,
}

impl Metrics {
    /// Registers the instruments.
    pub(crate) fn new(meter: &Meter) -> Self {
        let gauge = |name: &'static str, text: &'static str| meter.u64_gauge(name).with_description(text).build();
        let counter = |name: &'static str, text: &'static str| meter.u64_counter(name).with_description(text).build();
        Self {
            leader: gauge("flotilla.coordinator.leader", "1 on the coordinator that leads, 0 on a standby"),
            term: gauge("flotilla.coordinator.term", "Term of the leader; grows with each election"),
            epoch: gauge("flotilla.coordinator.epoch", "Epoch of the shard map; grows with each change of an owner"),
            shards: gauge("flotilla.coordinator.shards", "Shards of each worker according to the shard map"),
            objects: meter
                .f64_gauge("flotilla.coordinator.objects")
                .with_description("Objects in each worker's shards, as last reported")
                .build(),
            workers: gauge("flotilla.coordinator.workers", "Workers by the state of their lease"),
            kinds: gauge("flotilla.coordinator.kinds", "Kinds that have objects"),
            moves: counter("flotilla.coordinator.moves", "Shards granted, by reason"),
            move_seconds: meter
                .f64_histogram("flotilla.coordinator.move")
                .with_unit("s")
                .with_description("Time a shard has no active owner: from the revoke, or from a dead owner's last sign of life, to the next grant")
                .with_boundaries(vec![0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 6.0, 8.0, 9.0, 10.0, 12.0, 15.0, 30.0])
                .build(),
            strays: counter(
                "flotilla.coordinator.strays",
                "Shards that a worker held although the shard map gives them to another",
            ),
            unanswered: counter(
                "flotilla.coordinator.unanswered_revokes",
                "Workers that lost their lease because they did not answer a revoke in time",
            ),
            stale: counter("flotilla.coordinator.stale_messages", "Messages from streams that had ended"),
            slow_streams: counter("flotilla.coordinator.slow_streams", "Streams that the leader ended because the worker did not read its messages"),
            map_writes: counter("flotilla.coordinator.map_writes", "Writes of the shard map by result"),
            fences: counter("flotilla.coordinator.fences", "Attempts to take a worker's lease away, by result"),
            wakes: counter("flotilla.coordinator.wakes", "Wake-ups sent to workers"),
            crds: gauge("flotilla.coordinator.crds", "CRDs by state: wanted, and installed of those"),
            crd_writes: counter("flotilla.coordinator.crd_writes", "CRDs and admission policies handled, by result"),
            kind_checks: counter(
                "flotilla.coordinator.kind_checks",
                "Checks whether a kind has objects, by cause",
            ),
        }
    }

    pub(crate) fn leading(&self, leads: bool) {
        self.leader.record(u64::from(leads), &[]);
    }

    pub(crate) fn map(&self, term: u64, epoch: u64, kinds: usize) {
        self.term.record(term, &[]);
        self.epoch.record(epoch, &[]);
        self.kinds.record(kinds as u64, &[]);
    }

    /// Shards and objects of each worker; one that is gone is shown with zero until the next leader.
    pub(crate) fn shards(&self, by_worker: &BTreeMap<WorkerId, (u64, f64)>) {
        let mut pods: BTreeMap<&str, (u64, f64)> = BTreeMap::new();
        for (worker, (shards, objects)) in by_worker {
            let pod = pods.entry(worker.pod()).or_default();
            pod.0 += shards;
            pod.1 += objects;
        }
        for (pod, (shards, objects)) in pods {
            let label = [KeyValue::new("worker", pod.to_owned())];
            self.shards.record(shards, &label);
            self.objects.record(objects, &label);
        }
    }

    pub(crate) fn workers(&self, states: impl Iterator<Item = State>) {
        let mut counts = BTreeMap::from([(State::Ready, 0), (State::Expired, 0), (State::Dead, 0)]);
        for state in states {
            *counts.entry(state).or_insert(0) += 1;
        }
        for (state, count) in counts {
            let word = match state {
                State::Ready => "ready",
                State::Expired => "expired",
                State::Dead => "dead",
            };
            self.workers.record(count, &[KeyValue::new("state", word)]);
        }
    }

    pub(crate) fn note(&self, note: &Note) {
        match note {
            Note::Granted { reason, unclean, took } => {
                let labels = [KeyValue::new("reason", reason.as_str()), KeyValue::new("unclean", *unclean)];
                self.moves.add(1, &labels);
                if *reason != Reason::Unowned {
                    self.move_seconds.record(took.as_secs_f64(), &labels);
                }
            }
            Note::Stray => self.strays.add(1, &[]),
            Note::Unanswered => self.unanswered.add(1, &[]),
            Note::Stale => self.stale.add(1, &[]),
        }
    }

    pub(crate) fn slow_stream(&self) {
        self.slow_streams.add(1, &[]);
    }

    pub(crate) fn map_write(&self, result: &'static str) {
        self.map_writes.add(1, &[KeyValue::new("result", result)]);
    }

    pub(crate) fn fence(&self, done: bool) {
        self.fences.add(1, &[KeyValue::new("result", if done { "done" } else { "changed" })]);
    }

    pub(crate) fn woke(&self, count: usize) {
        self.wakes.add(count as u64, &[]);
    }

    pub(crate) fn crds(&self, installed: usize, wanted: usize) {
        self.crds.record(installed as u64, &[KeyValue::new("state", "installed")]);
        self.crds.record(wanted as u64, &[KeyValue::new("state", "wanted")]);
    }

    pub(crate) fn crd_write(&self, result: &'static str) {
        self.crd_writes.add(1, &[KeyValue::new("result", result)]);
    }

    pub(crate) fn kind_check(&self, cause: &'static str) {
        self.kind_checks.add(1, &[KeyValue::new("cause", cause)]);
    }
}
