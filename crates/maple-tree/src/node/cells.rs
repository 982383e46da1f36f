//! The memory of a node: where its parts are, and how each is read and written.
//!
//! ```text
//!   leaf, range   | first word | pivot × (n-1) | slot × n |
//!   gap           | first word | pivot × (n-1) | slot × n | gap × n |
//! ```

use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use crate::base::atomic::AtomicPtr;
use crate::base::{Key, Shape};
use crate::node::{Geometry, Kind, NODE_BYTES, NULL, WORD, Word};

/// A key in a node: aligned like a pointer, so that keys wider than pointers pack without padding.
#[cfg_attr(target_pointer_width = "64", repr(C, packed(8)))]
#[cfg_attr(not(target_pointer_width = "64"), repr(C, packed(4)))]
#[derive(Clone, Copy)]
struct Packed<K: Copy>(K);

/// The memory of one node, which is allocated while this is used.
#[derive(Clone, Copy)]
pub(super) struct Cells<K, S> {
    base: NonNull<u8>,
    marker: PhantomData<fn() -> (K, S)>,
}

impl<K: Key, S: Shape> Cells<K, S> {
    /// # Safety
    ///
    /// `base` is memory of [`LAYOUT`](super::LAYOUT) that stays allocated while this is used.
    #[inline(always)]
    pub(super) unsafe fn new(base: NonNull<u8>) -> Self {
        let marker = PhantomData;
        Self { base, marker }
    }

    #[inline(always)]
    pub(super) fn base(self) -> NonNull<u8> {
        self.base
    }

    /// Writes a node with one used slot. All of its words are NULL, its pivots the largest key, and
    /// its gaps 0.
    ///
    /// # Safety
    ///
    /// Nothing else uses the memory.
    pub(super) unsafe fn init(self, kind: Kind) {
        let n = Geometry::<K, S>::slots(kind);
        // SAFETY: nothing else uses the memory (the caller's promise), and all offsets are within
        // it. The words are atomics later, which have the layout of what is written here.
        unsafe {
            self.base.cast::<Word>().write(NULL);
            for i in 0..n - 1 {
                self.pivots().add(i).write(Packed(K::MAX));
            }
            for i in 0..n {
                self.slots(kind).add(i).write(NULL);
            }
            if kind == Kind::Gap {
                for i in 0..n {
                    self.gaps().add(i).write(Packed(K::MIN));
                }
            }
        }
    }

