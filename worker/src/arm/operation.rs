//! Long-running operations: how an accepted PUT, PATCH, POST or DELETE is followed to its end.
//!
//! Pure: [`begin`] reads the answer to the request, [`Handle::advance`] the answer to a poll, and both say what comes next.
//! The caller makes the calls and keeps the handle where another worker finds it.
//!
//! # Guarantees
//! - A poll that fails never ends an operation. Only Azure's word does: a terminal state, or the state of the resource
//!   itself once the operation's record cannot be read any more.
//! - A state that is not one of Azure's terminal words means that the operation runs. Only where such a word does not look
//!   like work and stays for a minute, the resource is asked, and taken as it is.
//! - The handle goes on from any worker: it holds no time but wall-clock time, and nothing that lives in one process.
//!
//! # Caveats
//! A handle holds the operation's URL, whose query signs it: `Debug` and the log leave it out, the store must have it.

mod handle;
mod resume;
mod state;

use std::time::Duration;

use azure_core::http::Url;
use jiff::Timestamp;

pub use handle::{Form, Handle};
pub use resume::resume;
use state::{Progress, looks_like_work, operation_state, resource_state};

use super::call::{Answer, Verb};
use super::error::{Error, Fault};
use super::scale::TimeScale;

/// The request that may have started an operation.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// Method.
    pub verb: Verb,
    /// Path of the resource.
    pub resource_id: &'a str,
    /// Version of the resource type's API.
    pub api_version: &'a str,
    /// Generation of the object that the request was made for.
    pub generation: i64,
    /// Hash of the body that was sent; empty where there was none.
    pub body_hash: &'a str,
}

/// What an answer to PUT, PATCH, POST or DELETE means.
#[expect(clippy::large_enum_variant, reason = "one per write, moved once")]
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It is done; the answer's body is the result.
    Done,
    /// It goes on; store the handle, then poll.
    Poll(Handle),
    /// It is done, and failed.
    Failed(Failure),
}

/// What the answer to a poll means.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// It goes on; poll again at that time.
    Wait {
        /// Time of the next poll.
        until: Timestamp,
    },
    /// It is done, and the answer to this poll is all there is to read: the resource itself (where that was polled), the
    /// result of a POST, or nothing after a DELETE.
    Done,
    /// It is done; the resource has to be read for its state.
    ReadResource,
    /// It is done, and failed. A new PUT or DELETE starts a new operation.
    Failed(Failure),
}

/// How an operation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The operation's own code; `Failed` or `Canceled` where it has none.
    pub code: String,
    /// The operation's own text.
    pub message: String,
}

/// How long after acceptance a 404 may mean that the record of the operation, or the resource, has not spread yet; and how
/// long a strange state has to stay before it is taken for the last one.
const GRACE: Duration = Duration::from_mins(1);
/// Answers in a row without a state, after which the resource is asked instead.
const BLIND_LIMIT: u32 = 10;

/// Reads the answer to the request that `start` describes.
pub fn begin(start: &Start<'_>, answer: &Answer, now: Timestamp, scale: TimeScale) -> Outcome {
    let location = answer.location.as_deref().and_then(absolute);
    let accepted = answer.status == 202;
    let poll = |form: Form| {
        let result = if start.verb == Verb::Post { location.clone() } else { None };
        let mut handle = Handle::new(start, form, result, now);
        handle.wait(answer, now, scale);
        Outcome::Poll(handle)
    };
    if matches!(start.verb, Verb::Get | Verb::Head) || answer.status == 204 {
        return Outcome::Done;
    }
    if let Some(url) = &answer.async_operation {
        // Even where the body's state is terminal already: the operation may go on behind it.
        return poll(Form::Status(url.clone()));
    }
    match (start.verb, &location) {
        // Some types answer with the resource's own address: that is not an operation.
        (_, Some(url)) if same_path(url, start.resource_id) && start.verb != Verb::Post => poll(Form::Resource),
        (Verb::Delete | Verb::Post, Some(url)) if accepted => poll(Form::Location(url.clone())),
        (Verb::Put | Verb::Patch, Some(url)) => poll(Form::Location(url.clone())),
        (Verb::Delete | Verb::Put | Verb::Patch, None) if accepted => poll(Form::Resource),
        (Verb::Post, _) => Outcome::Done,
        _ => match resource_state(&answer.body) {
            (Progress::Running, _) => poll(Form::Resource),
            (Progress::Failed, word) => Outcome::Failed(Failure::read(&answer.body, &word)),
            _ => Outcome::Done,
        },
    }
}

impl Handle {
    /// Reads the answer to a poll, and notes it.
    pub fn advance(&mut self, polled: Result<&Answer, &Error>, now: Timestamp, scale: TimeScale) -> Step {
        match polled {
            Ok(answer) => {
                let step = self.answered(answer, now, scale);
                self.failures = 0;
                step
            }
            Err(error) => self.failed(error, now, scale),
        }
    }

