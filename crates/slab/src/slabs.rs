//! Slabs: allocation of nodes from large pieces of memory, and the free list.
//!
//! A slab starts with a header. Its nodes follow at the next address with a node's alignment.
//! Allocation takes the free list first, then the never-used (*fresh*) nodes of the newest slab,
//! then a new slab. Nothing here is synchronised: both pools have a lock.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use crate::{NodeAlloc, block};

/// The header of a slab. It is at the start of the slab's memory. The nodes follow at the next
/// address that is aligned for one.
#[repr(C)]
struct Slab {
    next: *mut Slab,
    bytes: usize,
}

const SLAB_ALIGN: usize = 16;
const _: () = assert!(size_of::<Slab>() <= SLAB_ALIGN && align_of::<Slab>() <= SLAB_ALIGN);

/// The number of nodes of the first slab: a tiny structure stays tiny.
const FIRST: usize = 1;
/// The number of nodes of the second slab.
const SECOND: usize = 3;
/// While there are at most this many nodes, a new slab doubles them.
const DOUBLING: usize = 15;
/// With more, a new slab adds one node for each `GROWTH` existing ones.
const GROWTH: usize = 8;
/// The most bytes of a slab's nodes, unless one node is larger.
const MOST_BYTES: usize = 127 * 256;

/// Slabs and lists of freed nodes. Dropping this leaks them.
pub(crate) struct Slabs<const SIZE: usize> {
    /// The freed nodes, linked through their first words.
    free: *mut u8,
    /// More lists of freed nodes, from absorbed slabs. Their first nodes are linked through their
    /// second words.
    lists: *mut u8,
    /// The next never-used node of the newest slab.
    fresh: *mut u8,
    left: usize,
    slabs: *mut Slab,
    /// The last slab in that list.
    oldest: *mut Slab,
    /// The number of nodes in all slabs.
    nodes: usize,
    bytes: usize,
}

// SAFETY: the slabs belong to it.
unsafe impl<const SIZE: usize> Send for Slabs<SIZE> {}

impl<const SIZE: usize> Slabs<SIZE> {
    const BLOCK: Layout = block::layout::<SIZE>();
    /// The bytes that a slab takes in addition to its nodes: the header, and the padding before the
    /// first node.
    const OVERHEAD: usize = if Self::BLOCK.align() > SLAB_ALIGN {
        Self::BLOCK.align()
    } else {
        SLAB_ALIGN
    };

    /// The most nodes of a slab, unless a longer run is requested.
    const MOST: usize = if SIZE > MOST_BYTES {
        1
    } else {
        MOST_BYTES / SIZE
    };

    pub(crate) const fn new() -> Self {
        // Evaluated here, so that an invalid size does not compile.
        let _ = Self::BLOCK;
        Self {
            free: ptr::null_mut(),
            lists: ptr::null_mut(),
            fresh: ptr::null_mut(),
            left: 0,
            slabs: ptr::null_mut(),
            oldest: ptr::null_mut(),
            nodes: 0,
            bytes: 0,
        }
    }

    /// Returns the total size of all slabs in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns `true` if there are blocks to free.
    #[inline]
    pub(crate) fn has_slabs(&self) -> bool {
        !self.slabs.is_null()
    }

