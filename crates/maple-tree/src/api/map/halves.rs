//! Parts of maps that go from one to another with their nodes.

use core::mem::swap;
use core::ops::RangeInclusive;
use core::ptr::NonNull;

use crate::alloc::{AllocError, Fork, NodeAlloc, Reserve, TakeNodes};
use crate::api::merge::Made;
use crate::api::{Host, MapleTree};
use crate::base::{EraseError, Key, Ref, Shape, Value};
use crate::node::{LAYOUT, RawTree, Root, Unread};
use crate::read::{Found, descend};
use crate::write::halves::{End, Sides, most_for_join, most_for_split};

/// Splits and joins trees with nodes from a reserve, and gives back those that are in none of them any more.
struct Hands<'a, A: NodeAlloc> {
    alloc: &'a A,
    reserve: Reserve,
    unread: Unread,
}

impl<'a, A: NodeAlloc> Hands<'a, A> {
    /// # Safety
    ///
    /// - No other thread uses the trees that are split and joined.
    /// - Their nodes, and those of the reserve, come from `alloc` or from an allocator that is interchangeable with it.
    unsafe fn new(alloc: &'a A, reserve: Reserve) -> Self {
        // SAFETY: no other thread reads the trees, as the caller promises.
        let unread = unsafe { Unread::new() };
        Self {
            alloc,
            reserve,
            unread,
        }
    }

    fn free(alloc: &A) -> impl FnMut(NonNull<u8>) + '_ {
        // SAFETY: the block is in no tree any more, and `alloc` may free it: the second promise to `new`.
        |block| unsafe { alloc.deallocate(block, LAYOUT) }
    }

    fn split<K: Key, S: Shape>(
        &mut self,
        tree: &RawTree<K, S>,
        key: K,
        above: &RawTree<K, S>,
        sides: Option<Sides>,
    ) {
        let free = &mut Self::free(self.alloc);
        tree.split(key, above, sides, &mut self.reserve, self.unread, free);
    }

    fn join<K: Key, S: Shape>(&mut self, tree: &RawTree<K, S>, above: &RawTree<K, S>) {
        let free = &mut Self::free(self.alloc);
        tree.join(above, &mut self.reserve, self.unread, free);
    }
}

impl<A: NodeAlloc> Drop for Hands<'_, A> {
    fn drop(&mut self) {
        // SAFETY: the reserve's nodes are `alloc`'s: the second promise to `new`.
        unsafe { self.reserve.release(self.alloc) };
    }
}

impl<K: Key, V: Value, A: NodeAlloc, S: Shape> MapleTree<K, V, A, S> {
    /// Returns `true` if both keys are in one leaf or in two neighbouring leaves, or if the tree has no nodes. Then there are few entries between them, which are moved one by
    /// one: that takes no longer, and the two maps share no slabs afterwards.
    fn are_near(&self, key: K, other: K) -> bool {
        let Root::Node(root) = self.raw.root() else {
            return true;
        };
        let max = descend(root, key).max;
        max.successor()
            .is_none_or(|next| other <= max || descend(root, next).covers(other))
    }

    /// Gives a single entry that stands in the root by itself a node, which the reserve has.
    fn root_to_node(&mut self, reserve: &mut Reserve) {
        if let Root::Single(word) = self.raw.root() {
            let mut plan = self.raw.plan_store(K::MIN, K::MIN, word);
            plan.leave_root_to_nodes();
            // It is the entry that is there already.
            self.carry_out_with(&plan, reserve, None, |_, _, _| {});
        }
    }

    /// Takes the entries from `key` on out of the map, as a map of its own, if few are below the key or few are not: those are copied, and neither map needs the
    /// nodes of the other. `None`, and nothing has changed, if there are many on both sides, or an end needs more than that.
    pub(super) fn split_few(&mut self, key: K) -> Result<Option<Self>, AllocError>
    where
        A: Fork,
    {
        let Some(end) = End::of(&self.raw, key) else {
            return Ok(None);
        };
        let mut new = Self::from_parts(self.raw.empty_like(), self.alloc.fork());
        let mut reserve = new.reserved_run(end.nodes())?;
        // SAFETY: the map is exclusively borrowed.
        let unread = unsafe { Unread::new() };
        // SAFETY: the nodes that are freed are this map's, and in no tree any more.
        let mut free = |block| unsafe { self.alloc.deallocate(block, LAYOUT) };
        match end {
            End::High(high) => high.take(&self.raw, &new.raw, &mut reserve, unread, &mut free),
            End::Low(low) => {
                low.take(&new.raw, &mut reserve, unread, &mut free);
                swap(self, &mut new);
            }
        }
        reserve.assert_used_up();
        Ok(Some(new))
    }

    /// Allocates `count` nodes, of one run if there are several and the allocator has runs: a new
    /// pool then takes one slab for them.
    fn reserved_run(&mut self, count: usize) -> Result<Reserve, AllocError> {
        let mut reserve = Reserve::new();
        if count > 1
            && let Some(run) = self.alloc.allocate_run_mut(LAYOUT, count)
        {
            let mut at = 0..count;
            // SAFETY: the nodes of a run lie one behind the other, and no other code uses them.
            let node = || at.next().map(|i| unsafe { run.add(i * LAYOUT.size()) });
            // SAFETY: blocks of the layout of nodes, as above.
            unsafe { reserve.fill_with(count, node) }?;
        }
        if let Err(error) = reserve.provide(count, &self.alloc) {
            // SAFETY: its nodes are this allocator's.
            unsafe { reserve.release(&self.alloc) };
            return Err(error);
        }
        Ok(reserve)
    }

