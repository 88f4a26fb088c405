//! Finds code and message in whatever body an Azure service answers an error with.
//!
//! ARM documents one shape; resource providers, gateways and Entra have others. All those that were met in recordings and
//! reports are read here, and no body makes the reading fail.

use serde_json::{Map, Value};

/// What a body says about an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// Outermost code, if any.
    pub code: Option<String>,
    /// Outermost message, made readable.
    pub message: Option<String>,
    /// Codes and messages of details and inner errors, outermost first, without repetitions.
    pub inner: Vec<Fault>,
}

/// How deep errors are nested before we stop looking.
const DEPTH: usize = 6;
/// Long enough for every message met; conditions and events must stay small.
const MESSAGE_LIMIT: usize = 1500;
const INNER_LIMIT: usize = 8;

impl Fault {
    /// Reads a body.
    pub fn parse(body: &[u8]) -> Self {
        match serde_json::from_slice(body) {
            Ok(value) => Self::from_value(&value),
            Err(_) => Self::from_text(&String::from_utf8_lossy(body)),
        }
    }

    /// Reads a body that is JSON already; a string is text.
    pub fn from_value(value: &Value) -> Self {
        match value {
            Value::String(text) => Self::from_text(text),
            value => read(value, DEPTH).unwrap_or_default(),
        }
    }

    fn from_text(text: &str) -> Self {
        let message = readable(text);
        Self { message: (!message.is_empty()).then_some(message), ..Self::default() }
    }

    /// All codes, outermost first.
    pub fn codes(&self) -> impl Iterator<Item = &str> {
        self.code.as_deref().into_iter().chain(self.inner.iter().filter_map(|inner| inner.code.as_deref()))
    }

    /// The message with what the inner errors add to it.
    pub fn text(&self) -> String {
        let mut text = self.message.clone().unwrap_or_default();
        for inner in &self.inner {
            let Some(message) = inner.message.as_deref().filter(|message| !text.contains(*message)) else { continue };
            if !text.is_empty() {
                text.push_str("; ");
            }
            if let Some(code) = inner.code.as_deref().filter(|code| !text.contains(*code)) {
                text.push_str(code);
                text.push_str(": ");
            }
            text.push_str(message);
        }
        shortened(text, MESSAGE_LIMIT)
    }
}

/// Reads one level: `{error: …}` is unwrapped first, because a body may carry both an envelope and fields of its own.
fn read(value: &Value, depth: usize) -> Option<Fault> {
    let object = value.as_object()?;
    if depth == 0 {
        return None;
    }
    for envelope in ["error", "odata.error"] {
        if let Some(inner @ Value::Object(_)) = field(object, envelope) {
            return read(inner, depth - 1);
        }
    }
    let mut fault = Fault {
        // Entra: `error` is a word and `error_description` the text. RFC 9110 problem: `title` and `detail`.
        code: scalar(object, &["code", "errorCode", "error"]),
        message: scalar(object, &["message", "error_description", "errorMessage", "detail", "title"])
            .or_else(|| Some(field(object, "message")?.get("value")?.as_str()?.to_owned())),
        inner: Vec::new(),
    };
    if let Some(embedded) = fault.message.as_deref().and_then(embedded_json).and_then(|value| read(&value, depth - 1)) {
        fault.message.clone_from(&embedded.message);
        fault.code = fault.code.or_else(|| embedded.code.clone());
        add(&mut fault, embedded);
    }
    fault.message = fault.message.map(|message| readable(&message)).filter(|message| !message.is_empty());
    for nested in ["details", "innererror", "ErrorEntity", "errors"] {
        match field(object, nested) {
            Some(Value::Array(items)) => {
                for inner in items.iter().filter_map(|item| read(item, depth - 1)) {
                    add(&mut fault, inner);
                }
            }
            Some(item @ Value::Object(fields)) => match read(item, depth - 1) {
                Some(inner) => add(&mut fault, inner),
                None => add(&mut fault, field_errors(fields)),
            },
            _ => {}
        }
    }
    let said = fault.code.is_some() || fault.message.is_some() || !fault.inner.is_empty();
    said.then_some(fault)
}

