//! The nodes of a kind, from the lines of its provider's block.

use std::collections::HashMap;

use super::Error;
use crate::entry::VersionEntry;
use crate::graph::{Graph, Node, NodeId};

/// The nodes that the kind's versions reach, renumbered, and the new ids of the roots.
pub(crate) fn read_graph(text: &str, block: u32, versions: &[VersionEntry]) -> Result<(Graph, Vec<NodeId>), Error> {
    let lines: Vec<&str> = text.lines().collect();
    let mut ids: HashMap<NodeId, NodeId> = HashMap::new();
    let mut order: Vec<NodeId> = Vec::new();
    let mut intern = |old: NodeId, order: &mut Vec<NodeId>| {
        *ids.entry(old).or_insert_with(|| {
            order.push(old);
            NodeId::try_from(order.len() - 1).unwrap_or(NodeId::MAX)
        })
    };
    let roots: Vec<NodeId> = versions.iter().map(|v| intern(v.root, &mut order)).collect();
    let mut nodes: Vec<Node> = Vec::new();
    while nodes.len() < order.len() {
        let old = order[nodes.len()];
        let fail = |reason: String| Error::Node { node: old, block, reason };
        let line = lines.get(old as usize).ok_or_else(|| fail("the line does not exist".to_owned()))?;
        let mut node = Node::from_line(line).map_err(|e| fail(e.to_string()))?;
        node.for_each_child(|child| *child = intern(*child, &mut order));
        nodes.push(node);
    }
    Ok((Graph::new(nodes), roots))
}
