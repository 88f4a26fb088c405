//! One child process: its output in a log file, stopped with a deadline, and never alive longer than we are.
//!
//! *Guarantee:* the kernel kills the child when our process ends in whatever way (panic, abort, SIGKILL). It ties that
//! promise to the *thread* that spawned the child, so one thread, which lives as long as the process, spawns them all.
//! *Caveat:* what the child has spawned itself is not covered; none of the programs started here spawns anything.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid, getppid};
use tokio::time::{Instant, sleep};

/// How often an exit is looked for: short beside the seconds that these processes take, long beside a system call.
const EXIT_POLL: Duration = Duration::from_millis(20);

/// How much of a log goes into an error: the last messages of a process, not its start.
const LOG_TAIL: u64 = 4096;

/// Why a process could not be started, watched or stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused to start the program.
    #[error("failed to start {}", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// The system's reason.
        source: io::Error,
    },

    /// A process ended unasked.
    #[error("{name} ended with {status}; its last words:\n{log}")]
    Exited {
        /// The process.
        name: String,
        /// Exit code or signal.
        status: String,
        /// The end of its log.
        log: String,
    },

    /// The system does not say whether the process still runs.
    #[error("failed to watch {name}")]
    Watch {
        /// The process.
        name: String,
        /// The system's reason.
        source: io::Error,
    },

    /// A process could not be stopped.
    #[error("failed to stop {name}")]
    Stop {
        /// The process.
        name: String,
        /// The system's reason.
        source: io::Error,
    },
}

/// A running process. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts the command; its output is appended to `log`.
    pub(crate) fn spawn(name: &str, mut command: Command, log: &Path) -> Result<Self, Error> {
        let program = PathBuf::from(command.get_program());
        let failed = |source| Error::Spawn { program: program.clone(), source };
        let output = File::options().create(true).append(true).open(log).map_err(failed)?;
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(failed)?)
            .stderr(output)
            // Ctrl-C in a terminal is for us, who then stop the processes in order.
            .process_group(0);
        let child = spawn_on_lasting_thread(command).map_err(failed)?;
        Ok(Self { name: name.to_owned(), child, log: log.to_owned() })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// An error with the end of the log, if the process has exited.
    pub(crate) fn check_running(&mut self) -> Result<(), Error> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                Err(Error::Exited { name: self.name.clone(), status: say(status), log: self.log_tail() })
            }
            Err(source) => Err(Error::Watch { name: self.name.clone(), source }),
        }
    }

    /// The last lines that the process wrote.
    pub(crate) fn log_tail(&self) -> String {
        let read = || -> io::Result<String> {
            let mut file = File::open(&self.log)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL)))?;
            let mut tail = Vec::new();
            file.read_to_end(&mut tail)?;
            Ok(String::from_utf8_lossy(&tail).into_owned())
        };
        read().unwrap_or_else(|error| format!("(no log: {error})"))
    }

    /// Asks the process to end and waits; kills it when the deadline has passed.
    pub(crate) async fn stop(mut self, within: Duration) -> Result<(), Error> {
        let name = self.name.clone();
        let failed = |source| Error::Stop { name: name.clone(), source };
        let deadline = Instant::now() + within;
        self.signal(Signal::SIGTERM).map_err(failed)?;
        while Instant::now() < deadline {
            if self.child.try_wait().map_err(failed)?.is_some() {
                return Ok(());
            }
            sleep(EXIT_POLL).await;
        }
        tracing::warn!(process = self.name, ?within, "Process did not stop in time and is killed");
        self.kill()
    }

    /// Kills the process and waits until it is gone.
    pub(crate) fn kill(&mut self) -> Result<(), Error> {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map(drop).map_err(|source| Error::Stop { name: self.name.clone(), source })
    }

    pub(crate) fn signal(&mut self, signal: Signal) -> io::Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        // Not reaped yet, so the id is still the child's.
        let id = i32::try_from(self.id()).map_err(io::Error::other)?;
        kill(Pid::from_raw(id), signal).map_err(io::Error::from)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            tracing::warn!(process = self.name, %error, "Failed to kill process");
        }
    }
}

fn say(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

type Job = (Command, SyncSender<io::Result<Child>>);

fn spawn_on_lasting_thread(mut command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Sender<Job>> = OnceLock::new();
    die_with_parent(&mut command);
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, jobs) = channel::<Job>();
        thread::spawn(move || {
            for (mut command, answer) in jobs {
                // The caller blocks until it has the answer, so the receiver always exists.
                let _ = answer.send(command.spawn());
            }
        });
        sender
    });
    let (answer, child) = sync_channel(1);
    spawner.send((command, answer)).map_err(io::Error::other)?;
    child.recv().map_err(io::Error::other)?
}

fn die_with_parent(command: &mut Command) {
    let parent = getpid();
    let set = move || {
        set_pdeathsig(Signal::SIGKILL)?;
        // The parent may have died before the line above; then that signal never comes.
        if getppid() == parent { Ok(()) } else { Err(Errno::ESRCH.into()) }
    };
    #[expect(unsafe_code, reason = "the parent-death signal can be set in the child only; two system calls, no memory")]
    // SAFETY: between fork and exec only async-signal-safe calls are allowed: prctl and getppid are.
    unsafe {
        command.pre_exec(set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, log: &Path) -> Process {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        Process::spawn("sh", command, log).unwrap()
    }

    #[tokio::test]
    async fn exit_is_reported_with_the_end_of_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let mut process = shell("echo port is taken >&2; exit 3", &dir.path().join("log"));
        let error = loop {
            match process.check_running() {
                Ok(()) => sleep(EXIT_POLL).await,
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("exit code 3") && error.contains("port is taken"), "{error}");
    }

    #[tokio::test]
    async fn process_that_ignores_the_request_is_killed_at_the_deadline() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let process = shell("trap '' TERM; echo ready; while :; do sleep 0.05; done", &log);
        let id = Pid::from_raw(i32::try_from(process.id()).unwrap());
        while !process.log_tail().contains("ready") {
            sleep(EXIT_POLL).await;
        }
        process.stop(Duration::from_millis(200)).await.unwrap();
        assert!(kill(id, None).is_err(), "the process is still there");
    }
}