/// `{"errors": {"$.location": ["is required"]}}`, as problem bodies have it.
fn field_errors(fields: &Map<String, Value>) -> Fault {
    let texts = fields.iter().filter_map(|(name, value)| {
        let text = value.as_str().or_else(|| value.as_array()?.first()?.as_str())?;
        Some(format!("{name}: {text}"))
    });
    let message = texts.collect::<Vec<_>>().join("; ");
    Fault { message: (!message.is_empty()).then_some(message), ..Fault::default() }
}

fn add(fault: &mut Fault, inner: Fault) {
    let Fault { code, message, inner: deeper } = inner;
    for found in std::iter::once(Fault { code, message, inner: Vec::new() }).chain(deeper) {
        let empty = found.code.is_none() && found.message.is_none();
        let said = found.code == fault.code && found.message == fault.message;
        if !empty && !said && !fault.inner.contains(&found) && fault.inner.len() < INNER_LIMIT {
            fault.inner.push(found);
        }
    }
}

/// Some providers put a whole JSON error into the message.
fn embedded_json(message: &str) -> Option<Value> {
    let text = message.trim();
    text.starts_with('{').then(|| serde_json::from_str(text).ok()).flatten()
}

/// App Service writes `Code`, ARM `code`.
fn field<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    object.get(name).or_else(|| object.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value))
}

