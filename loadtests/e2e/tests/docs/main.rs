//! README, CONTRIBUTING, CHANGELOG and everything under `docs/` say what works: each command in them runs here or is
//! on a list with the reason why it cannot.
//!
//! Commands run as a reader would type them: in a shell, in a folder with the files that they name, against a control
//! plane, an Azure and a fleet that are started by the documents' own commands.

mod command;
mod exceptions;
mod markdown;
mod placeholders;
mod scratch;
mod shell;

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use self::exceptions::LISTED;
use self::markdown::Snippet;
use self::placeholders::Values;
use self::scratch::Scratch;
use self::shell::Shell;

/// The two programs that `docs/armsim.md` keeps running in terminals of their own, and what they print once ready.
const CONTROL_PLANE: (&str, &str) = ("target/debug/control-plane", "export KUBECONFIG=");
const ARMSIM: (&str, &str) = ("cargo run -p flotilla-armsim --bin armsim -- --time-scale 60", "\"endpoint\"");
/// How blocks are found that must run in the reader's own shell, in this order.
const ARMSIM_VARIABLES: &str = "export AZURE_SUBSCRIPTION_ID=<subscription>";
const FLEET: &str = "target/debug/flotilla coordinator";

#[tokio::test]
async fn commands_run() -> Result<()> {
    let mut rest = markdown::commands()?;
    let scratch = Scratch::create()?;
    let mut shell = Shell::start(&scratch)?;

    take(&mut rest, CONTROL_PLANE.0)?;
    let printed = shell.start_server(CONTROL_PLANE.0, CONTROL_PLANE.1).await?;
    let kubeconfig = placeholders::after(&printed, CONTROL_PLANE.1)?;
    shell.run("the kubeconfig that the control plane prints", &format!("export KUBECONFIG={kubeconfig}")).await?;
    take(&mut rest, ARMSIM.0)?;
    let printed = shell.start_server(ARMSIM.0, ARMSIM.1).await?;
    let values = Values::new(&printed)?;
    for start in [ARMSIM_VARIABLES, FLEET] {
        let block = take(&mut rest, start)?;
        shell.run(&block.place, &values.fill(&block)?).await?;
    }
    shell.wait_for("kubectl get azure -A", "storageaccount.storage.azure.com/harbourstore True").await?;

    let mut failures = Vec::new();
    let mut used = BTreeSet::new();
    for snippet in rest {
        let outcome = match LISTED.iter().find(|listed| listed.command == snippet.script) {
            Some(listed) => {
                used.insert(listed.command);
                listed.instead.check(listed.command, &mut shell).await
            }
            None => snippet_runs(&snippet, &values, &mut shell).await,
        };
        failures.extend(outcome.err().map(|error| format!("{}: {error:#}", snippet.place)));
    }
    shell.stop().await?;
    let unused = LISTED.iter().filter(|listed| !used.contains(listed.command));
    failures.extend(unused.map(|listed| format!("listed, and no document has it: {}", listed.command)));
    ensure!(failures.is_empty(), "{} commands do not work:\n\n{}", failures.len(), failures.join("\n\n"));
    Ok(())
}

/// The first snippet that contains the text; it is the caller's to run.
fn take(rest: &mut Vec<Snippet>, text: &str) -> Result<Snippet> {
    let at = rest.iter().position(|snippet| snippet.script.contains(text));
    ensure!(at.is_some(), "no document has `{text}` any more: change this test");
    Ok(rest.remove(at.unwrap_or_default()))
}

async fn snippet_runs(snippet: &Snippet, values: &Values, shell: &mut Shell) -> Result<()> {
    let mut script = values.fill(snippet)?;
    if command::names_a_subcommand(&snippet.script) {
        script.push_str(" --help");
    }
    let output = shell.run_apart(&snippet.place, &script).await?;
    let missing = snippet.shown.iter().find(|line| !markdown::shows(&output, line));
    ensure!(missing.is_none(), "{script}\ndoes not print {missing:?} but\n{output}");
    Ok(())
}