    /// Returns the last index below `key` if few entries are below it, and not all the others are
    /// few, and it is within none.
    pub(super) fn few_below(&self, key: K) -> Option<K> {
        let below = key.predecessor()?;
        if !self.are_near(K::MIN, below) || self.are_near(key, K::MAX) {
            return None;
        }
        let found = self.raw.lookup(below);
        (found.word.is_null() || found.last == below).then_some(below)
    }

    /// Takes over the entries of another map with their nodes. `false`, and nothing has changed, if entries of this map are among or between those, or
    /// nodes cannot go from the one to the other.
    pub(in crate::api) fn take_over(&mut self, other: &mut Self) -> Result<bool, AllocError> {
        let all = (K::MIN, K::MAX);
        let (Some(first), Some(last)) = (other.raw.find::<true>(all), other.raw.find::<false>(all))
        else {
            return Ok(true);
        };
        let (first, last) = (first.first, last.last);
        if self.raw.tracks_gaps() != other.raw.tracks_gaps()
            || self.raw.find::<true>((first, last)).is_some()
        {
            return Ok(false);
        }
        let below = first.predecessor();
        let low = below.is_some_and(|below| self.raw.find::<false>((K::MIN, below)).is_some());
        let after = last.successor();
        let high = after.is_some_and(|after| self.raw.find::<true>((after, K::MAX)).is_some());
        let singles = [&self.raw, &other.raw].map(|tree| matches!(tree.root(), Root::Single(_)));
        let nodes = match (low, high) {
            (false, false) => 0,
            // Each gets a leaf first.
            _ if singles != [false; 2] => {
                2 + most_for_join(self.raw.height().max(1), other.raw.height().max(1))
            }
            (true, false) => self.raw.nodes_for_join(&other.raw),
            (false, true) => other.raw.nodes_for_join(&self.raw),
            (true, true) => {
                // Each split or join may add a level.
                let (height, others) = (self.raw.height() + 1, other.raw.height());
                self.raw.nodes_for_split(first)
                    + most_for_join(height, others)
                    + most_for_join(height.max(others) + 1, height)
            }
        };
        let mut reserve = self.reserved(nodes)?;
        // SAFETY: all blocks of the other map's allocator are its nodes, which are given back to this one's from now on.
        if !unsafe { self.alloc.join(&mut other.alloc) } {
            // SAFETY: it was filled from there.
            unsafe { reserve.release(&self.alloc) };
            return Ok(false);
        }
        if nodes > 0 {
            self.root_to_node(&mut reserve);
            other.root_to_node(&mut reserve);
        }
        // SAFETY: both maps are exclusively borrowed, and all nodes are this one's allocator's.
        let mut hands = unsafe { Hands::new(&self.alloc, reserve) };
        if high {
            let above = self.raw.empty_like();
            hands.split(&self.raw, first, &above, None);
            hands.join(&other.raw, &above);
        }
        hands.join(&self.raw, &other.raw);
        let exact = !(low && high) && singles == [false; 2];
        debug_assert!(!exact || hands.reserve.is_empty(), "counted wrongly");
        Ok(true)
    }

    /// Takes a range out of the map, with its nodes, as a map of its own. For `copy` see [`cut`](crate::api::cut). `None`, and nothing has changed, if few entries are
    /// within the range, or nodes cannot go from the one to the other.
    pub(in crate::api) fn take_out(
        &mut self,
        (first, last): (K, K),
        mut copy: impl FnMut(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
    ) -> Result<Option<Self>, EraseError> {
        if self.are_near(first, last) {
            return Ok(None);
        }
        let Some(alloc) = self.alloc.split() else {
            return Ok(None);
        };
        let cut = Self::from_parts(self.raw.empty_like(), alloc);
        let mut made = Made::<V>::new();
        // Of one entry around the whole range both ends would be near: these are two, if both are there.
        let low = Some(self.raw.lookup(first)).filter(|of| !of.word.is_null() && of.first < first);
        let high = Some(self.raw.lookup(last)).filter(|of| !of.word.is_null() && last < of.last);
        let mut piece = |of: Found<K>| {
            let range = of.first.max(first)..=of.last.min(last);
            // SAFETY: words in the tree are values, and it is exclusively borrowed.
            unsafe { made.remake(of.word, range, &mut copy) }
        };
        let low = low.map(|of| {
            piece(of).map(|above| {
                let below = of.word;
                Sides { below, above }
            })
        });
        let low = low.transpose()?;
        let high = high.map(|of| {
            piece(of).map(|below| {
                let above = of.word;
                Sides { below, above }
            })
        });
        let high = high.transpose()?;
        let after = last.successor();
        // Each split may add a level.
        let height = self.raw.height() + 1;
        let nodes = match after {
            None => self.raw.nodes_for_split(first),
            Some(after) if first == K::MIN => self.raw.nodes_for_split(after),
            Some(_) => {
                let more = most_for_split(height) + most_for_join(height, height + 1);
                self.raw.nodes_for_split(first) + more
            }
        };
        let reserve = self.reserved(nodes).map_err(|_| EraseError::Alloc)?;
        made.keep();
        // SAFETY: the map is exclusively borrowed; the two allocators are interchangeable.
        let mut hands = unsafe { Hands::new(&self.alloc, reserve) };
        hands.split(&self.raw, first, &cut.raw, low);
        if let Some(after) = after {
            let rest = self.raw.empty_like();
            hands.split(&cut.raw, after, &rest, high);
            hands.join(&self.raw, &rest);
        }
        let exact = first == K::MIN || after.is_none();
        debug_assert!(!exact || hands.reserve.is_empty(), "counted wrongly");
        Ok(Some(cut))
    }
}
