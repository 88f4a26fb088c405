//! Merges nodes that mean the same, recursion included, and numbers the rest in the order in which the roots reach them.
//!
//! Two nodes are equal if they look alike and their children are equal. Starting from "all children are equal", classes are split until no split
//! happens any more; what is then left together can't be told apart by any walk.

use std::collections::HashMap;

use crate::graph::{Node, NodeId};

/// The merged nodes, and the roots' new ids.
pub(super) fn minimise(nodes: Vec<Node>, roots: &[NodeId]) -> (Vec<Node>, Vec<NodeId>) {
    let mut class: Vec<NodeId> = vec![0; nodes.len()];
    let mut count = 0;
    loop {
        let mut ids: HashMap<Node, NodeId> = HashMap::new();
        let mut next = Vec::with_capacity(nodes.len());
        for node in &nodes {
            let mut seen = node.clone();
            seen.for_each_child(|child| *child = class[*child as usize]);
            let new = id(ids.len());
            next.push(*ids.entry(seen).or_insert(new));
        }
        class = next;
        if ids.len() == count {
            break;
        }
        count = ids.len();
    }
    number(nodes, &class, roots)
}

fn number(nodes: Vec<Node>, class: &[NodeId], roots: &[NodeId]) -> (Vec<Node>, Vec<NodeId>) {
    let mut one_of: HashMap<NodeId, Node> = HashMap::new();
    for (node, class) in nodes.into_iter().zip(class) {
        one_of.entry(*class).or_insert(node);
    }
    let mut new: HashMap<NodeId, NodeId> = HashMap::new();
    let mut order: Vec<NodeId> = Vec::new();
    let mut number = |class: NodeId, order: &mut Vec<NodeId>| {
        *new.entry(class).or_insert_with(|| {
            order.push(class);
            id(order.len() - 1)
        })
    };
    let roots = roots.iter().map(|&root| number(class[root as usize], &mut order)).collect();
    let mut merged = Vec::new();
    while merged.len() < order.len() {
        let mut node = one_of.get(&order[merged.len()]).cloned().unwrap_or(Node::Any);
        node.for_each_child(|child| *child = number(class[*child as usize], &mut order));
        merged.push(node);
    }
    (merged, roots)
}

fn id(number: usize) -> NodeId {
    NodeId::try_from(number).unwrap_or(NodeId::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Flags, Prop};

    fn object(child: NodeId) -> Node {
        Node::Object { props: vec![Prop { name: "a".into(), flags: Flags(0), node: child, rename: None }], extra: None }
    }

    #[test]
    fn equal_trees_become_one() {
        let nodes = vec![object(1), Node::Boolean, object(3), Node::Boolean, object(5), Node::Any];
        let (nodes, roots) = minimise(nodes, &[0, 2, 4]);
        assert_eq!(roots, [0, 0, 1]);
        assert_eq!(nodes.len(), 4);
    }

    #[test]
    fn equal_cycles_become_one() {
        // A list of itself, once with one and once with two nodes in the cycle.
        let nodes = vec![object(0), object(2), object(1)];
        let (nodes, roots) = minimise(nodes, &[0, 1]);
        assert_eq!((nodes.len(), roots), (1, vec![0, 0]));
    }
}
