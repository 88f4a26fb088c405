//! Members die, and nothing is lost, done twice or left.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use flotilla_armsim::{FaultAction, Method, Progress};
use flotilla_testbed::fleet::Role;
use futures::future::try_join_all;
use jiff::Timestamp;
use kube::api::DynamicObject;
use tokio::time::{Instant, sleep};

use crate::audit;
use crate::journal::{is_accepted_put, worker_of};
use crate::sandbox::{Sandbox, WITHIN, tag};
use crate::testbed::{Testbed, alone};

/// So many that they are shared out while calls are on their way.
const SLOW_ONES: usize = 90;
/// Milliseconds that Azure takes for an answer; longer than anything else here.
const SLOW_CALL: u64 = 20_000;
const OUTAGE: Duration = Duration::from_secs(3);

const GROUP: &str = "
apiVersion: resources.azure.com/v1api20200601
kind: ResourceGroup
metadata: {name: $NS}
spec: {location: westus2, tags: {app: survivor}}
";

/// So many that every worker has some.
const ENVIRONMENTS: usize = 12;

fn environments() -> String {
    let environment = |index| {
        format!(
            "
apiVersion: app.azure.com/v1api20250101
kind: ManagedEnvironment
metadata: {{name: env-{index:02}-$NS}}
spec:
  location: westus2
  owner: {{name: $NS}}
  workloadProfiles: [{{name: Consumption, workloadProfileType: Consumption}}]
"
        )
    };
    (0..ENVIRONMENTS).map(environment).collect::<Vec<_>>().join("---")
}

fn identities() -> String {
    let identity = |index| {
        format!(
            "
apiVersion: managedidentity.azure.com/v1api20230131
kind: UserAssignedIdentity
metadata: {{name: id-{index:02}-$NS}}
spec: {{location: westus2, owner: {{name: $NS}}}}
"
        )
    };
    (0..SLOW_ONES).map(identity).collect::<Vec<_>>().join("---")
}

#[test]
fn killed_workers_operations_are_finished_by_others_without_a_second_put() -> ExitCode {
    alone(async |testbed| {
        let under_way = UnderWay::begin(testbed, "killed").await?;
        let victim = under_way.busiest()?;
        testbed.fleet().await.kill(&victim)?;
        let killed = Timestamp::now();
        let took = under_way.taken_over(&victim, killed).await?;
        println!("other workers polled a killed worker's operations after {took:.1} s");
        under_way.finish().await
    })
}

#[test]
fn killed_leader_is_replaced_and_workers_go_on_meanwhile() -> ExitCode {
    alone(async |testbed| {
        let sandbox = Sandbox::create(testbed, "leaderless").await?;
        let objects = sandbox.create_ready(GROUP).await?;
        let mut fleet = testbed.fleet().await;
        let leader = fleet.leader().await?.context("no coordinator leads")?;
        // The standby sleeps until the change was carried out, so it was carried out without a leader.
        let standby = fleet.names(Role::Coordinator).into_iter().find(|name| *name != leader).context("no standby")?;
        fleet.pause(&standby)?;
        fleet.kill(&leader)?;
        let patched = Instant::now();
        let changed = async {
            sandbox.cluster().patch(&objects[0], &tag("changed-while", "nobody-leads")).await?;
            sandbox.wait_ready(&objects).await
        };
        let changed = changed.await;
        let took = patched.elapsed();
        fleet.resume(&standby)?;
        changed?;
        let resumed = Instant::now();
        let successor = fleet.leader_other_than(Some(&leader), WITHIN).await?;
        println!(
            "a change without a leader took {:.1} s; {successor} led {:.1} s after it went on",
            took.as_secs_f64(),
            resumed.elapsed().as_secs_f64()
        );
        ensure!(successor == standby, "{successor} leads, not the standby");
        drop(fleet);
        // The new leader's fleet works as well.
        sandbox.cluster().patch(&objects[0], &tag("changed-under", &successor)).await?;
        sandbox.wait_ready(&objects).await?;
        sandbox.check_one_writer()?;
        sandbox.clear(&objects).await
    })
}

#[test]
fn leader_and_worker_killed_together_are_survived() -> ExitCode {
    alone(async |testbed| {
        let under_way = UnderWay::begin(testbed, "both").await?;
        let victim = under_way.busiest()?;
        let mut fleet = testbed.fleet().await;
        let leader = fleet.leader().await?.context("no coordinator leads")?;
        fleet.kill(&leader)?;
        fleet.kill(&victim)?;
        let killed = Timestamp::now();
        drop(fleet);
        let took = under_way.taken_over(&victim, killed).await?;
        println!("with the leader killed, too, other workers polled a killed worker's operations after {took:.1} s");
        under_way.finish().await
    })
}

