//! POST actions.

use super::super::ArmId;
use super::super::answer::{Answer, Method};
use super::super::card;
use super::super::error::Refusal;
use super::super::route::key;
use super::Arm;
use super::check::not_found;

impl Arm<'_> {
    pub(super) fn act(&mut self, id: &ArmId, action: &str) -> Result<Answer, Refusal> {
        self.check_scope(id, Method::Post)?;
        let Some(resource) = self.azure.resource(&key(id)) else { return Err(not_found(id)) };
        let actions = &card::of(&resource.arm_type).actions;
        let known = actions.iter().find(|(name, _)| name.eq_ignore_ascii_case(action)).map(|(_, action)| action);
        let Some(known) = known else {
            let message = format!("The resource type '{}' has no action '{action}'.", resource.arm_type);
            return Err(Refusal::gateway(404, "NotFound", message));
        };
        if let Some(words) = known.ready.as_ref().filter(|_| !resource.provisioned) {
            return Err(Refusal::service(
                words.status,
                words.code.as_str(),
                words.message.replace("{name}", id.name()),
            ));
        }
        Ok(Answer::json(200, self.azure.rendering(resource, |rendering| rendering.answer(&known.answer))))
    }
}