    /// Writes a first word, and after it the contents of another node.
    ///
    /// # Safety
    ///
    /// Nothing else uses this node's memory. Nothing writes the other node during the call, except
    /// for its first word.
    #[inline(always)]
    pub(super) unsafe fn copy_from(self, other: Self, first_word: Word) {
        // SAFETY: both are whole nodes, and different ones (the caller's promise).
        unsafe {
            let (from, to) = (other.base.add(WORD), self.base.add(WORD));
            ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), NODE_BYTES - WORD);
            self.base.cast::<Word>().write(first_word);
        }
    }

    #[inline(always)]
    pub(super) fn first_word(&self) -> &AtomicPtr<()> {
        // SAFETY: the node is allocated. Its first word is only accessed as an atomic once it has
        // been initialised, and it is aligned.
        unsafe { self.base.cast::<AtomicPtr<()>>().as_ref() }
    }

    #[inline(always)]
    fn pivots(self) -> *mut Packed<K> {
        // SAFETY: the offset is within the node.
        unsafe { self.base.as_ptr().add(Geometry::<K, S>::PIVOT_AT).cast() }
    }

    #[inline(always)]
    fn slots(self, kind: Kind) -> *mut Word {
        let at = match kind {
            Kind::Leaf | Kind::Range => Geometry::<K, S>::SLOT_AT,
            Kind::Gap => Geometry::<K, S>::GAP_SLOT_AT,
        };
        // SAFETY: the offset is within the node.
        unsafe { self.base.as_ptr().add(at).cast() }
    }

    #[inline(always)]
    fn gaps(self) -> *mut Packed<K> {
        // SAFETY: the offset is within the node.
        unsafe { self.base.as_ptr().add(Geometry::<K, S>::GAP_AT).cast() }
    }

    /// # Safety
    ///
    /// `i` is below the number of pivots of the node's kind, and nothing writes pivots during the
    /// call.
    #[inline(always)]
    pub(super) unsafe fn pivot(self, i: usize) -> K {
        // SAFETY: within the array (the caller's promise), which is initialised with the node.
        unsafe { self.pivots().add(i).read().0 }
    }

    /// # Safety
    ///
    /// As [`pivot`](Self::pivot), and nothing reads it during the call.
    #[inline(always)]
    pub(super) unsafe fn set_pivot(self, i: usize, pivot: K) {
        // SAFETY: within the array, and nothing else accesses it (the caller's promise).
        unsafe { self.pivots().add(i).write(Packed(pivot)) }
    }

    /// # Safety
    ///
    /// `i` is below the number of slots of `kind`, which is the node's.
    #[inline(always)]
    pub(super) unsafe fn slot(&self, kind: Kind, i: usize) -> &AtomicPtr<()> {
        // SAFETY: within the array (the caller's promise). Slots are only accessed as atomics once
        // the node has been initialised, and they are aligned.
        unsafe { &*self.slots(kind).add(i).cast::<AtomicPtr<()>>() }
    }

    /// Returns the slots of a leaf, for reading as plain memory.
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(samara_loom)))]
    #[inline(always)]
    pub(super) fn leaf_slots(self) -> *const Word {
        self.slots(Kind::Leaf)
    }

    /// Returns the word in a slot, read as plain memory.
    ///
    /// # Safety
    ///
    /// As [`slot`](Self::slot), and nothing writes slots during the call.
    #[inline(always)]
    pub(super) unsafe fn quiet_slot(self, kind: Kind, i: usize) -> Word {
        // SAFETY: within the array, and not written during the call (the caller's promise). An
        // atomic pointer has the layout of a pointer.
        unsafe { self.slots(kind).add(i).read() }
    }

    /// Copies all pivots and words of a leaf.
    ///
    /// # Safety
    ///
    /// The node is a leaf, which nothing writes during the call. Both destinations have room for
    /// all, and nothing else uses them.
    #[inline(always)]
    pub(super) unsafe fn copy_leaf(self, pivots: *mut K, words: *mut Word) {
        let slots = Geometry::<K, S>::SLOTS;
        // SAFETY: the arrays of the leaf, and of the caller (its promises). Keys are copied as
        // bytes, so that their alignment does not matter.
        unsafe {
            let bytes = (slots - 1) * size_of::<K>();
            ptr::copy_nonoverlapping(self.pivots().cast::<u8>(), pivots.cast::<u8>(), bytes);
            ptr::copy_nonoverlapping(self.slots(Kind::Leaf), words, slots);
        }
    }

    /// # Safety
    ///
    /// The node is a gap node with more slots than `i`, and nothing writes gaps during the call.
    #[inline(always)]
    pub(super) unsafe fn gap(self, i: usize) -> K {
        // SAFETY: within the array (the caller's promise), which is initialised with the node.
        unsafe { self.gaps().add(i).read().0 }
    }

    /// # Safety
    ///
    /// As [`gap`](Self::gap), and nothing reads it during the call.
    #[inline(always)]
    pub(super) unsafe fn set_gap(self, i: usize, gap: K) {
        // SAFETY: within the array, and nothing else accesses it (the caller's promise).
        unsafe { self.gaps().add(i).write(Packed(gap)) }
    }

    /// Moves `slots` slots with their gaps, and `pivots` pivots, from index `from` to index `to`.
    ///
    /// # Safety
    ///
    /// All are within the arrays of `kind`, which is the node's, and nothing else accesses the
    /// node.
    #[inline]
    pub(super) unsafe fn shift(
        self,
        kind: Kind,
        from: usize,
        to: usize,
        slots: usize,
        pivots: usize,
    ) {
        if slots > FEW {
            // SAFETY: the caller's promise.
            return unsafe { self.shift_many(kind, from, to, slots, pivots) };
        }
        // SAFETY: the caller's promise; there are no more pivots than slots.
        unsafe {
            shift(self.pivots(), from, to, pivots);
            shift(self.slots(kind), from, to, slots);
            if kind == Kind::Gap {
                shift(self.gaps(), from, to, slots);
            }
        }
    }

    /// Moves slots as [`shift`](Self::shift) does, but more than [`FEW`].
    ///
    /// # Safety
    ///
    /// As for [`shift`](Self::shift).
    #[inline(never)]
    unsafe fn shift_many(self, kind: Kind, from: usize, to: usize, slots: usize, pivots: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            shift_many(self.pivots(), from, to, pivots);
            shift_many(self.slots(kind), from, to, slots);
            if kind == Kind::Gap {
                shift_many(self.gaps(), from, to, slots);
            }
        }
    }
}

/// The most slots that [`shift`] moves.
const FEW: usize = 4;

/// Moves `count` elements, [`FEW`] at most, from index `from` to index `to`, as after an insertion
/// near the end.
///
/// # Safety
///
/// All are within one array, and nothing else accesses it.
#[inline(always)]
unsafe fn shift<T: Copy>(array: *mut T, from: usize, to: usize, count: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let (old, new) = (array.add(from), array.add(to));
        if count > 2 {
            ends::<T, 2>(old, new, count);
        } else if count != 0 {
            ends::<T, 1>(old, new, count);
        }
    }
}

/// Moves elements as [`shift`] does, of any number. The elements of most nodes fit a few registers,
/// where a call of `memmove` would take longer.
///
/// # Safety
///
/// As for [`shift`].
#[inline(always)]
unsafe fn shift_many<T: Copy>(array: *mut T, from: usize, to: usize, count: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let (old, new) = (array.add(from), array.add(to));
        if !(4..=16).contains(&count) || size_of::<T>() > 8 {
            ptr::copy(old, new, count);
        } else if count > 8 {
            ends::<T, 8>(old, new, count);
        } else {
            ends::<T, 4>(old, new, count);
        }
    }
}

/// Moves `count` elements, which the first `N` and the last `N` cover.
///
/// # Safety
///
/// As for [`shift`].
#[inline(always)]
unsafe fn ends<T: Copy, const N: usize>(old: *const T, new: *mut T, count: usize) {
    // SAFETY: the caller's promise; all is read before any is written.
    unsafe {
        let behind = count - N;
        let first: [T; N] = old.cast::<[T; N]>().read();
        let last: [T; N] = old.add(behind).cast::<[T; N]>().read();
        new.cast::<[T; N]>().write(first);
        new.add(behind).cast::<[T; N]>().write(last);
    }
}
