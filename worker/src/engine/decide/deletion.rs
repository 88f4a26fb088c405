//! Decides the next step for an object that somebody deleted.
//!
//! The finalizer is removed when the resource does not exist in Azure, when it never did, or when the policy says that it stays.
//! Only errors that prove absence release the object, and none ends the retries.

use jiff::Timestamp;

use super::{Observed, in_progress, read_again, rest};
use crate::arm::error::Category;
use crate::engine::condition::Ready;
use crate::engine::live::{Live, State};
use crate::engine::memory::Outcome;
use crate::engine::object::Policy;
use crate::engine::plan::Plan;
use crate::engine::queue::Class;
use crate::engine::trouble::Trouble;

pub(super) fn decide(o: &Observed, now: Timestamp) -> Plan {
    if !o.object.finalizer {
        return Plan::Nothing;
    }
    if o.object.resource_id.is_none() && !o.object.created {
        return Plan::RemoveFinalizer { why: "nothing was sent to Azure" };
    }
    match o.policy {
        Policy::Manage => {}
        Policy::Skip => return Plan::RemoveFinalizer { why: "policy skip leaves the resource alone" },
        Policy::DetachOnDelete => return Plan::RemoveFinalizer { why: "policy detach-on-delete keeps the resource" },
    }
    if o.memory.deleted {
        return Plan::RemoveFinalizer { why: "the resource is gone" };
    }
    // A PUT that still runs does not matter any more.
    if let Some(operation) = o.operation.as_ref().filter(|operation| operation.deletes) {
        match operation.outcome {
            Outcome::Done => return Plan::RemoveFinalizer { why: "the resource is gone" },
            Outcome::Failed => return Plan::DropOperation,
            Outcome::Running(until) if until <= now => return Plan::Poll,
            Outcome::Running(until) => {
                return Plan::Wait {
                    ready: Some(in_progress(operation, Ready::deleting("Azure is deleting the resource."))),
                    until,
                    class: Class::Operation,
                    waits_for: Vec::new(),
                };
            }
        }
    }
    let resting = o.memory.resting_at(o.object.generation, now);
    let explaining = o.memory.delete_refused && o.desired.is_some();
    if !explaining && let Some(resting) = resting {
        return rest(o, &resting.trouble, resting.until);
    }
    let Some(desired) = &o.desired else { return Plan::Resolve };
    match &o.live {
        None if resting.is_some() => Plan::Read { why: "the delete was refused" },
        None if !desired.deletable => Plan::Read { why: "the kind can't be deleted in Azure" },
        None if o.handover.is_unclean() => Plan::Read { why: "the former owner may have deleted it" },
        Some(Live::Absent) => Plan::RemoveFinalizer { why: "the resource does not exist" },
        Some(Live::Refused { parent_absent: true, .. }) => {
            Plan::RemoveFinalizer { why: "the resource's parent is gone" }
        }
        // A name that ARM calls invalid was never accepted.
        Some(Live::Refused { category: Category::Invalid, .. }) if !o.object.created => {
            Plan::RemoveFinalizer { why: "Azure never had a resource of this name" }
        }
        Some(Live::Refused { category: Category::Authorization, .. }) if never_allowed(o) => {
            Plan::RemoveFinalizer { why: "the credential was never allowed to create it" }
        }
        Some(Live::Found { state: State::Deleting, .. }) => read_again(o, now, "Azure is deleting the resource."),
        Some(_) if !desired.deletable => Plan::Refuse(Trouble::not_deletable(&desired.id)),
        // After a refusal that a read did not explain the object rests; this is the next try.
        _ => match resting {
            Some(resting) => rest(o, &resting.trouble, resting.until),
            None => Plan::Delete { why: "the object was deleted" },
        },
    }
}

/// The only PUT of this object was refused because the credential may not do it, so Azure never had the resource.
///
/// Deletion moves the generation on, so the condition of the intent's generation is the PUT's and not the DELETE's.
fn never_allowed(o: &Observed) -> bool {
    let Some(intent) = &o.object.intent else { return false };
    let refused = o.object.ready.as_ref().is_some_and(|ready| {
        ready.is_failure_of(intent.generation)
            && ["AuthorizationFailed", "LinkedAuthorizationFailed"].contains(&ready.reason.as_str())
    });
    refused && !o.object.created
}