    /// Returns `true` if [`take`](Self::take) needs a new slab.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.free.is_null() && self.left == 0 && self.lists.is_null()
    }

    #[inline]
    pub(crate) fn take(&mut self, from: &impl NodeAlloc) -> Option<NonNull<u8>> {
        if let Some(node) = NonNull::new(self.free) {
            // SAFETY: nodes in the list are unused, and `put` wrote their first words.
            self.free = unsafe { node.cast::<*mut u8>().read() };
            return Some(node);
        }
        if self.left == 0 {
            if self.next_list() {
                return self.take(from);
            }
            self.grow(self.next_slab(), from)?;
        }
        self.cut(1)
    }

    /// Moves on to another list of freed nodes. Returns `false` if there is none.
    #[cold]
    fn next_list(&mut self) -> bool {
        debug_assert!(self.free.is_null());
        let Some(list) = NonNull::new(self.lists) else {
            return false;
        };
        self.free = self.lists;
        // SAFETY: the first nodes of these lists are unused, and `absorb` wrote their second words.
        self.lists = unsafe { list.cast::<*mut u8>().add(1).read() };
        true
    }

    /// Allocates `count` contiguous nodes.
    ///
    /// Returns `None` if that would take a new slab although as many nodes have been freed.
    /// Otherwise each structure that is built and dropped would leave more slabs.
    pub(crate) fn take_run(&mut self, count: usize, from: &impl NodeAlloc) -> Option<NonNull<u8>> {
        if self.left < count {
            if self.has_free(count) {
                return None;
            }
            self.grow(count.max(self.next_slab()), from)?;
        }
        self.cut(count)
    }

    /// Returns `true` if at least `count` nodes were freed. O(`count`), as allocating them is.
    fn has_free(&self, count: usize) -> bool {
        let (mut node, mut lists) = (self.free, self.lists);
        for _ in 0..count {
            if node.is_null()
                && let Some(list) = NonNull::new(lists)
            {
                node = lists;
                // SAFETY: as in `next_list`.
                lists = unsafe { list.cast::<*mut u8>().add(1).read() };
            }
            let Some(free) = NonNull::new(node) else {
                return false;
            };
            // SAFETY: as in `take`.
            node = unsafe { free.cast::<*mut u8>().read() };
        }
        true
    }

    /// Takes `count` nodes off the fresh ones, of which there are at least that many.
    #[inline]
    fn cut(&mut self, count: usize) -> Option<NonNull<u8>> {
        let node = NonNull::new(self.fresh)?;
        debug_assert!(count <= self.left);
        self.left -= count;
        // The address after the last node is within the slab, or at its end.
        self.fresh = self.fresh.wrapping_add(count * Self::BLOCK.size());
        Some(node)
    }

    /// Frees a node.
    ///
    /// # Safety
    ///
    /// The node came from here, and nothing uses it any more.
    #[inline]
    pub(crate) unsafe fn put(&mut self, node: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe { node.cast::<*mut u8>().write(self.free) };
        self.free = node.as_ptr();
    }

    /// Frees a list of nodes that are linked as by [`put`](Self::put).
    ///
    /// # Safety
    ///
    /// The nodes came from here, and nothing uses them any more.
    pub(crate) unsafe fn put_list(&mut self, list: *mut u8) {
        if self.free.is_null() {
            self.free = list;
            return;
        }
        let mut next = list;
        while let Some(node) = NonNull::new(next) {
            // SAFETY: nodes in the list are linked through their first words, and belong to this
            // call (the caller's promise).
            unsafe {
                next = node.cast::<*mut u8>().read();
                self.put(node);
            }
        }
    }

    /// Takes over the slabs and the nodes of another one.
    ///
    /// The memory of both came from the same source, or from interchangeable ones. O(1), except for
    /// the fresh nodes of one of the two, which are freed one by one.
    pub(crate) fn absorb(&mut self, mut other: Self) {
        if self.left < other.left {
            core::mem::swap(&mut self.fresh, &mut other.fresh);
            core::mem::swap(&mut self.left, &mut other.left);
        }
        while let Some(node) = (other.left > 0).then(|| other.cut(1)).flatten() {
            // SAFETY: the node was cut off just now.
            unsafe { self.put(node) };
        }
        if let Some(list) = NonNull::new(other.free) {
            // SAFETY: the node is unused and has at least two words.
            unsafe { list.cast::<*mut u8>().add(1).write(other.lists) };
            other.lists = other.free;
        }
        // One list at a time: there is rarely more than one.
        while let Some(list) = NonNull::new(other.lists) {
            // SAFETY: as in `next_list`.
            unsafe {
                let second = list.cast::<*mut u8>().add(1);
                other.lists = second.read();
                second.write(self.lists);
            }
            self.lists = list.as_ptr();
        }
        if let Some(oldest) = NonNull::new(other.oldest) {
            // SAFETY: the slab is allocated, and its owner is `other`.
            unsafe { (&raw mut (*oldest.as_ptr()).next).write(self.slabs) };
            self.slabs = other.slabs;
            if self.oldest.is_null() {
                self.oldest = other.oldest;
            }
        }
        self.nodes += other.nodes;
        self.bytes += other.bytes;
    }

    fn next_slab(&self) -> usize {
        match self.nodes {
            0 => FIRST,
            nodes => (nodes / GROWTH)
                .max(nodes.min(DOUBLING))
                .max(SECOND)
                .min(Self::MOST),
        }
    }

    /// Adds a slab of `count` nodes, which become the fresh ones.
    #[cold]
    fn grow(&mut self, count: usize, from: &impl NodeAlloc) -> Option<()> {
        let bytes = count
            .checked_mul(Self::BLOCK.size())?
            .checked_add(Self::OVERHEAD)?;
        let layout = Layout::from_size_align(bytes, SLAB_ALIGN).ok()?;
        let base = from.allocate(layout)?;
        let next = self.slabs;
        // SAFETY: the memory is fresh, large enough and aligned.
        unsafe { base.cast().write(Slab { next, bytes }) };
        self.slabs = base.as_ptr().cast();
        if next.is_null() {
            self.oldest = self.slabs;
        }
        self.nodes += count;
        self.bytes += bytes;
        // The fresh nodes of the slab before go to the free list.
        while self.left > 0 {
            let Some(node) = self.cut(1) else { break };
            // SAFETY: the node was cut off just now.
            unsafe { self.put(node) };
        }
        let skip = (base.as_ptr().addr() + size_of::<Slab>()).next_multiple_of(Self::BLOCK.align())
            - base.as_ptr().addr();
        debug_assert!(skip <= Self::OVERHEAD);
        self.fresh = base.as_ptr().wrapping_add(skip);
        self.left = count;
        Some(())
    }

    /// Frees all slabs, and with them all nodes.
    ///
    /// # Safety
    ///
    /// Nothing uses a node that came from here. `from` is the source of all other calls, or
    /// interchangeable with it.
    pub(crate) unsafe fn free_all(&mut self, from: &impl NodeAlloc) {
        let mut next = self.slabs;
        *self = Self::new();
        while let Some(slab) = NonNull::new(next) {
            // SAFETY: slabs in the list are allocated with the layout that `grow` gave them, and
            // nothing uses their content (the caller's promise).
            unsafe {
                let Slab { next: after, bytes } = slab.read();
                next = after;
                let layout = Layout::from_size_align_unchecked(bytes, SLAB_ALIGN);
                from.deallocate(slab.cast(), layout);
            }
        }
    }
}
