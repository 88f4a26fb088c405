//! What a reader puts in place of "…" and of names in capitals or angle brackets.

use anyhow::{Context as _, Result, ensure};
use flotilla_armsim::DEMO_CLIENT_SECRET;
use regex::Regex;
use serde_json::Value;

use crate::markdown::Snippet;
use crate::shell::free_port;

/// What to write for each placeholder, in this order.
pub(crate) struct Values(Vec<(String, String)>);

impl Values {
    /// From the line that armsim prints when it starts.
    pub(crate) fn new(printed: &str) -> Result<Self> {
        let line = printed.lines().find(|line| line.contains("\"endpoint\"")).context("armsim says where it is")?;
        let armsim: Value = serde_json::from_str(line)?;
        let said = |key: &str| armsim[key].as_str().map(str::to_owned).with_context(|| format!("armsim says no {key}"));
        let mut values: Vec<(String, String)> = Vec::new();
        for key in ["endpoint", "caFile", "tenant", "clientId", "subscription"] {
            values.push((format!("<{key}>"), said(key)?));
        }
        for (variable, value, key) in [
            ("SUBSCRIPTION_ID", "azureSubscriptionID", said("subscription")?),
            ("TENANT_ID", "azureTenantID", said("tenant")?),
            ("CLIENT_ID", "azureClientID", said("clientId")?),
            ("CLIENT_SECRET", "azureClientSecret", DEMO_CLIENT_SECRET.to_owned()),
        ] {
            values.push((format!("AZURE_{variable}=…"), format!("AZURE_{variable}={key}")));
            values.push((format!("{value}=…"), format!("{value}={key}")));
        }
        for (placeholder, value) in [
            ("5f3…", &*said("subscription")?),
            ("image.repository=…", "image.repository=registry.example/flotilla"),
            (
                "helm upgrade … ",
                "helm upgrade flotilla deploy/helm/flotilla --namespace flotilla-system --reuse-values ",
            ),
            ("TYPES=<folder>", "TYPES=folder"),
            ("--all-versions TYPE", "--all-versions Microsoft.Automation/automationAccounts"),
            // These belong to whoever else is on this machine.
            ("127.0.0.1:8443", &*format!("127.0.0.1:{}", free_port()?)),
            ("127.0.0.1:8081", &*format!("127.0.0.1:{}", free_port()?)),
        ] {
            values.push((placeholder.to_owned(), value.to_owned()));
        }
        Ok(Self(values))
    }

    /// The script as a reader would type it.
    pub(crate) fn fill(&self, snippet: &Snippet) -> Result<String> {
        let script = self.0.iter().fold(snippet.script.clone(), |script, (from, to)| script.replace(from, to));
        let left = Regex::new("…|<[a-zA-Z]+>")?.find(&script).map(|found| found.as_str().to_owned());
        ensure!(left.is_none(), "{}: no value is known for {left:?} in\n{script}", snippet.place);
        Ok(script)
    }
}

/// The word behind a text.
pub(crate) fn after(output: &str, text: &str) -> Result<String> {
    let behind = output.split_once(text).and_then(|(_, behind)| behind.split_whitespace().next());
    behind.map(str::to_owned).with_context(|| format!("nothing behind `{text}` in\n{output}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = r#"{"endpoint":"https://e","caFile":"/ca","tenant":"t","clientId":"c","subscription":"s"}"#;

    fn snippet(script: &str) -> Snippet {
        Snippet { place: "a.md:1".to_owned(), script: script.to_owned(), shown: Vec::new() }
    }

    #[test]
    fn placeholders_are_filled_and_unknown_ones_are_reported() {
        let values = Values::new(PRINTED).unwrap();
        let filled = values.fill(&snippet("export AZURE_TENANT_ID=… A=<caFile> --set azureClientID=…")).unwrap();
        assert_eq!(filled, "export AZURE_TENANT_ID=t A=/ca --set azureClientID=c");
        let error = values.fill(&snippet("kubectl get …")).unwrap_err().to_string();
        assert!(error.starts_with("a.md:1: ") && error.contains('…'), "{error}");
    }

    #[test]
    fn word_behind_a_text_is_found() {
        assert_eq!(after("x\n  export KUBECONFIG=/a/b\n", "KUBECONFIG=").unwrap(), "/a/b");
    }
}
