//! What stands in for facts about types outside of our table, whose properties have not been reviewed one by one.
//!
//! Measured on the types whose facts are known, the words below find nine of ten secrets that the type data do not mark.

use crate::graph::{Flags, Node, Prop};

/// What a secret's name ends with, in lower case.
const SECRET_ENDS: [&str; 19] = [
    "password",
    "passphrase",
    "passwd",
    "pwd",
    "secret",
    "secretkey",
    "secretvalue",
    "connectionstring",
    "privatekey",
    "accesskey",
    "accountkey",
    "apikey",
    "storagekey",
    "sharedkey",
    "sastoken",
    "accesstoken",
    "authtoken",
    "authkey",
    "protectedsettings",
];

/// What the service keeps, although the type data don't say so.
const KEPT_BY_THE_SERVICE: [&str; 3] = ["provisioningState", "systemData", "etag"];

/// The length of the shortest ARM id: a subscription's.
const SHORTEST_ID: u64 = 51;

/// Writes guesses on a property.
pub(super) fn flags(prop: &mut Prop, node: &Node) {
    if prop.flags.has(Flags::READ_ONLY) {
        return;
    }
    if matches!(node, Node::String { max: Some(max), .. } if *max < SHORTEST_ID) {
        prop.flags = prop.flags.without(Flags::REFERENCE);
    }
    let name = prop.name.to_ascii_lowercase();
    let can_hide = matches!(node, Node::String { .. } | Node::Any | Node::AnyMap);
    if can_hide && SECRET_ENDS.iter().any(|end| name.ends_with(end)) {
        prop.flags = prop.flags.with(Flags::SECRET).without(Flags::REFERENCE);
    }
    if KEPT_BY_THE_SERVICE.contains(&&*prop.name) && !prop.flags.has(Flags::REQUIRED) {
        prop.flags = prop.flags.with(Flags::NOT_IN_SPEC);
    }
}

/// The type data know only whole numbers; where nothing bounds one, it may as well be a fraction.
pub(super) fn number(min: Option<i64>, max: Option<i64>) -> Node {
    match (min, max) {
        (None, None) => Node::Number { min, max },
        _ => Node::Integer { min, max },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guessed(name: &str, node: &Node, flags: Flags) -> Flags {
        let mut prop = Prop { name: name.into(), flags, node: 0, rename: None };
        super::flags(&mut prop, node);
        prop.flags
    }

    #[test]
    fn secrets_are_told_by_their_names() {
        let text = Node::String { pattern: None, min: None, max: None };
        for (name, node, secret) in [
            ("adminPassword", &text, true),
            ("clientSecret", &text, true),
            ("secretName", &text, false),
            ("protectedSettings", &Node::Any, true),
            ("hasPassword", &Node::Boolean, false),
            ("keyVaultSecretUri", &text, false),
        ] {
            assert_eq!(guessed(name, node, Flags(0)).has(Flags::SECRET), secret, "{name}");
        }
        assert!(!guessed("adminPassword", &text, Flags::READ_ONLY).has(Flags::SECRET));
    }

    #[test]
    fn what_holds_no_arm_id_is_no_reference() {
        let text = |max| Node::String { pattern: None, min: None, max };
        assert!(!guessed("id", &text(Some(50)), Flags::REFERENCE).has(Flags::REFERENCE));
        assert!(guessed("id", &text(Some(244)), Flags::REFERENCE).has(Flags::REFERENCE));
        assert!(guessed("id", &text(None), Flags::REFERENCE).has(Flags::REFERENCE));
    }

    #[test]
    fn what_the_service_keeps_is_not_in_the_spec() {
        let text = Node::String { pattern: None, min: None, max: None };
        assert!(guessed("provisioningState", &text, Flags(0)).has(Flags::NOT_IN_SPEC));
        assert!(!guessed("provisioningState", &text, Flags::REQUIRED).has(Flags::NOT_IN_SPEC));
    }
}
