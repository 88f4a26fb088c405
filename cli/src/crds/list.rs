//! The list of kinds, in its forms.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use flotilla_crds::{Asked, Catalog, Kind, KindEntry, Owner};
use serde_json::{Value, json};

use super::ListFormat;
use super::select::{self, Selected};
use crate::output::{self, Out};

/// What is listed.
pub(super) struct Listed<'a> {
    kinds: Vec<(&'a KindEntry, Versions)>,
    /// Whether it is the types outside of ASO's set.
    further: bool,
}

/// Versions of a kind: names and api-versions.
struct Versions {
    served: Vec<(String, String)>,
    /// Those that are served only when a pattern names them, if they are wanted.
    others: Vec<(String, String)>,
}

impl<'a> Listed<'a> {
    /// The kinds that patterns mean, or those outside of ASO's set.
    pub(super) fn of(catalog: &'a Catalog, patterns: &[String], further: bool, all_versions: bool) -> Result<Self> {
        let selected = if further {
            let all = catalog.kinds().filter(|entry| entry.further);
            all.map(|entry| Selected { entry, asked: Asked { default: true, ..Asked::default() } }).collect()
        } else {
            select::selected(catalog, patterns)?
        };
        let kinds = selected.into_iter().map(|Selected { entry, asked }| {
            let own: Vec<(String, String)> =
                entry.versions.iter().map(|v| (v.name.clone(), v.api_version.clone())).collect();
            if asked.api_versions.is_empty() && !all_versions {
                return Ok((entry, Versions { served: own, others: Vec::new() }));
            }
            let kind = load(catalog, entry)?;
            let asked = kind.versions_asked(&asked)?;
            let is_asked = |(name, _): &(String, String)| asked.contains(name.as_str());
            let others = kind.other_versions().map(|(name, api)| (name.to_owned(), api.to_owned()));
            let (served, others) = own.into_iter().chain(others).partition(is_asked);
            Ok((entry, Versions { served, others: if all_versions { others } else { Vec::new() } }))
        });
        Ok(Self { kinds: kinds.collect::<Result<_>>()?, further })
    }
}

fn load(catalog: &Catalog, entry: &KindEntry) -> Result<std::sync::Arc<Kind>> {
    catalog.kind(&entry.group, &entry.kind).context("the catalog lost a kind")
}

/// Prints a list of kinds.
pub(super) fn print(out: Out<'_>, listed: &Listed<'_>, format: ListFormat) -> Result<()> {
    let values = || listed.kinds.iter().map(|(entry, versions)| to_value(entry, versions)).collect::<Vec<_>>();
    match format {
        ListFormat::Table => table(out, listed),
        ListFormat::Name => {
            for (entry, _) in &listed.kinds {
                writeln!(out, "{}", entry.crd_name()).context("failed to print")?;
            }
            Ok(())
        }
        ListFormat::Json => output::json(out, &values()),
        ListFormat::Yaml => output::yaml(out, &values()),
        ListFormat::Markdown if listed.further => further(out, listed),
        ListFormat::Markdown => markdown(out, listed),
    }
}

fn to_value(entry: &KindEntry, versions: &Versions) -> Value {
    let pairs = |versions: &[(String, String)]| -> Vec<Value> {
        versions.iter().map(|(name, api)| json!({"name": name, "apiVersion": api})).collect()
    };
    let mut value = json!({
        "name": entry.crd_name(),
        "group": entry.group,
        "kind": entry.kind,
        "plural": entry.plural,
        "armType": entry.manager.is_arm().then_some(&entry.arm_type),
        "manager": entry.manager,
        "storageVersion": entry.storage_version(),
        "versions": pairs(&versions.served),
        "secrets": exports(entry, true),
        "configMaps": exports(entry, false),
    });
    if !versions.others.is_empty() {
        value["otherVersions"] = pairs(&versions.others).into();
    }
    value
}

fn exports(entry: &KindEntry, secret: bool) -> Vec<&str> {
    entry.exports.iter().filter(|e| e.secret == secret).map(|e| e.name.as_str()).collect()
}

