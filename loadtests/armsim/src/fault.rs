//! Faults by rule: which calls go wrong, how often, and how.
//!
//! Kept true here: a rule is checked when it is added; each call meets at most one rule, the first that applies to it.

use globset::{GlobBuilder, GlobMatcher};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answer::Method;

/// A rule.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// What the journal calls it.
    #[serde(default)]
    pub name: String,
    /// Which calls it applies to.
    #[serde(default, rename = "match")]
    pub matches: Match,
    /// How many matching calls pass first.
    #[serde(default)]
    pub skip: u64,
    /// How many calls then go wrong; without it, all.
    #[serde(default)]
    pub count: Option<u64>,
    /// What happens to them.
    pub action: Action,
}

/// Which calls: everything stated must fit. Texts are globs without letter case, in which `*` also stands for slashes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Match {
    /// The method.
    pub method: Option<Method>,
    /// The path.
    pub path: Option<String>,
    /// The resource type.
    #[serde(rename = "type")]
    pub arm_type: Option<String>,
    /// The caller's client id or User-Agent.
    pub caller: Option<String>,
}

/// What happens to a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind", deny_unknown_fields)]
pub enum Action {
    /// It is refused in ARM's form and has no effect.
    Status {
        /// The HTTP status.
        status: u16,
        /// ARM's code.
        code: String,
        /// ARM's message.
        #[serde(default)]
        message: String,
        /// `Retry-After`, in seconds.
        #[serde(default)]
        retry_after: Option<u64>,
    },
    /// It is answered with any body and has no effect.
    Respond {
        /// The HTTP status.
        status: u16,
        /// The body: a text is sent as it is, anything else as JSON.
        #[serde(default)]
        body: Value,
        /// Headers.
        #[serde(default)]
        headers: Vec<(String, String)>,
    },
    /// The connection is cut before anything happens.
    Drop,
    /// The connection is cut after the call was carried out.
    DropAfterEffect,
    /// It is carried out later.
    Delay {
        /// Real time, not simulated.
        milliseconds: u64,
    },
    /// It is never answered and has no effect.
    Hang,
    /// It is carried out and never answered.
    HangAfterEffect,
    /// It is accepted, and the operation that it begins fails.
    FailOperation {
        /// ARM's code.
        code: String,
        /// ARM's message.
        #[serde(default)]
        message: String,
    },
    /// It is accepted, and the operation that it begins goes on until it is ended by hand.
    HoldOperation,
}

/// A rule that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("failed to read the glob {glob:?}")]
pub struct Error {
    glob: String,
    source: globset::Error,
}

/// What a call is, for matching.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) method: Method,
    pub(crate) path: &'a str,
    pub(crate) arm_type: &'a str,
    pub(crate) client_id: &'a str,
    pub(crate) user_agent: &'a str,
}

/// The rules in force.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    rules: Vec<Active>,
    next_id: u64,
}

#[derive(Debug)]
struct Active {
    id: u64,
    rule: Rule,
    path: Option<GlobMatcher>,
    arm_type: Option<GlobMatcher>,
    caller: Option<GlobMatcher>,
    seen: u64,
    used: u64,
}

/// A rule and how often it was met.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Its number.
    pub id: u64,
    /// The rule.
    pub rule: Rule,
    /// Calls that matched.
    pub seen: u64,
    /// Calls that went wrong.
    pub used: u64,
}

impl Faults {
    pub(crate) fn add(&mut self, rule: Rule) -> Result<u64, Error> {
        let compile = |glob: &Option<String>| glob.as_deref().map(matcher).transpose();
        let path = compile(&rule.matches.path)?;
        let arm_type = compile(&rule.matches.arm_type)?;
        let caller = compile(&rule.matches.caller)?;
        self.next_id += 1;
        self.rules.push(Active { id: self.next_id, rule, path, arm_type, caller, seen: 0, used: 0 });
        Ok(self.next_id)
    }

    pub(crate) fn remove(&mut self, id: u64) -> bool {
        let before = self.rules.len();
        self.rules.retain(|active| active.id != id);
        self.rules.len() < before
    }

