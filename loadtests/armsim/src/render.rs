//! The body that a resource shows: what the request said, plus what the service adds.
//!
//! Kept true here: made-up values stay the same for as long as the resource lives, and differ after it was deleted and
//! created again.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::ArmId;
use super::card::{self, Card, Location, ShortHand};
use super::profile;
use super::template::{self, Expand};
use super::{made_up, region};

/// What is known of a resource when its body is rendered.
pub(crate) struct Rendering<'a> {
    pub(crate) id: &'a ArmId,
    pub(crate) arm_type: &'a str,
    /// What the request said.
    pub(crate) spec: &'a Value,
    /// In the form of ids.
    pub(crate) location: Option<&'a str>,
    pub(crate) tenant: &'a str,
    /// Different for each life of the resource.
    pub(crate) seed: &'a str,
    pub(crate) created: &'a str,
    pub(crate) created_by: &'a str,
    pub(crate) modified: &'a str,
    pub(crate) modified_by: &'a str,
    pub(crate) etag: Option<&'a str>,
    /// `provisioningState`, for types that have one.
    pub(crate) state: Option<&'a str>,
    pub(crate) ready: bool,
    /// The body of another resource.
    pub(crate) other: &'a dyn Fn(&str) -> Option<Arc<Value>>,
}

impl Rendering<'_> {
    /// The body that a GET shows.
    pub(crate) fn body(&self) -> Value {
        let card = card::of(self.arm_type);
        let mut body = if self.spec.is_object() { self.spec.clone() } else { json!({}) };
        self.frame(card, &mut body);
        if self.ready {
            template::fill(&mut body, &card.defaults_when_ready, self);
        }
        template::fill(&mut body, &card.defaults, self);
        template::force(&mut body, &card.owned, self);
        if self.ready {
            template::force(&mut body, &card.owned_when_ready, self);
        }
        for path in &card.hide {
            template::remove(&mut body, path);
        }
        if let Some(state) = self.state {
            template::force(&mut body, &json!({"properties": {"provisioningState": state}}), self);
        }
        body
    }

    /// What an action answers.
    pub(crate) fn answer(&self, answer: &Value) -> Value {
        template::expand(answer, self)
    }

    /// The parts that every resource has.
    fn frame(&self, card: &Card, body: &mut Value) {
        let Some(fields) = body.as_object_mut() else { return };
        fields.insert("id".into(), shown_id(card, self.id).into());
        fields.insert("name".into(), self.id.name().into());
        fields.insert("type".into(), type_name(self.arm_type).into());
        if let Some(location) = self.location {
            let display =
                region::find(location).filter(|_| card.location == Location::Display).map(|region| region.display);
            fields.insert("location".into(), display.unwrap_or(location).into());
        } else {
            fields.remove("location");
        }
        // Only null says that there are none.
        for name in ["tags", "zones", "identity", "sku", "properties"] {
            if fields.get(name).is_some_and(Value::is_null) {
                fields.remove(name);
            }
        }
        if let Some(identity) = fields.get_mut("identity").and_then(Value::as_object_mut) {
            self.identity(identity);
        }
        if card.system_data {
            let by = json!({"createdBy": self.created_by, "createdByType": "Application", "createdAt": self.created,
                "lastModifiedBy": self.modified_by, "lastModifiedByType": "Application", "lastModifiedAt": self.modified});
            fields.insert("systemData".into(), by);
        }
        if let Some(etag) = self.etag {
            fields.insert("etag".into(), etag.into());
        }
    }

    /// A system-assigned identity gets its principal.
    fn identity(&self, identity: &mut Map<String, Value>) {
        let kind = identity.get("type").and_then(Value::as_str).unwrap_or_default();
        if kind.contains("SystemAssigned") {
            identity.insert("principalId".into(), made_up::guid(self.seed, "system").to_string().into());
            identity.insert("tenantId".into(), self.tenant.into());
        }
    }

    fn short_hand(&self, name: &str) -> Value {
        let Some(rule) = card::of(self.arm_type).values.get(name) else { return Value::Null };
        let found = self.lookup(rule).filter(|value| value.as_str() != Some(""));
        if !rule.map.is_empty() {
            let text = found.as_ref().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
            let mapped = text.and_then(|text| rule.map.get(&text)).or_else(|| rule.map.get("*"));
            return mapped.map_or(Value::Null, |text| text.as_str().into());
        }
        found.unwrap_or_else(|| match &rule.hash {
            Some(path) => {
                let content = template::at(self.spec, path).map(Value::to_string).unwrap_or_default();
                made_up::letters(self.seed, &content, 7).into()
            }
            None => Value::Null,
        })
    }

    fn lookup(&self, rule: &ShortHand) -> Option<Value> {
        if let Some(value) = rule.paths.iter().find_map(|path| template::at(self.spec, path)) {
            return Some(value.clone());
        }
        let other = rule.of.iter().find_map(|place| match place.as_str() {
            "parent" => (self.other)(self.id.parent()?.as_str()),
            place => (self.other)(template::at(self.spec, place)?.as_str()?),
        })?;
        template::at(&other, &rule.path).cloned()
    }

    fn word(&self, word: &str) -> Value {
        let mut parts = word.split(':');
        let (name, salt) = (parts.next().unwrap_or_default(), word.rsplit(':').next().unwrap_or_default());
        match name {
            "id" => self.id.as_str().into(),
            "name" => self.id.name().into(),
            "location" => self.location.unwrap_or("global").into(),
            "subscription" => self.id.subscription_id().unwrap_or_default().into(),
            "group" => self.id.resource_group_name().unwrap_or_default().into(),
            "tenant" => self.tenant.into(),
            "time" => self.modified.into(),
            "created" => self.created.into(),
            "guid" => made_up::guid(self.seed, salt).to_string().into(),
            "hex" => made_up::hex(self.seed, salt, parts.next().and_then(|n| n.parse().ok()).unwrap_or(32)).into(),
            "key" => made_up::key(self.seed, salt).into(),
            "ip" => made_up::ip(self.seed, salt).into(),
            "noun" => made_up::noun(self.seed, salt).into(),
            _ => self.short_hand(name),
        }
    }
}

