//! One budget for all workers.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use flotilla_loadtests::armsim::{Entry, FaultAction, FaultMatch, FaultRule, Method, Outcome};
use jiff::Timestamp;

use crate::journal::worker_of;
use crate::scene::Scene;
use crate::world::{TIME_SCALE, World, share, share_slow};

const GROUPS: usize = 300;
const BURST_WITHIN: Duration = Duration::from_secs(90);

/// What ARM asks for; what that is here.
const RETRY_AFTER: u64 = 60;
/// From the refusal until all workers know.
const SPREAD_WITHIN: Duration = Duration::from_millis(500);

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
    share_slow(async |world| {
        let scene = Scene::set(world, "burst").await?;
        let objects = scene.read(&groups(GROUPS))?;
        let started = Timestamp::now();
        scene.apply(&objects).await?;
        scene.cluster().wait_ready(&objects, BURST_WITHIN).await?;
        let took = Timestamp::now().duration_since(started).as_secs_f64();
        let calls = world.azure.calls();
        let writes: Vec<_> = calls.iter().filter(|call| call.method == Method::Put).collect();
        let throttled = calls.iter().filter(|call| call.outcome == Outcome::Throttled).count();
        let workers: std::collections::BTreeSet<_> = writes.iter().filter_map(|call| worker_of(&call.user_agent)).collect();
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
    share(async |world| {
        let (scene, app) = Scene::with_app(world, "throttled").await?;
        scene.write_credential("aso-credential", &app).await?;
        let objects = scene.read(&groups(20))?;
        refuse_once(world, &scene.subscription)?;
        scene.apply(&objects[..1]).await?;
        let refused = || Ok(calls(&scene).into_iter().find(|call| call.outcome == Outcome::Throttled));
        let refused = scene.until("the 429", Duration::from_secs(10), refused).await?;
        scene.apply(&objects[1..]).await?;
        scene.wait_ready(&objects).await?;

        let asked = Duration::from_secs(RETRY_AFTER).div_f64(TIME_SCALE);
        let (told, over) = (refused.time + SPREAD_WITHIN, refused.time + asked);
        let pause: Vec<_> = calls(&scene)
            .into_iter()
            .filter(|call| call.method == Method::Put && call.time > told && call.time < over)
            .map(|call| format!("{} by {} at {}", call.path, &*call.user_agent, call.time))
            .collect();
        ensure!(pause.is_empty(), "429 at {}, pause of {asked:?}, and yet:\n  {}", refused.time, pause.join("\n  "));
        let again = calls(&scene).iter().filter(|call| call.outcome == Outcome::Throttled).count();
        ensure!(again == 1, "{again} calls were answered 429");
        scene.cluster().wait_ready(&objects, Duration::ZERO).await?;
        for object in &objects {
            scene.cluster().delete(object).await?;
        }
        scene.cluster().wait_gone(&objects, Duration::from_secs(40)).await
    })
}

fn refuse_once(world: &World, subscription: &str) -> Result<()> {
    let path = Some(format!("/subscriptions/{subscription}/*"));
    let action = FaultAction::Status {
        status: 429,
        code: "SubscriptionRequestsThrottled".to_owned(),
        message: "Number of requests for the subscription exceeded the limit.".to_owned(),
        retry_after: Some(RETRY_AFTER),
    };
    let matches = FaultMatch { method: Some(Method::Put), path, ..FaultMatch::default() };
    world.azure.add_fault(FaultRule { name: "429".to_owned(), matches, skip: 0, count: Some(1), action })?;
    Ok(())
}

/// The calls in the scene's subscription.
fn calls(scene: &Scene) -> Vec<Entry> {
    let prefix = format!("/subscriptions/{}/", scene.subscription);
    scene.world.azure.calls().into_iter().filter(|call| call.path.starts_with(&prefix)).collect()
}
