//! ARM's token buckets: how they are named on both sides, and the numbers ARM gives each.
//!
//! A bucket belongs to one (cloud, subscription, principal, ARM region) and one class of calls. What a worker may spend and
//! what the leader hands out both start from [`Limit`], so the two agree by construction.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::v1;

/// The classes that ARM counts separately. POST actions count as writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// GET, HEAD and lists; also every poll of a long-running operation.
    Read,
    /// PUT, PATCH and POST.
    Write,
    /// DELETE.
    Delete,
}

impl Class {
    /// Each class once, for metrics and tests.
    pub const ALL: [Class; 3] = [Class::Read, Class::Write, Class::Delete];

    /// The word used in metric labels and log fields.
    pub const fn as_str(self) -> &'static str {
        match self {
            Class::Read => "read",
            Class::Write => "write",
            Class::Delete => "delete",
        }
    }

    /// What ARM documents for one principal in one subscription and region: 250 reads refilled at 25/s, 200 writes and
    /// 200 deletes refilled at 10/s each.
    pub const fn limit(self) -> Limit {
        match self {
            Class::Read => Limit { capacity: 250.0, per_second: 25.0 },
            Class::Write | Class::Delete => Limit { capacity: 200.0, per_second: 10.0 },
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Part of ARM's refill that is handed out. The rest lets ARM's bucket fill slowly, which hides small differences
/// between its clock and ours and calls that arrive closer together than they were sent.
const RATE_USED: f64 = 0.99;
/// Part of ARM's burst that is handed out, for the same reason.
const BURST_USED: f64 = 0.95;

/// The shape of a token bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Tokens in a full bucket, which is the largest burst.
    pub capacity: f64,
    /// Tokens that come back each second.
    pub per_second: f64,
}

impl Limit {
    /// The same bucket of an ARM whose clock runs `time_scale` times faster; 1 for the real one.
    pub fn scaled(self, time_scale: f64) -> Self {
        Self { per_second: self.per_second * time_scale, ..self }
    }

    /// What the fleet hands out of such a bucket.
    pub fn handed_out(self) -> Self {
        Self { capacity: self.capacity * BURST_USED, per_second: self.per_second * RATE_USED }
    }
}

/// Names one of ARM's token buckets.
///
/// The parts are shared: a key is cloned for each call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketKey {
    /// Host of the ARM endpoint.
    pub cloud: Arc<str>,
    /// Subscription id, lower case; empty for calls at tenant scope.
    pub subscription: Arc<str>,
    /// Client id of the identity that calls.
    pub principal: Arc<str>,
    /// ARM region that takes the calls; empty until an answer has told it.
    pub region: Arc<str>,
    /// What kind of call it is for.
    pub class: Class,
}

impl BucketKey {
    /// The bucket of an identity whose ARM region is not known yet.
    pub fn new(cloud: &str, subscription: &str, principal: &str, class: Class) -> Self {
        Self {
            cloud: cloud.to_ascii_lowercase().into(),
            subscription: subscription.to_ascii_lowercase().into(),
            principal: principal.to_ascii_lowercase().into(),
            region: "".into(),
            class,
        }
    }

    /// The same identity's bucket in one ARM region.
    pub fn in_region(&self, region: &str) -> Self {
        Self { region: region.to_ascii_lowercase().into(), ..self.clone() }
    }

    /// The same identity's bucket for another class of calls.
    pub fn of_class(&self, class: Class) -> Self {
        Self { class, ..self.clone() }
    }

    /// Whether both may be the same bucket: equal but for a region that one of them does not know yet.
    pub fn may_be(&self, other: &Self) -> bool {
        self.class == other.class
            && self.subscription == other.subscription
            && self.principal == other.principal
            && self.cloud == other.cloud
            && (self.region == other.region || self.region.is_empty() || other.region.is_empty())
    }
}

impl fmt::Display for BucketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.cloud, self.subscription, self.principal)?;
        if !self.region.is_empty() {
            write!(f, "@{}", self.region)?;
        }
        write!(f, " {}", self.class)
    }
}

impl From<Class> for v1::BudgetClass {
    fn from(class: Class) -> Self {
        match class {
            Class::Read => Self::Read,
            Class::Write => Self::Write,
            Class::Delete => Self::Delete,
        }
    }
}

impl From<&BucketKey> for v1::Bucket {
    fn from(key: &BucketKey) -> Self {
        Self {
            cloud: key.cloud.to_string(),
            subscription: key.subscription.to_string(),
            principal: key.principal.to_string(),
            region: key.region.to_string(),
            class: v1::BudgetClass::from(key.class).into(),
        }
    }
}

/// A message that names no bucket or no class; the sender speaks another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownBucket;

impl fmt::Display for UnknownBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("message names no known budget class")
    }
}

impl std::error::Error for UnknownBucket {}

impl TryFrom<&v1::Bucket> for BucketKey {
    type Error = UnknownBucket;

    fn try_from(bucket: &v1::Bucket) -> Result<Self, UnknownBucket> {
        let class = match bucket.class() {
            v1::BudgetClass::Read => Class::Read,
            v1::BudgetClass::Write => Class::Write,
            v1::BudgetClass::Delete => Class::Delete,
            v1::BudgetClass::Unspecified => return Err(UnknownBucket),
        };
        Ok(Self::new(&bucket.cloud, &bucket.subscription, &bucket.principal, class).in_region(&bucket.region))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_the_wire() {
        let key = BucketKey::new("management.azure.com", "SUB-1", "app", Class::Delete).in_region("WestEurope");
        assert_eq!(BucketKey::try_from(&v1::Bucket::from(&key)), Ok(key.clone()));
        assert_eq!(key.to_string(), "management.azure.com/sub-1/app@westeurope delete");
    }

    #[test]
    fn a_class_that_is_not_known_is_refused() {
        assert_eq!(BucketKey::try_from(&v1::Bucket { class: 9, ..v1::Bucket::default() }), Err(UnknownBucket));
    }

    #[test]
    fn an_unknown_region_may_be_any_region() {
        let key = BucketKey::new("arm", "s", "p", Class::Read);
        assert!(key.may_be(&key.in_region("westeurope")) && key.in_region("westeurope").may_be(&key));
        assert!(!key.in_region("westeurope").may_be(&key.in_region("eastus")));
        assert!(!key.may_be(&key.of_class(Class::Write)));
    }
}
