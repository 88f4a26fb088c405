//! What the catalog costs: bytes in the program, time and memory for a kind that is loaded for the first time.
//!
//! Cold is a kind whose block was not unpacked just before: a kind of another provider is loaded between two measurements. Memory is the
//! growth of this process's heap over many copies, so it holds what the allocator rounds up.

use std::hint::black_box;
use std::process;
use std::time::Instant;

use anyhow::{Context as _, Result};
use flotilla_crds::{Catalog, Kind, KindEntry};

use super::report::Figure;
use super::usage;

/// Copies of a kind that are kept to see what one takes.
const COPIES: u32 = 32;
/// Loads of one kind whose times are taken.
const LOADS: u32 = 15;

/// Figures for the largest and the median kind of ASO's set, and for all of them.
pub(super) fn measure(runs: usize) -> Result<Vec<Figure>> {
    let catalog = Catalog::embedded();
    let mut sizes = Vec::new();
    for entry in catalog.standard() {
        sizes.push((load(catalog, entry)?.node_count(), entry));
    }
    sizes.sort_by_key(|(nodes, _)| *nodes);
    let (median, largest) = (sizes.get(sizes.len() / 2), sizes.last());
    let ((_, median), (_, largest)) = median.zip(largest).context("the catalog is empty")?;
    let mut figures =
        vec![Figure::new("catalog, packed", "KiB", [kibibytes(Catalog::embedded_bytes())]).at_most(1024.0)];
    for (name, entry) in [("largest", *largest), ("median", *median)] {
        let kind = &entry.kind;
        let time = Figure::new(format!("loading one kind, cold: the {name}, {kind}"), "ms", times(catalog, entry)?);
        let memory = Figure::new("· its memory", "KiB", [memory(|| load(catalog, entry))?]);
        // The spec and the status of one version, made when they are first used.
        let used = || {
            let kind = load(catalog, entry)?;
            let hub = kind.hub().context("a kind has a hub")?;
            black_box((hub.spec(), hub.status_shape()));
            Ok(kind)
        };
        let in_use = Figure::new("· with the fields of one version", "KiB", [self::memory(used)?]);
        figures.extend([time.at_most(1.0), memory.at_most(1024.0), in_use]);
    }
    let mut all = Vec::new();
    for _ in 0..runs {
        let started = Instant::now();
        for (_, entry) in &sizes {
            black_box(load(catalog, entry)?);
        }
        all.push(started.elapsed().as_secs_f64() * 1e3);
    }
    figures.push(Figure::new(format!("loading {} kinds, one after the other", sizes.len()), "ms", all));
    Ok(figures)
}

fn load(catalog: &Catalog, entry: &KindEntry) -> Result<Kind> {
    let loaded = catalog.try_load(&entry.group, &entry.kind).context("the catalog lost a kind")?;
    loaded.with_context(|| format!("failed to load {}", entry.crd_name()))
}

/// Milliseconds of each load.
fn times(catalog: &Catalog, entry: &KindEntry) -> Result<Vec<f64>> {
    let other = catalog.standard().find(|other| other.block != entry.block).context("all kinds are in one block")?;
    let mut times = Vec::new();
    for _ in 0..LOADS {
        black_box(load(catalog, other)?);
        let started = Instant::now();
        black_box(load(catalog, entry)?);
        times.push(started.elapsed().as_secs_f64() * 1e3);
    }
    Ok(times)
}

/// KiB that one value takes.
fn memory<T>(make: impl Fn() -> Result<T>) -> Result<f64> {
    // What the first ones leave behind in the allocator does not count for the others.
    black_box((make()?, make()?));
    let before = usage::memory(process::id())?.anonymous;
    let copies: Vec<T> = (0..COPIES).map(|_| make()).collect::<Result<_>>()?;
    let grown = usage::memory(process::id())?.anonymous - before;
    drop(black_box(copies));
    Ok(grown * 1024.0 / f64::from(COPIES))
}

fn kibibytes(bytes: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52 bytes")]
    let kibibytes = bytes as f64 / 1024.0;
    kibibytes
}
