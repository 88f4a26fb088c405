//! A plain client of armsim, as far from the operator's own as possible.

use std::time::{Duration, Instant};

use flotilla_armsim::{Armsim, DEMO_CLIENT_ID, DEMO_CLIENT_SECRET, DEMO_SUBSCRIPTION, DEMO_TENANT};
use reqwest::Method;
use serde_json::Value;

pub(crate) struct Client {
    pub(crate) http: reqwest::Client,
    base: String,
    token: String,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn code(&self) -> &str {
        self.body["error"]["code"].as_str().unwrap_or_default()
    }

    /// Fails the test unless it is a success.
    pub(crate) fn ok(self) -> Self {
        assert!((200..300).contains(&self.status), "{self:?}");
        self
    }

    /// Fails the test unless it is this refusal.
    pub(crate) fn refused(&self, status: u16, code: &str) {
        assert_eq!((self.status, self.code()), (status, code), "{:?}", self.body);
    }
}

/// The id of a group in the demo's subscription.
pub(crate) fn group(name: &str) -> String {
    format!("/subscriptions/{DEMO_SUBSCRIPTION}/resourceGroups/{name}")
}

pub(crate) fn http(armsim: &Armsim, agent: &str) -> reqwest::Client {
    let ca = reqwest::Certificate::from_pem(&std::fs::read(armsim.ca_pem_path()).unwrap()).unwrap();
    let builder = reqwest::Client::builder().tls_certs_only([ca]).no_proxy().user_agent(agent);
    builder.timeout(Duration::from_mins(1)).build().unwrap()
}

impl Client {
    pub(crate) async fn new(armsim: &Armsim) -> Self {
        Self::of_app(armsim, DEMO_TENANT, DEMO_CLIENT_ID, DEMO_CLIENT_SECRET).await
    }

    pub(crate) async fn of_app(armsim: &Armsim, tenant: &str, client_id: &str, secret: &str) -> Self {
        let mut client =
            Self { http: http(armsim, "test/1 (w-1)"), base: armsim.endpoint().to_owned(), token: String::new() };
        let form = format!(
            "grant_type=client_credentials&client_id={client_id}&client_secret={secret}&scope=https://management.azure.com/.default"
        );
        let answer = client.token(tenant, &form).await.ok();
        answer.body["access_token"].as_str().unwrap().clone_into(&mut client.token);
        client
    }

    pub(crate) async fn token(&self, tenant: &str, form: &str) -> Reply {
        let request = self.http.post(format!("{}/{tenant}/oauth2/v2.0/token", self.base)).body(form.to_owned());
        reply(request.header("content-type", "application/x-www-form-urlencoded").send().await.unwrap()).await
    }

    pub(crate) fn request(&self, method: Method, url: &str) -> reqwest::RequestBuilder {
        let url = if url.starts_with('/') { format!("{}{url}", self.base) } else { url.to_owned() };
        self.http.request(method, url).bearer_auth(&self.token)
    }

    pub(crate) async fn send(&self, method: Method, url: &str) -> Reply {
        reply(self.request(method, url).send().await.unwrap()).await
    }

    pub(crate) async fn get(&self, id: &str, version: &str) -> Reply {
        self.send(Method::GET, &format!("{id}?api-version={version}")).await
    }

    pub(crate) async fn delete(&self, id: &str, version: &str) -> Reply {
        self.send(Method::DELETE, &format!("{id}?api-version={version}")).await
    }

    pub(crate) async fn put(&self, id: &str, version: &str, body: Value) -> Reply {
        self.with_body(Method::PUT, id, version, body).await
    }

    pub(crate) async fn with_body(&self, method: Method, id: &str, version: &str, body: Value) -> Reply {
        let request = self.request(method, &format!("{id}?api-version={version}"));
        reply(request.header("content-type", "application/json").body(body.to_string()).send().await.unwrap()).await
    }

    pub(crate) async fn put_group(&self, name: &str) {
        self.put(&group(name), "2020-06-01", serde_json::json!({"location": "westus2"})).await.ok();
    }
}

pub(crate) async fn reply(response: reqwest::Response) -> Reply {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let bytes = response.bytes().await.unwrap();
    let body =
        serde_json::from_slice(&bytes).unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&bytes).into_owned()));
    Reply { status, headers, body }
}

/// Asks until the answer fits; fails the test with the last answer after a minute.
pub(crate) async fn until<F: Future<Output = Reply>>(
    what: &str,
    mut ask: impl FnMut() -> F,
    fits: impl Fn(&Reply) -> bool,
) -> Reply {
    let start = Instant::now();
    loop {
        let reply = ask().await;
        if fits(&reply) {
            return reply;
        }
        assert!(start.elapsed() < Duration::from_mins(1), "still not {what}: {reply:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
