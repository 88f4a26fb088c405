//! The times that must fit together across members, each with its reason, and how they must fit.
//!
//! A rule that does not hold stops the build. `docs/reference/timings.md` is made from this file; a test compares the two.

use std::time::Duration;

/// Constants from sections, and the same as data for the reference page.
macro_rules! timings {
    ($( $section:literal { $( $(#[doc = $reason:literal])+ $name:ident = $duration:expr; )+ } )+) => {
        $( $( $(#[doc = $reason])+ pub const $name: Duration = $duration; )+ )+

        /// Every section with its times, each with its reason.
        #[cfg(test)]
        const SECTIONS: &[(&str, &[(&str, Duration, &[&str])])] =
            &[$( ($section, &[$( (stringify!($name), $name, &[$($reason),+]) ),+]) ),+];
    };
}

/// Checks at compile time that the sum on the left is shorter than the time on the right.
macro_rules! rules {
    ($( $first:ident $(+ $more:ident)* < $right:ident: $why:literal; )+) => {
        $( const _: () = assert!($first.as_millis() $(+ $more.as_millis())* < $right.as_millis(), $why); )+

        /// Every rule with its reason.
        #[cfg(test)]
        const RULES: &[(&[&str], &str, &str)] =
            &[$( (&[stringify!($first) $(, stringify!($more))*], stringify!($right), $why) ),+];
    };
}

timings! {
    "Leases of workers" {
        /// A worker renews its lease this often.
        LEASE_RENEW_EVERY = Duration::from_secs(2);
        /// A worker that has not renewed its lease for this long sends no more writes.
        LEASE_FENCE_AFTER = Duration::from_secs(6);
        /// A worker whose lease was unchanged for this long gets no more shards: it has stopped writing by its own clock.
        LEASE_EXPIRED_AFTER = Duration::from_secs(6);
        /// A worker whose lease was unchanged for this long is fenced, and its shards go to others.
        LEASE_DEAD_AFTER = Duration::from_secs(8);
        /// The leader reads the leases of workers this often.
        LEASES_READ_EVERY = Duration::from_millis(500);
        /// After a crash, another worker has the shards within this time.
        TAKE_OVER_WITHIN = Duration::from_secs(10);
        /// The lease of a worker that has gone is kept for this long, for people who look for it.
        LEASES_KEPT_FOR = Duration::from_mins(10);
    }
    "Election" {
        /// A leader that has not renewed its lease for this long may be replaced.
        LEADER_LEASE = Duration::from_secs(8);
        /// A leader that failed to renew its lease for this long steps down.
        LEADER_RENEW_WITHIN = Duration::from_secs(5);
        /// The leader renews its lease, and a standby reads it, this often.
        LEADER_RETRY_EVERY = Duration::from_secs(1);
        /// A call of the store that takes longer has failed.
        STORE_CALL_WITHIN = Duration::from_secs(3);
    }
    "Stream between worker and leader" {
        /// A connection on which nothing moves is asked for a sign of life after this time, and given as long to answer.
        STREAM_KEEP_ALIVE = Duration::from_secs(3);
        /// The leader waits this long for a worker's first message.
        STREAM_HELLO_WITHIN = Duration::from_secs(10);
        /// A worker waits this long for a connection to the leader.
        STREAM_CONNECT_WITHIN = Duration::from_secs(3);
        /// A worker waits this long before it connects again, and twice as long after each failure. A leader is elected within seconds.
        STREAM_RECONNECT_AFTER = Duration::from_millis(200);
        /// A worker waits no longer than this before it connects again.
        STREAM_RECONNECT_WITHIN = Duration::from_secs(3);
        /// Workers report their load this often.
        STREAM_HEARTBEAT = Duration::from_secs(1);
        /// A new leader waits this long for the owners in the map before it places what nobody holds.
        GATHER_WITHIN = Duration::from_secs(10);
    }
    "Hand-off" {
        /// Azure Resource Manager gives up on a resource provider after this time.
        ARM_GIVES_UP_AFTER = Duration::from_mins(1);
        /// A worker waits this long for an answer of Azure Resource Manager.
        ARM_CALL_WITHIN = Duration::from_secs(65);
        /// A worker has this long to hand a shard over.
        REVOKE_WITHIN = Duration::from_secs(70);
        /// The leader waits this much longer before it takes the worker's lease away.
        REVOKE_GRACE = Duration::from_secs(5);
    }
    "Budget" {
        /// A worker repeats its request for tokens this often, so the leader hears from it.
        BUDGET_RENEW_EVERY = Duration::from_secs(1);
        /// A worker gives tokens back that it has not used for this long.
        BUDGET_KEEP_IDLE = Duration::from_secs(1);
        /// The leader forgets a request that was not repeated for this long.
        BUDGET_DEMAND_FOR = Duration::from_secs(3);
        /// The leader keeps the share of a worker free that it has not heard from for this long.
        BUDGET_AWAY_AFTER = Duration::from_secs(3);
        /// The leader keeps the share of a worker that is back free for this much longer: the way of the answer that ends its use.
        BUDGET_BACK_AFTER = Duration::from_secs(1);
        /// The leader repeats a worker's share after this time, in case the message was lost.
        BUDGET_SHARE_REPEAT_AFTER = Duration::from_secs(2);
        /// A worker whose request was not answered for this long lives on its share.
        BUDGET_PATIENCE = Duration::from_secs(5);
        /// Tokens can be spent for this long, counted from when the worker sent its request.
        BUDGET_VALID_FOR = Duration::from_secs(5);
        /// Tokens can be given back for this long after that. Later they count as spent.
        BUDGET_SETTLE_WITHIN = Duration::from_secs(5);
        /// A new leader keeps everything free for live workers that it has not heard from, for this long at most.
        BUDGET_UNHEARD_FOR = Duration::from_secs(20);
    }
    "Stopping" {
        /// A worker has this long to stop in order.
        STOP_WITHIN = Duration::from_secs(20);
        /// Of that, this much is kept for giving shards back, the lease and the metrics.
        STOP_FAREWELL = Duration::from_secs(5);
        /// A coordinator waits this long for streams that workers do not close.
        STOP_STREAMS_WITHIN = Duration::from_secs(1);
        /// Kubernetes kills a pod of the chart this long after it asked it to stop (`terminationGracePeriodSeconds`).
        POD_GRACE = Duration::from_secs(30);
    }
}

rules! {
    LEASE_RENEW_EVERY + LEASE_RENEW_EVERY < LEASE_FENCE_AFTER: "a worker may fail to renew once and keeps writing";
    LEASE_FENCE_AFTER < LEASE_DEAD_AFTER: "a worker stops writing before another may begin, with room for clocks that differ in rate";
    LEASE_EXPIRED_AFTER < LEASE_DEAD_AFTER: "a worker gets nothing new before it loses what it has";
    LEASE_DEAD_AFTER + LEASES_READ_EVERY + LEASES_READ_EVERY < TAKE_OVER_WITHIN: "a crash is seen, fenced and repaired in time";
    LEADER_RENEW_WITHIN < LEADER_LEASE: "a leader steps down before another may lead";
    STORE_CALL_WITHIN + LEADER_RETRY_EVERY < LEADER_RENEW_WITHIN: "a leader whose renewal was not answered can try once more";
    LEASE_DEAD_AFTER < GATHER_WITHIN: "a new leader knows which owners are dead before it stops waiting for them";
    STREAM_RECONNECT_WITHIN + STREAM_CONNECT_WITHIN < GATHER_WITHIN: "a live worker reaches a new leader before its shards are placed";
    ARM_GIVES_UP_AFTER < ARM_CALL_WITHIN: "Azure Resource Manager answers before the worker gives up";
    ARM_CALL_WITHIN < REVOKE_WITHIN: "a call under way ends before the hand-off does; whoever took a PUT over that is still on its way would send another";
    BUDGET_RENEW_EVERY + BUDGET_RENEW_EVERY < BUDGET_DEMAND_FOR: "one lost request is not taken for no request";
    BUDGET_RENEW_EVERY + BUDGET_RENEW_EVERY < BUDGET_AWAY_AFTER: "one lost request is not taken for an absence";
    BUDGET_AWAY_AFTER < BUDGET_PATIENCE: "the leader keeps a share free before the worker uses it";
    BUDGET_BACK_AFTER < BUDGET_AWAY_AFTER: "a worker that is back is not away again before its share is settled";
    LEASE_DEAD_AFTER < BUDGET_UNHEARD_FOR: "a dead worker is known to be dead before the leader gives up on it";
    STOP_FAREWELL < STOP_WITHIN: "running reconciles have time to end";
    STOP_WITHIN < POD_GRACE: "a worker stops in order before Kubernetes kills it";
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    fn repository() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    fn page() -> String {
        let mut page =
            "# Timings\n\nTimes that depend on one another, with their reasons and rules. The page is made from \
            `proto/src/timing.rs`, where the\ncompiler checks the rules.\n"
                .to_owned();
        for (section, times) in SECTIONS {
            write!(page, "\n## {section}\n\n| name | time | what it is |\n|---|---|---|\n").unwrap();
            for (name, duration, reason) in *times {
                let reason: Vec<&str> = reason.iter().map(|line| line.trim()).collect();
                writeln!(page, "| `{name}` | {} | {} |", words(*duration), reason.join(" ")).unwrap();
            }
        }
        page.push_str("\n## Rules\n\n| must hold | so that |\n|---|---|\n");
        for (left, right, why) in RULES {
            writeln!(page, "| `{} < {right}` | {why} |", left.join(" + ")).unwrap();
        }
        page
    }

    fn words(duration: Duration) -> String {
        match duration.as_millis() {
            millis if millis % 60_000 == 0 && millis > 60_000 => format!("{} min", millis / 60_000),
            millis if millis % 1000 == 0 => format!("{} s", millis / 1000),
            millis => format!("{millis} ms"),
        }
    }

    /// `make generate` writes the page.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test's own switch")]
    fn page_of_timings_is_up_to_date() {
        let file = repository().join("docs/reference/timings.md");
        if std::env::var_os("FLOTILLA_GENERATE").is_some() {
            fs::write(&file, page()).unwrap();
        }
        let committed = fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(committed, page(), "run make generate");
    }

    #[test]
    fn pods_of_the_chart_get_as_long_to_stop_as_the_rules_assume() {
        let values = fs::read_to_string(repository().join("deploy/helm/flotilla/values.yaml")).unwrap();
        let grace = format!("\nterminationGracePeriodSeconds: {}\n", POD_GRACE.as_secs());
        assert!(values.contains(&grace), "the chart has another terminationGracePeriodSeconds than POD_GRACE");
    }
}
