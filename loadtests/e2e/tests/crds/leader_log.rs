//! The log lines of the coordinators of this process.

use std::io::{self, Write};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A line of the log.
#[derive(Clone, Debug)]
pub(crate) struct Line(String);

impl Line {
    /// The number in a field.
    pub(crate) fn number(&self, field: &str) -> usize {
        let value = self.0.split(' ').find_map(|word| word.strip_prefix(field)?.strip_prefix('='));
        value.and_then(|value| value.trim_end().parse().ok()).unwrap_or_else(|| panic!("no {field} in {}", self.0))
    }
}

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Lines with this message, about so many CRDs, in order.
pub(crate) fn lines(message: &str, of: usize) -> Vec<Line> {
    let log = LOG.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let about = format!(" of={of} ");
    let fits = |line: &&str| line.contains(&format!(": {message} ")) && line.contains(&about);
    String::from_utf8_lossy(&log).lines().filter(fits).map(|line| Line(line.to_owned())).collect()
}

/// A line with this text.
pub(crate) fn line_with(text: &str) -> Option<String> {
    let log = LOG.lock().unwrap_or_else(PoisonError::into_inner).clone();
    String::from_utf8_lossy(&log).lines().find(|line| line.contains(text)).map(str::to_owned)
}

/// Waits for one more line than there were.
pub(crate) async fn next(message: &str, of: usize, before: usize, within: Duration) -> Line {
    let deadline = Instant::now() + within;
    loop {
        if let Some(line) = lines(message, of).get(before) {
            return line.clone();
        }
        assert!(Instant::now() < deadline, "no coordinator logged: {message}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Keeps the lines from now on.
pub(crate) fn listen() {
    static LISTENS: OnceLock<()> = OnceLock::new();
    LISTENS.get_or_init(|| {
        let log = tracing_subscriber::fmt().with_ansi(false).with_env_filter("flotilla_coordinator=info");
        log.with_writer(|| Keep).init();
    });
}

struct Keep;

impl Write for Keep {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        LOG.lock().unwrap_or_else(PoisonError::into_inner).write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
