//! Long-running operations: what the first answer says of them and what polls show.
//!
//! Kept true here: a poll URL answers 200 (status) or 202 (result) for as long as the operation runs, whatever becomes of
//! it; every URL that was ever announced for an operation stays good, and one with another signature is refused.

use std::sync::Arc;

use serde_json::{Value, json};

use super::ArmId;
use super::answer::{Answer, Call};
use super::clock::{self, SimTime};
use super::error::Refusal;
use super::made_up;
use super::profile::{self, Follow, Urls};

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Work {
    /// Creates a resource.
    Create,
    /// Changes a resource.
    Update,
    /// Deletes a resource, or a group with all that is in it.
    Delete,
}

/// How far an operation is.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase", tag = "status")]
pub enum Progress {
    /// It runs.
    InProgress,
    /// It is done.
    Succeeded,
    /// It is over without success.
    Failed {
        /// ARM's code.
        code: String,
        /// ARM's message.
        message: String,
    },
}

/// An operation.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) id: Arc<str>,
    pub(crate) work: Work,
    pub(crate) target: ArmId,
    pub(crate) arm_type: String,
    /// Which life of the target it belongs to.
    pub(crate) life: u64,
    pub(crate) api_version: String,
    pub(crate) follow: Follow,
    pub(crate) retry_after: Option<u64>,
    pub(crate) started: SimTime,
    /// When it will be done; `None` while it is held.
    pub(crate) due: Option<SimTime>,
    pub(crate) progress: Progress,
    pub(crate) ended: Option<SimTime>,
    /// How it will fail when it is due.
    pub(crate) will_fail: Option<(String, String)>,
    status_path: String,
    result_path: String,
}

/// Which of its two URLs a poll asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Status,
    Result,
}

/// What a new operation is about.
pub(crate) struct Plan<'a> {
    pub(crate) id: Arc<str>,
    pub(crate) work: Work,
    pub(crate) target: &'a ArmId,
    pub(crate) arm_type: &'a str,
    pub(crate) location: &'a str,
    pub(crate) life: u64,
    pub(crate) api_version: &'a str,
    pub(crate) reply: &'a profile::Reply,
    pub(crate) started: SimTime,
    pub(crate) due: Option<SimTime>,
    pub(crate) will_fail: Option<(String, String)>,
}

