//! Decides the next step for one object.
//!
//! Pure: the same observation gives the same plan, so a worker that takes over decides as the one before would have.
//!
//! Keeps true:
//! - nothing is sent to Azure before the object says what will be sent (finalizer, ARM id and intent, in one patch);
//! - a PUT that Azure accepted is not sent again for the same generation; where that is not known, Azure is read first;
//! - an unchanged object costs no write, to Azure or to the API server;
//! - a deletion ends when, and only when, the resource does not exist in Azure.

mod deletion;
#[cfg(test)]
mod table;
#[cfg(test)]
mod world;

use std::time::Duration;

use jiff::Timestamp;

use super::condition::{Ready, Reason};
use super::live::{Live, State};
use super::memory::{Memory, Operation, Outcome, Put};
use super::object::{Intent, Object, Policy};
use super::plan::Plan;
use super::queue::Class;
use super::trouble::Trouble;
use crate::arm::error::Category;
use crate::fleet::Handover;

/// What to send, and to which resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    /// ARM id of the resource.
    pub id: String,
    /// What a PUT would send.
    pub intent: Intent,
    /// The body holds values that no read shows, so that comparing proves nothing about them.
    pub secrets: bool,
    /// The kind's resources can be deleted in Azure.
    pub deletable: bool,
}

/// All that a decision is made from.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The object.
    pub object: Object,
    /// What it may do.
    pub policy: Policy,
    /// Our installation, by its namespace.
    pub installation: String,
    /// What this worker remembers.
    pub memory: Memory,
    /// The long-running operation in flight.
    pub operation: Option<Operation>,
    /// What the object needs, once this reconcile has resolved it.
    pub desired: Option<Desired>,
    /// What Azure has, once this reconcile has read it.
    pub live: Option<Live>,
    /// The resync period is over, or something that the object refers to has changed.
    pub due: bool,
    /// Unclean while the former owner's last writes are unknown: it did not hand the shard over, and nothing was read since.
    pub handover: Handover,
}

/// How often Azure must say that a resource is absent before that is believed: answers lag behind writes.
const ABSENT_AFTER_PUT: u32 = 6;
const ABSENT: u32 = 2;
/// Between two reads of a resource that something runs on, or that should exist and does not.
const READ_AGAIN: Duration = Duration::from_secs(2);

/// See [`not_worth_saying_yet`].
const SAID_AT_TRY: u32 = 3;

/// The next step.
pub fn decide(o: &Observed, now: Timestamp) -> Plan {
    if let Some(owner) = &o.object.installation
        && *owner != o.installation
    {
        return Plan::Ignore { owner: owner.clone() };
    }
    if o.object.deleting {
        return deletion::decide(o, now);
    }
    if let Some(plan) = before_resolving(o, now) {
        return plan;
    }
    let Some(desired) = &o.desired else {
        return if settled(o) && !o.due { Plan::Nothing } else { Plan::Resolve };
    };
    if let Some(plan) = identity_moved(o, desired) {
        return plan;
    }
    if o.policy == Policy::Skip { observe_only(o, desired, now) } else { manage(o, desired, now) }
}

/// What goes on already comes first: an operation, or a rest after something went wrong.
fn before_resolving(o: &Observed, now: Timestamp) -> Option<Plan> {
    if let Some(operation) = &o.operation {
        match operation.outcome {
            Outcome::Running(until) if until <= now => return Some(Plan::Poll),
            Outcome::Running(until) => {
                return Some(Plan::Wait {
                    ready: Some(in_progress(
                        operation,
                        Ready::reconciling("Azure is creating or updating the resource."),
                    )),
                    until,
                    class: Class::Operation,
                    waits_for: Vec::new(),
                });
            }
            Outcome::Failed => return Some(Plan::DropOperation),
            Outcome::Done if operation.deletes => return Some(Plan::DropOperation),
            Outcome::Done => {}
        }
    }
    o.memory.resting_at(o.object.generation, now).map(|resting| rest(o, &resting.trouble, resting.until))
}

/// What to say while an operation runs.
fn in_progress(operation: &Operation, usually: Ready) -> Ready {
    operation.unheard.clone().unwrap_or(usually)
}

