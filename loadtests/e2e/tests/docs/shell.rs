//! A reader's terminal: one bash that is given scripts one after the other, with what it has started in the background.
//!
//! *Guarantee:* it ends with everything it started when it is dropped, and when this process dies: its input ends then.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command as StdCommand, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::scratch::Scratch;

/// For one script, on a machine that does much else.
const WITHIN: Duration = Duration::from_mins(3);
const POLL: Duration = Duration::from_millis(200);
const STOP: &str = "trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n";

/// A running bash.
pub(crate) struct Shell {
    child: Child,
    input: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
    folder: PathBuf,
    scripts: usize,
}

impl Shell {
    pub(crate) fn start(scratch: &Scratch) -> Result<Self> {
        let mut command = StdCommand::new("bash");
        command.args(["--noprofile", "--norc"]).env_clear().envs(scratch.environment.iter().cloned());
        // The metrics of the fleet's coordinator; a port that somebody else may have by default.
        command.env("FLOTILLA_METRICS_ADDR", format!("127.0.0.1:{}", free_port()?));
        command.current_dir(scratch.path()).process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = Command::from(command).spawn().context("failed to start bash")?;
        let input = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("bash has an output")?).lines();
        Ok(Self { child, input, answers, folder: scratch.path().to_owned(), scripts: 0 })
    }

    /// Runs a script in this shell, so that its variables and what it starts stay. Returns what it printed.
    pub(crate) async fn run(&mut self, what: &str, script: &str) -> Result<String> {
        self.run_as(what, script, |file, output| format!("set -eo pipefail; . {file} >{output} 2>&1 </dev/null")).await
    }

    /// Runs a script in a shell of its own that inherits this one's variables.
    pub(crate) async fn run_apart(&mut self, what: &str, script: &str) -> Result<String> {
        self.run_as(what, script, |file, output| {
            format!("set +e; ( set -eo pipefail; . {file} ) >{output} 2>&1 </dev/null")
        })
        .await
    }

    async fn run_as(&mut self, what: &str, script: &str, how: impl Fn(&str, &str) -> String) -> Result<String> {
        self.scripts += 1;
        let (file, output) = (format!("./script-{}", self.scripts), format!("./output-{}", self.scripts));
        fs::write(self.folder.join(&file), script)?;
        let stop = if self.scripts == 1 { STOP } else { "" };
        let line = format!("{stop}{}\necho ended $?\n", how(&file, &output));
        let input = self.input.as_mut().context("the shell has been stopped")?;
        input.write_all(line.as_bytes()).await?;
        let answer = timeout(WITHIN, self.answers.next_line()).await;
        let printed = fs::read_to_string(self.folder.join(&output)).unwrap_or_default();
        match answer {
            Ok(Ok(Some(status))) if status == "ended 0" => Ok(printed),
            Ok(Ok(status)) => bail!("{what}: {status:?} of\n{script}\nwhich printed\n{printed}"),
            Ok(Err(error)) => Err(error).context(what.to_owned()),
            Err(_) => bail!("{what}: did not end within {WITHIN:?}:\n{script}\nwhich printed\n{printed}"),
        }
    }

    /// Starts a program in the background and waits until it has printed the text. Returns what it printed.
    pub(crate) async fn start_server(&mut self, command: &str, ready: &str) -> Result<String> {
        let output = format!("server-{}", self.scripts);
        self.run(command, &format!("{command} >{output} 2>&1 &")).await?;
        let deadline = Instant::now() + WITHIN;
        loop {
            let printed = fs::read_to_string(self.folder.join(&output)).unwrap_or_default();
            if printed.lines().any(|line| line.contains(ready)) && printed.ends_with('\n') {
                return Ok(printed);
            }
            ensure!(Instant::now() < deadline, "`{command}` did not print `{ready}` within {WITHIN:?} but\n{printed}");
            sleep(POLL).await;
        }
    }

    /// Repeats a command until its output has these words in a line, whatever is between them.
    pub(crate) async fn wait_for(&mut self, command: &str, words: &str) -> Result<()> {
        let deadline = Instant::now() + WITHIN;
        loop {
            let output = self.run_apart(command, command).await?;
            if output.lines().any(|line| words.split(' ').all(|word| line.contains(word))) {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "`{command}` did not show `{words}` within {WITHIN:?} but\n{output}");
            sleep(POLL).await;
        }
    }

    /// Ends it and waits until what it started has ended.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        self.input = None;
        timeout(WITHIN, self.child.wait()).await.context("the shell did not end")??;
        Ok(())
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Without an id it has ended, and with it what it started.
        if let Some(group) = self.child.id().and_then(|id| i32::try_from(id).ok()) {
            let _ = killpg(Pid::from_raw(group), Signal::SIGTERM);
        }
    }
}

/// A loopback port that was free a moment ago.
pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
