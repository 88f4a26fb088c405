//! What the leader tells about the budget. Described in `docs/metrics.md`.

use std::time::{Duration, Instant};

use flotilla_proto::Class;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Meter};

use super::ledger::Ledger;

/// The leader's instruments.
#[derive(Clone, Debug)]
pub struct Metrics {
    tokens: Counter<u64>,
    level: Gauge<f64>,
    parked: Gauge<u64>,
    parked_time: Counter<f64>,
    throttled: Counter<u64>,
}

/// What happened to tokens.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// Handed to a worker.
    Granted,
    /// Given back unused.
    Returned,
    /// Ended with no word of what was left; counted as spent.
    Forfeited,
}

impl Event {
    const fn as_str(self) -> &'static str {
        match self {
            Event::Granted => "granted",
            Event::Returned => "returned",
            Event::Forfeited => "forfeited",
        }
    }
}

impl Metrics {
    /// Registers the instruments.
    pub fn new(meter: &Meter) -> Self {
        Self {
            tokens: meter
                .u64_counter("flotilla.budget.tokens")
                .with_description("Tokens of ARM's buckets that the leader granted, got back, or counted as spent")
                .build(),
            level: meter
                .f64_gauge("flotilla.budget.level")
                .with_unit("1")
                .with_description("How full the emptiest of ARM's buckets is, as the leader sees it")
                .build(),
            parked: meter
                .u64_gauge("flotilla.budget.parked")
                .with_description("Buckets that are parked because ARM answered 429")
                .build(),
            parked_time: meter
                .f64_counter("flotilla.budget.parked.time")
                .with_unit("s")
                .with_description("Time that buckets spent parked because ARM answered 429")
                .build(),
            throttled: meter
                .u64_counter("flotilla.budget.throttled")
                .with_description("Answers 429 from ARM's own buckets that workers reported to the leader")
                .build(),
        }
    }

    pub(super) fn tokens(&self, class: Class, event: Event, number: u32) {
        if number > 0 {
            let labels = [KeyValue::new("class", class.as_str()), KeyValue::new("event", event.as_str())];
            self.tokens.add(u64::from(number), &labels);
        }
    }

    pub(super) fn throttled(&self, class: Class, longer_by: Duration) {
        let labels = [KeyValue::new("class", class.as_str())];
        self.throttled.add(1, &labels);
        self.parked_time.add(longer_by.as_secs_f64(), &labels);
    }

    pub(super) fn levels(&self, ledger: &Ledger, now: Instant) {
        for (class, (level, parked)) in ledger.levels(now) {
            let labels = [KeyValue::new("class", class.as_str())];
            self.level.record(level, &labels);
            self.parked.record(parked, &labels);
        }
    }
}
