//! Objects of kinds that are none of ARM's: users in database servers, groups of the directory. Nobody brings them anywhere yet.
//!
//! Such an object says so, once, if it has no condition. One that another operator looks after keeps that operator's condition and its finalizer.

use jiff::Timestamp;

use super::{Break, Next, Turn};
use crate::engine::condition::{self, Condition, Ready, Reason};
use crate::engine::object::Policy;
use crate::engine::{patch, view};

impl Turn<'_> {
    /// Shows that nothing is done about the object. Where the policy leaves the resource alone, a deleted object goes.
    pub(super) async fn leave_alone(&mut self, now: Timestamp) -> Result<Next, Break> {
        let facts = view::facts(&self.object);
        if facts.deleting && facts.finalizer && self.policy != Policy::Manage {
            self.release("the policy leaves the resource alone").await?;
            return Ok((None, Some(Vec::new())));
        }
        let present = Condition::ready_in(view::status(&self.object));
        if present.as_ref().is_none_or(|ready| ready.reason == Reason::NotSupported.as_str()) {
            let (kind, manager) = (self.kind.name(), self.kind.entry().manager.noun());
            let message = format!(
                "Flotilla does not bring {kind} objects to {manager} yet, so nothing is done. Make it there by other means, or \
                 keep Azure Service Operator for this kind."
            );
            self.tell(present.as_ref(), &Ready::error(Reason::NotSupported, message), now).await?;
        }
        Ok((None, Some(Vec::new())))
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
