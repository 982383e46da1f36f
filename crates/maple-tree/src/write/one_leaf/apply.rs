//! Carrying out a write that stays within one leaf: in place, or in a copy of the leaf that takes its place.

use core::ops::Range;

use crate::alloc::Reserve;
use crate::base::{Key, Shape, each};
use crate::node::{Kind, Node, NodeMut, RawTree, Word};
use crate::read::{Found, Place, Spot};
use crate::write::apply::Removed;
use crate::write::holes::{largest_in_leaf, tell_from, tell_last, tell_made};
#[cfg(feature = "tracing")]
use crate::write::watch::Watch;
use crate::write::{Quick, Room, Sink};

/// What a write does to the holes of a leaf.
pub(in crate::write) struct Holes<K> {
    /// The largest that the write fills, or that is made longer or shorter.
    pub(in crate::write) gone: K,
    /// The largest that there is then in their place.
    pub(in crate::write) made: K,
    /// One of these is the last of the tree, and larger than all other holes together.
    outermost: bool,
}

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Carries out a quick write, and hands what it removed to `sink`.
    ///
    /// # Safety
    ///
    /// * The caller is the only writer, and the tree has not changed since `quick` was made.
    /// * `reserve` holds at least as many nodes as `quick` takes.
    /// * Unless the tree is in RCU mode, nobody reads it meanwhile.
    /// * The word is NULL, or may stand in this tree.
    #[inline(always)]
    pub(crate) unsafe fn apply_quick(
        &self,
        quick: Quick<K, S>,
        reserve: &mut Reserve,
        sink: &mut impl Sink<K>,
    ) {
        let leaf = quick.spot.place.leaf;
        let inner = self.inner_kind();
        let gaps = inner == Kind::Gap;
        if quick.is_exact() {
            let old = quick.spot.place.slot(quick.from);
            leaf.publish(quick.from, quick.word);
            if gaps
                && old.word.is_null() != quick.word.is_null()
                && let Some(parent) = quick.spot.parent
            {
                let Place { min, max, .. } = quick.spot.place;
                tell_from(parent, quick.spot.at, min, largest_in_leaf(leaf, min, max));
            }
            if !old.word.is_null() {
                sink.entry(old.first, old.last, old.word);
            }
            return;
        }
        if !matches!(quick.room, Room::Here) {
            #[cfg(feature = "tracing")]
            let watch = Watch::spread(self, quick);
            if self.in_rcu() {
                self.spread_beside(quick, reserve, sink);
                #[cfg(feature = "tracing")]
                watch.made(self);
                return;
            }
            let removed = quick.note_removed();
            // SAFETY: not in RCU mode, so that nobody reads (the caller's promise).
            if let Some(left_over) = unsafe { quick.spread(self, reserve) } {
                left_over.mark_dead();
                sink.node(left_over.block());
            }
            #[cfg(feature = "tracing")]
            watch.made(self);
            removed.give(sink);
            return;
        }
        // SAFETY: the caller's promise.
        unsafe { self.apply_here(quick, None, reserve, sink) };
    }

    /// Carries out a quick write within an entry, in a leaf that has room. The part of the entry above gets another word, `twin`.
    ///
    /// # Safety
    ///
    /// As for [`apply_quick`](Self::apply_quick); the twin, too, may stand in this tree.
    pub(crate) unsafe fn apply_split(
        &self,
        quick: Quick<K, S>,
        twin: Word,
        reserve: &mut Reserve,
        sink: &mut impl Sink<K>,
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.apply_here(quick, Some(twin), reserve, sink) };
    }

    /// As [`apply_quick`](Self::apply_quick), in a leaf that has room, where more than a word changes; or as [`apply_split`](Self::apply_split), if there is a
    /// `twin`.
    ///
    /// # Safety
    ///
    /// As for these.
    #[inline(always)]
    unsafe fn apply_here(
        &self,
        quick: Quick<K, S>,
        twin: Option<Word>,
        reserve: &mut Reserve,
        sink: &mut impl Sink<K>,
    ) {
        let leaf = quick.spot.place.leaf;
        let holes = self.tracks_gaps().then(|| quick.holes());
        if self.in_rcu() {
            let new = reserve.take_copy(leaf);
            quick.edit_with(new, twin);
            let node = new.node();
            match quick.spot.parent {
                Some(parent) => parent.publish(quick.spot.at, node.word()),
                None => self.publish_root(node.word(), 1),
            }
            quick.tell(node, holes);
            // The old leaf is as it was: readers may be in it.
            leaf.mark_dead();
            let removed = quick.removed();
            // The node comes last: it is looked at until then.
            each(removed.start..removed.end + 1, |i| {
                if i == removed.end {
                    sink.node(leaf.block());
                } else {
                    quick.show(i, |first, last, word| sink.entry(first, last, word));
                }
            });
            return;
        }
        let removed = quick.note_removed();
        // SAFETY: not in RCU mode, so that nobody reads (the caller's promise).
        quick.edit_with(unsafe { leaf.write() }, twin);
        quick.tell(leaf, holes);
        removed.give(sink);
    }
}

