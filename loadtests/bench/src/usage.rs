//! What a process has used, as the kernel counts it.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// The kernel's unit of CPU time in `/proc`: `USER_HZ`, 100 a second on every architecture that we know.
const TICK: Duration = Duration::from_millis(10);

/// Memory of a process, in MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Memory {
    /// What is resident, pages of the program and of libraries included.
    pub(super) resident: f64,
    /// The same, with pages that others map too counted in part.
    pub(super) proportional: f64,
    /// What nobody else has and no file backs: heap and stacks.
    pub(super) anonymous: f64,
    /// The most that was ever resident.
    pub(super) peak: f64,
}

/// CPU time of all threads, ended ones included.
pub(super) fn cpu(pid: u32) -> Result<Duration> {
    ticks(&read(pid, "stat")?).with_context(|| format!("failed to read the CPU time of process {pid}"))
}

/// Memory as it is now.
pub(super) fn memory(pid: u32) -> Result<Memory> {
    let (rollup, status) = (read(pid, "smaps_rollup")?, read(pid, "status")?);
    let find = |text: &str, field: &str| {
        mebibytes(text, field).with_context(|| format!("the kernel does not say {field} of process {pid}"))
    };
    Ok(Memory {
        resident: find(&rollup, "Rss")?,
        proportional: find(&rollup, "Pss")?,
        anonymous: find(&rollup, "Anonymous")?,
        peak: find(&status, "VmHWM")?,
    })
}

fn read(pid: u32, file: &str) -> Result<String> {
    let path = PathBuf::from(format!("/proc/{pid}/{file}"));
    fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))
}

/// Fields 14 and 15 of `/proc/PID/stat`; the second field, the program's name, may hold blanks.
fn ticks(stat: &str) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let (user, system): (u32, u32) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(TICK * (user + system))
}

/// A line such as `Rss:      1024 kB`.
fn mebibytes(text: &str, field: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let kibibytes: u32 = line.split_whitespace().next()?.parse().ok()?;
    Some(f64::from(kibibytes) / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_any_name() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 9 9 20 0 4 0 100 0 0";
        assert_eq!(ticks(stat), Some(Duration::from_secs(3)));
        assert_eq!(ticks("7 (a) S 1"), None);
    }

    #[test]
    fn memory_is_read_by_the_whole_field_name() {
        let text = "Rss:                2048 kB\nPss_Anon:            512 kB\nPss:                1024 kB\n";
        assert_eq!(mebibytes(text, "Pss"), Some(1.0));
        assert_eq!(mebibytes(text, "Swap"), None);
    }

    #[test]
    fn work_of_our_own_shows() {
        let me = std::process::id();
        let before = cpu(me).unwrap();
        let mut sum = 0_u64;
        while cpu(me).unwrap() < before + TICK * 3 {
            sum = (0..100_000).fold(sum, |sum, number| std::hint::black_box(sum ^ number));
        }
        let memory = memory(me).unwrap();
        assert!(memory.resident > 0.5 && memory.peak >= memory.resident * 0.9, "{memory:?}");
        assert!(memory.proportional <= memory.resident && memory.anonymous <= memory.resident, "{memory:?}");
    }
}
