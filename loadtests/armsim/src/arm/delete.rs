//! DELETE, of resources and of groups with all that is in them.

use std::sync::Arc;

use super::super::ArmId;
use super::super::answer::{Answer, Method};
use super::super::error::Refusal;
use super::super::lro::Work;
use super::super::profile;
use super::super::route::key;
use super::check::not_found;
use super::{Arm, Visit};

impl Arm<'_> {
    pub(super) fn delete(&mut self, id: &ArmId, api_version: &str, visit: &Visit<'_>) -> Result<Answer, Refusal> {
        let is_group = id.resource_type() == "Microsoft.Resources/resourceGroups";
        self.check_scope(id, Method::Delete)?;
        let key = key(id);
        let Some(resource) = self.azure.resource(&key) else {
            return if is_group { Err(not_found(id)) } else { Ok(Answer::empty(204)) };
        };
        self.check_etag(id, visit.call)?;
        let reply = &profile::of(&id.resource_type()).delete;
        // The answer to a second DELETE names the operation that the first began.
        if let Some(operation) = self.azure.running(resource).filter(|operation| operation.work == Work::Delete) {
            return Ok(operation.announce(Answer::empty(reply.status), self.base, visit.now));
        }
        self.check_busy(id, visit)?;
        if !reply.is_running() {
            self.azure.remove(&key);
            return Ok(Answer::empty(reply.status));
        }
        let answer = self.begin(Work::Delete, id, api_version, reply, visit, Answer::empty(reply.status));
        // Shows that it goes.
        self.azure.change(&key, |_| {});
        let due = answer
            .operation
            .as_ref()
            .map(Arc::clone)
            .and_then(|id| self.azure.operation(&id).and_then(|operation| operation.due));
        if let (true, Some(due)) = (is_group, due) {
            self.azure.empty_slowly(&key, visit.now, due);
        }
        Ok(answer)
    }
}
