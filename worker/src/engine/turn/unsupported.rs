//! Objects of kinds that are none of ARM's: users in database servers, groups of the directory. Nobody brings them anywhere yet.
//!
//! Such an object says so, once, if it has no condition. One that another operator looks after keeps that operator's condition and its finalizer.

use jiff::Timestamp;

use super::{Break, Next, Turn};
use crate::engine::condition::{Condition, Ready, Reason};
use crate::engine::object::Policy;
use crate::engine::view;

impl Turn<'_> {
    /// Shows that nothing is done about the object. Where the policy leaves the resource alone, a deleted object goes.
    pub(super) async fn leave_alone(&mut self, now: Timestamp) -> Result<Next, Break> {
        let facts = view::facts(&self.object);
        if facts.deleting && facts.finalizer && self.policy != Policy::Manage {
            self.release("the policy leaves the resource alone").await?;
            return Ok((None, Some(Vec::new())));
        }
        let present = Condition::ready_in(view::status(&self.object));
        if present.is_none_or(|ready| ready.reason == Reason::NotSupported.as_str()) {
            let (kind, manager) = (self.kind.name(), self.kind.entry().manager.noun());
            let message = format!(
                "Flotilla does not bring {kind} objects to {manager} yet, so nothing is done. Make it there by other means, or \
                 keep Azure Service Operator for this kind."
            );
            self.show_ready(&Ready::error(Reason::NotSupported, message), now).await?;
        }
        Ok((None, Some(Vec::new())))
    }
}
