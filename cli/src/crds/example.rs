//! Manifests to start from: the catalog's specimens with notes on what else could be written.
//!
//! Kept true here: what is printed passes `flotilla plan` and the API server as it is.

mod notes;

use anyhow::{Context as _, Result, bail};
use flotilla_crds::Extent;
use flotilla_crds::{Catalog, Kind, Version};
use serde_json::{Value, json};

use self::notes::Noted;
use super::PrintFormat;
use super::select::Selected;
use crate::output::{self, Out};
use crate::suggest::{listed, nearest};

/// What is wanted.
pub(super) struct Wanted {
    /// The version; the newest stable one without it.
    pub(super) version: Option<String>,
    /// Every field, and not only those that must be there.
    pub(super) full: bool,
}

/// A kind's example, in a version that the kind has.
pub(super) struct Example {
    kind: std::sync::Arc<Kind>,
    version: String,
    full: bool,
}

/// Examples of some kinds.
pub(super) fn examples(catalog: &Catalog, kinds: &[Selected<'_>], wanted: &Wanted) -> Result<Vec<Example>> {
    let mut examples = Vec::new();
    for Selected { entry, asked } in kinds {
        let kind = catalog.kind(&entry.group, &entry.kind).context("the catalog lost a kind")?;
        // Fails if the version does not exist.
        kind.versions_asked(asked)?;
        let named = asked.api_versions.iter().map(|api_version| Some(api_version.as_str()));
        let of_pattern: Vec<Option<&str>> = named.chain(asked.default.then_some(None)).collect();
        let one = [wanted.version.as_deref()];
        for wanted_version in if wanted.version.is_some() { &one[..] } else { &of_pattern } {
            let version = version(&kind, *wanted_version)?.name().to_owned();
            examples.push(Example { kind: std::sync::Arc::clone(&kind), version, full: wanted.full });
        }
    }
    Ok(examples)
}

/// Prints them.
pub(super) fn print(out: Out<'_>, examples: &[Example], format: PrintFormat) -> Result<()> {
    match format {
        PrintFormat::Json => {
            let items: Vec<Value> = examples.iter().map(Example::manifest).collect();
            output::json(out, &json!({"apiVersion": "v1", "kind": "List", "items": items}))
        }
        PrintFormat::Yaml => {
            for example in examples {
                let manifest = example.manifest();
                let notes = example.version().map(|v| notes::of(&example.kind, v, &manifest)).unwrap_or_default();
                writeln!(out, "---").context("failed to print")?;
                output::yaml(out, &Noted::new(&manifest, &notes))?;
            }
            Ok(())
        }
    }
}

impl Example {
    fn version(&self) -> Option<&Version> {
        self.kind.version(&self.version)
    }

    fn manifest(&self) -> Value {
        let extent = if self.full { Extent::Whole(0) } else { Extent::Required };
        self.version().map(|version| self.kind.specimen(version, extent)).unwrap_or_default()
    }
}

/// The version with this name or api-version.
fn version<'k>(kind: &'k Kind, wanted: Option<&str>) -> Result<&'k Version> {
    let versions = kind.versions();
    let Some(wanted) = wanted else {
        return kind.hub().or(versions.last()).with_context(|| format!("{} has no version", kind.name()));
    };
    if let Some(found) = kind.version(wanted).or_else(|| kind.version_for_api(wanted)) {
        return Ok(found);
    }
    let names: Vec<&str> = versions.iter().map(Version::name).collect();
    let others = kind.other_versions().map(|(name, _)| name);
    let help = match nearest(wanted, names.iter().copied().chain(others)) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("there are {}", listed(&names, "and")),
    };
    bail!("{}/{} has no version {wanted:?}; {help}", kind.group(), kind.name())
}