impl Operation {
    pub(crate) fn begin(plan: Plan<'_>) -> Self {
        let urls = profile::urls(plan.arm_type);
        let path = |template: &str| {
            template
                .replace("{sub}", plan.target.subscription_id().unwrap_or_default())
                .replace("{group}", plan.target.resource_group_name().unwrap_or_default())
                .replace("{location}", plan.location)
                .replace("{ns}", plan.arm_type.split('/').next().unwrap_or_default())
                .replace("{id}", &plan.id)
        };
        Self {
            status_path: path(&urls.status),
            result_path: path(&urls.result),
            id: plan.id,
            work: plan.work,
            target: plan.target.clone(),
            arm_type: plan.arm_type.to_owned(),
            life: plan.life,
            api_version: plan.api_version.to_owned(),
            follow: plan.reply.follow,
            retry_after: plan.reply.retry_after,
            started: plan.started,
            due: plan.due,
            progress: Progress::InProgress,
            ended: None,
            will_fail: plan.will_fail,
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.progress == Progress::InProgress
    }

    /// Adds to the first answer how the operation is followed.
    pub(crate) fn announce(&self, mut answer: Answer, base: &str, now: SimTime) -> Answer {
        if matches!(self.follow, Follow::Async | Follow::AsyncAndLocation) {
            answer = answer.header("Azure-AsyncOperation", self.url(Look::Status, base, now));
        }
        if matches!(self.follow, Follow::Location | Follow::AsyncAndLocation) {
            answer = answer.header("Location", self.url(Look::Result, base, now));
        }
        if let Some(seconds) = self.retry_after {
            answer = answer.header("Retry-After", seconds.to_string());
        }
        answer.operation = Some(Arc::clone(&self.id));
        answer
    }

    /// Its URL, signed at this moment.
    pub(crate) fn url(&self, look: Look, base: &str, now: SimTime) -> String {
        let urls = self.urls();
        let (path, flags) = match look {
            Look::Status => (&self.status_path, &urls.status_flags),
            Look::Result => (&self.result_path, &urls.result_flags),
        };
        let flags = flags.as_ref().map(|flags| format!("&{flags}")).unwrap_or_default();
        let ticks = format!("{}", 639_000_000_000_000_000 + now.as_nanos() / 100);
        let (s, h) = self.signature(&ticks);
        format!("{base}{path}?api-version={}{flags}&t={ticks}&c=c0a51a7e0&s={s}&h={h}", self.api_version)
    }

    /// What a poll shows. `resource` is the body of the target, if it exists.
    pub(crate) fn poll(&self, call: &Call, resource: Option<Arc<Value>>, at: &Moment<'_>) -> Result<Answer, Refusal> {
        let (s, h) = self.signature(call.query("t").unwrap_or_default());
        if call.query("s") != Some(&s) || call.query("h") != Some(&h) {
            return Err(Refusal::gateway(
                400,
                "InvalidOperationSignature",
                "The signature in the operation's URL is not valid.",
            ));
        }
        let mut answer = match self.look(call) {
            Look::Status => self.status(at),
            Look::Result => self.result(resource, at),
        };
        answer.operation = Some(Arc::clone(&self.id));
        Ok(answer)
    }

    fn status(&self, at: &Moment<'_>) -> Answer {
        let mut body = if self.urls().brief {
            json!({})
        } else {
            json!({"id": self.status_path, "name": &*self.id, "startTime": clock::text(at.epoch, self.started)})
        };
        let status = match &self.progress {
            Progress::InProgress => "InProgress",
            Progress::Succeeded => "Succeeded",
            Progress::Failed { code, message } => {
                body["error"] = json!({"code": code, "message": message});
                "Failed"
            }
        };
        body["status"] = status.into();
        if let (Some(ended), false) = (self.ended, self.urls().brief) {
            body["endTime"] = clock::text(at.epoch, ended).into();
        }
        self.say_when(Answer::json(200, body))
    }

    fn result(&self, resource: Option<Arc<Value>>, at: &Moment<'_>) -> Answer {
        match &self.progress {
            Progress::InProgress => {
                let url = self.url(Look::Result, at.base, at.now);
                self.say_when(Answer::empty(202).header("Location", url))
            }
            Progress::Failed { code, message } => Refusal::service(409, code.clone(), message.clone()).into(),
            Progress::Succeeded => match (self.work, resource) {
                (Work::Delete, _) => Answer::empty(self.urls().deleted),
                (_, Some(body)) => Answer::shared(200, body),
                (_, None) => Answer::empty(204),
            },
        }
    }

    fn say_when(&self, answer: Answer) -> Answer {
        match self.retry_after {
            Some(seconds) if self.is_running() && self.urls().polls_say_when => {
                answer.header("Retry-After", seconds.to_string())
            }
            _ => answer,
        }
    }

    fn look(&self, call: &Call) -> Look {
        let path = |other: &str| call.path.eq_ignore_ascii_case(other);
        let says = |flags: &Option<String>| {
            flags
                .as_deref()
                .and_then(|flags| flags.split_once('='))
                .is_some_and(|(name, value)| call.query(name) == Some(value))
        };
        match self.follow {
            Follow::Location => Look::Result,
            Follow::AsyncAndLocation
                if path(&self.result_path) && (!path(&self.status_path) || says(&self.urls().result_flags)) =>
            {
                Look::Result
            }
            _ => Look::Status,
        }
    }

    fn urls(&self) -> &'static Urls {
        profile::urls(&self.arm_type)
    }

    fn signature(&self, ticks: &str) -> (String, String) {
        let digest = made_up::hex(&self.id, ticks, 20);
        (format!("s{}", &digest[..10]), format!("h{}", &digest[10..]))
    }
}

