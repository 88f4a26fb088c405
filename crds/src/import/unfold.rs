//! Whether a type can be unfolded into fields.
//!
//! Fields form a tree and types a graph: one that is small and names its parts many times, or itself, becomes a tree of any size. So it is
//! unfolded here as `shape` does it, and refused where that goes on for too long.

use crate::graph::{Node, NodeId};
use crate::shape::MAX_VISITS;

/// The largest of Azure's has 6,000.
const MOST_FIELDS: usize = 100_000;
/// Levels of fields. Azure's have 20.
const MOST_LEVELS: usize = 150;

/// Refuses a body that has too many fields or levels.
pub(super) fn check(nodes: &[Node], root: NodeId) -> Result<(), String> {
    let mut walk = Walk { nodes, path: Vec::new(), fields: 0 };
    walk.node(root)
}

struct Walk<'a> {
    nodes: &'a [Node],
    path: Vec<NodeId>,
    fields: usize,
}

impl Walk<'_> {
    fn node(&mut self, id: NodeId) -> Result<(), String> {
        let Some(node) = self.nodes.get(id as usize) else { return Ok(()) };
        let is_list = matches!(node, Node::Array { .. });
        // Lists are no level of their own to `shape`, which would follow one of itself for ever.
        if !is_list && self.path.iter().filter(|&&p| p == id).count() >= MAX_VISITS {
            return Ok(());
        }
        self.path.push(id);
        if self.path.len() > MOST_LEVELS {
            return Err(format!("it has more than {MOST_LEVELS} levels of fields, or a list of itself"));
        }
        match node {
            Node::Object { props, extra } => {
                self.count(props.len())?;
                for child in props.iter().map(|prop| prop.node).chain(*extra) {
                    self.node(child)?;
                }
            }
            Node::Union { base, cases, .. } => {
                for case in cases {
                    self.count(base.len() + 1)?;
                    for prop in base {
                        self.node(prop.node)?;
                    }
                    self.node(case.node)?;
                }
            }
            Node::Array { item, .. } => self.node(*item)?,
            _ => {}
        }
        self.path.pop();
        Ok(())
    }

    fn count(&mut self, more: usize) -> Result<(), String> {
        self.fields += more;
        if self.fields > MOST_FIELDS { Err(format!("it unfolds to more than {MOST_FIELDS} fields")) } else { Ok(()) }
    }
}
