//! Whatever is wrong, the Ready condition names the cause and the next step, the retry is sane, and things go on as soon as
//! the cause is gone.
//!
//! Each row works in a namespace and a subscription of its own, with its own credential; all rows run at once.

mod arm;
mod credentials;
mod leaks;
mod spec;

use std::time::Duration;

use anyhow::{Result, ensure};
use flotilla_armsim::{App, Entry, Method};
use flotilla_testbed::cluster::Ready;
use futures::future::{BoxFuture, join_all};
use jiff::Timestamp;
use kube::api::DynamicObject;
use tokio::time::{Instant, sleep};

use crate::audit;
use crate::sandbox::{Sandbox, WITHIN};
use crate::testbed::Testbed;

/// How long a row watches how often the fleet retries.
const CALM: Duration = Duration::from_secs(4);
/// In that time the fast retry (1 s, 2 s, 4 s …) tries four times, and once more at the start.
const MOST_TRIES: usize = 5;

/// What the Ready condition has to say.
#[derive(Clone, Copy, Debug)]
struct Verdict {
    reason: &'static str,
    severity: &'static str,
    /// Words of the message, without letter case: of the cause, and of the next step.
    says: &'static [&'static str],
}

/// What the credential of a row has to be before the objects are applied.
type Setup = for<'a> fn(&'a Sandbox, &'a App) -> BoxFuture<'a, Result<()>>;
/// Removes the cause; returns what it had to create for that.
type Heal = for<'a> fn(&'a Sandbox, &'a App) -> BoxFuture<'a, Result<Vec<DynamicObject>>>;

/// A row of the table.
struct Row {
    name: &'static str,
    yaml: &'static str,
    setup: Setup,
    /// Which object of the manifest is held up.
    held_up: usize,
    verdict: Verdict,
    heal: Heal,
}

/// Runs all rows and tells of each that fails.
async fn run(testbed: &'static Testbed, rows: Vec<Row>) -> Result<()> {
    let count = rows.len();
    let results = join_all(rows.into_iter().map(async |row| (row.name, row.run(testbed).await))).await;
    let mut failed = Vec::new();
    for (name, result) in results {
        match result {
            Ok(recovered) => println!("{name}: recovered {:.1} s after the cause was gone", recovered.as_secs_f64()),
            Err(error) => failed.push(format!("{name}: {error:#}")),
        }
    }
    ensure!(failed.is_empty(), "{} of {count} fail:\n{}", failed.len(), failed.join("\n"));
    Ok(())
}

impl Row {
    async fn run(&self, testbed: &'static Testbed) -> Result<Duration> {
        let (sandbox, app) = Sandbox::with_app(testbed, "bad").await?;
        (self.setup)(&sandbox, &app).await?;
        let mut objects = sandbox.read(self.yaml)?;
        sandbox.apply(&objects).await?;
        let ready = sandbox.wait_reason(&objects[self.held_up], self.verdict.reason).await?;
        self.verdict.check(&ready)?;
        self.check_calm(&sandbox).await?;
        let secrets = [app.client_secret.as_str()];
        leaks::check(&sandbox, &objects, &secrets).await?;

        let healed = Instant::now();
        objects.extend((self.heal)(&sandbox, &app).await?);
        sandbox.cluster().wait_ready(&objects, WITHIN).await?;
        let recovered = healed.elapsed();
        leaks::check(&sandbox, &objects, &secrets).await?;
        self.clear(&sandbox, &objects).await?;
        Ok(recovered)
    }

    /// Counts what is tried while nothing can succeed.
    async fn check_calm(&self, sandbox: &Sandbox) -> Result<()> {
        let is_write = |call: &Entry| matches!(call.method, Method::Put | Method::Delete);
        let is_try = |call: &Entry| {
            is_write(call) && call.path.contains(&sandbox.subscription)
                || call.arm_type == "Entra/token" && call.path.contains(&sandbox.tenant)
        };
        let tries = || sandbox.testbed.azure.calls().into_iter().filter(is_try).map(|call| call.user_agent);
        let (before, began) = (tries().count(), Timestamp::now());
        sleep(CALM).await;
        let during: Vec<_> = tries().skip(before).collect();
        // The next owner of a shard counts its tries anew, so where shards moved, each owner is judged alone.
        let moved = audit::hand_offs(sandbox.testbed)?.into_iter().any(|at| at >= began);
        let of_one = during.iter().map(|one| during.iter().filter(|other| *other == one).count()).max();
        let tries = if moved { of_one.unwrap_or_default() } else { during.len() };
        ensure!(tries <= MOST_TRIES, "{tries} tries in {CALM:?}: {during:?}");
        Ok(())
    }

    async fn clear(&self, sandbox: &Sandbox, objects: &[DynamicObject]) -> Result<()> {
        for object in objects {
            sandbox.cluster().delete(object).await?;
        }
        sandbox.cluster().wait_gone(objects, WITHIN).await?;
        sandbox.check_azure_has_nothing(&format!("/subscriptions/{}", sandbox.subscription))
    }
}

impl Verdict {
    fn check(&self, ready: &Ready) -> Result<()> {
        ensure!(ready.status == "False", "the condition is {ready}");
        ensure!(
            ready.severity == self.severity,
            "severity {:?} instead of {:?}: {ready}",
            ready.severity,
            self.severity
        );
        let message = ready.message.to_lowercase();
        let missing: Vec<_> = self.says.iter().filter(|words| !message.contains(&words.to_lowercase())).collect();
        ensure!(missing.is_empty(), "the condition does not say {missing:?}: {ready}");
        Ok(())
    }
}

/// What heals by writing this Secret.
fn correct<'a>(sandbox: &'a Sandbox, app: &'a App, secret: &'static str) -> BoxFuture<'a, Result<Vec<DynamicObject>>> {
    Box::pin(async move {
        sandbox.write_credential(secret, app).await?;
        Ok(Vec::new())
    })
}

/// The credential is as it should be.
fn good_credential<'a>(sandbox: &'a Sandbox, app: &'a App) -> BoxFuture<'a, Result<()>> {
    Box::pin(sandbox.write_credential("aso-credential", app))
}
