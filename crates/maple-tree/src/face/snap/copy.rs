//! Making a path a tree's own: its shared nodes are copied as they are, so that its leaf can be changed in place.
//!
//! This is what most first writes after a snapshot come to. Nodes are copied as memory, but for their first words; what the copies lead to is
//! counted once more, except on the path itself.

use core::marker::PhantomData;

use crate::alloc::{AllocError, NodeAlloc};
use crate::base::{Duplicate, Key, Shape, Value};
use crate::face::snap::path::Path;
use crate::face::snap::prepare::Ready;
use crate::face::snap::release::release;
use crate::face::snap::rewrite::Rewrite;
use crate::node::{NULL, Node, prefetch};

/// A node that a path led to before it was copied, and the count of it that the tree owned. Given up when it is dropped: when the tree is as it
/// should be, since others may have given up the node meanwhile, and dropping its values may panic.
#[must_use = "to be dropped when the write is done"]
pub(super) struct Replaced<'a, K: Key, V: Value, S: Shape, A: NodeAlloc> {
    node: Option<Node<K, S>>,
    alloc: &'a A,
    marker: PhantomData<V>,
}

impl<K: Key, V: Value, S: Shape, A: NodeAlloc> Drop for Replaced<'_, K, V, S, A> {
    fn drop(&mut self) {
        if let Some(node) = self.node {
            // SAFETY: the tree's own count, which does not lead here any more.
            unsafe { release::<K, V, S, A>(node, self.alloc) };
        }
    }
}

impl<'a, K: Key, S: Shape, A: NodeAlloc> Rewrite<'a, K, S, A> {
    /// Makes the nodes of a path the tree's own; the path then leads to the copies. Slots of the leaf that do not `stay` may be NULL in a copy:
    /// their values are not made once more. If there is no memory, nothing has changed.
    ///
    /// # Safety
    ///
    /// As [`put`](Self::put).
    pub(super) unsafe fn copy_path<V: Duplicate>(
        &self,
        path: &mut Path<K, S>,
        stay: impl Fn(usize) -> bool,
    ) -> Result<Replaced<'a, K, V, S, A>, AllocError> {
        let shared = path.shared();
        let mut replaced = Replaced {
            node: None,
            alloc: self.alloc,
            marker: PhantomData,
        };
        if shared == 0 {
            return Ok(replaced);
        }
        let mut ready = Ready::<V, A>::new(self.alloc);
        ready.nodes(shared)?;
        let leaf = path.at(0).node;
        if !V::PLAIN {
            for i in (0..leaf.used()).filter(|&i| stay(i)) {
                // SAFETY: words in the tree are values, which stay while the tree is borrowed.
                unsafe { ready.duplicate(leaf.slot(i)) }?;
            }
        }
        // Nothing fails from here on.
        let mut below = NULL;
        for level in 0..shared {
            let step = path.at_mut(level);
            let node = step.node;
            let copy = ready.reserve.take_counted(node);
            if level > 0 {
                // Raising waits for the memory each time, reading does not: let all come at once.
                for i in 0..node.used() {
                    prefetch::first_line(node.slot(i));
                }
                for i in (0..node.used()).filter(|&i| i != step.slot) {
                    node.child(i).raise();
                }
                copy.set_slot(step.slot, below);
            } else if !V::PLAIN {
                for i in 0..node.used() {
                    let word = if stay(i) {
                        ready.next(node.slot(i))
                    } else {
                        NULL
                    };
                    copy.set_slot(i, word);
                }
            }
            below = copy.node().word();
            replaced.node = Some(node);
            step.node = copy.node();
            step.owned = true;
        }
        if shared < path.height() {
            let above = path.at(shared);
            // SAFETY: the node is owned: nobody else sees it.
            unsafe { above.node.write() }.set_slot(above.slot, below);
        } else {
            self.raw.publish_root(below, self.raw.height());
        }
        ready.assert_used_up();
        Ok(replaced)
    }
}