    pub(crate) fn clear(&mut self) {
        self.rules.clear();
    }

    pub(crate) fn list(&self) -> Vec<Status> {
        let status =
            |active: &Active| Status { id: active.id, rule: active.rule.clone(), seen: active.seen, used: active.used };
        self.rules.iter().map(status).collect()
    }

    /// What happens to this call, if anything, and by which rule. Counts the call.
    pub(crate) fn meet(&mut self, subject: &Subject<'_>) -> Option<(String, Action)> {
        let mut met = None;
        for active in &mut self.rules {
            if !active.fits(subject) {
                continue;
            }
            active.seen += 1;
            let due = active.seen > active.rule.skip && active.rule.count.is_none_or(|count| active.used < count);
            if due && met.is_none() {
                active.used += 1;
                let name =
                    if active.rule.name.is_empty() { format!("fault {}", active.id) } else { active.rule.name.clone() };
                met = Some((name, active.rule.action.clone()));
            }
        }
        met
    }
}

impl Active {
    fn fits(&self, subject: &Subject<'_>) -> bool {
        let fits = |glob: &Option<GlobMatcher>, texts: &[&str]| {
            glob.as_ref().is_none_or(|glob| texts.iter().any(|text| glob.is_match(text)))
        };
        self.rule.matches.method.is_none_or(|method| method == subject.method)
            && fits(&self.path, &[subject.path])
            && fits(&self.arm_type, &[subject.arm_type])
            && fits(&self.caller, &[subject.client_id, subject.user_agent])
    }
}

/// A glob without letter case, in which `*` also stands for slashes.
pub(crate) fn matcher(glob: &str) -> Result<GlobMatcher, Error> {
    let built = GlobBuilder::new(glob).case_insensitive(true).literal_separator(false).build();
    built.map(|glob| glob.compile_matcher()).map_err(|source| Error { glob: glob.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PUT: Subject<'_> = Subject {
        method: Method::Put,
        path: "/subscriptions/s/resourceGroups/g",
        arm_type: "Microsoft.Resources/resourceGroups",
        client_id: "c",
        user_agent: "flotilla-worker/0.1 (w-2)",
    };

    fn faults(rule: Value) -> Faults {
        let mut faults = Faults::default();
        faults.add(serde_json::from_value(rule).unwrap()).unwrap();
        faults
    }

    #[test]
    fn the_nth_calls_go_wrong_and_no_others() {
        let mut faults = faults(json!({"match": {"method": "PUT"}, "skip": 1, "count": 2, "action": {"kind": "drop"}}));
        let other = Subject { method: Method::Get, ..PUT };
        let met: Vec<bool> = [PUT, other, PUT, PUT, PUT].iter().map(|call| faults.meet(call).is_some()).collect();
        assert_eq!(met, [false, false, true, true, false]);
        assert_eq!((faults.list()[0].seen, faults.list()[0].used), (4, 2));
    }

    #[test]
    fn globs_have_no_letter_case_and_callers_match_by_either_name() {
        let fits = |rule| faults(json!({"match": rule, "action": {"kind": "hang"}})).meet(&PUT).is_some();
        assert!(fits(json!({"path": "/SUBSCRIPTIONS/*/g"})));
        assert!(fits(json!({"type": "microsoft.resources/*"})));
        assert!(fits(json!({"caller": "*w-2*"})) && fits(json!({"caller": "c"})));
        assert!(!fits(json!({"caller": "w-2"})) && !fits(json!({"type": "Microsoft.App/*"})));
    }

    #[test]
    fn wrong_rules_are_refused() {
        let unknown: Result<Rule, _> = serde_json::from_value(json!({"matches": {}, "action": {"kind": "drop"}}));
        assert!(unknown.unwrap_err().to_string().contains("unknown field `matches`"));
        let rule = serde_json::from_value(json!({"match": {"path": "["}, "action": {"kind": "drop"}})).unwrap();
        assert!(Faults::default().add(rule).is_err());
    }
}
