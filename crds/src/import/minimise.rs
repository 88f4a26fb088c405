//! Merges nodes that mean the same, recursion included, and numbers the rest in the order in which the roots reach them.
//!
//! Two nodes are equal if they look alike and their children are equal. Starting from "all that look alike are equal", classes are split until no split
//! happens any more; what is then left together can't be told apart by any walk.

use std::collections::HashMap;

use crate::graph::{Node, NodeId};

/// The merged nodes of a set, and its roots' new ids.
pub(super) struct Merged {
    pub(super) nodes: Vec<Node>,
    /// By tier, as given.
    pub(super) roots: Vec<Vec<NodeId>>,
    /// How many nodes the roots of this tier and those before it reach: they come first in `nodes`.
    pub(super) reach: Vec<usize>,
}

/// Merges nodes. Roots come in tiers; nodes that an earlier tier reaches have the lower numbers.
pub(super) fn minimise(nodes: Vec<Node>, tiers: &[Vec<NodeId>]) -> Merged {
    let classes = classes(&nodes);
    number(nodes, &classes, tiers)
}

/// The class of each node.
fn classes(nodes: &[Node]) -> Vec<NodeId> {
    // What a node looks like does not change from round to round, only which classes its children are in.
    let mut looks: HashMap<Node, NodeId> = HashMap::new();
    let mut children: Vec<Vec<NodeId>> = Vec::with_capacity(nodes.len());
    let mut class: Vec<NodeId> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let mut look = node.clone();
        let mut below = Vec::new();
        look.for_each_child(|child| below.push(std::mem::take(child)));
        let new = id(looks.len());
        class.push(*looks.entry(look).or_insert(new));
        children.push(below);
    }
    let mut count = looks.len();
    loop {
        let mut ids: HashMap<(NodeId, Vec<NodeId>), NodeId> = HashMap::with_capacity(count);
        let next: Vec<NodeId> = class
            .iter()
            .zip(&children)
            .map(|(&own, below)| {
                let new = id(ids.len());
                *ids.entry((own, below.iter().map(|&child| class[child as usize]).collect())).or_insert(new)
            })
            .collect();
        class = next;
        if ids.len() == count {
            return class;
        }
        count = ids.len();
    }
}

fn number(nodes: Vec<Node>, class: &[NodeId], tiers: &[Vec<NodeId>]) -> Merged {
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
    let mut merged = Merged { nodes: Vec::new(), roots: Vec::new(), reach: Vec::new() };
    for roots in tiers {
        merged.roots.push(roots.iter().map(|&root| number(class[root as usize], &mut order)).collect());
        while merged.nodes.len() < order.len() {
            let mut node = one_of.get(&order[merged.nodes.len()]).cloned().unwrap_or(Node::Any);
            node.for_each_child(|child| *child = number(class[*child as usize], &mut order));
            merged.nodes.push(node);
        }
        merged.reach.push(merged.nodes.len());
    }
    merged
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
        let merged = minimise(nodes, &[vec![0, 2, 4]]);
        assert_eq!(merged.roots, [[0, 0, 1]]);
        assert_eq!(merged.nodes.len(), 4);
    }

    #[test]
    fn equal_cycles_become_one() {
        // A list of itself, once with one and once with two nodes in the cycle.
        let nodes = vec![object(0), object(2), object(1)];
        let merged = minimise(nodes, &[vec![0, 1]]);
        assert_eq!((merged.nodes.len(), merged.roots), (1, vec![vec![0, 0]]));
    }

    #[test]
    fn earlier_tiers_have_the_lower_numbers() {
        // The second tier has a node of its own and shares one with the first.
        let nodes = vec![object(1), Node::Any, object(3), Node::Boolean];
        let merged = minimise(nodes, &[vec![2], vec![0, 2]]);
        assert_eq!((merged.roots, merged.reach), (vec![vec![0], vec![2, 0]], vec![2, 4]));
        assert_eq!(merged.nodes[1], Node::Boolean);
    }
}