fn scalar(object: &Map<String, Value>, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| match field(object, name)? {
        Value::String(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}

/// Takes markup and line breaks out of a text.
fn readable(text: &str) -> String {
    let mut plain = String::with_capacity(text.len().min(MESSAGE_LIMIT));
    let markup = text.contains("</") || text.trim_start().starts_with("<!");
    let mut skipped = false;
    for character in text.chars() {
        match character {
            '<' if markup => skipped = true,
            '>' if markup => {
                skipped = false;
                plain.push(' ');
            }
            _ if skipped => {}
            other => plain.push(other),
        }
    }
    let mut words: Vec<&str> = plain.split_whitespace().collect();
    // A gateway's page says its title again as a heading.
    let half = words.len() / 2;
    if markup && half > 0 && words.len().is_multiple_of(2) && words[..half] == words[half..] {
        words.truncate(half);
    }
    let text = words.join(" ");
    shortened(without_tracking(&text).to_owned(), MESSAGE_LIMIT)
}

/// Cuts off ids and times at the end of a text, which differ from try to try: a condition must not change with them.
fn without_tracking(text: &str) -> &str {
    const MARKS: [&str; 8] = [
        "trace id:",
        "tracking id:",
        "requestid:",
        "requestid=",
        "request id:",
        "activityid:",
        "correlationid:",
        "correlation id:",
    ];
    let lower = text.to_ascii_lowercase();
    let tracking = |at: usize| {
        let tail = &lower[at..];
        tail.len() < 240 && tail.chars().filter(char::is_ascii_hexdigit).count() >= 16
    };
    let cut = MARKS.iter().filter_map(|mark| lower.find(mark)).filter(|at| *at > 0 && tracking(*at)).min();
    cut.map_or(text, |at| text[..at].trim_end_matches([' ', '(', ',', ';']))
}

fn shortened(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        let cut = (0..=limit).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(cut);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(body: &str) -> (Option<String>, String) {
        let fault = Fault::parse(body.as_bytes());
        let text = fault.text();
        (fault.code, text)
    }

    #[track_caller]
    fn says(body: &str, code: Option<&str>, text: &str) {
        assert_eq!(parsed(body), (code.map(str::to_owned), text.to_owned()), "{body}");
    }

    #[test]
    fn every_shape_met_in_the_wild_yields_its_code_and_text() {
        says(r#"{"error":{"code":"Conflict","message":"Busy."}}"#, Some("Conflict"), "Busy.");
        says(r#"{"code":"NotFound","message":"No pool.","subcode":"x"}"#, Some("NotFound"), "No pool.");
        says(r#"{"Code":"NotFound","Message":"No plan.","Details":null}"#, Some("NotFound"), "No plan.");
        says(r#"{"Message":"No resource."}"#, None, "No resource.");
        says(
            "<html><head><title>502 Bad Gateway</title></head>\r\n<body><h1>502 Bad Gateway</h1></body></html>",
            None,
            "502 Bad Gateway",
        );
        says("upstream connect error", None, "upstream connect error");
        says("", None, "");
        says(
            r#"{"type":"https://t/15.5.1","title":"One or more validation errors","status":400,"errors":{"$.sku":["is required"]}}"#,
            None,
            "One or more validation errors; $.sku: is required",
        );
        says(r#"{"error":{"code":429,"message":"Slow down."}}"#, Some("429"), "Slow down.");
        says(
            r#"{"error":"invalid_client","error_description":"AADSTS7000215: wrong secret"}"#,
            Some("invalid_client"),
            "AADSTS7000215: wrong secret",
        );
        says(
            r#"{"odata.error":{"code":"Request_BadRequest","message":{"lang":"en","value":"Bad."}}}"#,
            Some("Request_BadRequest"),
            "Bad.",
        );
        says(
            r#"{"status":"Failed","error":{"code":"ServerIsBusy","message":"Later."}}"#,
            Some("ServerIsBusy"),
            "Later.",
        );
        says("null", None, "");
        says("[1]", None, "");
    }

    #[test]
    fn inner_errors_add_their_codes_and_texts_once() {
        let body = r#"{"error":{"code":"RetryableError","message":"A retryable error occurred.","details":[
            {"code":"ReferencedResourceNotProvisioned","message":"ip is Updating"},
            {"code":"ReferencedResourceNotProvisioned","message":"ip is Updating"}],
            "innererror":{"code":"Deep","message":"deeper","innererror":{"code":"Deepest","message":"the cause"}}}}"#;
        let fault = Fault::parse(body.as_bytes());
        let codes: Vec<_> = fault.codes().collect();
        assert_eq!(codes, ["RetryableError", "ReferencedResourceNotProvisioned", "Deep", "Deepest"]);
        assert_eq!(
            fault.text(),
            "A retryable error occurred.; ReferencedResourceNotProvisioned: ip is Updating; Deep: deeper; Deepest: the cause"
        );
    }

    #[test]
    fn json_inside_a_message_is_read() {
        let body = r#"{"error":{"code":"BadRequest","message":"{\"error\":{\"code\":\"TooManyRequests\",\"message\":\"Slow.\"}}"}}"#;
        let fault = Fault::parse(body.as_bytes());
        assert_eq!(fault.codes().collect::<Vec<_>>(), ["BadRequest", "TooManyRequests"]);
        assert_eq!(fault.text(), "Slow.");
    }

    #[test]
    fn ids_of_one_try_are_left_out() {
        says(
            r#"{"error":"invalid_client","error_description":"AADSTS7000215: Invalid client secret provided. Trace ID: 0f0e7b34-2a6c-4d8e-9f55-8d7f0a5c1200 Correlation ID: 6e7b3a12-9d5e-4c1b-8a43-1f2e3d4c5b6a Timestamp: 2026-11-30 11:00:00Z"}"#,
            Some("invalid_client"),
            "AADSTS7000215: Invalid client secret provided.",
        );
        says(
            r#"{"error":{"code":"X","message":"No container.\nRequestId:e611aba9-301e-006e-5178-0b47e4000000\nTime:2001-02-03T04:05:06Z"}}"#,
            Some("X"),
            "No container.",
        );
        says(r#"{"message":"The request id: field is not set"}"#, None, "The request id: field is not set");
    }

    proptest! {
        #[test]
        fn no_body_breaks_the_reading(body in proptest::collection::vec(any::<u8>(), 0..400)) {
            Fault::parse(&body);
        }

        #[test]
        fn no_json_breaks_the_reading(
            keys in proptest::collection::vec("(error|code|message|details|innererror|errors|Message|[a-z]{0,3})", 1..12),
            text in "\\PC{0,40}",
        ) {
            let mut value = Value::String(text);
            for (at, key) in keys.into_iter().enumerate() {
                value = if at % 3 == 2 { Value::Array(vec![value]) } else { serde_json::json!({ key: value }) };
            }
            prop_assert!(Fault::from_value(&value).text().len() <= MESSAGE_LIMIT * 2);
        }

        #[test]
        fn messages_stay_small(text in "[<>/a-z é]{0,5000}") {
            let body = serde_json::json!({"error": {"code": "X", "message": text}});
            prop_assert!(Fault::from_value(&body).text().len() <= MESSAGE_LIMIT + '…'.len_utf8());
        }
    }
}
