//! What one test works in: a namespace, and a resource group of the same name in Azure.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use flotilla_armsim::{
    App, DEMO_SUBSCRIPTION, DEMO_TENANT, Entry, FaultAction, FaultMatch, FaultRule, JournalFilter, Method,
    ResourceFilter,
};
use flotilla_testbed::cluster::{Cluster, Ready, parse};
use futures::future::try_join_all;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::audit;
use crate::journal::{Write, double_writes};
use crate::testbed::Testbed;

/// Everything takes seconds here; only a test that fails waits longer, however busy the machine is.
pub(crate) const WITHIN: Duration = Duration::from_mins(3);
const POLL: Duration = Duration::from_millis(50);

/// The sandbox's resource group.
pub(crate) const GROUP: &str = "
apiVersion: resources.azure.com/v1api20200601
kind: ResourceGroup
metadata: {name: $NS}
spec: {location: westus2}
";

/// The manifests of the sandbox's resource group and of what is in it.
pub(crate) fn in_group(yaml: &str) -> String {
    format!("{GROUP}---{yaml}")
}

/// One test's part of the testbed: a namespace, and a resource group of the same name. `$NS` in manifests stands for that name.
pub(crate) struct Sandbox {
    pub(crate) testbed: &'static Testbed,
    pub(crate) namespace: String,
    pub(crate) subscription: String,
    pub(crate) tenant: String,
}

impl Sandbox {
    /// A sandbox in the subscription of the operator's own credential.
    pub(crate) async fn create(testbed: &'static Testbed, prefix: &str) -> Result<Self> {
        let namespace = testbed.control_plane.namespace(prefix).await?;
        Ok(Self { testbed, namespace, subscription: DEMO_SUBSCRIPTION.to_owned(), tenant: DEMO_TENANT.to_owned() })
    }

    /// A sandbox with a subscription, and so with buckets at ARM, of its own, and with an application that may use it. The
    /// namespace does not know the credential yet.
    pub(crate) async fn with_app(testbed: &'static Testbed, prefix: &str) -> Result<(Self, App)> {
        let id = || Uuid::new_v4().to_string();
        let app = App {
            tenant: id(),
            client_id: id(),
            client_secret: format!("secret-{}", Uuid::new_v4().simple()),
            subscriptions: vec![id()],
        };
        testbed.azure.register_app(app.clone());
        let sandbox = Self::create(testbed, prefix).await?;
        let sandbox = Self { subscription: app.subscriptions[0].clone(), tenant: app.tenant.clone(), ..sandbox };
        Ok((sandbox, app))
    }

