//! One budget for all workers.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use flotilla_armsim::{Entry, FaultAction, FaultMatch, FaultRule, Method, Outcome};
use jiff::Timestamp;
use serde_json::json;
use tokio::time::sleep;

use crate::journal::worker_of;
use crate::sandbox::{Sandbox, WITHIN};
use crate::testbed::{TIME_SCALE, Testbed, share, share_slow};

const GROUPS: usize = 300;
/// It takes a minute, as ARM allows no more.
const BURST_WITHIN: Duration = Duration::from_mins(5);

/// What ARM asks for, in seconds of its own time: 10 s here.
const RETRY_AFTER: u64 = 300;
/// From the refusal until all workers know: a few messages, which take milliseconds.
const SPREAD_WITHIN: Duration = Duration::from_secs(4);

fn groups(count: usize) -> String {
    let group = |index| {
        format!(
            "
apiVersion: resources.azure.com/v1api20200601
kind: ResourceGroup
metadata: {{name: $NS-{index:03}}}
spec: {{location: westus2}}
"
        )
    };
    (0..count).map(group).collect::<Vec<_>>().join("---")
}

/// In armsim's own time: ARM's buckets are far too small for the burst, and nothing but the fleet's restraint keeps it from being
/// refused.
#[test]
fn a_burst_stays_within_arms_buckets() -> ExitCode {
    share_slow(async |testbed| {
        let sandbox = Sandbox::create(testbed, "burst").await?;
        let objects = sandbox.read(&groups(GROUPS))?;
        let started = Timestamp::now();
        sandbox.apply(&objects).await?;
        sandbox.cluster().wait_ready(&objects, BURST_WITHIN).await?;
        let took = Timestamp::now().duration_since(started).as_secs_f64();
        let calls = testbed.azure.calls();
        let writes: Vec<_> = calls.iter().filter(|call| call.method == Method::Put).collect();
        let throttled = calls.iter().filter(|call| call.outcome == Outcome::Throttled).count();
        let workers: BTreeSet<_> = writes.iter().filter_map(|call| worker_of(&call.user_agent)).collect();
        println!(
            "{GROUPS} groups were Ready after {took:.1} s: {} calls, {} of them PUTs by {} workers, {throttled} times 429",
            calls.len(),
            writes.len(),
            workers.len()
        );
        ensure!(throttled * 1000 <= calls.len(), "{throttled} of {} calls were answered 429", calls.len());
        Ok(())
    })
}

#[test]
fn a_429_pauses_everybody_for_as_long_as_arm_asks() -> ExitCode {
    share(async |testbed| {
        let (sandbox, app) = Sandbox::with_app(testbed, "throttled").await?;
        sandbox.write_credential("aso-credential", &app).await?;
        let objects = sandbox.read(&groups(20))?;
        refuse_once(testbed, &sandbox.subscription)?;
        sandbox.apply(&objects[..1]).await?;
        let refused = || Ok(calls(&sandbox).into_iter().find(|call| call.outcome == Outcome::Throttled));
        let refused = sandbox.until("the 429", WITHIN, refused).await?;
        sleep(SPREAD_WITHIN).await;
        sandbox.apply(&objects[1..]).await?;
        sandbox.wait_ready(&objects).await?;

        let over = refused.time + Duration::from_secs(RETRY_AFTER).div_f64(TIME_SCALE);
        let after: Vec<_> =
            calls(&sandbox).into_iter().filter(|call| call.method == Method::Put && call.time > refused.time).collect();
        let early: Vec<_> = after
            .iter()
            .filter(|call| call.time < over)
            .map(|call| format!("{} by {} at {}", call.path, &*call.user_agent, call.time))
            .collect();
        ensure!(early.is_empty(), "429 at {}, a pause until {over}, and yet:\n  {}", refused.time, early.join("\n  "));
        ensure!(after.len() == objects.len(), "{} PUTs of {} groups followed the 429", after.len(), objects.len());
        for object in &objects {
            sandbox.cluster().delete(object).await?;
        }
        sandbox.cluster().wait_gone(&objects, WITHIN).await
    })
}

/// The subscription's next PUT is refused as ARM's own buckets refuse.
fn refuse_once(testbed: &Testbed, subscription: &str) -> Result<()> {
    let path = Some(format!("/subscriptions/{subscription}/*"));
    let (code, message) =
        ("SubscriptionRequestsThrottled", "Number of requests for the subscription exceeded the limit.");
    let action = FaultAction::Respond {
        status: 429,
        body: json!({"error": {"code": code, "message": message}}),
        headers: vec![
            ("Retry-After".to_owned(), RETRY_AFTER.to_string()),
            ("x-ms-failure-cause".to_owned(), "gateway".to_owned()),
        ],
    };
    let matches = FaultMatch { method: Some(Method::Put), path, ..FaultMatch::default() };
    testbed.azure.add_fault(FaultRule { name: "429".to_owned(), matches, skip: 0, count: Some(1), action })?;
    Ok(())
}

/// The calls in the sandbox's subscription.
fn calls(sandbox: &Sandbox) -> Vec<Entry> {
    let prefix = format!("/subscriptions/{}/", sandbox.subscription);
    sandbox.testbed.azure.calls().into_iter().filter(|call| call.path.starts_with(&prefix)).collect()
}
