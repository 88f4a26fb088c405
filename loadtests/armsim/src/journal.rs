//! The journal: every call, in the order in which the calls took effect.
//!
//! Kept true here: entries are only ever appended, and numbered without gaps from 1.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use globset::GlobMatcher;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answer::Method;
use super::fault::{self, matcher};

/// A text that many entries share.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text(Arc<str>);

impl Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

impl Serialize for Text {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// It was carried out.
    Ok,
    /// It was refused with a 4xx or 5xx.
    Refused,
    /// It was refused with 429.
    Throttled,
    /// Its token was refused.
    Unauthorized,
    /// Its connection was cut.
    Dropped,
    /// It was left without an answer.
    Hung,
    /// The caller went away before it was carried out.
    Abandoned,
}

/// A call.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Its number, from 1.
    pub seq: u64,
    /// When it arrived, in real time.
    pub time: jiff::Timestamp,
    /// When it took effect, in simulated seconds since the start.
    pub sim_seconds: f64,
    /// The method.
    pub method: Method,
    /// The path.
    pub path: Box<str>,
    /// The api-version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<Text>,
    /// The type of what the path names.
    pub arm_type: Text,
    /// The caller's client id; empty if unknown.
    pub client_id: Text,
    /// The caller's User-Agent.
    pub user_agent: Text,
    /// `x-ms-client-request-id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_request_id: Option<Box<str>>,
    /// `x-ms-correlation-request-id`, the caller's or ours.
    pub correlation_id: Box<str>,
    /// `x-ms-request-id`.
    pub request_id: Box<str>,
    /// The first 16 hexadecimal digits of the body's SHA-256.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_hash: Option<Box<str>>,
    /// The body itself, where [`Options::record_bodies`](super::Options::record_bodies) asks for it.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "shared")]
    pub body: Option<Arc<Value>>,
    /// The answer's status; none if there was no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The code of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Text>,
    /// What became of it.
    pub outcome: Outcome,
    /// The rule that made it go wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<Text>,
    /// The operation that it began or showed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Text>,
    /// From its arrival to its answer.
    #[serde(rename = "durationMicros", serialize_with = "micros")]
    pub duration: Duration,
}

fn micros<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}

#[expect(clippy::ref_option, reason = "serde passes fields like this")]
fn shared<S: serde::Serializer>(body: &Option<Arc<Value>>, serializer: S) -> Result<S::Ok, S::Error> {
    body.as_deref().serialize(serializer)
}

/// Which entries; everything stated must fit. Texts are globs without letter case.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Filter {
    /// Only entries after this number.
    pub since: u64,
    /// At most so many.
    pub limit: Option<usize>,
    /// Only this method.
    pub method: Option<Method>,
    /// Only these paths.
    pub path: Option<String>,
    /// Only these types.
    #[serde(rename = "type")]
    pub arm_type: Option<String>,
    /// Only callers with this client id or User-Agent.
    pub caller: Option<String>,
    /// Only this status.
    pub status: Option<u16>,
    /// Only this outcome.
    pub outcome: Option<Outcome>,
}

/// Some entries, and where to go on.
#[derive(Debug, Clone, Serialize)]
pub struct Page {
    /// The entries.
    pub entries: Vec<Entry>,
    /// What to ask for with `since` next.
    pub next: u64,
}

/// How many calls there were, by what they were.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// All calls.
    pub calls: u64,
    /// By method.
    pub by_method: BTreeMap<String, u64>,
    /// By status; calls without an answer are under 0.
    pub by_status: BTreeMap<u16, u64>,
    /// By resource type, then method.
    pub by_type: BTreeMap<String, BTreeMap<String, u64>>,
    /// By outcome.
    pub by_outcome: BTreeMap<Outcome, u64>,
}

/// All entries.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    entries: Vec<Entry>,
    texts: HashSet<Arc<str>>,
}

impl Journal {
    /// The number that the next entry gets.
    pub(crate) fn next_seq(&self) -> u64 {
        self.entries.len() as u64 + 1
    }

    pub(crate) fn append(&mut self, entry: Entry) {
        debug_assert_eq!(entry.seq, self.next_seq());
        self.entries.push(entry);
    }

