//! Manifests to start from: the catalog's specimens with notes on what else could be written.
//!
//! Kept true here: what is printed passes `flotilla plan` and the API server as it is.

mod notes;

use anyhow::{Context as _, Result, bail};
use flotilla_crds::specimen::Extent;
use flotilla_crds::{Catalog, Kind, KindEntry, Version};
use serde_json::{Value, json};

use self::notes::Noted;
use super::PrintFormat;
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
pub(super) fn examples(catalog: &Catalog, entries: &[&KindEntry], wanted: &Wanted) -> Result<Vec<Example>> {
    let example = |entry: &&KindEntry| {
        let kind = catalog.kind(&entry.group, &entry.kind).context("the catalog lost a kind")?;
        let version = version(&kind, wanted.version.as_deref())?.name().to_owned();
        Ok(Example { kind, version, full: wanted.full })
    };
    entries.iter().map(example).collect()
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
    let help = match nearest(wanted, names.iter().copied()) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("there are {}", listed(&names, "and")),
    };
    bail!("{}/{} has no version {wanted:?}; {help}", kind.group(), kind.name())
}
