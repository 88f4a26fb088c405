//! What ARM checks before it asks a service, and what services check of themselves.

use serde_json::{Value, json};

use super::super::ArmId;
use super::super::answer::{Call, Method};
use super::super::azure::Resource;
use super::super::card::{self, Location, Need, Refuse};
use super::super::error::Refusal;
use super::super::lro::{Look, Operation};
use super::super::region;
use super::super::render::type_name;
use super::super::route::{Route, key};
use super::super::template;
use super::{Arm, Visit};

const GROUPS: &str = "Microsoft.Resources/resourceGroups";

/// An api-version is a date, with or without a suffix.
pub(super) fn api_version_form(version: &str) -> Result<(), Refusal> {
    let date = version.get(..10).unwrap_or_default();
    let is_date = date
        .bytes()
        .enumerate()
        .all(|(at, byte)| if at == 4 || at == 7 { byte == b'-' } else { byte.is_ascii_digit() });
    let suffix = version.get(10..).unwrap_or_default();
    if date.len() == 10 && is_date && (suffix.is_empty() || suffix.starts_with('-')) {
        return Ok(());
    }
    let message = format!(
        "The api-version '{version}' is invalid. The value must be in the format 'YYYY-MM-DD' or 'YYYY-MM-DD-preview'."
    );
    Err(Refusal::gateway(400, "InvalidApiVersionParameter", message))
}