/// When and where a poll is answered.
pub(crate) struct Moment<'a> {
    pub(crate) now: SimTime,
    pub(crate) epoch: jiff::Timestamp,
    pub(crate) base: &'a str,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::answer::{Body, Headers, Method};
    use super::*;

    const BASE: &str = "https://sim";

    fn operation(arm_type: &str, work: Work) -> Operation {
        let target = ArmId::resource_group("s", "g").extension(arm_type, "x");
        let profile = profile::of(arm_type);
        let reply = if work == Work::Delete { &profile.delete } else { &profile.create };
        Operation::begin(Plan {
            id: "op-1".into(),
            work,
            target: &target,
            arm_type,
            location: "westus2",
            life: 1,
            api_version: "2025-01-01",
            reply,
            started: Duration::ZERO,
            due: None,
            will_fail: None,
        })
    }

    fn header(answer: &Answer, name: &str) -> Option<String> {
        answer.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone())
    }

    fn get(url: &str) -> Call {
        let (path, query) = url.strip_prefix(BASE).unwrap().split_once('?').unwrap();
        let query =
            query.split('&').filter_map(|pair| pair.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect();
        Call { method: Method::Get, path: path.into(), query, headers: Headers::default(), body: Vec::new() }
    }

    fn poll(operation: &Operation, url: &str) -> Answer {
        let at = Moment { now: Duration::from_secs(9), epoch: jiff::Timestamp::UNIX_EPOCH, base: BASE };
        operation.poll(&get(url), Some(Arc::new(json!({"name": "x"}))), &at).unwrap()
    }

    fn json_of(answer: &Answer) -> Value {
        match &answer.body {
            Body::Json(body) => (**body).clone(),
            _ => Value::Null,
        }
    }

    #[test]
    fn a_status_url_shows_the_state_and_the_error_with_200() {
        let mut operation = operation("Microsoft.App/managedEnvironments", Work::Create);
        let first = operation.announce(Answer::empty(201), BASE, Duration::ZERO);
        assert_eq!((header(&first, "Location"), header(&first, "Retry-After").as_deref()), (None, Some("15")));
        let url = header(&first, "Azure-AsyncOperation").unwrap();
        let start = "https://sim/subscriptions/s/providers/Microsoft.App/locations/westus2/managedEnvironmentOperationStatuses/op-1?api-version=2025-01-01&azureAsyncOperation=true&t=";
        assert!(url.starts_with(start), "{url}");
        assert_eq!(json_of(&poll(&operation, &url))["status"], "InProgress");
        operation.progress = Progress::Failed { code: "Bad".into(), message: "m".into() };
        let failed = poll(&operation, &url);
        assert_eq!((failed.status, json_of(&failed)["error"].clone()), (200, json!({"code": "Bad", "message": "m"})));
    }

    #[test]
    fn a_result_url_says_202_until_the_result_is_there() {
        let mut operation = operation("Microsoft.Storage/storageAccounts", Work::Create);
        let url = header(&operation.announce(Answer::empty(202), BASE, Duration::ZERO), "Location").unwrap();
        assert!(url.contains("/asyncoperations/op-1?api-version=2025-01-01&monitor=true&"), "{url}");
        let running = poll(&operation, &url);
        assert_eq!((running.status, header(&running, "Retry-After").as_deref()), (202, Some("17")));
        let again = header(&running, "Location").unwrap();
        assert_ne!(again, url, "signed anew");
        operation.progress = Progress::Succeeded;
        for url in [url, again] {
            assert_eq!((poll(&operation, &url).status, json_of(&poll(&operation, &url))), (200, json!({"name": "x"})));
        }
    }

    #[test]
    fn with_both_headers_each_url_has_its_own_form() {
        let mut operation = operation("Microsoft.Network/virtualNetworks", Work::Delete);
        let first = operation.announce(Answer::empty(202), BASE, Duration::ZERO);
        let (status, result) = (header(&first, "Azure-AsyncOperation").unwrap(), header(&first, "Location").unwrap());
        assert_eq!(
            (json_of(&poll(&operation, &status)), poll(&operation, &result).status),
            (json!({"status": "InProgress"}), 202)
        );
        operation.progress = Progress::Succeeded;
        assert_eq!(
            (json_of(&poll(&operation, &status)), poll(&operation, &result).status),
            (json!({"status": "Succeeded"}), 204)
        );
    }

    #[test]
    fn a_url_without_its_signature_is_refused() {
        let operation = operation("Microsoft.App/jobs", Work::Create);
        let url = operation.url(Look::Status, BASE, Duration::ZERO);
        let at = Moment { now: Duration::ZERO, epoch: jiff::Timestamp::UNIX_EPOCH, base: BASE };
        let cut = url.split("&t=").next().unwrap();
        assert_eq!(operation.poll(&get(cut), None, &at).unwrap_err().status, 400);
    }
}
