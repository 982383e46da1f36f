//! Writes through a state: plan, reserve, apply, and the handling of a lack of memory.
//!
//! Preallocated nodes are linked from the state's `alloc`. A write takes what it needs from there
//! and allocates the rest without blocking. If that fails, the state becomes an error and remembers
//! how many nodes were missing. Nothing else has changed. [`refill`](MaState::refill) then
//! allocates with the caller's flags, without the tree's own lock if that may block. After that the
//! write starts again from the beginning.

use core::ffi::c_int;
use core::ptr;

use maple_tree::raw::{At, InLeaf, NodeReserve, Write};

use crate::maple_tree::abi::{
    MaState, MapleTree, Status, errno, error_of, error_word, gfp, mas_flags,
};
use crate::maple_tree::hooks;
use crate::maple_tree::memory::{FreeBatch, Gfp};
use crate::maple_tree::rcu::{RetiredNodes, free};

/// Returns the most carriers that a run of ascending stores needs, in addition to the nodes that
/// are counted for stores of two slots each.
///
/// Each store replaces the last leaf. A leaf has no idle words if at most one of its slots is
/// unused. That happens once in the life of a leaf without a split, by a store of one slot, in a
/// leaf that lives for at least 9 stores. At a split the parent is replaced, too, and it is full at
/// 3 of 16 splits at most. Such leaves need fewer nodes than were counted, and that difference
/// covers these.
fn carriers_for_run(entries: usize) -> usize {
    entries / 9 + 2
}

impl MapleTree {
    /// Applies a write and retires the nodes that it replaced. Returns the new position of the
    /// range, if it is known.
    ///
    /// # Safety
    ///
    /// As for [`WordTree::write`](maple_tree::raw::WordTree::write). The reserve holds the number
    /// of nodes of [`nodes_for`](Self::nodes_for).
    unsafe fn apply(&self, write: Write, reserve: &mut NodeReserve) -> Option<InLeaf> {
        let rcu = self.in_rcu();
        let mut retired = RetiredNodes::new();
        let moves = write.moves_leaves;
        // SAFETY: the caller's promise. Each node was just retired, and outside RCU mode it has no
        // readers.
        let position = unsafe {
            self.words.write(write, reserve, |block| {
                if rcu {
                    retired.push(block);
                } else {
                    free(block);
                }
            })
        };
        if moves {
            self.ma_lock.note_change();
        }
        if rcu {
            if retired.needs_carrier()
                // SAFETY: there is one allocator, which stays.
                && let Some(block) = unsafe { reserve.take() }
            {
                // SAFETY: nothing else uses a reserved node.
                unsafe { retired.add_carrier(block) };
            }
            retired.retire();
        }
        position
    }

    /// Returns the number of nodes that must be reserved for a write: those that it takes, and a
    /// carrier if its retired nodes may have no space for the head of a grace period.
    fn nodes_for(&self, write: &Write) -> usize {
        let heads = self.in_rcu() && hooks::has_call_rcu();
        write.nodes + usize::from(heads && !write.leaves_idle_words())
    }

    /// Empties the tree. Its modes stay.
    ///
    /// # Safety
    ///
    /// The caller is the only writer.
    pub(crate) unsafe fn clear(&self) {
        // SAFETY: the caller's promise. Nodes are passed on once nothing leads to them, and outside
        // RCU mode they have no readers.
        unsafe {
            if self.in_rcu() {
                let mut retired = RetiredNodes::new();
                self.words.clear(|block| retired.push(block));
                self.ma_lock.note_change();
                retired.retire();
            } else {
                self.ma_lock.note_change();
                match &mut FreeBatch::new() {
                    // With the type known to the compiler, this is a few instructions per node.
                    FreeBatch::Pool(pool) => self.words.clear(|block| pool.add(block)),
                    hooks => self.words.clear(|block| hooks.add(block)),
                }
            }
        }
    }
}

impl MaState {
    fn take_reserve(&mut self) -> NodeReserve {
        let raw = core::mem::replace(&mut self.alloc, ptr::null_mut());
        // SAFETY: `alloc` belongs to the library: it is NULL, or what `put_reserve` left there.
        unsafe { NodeReserve::from_raw(raw) }
    }

    fn put_reserve(&mut self, reserve: NodeReserve) {
        // SAFETY: there is one allocator, which stays.
        self.alloc = unsafe { reserve.into_raw() };
    }