    /// Writes a Secret with this application's credential.
    pub(crate) async fn write_credential(&self, name: &str, app: &App) -> Result<()> {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": self.namespace},
            "stringData": {
                "AZURE_SUBSCRIPTION_ID": app.subscriptions[0], "AZURE_TENANT_ID": app.tenant,
                "AZURE_CLIENT_ID": app.client_id, "AZURE_CLIENT_SECRET": app.client_secret,
            },
        });
        self.cluster().apply(&serde_json::from_value(secret)?).await?;
        Ok(())
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.testbed.cluster
    }

    /// Reads manifests into this namespace.
    pub(crate) fn read(&self, yaml: &str) -> Result<Vec<DynamicObject>> {
        let mut objects = parse(&yaml.replace("$NS", &self.namespace))?;
        for object in &mut objects {
            object.metadata.namespace = Some(self.namespace.clone());
        }
        Ok(objects)
    }

    /// Applies all objects at once.
    pub(crate) async fn apply(&self, objects: &[DynamicObject]) -> Result<()> {
        try_join_all(objects.iter().map(|object| self.cluster().apply(object))).await?;
        Ok(())
    }

    /// Reads, applies, and waits until all are Ready.
    pub(crate) async fn create_ready(&self, yaml: &str) -> Result<Vec<DynamicObject>> {
        let objects = self.read(yaml)?;
        self.apply(&objects).await?;
        self.wait_ready(&objects).await?;
        Ok(objects)
    }

    pub(crate) async fn wait_ready(&self, objects: &[DynamicObject]) -> Result<()> {
        self.cluster().wait_ready(objects, WITHIN).await
    }

    /// Waits for a Ready condition with this reason.
    pub(crate) async fn wait_reason(&self, object: &DynamicObject, reason: &str) -> Result<Ready> {
        self.cluster().wait_condition(object, WITHIN, |ready| ready.reason == reason).await
    }

    /// Deletes all objects at once, as somebody does who deletes the folder of their manifests, and proves that Azure has
    /// nothing left of them.
    pub(crate) async fn clear(&self, objects: &[DynamicObject]) -> Result<()> {
        try_join_all(objects.iter().map(|object| self.cluster().delete(object))).await?;
        self.cluster().wait_gone(objects, WITHIN).await?;
        self.check_azure_has_nothing(&self.group())
    }

    /// The ARM id of the sandbox's resource group.
    pub(crate) fn group(&self) -> String {
        format!("/subscriptions/{}/resourceGroups/{}", self.subscription, self.namespace)
    }

    pub(crate) fn check_azure_has_nothing(&self, within: &str) -> Result<()> {
        let filter = ResourceFilter { within: Some(within.to_owned()), ..ResourceFilter::default() };
        let left: Vec<_> = self.testbed.azure.resources(&filter)?.into_iter().map(|resource| resource.id).collect();
        ensure!(left.is_empty(), "left in Azure: {left:?}");
        Ok(())
    }

    /// The calls so far about the sandbox's resource group and what is in it.
    pub(crate) fn calls(&self) -> Result<Vec<Entry>> {
        self.calls_below(&self.group())
    }

    /// The calls so far about a resource and what is in it.
    pub(crate) fn calls_below(&self, id: &str) -> Result<Vec<Entry>> {
        let id = id.to_lowercase();
        let inside = |call: &Entry| {
            let path = call.path.to_lowercase();
            path.strip_prefix(&id).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let page = self.testbed.azure.journal(&JournalFilter::default())?;
        Ok(page.entries.into_iter().filter(inside).collect())
    }

    /// Makes calls on the sandbox's resource group and what is in it go wrong until the number it returns is removed.
    pub(crate) fn fault(&self, method: Option<Method>, action: FaultAction) -> Result<u64> {
        let matches = FaultMatch { method, path: Some(format!("{}*", self.group())), ..FaultMatch::default() };
        let rule = FaultRule { name: self.namespace.clone(), matches, skip: 0, count: None, action };
        Ok(self.testbed.azure.add_fault(rule)?)
    }

    /// Waits until `find` finds something; on timeout says what was missing.
    pub(crate) async fn until<T>(
        &self,
        what: &str,
        within: Duration,
        mut find: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let deadline = Instant::now() + within;
        loop {
            if let Some(found) = find()? {
                return Ok(found);
            }
            if Instant::now() > deadline {
                bail!("{what}: not seen within {within:?}");
            }
            sleep(POLL).await;
        }
    }

    /// The law of one writer over everything that happened so far, in all sandboxes.
    pub(crate) fn check_one_writer(&self) -> Result<()> {
        let to_azure: Vec<Write> = self.testbed.azure.calls().iter().filter_map(Write::of).collect();
        let to_objects: Vec<Write> = audit::of_the_fleet(self.testbed)?.iter().filter_map(Write::of_object).collect();
        ensure!(!to_azure.is_empty() && !to_objects.is_empty(), "no worker ever wrote, so nothing was checked");
        let hand_offs = audit::hand_offs(self.testbed)?;
        let found = double_writes(to_azure.into_iter().chain(to_objects), &hand_offs);
        ensure!(found.is_empty(), "two writers at once:\n  {}", found.join("\n  "));
        Ok(())
    }

    /// The object as it is now.
    pub(crate) async fn get(&self, object: &DynamicObject) -> Result<DynamicObject> {
        self.cluster().get(object).await?.context("the object is gone")
    }
}

/// A merge patch of a resource group's tags.
pub(crate) fn tag(name: &str, value: &str) -> Value {
    json!({"spec": {"tags": {name: value}}})
}
