//! Identities from Secrets of a real API server.

use flotilla_armsim::App;
use flotilla_testbed::control_plane::ControlPlane;
use flotilla_testbed::control_plane::audit::Object;
use flotilla_worker::arm::credentials::{Error as NoIdentity, Resolver};
use flotilla_worker::arm::identity::Origin;
use flotilla_worker::arm::{Retry, Severity};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};

use super::*;

const TEAM_CLIENT: &str = "44444444-4444-4444-8444-444444444444";
const TRUST: Duration = Duration::from_millis(200);

struct Cluster {
    world: World,
    resolver: Resolver,
    secrets: Api<Secret>,
    namespace: String,
}

impl Cluster {
    async fn start(prefix: &str) -> Self {
        let control_plane = ControlPlane::shared().await;
        let namespace = control_plane.namespace(prefix).await.unwrap();
        let world = World::start().await;
        world.sim.register_app(App {
            tenant: DEMO_TENANT.to_owned(),
            client_id: TEAM_CLIENT.to_owned(),
            client_secret: "team-secret".to_owned(),
            subscriptions: vec![DEMO_SUBSCRIPTION.to_owned()],
        });
        let settings = world.settings.clone().trusting_secrets_for(TRUST);
        let resolver = Resolver::new(control_plane.client(), world.client.clone(), settings);
        let secrets = Api::namespaced(control_plane.client(), &namespace);
        Self { world, resolver, secrets, namespace }
    }

    async fn write(&self, name: &str, client_secret: &str) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {
            "AZURE_SUBSCRIPTION_ID": DEMO_SUBSCRIPTION, "AZURE_TENANT_ID": DEMO_TENANT,
            "AZURE_CLIENT_ID": TEAM_CLIENT, "AZURE_CLIENT_SECRET": client_secret}});
        self.secrets.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(&secret)).await.unwrap();
    }

    async fn find(&self, annotation: Option<&str>) -> Result<Arc<Identity>, NoIdentity> {
        self.resolver.for_object(&self.namespace, annotation).await
    }

    async fn find_later(&self, annotation: Option<&str>) -> Result<Arc<Identity>, NoIdentity> {
        tokio::time::sleep(TRUST * 2).await;
        self.find(annotation).await
    }

    async fn call(&self, identity: &Arc<Identity>) -> Result<Answer, Error> {
        self.world.client.send(identity, Call::get("/subscriptions", GROUPS, Priority::UserChange)).await
    }
}

#[tokio::test]
async fn nearest_credential_wins() {
    let cluster = Cluster::start("nearest").await;
    let global = cluster.find(None).await.unwrap();
    assert_eq!((&global.origin, global.client_id.as_str()), (&Origin::Global, DEMO_CLIENT_ID));

    cluster.write("aso-credential", "team-secret").await;
    let of_namespace = cluster.find_later(None).await.unwrap();
    let origin = |name: &str| Origin::Secret { namespace: cluster.namespace.clone(), name: name.to_owned() };
    assert_eq!((&of_namespace.origin, of_namespace.client_id.as_str()), (&origin("aso-credential"), TEAM_CLIENT));
    cluster.call(&of_namespace).await.unwrap();

    cluster.write("mine", "team-secret").await;
    let own = cluster.find(Some("mine")).await.unwrap();
    assert_eq!(own.origin, origin("mine"));
    let asked = cluster.world.token_calls();
    cluster.call(&own).await.unwrap();
    assert_eq!(cluster.world.token_calls(), asked, "the same credential in two secrets has one set of tokens");
}

#[tokio::test]
async fn secret_is_read_seldom_and_its_change_seen() {
    let cluster = Cluster::start("change").await;
    cluster.write("aso-credential", "wrong").await;
    let wrong = cluster.find(None).await.unwrap();
    let error = cluster.call(&wrong).await.unwrap_err();
    assert_eq!(error.reason(), "AuthenticationFailed");
    let said = format!("(from Secret {}/aso-credential)", cluster.namespace);
    assert!(error.message().contains(&said), "{}", error.message());

    let all = futures::future::join_all((0..50).map(|_| cluster.find(None))).await;
    assert!(all.into_iter().all(|found| Arc::ptr_eq(&found.unwrap(), &wrong)));
    let again = cluster.find_later(None).await.unwrap();
    assert!(Arc::ptr_eq(&again, &wrong), "unchanged data keep their identity and its tokens");

    cluster.write("aso-credential", "team-secret").await;
    cluster.resolver.forget(&cluster.namespace, "aso-credential");
    let right = cluster.find(None).await.unwrap();
    cluster.call(&right).await.unwrap();

    cluster.secrets.delete("aso-credential", &DeleteParams::default()).await.unwrap();
    assert_eq!(cluster.find_later(None).await.unwrap().origin, Origin::Global);
    let events = ControlPlane::shared().await.audit_events().unwrap();
    let reads = events.iter().filter(|event| {
        let of_ours = |object: &Object| object.namespace == cluster.namespace && object.resource == "secrets";
        event.verb == "get" && event.object.as_ref().is_some_and(of_ours)
    });
    let reads = reads.count();
    assert!((1..=10).contains(&reads), "{reads} reads for 55 questions");
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let cluster = Cluster::start("missing").await;
    let error = cluster.find(Some("absent")).await.unwrap_err();
    assert_eq!((error.reason(), error.severity(), error.retry()), ("SecretNotFound", Severity::Warning, Retry::Fast));
    assert!(
        error.message().contains(&format!("secret {}/absent does not exist", cluster.namespace)),
        "{}",
        error.message()
    );

    let error = cluster.find(Some("other-namespace/secret")).await.unwrap_err();
    assert_eq!(error.reason(), "SecretNotFound");

    let half = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "half"},
        "stringData": {"AZURE_SUBSCRIPTION_ID": "s", "AZURE_TENANT_ID": "t"}});
    cluster.secrets.patch("half", &PatchParams::apply("test"), &Patch::Apply(&half)).await.unwrap();
    let error = cluster.find(Some("half")).await.unwrap_err();
    assert!(error.to_string().ends_with("has no key AZURE_CLIENT_ID"), "{error}");
    cluster.write("half", "team-secret").await;
    cluster.find_later(Some("half")).await.unwrap();

    let none = settings(&cluster.world.sim, &[("AZURE_SUBSCRIPTION_ID", "")]);
    let resolver = Resolver::new(ControlPlane::shared().await.client(), cluster.world.client.clone(), none);
    let error = resolver.for_object(&cluster.namespace, None).await.unwrap_err();
    assert!(error.message().contains("create Secret") && error.reason() == "SecretNotFound", "{}", error.message());
}
