//! Lists of children that have kinds of their own, as the subnets of a virtual network.
//!
//! The spec of the parent has no such list, but a PUT of the parent without it deletes what it holds. So a PUT to a resource that exists carries the
//! lists as Azure has them.

use serde_json::{Map, Value};

use crate::graph::{Flags, Graph, Node, NodeId, Prop};
use crate::kind::Version;

impl Version {
    /// Whether a PUT has to carry lists that only Azure knows: the resource is read before it is written.
    pub fn has_child_lists(&self) -> bool {
        self.child_lists().next().is_some()
    }

    /// Takes the child lists of `live`, the answer of a GET, over into a PUT body.
    ///
    /// Without what only a GET has: etags, which a service may check, states, and what is empty.
    ///
    /// As ASO does, such a body has `properties` even if nothing is in it.
    pub fn keep_children(&self, body: &mut Value, live: &Value) {
        for list in self.child_lists() {
            let Some(body) = body.as_object_mut() else { return };
            let properties = body.entry("properties").or_insert_with(|| Value::Object(Map::new()));
            let children = live.pointer(&format!("/properties/{list}")).filter(|children| !is_empty(children));
            if let (Some(children), Some(properties)) = (children, properties.as_object_mut()) {
                properties.insert(list.to_owned(), writable(children));
            }
        }
    }

    /// Names of the child lists; all are members of the body's `properties`.
    fn child_lists(&self) -> impl Iterator<Item = &str> {
        let (graph, root) = self.types();
        let properties = props(graph, root).iter().find(|prop| &*prop.name == "properties");
        let members = properties.map(|prop| props(graph, prop.node)).unwrap_or_default();
        let writable = |prop: &&Prop| prop.flags.has(Flags::CHILD_LIST) && !prop.flags.has(Flags::READ_ONLY);
        members.iter().filter(writable).map(|prop| &*prop.name)
    }
}

fn props(graph: &Graph, node: NodeId) -> &[Prop] {
    match graph.node(node) {
        Node::Object { props, .. } => props,
        Node::Union { base, .. } => base,
        _ => &[],
    }
}

fn writable(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(writable).collect(),
        Value::Object(members) => {
            let kept = members
                .iter()
                .filter(|(name, value)| *name != "etag" && *name != "provisioningState" && !is_empty(value));
            kept.map(|(name, value)| (name.clone(), writable(value))).collect()
        }
        scalar => scalar.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::Catalog;

    /// From the recorded update of a virtual network that has a subnet of its own.
    #[test]
    fn update_of_a_network_carries_the_subnets_that_azure_has() {
        let kind = Catalog::embedded().kind("network.azure.com", "VirtualNetwork").unwrap();
        let version = kind.version("v20250301").unwrap();
        let live = json!({"properties": {
            "provisioningState": "Succeeded",
            "subnets": [{"name": "s", "id": "/…/subnets/s", "etag": "W/\"1\"", "type": "Microsoft.Network/virtualNetworks/subnets",
                "properties": {"provisioningState": "Succeeded", "addressPrefix": "10.0.0.0/24", "delegations": [],
                    "privateEndpointNetworkPolicies": "Disabled"}}],
            "virtualNetworkPeerings": [],
        }});
        let mut body =
            json!({"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}}});
        version.keep_children(&mut body, &live);
        assert_eq!(
            body,
            json!({"location": "westus2", "properties": {
                "addressSpace": {"addressPrefixes": ["10.0.0.0/16"]},
                "subnets": [{"name": "s", "id": "/…/subnets/s", "type": "Microsoft.Network/virtualNetworks/subnets",
                    "properties": {"addressPrefix": "10.0.0.0/24", "privateEndpointNetworkPolicies": "Disabled"}}],
            }})
        );
    }

    #[test]
    fn only_parents_of_other_kinds_have_such_lists() {
        let has = |group: &str, kind: &str| {
            let kind = Catalog::embedded().kind(group, kind).unwrap();
            kind.versions().iter().all(crate::Version::has_child_lists)
        };
        for kind in ["VirtualNetwork", "NetworkSecurityGroup", "RouteTable"] {
            assert!(has("network.azure.com", kind), "{kind}");
        }
        assert!(!has("storage.azure.com", "StorageAccount") && !has("app.azure.com", "ContainerApp"));
    }
}
