//! The worker's ARM edge against armsim and a real API server: calls, operations, errors, credentials.
#![expect(clippy::unwrap_used, reason = "what fails in a test's helper fails the test")]

#[path = "arm_edge/credentials.rs"]
mod credentials;
#[path = "arm_edge/errors.rs"]
mod errors;
#[path = "arm_edge/operations.rs"]
mod operations;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flotilla_armsim::{
    Armsim, DEMO_CLIENT_ID, DEMO_CLIENT_SECRET, DEMO_SUBSCRIPTION, DEMO_TENANT, FaultAction, FaultMatch, FaultRule,
    Method, Options,
};
use flotilla_worker::arm::client::Options as ClientOptions;
use flotilla_worker::arm::credentials::{Own, Proof, Settings};
use flotilla_worker::arm::identity::Cloud;
use flotilla_worker::arm::operation::{self, Failure, Handle, Outcome, Start, Step};
use flotilla_worker::arm::{Answer, Call, Client, Error, Identity, TimeScale, Verb};
use flotilla_worker::budget::Priority;
use jiff::Timestamp;
use serde_json::{Value, json};

/// So fast that a minute of ARM's is a tenth of a second of ours.
const SCALE: f64 = 600.0;
const GROUPS: &str = "2020-06-01";

/// An armsim with the client and the identity of a worker, without a fleet.
struct FakeAzure {
    sim: Armsim,
    client: Client,
    settings: Settings,
    identity: Arc<Identity>,
}

impl FakeAzure {
    async fn start() -> Self {
        // Types are told apart by how they answer; their bodies are not what is tested here.
        Self::with(SCALE, Options { type_data: None, ..Options::default() }).await
    }

    async fn with(scale: f64, options: Options) -> Self {
        let sim = Armsim::start(Options { time_scale: scale, ..options }).await.unwrap();
        let client = Client::new(&ClientOptions {
            pod: "w-0".to_owned(),
            ca_file: Some(sim.ca_pem_path().to_owned()),
            scale: TimeScale::new(scale).unwrap(),
            timeout: Duration::from_mins(1),
            ..ClientOptions::default()
        })
        .unwrap();
        let settings = settings(&sim, DEMO_CLIENT_SECRET);
        let identity = settings.global(&client).unwrap();
        Self { sim, client, settings, identity }
    }

    async fn send(&self, call: Call<'_>) -> Result<Answer, Error> {
        self.client.send(&self.identity, call).await
    }

    async fn put(&self, id: &str, body: &Value) -> Result<Answer, Error> {
        self.send(Call::put(id, GROUPS, body, Priority::UserChange)).await
    }

    /// Makes a resource group and gives its id.
    async fn group(&self, name: &str) -> String {
        let id = format!("/subscriptions/{DEMO_SUBSCRIPTION}/resourceGroups/{name}");
        let answer = self.put(&id, &json!({"location": "westus2"})).await.unwrap();
        assert_eq!(answer.status, 201);
        id
    }

    /// PUTs or DELETEs, and follows what that starts to its end.
    async fn settle(&self, verb: Verb, id: &str, body: Option<&Value>) -> Result<End, Error> {
        let call = Call { body, ..Call::new(verb, id, GROUPS, Priority::UserChange) };
        let answer = self.send(call).await?;
        Ok(self.follow(verb, id, &answer).await)
    }

    async fn follow(&self, verb: Verb, id: &str, answer: &Answer) -> End {
        match self.begin(verb, id, answer) {
            Outcome::Done => End::Done,
            Outcome::Failed(failure) => End::Failed(failure),
            Outcome::Poll(handle) => self.poll(handle).await,
        }
    }

    fn begin(&self, verb: Verb, id: &str, answer: &Answer) -> Outcome {
        let start = Start { verb, resource_id: id, api_version: GROUPS, generation: 1, body_hash: "00" };
        operation::begin(&start, answer, Timestamp::now(), self.client.scale())
    }

    /// Polls to the end; each poll is made by another worker, which has nothing but what was stored.
    async fn poll(&self, handle: Handle) -> End {
        let mut stored = serde_json::to_string(&handle).unwrap();
        let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
        loop {
            let mut handle: Handle = serde_json::from_str(&stored).unwrap();
            assert!(tokio::time::Instant::now() < deadline, "still waiting for {handle:?}");
            let wait = Duration::try_from(handle.next_poll.duration_since(Timestamp::now())).unwrap_or_default();
            tokio::time::sleep(wait).await;
            let answer = self.send(handle.call()).await;
            match handle.advance(answer.as_ref(), Timestamp::now(), self.client.scale()) {
                Step::Wait { .. } => {}
                Step::Done => return End::Done,
                Step::ReadResource => return End::Read,
                Step::Failed(failure) => return End::Failed(failure),
            }
            stored = serde_json::to_string(&handle).unwrap();
        }
    }

    async fn read(&self, id: &str) -> Result<Value, Error> {
        self.send(Call::get(id, GROUPS, Priority::Resync)).await.map(|answer| answer.body)
    }

    fn fault(&self, matches: FaultMatch, count: u64, action: FaultAction) {
        let rule = FaultRule { name: String::new(), matches, skip: 0, count: Some(count), action };
        self.sim.add_fault(rule).unwrap();
    }

    /// Calls of a method whose path contains a text, tokens left out.
    fn calls(&self, method: Method, part: &str) -> usize {
        let part = part.to_ascii_lowercase();
        let fits = |path: &str| path.to_ascii_lowercase().contains(&part);
        self.sim.calls().iter().filter(|call| call.method == method && fits(&call.path)).count()
    }

    /// Requests to the token endpoint.
    fn token_calls(&self) -> usize {
        self.calls(Method::Post, "/oauth2/v2.0/token")
    }
}

/// How an operation ended.
#[derive(Debug, PartialEq)]
enum End {
    Done,
    Read,
    Failed(Failure),
}

/// armsim as a cloud.
fn cloud(sim: &Armsim) -> Cloud {
    Cloud::new(sim.endpoint(), sim.endpoint(), sim.endpoint()).unwrap()
}

/// The operator's settings for `sim`, with a credential that has this secret.
fn settings(sim: &Armsim, secret: &str) -> Settings {
    let own = Own {
        subscription: DEMO_SUBSCRIPTION.to_owned(),
        tenant: DEMO_TENANT.to_owned(),
        client_id: DEMO_CLIENT_ID.to_owned(),
        proof: Proof::client_secret(secret),
    };
    Settings::new(cloud(sim), Some(own))
}
