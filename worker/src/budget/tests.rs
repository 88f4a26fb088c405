//! The budget on a stopped clock, with the test as its leader.

use std::time::Duration;

use flotilla_proto::v1;
use flotilla_proto::v1::leader_message::Message as FromLeader;
use flotilla_proto::v1::worker_message::Message as ToLeader;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::*;

fn key() -> BucketKey {
    BucketKey::new("management.azure.com", "sub", "app", Class::Write)
}

/// Whether this is about the bucket, in whatever region.
fn asks_for(request: &v1::BudgetRequest, key: &BucketKey) -> bool {
    let asked = request.bucket.as_ref().and_then(|bucket| BucketKey::try_from(bucket).ok());
    asked.is_some_and(|asked| asked.in_region("") == *key)
}

/// A budget, its running spender, and the leader's end of the stream.
struct Case {
    budget: Budget,
    inbox: mpsc::Receiver<ToLeader>,
    next_grant: u64,
    _stop: tokio_util::sync::DropGuard,
}

impl Case {
    #[expect(clippy::disallowed_methods, reason = "a test's own task")]
    fn new() -> Self {
        let (outbox, inbox) = mpsc::channel(64);
        let metrics = Metrics::new(&opentelemetry::global::meter("test"));
        let (budget, spender) = Budget::new(Options::default(), outbox, metrics);
        let stop = CancellationToken::new();
        tokio::spawn(spender.run(stop.clone()));
        Self { budget, inbox, next_grant: 1, _stop: stop.drop_guard() }
    }

    /// The next message that is no sign of life.
    async fn hear(&mut self) -> ToLeader {
        self.hear_some("a message", |message| match message {
            ToLeader::BudgetRequest(request) if request.bucket.is_none() => None,
            message => Some(message),
        })
        .await
    }

    async fn hear_request(&mut self) -> v1::BudgetRequest {
        self.hear_some("a request", |message| match message {
            // Other buckets ask in no particular order.
            ToLeader::BudgetRequest(request) if asks_for(&request, &key()) => Some(request),
            _ => None,
        })
        .await
    }

    async fn hear_return(&mut self) -> v1::BudgetReturn {
        self.hear_some("tokens given back", |message| match message {
            ToLeader::BudgetReturn(back) => Some(back),
            _ => None,
        })
        .await
    }

    async fn hear_some<T>(&mut self, what: &str, wanted: impl Fn(ToLeader) -> Option<T>) -> T {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let message = timeout_at(end, self.inbox.recv()).await;
            let message = message.unwrap_or_else(|_| panic!("the leader did not hear {what} in 10 s"));
            if let Some(found) = wanted(message.expect("the spender has ended")) {
                return found;
            }
        }
    }

    fn grant(&mut self, request: &v1::BudgetRequest, tokens: u32) -> u64 {
        let grant = self.next_grant;
        self.next_grant += 1;
        let (bucket, request) = (request.bucket.clone(), request.request);
        let grant = v1::BudgetGrant { bucket, tokens, valid_ms: 5_000, grant, request };
        self.budget.receive(&FromLeader::BudgetGrant(grant));
        self.next_grant - 1
    }

    #[expect(clippy::disallowed_methods, reason = "a test's own task")]
    fn acquire(&self, priority: Priority) -> tokio::task::JoinHandle<Result<Permit, Parked>> {
        let budget = self.budget.clone();
        tokio::spawn(async move { budget.acquire(&key(), priority).await })
    }

    fn tell_share(&self, workers: u32) {
        self.budget.receive(&FromLeader::BudgetShare(v1::BudgetShare { workers }));
    }

    /// How many permits there are in a time when the leader says nothing.
    async fn spend_for(&self, time: Duration) -> u32 {
        let end = Instant::now() + time;
        let mut spent = 0;
        while let Ok(permit) = timeout_at(end, self.budget.acquire(&key(), Priority::Retry)).await {
            assert!(permit.is_ok());
            spent += 1;
        }
        spent
    }
}

fn throttled(wait: Duration) -> Observation {
    Observation { throttled_for: Some(wait), by_gateway: true, ..Observation::default() }
}

