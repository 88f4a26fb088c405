//! Our tables of kinds, of what they export, and of how their bodies treat unset collections.

use std::path::Path;

use super::{Error, table};
use crate::entry::{Export, KindEntry, Payload};
use crate::manager::Manager;
use crate::names;
use crate::scopes::Scopes;

/// A kind that the catalog shall hold.
pub(super) struct Wanted {
    /// The entry, still without versions, scopes and block.
    pub(super) entry: KindEntry,
    pub(super) versions: Vec<WantedVersion>,
    /// The line of the table.
    pub(super) line: usize,
}

/// A version of it.
pub(super) struct WantedVersion {
    pub(super) name: String,
    pub(super) api_version: String,
    /// The api-version whose type data are taken.
    pub(super) types_of: String,
}

impl WantedVersion {
    /// The version of that api-version under the name that the rules give.
    pub(super) fn by_rule(api_version: &str) -> Self {
        Self {
            name: names::version(api_version),
            api_version: api_version.to_owned(),
            types_of: api_version.to_owned(),
        }
    }
}

/// Reads `kinds.tsv`, `exports.tsv` and `payload.tsv`.
pub(super) fn read(data: &Path) -> Result<Vec<Wanted>, Error> {
    let path = data.join("kinds.tsv");
    let mut wanted = Vec::new();
    for (line, cells) in table(&path, 6)? {
        let [group, kind, plural, arm_type, versions, hub] = cells.try_into().unwrap_or_default();
        let fail = |rule: String| Error::Line { path: path.clone(), line, rule };
        let manager = Manager::parse(arm_type.split('/').next().unwrap_or_default()).unwrap_or_default();
        let versions = versions.split(',').map(|v| version(v, manager).map_err(fail)).collect::<Result<Vec<_>, _>>()?;
        check_names(&group, &kind, &plural, &arm_type).map_err(fail)?;
        if let Some(twice) = versions.iter().enumerate().find(|(i, v)| versions[..*i].iter().any(|w| w.name == v.name))
        {
            return Err(fail(format!("version {} appears twice", twice.1.name)));
        }
        let same = |w: &&Wanted| w.entry.group == group && (w.entry.kind == kind || w.entry.plural == plural);
        if let Some(other) = wanted.iter().find(same) {
            return Err(fail(format!(
                "line {} has {group}/{} ({}) already",
                other.line, other.entry.kind, other.entry.plural
            )));
        }
        if !versions.iter().any(|v| v.name == hub) {
            return Err(fail(format!("the hub {hub} is not one of the versions")));
        }
        let entry = KindEntry {
            group,
            kind,
            plural,
            arm_type,
            manager,
            hub,
            versions: Vec::new(),
            exports: Vec::new(),
            payload: Payload::default(),
            scopes: Scopes::default(),
            owner: None,
            further: false,
            block: 0,
        };
        wanted.push(Wanted { entry, versions, line });
    }
    exports(data, &mut wanted)?;
    payload(data, &mut wanted)?;
    Ok(wanted)
}

/// Refuses what can't be the name of a CRD, as where a column is empty or blanks came with a word.
fn check_names(group: &str, kind: &str, plural: &str, arm_type: &str) -> Result<(), String> {
    let of = |text: &str, fits: fn(u8) -> bool| !text.is_empty() && text.bytes().all(fits);
    let lower = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let rules = [
        (
            of(group, |b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'.' || b == b'-')
                && group.contains('.'),
            group,
            "group",
        ),
        (of(kind, |b| b.is_ascii_alphanumeric()) && kind.as_bytes()[0].is_ascii_uppercase(), kind, "kind"),
        (of(plural, lower), plural, "plural"),
        (of(arm_type, |b| b.is_ascii_graphic()) && arm_type.contains('/'), arm_type, "ARM type"),
    ];
    match rules.into_iter().find(|(fits, ..)| !fits) {
        Some((_, text, what)) => Err(format!("{text:?} can't be the {what}")),
        None => Ok(()),
    }
}

fn version(cell: &str, manager: Manager) -> Result<WantedVersion, String> {
    if !manager.is_arm() {
        let name = || cell.to_owned();
        return Ok(WantedVersion { name: name(), api_version: name(), types_of: name() });
    }
    let (name, types_of) = cell.split_once('~').map_or((cell, None), |(n, t)| (n, Some(t)));
    let api_version = names::api_version(name).ok_or_else(|| format!("version {name} does not name an api-version"))?;
    let types_of = types_of.map_or_else(|| api_version.clone(), str::to_owned);
    Ok(WantedVersion { name: name.to_owned(), api_version, types_of })
}

fn exports(data: &Path, wanted: &mut [Wanted]) -> Result<(), Error> {
    let path = data.join("exports.tsv");
    for (line, cells) in table(&path, 6)? {
        let [group, kind, target, name, versions, source] = cells.try_into().unwrap_or_default();
        let fail = |rule: String| Error::Line { path: path.clone(), line, rule };
        let secret = match target.as_str() {
            "secret" => true,
            "config-map" => false,
            other => return Err(fail(format!("target {other:?} is neither secret nor config-map"))),
        };
        let kind =
            find(wanted, &group, &kind).ok_or_else(|| fail(format!("the kind {group}/{kind} does not exist")))?;
        let versions: Vec<String> =
            if versions == "*" { Vec::new() } else { versions.split(',').map(str::to_owned).collect() };
        if let Some(version) = versions.iter().find(|v| !kind.versions.iter().any(|w| w.name == **v)) {
            return Err(fail(format!("{} has no version {version}", kind.entry.kind)));
        }
        let meets = |e: &Export| {
            e.versions.is_empty() || versions.is_empty() || e.versions.iter().any(|v| versions.contains(v))
        };
        if kind.entry.exports.iter().any(|e| e.secret == secret && e.name == name && meets(e)) {
            return Err(fail(format!("{target} {name} of {} appears twice", kind.entry.kind)));
        }
        kind.entry.exports.push(Export { name, secret, versions, source });
    }
    Ok(())
}

fn payload(data: &Path, wanted: &mut [Wanted]) -> Result<(), Error> {
    let path = data.join("payload.tsv");
    for (line, cells) in table(&path, 5)? {
        let [group, kind, field, rule, reason] = cells.try_into().unwrap_or_default();
        let fail = |rule: String| Error::Line { path: path.clone(), line, rule };
        if reason.is_empty() {
            return Err(fail("a rule needs a reason in its last column".to_owned()));
        }
        let mut any = false;
        for kind in wanted.iter_mut().filter(|w| w.entry.group == group && (kind == "*" || w.entry.kind == kind)) {
            any = true;
            match rule.as_str() {
                "null" if field == "*" => kind.entry.payload.nulls = true,
                "empty" => kind.entry.payload.empty.push(field.clone()),
                _ => return Err(fail("the rule is null (of all fields, *) or empty (of one field)".to_owned())),
            }
        }
        if !any {
            return Err(fail(format!("the kind {group}/{kind} does not exist")));
        }
    }
    Ok(())
}

fn find<'a>(wanted: &'a mut [Wanted], group: &str, kind: &str) -> Option<&'a mut Wanted> {
    wanted.iter_mut().find(|w| w.entry.group == group && w.entry.kind == kind)
}
