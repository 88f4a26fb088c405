//! ARM's limits: token buckets by principal, subscription and region, and the throttles of single services.
//!
//! Kept true here: a call takes a token from each bucket that concerns it, or from none.

use std::collections::HashMap;

use globset::GlobMatcher;
use serde::{Deserialize, Serialize};

use super::answer::{Class, Method};
use super::bucket::{Bucket, Rate};
use super::clock::SimTime;
use super::error::Refusal;
use super::fault::{self, matcher};

/// The buckets that ARM itself has, for one principal. All principals of a subscription together have `shared` times as much.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rates {
    /// GET and HEAD.
    pub reads: Rate,
    /// PUT, PATCH and POST.
    pub writes: Rate,
    /// DELETE.
    pub deletes: Rate,
    /// How much more all principals of a subscription have together.
    pub shared: f64,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            reads: Rate::new(250.0, 25.0),
            writes: Rate::new(200.0, 10.0),
            deletes: Rate::new(200.0, 10.0),
            shared: 15.0,
        }
    }
}

/// A throttle of a service, counted apart from ARM's.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Throttle {
    /// The types it is about: a glob without letter case.
    #[serde(rename = "type")]
    pub arm_type: String,
    /// The methods it is about.
    pub methods: Vec<Method>,
    /// Whether each resource has a bucket of its own, or each subscription.
    #[serde(default)]
    pub per_resource: bool,
    /// The bucket.
    pub rate: Rate,
    /// The code of the refusal.
    #[serde(default = "too_many_requests")]
    pub code: String,
}

fn too_many_requests() -> String {
    "TooManyRequests".to_owned()
}

/// What a call is, for counting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) method: Method,
    pub(crate) tenant: &'a str,
    pub(crate) client_id: &'a str,
    pub(crate) subscription: Option<&'a str>,
    pub(crate) arm_type: &'a str,
    pub(crate) path: &'a str,
    pub(crate) region: &'a str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct BucketKey {
    /// The subscription, or the tenant for calls above subscriptions.
    scope: String,
    /// The principal; empty for all together.
    principal: String,
    region: String,
    class: Class,
}

/// All buckets.
#[derive(Debug)]
pub(crate) struct Limits {
    rates: Option<Rates>,
    buckets: HashMap<BucketKey, Bucket>,
    throttles: Vec<(Throttle, GlobMatcher)>,
    /// By the throttle's place and the resource or subscription.
    throttled: HashMap<(usize, String), Bucket>,
}

/// How many buckets there may be before those that are full again are forgotten.
const TIDY_ABOVE: usize = 10_000;

impl Limits {
    pub(crate) fn new(rates: Option<Rates>, throttles: Vec<Throttle>) -> Result<Self, fault::Error> {
        let throttles = throttles
            .into_iter()
            .map(|throttle| Ok((throttle.clone(), matcher(&throttle.arm_type)?)))
            .collect::<Result<_, fault::Error>>()?;
        Ok(Self { rates, buckets: HashMap::new(), throttles, throttled: HashMap::new() })
    }

    /// Turns ARM's own buckets on, full, or off.
    pub(crate) fn set_rates(&mut self, rates: Option<Rates>) {
        self.rates = rates;
        self.buckets.clear();
    }

    pub(crate) fn rates(&self) -> Option<Rates> {
        self.rates
    }

