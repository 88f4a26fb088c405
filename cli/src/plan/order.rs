//! The order of requests: what others need comes first, and otherwise the order of the input stands.
//!
//! Pure graph work; a node is an index, an edge names the field that makes it.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// Something that must come before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// What must come before.
    pub to: usize,
    /// The field that says so.
    pub field: String,
}

/// An order, and what has none.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Nodes in order.
    pub sequence: Vec<usize>,
    /// Nodes that wait for each other in a ring: each has an edge to the next, and the last to the first.
    pub cycles: Vec<Vec<(usize, Edge)>>,
    /// Nodes that wait for a ring without being in one.
    pub stuck: Vec<usize>,
}

/// Orders nodes by what each needs.
pub(crate) fn order(needs: &[Vec<Edge>]) -> Order {
    let mut waiting: Vec<usize> =
        needs.iter().map(|edges| edges.iter().map(|e| e.to).collect::<BTreeSet<_>>().len()).collect();
    let mut followers: Vec<Vec<usize>> = vec![Vec::new(); needs.len()];
    for (node, edges) in needs.iter().enumerate() {
        for to in edges.iter().map(|e| e.to).collect::<BTreeSet<_>>() {
            followers[to].push(node);
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> = (0..needs.len()).filter(|&n| waiting[n] == 0).map(Reverse).collect();
    let mut order = Order::default();
    while let Some(Reverse(node)) = ready.pop() {
        order.sequence.push(node);
        for &follower in &followers[node] {
            waiting[follower] -= 1;
            if waiting[follower] == 0 {
                ready.push(Reverse(follower));
            }
        }
    }
    let mut left: BTreeSet<usize> = (0..needs.len()).filter(|&n| waiting[n] > 0).collect();
    let mut in_cycles = BTreeSet::new();
    // Each node that is left needs another one that is left, so following edges returns to a node seen before.
    while let Some(&start) = left.iter().next() {
        let (cycle, walked) = ring(start, needs, &left);
        in_cycles.extend(cycle.iter().map(|(node, _)| *node));
        left.retain(|node| !walked.contains(node));
        if !cycle.is_empty() {
            order.cycles.push(cycle);
        }
    }
    order.stuck = (0..needs.len()).filter(|n| waiting[*n] > 0 && !in_cycles.contains(n)).collect();
    order
}

/// Follows edges from `start` until a node comes again: the ring, and every node on the way. The ring is empty if the way ends in one known before.
fn ring(start: usize, needs: &[Vec<Edge>], left: &BTreeSet<usize>) -> (Vec<(usize, Edge)>, Vec<usize>) {
    let mut way: Vec<(usize, Edge)> = Vec::new();
    let mut node = start;
    loop {
        if let Some(at) = way.iter().position(|(n, _)| *n == node) {
            let walked = way.iter().map(|(n, _)| *n).collect();
            return (way.split_off(at), walked);
        }
        let Some(edge) = needs[node].iter().find(|e| left.contains(&e.to)) else {
            let walked = way.iter().map(|(n, _)| *n).chain([node]).collect();
            return (Vec::new(), walked);
        };
        way.push((node, edge.clone()));
        node = edge.to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(of: &[&[usize]]) -> Vec<Vec<Edge>> {
        of.iter().map(|n| n.iter().map(|&to| Edge { to, field: format!("f{to}") }).collect()).collect()
    }

    #[test]
    fn what_is_needed_comes_first_and_the_rest_keeps_its_place() {
        let order = order(&needs(&[&[3], &[], &[1, 1], &[]]));
        assert_eq!(order.sequence, [1, 2, 3, 0]);
        assert!(order.cycles.is_empty() && order.stuck.is_empty());
    }

    #[test]
    fn rings_are_named_once_and_what_hangs_on_them_is_told_apart() {
        let order = order(&needs(&[&[1], &[2], &[1], &[], &[4], &[0, 3]]));
        assert_eq!(order.sequence, [3]);
        let rings: Vec<Vec<usize>> = order.cycles.iter().map(|c| c.iter().map(|(n, _)| *n).collect()).collect();
        assert_eq!(rings, [vec![1, 2], vec![4]]);
        assert_eq!(order.stuck, [0, 5]);
    }
}