#[tokio::test(start_paused = true)]
async fn calls_that_come_together_are_asked_for_together_and_served_by_priority() {
    let mut case = Case::new();
    let resync = case.acquire(Priority::Resync);
    let user = case.acquire(Priority::UserChange);
    let poll = case.acquire(Priority::Poll);
    let request = case.hear_request().await;
    assert_eq!(request.tokens, 3);
    case.grant(&request, 2);
    assert!(user.await.unwrap().is_ok() && poll.await.unwrap().is_ok());
    assert!(!resync.is_finished());
    case.grant(&request, 1);
    assert!(resync.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_busy_bucket_is_asked_for_ahead_of_demand() {
    let mut case = Case::new();
    for _ in 0..20 {
        drop(case.acquire(Priority::Retry));
    }
    let request = case.hear_request().await;
    case.grant(&request, 20);
    let request = case.hear_request().await;
    assert_eq!(request.tokens, 10, "half a second's worth of what was spent in the last");
}

#[tokio::test(start_paused = true)]
async fn what_nobody_wants_goes_back() {
    let mut case = Case::new();
    let permit = case.acquire(Priority::UserChange);
    let request = case.hear_request().await;
    let grant = case.grant(&request, 8);
    assert!(permit.await.unwrap().is_ok());
    let back = case.hear_return().await;
    assert_eq!((back.grant, back.unused), (grant, 7));
}

#[tokio::test(start_paused = true)]
async fn a_permit_given_back_is_not_spent() {
    let mut case = Case::new();
    let permit = case.acquire(Priority::UserChange);
    let request = case.hear_request().await;
    case.grant(&request, 2);
    permit.await.unwrap().unwrap().give_back();
    assert_eq!(case.hear_return().await.unused, 2);
}

#[tokio::test(start_paused = true)]
async fn a_grant_is_settled_when_its_calls_have_their_answers() {
    let mut case = Case::new();
    let permit = case.acquire(Priority::UserChange);
    let request = case.hear_request().await;
    let grant = case.grant(&request, 1);
    let permit = permit.await.unwrap().unwrap();
    sleep(Duration::from_secs(2)).await;
    while let Ok(message) = case.inbox.try_recv() {
        assert!(!matches!(message, ToLeader::BudgetReturn(_)), "the call has no answer yet");
    }
    drop(permit);
    let back = case.hear_return().await;
    assert_eq!((back.grant, back.unused), (grant, 0));
}

#[tokio::test(start_paused = true)]
async fn a_late_grant_is_not_spent() {
    let mut case = Case::new();
    let permit = case.acquire(Priority::UserChange);
    let request = case.hear_request().await;
    sleep(Duration::from_secs(5)).await;
    let grant = case.grant(&request, 1);
    let back = case.hear_return().await;
    assert_eq!((back.grant, back.unused), (grant, 1), "its time counts from the request");
    assert!(!permit.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_429_of_arm_parks_the_bucket_at_once_and_tells_the_leader() {
    let mut case = Case::new();
    let waits = case.acquire(Priority::UserChange);
    case.hear_request().await;
    case.budget.observe(&key(), &throttled(Duration::from_secs(7)));
    let parked = waits.await.unwrap().unwrap_err();
    assert_eq!(parked.until, (Instant::now() + Duration::from_secs(7)).into_std());
    assert!(matches!(case.hear().await, ToLeader::BudgetObservation(seen) if seen.retry_after_ms == Some(7_000)));
    assert!(case.budget.acquire(&key(), Priority::UserChange).await.is_err());
    assert!(
        timeout(Duration::from_secs(1), case.budget.acquire(&key().of_class(Class::Read), Priority::Poll))
            .await
            .is_err()
    );
    sleep(Duration::from_secs(7)).await;
    while case.inbox.try_recv().is_ok() {} // of the time before
    let waits = case.acquire(Priority::UserChange);
    let request = case.hear_request().await;
    case.grant(&request, 1);
    assert!(waits.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_429_of_a_provider_parks_nothing() {
    let case = Case::new();
    case.budget.observe(&key(), &Observation { by_gateway: false, ..throttled(Duration::from_secs(7)) });
    assert!(timeout(Duration::from_secs(1), case.budget.acquire(&key(), Priority::UserChange)).await.is_err(), "waits");
}

#[tokio::test(start_paused = true)]
async fn a_park_of_the_leader_is_obeyed_whether_or_not_the_region_is_known() {
    let case = Case::new();
    let bucket = Some((&key().in_region("westeurope")).into());
    case.budget.receive(&FromLeader::BudgetPark(v1::BudgetPark { bucket, for_ms: 4_000 }));
    let parked = case.budget.acquire(&key(), Priority::UserChange).await.unwrap_err();
    assert_eq!(parked.until, (Instant::now() + Duration::from_secs(4)).into_std());
}

#[tokio::test(start_paused = true)]
async fn without_a_leader_a_worker_lives_on_its_share_and_no_more() {
    let mut case = Case::new();
    case.tell_share(3);
    let spent = case.spend_for(Duration::from_secs(65)).await;
    // A third of 9.9 per second, after five seconds of patience.
    assert!((196..=198).contains(&spent), "{spent}");

    let request = case.hear_request().await;
    case.grant(&request, 0);
    let spent = case.spend_for(Duration::from_secs(4)).await;
    assert_eq!(spent, 0, "the leader has answered: it has nothing now");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_was_never_told_a_share_waits() {
    let case = Case::new();
    assert_eq!(case.spend_for(Duration::from_secs(30)).await, 0);
}

#[tokio::test(start_paused = true)]
async fn the_first_region_takes_tokens_and_waiting_calls_along() {
    let mut case = Case::new();
    let first = case.acquire(Priority::UserChange);
    let request = case.hear_request().await;
    case.grant(&request, 3);
    assert!(first.await.unwrap().is_ok());
    let seen = Observation {
        region: Some("westeurope".to_owned()),
        remaining: vec![(Class::Write, 150)],
        ..Observation::default()
    };
    case.budget.observe(&key(), &seen);
    let permit = case.budget.acquire(&key(), Priority::UserChange).await.unwrap();
    assert_eq!(&*permit.bucket().region, "westeurope");
    let told = case.hear().await;
    assert!(
        matches!(&told, ToLeader::BudgetObservation(seen)
            if seen.remaining == Some(150) && seen.bucket.as_ref().is_some_and(|bucket| bucket.region == "westeurope")),
        "{told:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_leader_hears_from_an_idle_worker() {
    let mut case = Case::new();
    case.tell_share(3);
    for _ in 0..10 {
        let message = timeout(Duration::from_secs(2), case.inbox.recv()).await.expect("silent for two seconds");
        let Some(ToLeader::BudgetRequest(request)) = message else { panic!("{message:?}") };
        assert_eq!((request.bucket, request.workers), (None, 3));
    }
}
