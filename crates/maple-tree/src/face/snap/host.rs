//! How a map carries out plans: in place, with nodes that have been made its own.

use core::ptr::NonNull;

use crate::alloc::{AllocError, NodeAlloc, Reserve};
use crate::base::{Duplicate, Key, Shape};
use crate::face::host::Host;
use crate::face::snap::own::Owning;
use crate::face::snap::release::release;
use crate::node::{LAYOUT, Node, RawTree, Word};
use crate::write::plan::Action;
use crate::write::{Plan, Quick, Room, Sink};

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

impl<K: Key, V: Duplicate, S: Shape, A: NodeAlloc> Host<K, V, S> for Owning<'_, K, V, S, A> {
    #[inline]
    fn tree(&self) -> &RawTree<K, S> {
        self.raw
    }

    // Calls, each of them: in line in the ways of a write they would take tens of kilobytes of stack.
    #[inline(never)]
    fn carry_out(
        &mut self,
        mut plan: Plan<K, S>,
        entry: impl FnMut(K, K, Word),
    ) -> Result<(), AllocError> {
        if let Action::Nothing = plan.action {
            return Ok(());
        }
        plan.leave_root_to_nodes();
        while let Some((key, level)) = plan.shared {
            self.path(key, level)?;
            self.raw.plan_again(&mut plan);
        }
        let mut reserve = Reserve::new();
        if let Err(error) = reserve.fill(plan.nodes, self.alloc) {
            reserve.release(self.alloc);
            return Err(error);
        }
        self.made = true;
        let mut sink = Releasing { tree: self, entry };
        // SAFETY: the tree is exclusively borrowed, and what the plan changes is its own, so that there are no other writers and no readers; the plan
        // was just made; its nodes are reserved; its word is a value's or NULL.
        unsafe { self.raw.apply(plan, &mut reserve, &mut sink) };
        Ok(())
    }

    fn carry_out_quick(
        &mut self,
        quick: Quick<K, S>,
        entry: impl FnMut(K, K, Word),
    ) -> Result<(), AllocError> {
        if let Room::Here = quick.room {
            self.change_leaf(quick, entry);
            return Ok(());
        }
        // The neighbour may be shared.
        let plan = self.raw.plan_store(quick.first, quick.last, quick.word);
        self.carry_out(plan, entry)
    }

    #[inline(never)]
    fn carry_out_split(&mut self, quick: Quick<K, S>, twin: NonNull<()>) -> Result<(), AllocError> {
        self.made = true;
        let mut sink = Releasing {
            tree: self,
            entry: |_, _, _| {},
        };
        // SAFETY: as in `carry_out_quick`; the twin is a value's word, too.
        unsafe {
            self.raw
                .apply_split(quick, twin.as_ptr(), &mut Reserve::new(), &mut sink);
        }
        Ok(())
    }

    fn discard(word: Word) {
        if let Some(raw) = NonNull::new(word) {
            // SAFETY: the word has been removed from the tree, which owned the value.
            drop(unsafe { V::from_raw(raw) });
        }
    }
}

impl<K: Key, V: Duplicate, S: Shape, A: NodeAlloc> Owning<'_, K, V, S, A> {
    /// Carries out a write for which the leaf has room.
    #[inline(never)]
    fn change_leaf(&mut self, quick: Quick<K, S>, entry: impl FnMut(K, K, Word)) {
        self.made = true;
        // Said once more for the compiler, which leaves the other ways out then.
        let quick = Quick {
            room: Room::Here,
            ..quick
        };
        let mut sink = Releasing { tree: self, entry };
        // SAFETY: as in `carry_out`; nothing but the leaf is changed, which takes no node.
        unsafe { self.raw.apply_quick(quick, &mut Reserve::new(), &mut sink) };
    }
}
