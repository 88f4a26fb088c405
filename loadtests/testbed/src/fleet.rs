//! A fleet of real `flotilla` processes on this machine, against a local control plane and armsim.
//!
//! What it starts is the program that users run, so that a kill is a kill. Members get all settings by flags and
//! environment, as the Helm chart does it.

mod member;
mod settings;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ObjectMeta, PostParams};
use nix::sys::signal::Signal;
use tokio::time::{Instant, sleep};

use self::member::Member;
pub use self::member::Role;
pub use self::member::program;
pub use self::settings::Settings;

/// How long a member may take to stop before it is killed: its own deadline is 20 s.
const STOP_WITHIN: Duration = Duration::from_secs(45);

/// A first leader is elected in a second where the machine has nothing else to do.
const LED_WITHIN: Duration = Duration::from_mins(2);

const POLL: Duration = Duration::from_millis(50);

/// The running members, by pod name.
pub struct Fleet {
    settings: Settings,
    client: kube::Client,
    members: BTreeMap<String, Member>,
}

impl Fleet {
    /// Starts coordinators `coordinator-0..` and workers `worker-0..`, and waits until one coordinator leads.
    pub async fn start(client: kube::Client, settings: Settings, coordinators: usize, workers: usize) -> Result<Self> {
        ensure_namespace(&client, &settings.namespace).await?;
        let mut fleet = Self { settings, client, members: BTreeMap::new() };
        for index in 0..coordinators {
            fleet.start_member(Role::Coordinator, &format!("coordinator-{index}"))?;
        }
        for index in 0..workers {
            fleet.start_member(Role::Worker, &format!("worker-{index}"))?;
        }
        if coordinators > 0 {
            fleet.leader_other_than(None, LED_WITHIN).await?;
        }
        Ok(fleet)
    }

    /// Starts one more member, or one that was killed.
    pub fn start_member(&mut self, role: Role, name: &str) -> Result<()> {
        let member = Member::spawn(role, name, &self.settings)?;
        self.members.insert(name.to_owned(), member);
        Ok(())
    }

    /// Kills a member with SIGKILL, as a crash of its machine would.
    pub fn kill(&mut self, name: &str) -> Result<Instant> {
        let mut member = self.members.remove(name).with_context(|| format!("no member is called {name}"))?;
        member.process.kill().with_context(|| format!("failed to kill {name}"))?;
        Ok(Instant::now())
    }

    /// Freezes a member (SIGSTOP), as a machine that stalls does, until it is resumed.
    pub fn pause(&mut self, name: &str) -> Result<()> {
        self.signal(name, Signal::SIGSTOP)
    }

    /// Lets a member that was frozen go on (SIGCONT).
    pub fn resume(&mut self, name: &str) -> Result<()> {
        self.signal(name, Signal::SIGCONT)
    }

    fn signal(&mut self, name: &str, signal: Signal) -> Result<()> {
        let member = self.members.get_mut(name).with_context(|| format!("no member is called {name}"))?;
        member.process.signal(signal).with_context(|| format!("failed to send {signal} to {name}"))
    }

    /// Asks a member to stop (SIGTERM) and waits for it.
    pub async fn stop_member(&mut self, name: &str) -> Result<()> {
        let member = self.members.remove(name).with_context(|| format!("no member is called {name}"))?;
        Ok(member.process.stop(STOP_WITHIN).await?)
    }

    /// Stops everybody: workers first, so that they can hand their shards back.
    pub async fn stop(mut self) -> Result<()> {
        let mut names: Vec<_> = self.members.iter().map(|(name, member)| (member.role, name.clone())).collect();
        names.sort_by_key(|(role, _)| *role == Role::Coordinator);
        for (_, name) in names {
            self.stop_member(&name).await?;
        }
        Ok(())
    }

    /// An error with the end of the log if a member ended unasked.
    pub fn check_running(&mut self) -> Result<()> {
        for member in self.members.values_mut() {
            member.process.check_running()?;
        }
        Ok(())
    }

    /// The pod name of the leader, once it is another than `former`.
    pub async fn leader_other_than(&mut self, former: Option<&str>, within: Duration) -> Result<String> {
        let deadline = Instant::now() + within;
        loop {
            self.check_running()?;
            match self.leader().await? {
                Some(name) if Some(name.as_str()) != former && self.members.contains_key(&name) => return Ok(name),
                seen if Instant::now() > deadline => {
                    bail!("no new leader within {within:?}; the lease names {seen:?}, before that it was {former:?}")
                }
                _ => sleep(POLL).await,
            }
        }
    }

    /// The pod name that the leader's lease names.
    pub async fn leader(&self) -> Result<Option<String>> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), &self.settings.namespace);
        let lease = leases.get_opt("flotilla-coordinator").await.context("failed to read the leader's lease")?;
        let holder = lease.and_then(|lease| lease.spec).and_then(|spec| spec.holder_identity);
        Ok(holder.filter(|holder| !holder.is_empty()).map(|holder| member_name(&holder).to_owned()))
    }

    /// Names of the running members with this role.
    pub fn names(&self, role: Role) -> Vec<String> {
        self.members.iter().filter(|(_, member)| member.role == role).map(|(name, _)| name.clone()).collect()
    }

    /// Where each running member serves its metrics.
    pub fn metrics(&self) -> Vec<(String, SocketAddr)> {
        self.members.iter().map(|(name, member)| (name.clone(), member.metrics)).collect()
    }

    /// The process id of a running member.
    pub fn pid(&self, name: &str) -> Option<u32> {
        self.members.get(name).map(|member| member.process.id())
    }

    /// The log of a member, running or not.
    pub fn log_path(&self, name: &str) -> PathBuf {
        self.settings.log_path(name)
    }
}

/// A holder's identity is `pod/incarnation`.
fn member_name(holder: &str) -> &str {
    holder.split(['/', '_']).next().unwrap_or(holder)
}

async fn ensure_namespace(client: &kube::Client, name: &str) -> Result<()> {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    match Api::all(client.clone()).create(&PostParams::default(), &namespace).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        Err(error) => Err(error).with_context(|| format!("failed to create namespace {name}")),
    }
}
