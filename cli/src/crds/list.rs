//! The list of kinds, in its forms.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use flotilla_crds::KindEntry;
use serde_json::{Value, json};

use super::ListFormat;
use crate::output::{self, Out};

/// Prints a list of kinds.
pub(super) fn print(out: Out<'_>, kinds: &[&KindEntry], format: ListFormat) -> Result<()> {
    let values = || kinds.iter().map(|entry| to_value(entry)).collect::<Vec<_>>();
    match format {
        ListFormat::Table => table(out, kinds),
        ListFormat::Name => {
            for entry in kinds {
                writeln!(out, "{}", entry.crd_name()).context("failed to print")?;
            }
            Ok(())
        }
        ListFormat::Json => output::json(out, &values()),
        ListFormat::Yaml => output::yaml(out, &values()),
        ListFormat::Markdown => markdown(out, kinds),
    }
}

fn to_value(entry: &KindEntry) -> Value {
    let versions: Vec<Value> =
        entry.versions.iter().map(|v| json!({"name": v.name, "apiVersion": v.api_version})).collect();
    json!({
        "name": entry.crd_name(),
        "group": entry.group,
        "kind": entry.kind,
        "plural": entry.plural,
        "armType": entry.manager.is_arm().then_some(&entry.arm_type),
        "manager": entry.manager,
        "storageVersion": entry.storage_version(),
        "versions": versions,
        "secrets": exports(entry, true),
        "configMaps": exports(entry, false),
    })
}

fn exports(entry: &KindEntry, secret: bool) -> Vec<&str> {
    entry.exports.iter().filter(|e| e.secret == secret).map(|e| e.name.as_str()).collect()
}

fn versions(entry: &KindEntry) -> Vec<&str> {
    entry.versions.iter().map(|v| v.name.as_str()).collect()
}

/// One line a kind; versions have lines of their own where there are several.
fn table(out: Out<'_>, kinds: &[&KindEntry]) -> Result<()> {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["GROUP", "KIND", "ARM TYPE", "VERSIONS"]);
    for entry in kinds {
        let lines: Vec<String> = versions(entry).chunks(3).map(|some| some.join(", ")).collect();
        table.add_row([entry.group.as_str(), &entry.kind, entry.belongs_to(), &lines.join(",\n")]);
    }
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end()).context("failed to print")?;
    }
    Ok(())
}

fn markdown(out: Out<'_>, kinds: &[&KindEntry]) -> Result<()> {
    let mut groups: BTreeMap<&str, Vec<&KindEntry>> = BTreeMap::new();
    for entry in kinds {
        groups.entry(&entry.group).or_default().push(entry);
    }
    let count: usize = kinds.iter().map(|e| e.versions.len()).sum();
    writeln!(
        out,
        "# Kinds\n\n<!-- Made by `make generate`. -->\n\n{} kinds in {} groups, {count} served versions. `operatorSpec.secrets` and \
         `operatorSpec.configMaps` can export what the last column names; secrets are in italics.\n",
        kinds.len(),
        groups.len()
    )?;
    for (group, kinds) in groups {
        writeln!(out, "## {group}\n\n| Kind | ARM type | Versions | Exports |\n|---|---|---|---|")?;
        for entry in kinds {
            let secrets = exports(entry, true).into_iter().map(|name| format!("_{name}_"));
            let maps = exports(entry, false).into_iter().map(str::to_owned);
            let all: Vec<String> = secrets.chain(maps).collect();
            let versions = versions(entry).join(", ");
            writeln!(out, "| {} | {} | {versions} | {} |", entry.kind, entry.belongs_to(), all.join(", "))?;
        }
        writeln!(out)?;
    }
    Ok(())
}
