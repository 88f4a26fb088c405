//! Reads how far something is from the body that says so.

use serde_json::Value;

/// How far an operation or a resource is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing was said.
    Unsaid,
    /// Every word that is not one of the terminal ones.
    Running,
    Succeeded,
    Failed,
}

/// State of an operation's record: `status`, or the resource's state where the record has that instead.
pub(super) fn operation_state(http: u16, body: &Value) -> (Progress, String) {
    let word = text(body.get("status")).or_else(|| provisioning_state(body));
    match (http, word) {
        (_, Some(word)) => (progress(&word), word),
        (202, None) => (Progress::Running, String::new()),
        (204, None) => (Progress::Succeeded, String::new()),
        (_, None) => (Progress::Unsaid, String::new()),
    }
}

/// State of a resource; one that names none is as it should be.
pub(super) fn resource_state(body: &Value) -> (Progress, String) {
    provisioning_state(body).map_or((Progress::Unsaid, String::new()), |word| (progress(&word), word))
}

/// Whether an unknown word says that something goes on, as far as one can tell.
pub(super) fn looks_like_work(word: &str) -> bool {
    const WORDS: [&str; 9] =
        ["", "accepted", "inprogress", "notstarted", "queued", "enqueued", "dequeued", "started", "unknown"];
    let word = word.to_ascii_lowercase();
    word.contains("ing") || WORDS.contains(&word.as_str())
}

fn provisioning_state(body: &Value) -> Option<String> {
    let properties = body.get("properties");
    let of = |part: Option<&Value>| {
        let part = part?.as_object()?;
        part.iter()
            .find(|(key, _)| key.eq_ignore_ascii_case("provisioningState"))
            .and_then(|(_, state)| text(Some(state)))
    };
    of(properties).or_else(|| of(Some(body)))
}

fn text(value: Option<&Value>) -> Option<String> {
    let word = value?.as_str()?.trim();
    (!word.is_empty()).then(|| word.to_owned())
}

fn progress(word: &str) -> Progress {
    let is = |terminal: &str| word.eq_ignore_ascii_case(terminal);
    if is("Succeeded") {
        Progress::Succeeded
    } else if is("Failed") || is("Canceled") || is("Cancelled") {
        Progress::Failed
    } else {
        Progress::Running
    }
}
