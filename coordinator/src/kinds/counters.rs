//! Reads hints out of the API server's own metrics: which kinds were written to, and which have objects.
//!
//! Each API server counts only what it answered itself, so counts are kept apart by server, which its start time identifies. A count
//! that grew is a hint and no proof.

use std::collections::{BTreeMap, BTreeSet};

/// Servers remembered; behind one address there are seldom more than three.
const SERVERS: usize = 16;

/// A group and a plural, as the metrics name a kind.
pub(super) type Resource = (String, String);

/// What one scrape said about our groups.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Scrape {
    /// Tells servers apart.
    server: String,
    /// Writes that succeeded.
    writes: BTreeMap<Resource, f64>,
    /// Kinds with stored objects.
    stored: BTreeSet<Resource>,
}

impl Scrape {
    /// Takes in one line of the text format. Lines about other things cost a comparison or two.
    pub(super) fn line(&mut self, line: &str) {
        if let Some(value) = line.strip_prefix("process_start_time_seconds ") {
            value.trim().clone_into(&mut self.server);
        } else if line.starts_with("apiserver_request_total{") {
            self.requests(line);
        } else if line.starts_with("apiserver_storage_objects{") || line.starts_with("apiserver_resource_objects{") {
            self.objects(line);
        }
    }

    fn requests(&mut self, line: &str) {
        let Some((group, value)) = label(line, "group").filter(|group| is_ours(group)).zip(value(line)) else { return };
        let is_write = matches!(label(line, "verb"), Some("POST" | "PUT" | "PATCH" | "APPLY"));
        let succeeded = label(line, "code").is_some_and(|code| code.starts_with('2'));
        let on_object = label(line, "subresource").is_none_or(str::is_empty);
        let real = label(line, "dry_run").is_none_or(str::is_empty);
        if let Some(resource) = label(line, "resource").filter(|_| is_write && succeeded && on_object && real) {
            *self.writes.entry((group.to_owned(), resource.to_owned())).or_default() += value;
        }
    }

    /// Older servers name it `storageaccounts.storage.azure.com`, newer ones have a label for the group.
    fn objects(&mut self, line: &str) {
        let Some(resource) = label(line, "resource") else { return };
        let named = match label(line, "group") {
            Some(group) => Some((resource, group)),
            None => resource.split_once('.'),
        };
        if let Some((resource, group)) = named.filter(|(_, group)| is_ours(group))
            && value(line).is_some_and(|count| count > 0.0)
        {
            self.stored.insert((group.to_owned(), resource.to_owned()));
        }
    }
}

fn is_ours(group: &str) -> bool {
    group.ends_with(".azure.com")
}

/// The value of a label. Values with escapes do not occur in the labels that we read.
fn label<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = &line[line.find('{')? + 1..];
    loop {
        let (found, after) = rest.split_once("=\"")?;
        let (value, after) = after.split_once('"')?;
        if found.trim_start_matches(',') == name {
            return Some(value);
        }
        rest = after;
    }
}

fn value(line: &str) -> Option<f64> {
    line.rsplit_once("} ")?.1.split(' ').next()?.parse().ok()
}

/// Counts seen so far, by server.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    servers: Vec<(String, BTreeMap<Resource, f64>)>,
}

impl Counters {
    /// Kinds that were written to since the last scrape of the same server, or that have objects.
    pub(super) fn hints(&mut self, scrape: Scrape) -> BTreeSet<Resource> {
        let Scrape { server, writes, stored: mut hints } = scrape;
        let known =
            self.servers.iter().position(|(known, _)| *known == server).map(|index| self.servers.remove(index).1);
        let known = known.unwrap_or_default();
        let grew = |(resource, count): &(&Resource, &f64)| known.get(*resource).is_none_or(|before| *count > before);
        hints.extend(writes.iter().filter(grew).map(|(resource, _)| resource.clone()));
        if self.servers.len() >= SERVERS {
            self.servers.remove(0);
        }
        self.servers.push((server, writes));
        hints
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = r#"
# HELP apiserver_request_total [STABLE] Counter of apiserver requests
apiserver_request_total{code="201",component="apiserver",dry_run="",group="storage.azure.com",resource="storageaccounts",scope="resource",subresource="",verb="POST",version="v1api20230101"} 3
apiserver_request_total{code="201",component="apiserver",dry_run="",group="app.azure.com",resource="containerapps",scope="resource",subresource="",verb="APPLY",version="v1api20240301"} 1
apiserver_request_total{code="200",component="apiserver",dry_run="",group="network.azure.com",resource="virtualnetworks",scope="cluster",subresource="",verb="LIST",version="v1"} 7
apiserver_request_total{code="422",component="apiserver",dry_run="",group="cache.azure.com",resource="redis",scope="resource",subresource="",verb="POST",version="v1"} 1
apiserver_request_total{code="200",component="apiserver",dry_run="",group="sql.azure.com",resource="servers",scope="resource",subresource="status",verb="PATCH",version="v1"} 1
apiserver_request_total{code="200",component="apiserver",dry_run="All",group="sql.azure.com",resource="servers",scope="resource",subresource="",verb="PATCH",version="v1"} 1
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="secrets",scope="resource",subresource="",verb="POST",version="v1"} 90
apiserver_storage_objects{resource="resourcegroups.resources.azure.com"} 4
apiserver_storage_objects{resource="vaults.keyvault.azure.com"} 0
apiserver_resource_objects{group="keyvault.azure.com",resource="vaults"} 0
apiserver_resource_objects{group="web.azure.com",resource="sites"} 2
apiserver_resource_objects{group="",resource="pods"} 2
process_start_time_seconds 1.7648e+09
"#;

    fn scrape(text: &str) -> Scrape {
        let mut scrape = Scrape::default();
        text.lines().for_each(|line| scrape.line(line));
        scrape
    }

    fn names(hints: &BTreeSet<Resource>) -> Vec<String> {
        hints.iter().map(|(group, resource)| format!("{resource}.{group}")).collect()
    }

    #[test]
    fn only_real_writes_of_our_objects_count() {
        let hints = Counters::default().hints(scrape(METRICS));
        assert_eq!(
            names(&hints),
            [
                "containerapps.app.azure.com",
                "resourcegroups.resources.azure.com",
                "storageaccounts.storage.azure.com",
                "sites.web.azure.com",
            ]
        );
    }

    #[test]
    fn only_growth_is_a_hint() {
        let mut counters = Counters::default();
        let writes = METRICS.replace("_objects{", "_other{");
        counters.hints(scrape(&writes));
        assert!(counters.hints(scrape(&writes)).is_empty());
        let grown =
            writes.replace(r#"verb="APPLY",version="v1api20240301"} 1"#, r#"verb="APPLY",version="v1api20240301"} 2"#);
        assert_eq!(names(&counters.hints(scrape(&grown))), ["containerapps.app.azure.com"]);
    }

    #[test]
    fn another_server_has_counts_of_its_own() {
        let mut counters = Counters::default();
        let writes = METRICS.replace("_objects{", "_other{");
        counters.hints(scrape(&writes));
        let other = writes.replace("1.7648e+09", "1.7649e+09");
        assert_eq!(counters.hints(scrape(&other)).len(), 2);
        assert!(counters.hints(scrape(&writes)).is_empty() && counters.hints(scrape(&other)).is_empty());
    }

    #[test]
    fn broken_lines_are_passed_over() {
        let text = "apiserver_request_total{\napiserver_request_total{group=\"x.azure.com\n apiserver_request_total} 1";
        assert_eq!(scrape(text), Scrape::default());
    }
}
