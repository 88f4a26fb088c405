//! How each type answers: synchronously or by a long-running operation of which form, and where that is followed.
//!
//! Kept true here: what recordings of the real ARM showed (`data/arm-profiles.tsv`, `data/arm-operations.tsv`); a type that
//! was never recorded answers synchronously.

use std::collections::HashMap;
use std::sync::LazyLock;

/// How a client can follow an operation, by the headers of the first answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Follow {
    /// No header. If the body's state is a running one, the resource itself is polled.
    None,
    /// A relative `Location` that names the resource: no operation.
    SelfLocation,
    /// `Location` only.
    Location,
    /// `Azure-AsyncOperation` only.
    Async,
    /// Both.
    AsyncAndLocation,
}

impl Follow {
    /// Whether an operation resource exists that can be polled.
    pub(crate) fn has_url(self) -> bool {
        !matches!(self, Self::None | Self::SelfLocation)
    }
}

/// The first answer to a PUT or DELETE.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) follow: Follow,
    /// `provisioningState` of its body.
    pub(crate) state: Option<String>,
    pub(crate) retry_after: Option<u64>,
}

impl Reply {
    const fn plain(status: u16) -> Self {
        Self { status, follow: Follow::None, state: None, retry_after: None }
    }

    /// Whether more happens after the answer.
    pub(crate) fn is_running(&self) -> bool {
        self.follow.has_url() || self.state.as_deref().is_some_and(|state| !is_terminal(state))
    }
}

/// Whether a provisioning state is final: any other text means that work goes on.
pub(crate) fn is_terminal(state: &str) -> bool {
    ["Succeeded", "Failed", "Canceled", "Created"].iter().any(|last| last.eq_ignore_ascii_case(state))
}

/// How one type answers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Profile {
    /// The type in the casing that was recorded; empty for the profile of unknown types.
    pub(crate) name: String,
    pub(crate) create: Reply,
    pub(crate) update: Reply,
    pub(crate) delete: Reply,
}

static UNKNOWN: Profile =
    Profile { name: String::new(), create: Reply::plain(201), update: Reply::plain(200), delete: Reply::plain(200) };

static PROFILES: LazyLock<HashMap<String, Profile>> = LazyLock::new(|| {
    rows(include_str!("../data/arm-profiles.tsv"))
        .map(|row| {
            let cell = |at: usize, status| reply(row.get(at).copied().unwrap_or("-")).unwrap_or(Reply::plain(status));
            let profile =
                Profile { name: row[0].to_owned(), create: cell(1, 201), update: cell(2, 200), delete: cell(3, 200) };
            (row[0].to_ascii_lowercase(), profile)
        })
        .collect()
});

/// The profile of a type, whatever its casing.
pub(crate) fn of(arm_type: &str) -> &'static Profile {
    PROFILES.get(&arm_type.to_ascii_lowercase()).unwrap_or(&UNKNOWN)
}

/// Where the operations of a type are followed.
#[derive(Debug)]
pub(crate) struct Urls {
    prefix: String,
    /// The path behind `Azure-AsyncOperation`.
    pub(crate) status: String,
    pub(crate) status_flags: Option<String>,
    /// The path behind `Location`.
    pub(crate) result: String,
    pub(crate) result_flags: Option<String>,
    /// Whether polls that say "go on" carry Retry-After.
    pub(crate) polls_say_when: bool,
    /// What the result answers once a DELETE is done.
    pub(crate) deleted: u16,
    /// Whether the status says nothing but itself.
    pub(crate) brief: bool,
}

static URLS: LazyLock<Vec<Urls>> = LazyLock::new(|| {
    let optional = |text: &str| (text != "-").then(|| text.to_owned());
    let mut urls: Vec<Urls> = rows(include_str!("../data/arm-operations.tsv"))
        .map(|row| Urls {
            prefix: row[0].trim_end_matches('*').to_ascii_lowercase(),
            status: row[1].to_owned(),
            status_flags: optional(row[2]),
            result: row[3].to_owned(),
            result_flags: optional(row[4]),
            polls_say_when: row[5] == "yes",
            deleted: row[6].parse().unwrap_or(200),
            brief: row[7] == "brief",
        })
        .collect();
    urls.sort_by_key(|urls| std::cmp::Reverse(urls.prefix.len()));
    urls
});