impl Arm<'_> {
    /// Whether the type exists and has the api-version, as far as the type data knows.
    pub(super) fn check_api_version(&self, route: &Route, api_version: &str) -> Result<(), Refusal> {
        let arm_type = route.arm_type();
        let Some(versions) = self.types.and_then(|types| types.api_versions(&arm_type)) else { return Ok(()) };
        if versions.iter().any(|version| version.eq_ignore_ascii_case(api_version)) {
            return Ok(());
        }
        let list = versions.join(", ");
        let (namespace, short) = arm_type.split_once('/').unwrap_or((&arm_type, ""));
        if namespace.eq_ignore_ascii_case("Microsoft.Resources") {
            let message = format!("The api-version '{api_version}' is invalid. The supported versions are '{list}'.");
            return Err(Refusal::gateway(400, "InvalidApiVersionParameter", message));
        }
        let message = format!(
            "No registered resource provider found for API version '{api_version}' for type '{short}'. The supported api-versions are '{list}'. The supported locations are '{}'.",
            region::list()
        );
        Err(Refusal::gateway(400, "NoRegisteredProviderFound", message))
    }

    /// Whether the resource group, the resource that is extended and the parent exist; for a write also whether the
    /// group stays.
    pub(super) fn check_scope(&self, id: &ArmId, method: Method) -> Result<(), Refusal> {
        if let Some(group) = self.group(id)? {
            let writes = matches!(method, Method::Put | Method::Patch | Method::Post);
            if group.deleting && writes {
                let name = group.id.name();
                let message = format!(
                    "The resource group '{name}' is in deprovisioning state and cannot perform this operation."
                );
                return Err(Refusal::gateway(409, "ResourceGroupBeingDeleted", message));
            }
        }
        let Some(parent) = id.parent().filter(|parent| !is_container(parent)) else { return Ok(()) };
        if self.azure.resource(&key(&parent)).is_some() {
            return Ok(());
        }
        let extends =
            !id.resource_type().to_ascii_lowercase().starts_with(&parent.resource_type().to_ascii_lowercase());
        if extends {
            return Err(not_found(&parent));
        }
        let short = id.resource_type().split_once('/').map(|(_, short)| short.to_owned()).unwrap_or_default();
        let message = format!(
            "Failed to perform '{}' on resource(s) of type '{short}', because the parent resource '{parent}' could not be found.",
            method.permission()
        );
        Err(Refusal::gateway(404, "ParentResourceNotFound", message))
    }

    /// The group that an id is in, which has to be there, or that it is, which need not.
    fn group(&self, id: &ArmId) -> Result<Option<&Resource>, Refusal> {
        let (Some(subscription), Some(name)) = (id.subscription_id(), id.resource_group_name()) else {
            return Ok(None);
        };
        let group = ArmId::resource_group(subscription, name);
        match self.azure.resource(&key(&group)) {
            None if group != *id => Err(group_not_found(name)),
            found => Ok(found),
        }
    }

    /// The location of a body, checked, in the form of ids. Types without one have none.
    pub(super) fn check_location(&self, id: &ArmId, body: &Value) -> Result<Option<String>, Refusal> {
        let Some(given) = body.get("location").and_then(Value::as_str) else { return Ok(None) };
        let location = region::normal(given);
        let arm_type = id.resource_type();
        let is_group = arm_type == GROUPS;
        let fits = match card::of(&arm_type).location {
            Location::Global => location == "global",
            Location::Display => region::find(given).is_some(),
            Location::AsGiven => region::find(given).is_some() || (location == "global" && !is_group),
        };
        if !fits {
            let list = region::list();
            return Err(if is_group {
                let message = format!(
                    "The provided location '{given}' is not available for resource group. List of available regions is '{list}'."
                );
                Refusal::gateway(400, "LocationNotAvailableForResourceGroup", message)
            } else {
                let list = if card::of(&arm_type).location == Location::Global { "global".to_owned() } else { list };
                let message = format!(
                    "The provided location '{given}' is not available for resource type '{arm_type}'. List of available regions for the resource type is '{list}'."
                );
                Refusal::gateway(400, "LocationNotAvailableForResourceType", message)
            });
        }
        let Some(old) = self.azure.resource(&key(id)).and_then(|old| old.location.as_deref()) else {
            return Ok(Some(location));
        };
        if old == location {
            return Ok(Some(location));
        }
        let (name, group) = (id.name(), id.resource_group_name().unwrap_or_default());
        Err(if is_group {
            let message = format!(
                "Invalid resource group location '{location}'. The Resource group already exists in location '{old}'."
            );
            Refusal::gateway(409, "InvalidResourceGroupLocation", message)
        } else {
            let message = format!(
                "The resource '{name}' already exists in location '{old}' in resource group '{group}'. A resource with the same name cannot be created in location '{location}'. Please select a new resource name."
            );
            Refusal::gateway(409, "InvalidResourceLocation", message)
        })
    }

    /// Whether a body has what the type data asks for.
    pub(super) fn check_body(&self, id: &ArmId, api_version: &str, body: &Value) -> Result<(), Refusal> {
        let Some(types) = self.types else { return Ok(()) };
        let Err(violations) = types.validate(&id.resource_type(), api_version, body) else { return Ok(()) };
        if violations.iter().any(|violation| violation.path == "location") {
            return Err(Refusal::gateway(
                400,
                "LocationRequired",
                "The location property is required for this definition.",
            ));
        }
        let list = violations.iter().map(|violation| format!("{} {}", violation.path, violation.message));
        let message = format!("The request content was invalid: {}.", list.collect::<Vec<_>>().join("; "));
        let details = violations
            .iter()
            .map(|violation| json!({"code": "InvalidField", "target": violation.path, "message": violation.message}));
        Err(Refusal { details: details.collect(), ..Refusal::service(400, "InvalidRequestContent", message) })
    }

    /// Whether the service takes the name.
    pub(super) fn check_name(&self, id: &ArmId) -> Result<(), Refusal> {
        let arm_type = id.resource_type();
        let card = card::of(&arm_type);
        if let Some(rule) = card.named.as_ref().filter(|rule| !rule.pattern.is_match(id.name())) {
            return Err(Refusal::service(400, rule.code.as_str(), rule.message.replace("{name}", id.name())));
        }
        if let Some(words) = &card.unique
            && self.azure.owner_of_name(id).is_some_and(|owner| owner != key(id))
        {
            return Err(Refusal::service(409, words.code.as_str(), words.message.replace("{name}", id.name())));
        }
        Ok(())
    }

    /// Whether no operation runs that a write would collide with.
    pub(super) fn check_busy(&self, id: &ArmId, visit: &Visit<'_>) -> Result<(), Refusal> {
        let going = self
            .azure
            .resource(&key(id))
            .filter(|resource| resource.deleting && self.azure.running(resource).is_some());
        if going.is_some() {
            return Err(Refusal::service(409, "Conflict", format!("The resource '{id}' is being deleted.")));
        }
        let Some(busy) = &card::of(&id.resource_type()).busy else { return Ok(()) };
        let running = |key: &str| self.azure.resource(key).and_then(|resource| self.azure.running(resource));
        let mut operation = running(&key(id));
        if busy.shares && operation.is_none() {
            let parent = id.parent().filter(|parent| !is_container(parent));
            operation = parent.and_then(|parent| running(&key(&parent))).or_else(|| self.running_child(id));
        }
        let Some(operation) = operation else { return Ok(()) };
        let url = operation.url(Look::Status, self.base, visit.now);
        let message = busy.message.replace("{name}", id.name()).replace("{operation}", &url);
        Err(Refusal::service(409, busy.code.as_str(), message))
    }

    fn running_child(&self, id: &ArmId) -> Option<&Operation> {
        let prefix = format!("{}/", key(id));
        let mut children = self.azure.below(&prefix).filter(|(_, child)| child.operation.is_some());
        // Found in two steps because the prefix does not outlive this function.
        let key = children.find(|(_, child)| self.azure.running(child).is_some()).map(|(key, _)| key.to_owned())?;
        self.azure.running(self.azure.resource(&key)?)
    }

    /// Whether the resources that a body refers to exist and are provisioned.
    pub(super) fn check_needs(&self, id: &ArmId, body: &Value) -> Result<(), Refusal> {
        for need in &card::of(&id.resource_type()).needs {
            let Some(other) = need.paths.iter().find_map(|path| template::at(body, path)).and_then(Value::as_str)
            else {
                continue;
            };
            let refuse = |words: &'static Refuse| {
                Err(Refusal::service(words.status, words.code.as_str(), words.message.replace("{id}", other)))
            };
            match self.needed(need, other) {
                None => return refuse(&need.missing),
                Some(resource) if !resource.provisioned || resource.deleting => return refuse(&need.unready),
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn needed(&self, need: &Need, id: &str) -> Option<&Resource> {
        let id = ArmId::parse(id).ok()?;
        self.azure.resource(&key(&id)).filter(|resource| resource.arm_type.eq_ignore_ascii_case(&need.arm_type))
    }

    /// Whether the conditions in the headers hold, for types that keep an `ETag`. Says what to do if the resource is missing.
    pub(super) fn check_etag(&self, id: &ArmId, call: &Call) -> Result<(), Refusal> {
        if !card::of(&id.resource_type()).etag {
            return Ok(());
        }
        let tag = self.azure.resource(&key(id)).map(|resource| resource.etag.clone().unwrap_or_default());
        let refuse = |message: &str| Err(Refusal::service(412, "PreconditionFailed", message));
        if call.headers.if_none_match.as_deref() == Some("*") && tag.is_some() {
            return refuse("The resource already exists, but the request asks for a new one (If-None-Match: *).");
        }
        match (call.headers.if_match.as_deref(), tag) {
            (Some(_), None) if call.method != Method::Delete => {
                refuse("The resource does not exist, but the request asks for one (If-Match).")
            }
            (Some(wanted), Some(tag)) if wanted != "*" && wanted != tag => {
                refuse("The ETag of the resource is another one (If-Match).")
            }
            _ => Ok(()),
        }
    }
}

/// Whether an id is a subscription or a group: what is in them is not their child resource.
pub(super) fn is_container(id: &ArmId) -> bool {
    id.resource_type().starts_with("Microsoft.Resources/")
}

pub(super) fn group_not_found(name: &str) -> Refusal {
    Refusal::gateway(404, "ResourceGroupNotFound", format!("Resource group '{name}' could not be found."))
}

pub(super) fn not_found(id: &ArmId) -> Refusal {
    if id.resource_type() == GROUPS {
        return group_not_found(id.name());
    }
    let arm_type = id.resource_type();
    let names: Vec<&str> = id.as_str().rsplit('/').step_by(2).take(arm_type.matches('/').count()).collect();
    let names = names.into_iter().rev().collect::<Vec<_>>().join("/");
    let place = id.resource_group_name().map(|group| format!(" under resource group '{group}'")).unwrap_or_default();
    let message = format!(
        "The Resource '{}/{names}'{place} was not found. For more details please go to https://aka.ms/ARMResourceNotFoundFix",
        type_name(&arm_type)
    );
    Refusal::gateway(404, "ResourceNotFound", message)
}

/// A body as JSON.
pub(super) fn json_body(call: &Call) -> Result<Value, Refusal> {
    let parsed = serde_json::from_slice(&call.body).map_err(|error| error.to_string());
    let object = parsed
        .and_then(|body: Value| if body.is_object() { Ok(body) } else { Err("it is not a JSON object".to_owned()) });
    object.map_err(|error| {
        Refusal::gateway(
            400,
            "InvalidRequestContent",
            format!("The request content was invalid and could not be deserialized: '{error}'."),
        )
    })
}
