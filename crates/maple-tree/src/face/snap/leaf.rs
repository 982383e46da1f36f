//! A write within one leaf that is owned and has room: no node is allocated, and nothing can fail.

use core::ptr::NonNull;

use crate::alloc::NodeAlloc;
use crate::base::{Duplicate, Key, Shape};
use crate::face::snap::level::tell_ancestors;
use crate::face::snap::path::Path;
use crate::face::snap::release::Removed;
use crate::face::snap::rewrite::{Edit, Rewrite};
use crate::node::{NULL, Word};
use crate::write::apply::splice;
use crate::write::holes::largest_in_leaf;

impl<K: Key, S: Shape, A: NodeAlloc> Rewrite<'_, K, S, A> {
    /// Puts a word where the slots of the leaf are from the one that `left` leads to up to `to`, with what stays of these as `edit`
    /// says; `twin` is the value of what stays after it, if that is another one than the last slot's. `taken` is the slot of an entry whose
    /// value is handed out.
    ///
    /// # Safety
    ///
    /// As [`put`](Self::put), and the leaf that `left` leads to is owned and has room.
    pub(super) unsafe fn in_leaf<V: Duplicate>(
        &self,
        left: &Path<K, S>,
        to: usize,
        edit: &Edit<K>,
        word: Word,
        twin: Option<V>,
        taken: Option<usize>,
    ) -> Option<V> {
        let step = *left.at(0);
        let (leaf, from) = (step.node, step.slot);
        let (head, tail) = (leaf.slot(from), leaf.slot(to));
        let out = taken.map_or(NULL, |slot| leaf.slot(slot));
        if let Some(slot) = taken {
            // SAFETY: the leaf is owned: nobody else sees it. The value moves.
            unsafe { leaf.write() }.set_slot(slot, NULL);
        }
        let mut removed = Removed::new();
        for i in from..=to {
            let kept = (i == from && edit.head.is_some()) || (i == to && edit.tail.is_some());
            if !kept {
                removed.push(leaf.slot(i));
            }
        }
        let tail = twin.map_or(tail, |value| value.into_raw().as_ptr());
        let items = edit.items(head, word, tail);
        // SAFETY: the leaf is owned: nobody else sees it.
        splice(unsafe { leaf.write() }, from, to, items.as_slice());
        if self.raw.tracks_gaps() {
            tell_ancestors(left, 0, largest_in_leaf(leaf, step.min, step.max));
        }
        // SAFETY: it is no longer in the tree, and not among those that are removed. It is a value again before any of those is dropped,
        // which may panic.
        let out = NonNull::new(out).map(|raw| unsafe { V::from_raw(raw) });
        // SAFETY: values that are no longer in the tree.
        unsafe { removed.release::<K, V, S, A>(true, self.alloc) };
        out
    }
}
