//! What the catalog costs: bytes in the program, memory and time for kinds that are loaded.
//!
//! Memory is the growth of this process, so it holds what the allocator rounds up. One kind is too little to see; the largest is
//! loaded often and the growth divided.

use std::time::Instant;

use anyhow::{Context as _, Result};
use flotilla_crds::{Catalog, Kind, KindEntry};
use serde_json::{Value, json};

use crate::output::Out;

/// How often the largest kind is loaded.
const TIMES: u32 = 16;

/// Counts and costs.
pub(super) struct Stats {
    groups: usize,
    kinds: usize,
    versions: usize,
    catalog_bytes: usize,
    all_bytes: u64,
    all_micros: u128,
    largest: String,
    largest_bytes: u64,
    largest_micros: u128,
}

impl Stats {
    /// Loads every kind of a selection.
    pub(super) fn measure(catalog: &Catalog, entries: &[&KindEntry]) -> Result<Self> {
        let (before, start) = (resident()?, Instant::now());
        let all: Vec<Kind> = entries.iter().map(|entry| loaded(catalog, entry)).collect::<Result<_>>()?;
        let (all_micros, all_bytes) = (start.elapsed().as_micros(), resident()?.saturating_sub(before));
        let (index, _) =
            all.iter().enumerate().max_by_key(|(_, kind)| kind.node_count()).context("there is no kind")?;
        let (before, start) = (resident()?, Instant::now());
        let copies: Vec<Kind> = (0..TIMES).map(|_| loaded(catalog, entries[index])).collect::<Result<_>>()?;
        let largest_micros = start.elapsed().as_micros() / u128::from(TIMES);
        let largest_bytes = resident()?.saturating_sub(before) / u64::from(TIMES);
        drop(copies);
        let mut groups: Vec<&str> = entries.iter().map(|e| e.group.as_str()).collect();
        groups.dedup();
        Ok(Self {
            groups: groups.len(),
            kinds: entries.len(),
            versions: entries.iter().map(|e| e.versions.len()).sum(),
            catalog_bytes: Catalog::embedded_bytes(),
            all_bytes,
            all_micros,
            largest: entries[index].crd_name(),
            largest_bytes,
            largest_micros,
        })
    }

    /// For tools.
    pub(super) fn to_value(&self) -> Value {
        json!({
            "groups": self.groups,
            "kinds": self.kinds,
            "versions": self.versions,
            "catalogBytes": self.catalog_bytes,
            "allKinds": {"bytes": self.all_bytes, "microseconds": self.all_micros},
            "largestKind": {"name": self.largest, "bytes": self.largest_bytes, "microseconds": self.largest_micros},
        })
    }

    /// For people.
    pub(super) fn print(&self, out: Out<'_>) -> Result<()> {
        let kinds = u64::try_from(self.kinds).unwrap_or(u64::MAX).max(1);
        writeln!(out, "groups              {}", self.groups)?;
        writeln!(out, "kinds               {}", self.kinds)?;
        writeln!(out, "served versions     {}", self.versions)?;
        writeln!(out, "catalog, packed     {} KiB, for all kinds", self.catalog_bytes.div_ceil(1024))?;
        writeln!(out, "loaded, on average  {} KiB per kind", self.all_bytes / kinds / 1024)?;
        let (kib, ms) = (self.largest_bytes / 1024, per_mille(self.largest_micros));
        writeln!(out, "loaded, largest     {kib} KiB, {ms} ms: {}", self.largest)?;
        let (kib, ms) = (self.all_bytes / 1024, per_mille(self.all_micros));
        writeln!(out, "loaded, these kinds {kib} KiB, {ms} ms").context("failed to print")
    }
}

/// Thousandths as a decimal.
fn per_mille(count: u128) -> String {
    format!("{}.{:03}", count / 1000, count % 1000)
}

fn loaded(catalog: &Catalog, entry: &KindEntry) -> Result<Kind> {
    let kind = catalog.try_load(&entry.group, &entry.kind).context("the catalog lost a kind")?;
    let kind = kind.with_context(|| format!("failed to load {}", entry.crd_name()))?;
    Ok(kind)
}

/// Memory of this process that is in RAM.
fn resident() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("memory can be measured on Linux only")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Ok(kib.context("the system does not report how much memory is used")? * 1024)
}