/// Where the operations of a type are followed, by the longest prefix of its name that is known.
pub(crate) fn urls(arm_type: &str) -> &'static Urls {
    let arm_type = arm_type.to_ascii_lowercase();
    let fits = |prefix: &str| {
        arm_type.strip_prefix(prefix).is_some_and(|rest| prefix.is_empty() || rest.is_empty() || rest.starts_with('/'))
    };
    #[expect(
        clippy::expect_used,
        reason = "the table's row * has the empty prefix, which fits every type; a test reads it"
    )]
    URLS.iter().find(|urls| fits(&urls.prefix)).expect("a row that fits every type")
}

/// The lines of a table, cut at tabs, without comments.
pub(crate) fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| line.split('\t').collect())
}

fn reply(cell: &str) -> Option<Reply> {
    let words: Vec<&str> = cell.split(' ').collect();
    let [status, follow, state, retry_after] = words.as_slice() else { return None };
    let follow = match *follow {
        "none" => Follow::None,
        "self-location" => Follow::SelfLocation,
        "location" => Follow::Location,
        "async" => Follow::Async,
        "async+location" => Follow::AsyncAndLocation,
        _ => return None,
    };
    let state = (*state != "-").then(|| (*state).to_owned());
    Some(Reply { status: status.parse().ok()?, follow, state, retry_after: retry_after.parse().ok() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_of_the_tables_can_be_read() {
        let mut types = 0;
        for row in rows(include_str!("../data/arm-profiles.tsv")) {
            assert_eq!(row.len(), 4, "{row:?}");
            for cell in row[1..].iter().filter(|cell| **cell != "-") {
                assert!(reply(cell).is_some(), "{row:?}: {cell}");
            }
            types += 1;
        }
        assert!(types > 250, "{types} types");
        for row in rows(include_str!("../data/arm-operations.tsv")) {
            assert_eq!(row.len(), 8, "{row:?}");
            assert!(row[6].parse::<u16>().is_ok(), "{row:?}");
        }
    }

    #[test]
    fn types_answer_as_recorded() {
        let environment = of("microsoft.app/MANAGEDENVIRONMENTS");
        assert_eq!(environment.name, "Microsoft.App/managedEnvironments");
        assert_eq!((environment.create.status, environment.create.follow), (201, Follow::Async));
        assert_eq!((environment.create.state.as_deref(), environment.create.retry_after), (Some("Waiting"), Some(15)));
        assert_eq!(environment.update.state.as_deref(), Some("Updating"));
        assert_eq!((environment.delete.status, environment.delete.follow), (202, Follow::Location));
        let storage = of("Microsoft.Storage/storageAccounts");
        assert_eq!(
            (storage.create.status, storage.create.follow, storage.create.retry_after),
            (202, Follow::Location, Some(17))
        );
        assert!(!storage.update.is_running() && !of("Microsoft.Nobody/knows").create.is_running());
        assert!(of("Microsoft.EventHub/namespaces").create.is_running());
    }

    #[test]
    fn the_longest_known_prefix_says_where_to_follow() {
        assert!(urls("Microsoft.App/jobs").status.contains("containerappsjobOperationStatuses"));
        assert!(urls("Microsoft.Network/virtualNetworks/subnets").status.contains("/operations/"));
        assert!(urls("Microsoft.Network/privateDnsZones/A").status.contains("privateDnsOperationStatuses"));
        assert!(
            urls("Microsoft.NetworkFunction/x").status.contains("operationStatuses"),
            "a namespace, not a prefix of one"
        );
    }
}
