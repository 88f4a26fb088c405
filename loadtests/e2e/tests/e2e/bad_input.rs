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
use flotilla_armsim::{App, Method};
use flotilla_testbed::cluster::Ready;
use futures::future::{BoxFuture, join_all};
use kube::api::DynamicObject;
use tokio::time::{Instant, sleep};

use crate::sandbox::{Sandbox, WITHIN};
use crate::testbed::{SYNC_PERIOD, Testbed};

/// How long a row watches that nobody hammers.
const CALM: Duration = Duration::from_secs(4);
/// In that time the fast retry (1 s, 2 s, 4 s …) tries four times, and one more for the time until the look.
const MOST_TRIES: usize = 5;
/// The longest wait of what failed a few times, and of what is tried again each sync period.
const RECOVERED_WITHIN: Duration = Duration::from_secs(SYNC_PERIOD.as_secs() * 2 + 4);

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
        sandbox.cluster().wait_ready(&objects, RECOVERED_WITHIN).await?;
        let recovered = healed.elapsed();
        leaks::check(&sandbox, &objects, &secrets).await?;
        self.clear(&sandbox, &objects).await?;
        Ok(recovered)
    }

    /// Counts what is tried while nothing can succeed.
    async fn check_calm(&self, sandbox: &Sandbox) -> Result<()> {
        let tries = || {
            let calls = sandbox.testbed.azure.calls();
            let ours = calls.iter().filter(|call| {
                call.path.contains(&sandbox.subscription) && matches!(call.method, Method::Put | Method::Delete)
            });
            let tokens =
                calls.iter().filter(|call| call.arm_type == "Entra/token" && call.path.contains(&sandbox.tenant));
            ours.count() + tokens.count()
        };
        let before = tries();
        sleep(CALM).await;
        let during = tries() - before;
        ensure!(during <= MOST_TRIES, "{during} tries in {CALM:?}");
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
