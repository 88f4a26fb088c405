//! GET, HEAD, lists and polls.

use std::sync::Arc;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::super::ArmId;
use super::super::answer::{Answer, Method};
use super::super::azure::Resource;
use super::super::card;
use super::super::error::Refusal;
use super::super::lro::Moment;
use super::super::region;
use super::super::route::{Route, key};
use super::check::not_found;
use super::{Arm, Visit, nothing_at};

impl Arm<'_> {
    pub(super) fn get(&self, id: &ArmId) -> Result<Answer, Refusal> {
        self.check_scope(id, Method::Get)?;
        let resource = self.azure.resource(&key(id)).ok_or_else(|| not_found(id))?;
        let answer = Answer::shared(200, self.shown(resource));
        Ok(match &resource.etag {
            Some(etag) => answer.header("ETag", etag.clone()),
            None => answer,
        })
    }

    pub(super) fn head(&self, id: &ArmId) -> Result<Answer, Refusal> {
        self.check_scope(id, Method::Head)?;
        self.azure.resource(&key(id)).map(|_| Answer::empty(204)).ok_or_else(|| not_found(id))
    }

    /// Answers if the path is the URL of an operation.
    pub(super) fn poll(&self, visit: &Visit<'_>) -> Option<Result<Answer, Refusal>> {
        let call = visit.call;
        let operation = self.azure.operation(call.path.rsplit('/').next()?)?;
        if call.method != Method::Get {
            return None;
        }
        let resource = self.azure.resource(&key(&operation.target)).map(|resource| self.shown(resource));
        let at = Moment { now: visit.now, epoch: self.azure.epoch(), base: self.base };
        Some(operation.poll(call, resource, &at))
    }

    pub(super) fn list(&self, route: &Route, visit: &Visit<'_>) -> Result<Answer, Refusal> {
        match route {
            Route::Subscriptions => {
                let show = |id: &String| subscription(id, &visit.caller.tenant);
                let value: Vec<Value> = self.directory.subscriptions(visit.caller).iter().map(show).collect();
                Ok(Answer::json(200, json!({"value": value})))
            }
            Route::Subscription(id) => {
                Ok(Answer::json(200, subscription(id.subscription_id().unwrap_or_default(), &visit.caller.tenant)))
            }
            Route::Locations(id) => {
                let show = |region: &region::Region| {
                    json!({"id": format!("{id}/locations/{}", region.name), "name": region.name,
                    "type": "Region", "displayName": region.display, "regionalDisplayName": region.display})
                };
                Ok(Answer::json(200, json!({"value": region::all().iter().map(show).collect::<Vec<_>>()})))
            }
            Route::Provider(_, namespace) => Ok(registered(namespace)),
            Route::Groups(id) => self.page(visit, &format!("{}/resourcegroups/", key(id)), |key, _| is_flat(key, 4)),
            Route::Resources(scope) => {
                // Top-level resources have one type and one name below the last provider.
                self.page(visit, &format!("{}/", key(scope)), |key, _| {
                    key.rsplit_once("/providers/").is_some_and(|(_, tail)| tail.matches('/').count() == 2)
                })
            }
            Route::Collection { scope, arm_type } => self.collection(scope.as_ref(), arm_type, visit),
            Route::Item(_) | Route::Action(..) | Route::Register(..) => Err(nothing_at(&visit.call.path)),
        }
    }

    fn collection(&self, scope: Option<&ArmId>, arm_type: &str, visit: &Visit<'_>) -> Result<Answer, Refusal> {
        let Some(scope) = scope else {
            return self
                .page(visit, &format!("/providers/{}/", arm_type.to_ascii_lowercase()), |key, _| is_flat(key, 4));
        };
        let of_type = |resource: &Resource| resource.arm_type.eq_ignore_ascii_case(arm_type);
        if scope.resource_type() == "Microsoft.Resources/subscriptions" {
            return self.page(visit, &format!("{}/", key(scope)), |_, resource| of_type(resource));
        }
        self.check_scope(&scope.child("any", "any"), Method::Get)?;
        if self.azure.resource(&key(scope)).is_none() {
            return Err(not_found(scope));
        }
        let parent_type = scope.resource_type().to_ascii_lowercase();
        let arm_type = arm_type.to_ascii_lowercase();
        let prefix = match arm_type.strip_prefix(&format!("{parent_type}/")) {
            Some(child) => format!("{}/{child}/", key(scope)),
            None => format!("{}/providers/{arm_type}/", key(scope)),
        };
        let depth = prefix.matches('/').count();
        self.page(visit, &prefix, |key, _| is_flat(key, depth))
    }

    /// A page of what begins with a text and fits, and a link to the next.
    fn page(&self, visit: &Visit<'_>, prefix: &str, fits: impl Fn(&str, &Resource) -> bool) -> Result<Answer, Refusal> {
        let call = visit.call;
        if let Some(filter) = call.query("$filter") {
            return Err(Refusal::gateway(
                400,
                "InvalidFilterInQueryString",
                format!("Invalid $filter '{filter}' specified in the query string."),
            ));
        }
        let after = call.query("$skipToken").unwrap_or_default().to_owned();
        let size = call
            .query("$top")
            .and_then(|top| top.parse().ok())
            .filter(|top| *top > 0)
            .unwrap_or(self.settings.page_size);
        let mut fitting = self.azure.below(prefix).filter(|(key, resource)| **key > *after && fits(key, resource));
        let mut last = "";
        let mut value = Vec::new();
        for (key, resource) in fitting.by_ref().take(size) {
            last = key;
            value.push(Value::clone(&self.shown(resource)));
        }
        let mut body = json!({"value": value});
        if fitting.next().is_some() {
            let api_version = call.api_version().unwrap_or_default();
            let token = utf8_percent_encode(last, NON_ALPHANUMERIC);
            let path = utf8_percent_encode(&call.path, PATH);
            body["nextLink"] =
                format!("{}{path}?api-version={api_version}&%24skipToken={token}&%24top={size}", self.base).into();
        }
        Ok(Answer::json(200, body))
    }

    /// The body of a resource, with the children that are part of it.
    pub(super) fn shown(&self, resource: &Resource) -> Arc<Value> {
        let embeds = &card::of(&resource.arm_type).embeds;
        if embeds.is_empty() {
            return Arc::clone(&resource.body);
        }
        let mut body = Value::clone(&resource.body);
        for embed in embeds {
            let prefix = format!("{}/{}/", key(&resource.id), embed.children.to_ascii_lowercase());
            let depth = prefix.matches('/').count();
            let children = self.azure.below(&prefix).filter(|(key, _)| is_flat(key, depth));
            let children: Vec<Value> = children.map(|(_, child)| Value::clone(&child.body)).collect();
            if let Some((outer, inner)) = embed.at.split_once('.') {
                body[outer][inner] = children.into();
            }
        }
        Arc::new(body)
    }
}

/// What paths keep as it is in URLs.
const PATH: &percent_encoding::AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'(').remove(b')');

/// Whether a key has no more segments than that: nothing below what is listed.
fn is_flat(key: &str, slashes: usize) -> bool {
    key.matches('/').count() == slashes
}

fn subscription(id: &str, tenant: &str) -> Value {
    json!({"id": format!("/subscriptions/{id}"), "subscriptionId": id, "tenantId": tenant, "displayName": "Simulated", "state": "Enabled"})
}

/// Every provider is registered.
pub(super) fn registered(namespace: &str) -> Answer {
    Answer::json(200, json!({"namespace": namespace, "registrationState": "Registered"}))
}