impl<K: Key, S: Shape> Quick<K, S> {
    /// The slots of which the write leaves nothing.
    #[inline(always)]
    pub(in crate::write) fn removed(self) -> Range<usize> {
        let start = self.from + usize::from(self.head);
        // Within one slot, of which something stays on both sides, there are none.
        start..start.max(self.to + 1 - usize::from(self.tail))
    }

    /// Shows the entry in a slot, if there is one, as long as the leaf is as it was.
    #[inline(always)]
    pub(in crate::write) fn show(self, slot: usize, mut show: impl FnMut(K, K, Word)) {
        let found = self.spot.place.slot(slot);
        if !found.word.is_null() {
            show(found.first, found.last, found.word);
        }
    }

    /// Notes the entries of which the write leaves nothing, as long as the leaf is as it was.
    #[inline(always)]
    fn note_removed(self) -> Removed<K> {
        let mut removed = Removed::none();
        for i in self.removed() {
            self.show(i, |first, last, word| {
                removed.removes(Found { first, last, word })
            });
        }
        removed
    }

    /// Makes the change in the leaf or in a copy of it.
    #[inline(always)]
    pub(in crate::write) fn edit(self, node: NodeMut<K, S>) {
        let at = self.from + usize::from(self.head);
        let after = self.to + 1 - usize::from(self.tail);
        // What is left of slot `to` moves with the slots after it; what is left of slot `from` stays where it is.
        let end = node.node().end();
        if after <= at {
            node.open(after, end, end + at + 1 - after);
        } else if after > at + 1 {
            node.close_up(after, at + 1, end);
        }
        if self.head {
            node.set_pivot(self.from, self.first.wrapping_sub(K::ONE));
        }
        node.set_slot(at, self.word);
        if at < node.node().end() {
            node.set_pivot(at, self.last);
        } else if at + 1 < node.node().capacity() {
            node.set_pivot(at, K::MAX);
        }
    }

    /// As [`edit`](Self::edit); the part above of an entry that the write is within gets another word.
    #[inline(always)]
    fn edit_with(self, node: NodeMut<K, S>, twin: Option<Word>) {
        self.edit(node);
        if let Some(twin) = twin {
            // After what is left below, and the new slot.
            node.set_slot(self.from + 2, twin);
        }
    }

    /// Looks at the holes, as long as the leaf is as it was.
    #[inline(always)]
    pub(in crate::write) fn holes(self) -> Holes<K> {
        let Place { leaf, min, max } = self.spot.place;
        let mut holes = Holes {
            gone: K::MIN,
            made: K::MIN,
            outermost: false,
        };
        let start = leaf.first(self.from, min);
        let mut first = start;
        let mut last = first;
        for i in self.from..=self.to {
            last = leaf.last(i, max);
            if leaf.slot(i).is_null() {
                holes.gone = holes.gone.max(K::span(first, last));
            }
            first = last.wrapping_add(K::ONE);
        }
        if self.word.is_null() {
            holes.made = K::span(self.first, self.last);
        }
        if self.head && leaf.slot(self.from).is_null() {
            holes.made = holes.made.max(self.first.wrapping_sub(start));
        }
        if self.tail && leaf.slot(self.to).is_null() {
            let tail = last.wrapping_sub(self.last);
            holes.made = holes.made.max(tail);
            // The new entry is among the indices before, so that they hold no more than this in holes.
            holes.outermost = last == K::MAX && tail >= self.last;
        }
        holes
    }

    /// Tells the nodes above the leaf, if they keep the sizes of holes, what has become of its holes. `leaf` is the leaf as it is now.
    #[inline(always)]
    fn tell(self, leaf: Node<K, S>, holes: Option<Holes<K>>) {
        let (Some(parent), Some(holes)) = (self.spot.parent, holes) else {
            return;
        };
        let Holes {
            gone,
            made,
            outermost,
        } = holes;
        let Spot { place, at, .. } = self.spot;
        if outermost {
            tell_last(parent, made);
            return;
        }
        tell_made(parent, at, Place { leaf, ..place }, gone, made);
    }
}
