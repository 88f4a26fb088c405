//! Counts the objects of a kind that are Ready, by a watch: asking for each would load the API server more than the fleet does.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::{Result, bail};
use flotilla_worker::engine::Seen;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use kube::api::{Api, DynamicObject, ListParams};
use kube::discovery::ApiResource;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, Resource as _};
use tokio::time::{Instant, timeout_at};

use flotilla_testbed::cluster::{Named, Ready};

/// A running count.
pub(super) struct Tally {
    client: Client,
    kind: ApiResource,
    events: BoxStream<'static, watcher::Result<Event<Seen>>>,
    /// UIDs of those that are Ready.
    ready: HashSet<String>,
}

impl Tally {
    /// Watches a kind in all namespaces; returns once the existing objects are counted.
    pub(super) async fn start(client: Client, kind: ApiResource) -> Result<Self> {
        let api: Api<Seen> = Api::all_with(client.clone(), &kind);
        let events = watcher(api, watcher::Config::default()).boxed();
        let mut tally = Self { client, kind, events, ready: HashSet::new() };
        while let Some(event) = tally.events.next().await {
            match event? {
                Event::InitDone => return Ok(tally),
                event => tally.take(event),
            }
        }
        bail!("the watch of {} ended", tally.kind.kind)
    }

    /// How many are Ready.
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Waits until so many are Ready; an error that shows one that is not, if it takes longer.
    pub(super) async fn until(&mut self, wanted: usize, within: Duration) -> Result<()> {
        let deadline = Instant::now() + within;
        while self.ready.len() < wanted {
            match timeout_at(deadline, self.events.next()).await {
                Ok(Some(event)) => self.take(event?),
                Ok(None) => bail!("the watch of {} ended", self.kind.kind),
                Err(_) => {
                    let example = self.example().await?;
                    bail!(
                        "{} of {wanted} {} are Ready within {within:?}; {example}",
                        self.ready.len(),
                        self.kind.plural
                    )
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, event: Event<Seen>) {
        match event {
            Event::Apply(seen) | Event::InitApply(seen) => {
                if let Some(uid) = seen.meta().uid.clone().filter(|_| seen.ready()) {
                    self.ready.insert(uid);
                }
            }
            Event::Init | Event::InitDone | Event::Delete(_) => {}
        }
    }

    async fn example(&self) -> Result<String> {
        let objects: Api<DynamicObject> = Api::all_with(self.client.clone(), &self.kind);
        for object in objects.list(&ListParams::default()).await? {
            let ready = Ready::of(&object);
            if !ready.as_ref().is_some_and(|ready| ready.is_current(&object)) {
                let says = ready.map_or_else(|| "no condition".to_owned(), |ready| ready.to_string());
                return Ok(format!("{}: {says}", Named::of(&object)));
            }
        }
        Ok("all existing objects are Ready".to_owned())
    }
}
