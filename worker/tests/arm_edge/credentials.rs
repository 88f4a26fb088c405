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
const TRUST: Duration = Duration::from_secs(1);

/// A namespace of a real API server whose Secrets name an application of armsim.
struct Namespace {
    azure: FakeAzure,
    resolver: Resolver,
    secrets: Api<Secret>,
    name: String,
}

impl Namespace {
    async fn start(prefix: &str) -> Self {
        let control_plane = ControlPlane::shared().await;
        let namespace = control_plane.namespace(prefix).await.unwrap();
        let azure = FakeAzure::start().await;
        azure.sim.register_app(App {
            tenant: DEMO_TENANT.to_owned(),
            client_id: TEAM_CLIENT.to_owned(),
            client_secret: "team-secret".to_owned(),
            subscriptions: vec![DEMO_SUBSCRIPTION.to_owned()],
        });
        let settings = azure.settings.clone().trusting_secrets_for(TRUST);
        let resolver = Resolver::new(control_plane.client(), azure.client.clone(), settings);
        let secrets = Api::namespaced(control_plane.client(), &namespace);
        Self { azure, resolver, secrets, name: namespace }
    }

    async fn write(&self, name: &str, client_secret: &str) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {
            "AZURE_SUBSCRIPTION_ID": DEMO_SUBSCRIPTION, "AZURE_TENANT_ID": DEMO_TENANT,
            "AZURE_CLIENT_ID": TEAM_CLIENT, "AZURE_CLIENT_SECRET": client_secret}});
        self.secrets.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(&secret)).await.unwrap();
    }

    async fn find(&self, annotation: Option<&str>) -> Result<Arc<Identity>, NoIdentity> {
        self.resolver.for_object(&self.name, annotation).await
    }

    async fn find_later(&self, annotation: Option<&str>) -> Result<Arc<Identity>, NoIdentity> {
        tokio::time::sleep(TRUST * 2).await;
        self.find(annotation).await
    }

    async fn call(&self, identity: &Arc<Identity>) -> Result<Answer, Error> {
        self.azure.client.send(identity, Call::get("/subscriptions", GROUPS, Priority::UserChange)).await
    }
}

#[tokio::test]
async fn nearest_credential_wins() {
    let namespace = Namespace::start("nearest").await;
    let global = namespace.find(None).await.unwrap();
    assert_eq!((&global.origin, global.client_id.as_str()), (&Origin::Global, DEMO_CLIENT_ID));

    namespace.write("aso-credential", "team-secret").await;
    let of_namespace = namespace.find_later(None).await.unwrap();
    let origin = |name: &str| Origin::Secret { namespace: namespace.name.clone(), name: name.to_owned() };
    assert_eq!((&of_namespace.origin, of_namespace.client_id.as_str()), (&origin("aso-credential"), TEAM_CLIENT));
    namespace.call(&of_namespace).await.unwrap();

    namespace.write("mine", "team-secret").await;
    let own = namespace.find(Some("mine")).await.unwrap();
    assert_eq!(own.origin, origin("mine"));
    let asked = namespace.azure.token_calls();
    namespace.call(&own).await.unwrap();
    assert_eq!(namespace.azure.token_calls(), asked, "the same credential in two secrets has one set of tokens");
}

#[tokio::test]
async fn secret_is_read_seldom_and_its_change_seen() {
    let namespace = Namespace::start("change").await;
    namespace.write("aso-credential", "wrong").await;
    let wrong = namespace.find(None).await.unwrap();
    let error = namespace.call(&wrong).await.unwrap_err();
    assert_eq!(error.reason(), "AuthenticationFailed");
    let said = format!("(from Secret {}/aso-credential)", namespace.name);
    assert!(error.message().contains(&said), "{}", error.message());

    let all = futures::future::join_all((0..50).map(|_| namespace.find(None))).await;
    assert!(all.into_iter().all(|found| Arc::ptr_eq(&found.unwrap(), &wrong)));
    let again = namespace.find_later(None).await.unwrap();
    assert!(Arc::ptr_eq(&again, &wrong), "unchanged data keep their identity and its tokens");

    namespace.write("aso-credential", "team-secret").await;
    namespace.resolver.forget(&namespace.name, "aso-credential");
    let right = namespace.find(None).await.unwrap();
    namespace.call(&right).await.unwrap();

    namespace.secrets.delete("aso-credential", &DeleteParams::default()).await.unwrap();
    assert_eq!(namespace.find_later(None).await.unwrap().origin, Origin::Global);
    let events = ControlPlane::shared().await.audit_events().unwrap();
    let reads = events.iter().filter(|event| {
        let of_ours = |object: &Object| object.namespace == namespace.name && object.resource == "secrets";
        event.verb == "get" && event.object.as_ref().is_some_and(of_ours)
    });
    let reads = reads.count();
    assert!((1..=10).contains(&reads), "{reads} reads for 55 questions");
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let namespace = Namespace::start("missing").await;
    let error = namespace.find(Some("absent")).await.unwrap_err();
    assert_eq!((error.reason(), error.severity(), error.retry()), ("SecretNotFound", Severity::Warning, Retry::Fast));
    assert!(
        error.message().contains(&format!("secret {}/absent does not exist", namespace.name)),
        "{}",
        error.message()
    );

    let error = namespace.find(Some("other-namespace/secret")).await.unwrap_err();
    assert_eq!(error.reason(), "SecretNotFound");

    let half = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "half"},
        "stringData": {"AZURE_SUBSCRIPTION_ID": "s", "AZURE_TENANT_ID": "t"}});
    namespace.secrets.patch("half", &PatchParams::apply("test"), &Patch::Apply(&half)).await.unwrap();
    let error = namespace.find(Some("half")).await.unwrap_err();
    assert!(error.to_string().ends_with("has no key AZURE_CLIENT_ID"), "{error}");
    namespace.write("half", "team-secret").await;
    namespace.find_later(Some("half")).await.unwrap();

    let none = Settings::new(cloud(&namespace.azure.sim), None);
    let resolver = Resolver::new(ControlPlane::shared().await.client(), namespace.azure.client.clone(), none);
    let error = resolver.for_object(&namespace.name, None).await.unwrap_err();
    assert!(error.message().contains("create Secret") && error.reason() == "SecretNotFound", "{}", error.message());
}
