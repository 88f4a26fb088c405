//! What Azure says about a resource.

use serde_json::Value;

use crate::arm::error::Category;

/// How a resource stands, by its `provisioningState`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Something runs on it; its state is not a terminal one.
    Running,
    /// It was deleted and is going away.
    Deleting,
    /// `Failed` or `Canceled`.
    Failed,
    /// `Succeeded`, or none.
    Settled,
}

impl State {
    /// The state of a GET body.
    pub fn of(body: &Value) -> Self {
        let stated =
            ["provisioningState", "ProvisioningState"].iter().find_map(|name| body["properties"][name].as_str());
        match stated {
            None => State::Settled,
            Some(state) => match state.to_ascii_lowercase().as_str() {
                // `Completed` is not in ARM's list but some services end with it.
                "succeeded" | "completed" | "" => State::Settled,
                "failed" | "canceled" | "cancelled" => State::Failed,
                "deleting" | "deprovisioning" => State::Deleting,
                _ => State::Running,
            },
        }
    }
}

/// A read's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Live {
    /// Azure does not have the resource.
    Absent,
    /// ARM would not say.
    Refused {
        /// Why.
        category: Category,
        /// What it is part of is gone, and so is it.
        parent_absent: bool,
    },
    /// It exists.
    Found {
        /// How it stands.
        state: State,
        /// Fields that the user stated and that differ.
        differences: Vec<String>,
        /// The object's status says the same already.
        shown: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_word_that_is_not_terminal_means_running() {
        let state = |word: &str| State::of(&serde_json::json!({ "properties": { "provisioningState": word } }));
        assert_eq!(state("Succeeded"), State::Settled);
        assert_eq!(state("Canceled"), State::Failed);
        assert_eq!(state("Deleting"), State::Deleting);
        assert_eq!(state("ResolvingDNS"), State::Running);
        assert_eq!(State::of(&serde_json::json!({ "id": "x" })), State::Settled);
    }
}