/// One line a kind; versions have lines of their own where there are several.
fn table(out: Out<'_>, listed: &Listed<'_>) -> Result<()> {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["GROUP", "KIND", "ARM TYPE", "VERSIONS"]);
    for (entry, versions) in &listed.kinds {
        let served = versions.served.iter().map(|(name, _)| name.clone());
        let others = versions.others.iter().map(|(name, _)| format!("({name})"));
        let lines: Vec<String> =
            served.chain(others).collect::<Vec<_>>().chunks(3).map(|some| some.join(", ")).collect();
        table.add_row([entry.group.as_str(), &entry.kind, entry.belongs_to(), &lines.join(",\n")]);
    }
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end()).context("failed to print")?;
    }
    Ok(())
}

fn by_group<'a>(listed: &Listed<'a>) -> BTreeMap<&'a str, Vec<&'a KindEntry>> {
    let mut groups: BTreeMap<&str, Vec<&KindEntry>> = BTreeMap::new();
    for (entry, _) in &listed.kinds {
        groups.entry(&entry.group).or_default().push(entry);
    }
    groups
}

fn markdown(out: Out<'_>, listed: &Listed<'_>) -> Result<()> {
    let groups = by_group(listed);
    let count: usize = listed.kinds.iter().map(|(e, _)| e.versions.len()).sum();
    writeln!(
        out,
        "# Kinds\n\n<!-- Made by `make generate`. -->\n\n{} kinds in {} groups, {count} served versions. `operatorSpec.secrets` and \
         `operatorSpec.configMaps` can export what the last column names; secrets are in italics. Every other type of Azure is in \
         [further types](further_types.md).\n",
        listed.kinds.len(),
        groups.len()
    )?;
    for (group, kinds) in groups {
        writeln!(out, "## {group}\n\n| Kind | ARM type | Versions | Exports |\n|---|---|---|---|")?;
        for entry in kinds {
            let secrets = exports(entry, true).into_iter().map(|name| format!("_{name}_"));
            let maps = exports(entry, false).into_iter().map(str::to_owned);
            let all: Vec<String> = secrets.chain(maps).collect();
            let versions: Vec<&str> = entry.versions.iter().map(|v| v.name.as_str()).collect();
            let versions = versions.join(", ");
            writeln!(out, "| {} | {} | {versions} | {} |", entry.kind, entry.belongs_to(), all.join(", "))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// The page of the types outside of ASO's set.
fn further(out: Out<'_>, listed: &Listed<'_>) -> Result<()> {
    let groups = by_group(listed);
    writeln!(
        out,
        "# Further types\n\n<!-- Made by `make generate`. -->\n\n{} types of Azure outside of ASO's set, in {} groups. \
         [Use any Azure type](../guides/use_any_azure_type.md) says how to install them. The version is the one that is served when a pattern does \
         not name another; `flotilla crds list --all-versions TYPE` shows all.\n",
        listed.kinds.len(),
        groups.len()
    )?;
    let catalog = Catalog::embedded();
    for (group, kinds) in groups {
        writeln!(out, "## {group}\n\n| Kind | ARM type | Version | Owner |\n|---|---|---|---|")?;
        for entry in kinds {
            let owner = match load(catalog, entry)?.owner() {
                Owner::Kind { kind, .. } => kind,
                Owner::Resource { arm_type } => format!("the ARM id of a {arm_type}"),
                Owner::Extension => "any resource".to_owned(),
                Owner::None => String::new(),
            };
            writeln!(out, "| {} | {} | {} | {owner} |", entry.kind, entry.arm_type, entry.hub)?;
        }
        writeln!(out)?;
    }
    writeln!(out, "## Exceptions\n\nThese types can be written but are not kinds.\n\n| ARM types | Why |\n|---|---|")?;
    for (types, reason) in Catalog::left_out() {
        writeln!(out, "| `{types}` | {reason} |")?;
    }
    Ok(())
}