#[test]
fn stopped_worker_hands_over_at_once_and_writes_nothing() -> ExitCode {
    alone(async |testbed| {
        let under_way = UnderWay::begin(testbed, "stopped").await?;
        under_way.wait_handles_stored().await?;
        let victim = under_way.busiest()?;
        let before = under_way.object_writes()?;
        let unclean_before = under_way.unclean_so_far()?;
        let stopped = Timestamp::now();
        let stop = async { testbed.fleet().await.stop_member(&victim).await };
        let ((), took) = tokio::try_join!(stop, under_way.taken_over(&victim, stopped))?;
        println!("other workers polled a stopped worker's operations after {took:.2} s");
        // At once: the worker handed its shards off, so nobody waited until it was taken for dead.
        let unclean = under_way.unclean_so_far()? - unclean_before;
        ensure!(unclean == 0, "{unclean} shards were taken over instead of handed off");
        let after = under_way.object_writes()?;
        ensure!(after == before, "the hand-off wrote {} times to objects", after - before);
        under_way.finish().await
    })
}

#[test]
fn calls_that_take_long_end_before_their_shard_is_handed_over() -> ExitCode {
    alone(async |testbed| {
        let sandbox = Sandbox::create(testbed, "slow").await?;
        let mut objects = sandbox.create_ready(GROUP).await?;
        let fault = sandbox.fault(Some(Method::Put), FaultAction::Delay { milliseconds: SLOW_CALL })?;
        let identities = sandbox.read(&identities())?;
        sandbox.apply(&identities).await?;
        objects.extend(identities);
        sleep(Duration::from_secs(1)).await;
        // It gets its share of the shards, those included in which calls are on their way.
        testbed.fleet().await.start_member(Role::Worker, "worker-late")?;
        let ready = sandbox.wait_ready(&objects).await;
        testbed.fleet().await.stop_member("worker-late").await?;
        sandbox.testbed.azure.remove_fault(fault)?;
        ready?;
        let calls = sandbox.calls()?;
        let puts = calls.iter().filter(|call| call.method == Method::Put).count();
        ensure!(puts == objects.len(), "{puts} PUTs of {} resources", objects.len());
        sandbox.check_one_writer()?;
        sandbox.clear(&objects).await
    })
}

#[test]
fn everything_resumes_after_the_api_server_was_away() -> ExitCode {
    alone(async |testbed| {
        let under_way = UnderWay::begin(testbed, "outage").await?;
        testbed.control_plane.kill_api_server().await?;
        sleep(OUTAGE).await;
        testbed.control_plane.restart_api_server().await?;
        let back = Instant::now();
        under_way.sandbox.cluster().patch(&under_way.objects[0], &tag("changed-after", "the-outage")).await?;
        under_way.finish().await?;
        println!(
            "everything was Ready and deleted {:.1} s after the API server came back",
            back.elapsed().as_secs_f64()
        );
        testbed.fleet().await.check_running()
    })
}

/// A group with environments whose operations do not end before the test says so.
struct UnderWay {
    sandbox: Sandbox,
    objects: Vec<DynamicObject>,
    fault: u64,
    /// The worker that sent the PUT, by the environment's path in lower case.
    senders: BTreeMap<String, String>,
    operations: BTreeMap<String, String>,
}

impl UnderWay {
    async fn begin(testbed: &'static Testbed, prefix: &str) -> Result<Self> {
        let sandbox = Sandbox::create(testbed, prefix).await?;
        let mut objects = sandbox.create_ready(GROUP).await?;
        let fault = sandbox.fault(Some(Method::Put), FaultAction::HoldOperation)?;
        let environments = sandbox.read(&environments())?;
        sandbox.apply(&environments).await?;
        let begun = || {
            let puts: Vec<_> =
                sandbox.calls()?.into_iter().filter(|call| is_accepted_put(call) && call.operation.is_some()).collect();
            Ok((puts.len() >= ENVIRONMENTS).then_some(puts))
        };
        let puts = sandbox.until("a PUT of each environment", WITHIN, begun).await?;
        objects.extend(environments);
        let sender = |user_agent: &str| worker_of(user_agent).unwrap_or_default().to_owned();
        let senders = puts.iter().map(|put| (put.path.to_lowercase(), sender(&put.user_agent))).collect();
        let operations = puts
            .iter()
            .filter_map(|put| Some((put.operation.as_deref()?.to_owned(), sender(&put.user_agent))))
            .collect();
        Ok(Self { sandbox, objects, fault, senders, operations })
    }