    /// Counts a call, or refuses it. The headers that tell what is left go on the answer either way.
    pub(crate) fn spend(
        &mut self,
        subject: &Subject<'_>,
        now: SimTime,
    ) -> (Result<(), Refusal>, Vec<(String, String)>) {
        let class = subject.method.class();
        let scope = if subject.subscription.is_some() { "subscription" } else { "tenant" };
        let keys = self.rates.map(|_| [subject.principal_bucket(), subject.shared_bucket()]);
        let throttles = self.throttles_of(subject);
        let mut refused = None;
        for key in keys.iter().flatten() {
            let Err(wait) = self.bucket(key, now).check(now) else { continue };
            refused.get_or_insert_with(|| arm_refuses(subject, wait));
        }
        for (at, name) in &throttles {
            let rate = self.throttles[*at].0.rate;
            let bucket = self.throttled.entry((*at, name.clone())).or_insert_with(|| Bucket::full(rate, now));
            if let Err(wait) = bucket.check(now) {
                let code = self.throttles[*at].0.code.clone();
                let message =
                    format!("The request is being throttled as the limit of {} has been reached.", subject.arm_type);
                refused.get_or_insert_with(|| Refusal::service(429, code, message).retry_after(wait));
            }
        }
        if refused.is_none() {
            for key in keys.iter().flatten() {
                self.bucket(key, now).take();
            }
            for (at, name) in &throttles {
                if let Some(bucket) = self.throttled.get_mut(&(*at, name.clone())) {
                    bucket.take();
                }
            }
        }
        let mut headers = Vec::new();
        if let Some([principal, shared]) = &keys {
            let class = class.plural();
            let left = self.bucket(principal, now).left();
            headers.push((format!("x-ms-ratelimit-remaining-{scope}-{class}"), left.to_string()));
            let left = self.bucket(shared, now).left();
            headers.push((format!("x-ms-ratelimit-remaining-{scope}-global-{class}"), left.to_string()));
        }
        if let Some(left) = throttles.iter().filter_map(|key| self.throttled.get(key)).map(Bucket::left).min() {
            headers.push(("x-ms-ratelimit-remaining-subscription-resource-requests".into(), left.to_string()));
        }
        (refused.map_or(Ok(()), Err), headers)
    }

    fn bucket(&mut self, key: &BucketKey, now: SimTime) -> &mut Bucket {
        let rates = self.rates.unwrap_or_default();
        if self.buckets.len() > TIDY_ABOVE {
            self.buckets.retain(|other, bucket| other == key || !bucket.is_idle(now));
        }
        let rate = match key.class {
            Class::Read => rates.reads,
            Class::Write => rates.writes,
            Class::Delete => rates.deletes,
        };
        let times = if key.principal.is_empty() { rates.shared } else { 1.0 };
        let rate = Rate::new(rate.capacity * times, rate.refill * times);
        self.buckets.entry(key.clone()).or_insert_with(|| Bucket::full(rate, now))
    }

    fn throttles_of(&self, subject: &Subject<'_>) -> Vec<(usize, String)> {
        let concerns = |(throttle, glob): &(Throttle, GlobMatcher)| {
            throttle.methods.contains(&subject.method) && glob.is_match(subject.arm_type)
        };
        let name = |throttle: &Throttle| {
            if throttle.per_resource { subject.path } else { subject.subscription.unwrap_or_default() }
                .to_ascii_lowercase()
        };
        let all = self.throttles.iter().enumerate().filter(|(_, throttle)| concerns(throttle));
        all.map(|(at, (throttle, _))| (at, name(throttle))).collect()
    }
}

impl Subject<'_> {
    fn principal_bucket(&self) -> BucketKey {
        BucketKey {
            scope: self.subscription.unwrap_or(self.tenant).to_ascii_lowercase(),
            principal: self.client_id.to_ascii_lowercase(),
            region: self.region.to_owned(),
            class: self.method.class(),
        }
    }

    fn shared_bucket(&self) -> BucketKey {
        BucketKey { principal: String::new(), ..self.principal_bucket() }
    }
}

