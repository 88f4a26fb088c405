//! The API server's wire, as plainly as kubectl uses it: method, path, content type, field manager, strict decoding.

use std::fmt;

use flotilla_crds::Kind;
use flotilla_testbed::control_plane::ControlPlane;
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

/// A refusal, as the server words it.
#[derive(Debug)]
pub(crate) struct Refused {
    /// The HTTP status.
    pub(crate) code: u16,
    /// What the user reads.
    pub(crate) message: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code, self.message)
    }
}

/// What a request made.
pub(crate) type Answer = Result<Value, Refused>;

/// How a write reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH with a merge patch.
    Merge,
    /// PATCH as server-side apply, conflicts forced.
    Apply,
}

/// Who writes what, and where to.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    /// The kind.
    pub(crate) kind: &'a Kind,
    /// The version of the request.
    pub(crate) version: &'a str,
    /// The object.
    pub(crate) name: &'a str,
}

/// The manifest of an object.
pub(crate) fn object(at: Target<'_>, mut metadata: Value, spec: &Value) -> Value {
    metadata["name"] = json!(at.name);
    json!({
        "apiVersion": format!("{}/{}", at.kind.group(), at.version),
        "kind": at.kind.name(),
        "metadata": metadata,
        "spec": spec,
    })
}

/// A client for one namespace.
pub(crate) struct Api {
    client: Client,
    /// The namespace.
    pub(crate) namespace: String,
}

impl Api {
    /// A client for a namespace; it belongs to the current runtime.
    pub(crate) fn new(control_plane: &ControlPlane, namespace: String) -> Self {
        Self { client: control_plane.client(), namespace }
    }

    /// Applies a cluster-scoped object of a built-in kind.
    pub(crate) async fn install(&self, object: &Value) -> Answer {
        let plural = match object["kind"].as_str().unwrap() {
            "ValidatingAdmissionPolicy" => "validatingadmissionpolicies".to_owned(),
            kind => format!("{}s", kind.to_lowercase()),
        };
        let (version, name) = (object["apiVersion"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
        let path = format!("/apis/{version}/{plural}/{name}?fieldManager=flotilla&force=true&fieldValidation=Strict");
        self.call(Method::PATCH, &path, Some("application/apply-patch+yaml"), Some(object)).await
    }

    /// Every CRD's metadata and status; the specs have tens of megabytes.
    pub(crate) async fn crds(&self) -> Vec<Value> {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?limit=40";
        let (mut crds, mut next) = (Vec::new(), String::new());
        loop {
            let mut page = self.call(Method::GET, &format!("{path}&continue={next}"), None, None).await.unwrap();
            let items = page["items"].as_array_mut().unwrap().drain(..);
            crds.extend(items.map(|crd| json!({ "metadata": crd["metadata"], "status": crd["status"] })));
            page["metadata"]["continue"].as_str().unwrap_or_default().clone_into(&mut next);
            if next.is_empty() {
                return crds;
            }
        }
    }

    /// Reads an object.
    pub(crate) async fn get(&self, at: Target<'_>) -> Value {
        self.call(Method::GET, &self.path(at, true), None, None).await.unwrap_or_else(|e| panic!("{}: {e}", at.name))
    }

    /// Creates an object with this spec.
    pub(crate) async fn create(&self, at: Target<'_>, spec: &Value) -> Answer {
        self.write(at, Write::Create, "kubectl-create", &object(at, json!({}), spec)).await
    }

    /// Merges a patch into an object.
    pub(crate) async fn merge(&self, at: Target<'_>, patch: &Value) -> Answer {
        self.write(at, Write::Merge, "kubectl-patch", patch).await
    }

    /// Asks the server whether it would create an object with this spec.
    pub(crate) async fn would_create(&self, at: Target<'_>, spec: &Value) -> Answer {
        self.write_with(at, Write::Create, "kubectl-create", &object(at, json!({}), spec), "&dryRun=All").await
    }

    /// Asks for an object's deletion.
    pub(crate) async fn delete(&self, at: Target<'_>) -> Answer {
        self.call(Method::DELETE, &self.path(at, true), None, None).await
    }

    /// Writes an object, with strict decoding.
    pub(crate) async fn write(&self, at: Target<'_>, write: Write, manager: &str, body: &Value) -> Answer {
        self.write_with(at, write, manager, body, "").await
    }

    /// Writes an object's status.
    pub(crate) async fn write_status(&self, at: Target<'_>, write: Write, manager: &str, body: &Value) -> Answer {
        let path = format!("{}/status", self.path(at, true));
        self.write_at(&path, write, manager, body, "").await
    }

    /// Writes an object with further query parameters.
    pub(crate) async fn write_with(
        &self,
        at: Target<'_>,
        write: Write,
        manager: &str,
        body: &Value,
        query: &str,
    ) -> Answer {
        self.write_at(&self.path(at, write != Write::Create), write, manager, body, query).await
    }

    async fn write_at(&self, path: &str, write: Write, manager: &str, body: &Value, query: &str) -> Answer {
        let (method, content_type, force) = match write {
            Write::Create => (Method::POST, "application/json", ""),
            Write::Update => (Method::PUT, "application/json", ""),
            Write::Merge => (Method::PATCH, "application/merge-patch+json", ""),
            Write::Apply => (Method::PATCH, "application/apply-patch+yaml", "&force=true"),
        };
        let path = format!("{path}?fieldManager={manager}&fieldValidation=Strict{force}{query}");
        self.call(method, &path, Some(content_type), Some(body)).await
    }

    fn path(&self, at: Target<'_>, named: bool) -> String {
        let (group, plural) = (at.kind.group(), &at.kind.entry().plural);
        let name = if named { format!("/{}", at.name) } else { String::new() };
        format!("/apis/{group}/{}/namespaces/{}/{plural}{name}", at.version, self.namespace)
    }

    /// Asks again if the server had too much to do to decide; it has done nothing then.
    async fn call(&self, method: Method, path: &str, content_type: Option<&str>, body: Option<&Value>) -> Answer {
        let busy = |answer: &Answer| {
            answer
                .as_ref()
                .is_err_and(|refused| refused.code == 500 && refused.message.contains("evaluation timed out"))
        };
        let mut answer = self.send(method.clone(), path, content_type, body).await;
        for _ in 0..3 {
            if !busy(&answer) {
                break;
            }
            answer = self.send(method.clone(), path, content_type, body).await;
        }
        answer
    }

    async fn send(&self, method: Method, path: &str, content_type: Option<&str>, body: Option<&Value>) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        let body = body.map(|body| serde_json::to_vec(body).unwrap()).unwrap_or_default();
        match self.client.request(request.body(body).unwrap()).await {
            Ok(answer) => Ok(answer),
            Err(kube::Error::Api(status)) => Err(Refused { code: status.code, message: status.message }),
            Err(error) => panic!("{path}: {error:?}"),
        }
    }
}
