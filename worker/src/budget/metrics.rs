//! The metrics of a worker's budget. Described in `docs/metrics.md`.

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Histogram, Meter};

use super::key::{Class, Priority};
use super::permit::Source;

/// The worker's instruments.
#[derive(Clone, Debug)]
pub struct Metrics {
    spent: Counter<u64>,
    returned: Counter<u64>,
    expired: Counter<u64>,
    parked: Counter<u64>,
    lost: Counter<u64>,
    wait: Histogram<f64>,
    waiting: Gauge<u64>,
}

impl Metrics {
    /// Registers the instruments.
    pub fn new(meter: &Meter) -> Self {
        let counter = |name: &'static str, description: &'static str| {
            meter.u64_counter(name).with_description(description).build()
        };
        Self {
            spent: counter("flotilla.budget.spent", "Permits given to calls, by where the token came from"),
            returned: counter("flotilla.budget.returned", "Tokens returned to the leader because no call needed them"),
            expired: counter("flotilla.budget.expired", "Tokens that were not spent before their grant ended"),
            parked: counter("flotilla.budget.refused", "Calls refused because their bucket is parked after a 429"),
            lost: counter(
                "flotilla.budget.messages.dropped",
                "Messages to the leader that were dropped because the queue was full",
            ),
            wait: meter
                .f64_histogram("flotilla.budget.wait")
                .with_unit("s")
                .with_description("How long calls waited for a permit")
                .with_boundaries(vec![0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0])
                .build(),
            waiting: meter
                .u64_gauge("flotilla.budget.waiting")
                .with_description("Calls that wait for a permit")
                .build(),
        }
    }

    pub(super) fn spent(&self, class: Class, source: Source, priority: Priority, waited: Duration) {
        self.spent.add(1, &[of(class), KeyValue::new("source", source.as_str())]);
        self.wait.record(waited.as_secs_f64(), &[of(class), KeyValue::new("priority", priority.as_str())]);
    }

    pub(super) fn settled(&self, class: Class, unused: u32, ended: bool) {
        if unused > 0 {
            let counter = if ended { &self.expired } else { &self.returned };
            counter.add(u64::from(unused), &[of(class)]);
        }
    }

    pub(super) fn parked(&self, class: Class, calls: usize) {
        self.parked.add(calls as u64, &[of(class)]);
    }

    pub(super) fn dropped(&self) {
        self.lost.add(1, &[]);
    }

    pub(super) fn waiting(&self, class: Class, calls: usize) {
        self.waiting.record(calls as u64, &[of(class)]);
    }
}

fn of(class: Class) -> KeyValue {
    KeyValue::new("class", class.as_str())
}