    /// Frees the preallocated nodes.
    pub(crate) fn release(&mut self) {
        // SAFETY: whatever the flags, there is one allocator.
        unsafe { self.take_reserve().release(&Gfp(gfp::NOWAIT)) };
        self.mas_flags = 0;
    }

    /// Exchanges the entry at the state's position for another, if the entry covers exactly
    /// `index..=last`. Returns the old entry.
    ///
    /// While a state is in its leaf, this is one comparison and one store, which readers see at
    /// once.
    ///
    /// # Safety
    ///
    /// The caller is the only writer.
    #[inline(always)]
    pub(crate) unsafe fn exchange(&mut self, entry: *mut ()) -> Option<*mut ()> {
        // SAFETY: the caller's promise.
        let tree = unsafe { self.tree() };
        if entry.is_null() || self.status != Status::ACTIVE || !self.is_current(tree) {
            return None;
        }
        // SAFETY: no leaf has been moved since the state's leaf, if any, was looked up. The rest is
        // the caller's promise.
        unsafe {
            tree.words
                .exchange(self.in_leaf(), (self.index, self.last), entry)
        }
    }

    /// Returns the slot of the state at its last look-up.
    #[inline(always)]
    pub(crate) fn in_leaf(&self) -> InLeaf {
        InLeaf {
            leaf: self.node,
            min: self.min,
            max: self.max,
            offset: self.offset,
        }
    }

    /// Returns the slot at `index`, for a write, from the current leaf if that covers it. Returns
    /// `None` in a tree without nodes.
    ///
    /// # Safety
    ///
    /// The caller is the only writer.
    #[inline]
    pub(crate) unsafe fn position(&self) -> Option<At> {
        // SAFETY: the caller's promise.
        let tree = unsafe { self.tree() };
        // SAFETY: if the leaf is known, no leaf has been moved since it was looked up. The rest is
        // the caller's promise.
        unsafe {
            if self.leaf_covers(tree, self.index) {
                Some(tree.words.at_in(self.in_leaf(), self.index))
            } else {
                tree.words.at(self.index)
            }
        }
    }

