//! Circles in a graph: groups in which everybody can be reached from everybody else.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Who uses whom, and where.
pub(crate) type Graph = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// The groups of more than one, each in order of names.
pub(crate) fn find(graph: &Graph) -> Vec<Vec<String>> {
    let reach: BTreeMap<&String, BTreeSet<&String>> = graph.keys().map(|from| (from, reachable(graph, from))).collect();
    let mut found: Vec<Vec<String>> = Vec::new();
    for (from, reached) in &reach {
        let together = |to: &&&String| reach.get(**to).is_some_and(|back| back.contains(from));
        let group: Vec<String> = reached.iter().filter(together).map(|name| (*name).clone()).collect();
        if group.len() > 1 && !found.contains(&group) {
            found.push(group);
        }
    }
    found
}

/// The uses that make the circle, one a line.
pub(crate) fn explain(graph: &Graph, circle: &[String]) -> String {
    let mut text = String::new();
    for from in circle {
        for (to, places) in graph.get(from).into_iter().flatten().filter(|(to, _)| circle.contains(to)) {
            let places: Vec<&str> = places.iter().map(String::as_str).collect();
            let _ = writeln!(text, "    {from} -> {to}: {}", places.join(", "));
        }
    }
    text
}

fn reachable<'a>(graph: &'a Graph, from: &'a String) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut next = vec![from];
    while let Some(at) = next.pop() {
        next.extend(graph.get(at).into_iter().flat_map(BTreeMap::keys).filter(|to| found.insert(*to)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circle_is_found_whatever_hangs_on_it() {
        let uses = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"), ("c", "e"), ("f", "f")];
        let mut graph = Graph::new();
        for (from, to) in uses {
            graph.entry(from.into()).or_default().entry(to.into()).or_default().insert(format!("{from}.rs"));
        }
        let circles = find(&graph);
        assert_eq!(circles, [["a", "b", "c"]]);
        assert_eq!(explain(&graph, &circles[0]), "    a -> b: a.rs\n    b -> c: b.rs\n    c -> a: c.rs\n");
    }
}