/// The object's condition is final, and no operation runs.
fn settled(o: &Observed) -> bool {
    let intended = o.object.intent.as_ref().is_some_and(|intent| intent.generation == o.object.generation);
    o.object.confirmed() && o.object.finalizer && o.operation.is_none() && (intended || o.policy == Policy::Skip)
}

/// Waits out what went wrong.
fn rest(o: &Observed, trouble: &Trouble, until: Timestamp) -> Plan {
    // A routine read that Azure could not answer right now says nothing about the resource.
    let quiet = o.object.confirmed() && trouble.category.is_some_and(passes);
    Plan::Wait {
        ready: (!quiet && !not_worth_saying_yet(o, trouble)).then(|| trouble.ready.clone()),
        until,
        class: Class::Retry,
        waits_for: trouble.waits_for.clone(),
    }
}

/// Things that belong together are applied together, so the object that a new one needs may not exist yet. The condition says so
/// if that lasts: at the third try, after 3 s.
fn not_worth_saying_yet(o: &Observed, trouble: &Trouble) -> bool {
    let for_another = matches!(trouble.ready.reason, Reason::WaitingForOwner | Reason::ReferenceNotFound);
    for_another && o.object.resource_id.is_none() && o.memory.failures < SAID_AT_TRY
}

/// Trouble on Azure's side that passes without a change by the user.
fn passes(category: Category) -> bool {
    matches!(category, Category::Throttled | Category::Busy | Category::Transient | Category::Unreachable)
}

/// The object claims another resource than the one its spec names now.
fn identity_moved(o: &Observed, desired: &Desired) -> Option<Plan> {
    let claimed = o.object.resource_id.as_ref().filter(|claimed| !claimed.eq_ignore_ascii_case(&desired.id))?;
    let subscription = |id: &str| id.split('/').nth(2).unwrap_or_default().to_ascii_lowercase();
    if desired.id.starts_with("/subscriptions/") && subscription(claimed) != subscription(&desired.id) {
        return Some(Plan::Refuse(Trouble::other_subscription(&subscription(claimed), &subscription(&desired.id))));
    }
    match &o.live {
        _ if o.object.created => {}
        None => return Some(Plan::Read { why: "the spec names another resource than before" }),
        // Nothing came of the old name, so the new one can be claimed.
        Some(Live::Absent | Live::Refused { .. }) => return None,
        Some(Live::Found { .. }) => {}
    }
    Some(Plan::Refuse(Trouble::other_resource(claimed, &desired.id)))
}

/// The object is claimed for this very resource.
fn claimed(o: &Observed, desired: &Desired) -> bool {
    let same = o.object.resource_id.as_ref().is_some_and(|id| id.eq_ignore_ascii_case(&desired.id));
    same && o.object.finalizer && o.object.installation.is_some()
}

/// Policy `skip`: reads and shows, never writes to Azure.
fn observe_only(o: &Observed, desired: &Desired, now: Timestamp) -> Plan {
    if !claimed(o, desired) {
        return Plan::Claim { why: "new, and only to be observed" };
    }
    match &o.live {
        None => Plan::Read { why: "policy skip shows what exists" },
        Some(Live::Absent) => Plan::Refuse(Trouble::nothing_to_observe(&desired.id)),
        Some(Live::Refused { .. }) => Plan::Nothing,
        Some(Live::Found { state: State::Running | State::Deleting, .. }) => {
            read_again(o, now, "Another client is changing the resource.")
        }
        Some(Live::Found { shown, .. }) => end(o, *shown),
    }
}

