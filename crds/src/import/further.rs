//! The kinds outside the table: every other ARM type that can be written, named by rule, at its newest api-version.
//!
//! `further.tsv` says what the rules can't: which types are left out, and the names of those whose own would be too long.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use super::kinds::WantedVersion;
use super::{Error, table};
use crate::catalog::LEAVE_OUT;
use crate::entry::{KindEntry, Payload};
use crate::manager::Manager;
use crate::names;
use crate::scopes::Scopes;

/// What a name may have: the API server wants labels for the plural and for the kind with `List` behind it.
const LONGEST: usize = 63;

/// The table of what the rules can't say.
pub(super) struct Exceptions {
    path: PathBuf,
    rows: Vec<Row>,
}

struct Row {
    line: usize,
    types: GlobMatcher,
    rule: Rule,
    used: bool,
}

enum Rule {
    LeaveOut,
    Named(String),
}

impl Exceptions {
    /// Reads `further.tsv`.
    pub(super) fn read(data: &Path) -> Result<Self, Error> {
        let path = data.join("further.tsv");
        let mut rows = Vec::new();
        for (line, cells) in table(&path, 4)? {
            let [arm_type, rule, value, reason] = cells.try_into().unwrap_or_default();
            let fail = |rule: String| Error::Line { path: path.clone(), line, rule };
            let rule = match (rule.as_str(), value.as_str()) {
                (LEAVE_OUT, "") => Rule::LeaveOut,
                ("kind", kind) if !kind.is_empty() => Rule::Named(kind.to_owned()),
                _ => return Err(fail("the rule is leave-out, without a value, or kind with a name".to_owned())),
            };
            if reason.is_empty() {
                return Err(fail("an exception needs a reason in its last column".to_owned()));
            }
            let glob = GlobBuilder::new(&arm_type).case_insensitive(true).build();
            let types =
                glob.map_err(|error| fail(format!("{arm_type:?} is not a valid pattern: {error}")))?.compile_matcher();
            rows.push(Row { line, types, rule, used: false });
        }
        Ok(Self { path, rows })
    }

    /// The lines that no type has needed: probably outdated.
    pub(super) fn unused(&self) -> Vec<String> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let unused = self.rows.iter().filter(|row| !row.used);
        unused.map(|row| format!("{name}:{} {}", row.line, row.types.glob())).collect()
    }

    /// The entry for a type, still without versions, scopes, owner and block. None if it is left out.
    fn entry(&mut self, arm_type: &str) -> Result<Option<KindEntry>, Error> {
        let (provider, segments) = arm_type.split_once('/').unwrap_or((arm_type, ""));
        let mut kind = names::kind(segments);
        for row in self.rows.iter_mut().filter(|row| row.types.is_match(arm_type)) {
            row.used = true;
            match &row.rule {
                Rule::LeaveOut => return Ok(None),
                Rule::Named(name) => kind.clone_from(name),
            }
        }
        let plural = names::plural(&kind);
        if plural.len() > LONGEST || kind.len() + "List".len() > LONGEST {
            let rule = format!("it would be kind {kind}, which is too long: give it another name");
            return Err(Error::Type { path: self.path.clone(), arm_type: arm_type.to_owned(), rule });
        }
        Ok(Some(KindEntry {
            group: names::group(provider),
            kind,
            plural,
            arm_type: arm_type.to_owned(),
            manager: Manager::Arm,
            versions: Vec::new(),
            hub: String::new(),
            exports: Vec::new(),
            payload: Payload::default(),
            scopes: Scopes::default(),
            owner: None,
            further: true,
            block: 0,
        }))
    }

    /// The entries of a provider's types, each with the version that its CRD serves: the newest stable one, else the newest preview.
    pub(super) fn kinds(
        &mut self,
        versions: &BTreeMap<String, Vec<(String, String)>>,
    ) -> Result<Vec<(KindEntry, WantedVersion)>, Error> {
        let mut kinds = Vec::new();
        for spelt in versions.values() {
            let stable = spelt.iter().rev().find(|(api_version, _)| !api_version.ends_with("-preview"));
            let Some((api_version, arm_type)) = stable.or_else(|| spelt.last()) else { continue };
            if let Some(mut entry) = self.entry(arm_type)? {
                let version = WantedVersion::by_rule(api_version);
                entry.hub.clone_from(&version.name);
                kinds.push((entry, version));
            }
        }
        Ok(kinds)
    }
}
