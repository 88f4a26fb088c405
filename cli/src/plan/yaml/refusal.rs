//! Why a text is not YAML that we read, in the words of those who write manifests.

use serde_saphyr::Error;
use serde_saphyr::budget::BudgetBreach;

use super::{MAX_DEPTH, MAX_DOCUMENTS, MAX_NODES, MAX_REPLAYED, MAX_SCALARS};

/// Whether the text is too large as a whole, so that reading the rest of it makes no sense.
pub(super) fn is_too_large(error: &Error) -> bool {
    match error.without_snippet() {
        Error::AliasError { error, .. } => is_too_large(error),
        Error::Budget { breach, .. } => {
            !matches!(breach, BudgetBreach::Depth { .. } | BudgetBreach::SequenceUnbalanced)
        }
        Error::AliasReplayLimitExceeded { .. } | Error::AliasExpansionLimitExceeded { .. } => true,
        _ => false,
    }
}

/// What is wrong.
pub(super) fn why(error: &Error) -> String {
    match error.without_snippet() {
        Error::AliasError { error, .. } => why(error),
        Error::Budget { breach, .. } => match breach {
            BudgetBreach::Depth { .. } => too_deep(),
            BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. } => format!("more than {MAX_NODES} values"),
            BudgetBreach::Documents { .. } => format!("more than {MAX_DOCUMENTS} documents"),
            BudgetBreach::ScalarBytes { .. } => {
                format!("texts of more than {} MiB, aliases included", MAX_SCALARS >> 20)
            }
            _ => "too many anchors, aliases or merge keys".to_owned(),
        },
        Error::AliasReplayLimitExceeded { .. } | Error::AliasExpansionLimitExceeded { .. } => {
            format!("aliases repeat more than {MAX_REPLAYED} values")
        }
        Error::AliasReplayStackDepthExceeded { .. } => too_deep(),
        Error::RecursiveReferencesRequireWeakTypes { .. } => "the alias refers to a value that contains it".to_owned(),
        Error::UnknownAnchor { .. } => "this document defines no such anchor before the alias".to_owned(),
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("the key {key} appears twice"),
        Error::MergeValueNotMapOrSeqOfMaps { .. } => "<< takes a map or a list of maps".to_owned(),
        Error::NonFiniteFloat { value, .. } => format!("{value} is not a number that JSON can hold"),
        Error::InvalidScalar { .. } => "the value does not match its tag".to_owned(),
        Error::BinaryNotUtf8 { .. } => "!!binary must hold UTF-8 text".to_owned(),
        // Keys are what we ask to be texts.
        Error::NullIntoString { .. } | Error::Unexpected { .. } => "a key must be a string".to_owned(),
        other => {
            let text = other.to_string();
            let text = without_place(&text);
            // The reader has a limit of its own for lists in flow style.
            if text.contains("recursion limit") { too_deep() } else { text.to_owned() }
        }
    }
}

fn too_deep() -> String {
    format!("nested deeper than {MAX_DEPTH} levels")
}

/// The reader's messages end with their place, which is printed before them.
fn without_place(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    line.rfind(" at line ").map_or(line, |at| &line[..at])
}

/// What to do about it, as far as the line shows.
pub(super) fn help(line: &str) -> Option<&'static str> {
    let template = line.split_once("{{").is_some_and(|(_, rest)| rest.contains("}}"));
    template.then_some("this is a template: plan what it renders to, as in helm template … | flotilla plan -f -")
}