    fn answered(&mut self, answer: &Answer, now: Timestamp, scale: TimeScale) -> Step {
        let (progress, word) = match &self.form {
            Form::Status(_) => operation_state(answer.status, &answer.body),
            Form::Location(_) if answer.status == 202 => (Progress::Running, String::new()),
            Form::Location(_) | Form::Resource => resource_state(&answer.body),
        };
        if !word.is_empty() && word != self.last_state {
            self.last_state.clone_from(&word);
            self.state_since = now;
        }
        let stuck = progress == Progress::Running && self.is_stuck(now, scale);
        match (progress, &self.form, self.verb) {
            (Progress::Failed, ..) if self.verb != Verb::Delete || self.form != Form::Resource => {
                Step::Failed(Failure::read(&answer.body, &word))
            }
            (Progress::Running, Form::Status(_), _) if stuck => self.ask_the_resource(now),
            (Progress::Running, Form::Status(_) | Form::Location(_), _) => self.go_on(answer, now, scale),
            (Progress::Unsaid, Form::Status(_), _) if self.blind < BLIND_LIMIT => {
                self.blind += 1;
                self.go_on(answer, now, scale)
            }
            (Progress::Unsaid, Form::Status(_), _) => self.ask_the_resource(now),
            (_, Form::Status(_), Verb::Post) => match self.result.take() {
                Some(result) => {
                    self.form = Form::Location(result);
                    self.next_poll = now;
                    Step::Wait { until: now }
                }
                None => Step::Done,
            },
            (_, Form::Status(_) | Form::Location(_), Verb::Put | Verb::Patch) => Step::ReadResource,
            (progress, Form::Resource, Verb::Delete) => self.still_there(progress, answer, now, scale),
            (Progress::Running, Form::Resource, _) if !stuck => self.go_on(answer, now, scale),
            _ => Step::Done,
        }
    }

    /// The resource answers although it is being deleted, and no operation says how far that is.
    fn still_there(&mut self, progress: Progress, answer: &Answer, now: Timestamp, scale: TimeScale) -> Step {
        if progress == Progress::Running || self.is_young(now, scale) {
            return self.go_on(answer, now, scale);
        }
        Step::Failed(Failure {
            code: "OperationNotFound".to_owned(),
            message: "Azure accepted the delete, but its operation no longer exists and the resource still does"
                .to_owned(),
        })
    }

    fn failed(&mut self, error: &Error, now: Timestamp, scale: TimeScale) -> Step {
        self.failures += 1;
        let status = error.status();
        match (&self.form, status) {
            (Form::Resource, Some(404 | 410)) if self.verb == Verb::Delete => Step::Done,
            (_, Some(404)) if self.is_young(now, scale) => self.try_again(error, now, scale),
            (Form::Resource, Some(404 | 410)) => Step::Failed(Failure {
                code: "ResourceNotFound".to_owned(),
                message: "Azure accepted the operation, but the resource does not exist".to_owned(),
            }),
            // `Location` answers with the reply of the request itself: this one is a refusal.
            (Form::Location(_), Some(400 | 409 | 412 | 422)) if error.code().is_some() => Step::Failed(Failure {
                code: error.code().unwrap_or_default().to_owned(),
                message: error.fault().map(Fault::text).unwrap_or_default(),
            }),
            // The record can't be read any more, and another poll would not help.
            (Form::Status(_) | Form::Location(_), Some(400 | 404 | 405 | 409 | 410 | 412 | 422)) => {
                self.ask_the_resource(now)
            }
            (Form::Status(_) | Form::Location(_), None) if error.is_foreign_host() => self.ask_the_resource(now),
            _ => self.try_again(error, now, scale),
        }
    }

    /// An unknown word that does not look like work and does not change: `Created`, `Completed`.
    fn is_stuck(&self, now: Timestamp, scale: TimeScale) -> bool {
        let stayed = Duration::try_from(now.duration_since(self.state_since)).unwrap_or(Duration::ZERO);
        !looks_like_work(&self.last_state) && stayed >= scale.wait(GRACE)
    }

    fn ask_the_resource(&mut self, now: Timestamp) -> Step {
        self.form = Form::Resource;
        self.next_poll = now;
        Step::Wait { until: now }
    }

    fn go_on(&mut self, answer: &Answer, now: Timestamp, scale: TimeScale) -> Step {
        self.wait(answer, now, scale);
        Step::Wait { until: self.next_poll }
    }

    fn try_again(&mut self, error: &Error, now: Timestamp, scale: TimeScale) -> Step {
        let said = error.retry_after().or(error.rate().throttled_for);
        let wait = said.unwrap_or_else(|| scale.wait(backoff(self.failures.saturating_sub(1))));
        self.next_poll = later(now, wait);
        Step::Wait { until: self.next_poll }
    }

    fn wait(&mut self, answer: &Answer, now: Timestamp, scale: TimeScale) {
        // Where polls say nothing more, what was said last holds.
        self.asked_wait = answer.retry_after.or(self.asked_wait);
        let wait = self.asked_wait.unwrap_or_else(|| scale.wait(backoff(self.polls)));
        self.polls = self.polls.saturating_add(1);
        self.next_poll = later(now, wait);
    }

    fn is_young(&self, now: Timestamp, scale: TimeScale) -> bool {
        self.age(now) < scale.wait(GRACE)
    }
}

impl Failure {
    fn read(body: &serde_json::Value, word: &str) -> Self {
        let fault = Fault::from_value(body);
        let message = fault.text();
        Self {
            message: if message.is_empty() { format!("the operation ended as {word}") } else { message },
            code: fault.code.unwrap_or_else(|| word.to_owned()),
        }
    }
}

/// 1 s · 1.5ⁿ, at most 30 s, of ARM's time: what we do where ARM says nothing.
fn backoff(polls: u32) -> Duration {
    let exponent = i32::try_from(polls.min(20)).unwrap_or(20);
    Duration::from_secs_f64(1.5_f64.powi(exponent).min(30.0))
}

fn later(now: Timestamp, wait: Duration) -> Timestamp {
    now.checked_add(wait).unwrap_or(Timestamp::MAX)
}

fn absolute(text: &str) -> Option<Url> {
    Url::parse(text).ok().filter(Url::has_host)
}

fn same_path(url: &Url, resource_id: &str) -> bool {
    url.path().trim_end_matches('/').eq_ignore_ascii_case(resource_id.trim_end_matches('/'))
}

#[cfg(test)]
mod tests;
