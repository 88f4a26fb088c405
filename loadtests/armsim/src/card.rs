//! What a service does to the bodies of one type, and what it refuses: the table `data/arm-types.yaml`.
//!
//! Kept true here: the whole table is read and checked at once, so that a wrong line fails every test and no single call.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

/// The rules for one type. The table's head explains each.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Card {
    pub(crate) name: Option<String>,
    pub(crate) location: Location,
    pub(crate) id_casing: Vec<(String, String)>,
    pub(crate) system_data: bool,
    pub(crate) etag: bool,
    pub(crate) echo: Echo,
    pub(crate) durations: Durations,
    pub(crate) named: Option<NameRule>,
    pub(crate) unique: Option<Words>,
    pub(crate) busy: Option<Busy>,
    pub(crate) needs: Vec<Need>,
    pub(crate) hide: Vec<String>,
    pub(crate) values: BTreeMap<String, ShortHand>,
    pub(crate) owned: Value,
    pub(crate) defaults: Value,
    pub(crate) owned_when_ready: Value,
    pub(crate) defaults_when_ready: Value,
    pub(crate) actions: BTreeMap<String, Action>,
    pub(crate) embeds: Vec<Embed>,
}

/// How locations are taken and echoed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Location {
    /// As the request wrote it.
    #[default]
    AsGiven,
    /// "West US 2".
    Display,
    /// The type exists once in all of Azure.
    Global,
}

/// What a PUT answers.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Echo {
    /// What a GET would.
    #[default]
    Resource,
    /// The request's own body.
    Request,
}

/// Simulated seconds.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Durations {
    pub(crate) create: Option<f64>,
    pub(crate) update: Option<f64>,
    pub(crate) delete: Option<f64>,
}

/// Which names the service takes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NameRule {
    #[serde(deserialize_with = "pattern")]
    pub(crate) pattern: Regex,
    pub(crate) code: String,
    pub(crate) message: String,
}

/// A refusal without its status.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Words {
    pub(crate) code: String,
    pub(crate) message: String,
}

/// A refusal.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Refuse {
    pub(crate) status: u16,
    pub(crate) code: String,
    pub(crate) message: String,
}

/// The refusal of writes while an operation runs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Busy {
    pub(crate) code: String,
    pub(crate) message: String,
    /// Whether operations on the parent and on children count too.
    #[serde(default)]
    pub(crate) shares: bool,
}

/// Another resource that a body refers to.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Need {
    pub(crate) paths: Vec<String>,
    #[serde(rename = "type")]
    pub(crate) arm_type: String,
    pub(crate) missing: Refuse,
    pub(crate) unready: Refuse,
}

/// A value for templates: the first that is found wins.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ShortHand {
    /// Places in the request's body.
    pub(crate) paths: Vec<String>,
    /// Places in the request's body that hold ids of resources, or `parent`; of the first resource found, `path` is taken.
    pub(crate) of: Vec<String>,
    pub(crate) path: String,
    /// What to say instead of the value found; `*` for any other and for none.
    pub(crate) map: BTreeMap<String, String>,
    /// A place whose content is turned into seven made-up characters, if nothing else was found.
    pub(crate) hash: Option<String>,
}

/// A POST action.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Action {
    pub(crate) answer: Value,
    #[serde(default)]
    pub(crate) ready: Option<Refuse>,
}

/// Child resources shown in the parent's body.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Embed {
    /// The last part of the children's type.
    pub(crate) children: String,
    /// The place of the list in the parent's body.
    pub(crate) at: String,
}

static CARDS: LazyLock<HashMap<String, Card>> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "the table is part of the program; a test reads it")]
    let cards: BTreeMap<String, Card> =
        serde_saphyr::from_str(include_str!("../data/arm-types.yaml")).expect("data/arm-types.yaml can be read");
    cards.into_iter().map(|(arm_type, card)| (arm_type.to_ascii_lowercase(), card)).collect()
});

static NOTHING: LazyLock<Card> = LazyLock::new(Card::default);

/// The card of a type, whatever its casing; an empty one if nothing special is known.
pub(crate) fn of(arm_type: &str) -> &'static Card {
    CARDS.get(&arm_type.to_ascii_lowercase()).unwrap_or(&NOTHING)
}

fn pattern<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Regex, D::Error> {
    let text = String::deserialize(deserializer)?;
    Regex::new(&text).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_can_be_read_and_knows_name_rules() {
        let fits = |arm_type, name| of(arm_type).named.as_ref().unwrap().pattern.is_match(name);
        assert!(fits("microsoft.storage/storageaccounts", "abc123"));
        assert!(!fits("Microsoft.Storage/storageAccounts", "ABC"));
        assert!(!fits("Microsoft.Storage/storageAccounts", "ab"));
        assert!(fits("Microsoft.Resources/resourceGroups", "a-b_(c).d"));
        assert!(!fits("Microsoft.Resources/resourceGroups", "ends."));
        assert!(!fits("Microsoft.Resources/resourceGroups", "a b"));
        assert!(of("Microsoft.App/jobs").needs.len() == 1, "an alias of another type's rule");
        assert!(of("Microsoft.Nobody/knows").named.is_none());
    }
}
