//! How a map carries out plans: in place, with nodes that have been made its own.

use core::ptr::NonNull;

use crate::alloc::{AllocError, NodeAlloc, Reserve};
use crate::base::{Duplicate, Key, Shape};
use crate::face::host::Host;
use crate::face::snap::own::Owning;
use crate::face::snap::release::release;
use crate::node::{LAYOUT, Node, RawTree, Word};
use crate::write::plan::Action;
use crate::write::{Plan, Sink};

/// Frees nodes at once, or gives up a count of them, and hands entries to a closure.
struct Releasing<'o, 'a, K: Key, V: Duplicate, S: Shape, A: NodeAlloc, F> {
    tree: &'o Owning<'a, K, V, S, A>,
    entry: F,
}

impl<K, V, S, A, F> Sink<K> for Releasing<'_, '_, K, V, S, A, F>
where
    K: Key,
    V: Duplicate,
    S: Shape,
    A: NodeAlloc,
    F: FnMut(K, K, Word),
{
    fn entry(&mut self, first: K, last: K, word: Word) {
        (self.entry)(first, last, word);
    }

    fn node(&mut self, block: NonNull<u8>) {
        // SAFETY: the tree's nodes are given back to this allocator; this one was its own, and has been replaced.
        unsafe { self.tree.alloc.deallocate(block, LAYOUT) }
    }

    fn shared(&mut self, node: Word) {
        // SAFETY: the tree's count, which does not lead there any more.
        unsafe { release::<K, V, S, A>(Node::from_word(node), self.tree.alloc) }
    }
}

// SAFETY: the tree's words are values of `V`; it is exclusively borrowed, and what a write changes is its own, so that there are no other writers and no
// readers; nodes come from its allocator.
unsafe impl<K: Key, V: Duplicate, S: Shape, A: NodeAlloc> Host<K, V, S> for Owning<'_, K, V, S, A> {
    /// What is beside what a write touches may be shared.
    const OWNS_NODES: bool = false;

    #[inline]
    fn tree(&self) -> &RawTree<K, S> {
        self.raw
    }

    fn reserved(&mut self, count: usize) -> Result<Reserve, AllocError> {
        Reserve::of(count, self.alloc)
    }

    fn alone(&self) -> bool {
        true
    }

    fn begins(&mut self) {
        self.made = true;
    }

    fn sink(&self, _: Option<K>, entry: impl FnMut(K, K, Word)) -> impl Sink<K> {
        // No entry is ever kept: that is for entries that grow.
        Releasing { tree: self, entry }
    }

    // A call: in line in the ways of a write it would take tens of kilobytes of stack.
    #[inline(never)]
    fn carry_out(
        &mut self,
        mut plan: Plan<K, S>,
        kept: Option<K>,
        taken: impl FnMut(K, K, Word),
    ) -> Result<(), AllocError> {
        if let Action::Nothing = plan.action {
            return Ok(());
        }
        plan.leave_root_to_nodes();
        while let Some((key, level)) = plan.shared {
            self.path(key, level)?;
            self.raw.plan_again(&mut plan);
        }
        let mut reserve = self.reserved(plan.nodes)?;
        self.carry_out_with(plan, &mut reserve, kept, taken);
        Ok(())
    }

    fn discard(word: Word) {
        if let Some(raw) = NonNull::new(word) {
            // SAFETY: the word has been removed from the tree, which owned the value.
            drop(unsafe { V::from_raw(raw) });
        }
    }
}
