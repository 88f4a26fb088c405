//! Objects of kinds that are not ARM's: users in database servers, groups of the directory. Flotilla does not reconcile them yet.
//!
//! The condition of such an object says so, once, if it has none. One that another operator manages keeps that operator's condition
//! and its finalizer.

use jiff::Timestamp;

use super::{Break, Ending, Reconcile};
use crate::engine::condition::{self, Condition, Ready, Reason};
use crate::engine::object::Policy;
use crate::engine::{patch, view};

impl Reconcile<'_> {
    /// Shows that Flotilla does nothing for the object. Where the policy leaves the resource alone, a deleted object is released.
    pub(super) async fn leave_alone(&mut self, now: Timestamp) -> Result<Ending, Break> {
        let facts = view::facts(&self.object);
        if facts.deleting && facts.finalizer && self.policy != Policy::Manage {
            self.release("the policy leaves the resource alone").await?;
            return Ok(Ending::SETTLED);
        }
        let present = Condition::ready_in(view::status(&self.object));
        if present.as_ref().is_none_or(|ready| ready.reason == Reason::NotSupported.as_str()) {
            let (kind, manager) = (self.kind.name(), self.kind.entry().manager.noun());
            let message = format!(
                "Flotilla does not support {kind} objects in {manager} yet and does nothing for this one. Next: create it there by \
                 other means, or keep Azure Service Operator for this kind."
            );
            self.tell(present.as_ref(), &Ready::error(Reason::NotSupported, message), now).await?;
        }
        Ok(Ending::SETTLED)
    }

    /// Writes the condition, and with it what every status of the kind must have, empty: the API server refuses a status without it.
    async fn tell(&mut self, present: Option<&Condition>, ready: &Ready, now: Timestamp) -> Result<(), Break> {
        let Some(next) = condition::replace(present, ready, self.generation(), now) else { return Ok(()) };
        let mut status = patch::status_ready(view::status(&self.object), &next);
        let version = self.kind.version(&self.version);
        for field in version.iter().flat_map(|version| &version.status_shape().fields).filter(|field| field.required) {
            if status.get(&*field.name).is_none() {
                status[&*field.name] = "".into();
            }
        }
        Ok(self.write_status(&status, present, &next).await?)
    }
}