    /// The worker with the most operations under way.
    fn busiest(&self) -> Result<String> {
        let workers: BTreeSet<&String> = self.senders.values().collect();
        let count = |worker: &str| self.senders.values().filter(|sender| *sender == worker).count();
        let busiest = workers.into_iter().max_by_key(|worker| count(worker)).context("no worker sent a PUT")?;
        println!("{busiest} began {} of {ENVIRONMENTS} operations", count(busiest));
        Ok(busiest.clone())
    }

    /// Waits until every environment's object names its operation.
    async fn wait_handles_stored(&self) -> Result<()> {
        let deadline = Instant::now() + WITHIN;
        loop {
            let now = try_join_all(self.objects[1..].iter().map(|object| self.sandbox.get(object))).await?;
            let told = |object: &&DynamicObject| {
                let condition = object.data.pointer("/status/conditions/0/reason");
                let annotations = object.metadata.annotations.as_ref();
                annotations.is_some_and(|all| all.contains_key("flotilla.dev/operation"))
                    && condition.is_some_and(|reason| reason == "Reconciling")
            };
            let stored = now.iter().filter(told).count();
            if stored == ENVIRONMENTS {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "only {stored} of {ENVIRONMENTS} objects name their operation");
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Seconds until another worker first called about one of the victim's operations, or resources.
    async fn taken_over(&self, victim: &str, since: Timestamp) -> Result<f64> {
        let of_the_victim = |map: &BTreeMap<String, String>| -> BTreeSet<String> {
            map.iter().filter(|(_, worker)| *worker == victim).map(|(key, _)| key.clone()).collect()
        };
        let (paths, operations) = (of_the_victim(&self.senders), of_the_victim(&self.operations));
        let first = || {
            let by_others =
                self.sandbox.testbed.azure.calls().into_iter().filter(|call| {
                    call.time > since && worker_of(&call.user_agent).is_some_and(|worker| worker != victim)
                });
            Ok(by_others
                .into_iter()
                .find(|call| {
                    paths.contains(&call.path.to_lowercase())
                        || call.operation.as_deref().is_some_and(|operation| operations.contains(operation))
                })
                .map(|call| call.time))
        };
        let first = self.sandbox.until("another worker's call about the victim's operations", WITHIN, first).await?;
        Ok(first.duration_since(since).as_secs_f64())
    }

    /// How many shards workers have acquired so far whose former owner did not hand them off.
    fn unclean_so_far(&self) -> Result<usize> {
        let logs = self.sandbox.testbed.logs()?;
        let acquired: Vec<&str> =
            logs.iter().flat_map(|(_, log)| log.lines()).filter(|line| line.contains("Acquired shard")).collect();
        ensure!(!acquired.is_empty(), "the logs do not say that a worker acquired a shard");
        Ok(acquired.into_iter().filter(|line| line.contains("unclean=true")).count())
    }

    /// How often the fleet wrote to the sandbox's objects so far.
    fn object_writes(&self) -> Result<usize> {
        let writes = audit::of_the_fleet(self.sandbox.testbed)?;
        self.objects.iter().map(|object| Ok(audit::count(&writes, object)?.object)).sum()
    }

    /// Lets the operations end and proves that everything became Ready with the one PUT that there was, and then goes.
    async fn finish(self) -> Result<()> {
        let azure = &self.sandbox.testbed.azure;
        azure.remove_fault(self.fault)?;
        let held = azure.operations().into_iter().filter(|operation| {
            operation.progress == Progress::InProgress && self.operations.contains_key(&operation.id)
        });
        for operation in held {
            azure.finish_operation(&operation.id)?;
        }
        self.sandbox.wait_ready(&self.objects).await?;
        for path in self.senders.keys() {
            let calls = self.sandbox.calls()?;
            let puts = calls.iter().filter(|call| call.method == Method::Put && call.path.eq_ignore_ascii_case(path));
            let puts: Vec<_> = puts.map(|put| (put.time, put.user_agent.to_string(), put.status)).collect();
            ensure!(puts.len() == 1, "{path} was PUT {} times: {puts:?}", puts.len());
        }
        self.sandbox.check_one_writer()?;
        self.sandbox.clear(&self.objects).await?;
        self.sandbox.check_one_writer()
    }
}
