//! The tasks of all members, with what their cancellation and their failure mean.

use std::fmt;

/// What happens when a task's owner cancels it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnCancel {
    /// It is asked to end and brings what it does to a good end.
    Wait,
    /// It ends at its next `.await`: it has nothing that must not be cut off.
    Abort,
}

/// What happens when a task fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// The process stops in order. It must not end unasked either.
    StopProcess,
    /// The failure is logged; the process goes on without the task.
    Log,
}

/// What cancelling a task means, and what its failure means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// On cancellation.
    pub on_cancel: OnCancel,
    /// On failure.
    pub on_failure: OnFailure,
}

/// A kind of long-lived task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Coordinator: serves the workers' streams.
    FleetServer,
    /// Coordinator: passes one worker's messages on to the leader's loop.
    StreamReader,
    /// Leader: finds the kinds that have objects.
    KindDiscovery,
    /// Leader: installs CRDs, or follows which are installed.
    CrdInstaller,
    /// Leader: asks which CRDs are served while an installation waits for it.
    ServedCrds,
    /// Leader: follows the namespaces.
    NamespaceWatch,
    /// Leader: follows Secrets and ConfigMaps that objects refer to.
    ReferenceWatch,
    /// Worker: intake and reconciles.
    Engine,
    /// Worker: follows the objects of one kind.
    ObjectWatch,
    /// Worker: lists the objects of one kind once, because shards were gained.
    ObjectList,
    /// Worker: one reconcile of an object.
    Reconcile,
    /// Worker: waits until nothing runs in a shard that the leader asked back.
    HandBack,
    /// Worker: writes one Kubernetes event.
    EventWriter,
    /// Worker: keeps a stream to the leader.
    LeaderStream,
    /// Worker: asks for tokens of the budget and hands them out.
    BudgetSpender,
    /// Every member: waits for signals.
    SignalListener,
    /// Every member: serves metrics and health.
    MetricsServer,
}

impl Kind {
    /// What its cancellation and its failure mean.
    #[expect(clippy::match_same_arms, reason = "each task has its own reason")]
    pub fn policy(self) -> Policy {
        use OnCancel::{Abort, Wait};
        use OnFailure::{Log, StopProcess};
        let policy = |on_cancel, on_failure| Policy { on_cancel, on_failure };
        match self {
            // Streams are ended before it. A coordinator that can't be reached must not lead.
            Self::FleetServer => policy(Wait, StopProcess),
            // It ends with the stream or the term. If it fails, the worker's next hand-off runs into its deadline, and the worker
            // joins again with nothing held.
            Self::StreamReader => policy(Wait, Log),
            // They only read, and end with the term. Without one of them the leader would decide from what it saw last, for ever;
            // a standby takes over.
            Self::KindDiscovery | Self::NamespaceWatch | Self::ReferenceWatch => policy(Abort, StopProcess),
            // The next leader repeats what was cut off. What is installed goes on being served, so a failure that would come
            // again with each leader must not take the fleet's coordinators down.
            Self::CrdInstaller => policy(Abort, Log),
            // Whoever waits for it has a deadline of its own.
            Self::ServedCrds => policy(Abort, Log),
            // A worker without one of these holds shards for nothing: it stops, and other workers take them.
            Self::Engine | Self::LeaderStream | Self::BudgetSpender => policy(Wait, StopProcess),
            // Objects of a kind that nobody follows would wait for the next restart.
            Self::ObjectWatch => policy(Wait, StopProcess),
            // It ends when it has listed everything. What a failure leaves out comes with the watch's next list.
            Self::ObjectList => policy(Wait, Log),
            // What it began in Azure must be written down. After a failure the object goes back in line, and the others go on: a
            // fault that one object brings up would otherwise take down each worker that gets it.
            Self::Reconcile => policy(Wait, Log),
            // Without an answer the leader fences the worker at its deadline.
            Self::HandBack => policy(Wait, Log),
            // An event says nothing that the object's condition does not.
            Self::EventWriter => policy(Abort, Log),
            // Kubernetes kills a process that does not hear SIGTERM, and its shards wait for the lease to run out.
            Self::SignalListener => policy(Abort, StopProcess),
            // The kubelet restarts a pod that does not answer its probes; until then the fleet goes on.
            Self::MetricsServer => policy(Abort, Log),
        }
    }

    /// The words for logs and errors.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FleetServer => "gRPC server",
            Self::StreamReader => "reader of a worker's stream",
            Self::KindDiscovery => "discovery of kinds",
            Self::CrdInstaller => "installer of CRDs",
            Self::ServedCrds => "check of served CRDs",
            Self::NamespaceWatch => "watch on namespaces",
            Self::ReferenceWatch => "watch on Secrets and ConfigMaps",
            Self::Engine => "engine",
            Self::ObjectWatch => "watch on objects",
            Self::ObjectList => "list of objects",
            Self::Reconcile => "reconcile",
            Self::HandBack => "hand-back of a shard",
            Self::EventWriter => "writer of an event",
            Self::LeaderStream => "stream to the leader",
            Self::BudgetSpender => "budget spender",
            Self::SignalListener => "signal listener",
            Self::MetricsServer => "metrics server",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
