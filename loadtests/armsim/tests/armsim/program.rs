use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use flotilla_armsim::load::{self, Load};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Ends with the test, whatever becomes of it.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn the_program_says_where_it_is_and_ends_on_a_signal() {
    let directory = tempfile::tempdir().unwrap();
    let ca = directory.path().join("ca.pem");
    let mut command = Command::new(env!("CARGO_BIN_EXE_armsim"));
    command.args(["--time-scale", "60", "--ca-file"]).arg(&ca).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut program = Program(command.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(program.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((said["caFile"].as_str(), said["timeScale"].as_f64()), (ca.to_str(), Some(60.0)));
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let settings = client.get(format!("{}/_sim/settings", said["admin"].as_str().unwrap())).send().await.unwrap();
    assert_eq!(settings.json::<Value>().await.unwrap()["timeScale"], 60.0);
    let ca = reqwest::Certificate::from_pem(&std::fs::read(&ca).unwrap()).unwrap();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([ca]).build().unwrap();
    let endpoint = said["endpoint"].as_str().unwrap();
    assert_eq!(
        client.get(format!("{endpoint}/subscriptions?api-version=2020-01-01")).send().await.unwrap().status(),
        401
    );
    kill(Pid::from_raw(program.0.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    assert!(program.0.wait().unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_load_check_measures_what_armsim_used() {
    let report = load::run(Load { resources: 500, clients: 4, time: Duration::from_millis(300) }).await.unwrap();
    assert!(report.resources >= 500 && report.calls >= 10, "{report:?}");
    assert!(report.server_cpu_seconds > 0.0 && report.server_cpu_seconds < 5.0, "{report:?}");
}