/// Policies `manage` and `detach-on-delete`.
fn manage(o: &Observed, desired: &Desired, now: Timestamp) -> Plan {
    let claimed = claimed(o, desired);
    let stands = claimed && o.object.intent.as_ref() == Some(&desired.intent);
    let intended = o.object.intent.as_ref().is_some_and(|intent| intent.generation == o.object.generation);
    if claimed && intended && o.object.confirmed() {
        return keep(o, desired, stands, now);
    }
    let put = o.memory.put(&desired.intent);
    if !stands {
        // Until an object was claimed nothing can have been written for it.
        let maybe_written = o.object.resource_id.is_some() && o.handover.is_unclean();
        return match &o.live {
            None if maybe_written => Plan::Read { why: "the former owner may have written" },
            Some(Live::Found { state: State::Running, .. }) if maybe_written => {
                read_again(o, now, "An earlier change is still running.")
            }
            _ if o.object.intent.is_some() => Plan::Claim { why: "the spec changed" },
            _ => Plan::Claim { why: "new" },
        };
    }
    match put {
        Put::Unsent => Plan::Put { why: "announced and not sent yet" },
        Put::Rejected => Plan::Put { why: "the last one failed" },
        Put::Unknown => match &o.live {
            None | Some(Live::Refused { .. }) => Plan::Read { why: "announced, and perhaps sent" },
            Some(Live::Absent) if o.memory.absent < ABSENT => {
                read_again(o, now, "The resource does not appear in Azure yet.")
            }
            Some(Live::Absent) => Plan::Put { why: "the resource does not exist" },
            Some(Live::Found { state: State::Running | State::Deleting, .. }) => {
                read_again(o, now, "Azure is creating or updating the resource.")
            }
            Some(Live::Found { state: State::Settled, differences, shown }) => match differences.first() {
                None if !desired.secrets => end(o, *shown),
                None => Plan::Put { why: "secret values can't be compared" },
                Some(_) => Plan::Put { why: "the resource differs" },
            },
            Some(Live::Found { state: State::Failed, .. }) => Plan::Put { why: "the resource is in a failed state" },
        },
        Put::Accepted | Put::ReadBack => match &o.live {
            None | Some(Live::Refused { .. }) => Plan::Read { why: "the status comes from a read" },
            Some(Live::Absent) if o.memory.absent < ABSENT_AFTER_PUT => {
                read_again(o, now, "Azure accepted the request; the resource does not appear yet.")
            }
            Some(Live::Absent) => Plan::Put { why: "accepted, and the resource still does not exist" },
            Some(Live::Found { state: State::Running | State::Deleting, .. }) => {
                read_again(o, now, "Azure is creating or updating the resource.")
            }
            Some(Live::Found { shown, .. }) => end(o, *shown),
        },
    }
}

/// A confirmed object stays as it is, unless Azure differs.
fn keep(o: &Observed, desired: &Desired, stands: bool, now: Timestamp) -> Plan {
    let same_request = o.object.intent.as_ref().is_some_and(|intent| intent.same_request(&desired.intent));
    let write = |why| if stands { Plan::Put { why } } else { Plan::Claim { why } };
    match &o.live {
        // Announced while confirmed, by us: the same generation with other secrets or config values.
        None if stands && o.memory.put(&desired.intent) == Put::Unsent => {
            Plan::Put { why: "a secret or config value changed" }
        }
        None => Plan::Read { why: "is Azure still as it should be" },
        Some(Live::Absent) if o.memory.absent < ABSENT => read_again(o, now, "The resource does not exist in Azure."),
        Some(Live::Absent) => write("the resource is gone"),
        Some(Live::Refused { .. }) => Plan::Nothing,
        Some(Live::Found { state: State::Deleting, .. }) => {
            read_again(o, now, "Another client is deleting the resource.")
        }
        Some(Live::Found { differences, shown, state }) => {
            let secrets_changed = desired.secrets && !same_request;
            let settled = !matches!(state, State::Running);
            if settled && (secrets_changed || !differences.is_empty()) {
                write(if secrets_changed { "a secret value changed" } else { "the resource differs" })
            } else {
                end(o, *shown)
            }
        }
    }
}

/// Shows what was read, and ends.
fn end(o: &Observed, shown: bool) -> Plan {
    if !shown || !o.object.confirmed() {
        Plan::Finish
    } else if o.operation.is_some() {
        Plan::DropOperation
    } else {
        Plan::Nothing
    }
}

/// Reads again soon.
fn read_again(o: &Observed, now: Timestamp, message: &'static str) -> Plan {
    let reads = o.memory.absent.max(o.memory.busy);
    let wait = READ_AGAIN * 2_u32.pow(reads.saturating_sub(1).min(4));
    Plan::Wait {
        ready: Some(Ready::reconciling(message)),
        until: now.saturating_add(wait).unwrap_or(Timestamp::MAX),
        class: Class::Operation,
        waits_for: Vec::new(),
    }
}
