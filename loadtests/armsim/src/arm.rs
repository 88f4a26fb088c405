//! ARM: what a call does to Azure and what it answers. No I/O, no clock.
//!
//! Kept true here: checks come in ARM's order (subscription, api-version, group, parent, then the service's own), and a
//! call that is refused changes nothing.

mod action;
mod check;
mod delete;
mod read;
mod write;

use std::sync::Arc;

use super::ArmId;
use super::answer::{Answer, Call, Method};
use super::azure::{Author, Azure};
use super::clock::SimTime;
use super::entra::{Caller, Directory};
use super::error::Refusal;
use super::lro::{Operation, Plan, Work};
use super::profile::Reply;
use super::route::Route;
use super::settings::Settings;
use super::type_data::TypeData;

/// Everything that ARM needs to answer.
pub(crate) struct Arm<'a> {
    pub(crate) azure: &'a mut Azure,
    pub(crate) settings: &'a Settings,
    pub(crate) types: Option<&'a dyn TypeData>,
    pub(crate) directory: &'a Directory,
    /// The beginning of ARM's own URLs.
    pub(crate) base: &'a str,
}

/// A call and its circumstances.
#[derive(Clone, Copy)]
pub(crate) struct Visit<'a> {
    pub(crate) call: &'a Call,
    pub(crate) caller: &'a Caller,
    pub(crate) now: SimTime,
    /// What happens to an operation that the call begins.
    pub(crate) twist: Option<&'a Twist>,
}

/// What a fault rule does to an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Twist {
    Fail { code: String, message: String },
    Hold,
}

impl Visit<'_> {
    fn author(&self) -> Author {
        Author { now: self.now, client_id: Arc::clone(&self.caller.client_id), tenant: Arc::clone(&self.caller.tenant) }
    }
}

impl Arm<'_> {
    /// Carries a call out.
    pub(crate) fn serve(&mut self, visit: &Visit<'_>) -> Result<Answer, Refusal> {
        let call = visit.call;
        if let Some(subscription) = subscription_of(&call.path) {
            self.check_subscription(subscription, visit)?;
        }
        let Some(api_version) = call.api_version() else {
            let message = "The api-version query parameter (?api-version=) is required for all requests.";
            return Err(Refusal::gateway(400, "MissingApiVersionParameter", message));
        };
        if let Some(answer) = self.poll(visit) {
            return answer;
        }
        let route = Route::parse(call.method, &call.path).ok_or_else(|| nothing_at(&call.path))?;
        check::api_version_form(api_version)?;
        if call.method != Method::Post {
            self.check_api_version(&route, api_version)?;
        }
        match (call.method, &route) {
            (Method::Put, Route::Item(id)) => self.put(id, api_version, visit),
            (Method::Patch, Route::Item(id)) => self.patch(id, api_version, visit),
            (Method::Delete, Route::Item(id)) => self.delete(id, api_version, visit),
            (Method::Get, Route::Item(id)) => self.get(id),
            (Method::Head, Route::Item(id)) => self.head(id),
            (Method::Post, Route::Action(id, action)) => self.act(id, action),
            (Method::Post, Route::Register(_, namespace)) => Ok(read::registered(namespace)),
            (Method::Get, route) => self.list(route, visit),
            (method, _) => {
                let message = format!(
                    "The requested resource does not support http method '{}'.",
                    format!("{method:?}").to_uppercase()
                );
                Err(Refusal::gateway(405, "MethodNotAllowed", message))
            }
        }
    }

    fn check_subscription(&self, subscription: &str, visit: &Visit<'_>) -> Result<(), Refusal> {
        if !self.directory.knows_subscription(subscription) {
            let message = format!("The subscription '{subscription}' could not be found.");
            return Err(Refusal::gateway(404, "SubscriptionNotFound", message));
        }
        if self.directory.allows(visit.caller, subscription) {
            return Ok(());
        }
        let call = visit.call;
        let arm_type = Route::parse(call.method, &call.path).map_or_else(String::new, |route| route.arm_type());
        let message = format!(
            "The client '{}' with object id '{}' does not have authorization to perform action '{arm_type}/{}' over scope '{}' or the scope is invalid. If access was recently granted, please refresh your credentials.",
            visit.caller.client_id,
            visit.caller.object_id,
            call.method.permission(),
            call.path
        );
        Err(Refusal::gateway(403, "AuthorizationFailed", message))
    }

    /// Begins the operation that follows an answer, and says so in the answer.
    fn begin(
        &mut self,
        work: Work,
        target: &ArmId,
        api_version: &str,
        reply: &Reply,
        visit: &Visit<'_>,
        answer: Answer,
    ) -> Answer {
        let arm_type = target.resource_type();
        let key = super::route::key(target);
        let life = self.azure.resource(&key).map_or(0, |resource| resource.life);
        let location = self.location_of(target);
        let held = self.settings.holds(&arm_type) || visit.twist == Some(&Twist::Hold);
        let due = (!held).then(|| visit.now + self.settings.duration(&arm_type, work));
        let will_fail = match visit.twist {
            Some(Twist::Fail { code, message }) => Some((code.clone(), message.clone())),
            _ => None,
        };
        let id = self.operation_id(target);
        let operation = Operation::begin(Plan {
            id,
            work,
            target,
            arm_type: &arm_type,
            location: &location,
            life,
            api_version,
            reply,
            started: visit.now,
            due,
            will_fail,
        });
        let mut answer = operation.announce(answer, self.base, visit.now);
        if arm_type.starts_with("Microsoft.Network/") {
            answer = answer.header("Azure-AsyncNotification", "Enabled");
        }
        self.azure.begin(operation);
        answer
    }

    /// The location of a resource, or of the nearest of its parents that has one.
    fn location_of(&self, id: &ArmId) -> String {
        let mut next = Some(id.clone());
        while let Some(id) = next {
            let resource = self.azure.resource(&super::route::key(&id));
            if let Some(location) = resource.and_then(|resource| resource.location.clone()) {
                return location;
            }
            next = id.parent();
        }
        "global".to_owned()
    }

    /// Operations on groups are jobs with long names, all others have a UUID.
    fn operation_id(&mut self, target: &ArmId) -> Arc<str> {
        let id = self.azure.dice.uuid();
        if target.resource_type() == "Microsoft.Resources/resourceGroups" {
            let name = target.name().to_ascii_uppercase();
            return format!(
                "eyJqb2JJZCI6IlJFU09VUkNFR1JPVVBERUxFVElPTkpPQi0{}{}",
                id.simple(),
                super::made_up::hex(&name, "job", 24)
            )
            .into();
        }
        id.to_string().into()
    }
}

fn subscription_of(path: &str) -> Option<&str> {
    let mut segments = path.split('/').skip(1);
    segments.next().filter(|first| first.eq_ignore_ascii_case("subscriptions")).and(segments.next())
}

fn nothing_at(path: &str) -> Refusal {
    Refusal::gateway(404, "NotFound", format!("No HTTP resource was found that matches the request URI '{path}'."))
}
