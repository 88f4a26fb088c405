//! The summary: what the fleet did, from armsim's journal and the API server's audit log.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use comfy_table::Table;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use kube::ResourceExt;
use kube::api::DynamicObject;

use super::stage::Stage;
use flotilla_armsim::{JournalFilter, Outcome};
use flotilla_testbed::cluster::{Ready, resource_of};
use flotilla_testbed::control_plane::audit;

/// The figures; each is filled by the step that can see it.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) worker_take_over: Option<Duration>,
    pub(super) leader_take_over: Option<Duration>,
    /// Whole seconds: conditions are not finer.
    seconds_to_ready: Vec<i64>,
    calls: BTreeMap<String, u64>,
    throttled: u64,
    object_writes: Vec<usize>,
    events: usize,
}

impl Report {
    /// From creation to Ready, of each object.
    pub(super) async fn read_ready(&mut self, stage: &Stage, objects: &[DynamicObject]) -> Result<()> {
        for object in objects {
            let Some(object) = stage.cluster().get(object).await? else { continue };
            let Some(ready) = Ready::of(&object) else { continue };
            let Some(created) = object.creation_timestamp() else { continue };
            let at: jiff::Timestamp = ready.last_transition_time.parse()?;
            self.seconds_to_ready.push(at.duration_since(created.0).as_secs());
        }
        self.seconds_to_ready.sort_unstable();
        Ok(())
    }

    /// What Azure and the API server were asked.
    pub(super) fn read_logs(&mut self, stage: &Stage, objects: &[DynamicObject]) -> Result<()> {
        let summary = stage.azure().summary(&JournalFilter::default())?;
        self.calls = summary.by_method;
        self.throttled = summary.by_outcome.get(&Outcome::Throttled).copied().unwrap_or_default();
        let writes: Vec<audit::Event> = stage
            .audit()?
            .into_iter()
            .filter(|event| event.is_write() && event.user_agent.starts_with("flotilla"))
            .collect();
        for object in objects {
            let plural = resource_of(object)?.plural;
            let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
            self.object_writes.push(writes.iter().filter(|event| event.is_about(&plural, &namespace, &name)).count());
        }
        self.events = writes
            .iter()
            .filter(|event| event.object.as_ref().is_some_and(|object| object.resource == "events"))
            .count();
        Ok(())
    }

    pub(super) fn print(&self) {
        let mut table = Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY);
        let calls = self.calls.iter().map(|(method, count)| format!("{count} {method}")).collect::<Vec<_>>().join(", ");
        table.add_row([
            "time to Ready, median / longest",
            &format!("{} s / {} s", at(&self.seconds_to_ready, 2), self.seconds_to_ready.last().unwrap_or(&0)),
        ]);
        table.add_row(["ARM calls", &calls]);
        table.add_row(["answers 429", &self.throttled.to_string()]);
        table.add_row(["writes per object, create to gone", &format!("{:.2}", mean(&self.object_writes))]);
        table.add_row(["events", &self.events.to_string()]);
        table.add_row(["take-over of a killed worker", &seconds(self.worker_take_over)]);
        table.add_row(["take-over of a killed leader", &seconds(self.leader_take_over)]);
        anstream::println!("{table}");
    }
}

/// The value `1/part` of the way through a sorted list.
fn at(sorted: &[i64], part: usize) -> i64 {
    sorted.get(sorted.len() / part).copied().unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "counts of a demo")]
fn mean(counts: &[usize]) -> f64 {
    counts.iter().sum::<usize>() as f64 / counts.len().max(1) as f64
}

fn seconds(time: Option<Duration>) -> String {
    time.map_or_else(|| "not seen".to_owned(), |time| format!("{:.1} s", time.as_secs_f64()))
}
