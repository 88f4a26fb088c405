//! Instructions per decision, counted by valgrind, which counts the same each time on any machine.
//!
//! This program runs itself under callgrind: once with so many decisions and once with twice as many. The difference
//! is the decisions' own, for whatever a start costs is in both.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::report::Figure;
use super::situation::Situation;
use flotilla_testbed::tools;

/// Enough that a page fault of the allocator more or less vanishes in the rounding.
const ROUNDS: u32 = 2_000;

/// Figures for these situations.
pub(super) fn measure(situations: &[Situation]) -> Result<Vec<Figure>> {
    let valgrind = tools::find("valgrind")?;
    let directory = tempfile::tempdir()?;
    let mut figures = Vec::new();
    for situation in situations {
        let name = situation.name();
        let count = |rounds| {
            instructions(&valgrind, directory.path(), &name, rounds)
                .with_context(|| format!("failed to count the instructions of {name}"))
        };
        let (once, twice) = (count(ROUNDS)?, count(2 * ROUNDS)?);
        ensure!(twice > once, "{name}: {ROUNDS} decisions more did not take more instructions");
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52 instructions")]
        let each = (twice - once) as f64 / f64::from(ROUNDS);
        figures.push(Figure::new(format!("`decide`: {name}"), "instructions", [each.round()]));
    }
    Ok(figures)
}

fn instructions(valgrind: &Path, directory: &Path, situation: &str, rounds: u32) -> Result<u64> {
    let profile = directory.join("callgrind.out");
    let output = Command::new(valgrind)
        .args(["--tool=callgrind", &format!("--callgrind-out-file={}", profile.display())])
        .arg(std::env::current_exe().context("failed to find this program's own path")?)
        .args(["decide", situation, &rounds.to_string()])
        .output()
        .context("failed to start valgrind")?;
    ensure!(output.status.success(), "valgrind failed: {}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&profile).context("failed to read the profile")?;
    total(&text).context("the profile has no totals")
}

/// The line `totals: 12345` at the profile's end.
fn total(profile: &str) -> Option<u64> {
    profile.lines().rev().find_map(|line| line.strip_prefix("totals:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_from_the_end_of_a_profile() {
        assert_eq!(total("version: 1\nsummary: 7\n\nfn=(1) main\n1 5\n\ntotals: 42\n"), Some(42));
        assert_eq!(total("version: 1\n"), None);
    }
}