    /// Stores `entry` over `index..=last`. NULL erases. Uses preallocated nodes, and keeps the rest
    /// of them. The state stays in its leaf if the leaf stays.
    ///
    /// Returns `false` on failure. Then the state is an error, and the rest of it and the tree are
    /// unchanged.
    ///
    /// # Safety
    ///
    /// The caller is the only writer, and outside RCU mode there are no readers.
    pub(crate) unsafe fn store(&mut self, entry: *mut ()) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            if self.exchange(entry).is_some() {
                return true;
            }
            let at = self.position();
            self.store_at(at, entry)
        }
    }

    /// As [`store`](MaState::store), with the slot at `index` known.
    ///
    /// # Safety
    ///
    /// As for [`store`](MaState::store), and the tree has not changed since `at` was found.
    #[inline]
    pub(crate) unsafe fn store_at(&mut self, at: Option<At>, entry: *mut ()) -> bool {
        let range = (self.index, self.last);
        if let Some(at) = at
            && range.0 <= range.1
            // SAFETY: the caller's promise.
            && let Some(position) = unsafe { self.tree().words.put(at, range, entry) }
        {
            self.remain_in_leaf(position);
            return true;
        }
        // SAFETY: as above.
        unsafe { self.store_planned(at, entry) }
    }

    /// As [`store_at`](MaState::store_at), by a plan, with the nodes that it needs.
    ///
    /// # Safety
    ///
    /// As for [`store_at`](MaState::store_at).
    #[inline(never)]
    unsafe fn store_planned(&mut self, at: Option<At>, entry: *mut ()) -> bool {
        // SAFETY: the caller's promise.
        let tree = unsafe { self.tree() };
        if self.index > self.last {
            self.fail(errno::EINVAL);
            return false;
        }
        // SAFETY: the caller's promise.
        let write = unsafe { tree.words.plan(at, self.index, self.last, entry) };
        let mut reserve = self.take_reserve();
        let nodes = tree.nodes_for(&write);
        if reserve.fill_many(nodes, &Gfp(gfp::NOWAIT)).is_err() {
            self.put_reserve(reserve);
            self.fail(errno::ENOMEM);
            // A write changes at most 3 nodes on each of at most 31 levels.
            self.offset = u8::try_from(nodes).unwrap_or(u8::MAX);
            return false;
        }
        // SAFETY: the plan was just made, its nodes are reserved, and the rest is the caller's
        // promise.
        let position = unsafe { tree.apply(write, &mut reserve) };
        self.put_reserve(reserve);
        match position {
            Some(position) => self.remain_in_leaf(position),
            // The position is looked up when it is needed.
            None if tree.words.height() == 0 => self.reset_position(Status::START),
            None => self.reset_position(Status::ACTIVE),
        }
        true
    }

    /// As [`store`](MaState::store), from any position. Returns the first entry that was in the
    /// range, or NULL, also if there is no memory.
    ///
    /// # Safety
    ///
    /// As for [`store`](MaState::store).
    // It has the C ABI, which does not unwind, so that `mas_store` can end in a tail call and needs
    // no stack frame.
    #[inline(never)]
    pub(crate) unsafe extern "C" fn store_over(&mut self, entry: *mut ()) -> *mut () {
        // SAFETY: the caller's promise.
        unsafe {
            let at = self.position();
            let before = self.first_entry(at);
            if !self.store_at(at, entry) {
                return ptr::null_mut();
            }
            self.stored(entry, before)
        }
    }

    /// Completes a store of `entry` over `before`, and returns `before`.
    ///
    /// # Safety
    ///
    /// The caller is the only writer.
    #[inline(never)]
    unsafe fn stored(&mut self, entry: *mut (), before: *mut ()) -> *mut () {
        if self.mas_flags == 0 {
            // Frees nodes that `mas_nomem` allocated and that the tree, which had changed since,
            // did not need.
            self.release();
        }
        // SAFETY: the caller's promise.
        unsafe { self.widen_to_gap(entry) };
        before
    }

    /// Sets the position to a slot of a leaf that the last write has not moved. Index and last are
    /// unchanged.
    fn remain_in_leaf(&mut self, slot: InLeaf) {
        // SAFETY: the state's tree is valid (the caller's duty throughout).
        let changes = unsafe { self.tree() }.ma_lock.changes();
        self.enter(slot, changes);
        self.status = Status::ACTIVE;
    }

    /// Completes a store of `entry`: if it was NULL, sets the state's range to the whole gap.
    ///
    /// # Safety
    ///
    /// The caller is the only writer.
    pub(crate) unsafe fn widen_to_gap(&mut self, entry: *mut ()) {
        if entry.is_null() {
            // SAFETY: the caller's promise: nothing is freed concurrently.
            let hole = unsafe { self.seek(self.index) };
            (self.index, self.last) = (hole.first, hole.last);
        }
    }

    /// Returns the first entry in `index..=last`, or NULL. The range begins in the slot `at` if the
    /// tree has nodes.
    ///
    /// # Safety
    ///
    /// The caller is the only writer.
    pub(crate) unsafe fn first_entry(&self, at: Option<At>) -> *mut () {
        // SAFETY: the caller's promise.
        let words = unsafe { &self.tree().words };
        let mut from = self.index;
        if let Some(at) = at {
            if !at.entry().is_null() || at.last() >= self.last {
                return at.entry();
            }
            from = at.last() + 1;
        }
        loop {
            // SAFETY: the caller's promise: nothing is freed concurrently.
            let slot = unsafe { words.seek(from) };
            if slot.first > self.last {
                return ptr::null_mut();
            }
            if !slot.entry.is_null() || slot.last >= self.last {
                return slot.entry;
            }
            from = slot.last + 1;
        }
    }

    /// Returns `true` if the state is the error of a write without memory.
    fn is_out_of_memory(&self) -> bool {
        self.status == Status::ERROR && ptr::addr_eq(self.node, error_word(errno::ENOMEM))
    }

    /// Allocates the nodes that the failed write was missing, with the flags `allowed`. Drops the
    /// tree's own lock during that if the flags allow blocking.
    ///
    /// Returns `false` if the state is not that of a write without memory, or if no node could be
    /// allocated. With any progress, another attempt is worthwhile.
    ///
    /// # Safety
    ///
    /// The caller holds the tree's lock.
    pub(crate) unsafe fn refill(&mut self, allowed: u32) -> bool {
        if !self.is_out_of_memory() {
            return false;
        }
        // SAFETY: the caller's promise.
        let tree = unsafe { self.tree() };
        let mut reserve = self.take_reserve();
        let before = reserve.count();
        // Programs with one thread may have omitted the lock. Then it is not taken for them.
        let drops = allowed & gfp::DIRECT_RECLAIM != 0
            && !tree.lock_is_external()
            && tree.ma_lock.is_held();
        if drops {
            tree.unlock();
        }
        let filled = reserve.fill_many(usize::from(self.offset), &Gfp(allowed));
        if drops {
            tree.lock();
        }
        let again = filled.is_ok() || reserve.count() > before;
        self.put_reserve(reserve);
        if again {
            self.reset_position(Status::START);
        } else {
            self.release();
        }
        again
    }

    /// Repeats `attempt` until it succeeds or there is no memory with the flags `allowed`. Returns
    /// its result, or the error. Frees preallocated nodes.
    ///
    /// `attempt` looks up everything in the tree again each time.
    ///
    /// # Safety
    ///
    /// As for [`store`](MaState::store), and the caller holds the tree's lock.
    pub(crate) unsafe fn retry_with_memory<T>(
        &mut self,
        allowed: u32,
        mut attempt: impl FnMut(&mut Self) -> Result<T, c_int>,
    ) -> Result<T, c_int> {
        if self.status == Status::ERROR {
            self.reset_position(Status::START);
        }
        let answer = loop {
            let answer = attempt(self);
            // SAFETY: the caller's promise.
            if answer.is_ok() || !unsafe { self.refill(allowed) } {
                break answer;
            }
        };
        self.release();
        answer
    }

    /// As [`store`](MaState::store), as a step of
    /// [`retry_with_memory`](MaState::retry_with_memory).
    ///
    /// # Safety
    ///
    /// As for [`store`](MaState::store).
    pub(crate) unsafe fn try_store(&mut self, entry: *mut ()) -> Result<(), c_int> {
        // SAFETY: the caller's promise.
        if unsafe { self.store(entry) } {
            Ok(())
        } else {
            Err(error_of(self.node))
        }
    }

    /// As [`try_store`](MaState::try_store), with the slot at `index` known.
    ///
    /// # Safety
    ///
    /// As for [`store_at`](MaState::store_at).
    pub(crate) unsafe fn try_store_at(
        &mut self,
        at: Option<At>,
        entry: *mut (),
    ) -> Result<(), c_int> {
        // SAFETY: the caller's promise.
        if unsafe { self.store_at(at, entry) } {
            Ok(())
        } else {
            Err(error_of(self.node))
        }
    }

    /// Preallocates nodes for a store of `entry` over `index..=last`.
    ///
    /// # Safety
    ///
    /// The caller is the only writer.
    pub(crate) unsafe fn reserve_for(&mut self, entry: *mut (), allowed: u32) -> Result<(), c_int> {
        if self.index > self.last {
            return Err(-errno::EINVAL);
        }
        // SAFETY: the caller's promise.
        let nodes = unsafe {
            let (tree, at) = (self.tree(), self.position());
            tree.nodes_for(&tree.words.plan(at, self.index, self.last, entry))
        };
        self.reserve(nodes, allowed, mas_flags::PREALLOC)
    }

    /// Preallocates nodes for `entries` stores in ascending order, with gaps between them, after
    /// all existing entries.
    pub(crate) fn reserve_for_run(&mut self, entries: usize) -> Result<(), c_int> {
        // SAFETY: the state's tree is valid (the caller's duty throughout).
        let tree = unsafe { self.tree() };
        let mut nodes = tree.words.bulk_nodes(entries);
        if tree.in_rcu() && hooks::has_call_rcu() {
            nodes = nodes.saturating_add(carriers_for_run(entries));
        }
        self.reserve(nodes, gfp::KERNEL, mas_flags::BULK)
    }

    fn reserve(&mut self, nodes: usize, allowed: u32, what_for: u8) -> Result<(), c_int> {
        let mut reserve = self.take_reserve();
        if reserve.fill_many(nodes, &Gfp(allowed)).is_err() {
            // SAFETY: as in `release`.
            unsafe { reserve.release(&Gfp(allowed)) };
            self.mas_flags = 0;
            self.reset_position(Status::START);
            return Err(-errno::ENOMEM);
        }
        self.put_reserve(reserve);
        self.mas_flags |= what_for;
        Ok(())
    }
}