fn arm_refuses(subject: &Subject<'_>, wait: u64) -> Refusal {
    let class = subject.method.class().plural();
    let (code, scope) = match subject.subscription {
        Some(id) => ("SubscriptionRequestsThrottled", format!("subscription '{id}'")),
        None => ("TenantRequestsThrottled", format!("tenant '{}'", subject.tenant)),
    };
    let message = format!(
        "Number of {class} for {scope} actor '{}' exceeded. Please try again after '{wait}' seconds after additional tokens are available. Refer to https://aka.ms/arm-throttling for additional information.",
        subject.client_id
    );
    Refusal::gateway(429, code, message).retry_after(wait)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const PUT: Subject<'_> = Subject {
        method: Method::Put,
        tenant: "t",
        client_id: "c",
        subscription: Some("s"),
        arm_type: "Microsoft.Storage/storageAccounts",
        path: "/a",
        region: "WESTUS2",
    };

    fn passed(limits: &mut Limits, subject: &Subject<'_>, calls: usize) -> usize {
        (0..calls).filter(|_| limits.spend(subject, Duration::ZERO).0.is_ok()).count()
    }

    #[test]
    fn each_principal_has_its_own_buckets_and_all_share_a_larger_one() {
        let mut limits = Limits::new(Some(Rates::default()), vec![]).unwrap();
        assert_eq!(passed(&mut limits, &PUT, 250), 200);
        assert_eq!(passed(&mut limits, &Subject { method: Method::Post, ..PUT }, 1), 0, "actions are writes");
        assert_eq!(passed(&mut limits, &Subject { method: Method::Get, ..PUT }, 300), 250);
        assert_eq!(passed(&mut limits, &Subject { method: Method::Delete, ..PUT }, 300), 200);
        assert_eq!(passed(&mut limits, &Subject { subscription: Some("s2"), ..PUT }, 300), 200);
        assert_eq!(passed(&mut limits, &Subject { region: "EASTUS", ..PUT }, 300), 200);
        let others: usize =
            (0..20).map(|n| passed(&mut limits, &Subject { client_id: &n.to_string(), ..PUT }, 200)).sum();
        assert_eq!(others, 3000 - 200, "fifteen principals exhaust the subscription");
    }

    #[test]
    fn a_refusal_says_when_and_headers_say_what_is_left() {
        let mut limits = Limits::new(Some(Rates::default()), vec![]).unwrap();
        let (_, headers) = limits.spend(&PUT, Duration::ZERO);
        assert_eq!(headers[0], ("x-ms-ratelimit-remaining-subscription-writes".into(), "199".into()));
        assert_eq!(headers[1], ("x-ms-ratelimit-remaining-subscription-global-writes".into(), "2999".into()));
        passed(&mut limits, &PUT, 199);
        let refusal = limits.spend(&PUT, Duration::ZERO).0.unwrap_err();
        assert_eq!(
            (refusal.status, &*refusal.code, refusal.retry_after),
            (429, "SubscriptionRequestsThrottled", Some(1))
        );
        assert_eq!(
            limits.spend(&Subject { subscription: None, ..PUT }, Duration::ZERO).1[0].0,
            "x-ms-ratelimit-remaining-tenant-writes"
        );
    }

    #[test]
    fn a_service_throttles_apart_and_its_refusals_cost_nothing_of_arm() {
        let throttle = Throttle {
            arm_type: "microsoft.storage/*".into(),
            methods: vec![Method::Put],
            per_resource: true,
            rate: Rate::new(2.0, 0.1),
            code: "TooManyRequests".into(),
        };
        let mut limits = Limits::new(Some(Rates::default()), vec![throttle]).unwrap();
        assert_eq!(passed(&mut limits, &PUT, 5), 2);
        assert_eq!(passed(&mut limits, &Subject { path: "/b", ..PUT }, 5), 2);
        let (result, headers) = limits.spend(&PUT, Duration::ZERO);
        assert_eq!(result.unwrap_err().code, "TooManyRequests");
        assert_eq!(headers[0].1, "196", "four calls passed");
        assert_eq!(passed(&mut limits, &Subject { arm_type: "Microsoft.App/jobs", ..PUT }, 5), 5);
    }

    #[test]
    fn without_rates_everything_passes_and_no_header_is_sent() {
        let mut limits = Limits::new(None, vec![]).unwrap();
        assert_eq!((passed(&mut limits, &PUT, 1000), limits.spend(&PUT, Duration::ZERO).1.len()), (1000, 0));
    }
}