impl Expand for Rendering<'_> {
    fn expand(&self, text: &str) -> Value {
        if let Some(word) =
            text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).filter(|word| !word.contains('{'))
        {
            return self.word(word);
        }
        let mut whole = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (word, after) = after.split_once('}').unwrap_or((after, ""));
            whole.push_str(before);
            match self.word(word) {
                Value::Null => {}
                Value::String(text) => whole.push_str(&text),
                other => whole.push_str(&other.to_string()),
            }
            rest = after;
        }
        whole.push_str(rest);
        whole.into()
    }
}

/// The type as its service names it.
pub(crate) fn type_name(arm_type: &str) -> &str {
    let profile = profile::of(arm_type);
    match &card::of(arm_type).name {
        Some(name) => name,
        None if profile.name.is_empty() => arm_type,
        None => &profile.name,
    }
}

/// The id in the casing of its service.
fn shown_id(card: &Card, id: &ArmId) -> String {
    card.id_casing.iter().fold(id.as_str().to_owned(), |text, (from, to)| text.replace(from.as_str(), to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendering<'a>(
        id: &'a ArmId,
        arm_type: &'a str,
        spec: &'a Value,
        ready: bool,
        other: &'a dyn Fn(&str) -> Option<Arc<Value>>,
    ) -> Rendering<'a> {
        let state = if ready { Some("Succeeded") } else { Some("InProgress") };
        Rendering {
            id,
            arm_type,
            spec,
            location: Some("westus2"),
            tenant: "t",
            seed: "s",
            created: "then",
            created_by: "me",
            modified: "now",
            modified_by: "you",
            etag: None,
            state,
            ready,
            other,
        }
    }

    fn app() -> ArmId {
        ArmId::parse("/subscriptions/s/resourceGroups/g/providers/Microsoft.App/containerApps/web").unwrap()
    }

    #[expect(clippy::unnecessary_wraps, reason = "a rendering asks for resources that may be absent")]
    fn environment(_: &str) -> Option<Arc<Value>> {
        Some(Arc::new(json!({"properties": {"defaultDomain": "jollybay-1.westus2.azurecontainerapps.io"}})))
    }

    #[test]
    fn a_container_app_gets_its_name_in_the_world_when_it_is_ready_and_has_ingress() {
        let spec = json!({"location": "westus2", "properties": {"environmentId": "/e", "configuration": {"ingress": {"targetPort": 80, "external": true}},
            "template": {"containers": [{"name": "c", "image": "i"}], "revisionSuffix": "v1"}}});
        let id = app();
        let early = rendering(&id, "microsoft.app/CONTAINERAPPS", &spec, false, &environment).body();
        assert_eq!(early["properties"]["configuration"]["ingress"]["fqdn"], Value::Null);
        assert_eq!(early["properties"]["provisioningState"], "InProgress");
        let ready = rendering(&id, "Microsoft.App/containerApps", &spec, true, &environment).body();
        assert_eq!(
            ready["properties"]["configuration"]["ingress"]["fqdn"],
            "web.jollybay-1.westus2.azurecontainerapps.io"
        );
        assert_eq!(ready["properties"]["latestRevisionFqdn"], "web--v1.jollybay-1.westus2.azurecontainerapps.io");
        assert_eq!(ready["properties"]["managedEnvironmentId"], "/e");
        assert_eq!(ready["properties"]["template"]["containers"][0]["resources"]["memory"], "1Gi");
        assert_eq!((&ready["location"], &ready["type"]), (&json!("West US 2"), &json!("Microsoft.App/containerApps")));
        assert!(ready["id"].as_str().unwrap().contains("/containerapps/web"));
        assert_eq!(ready["systemData"]["lastModifiedBy"], "you");
    }

    #[test]
    fn without_ingress_there_is_no_name_and_inside_it_is_internal() {
        let id = app();
        let bare = json!({"properties": {"environmentId": "/e", "template": {"containers": []}}});
        let body = rendering(&id, "Microsoft.App/containerApps", &bare, true, &environment).body();
        assert!(template::at(&body, "properties.configuration.ingress").is_none());
        assert!(template::at(&body, "properties.latestRevisionFqdn").is_none());
        let inside = json!({"properties": {"environmentId": "/e", "configuration": {"ingress": {}}}});
        let body = rendering(&id, "Microsoft.App/containerApps", &inside, true, &environment).body();
        assert_eq!(
            body["properties"]["configuration"]["ingress"]["fqdn"],
            "web.internal.jollybay-1.westus2.azurecontainerapps.io"
        );
        let revision = body["properties"]["latestRevisionName"].as_str().unwrap();
        assert!(revision.starts_with("web--") && revision.len() == 12, "{revision}");
    }

    #[test]
    fn secrets_are_never_shown() {
        let id = app();
        let spec = json!({"properties": {"configuration": {"secrets": [{"name": "a", "value": "hush"}]}}});
        let body = rendering(&id, "Microsoft.App/containerApps", &spec, true, &environment).body();
        assert_eq!(body["properties"]["configuration"]["secrets"], json!([{"name": "a"}]));
    }

    #[test]
    fn every_template_of_the_table_renders() {
        for arm_type in [
            "Microsoft.App/managedEnvironments",
            "Microsoft.App/jobs",
            "Microsoft.Storage/storageAccounts",
            "Microsoft.Storage/storageAccounts/blobServices",
            "Microsoft.ManagedIdentity/userAssignedIdentities",
            "Microsoft.Network/virtualNetworks",
            "Microsoft.Network/publicIPAddresses",
        ] {
            let id = ArmId::resource_group("s", "g").extension("Microsoft.X/y", "acct");
            let spec = json!({"sku": {"name": "Standard_LRS"}, "tags": null});
            let body = rendering(&id, arm_type, &spec, true, &|_| None).body();
            assert!(!body.to_string().contains('{') || !body.to_string().contains("\"{"), "{arm_type}: {body}");
            assert_eq!(body["type"], arm_type);
        }
        let id = ArmId::resource_group("s", "g").extension("Microsoft.Storage/storageAccounts", "acct");
        let body = rendering(
            &id,
            "Microsoft.Storage/storageAccounts",
            &json!({"sku": {"name": "Standard_LRS"}}),
            true,
            &|_| None,
        )
        .body();
        assert_eq!(body["properties"]["primaryEndpoints"]["blob"], "https://acct.blob.core.windows.net/");
        assert_eq!((&body["sku"]["tier"], &body["tags"]), (&json!("Standard"), &json!({})));
    }
}
