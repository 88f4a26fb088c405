//! What the API server's audit log says about who wrote what.

use anyhow::Result;
use flotilla_testbed::cluster::resource_of;
use flotilla_testbed::control_plane::audit::Event;
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;

use crate::testbed::Testbed;

/// What the fleet wrote about an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Writes {
    /// To the object itself and its status.
    pub(crate) object: usize,
    /// Events about it.
    pub(crate) events: usize,
}

/// The fleet's writes, from the first one on.
pub(crate) fn of_the_fleet(testbed: &Testbed) -> Result<Vec<Event>> {
    let events = testbed.control_plane.audit_events()?;
    Ok(events.into_iter().filter(|event| event.is_write() && event.user_agent.starts_with("flotilla")).collect())
}

/// Counts what the fleet wrote about an object.
pub(crate) fn count(writes: &[Event], object: &DynamicObject) -> Result<Writes> {
    let plural = resource_of(object)?.plural;
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    // An event is called like the object that it is about, with something unique behind a dot.
    let event_name = format!("{name}.");
    let is_event = |event: &&Event| {
        event.object.as_ref().is_some_and(|object| {
            object.resource == "events" && object.namespace == namespace && object.name.starts_with(&event_name)
        })
    };
    Ok(Writes {
        object: writes.iter().filter(|event| event.is_about(&plural, &namespace, &name)).count(),
        events: writes.iter().filter(is_event).count(),
    })
}

/// When the shard map was written.
pub(crate) fn hand_offs(testbed: &Testbed) -> Result<Vec<Timestamp>> {
    let of_the_map = |event: &Event| {
        event.object.as_ref().is_some_and(|object| {
            object.name == "flotilla-shard-map" || (object.resource == "configmaps" && event.verb == "create")
        })
    };
    Ok(of_the_fleet(testbed)?.iter().filter(|event| of_the_map(event)).map(|event| event.at).collect())
}
