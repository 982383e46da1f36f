//! The memory of a node for the model checker: each word is an object that it watches. The
//! operations are those of `node/cells.rs` of the tree. Pivots and gaps are cells, in which the
//! checker finds data races.

use core::marker::PhantomData;
use core::ptr::NonNull;

use loom::cell::UnsafeCell;

use crate::base::atomic::{AtomicPtr, Ordering};
use crate::base::{Key, Shape};
use crate::node::{Geometry, Kind, NULL, Word};

/// The largest fanout: models run at small ones.
const MOST: usize = 5;

struct Words<K> {
    first_word: AtomicPtr<()>,
    pivots: [UnsafeCell<K>; MOST],
    slots: [AtomicPtr<()>; MOST],
    gaps: [UnsafeCell<K>; MOST],
}

/// The memory of one node, which is allocated for as long as this is used.
#[derive(Clone, Copy)]
pub(super) struct Cells<K, S> {
    base: NonNull<u8>,
    marker: PhantomData<fn() -> (K, S)>,
}

impl<K: Key, S: Shape> Cells<K, S> {
    pub(super) unsafe fn new(base: NonNull<u8>) -> Self {
        assert!(size_of::<Words<K>>() <= super::NODE_MEMORY && Geometry::<K, S>::SLOTS <= MOST);
        let marker = PhantomData;
        Self { base, marker }
    }

    pub(super) fn base(self) -> NonNull<u8> {
        self.base
    }

    fn words(&self) -> &Words<K> {
        // SAFETY: the memory is large enough, aligned, and was initialised by `init`.
        unsafe { self.base.cast().as_ref() }
    }

    pub(super) unsafe fn init(self, _: Kind) {
        // SAFETY: nothing else uses the memory (the caller's promise), which is large enough.
        unsafe {
            self.base.cast().write(Words {
                first_word: AtomicPtr::new(NULL),
                pivots: core::array::from_fn(|_| UnsafeCell::new(K::MAX)),
                slots: core::array::from_fn(|_| AtomicPtr::new(NULL)),
                gaps: core::array::from_fn(|_| UnsafeCell::new(K::MIN)),
            });
        }
    }

    pub(super) unsafe fn copy_from(self, other: Self, first_word: Word) {
        // SAFETY: nothing else uses the memory (the caller's promise).
        unsafe { self.init(Kind::Leaf) };
        self.first_word().store(first_word, Ordering::Relaxed);
        let (new, old) = (self.words(), other.words());
        for i in 0..MOST {
            let word = old.slots[i].load(Ordering::Relaxed);
            new.slots[i].store(word, Ordering::Relaxed);
            // SAFETY: within the arrays. The checker finds accesses that are not ordered with
            // these.
            unsafe {
                self.set_pivot(i, other.pivot(i));
                self.set_gap(i, other.gap(i));
            }
        }
    }

    pub(super) fn first_word(&self) -> &AtomicPtr<()> {
        &self.words().first_word
    }

    pub(super) unsafe fn pivot(self, i: usize) -> K {
        // SAFETY: the checker finds writes that are not ordered with this read.
        self.words().pivots[i].with(|p| unsafe { *p })
    }

    pub(super) unsafe fn set_pivot(self, i: usize, pivot: K) {
        // SAFETY: the checker finds accesses that are not ordered with this write.
        self.words().pivots[i].with_mut(|p| unsafe { *p = pivot });
    }

    pub(super) unsafe fn slot(&self, _: Kind, i: usize) -> &AtomicPtr<()> {
        &self.words().slots[i]
    }

    /// Writes to the last `count` slots without atomic operations. The checker finds accesses that
    /// are not ordered with this.
    pub(super) unsafe fn use_last_slots(self, capacity: usize, count: usize) {
        for i in capacity - count..capacity {
            let slot = (&raw const self.words().slots[i]).cast_mut();
            // SAFETY: within the array. The checker finds another reference to the word.
            unsafe { (*slot).with_mut(|word| *word = core::ptr::without_provenance_mut(2)) };
        }
    }

    /// Uses the node as plain memory, like a thread that frees it. The checker finds accesses that
    /// are not ordered before this.
    pub(super) unsafe fn use_up(self) {
        let words = self.words();
        for i in 0..MOST {
            words.pivots[i].with_mut(|_| ());
            words.gaps[i].with_mut(|_| ());
        }
        // SAFETY: within the array.
        unsafe { self.use_last_slots(MOST, MOST) };
        let first_word = (&raw const words.first_word).cast_mut();
        // SAFETY: as for the slots.
        unsafe { (*first_word).with_mut(|_| ()) };
    }

    pub(super) unsafe fn quiet_slot(self, _: Kind, i: usize) -> Word {
        self.words().slots[i].load(Ordering::Relaxed)
    }

    pub(super) unsafe fn copy_leaf(self, pivots: *mut K, words: *mut Word) {
        for i in 0..Geometry::<K, S>::SLOTS {
            // SAFETY: there is space for all (the caller's promise).
            unsafe {
                words.add(i).write(self.quiet_slot(Kind::Leaf, i));
                if i + 1 < Geometry::<K, S>::SLOTS {
                    pivots.add(i).write(self.pivot(i));
                }
            }
        }
    }

    pub(super) unsafe fn gap(self, i: usize) -> K {
        // SAFETY: as in `pivot`.
        self.words().gaps[i].with(|p| unsafe { *p })
    }

    pub(super) unsafe fn set_gap(self, i: usize, gap: K) {
        // SAFETY: as in `set_pivot`.
        self.words().gaps[i].with_mut(|p| unsafe { *p = gap });
    }

    pub(super) unsafe fn shift(
        self,
        kind: Kind,
        from: usize,
        to: usize,
        slots: usize,
        pivots: usize,
    ) {
        let up = to > from;
        for n in 0..slots {
            let i = if up { slots - 1 - n } else { n };
            let word = self.words().slots[from + i].load(Ordering::Relaxed);
            self.words().slots[to + i].store(word, Ordering::Relaxed);
            // SAFETY: within the arrays (the caller's promise).
            unsafe {
                if i < pivots {
                    self.set_pivot(to + i, self.pivot(from + i));
                }
                if kind == Kind::Gap {
                    self.set_gap(to + i, self.gap(from + i));
                }
            }
        }
    }
}
