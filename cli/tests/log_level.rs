//! A running member changes its log level when it is asked to.
#![expect(clippy::unwrap_used, reason = "what fails in a test's helper fails the test")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Stdio};

/// A coordinator whose cluster does not answer.
struct Member {
    process: Child,
    log: BufReader<ChildStderr>,
    address: String,
}

impl Member {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        let cluster = "{name: c, cluster: {server: 'http://127.0.0.1:1'}}";
        let context = "{name: c, context: {cluster: c, user: u}}";
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters: [{cluster}]\ncontexts: [{context}]\nusers: [{{name: u, user: {{}}}}]\ncurrent-context: c\n"
        );
        std::fs::write(&kubeconfig, text).unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_flotilla"))
            .args([
                "coordinator",
                "--namespace=n",
                "--pod-name=c-0",
                "--listen=127.0.0.1:0",
                "--metrics-addr=127.0.0.1:0",
            ])
            .env("KUBECONFIG", &kubeconfig)
            .env("FLOTILLA_LOG_LEVEL", "")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(process.stderr.take().unwrap());
        let mut member = Self { process, log, address: String::new() };
        let line = member.wait_for("Serving metrics and health");
        line.split_once("address=").unwrap().1.trim().clone_into(&mut member.address);
        member
    }

    /// The next line of the log with this text in it.
    fn wait_for(&mut self, text: &str) -> String {
        let mut before = String::new();
        loop {
            let mut line = String::new();
            assert!(self.log.read_line(&mut line).unwrap() > 0, "{text:?} is missing in the log:\n{before}");
            if line.contains(text) {
                return line;
            }
            before += &line;
        }
    }

    /// Status and body of an answer.
    fn ask(&self, method: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        let head =
            format!("{method} /log-level HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all((head + body).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.trim().to_owned())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn log_level_is_raised_and_set_back_while_the_member_runs() {
    let mut member = Member::start();
    assert_eq!(member.ask("GET", ""), (200, "info".to_owned()));

    assert_eq!(member.ask("PUT", "debug\n"), (200, "debug".to_owned()));
    // It asks its cluster again and again.
    member.wait_for("DEBUG");

    let (status, why) = member.ask("PUT", "loud");
    assert_eq!(status, 400);
    assert!(why.contains("\"loud\" is not a level; expected trace, debug, info"), "{why}");
    assert_eq!(member.ask("GET", ""), (200, "debug".to_owned()), "a bad filter changes nothing");

    assert_eq!(member.ask("PUT", "info"), (200, "info".to_owned()));
    let line = member.wait_for("to=info");
    assert!(line.contains("Changed the log level") && line.contains("from=debug"), "{line}");
}

/// The process ends before it reaches a cluster, so that a mistake is seen at once.
#[test]
fn a_bad_variable_is_an_error_that_names_it() {
    let output = Command::new(env!("CARGO_BIN_EXE_flotilla"))
        .args(["worker", "--namespace=n"])
        .env("AZURE_SYNC_PERIOD", "hourly")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("invalid value 'hourly' for '--azure-sync-period <PERIOD> (AZURE_SYNC_PERIOD)'"), "{text}");
}
