//! Starts every long-lived task, and keeps true that none ends unnoticed.
//!
//! *Flow.* A member makes one [`Process`] from the token that asks it to stop, and starts tasks through [`Process::start`]. What
//! cancelling a task means and what its failure means stands in [`Kind::policy`]. A failure that stops the process cancels
//! [`Process::stopping`], so the member stops in its usual order, and [`Process::outcome`] then says why.
//!
//! *A failure* is a panic, an error, or, for tasks that the process can't live without, an end that nobody asked for.

mod kind;

use std::error::Error as StdError;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use self::kind::{Kind, OnCancel, OnFailure, Policy};

type Cause = Box<dyn StdError + Send + Sync>;

/// A task failed that the process can't live without.
#[derive(Debug, thiserror::Error)]
#[error("the {task} failed")]
pub struct Failed {
    /// The task.
    pub task: Kind,
    /// Cause.
    #[source]
    source: Cause,
}

/// What a task's future may give back.
pub trait Outcome {
    /// The error, if it is one.
    fn failure(self) -> Option<Cause>;
}

impl Outcome for () {
    fn failure(self) -> Option<Cause> {
        None
    }
}

impl<E: Into<Cause>> Outcome for Result<(), E> {
    fn failure(self) -> Option<Cause> {
        self.err().map(Into::into)
    }
}

/// One member of the fleet, as its tasks see it.
#[derive(Clone, Debug)]
pub struct Process {
    stop: CancellationToken,
    failed: Arc<Mutex<Option<Failed>>>,
}

impl Process {
    /// A member that stops when `shutdown` says so, or when a task fails that it can't live without.
    pub fn new(shutdown: &CancellationToken) -> Self {
        Self { stop: shutdown.child_token(), failed: Arc::default() }
    }

    /// Cancelled when the member has to stop.
    pub fn stopping(&self) -> &CancellationToken {
        &self.stop
    }

    /// The first failure that stopped the process. To be asked once, at its end.
    pub fn outcome(&self) -> Result<(), Failed> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    /// Starts a task. Its work is handed the token that asks it to end.
    #[expect(clippy::disallowed_methods, reason = "the one place that starts tasks")]
    pub fn start<F>(&self, kind: Kind, work: impl FnOnce(CancellationToken) -> F) -> Task
    where
        F: Future<Output: Outcome> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let (process, asked, work) = (self.clone(), stop.clone(), work(stop.clone()));
        let handle = tokio::spawn(async move {
            let failure = match AssertUnwindSafe(work).catch_unwind().await {
                Ok(outcome) => outcome.failure(),
                // The panic hook has printed where.
                Err(panic) => Some(panic_message(panic.as_ref()).into()),
            };
            let unasked = !asked.is_cancelled();
            match (failure, kind.policy().on_failure) {
                (Some(cause), OnFailure::Log) => log(kind, cause.as_ref()),
                (Some(cause), OnFailure::StopProcess) => process.fail(kind, cause),
                (None, OnFailure::StopProcess) if unasked => {
                    process.fail(kind, "it ended without being asked to".into());
                }
                (None, _) => {}
            }
        });
        Task { kind, stop, handle, detached: false }
    }

    fn fail(&self, task: Kind, cause: Cause) {
        log(task, cause.as_ref());
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(Failed { task, source: cause });
        self.stop.cancel();
    }
}

fn log(task: Kind, cause: &(dyn StdError + Send + Sync + 'static)) {
    tracing::error!(%task, error = cause as &(dyn StdError + 'static), "Task failed");
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", text.unwrap_or("with no message"))
}

/// A task that runs. Dropping it cancels it.
#[derive(Debug)]
#[must_use = "dropping a task cancels it"]
pub struct Task {
    kind: Kind,
    stop: CancellationToken,
    handle: JoinHandle<()>,
    detached: bool,
}

impl Task {
    /// Asks it to end, or ends it, as its policy says. Returns at once.
    pub fn cancel(&self) {
        self.stop.cancel();
        match self.kind.policy().on_cancel {
            OnCancel::Wait => {}
            OnCancel::Abort => self.handle.abort(),
        }
    }

    /// Cancels it and waits until it has ended.
    pub async fn stop(mut self) {
        self.cancel();
        self.ended().await;
    }

    /// Waits until it has ended.
    pub async fn ended(&mut self) {
        if !self.handle.is_finished() {
            // It fails only if the task was aborted; panics are caught inside.
            let _ = (&mut self.handle).await;
        }
    }

    /// Lets it run until its work is done.
    pub fn detach(mut self) {
        self.detached = true;
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if !self.detached {
            self.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::oneshot;

    use super::*;

    fn process() -> Process {
        Process::new(&CancellationToken::new())
    }

    #[expect(clippy::unused_async, reason = "a task's work")]
    async fn panics() {
        panic!("no {}", 1);
    }

    async fn failure_of(work: impl Future<Output: Outcome> + Send + 'static) -> String {
        let process = process();
        let task = process.start(Kind::Engine, |_| work);
        process.stopping().cancelled().await;
        task.stop().await;
        let failed = process.outcome().expect_err("a failure stops the process");
        assert_eq!(failed.to_string(), "the engine failed");
        failed.source.to_string()
    }

    #[tokio::test]
    async fn failure_of_a_vital_task_stops_the_process_and_is_its_outcome() {
        assert_eq!(failure_of(panics()).await, "panicked: no 1");
        assert_eq!(failure_of(async { Err::<(), _>("broken") }).await, "broken");
        assert_eq!(failure_of(async {}).await, "it ended without being asked to");
    }

    #[tokio::test]
    async fn failure_of_another_task_leaves_the_process_alone() {
        let process = process();
        let mut task = process.start(Kind::MetricsServer, |_| panics());
        task.ended().await;
        assert!(!process.stopping().is_cancelled());
        assert!(process.outcome().is_ok());
    }

    #[tokio::test]
    async fn task_that_is_waited_for_ends_its_work() {
        let process = process();
        let (done, seen) = oneshot::channel();
        let task = process.start(Kind::Engine, |stop| async move {
            stop.cancelled().await;
            tokio::task::yield_now().await;
            let _ = done.send(());
        });
        task.stop().await;
        assert!(seen.await.is_ok(), "its work was cut off");
        assert!(process.outcome().is_ok(), "it was asked to end");
    }

    #[tokio::test]
    async fn task_that_is_aborted_ends_at_once_and_did_not_fail() {
        let process = process();
        let (held, dropped) = oneshot::channel::<()>();
        drop(process.start(Kind::KindDiscovery, |_| async move {
            let _held = held;
            pending::<()>().await;
        }));
        assert!(dropped.await.is_err(), "the task goes with its handle");
        assert!(!process.stopping().is_cancelled());
    }

    #[tokio::test]
    async fn detached_task_outlives_its_handle() {
        let (go, gone) = oneshot::channel::<()>();
        let (done, seen) = oneshot::channel();
        let work = |stop: CancellationToken| async move {
            let _ = gone.await;
            let _ = done.send(stop.is_cancelled());
        };
        process().start(Kind::StreamReader, work).detach();
        let _ = go.send(());
        assert_eq!(seen.await, Ok(false));
    }

    #[tokio::test]
    async fn process_stops_with_the_token_that_it_was_made_from() {
        let shutdown = CancellationToken::new();
        let process = Process::new(&shutdown);
        shutdown.cancel();
        process.stopping().cancelled().await;
        assert!(process.outcome().is_ok());
    }
}