    /// Keeps a text once.
    pub(crate) fn text(&mut self, text: &str) -> Text {
        if let Some(known) = self.texts.get(text) {
            return Text(Arc::clone(known));
        }
        let text: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&text));
        Text(text)
    }

    pub(crate) fn page(&self, filter: &Filter) -> Result<Page, fault::Error> {
        let globs = Globs::new(filter)?;
        let start = usize::try_from(filter.since).unwrap_or(usize::MAX).min(self.entries.len());
        let mut page = Page { entries: Vec::new(), next: self.entries.len() as u64 };
        for entry in self.entries[start..].iter().filter(|entry| globs.fit(filter, entry)) {
            if filter.limit.is_some_and(|limit| page.entries.len() >= limit) {
                page.next = page.entries.last().map_or(filter.since, |last| last.seq);
                break;
            }
            page.entries.push(entry.clone());
        }
        Ok(page)
    }

    pub(crate) fn summary(&self, filter: &Filter) -> Result<Summary, fault::Error> {
        let globs = Globs::new(filter)?;
        let start = usize::try_from(filter.since).unwrap_or(usize::MAX).min(self.entries.len());
        let mut summary = Summary::default();
        for entry in self.entries[start..].iter().filter(|entry| globs.fit(filter, entry)) {
            let method = format!("{:?}", entry.method).to_uppercase();
            summary.calls += 1;
            *summary.by_type.entry(entry.arm_type.to_string()).or_default().entry(method.clone()).or_default() += 1;
            *summary.by_method.entry(method).or_default() += 1;
            *summary.by_status.entry(entry.status.unwrap_or_default()).or_default() += 1;
            *summary.by_outcome.entry(entry.outcome).or_default() += 1;
        }
        Ok(summary)
    }
}

struct Globs {
    path: Option<GlobMatcher>,
    arm_type: Option<GlobMatcher>,
    caller: Option<GlobMatcher>,
}

impl Globs {
    fn new(filter: &Filter) -> Result<Self, fault::Error> {
        let compile = |glob: &Option<String>| glob.as_deref().map(matcher).transpose();
        Ok(Self {
            path: compile(&filter.path)?,
            arm_type: compile(&filter.arm_type)?,
            caller: compile(&filter.caller)?,
        })
    }

    fn fit(&self, filter: &Filter, entry: &Entry) -> bool {
        filter.method.is_none_or(|method| method == entry.method)
            && filter.status.is_none_or(|status| Some(status) == entry.status)
            && filter.outcome.is_none_or(|outcome| outcome == entry.outcome)
            && self.path.as_ref().is_none_or(|glob| glob.is_match(&*entry.path))
            && self.arm_type.as_ref().is_none_or(|glob| glob.is_match(&*entry.arm_type))
            && self
                .caller
                .as_ref()
                .is_none_or(|glob| glob.is_match(&*entry.client_id) || glob.is_match(&*entry.user_agent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Journal {
        let mut journal = Journal::default();
        for (method, path, status) in
            [(Method::Put, "/a", Some(201)), (Method::Get, "/a", Some(200)), (Method::Get, "/b", None)]
        {
            let text = journal.text("x");
            let outcome = if status.is_some() { Outcome::Ok } else { Outcome::Dropped };
            journal.append(Entry {
                seq: journal.next_seq(),
                time: jiff::Timestamp::UNIX_EPOCH,
                sim_seconds: 0.0,
                method,
                path: path.into(),
                api_version: None,
                arm_type: text.clone(),
                client_id: text.clone(),
                user_agent: text,
                client_request_id: None,
                correlation_id: "".into(),
                request_id: "".into(),
                body_hash: None,
                body: None,
                status,
                code: None,
                outcome,
                fault: None,
                operation: None,
                duration: Duration::ZERO,
            });
        }
        journal
    }

    #[test]
    fn a_cursor_walks_through_all_entries_once() {
        let journal = journal();
        let first = journal.page(&Filter { limit: Some(2), ..Filter::default() }).unwrap();
        assert_eq!((first.entries.len(), first.next), (2, 2));
        let rest = journal.page(&Filter { since: first.next, ..Filter::default() }).unwrap();
        assert_eq!((rest.entries[0].seq, rest.next), (3, 3));
        assert!(journal.page(&Filter { since: 99, ..Filter::default() }).unwrap().entries.is_empty());
    }

    #[test]
    fn filters_and_counts_agree() {
        let journal = journal();
        let gets = Filter { method: Some(Method::Get), ..Filter::default() };
        assert_eq!(journal.page(&gets).unwrap().entries.len(), 2);
        let summary = journal.summary(&gets).unwrap();
        assert_eq!(
            (summary.calls, summary.by_status[&200], summary.by_status[&0], summary.by_outcome[&Outcome::Dropped]),
            (2, 1, 1, 1)
        );
        assert_eq!(journal.page(&Filter { path: Some("/B*".into()), ..Filter::default() }).unwrap().entries.len(), 1);
        assert!(journal.page(&Filter { path: Some("[".into()), ..Filter::default() }).is_err());
    }
}
