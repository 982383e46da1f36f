//! Nodes cut out of slabs, and those given back.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use crate::{NodeAlloc, block};

/// A slab starts here, wherever its memory does; its nodes follow at the next address that is aligned for one.
#[repr(C)]
struct Slab {
    next: *mut Slab,
    bytes: usize,
}

const SLAB_ALIGN: usize = 16;
const _: () = assert!(size_of::<Slab>() <= SLAB_ALIGN && align_of::<Slab>() <= SLAB_ALIGN);

/// The first slab has this many nodes, so that a tiny structure stays tiny.
const FIRST: usize = 1;
/// The second has this many.
const SECOND: usize = 3;
/// From then on a slab doubles what there is, up to this many nodes …
const DOUBLING: usize = 15;
/// … and then adds one node for so many that there are, …
const GROWTH: usize = 8;
/// … up to so many bytes, or one node.
const MOST_BYTES: usize = 127 * 256;

/// Slabs, and a list of nodes that were given back. Dropping it leaks.
pub(crate) struct Slabs<const SIZE: usize> {
    /// Nodes that were given back, linked through their first words.
    free: *mut u8,
    /// More lists of such nodes, which came from others: the first nodes are linked through their second words.
    lists: *mut u8,
    /// The nodes of the newest slab that were never used.
    fresh: *mut u8,
    left: usize,
    slabs: *mut Slab,
    /// The last one in that list.
    oldest: *mut Slab,
    /// Nodes in all slabs.
    nodes: usize,
    bytes: usize,
}

// SAFETY: the slabs belong to it.
unsafe impl<const SIZE: usize> Send for Slabs<SIZE> {}

impl<const SIZE: usize> Slabs<SIZE> {
    const BLOCK: Layout = block::layout::<SIZE>();
    /// What a slab takes beside its nodes: the header, and what aligning the first node may skip.
    const OVERHEAD: usize = if Self::BLOCK.align() > SLAB_ALIGN {
        Self::BLOCK.align()
    } else {
        SLAB_ALIGN
    };

    /// The most nodes of a slab, unless a longer run is asked for.
    const MOST: usize = if SIZE > MOST_BYTES {
        1
    } else {
        MOST_BYTES / SIZE
    };

    pub(crate) const fn new() -> Self {
        // Sizes that are none do not come further than this.
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

    /// Bytes of all slabs.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns `true` if there are blocks to free.
    #[inline]
    pub(crate) fn has_slabs(&self) -> bool {
        !self.slabs.is_null()
    }

    /// Whether [`take`](Self::take) needs a new slab.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.free.is_null() && self.left == 0 && self.lists.is_null()
    }

    #[inline]
    pub(crate) fn take(&mut self, from: &impl NodeAlloc) -> Option<NonNull<u8>> {
        if let Some(node) = NonNull::new(self.free) {
            // SAFETY: nodes in the list are nobody else's, and their first words were written by `put`.
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

    /// Goes on with another list of nodes that were given back. `false` if there is none.
    #[cold]
    fn next_list(&mut self) -> bool {
        debug_assert!(self.free.is_null());
        let Some(list) = NonNull::new(self.lists) else {
            return false;
        };
        self.free = self.lists;
        // SAFETY: the first nodes of these lists are nobody else's, and have their second words from `absorb`.
        self.lists = unsafe { list.cast::<*mut u8>().add(1).read() };
        true
    }

    /// `count` nodes, one behind the other. None if it took a new slab, although as many have been given back: else there would be more with each structure that is
    /// made and given up.
    pub(crate) fn take_run(&mut self, count: usize, from: &impl NodeAlloc) -> Option<NonNull<u8>> {
        if self.left < count {
            if self.has_free(count) {
                return None;
            }
            self.grow(count.max(self.next_slab()), from)?;
        }
        self.cut(count)
    }

    /// Whether so many nodes were given back. O(`count`), as to take them is.
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

    /// Takes `count` nodes off the fresh ones, of which there are so many.
    #[inline]
    fn cut(&mut self, count: usize) -> Option<NonNull<u8>> {
        let node = NonNull::new(self.fresh)?;
        debug_assert!(count <= self.left);
        self.left -= count;
        // The address after the last one is still within the slab, or at its end.
        self.fresh = self.fresh.wrapping_add(count * Self::BLOCK.size());
        Some(node)
    }

    /// Takes a node back.
    ///
    /// # Safety
    ///
    /// It came from here, and nobody uses it any more.
    #[inline]
    pub(crate) unsafe fn put(&mut self, node: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe { node.cast::<*mut u8>().write(self.free) };
        self.free = node.as_ptr();
    }

    /// Takes back a list of nodes that are linked as by [`put`](Self::put).
    ///
    /// # Safety
    ///
    /// They came from here, and nobody uses them any more.
    pub(crate) unsafe fn put_list(&mut self, list: *mut u8) {
        if self.free.is_null() {
            self.free = list;
            return;
        }
        let mut next = list;
        while let Some(node) = NonNull::new(next) {
            // SAFETY: nodes in the list are linked through their first words; they are ours now (the caller's promise).
            unsafe {
                next = node.cast::<*mut u8>().read();
                self.put(node);
            }
        }
    }

    /// Takes over all that another one has, its slabs and its nodes. Their memory came from the same source, or from interchangeable ones. O(1), but for what
    /// is left of the newest slab of one of the two.
    pub(crate) fn absorb(&mut self, mut other: Self) {
        if self.left < other.left {
            core::mem::swap(&mut self.fresh, &mut other.fresh);
            core::mem::swap(&mut self.left, &mut other.left);
        }
        while let Some(node) = (other.left > 0).then(|| other.cut(1)).flatten() {
            // SAFETY: it was cut off just now.
            unsafe { self.put(node) };
        }
        if let Some(list) = NonNull::new(other.free) {
            // SAFETY: it is nobody else's, and nodes are two words at least.
            unsafe { list.cast::<*mut u8>().add(1).write(other.lists) };
            other.lists = other.free;
        }
        // One list at a time: few have more than one.
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
            // SAFETY: a slab that is allocated, and nobody else's.
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

    /// Adds a slab of `count` nodes, which are the fresh ones then.
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
        // Those that are left of the slab before are as good as given back.
        while self.left > 0 {
            let Some(node) = self.cut(1) else { break };
            // SAFETY: it was cut off just now.
            unsafe { self.put(node) };
        }
        let skip = (base.as_ptr().addr() + size_of::<Slab>()).next_multiple_of(Self::BLOCK.align())
            - base.as_ptr().addr();
        debug_assert!(skip <= Self::OVERHEAD);
        self.fresh = base.as_ptr().wrapping_add(skip);
        self.left = count;
        Some(())
    }

    /// Frees all slabs: there are no nodes any more.
    ///
    /// # Safety
    ///
    /// Nobody uses a node that came from here. `from` is that of all calls, or interchangeable with it.
    pub(crate) unsafe fn free_all(&mut self, from: &impl NodeAlloc) {
        let mut next = self.slabs;
        *self = Self::new();
        while let Some(slab) = NonNull::new(next) {
            // SAFETY: slabs in the list are allocated, with the layout that `grow` gave them, and nobody uses what is in
            // them (the caller's promise).
            unsafe {
                let Slab { next: after, bytes } = slab.read();
                next = after;
                let layout = Layout::from_size_align_unchecked(bytes, SLAB_ALIGN);
                from.deallocate(slab.cast(), layout);
            }
        }
    }
}
