//! The end of memblock's use: free memory goes to a page allocator.
//!
//! From then on exactly the free frames (see `frames.rs`) belong to the page allocator. Each call
//! that changes which frames are free keeps this true. Freeing hands out the frames that become
//! free, and reserving first claims the frames that it takes.

use core::iter::FusedIterator;
use core::ops::{Deref, Range};

use crate::Error;
use crate::cursor::Span;
use crate::isolate::Splits;
use crate::map::PhysMap;
use crate::memblock::{Kind, Memblock};
use crate::pfn::contained_frames;
use crate::region::{Flags, NodeId, capped_end};

/// An allocator of page frames, which takes over from memblock.
///
/// With the feature `buddy_system_allocator`, that crate's `FrameAllocator` implements it.
pub trait PageAllocator {
    /// Receives frames, given as numbers. They were never given before, or have been claimed since.
    fn free_pages(&mut self, frames: Range<u64>);

    /// As [`free_pages`](Self::free_pages), with the node of the memory ([`NodeId::NONE`] if it has
    /// none), for allocators with per-node lists.
    fn free_node_pages(&mut self, frames: Range<u64>, nid: NodeId) {
        let _ = nid;
        self.free_pages(frames);
    }

    /// Gives certain frames back if all of them are free, and returns `true` if it did. An
    /// allocator that cannot do so returns `false`.
    fn claim_pages(&mut self, frames: Range<u64>) -> bool {
        let _ = frames;
        false
    }
}

/// An iterator that splits a range of frames into blocks of 2^order frames, each at a multiple of
/// its size, as buddy allocators need them.
///
/// ```
/// use samara_memblock::PageBlocks;
/// assert!(PageBlocks::new(3..9, 10).eq([(3, 0), (4, 2), (8, 0)]));
/// ```
#[derive(Clone, Debug)]
pub struct PageBlocks {
    frames: Range<u64>,
    max_order: u32,
}

impl PageBlocks {
    /// Splits `frames` into blocks of at most 2^`max_order` frames.
    #[must_use]
    pub const fn new(frames: Range<u64>, max_order: u32) -> Self {
        PageBlocks { frames, max_order }
    }
}

impl Iterator for PageBlocks {
    /// The first frame and the order.
    type Item = (u64, u32);

    fn next(&mut self) -> Option<(u64, u32)> {
        let first = self.frames.start;
        let left = self.frames.end.checked_sub(first).filter(|&n| n > 0)?;
        let order = first.trailing_zeros().min(left.ilog2()).min(self.max_order);
        self.frames.start += 1 << order;
        Some((first, order))
    }
}

impl FusedIterator for PageBlocks {}

/// A memblock that has handed out its free memory. It still answers queries, and reserved memory
/// can be freed later.
pub struct Released<'s, M: PhysMap> {
    memblock: Memblock<'s, M>,
}

impl<'s, M: PhysMap> Deref for Released<'s, M> {
    type Target = Memblock<'s, M>;

    fn deref(&self) -> &Memblock<'s, M> {
        &self.memblock
    }
}

impl<'s, M: PhysMap> Memblock<'s, M> {
    /// Hands every free frame ([`free_frames`](Self::free_frames)) to a page allocator, lowest
    /// first, and returns the number of frames. Linux's `memblock_free_all`.
    ///
    /// Memory that must not be mapped or that a driver manages is skipped. Hot-pluggable memory is
    /// handed out, and is no longer marked as such afterwards. A frame with any reserved part
    /// stays. Nothing can be allocated here from now on, so that no frame has two owners.
    ///
    /// ```
    /// use samara_memblock::{Memblock, PageAllocator, Storage};
    ///
    /// #[derive(Default)]
    /// struct Frames(Vec<core::ops::Range<u64>>);
    /// impl PageAllocator for Frames {
    ///     fn free_pages(&mut self, frames: core::ops::Range<u64>) {
    ///         self.0.push(frames);
    ///     }
    /// }
    ///
    /// let mut storage: Storage = Storage::new();
    /// let mut boot = Memblock::new(&mut storage);
    /// boot.add(0, 0x10_000)?;
    /// boot.reserve(0x3800, 0x1000)?;
    /// let mut frames = Frames::default();
    /// let (_, count) = boot.release(&mut frames);
    /// assert_eq!(frames.0, [0..3, 5..16]);
    /// assert_eq!(count, 14);
    /// # Ok::<(), samara_memblock::Error>(())
    /// ```
    pub fn release(mut self, pages: &mut impl PageAllocator) -> (Released<'s, M>, u64) {
        self.close();
        let count = self.hand_out(pages);
        (Released { memblock: self }, count)
    }

    /// Performs the first step of [`release`](Self::release), for a memblock that cannot be moved,
    /// such as one that C code shares. Arrays no longer grow, and no memory counts as
    /// hot-pluggable.
    ///
    /// [`hand_out`](Self::hand_out) must follow. The caller must not allocate any more.
    pub fn close(&mut self) {
        self.can_resize = false;
        // The whole array, so that no region is split and no capacity is needed.
        self.array(Kind::Memory)
            .set(0, u64::MAX, |r| r.flags.remove(Flags::HOTPLUG));
    }

    /// Performs the second step of [`release`](Self::release): hands out all free frames and
    /// returns their number. The page allocator may query this memblock during the call.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # struct Frames(Vec<core::ops::Range<u64>>);
    /// # impl PageAllocator for Frames {
    /// #     fn free_pages(&mut self, frames: core::ops::Range<u64>) {
    /// #         self.0.push(frames);
    /// #     }
    /// #     fn claim_pages(&mut self, frames: core::ops::Range<u64>) -> bool {
    /// #         frames.start != 3
    /// #     }
    /// # }
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// # let mut pages = Frames(Vec::new());
    /// boot.add(0, 0x10_000)?;
    /// boot.close();
    /// assert_eq!(boot.hand_out(&mut pages), 16);
    /// assert_eq!(pages.0, [0..16]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn hand_out(&self, pages: &mut impl PageAllocator) -> u64 {
        free_to(self.free_frames(NodeId::NONE), pages)
    }

    /// Performs the first step of freeing `base .. base + size` after the release, as
    /// [`Released::free_late`] does: hands out the frames that become free and returns their
    /// number.
    ///
    /// [`free`](Self::free) must follow, and cannot fail.
    ///
    /// # Errors
    ///
    /// [`Error::ArrayFull`] if a reserved region must be split and there is no capacity. No frame
    /// has been handed out then.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # struct Frames(Vec<core::ops::Range<u64>>);
    /// # impl PageAllocator for Frames {
    /// #     fn free_pages(&mut self, frames: core::ops::Range<u64>) {
    /// #         self.0.push(frames);
    /// #     }
    /// #     fn claim_pages(&mut self, frames: core::ops::Range<u64>) -> bool {
    /// #         frames.start != 3
    /// #     }
    /// # }
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// # let mut pages = Frames(Vec::new());
    /// boot.add(0, 0x10_000)?;
    /// boot.reserve(0x3000, 0x1000)?;
    /// boot.close();
    /// boot.hand_out(&mut pages);
    /// assert_eq!(boot.hand_out_freed(0x3000, 0x1000, &mut pages), Ok(1));
    /// boot.free(0x3000, 0x1000)?;
    /// assert_eq!(pages.0, [0..3, 4..16, 3..4]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn hand_out_freed(
        &self,
        base: u64,
        size: u64,
        pages: &mut impl PageAllocator,
    ) -> Result<u64, Error> {
        let end = capped_end(base, size);
        let reserved = self.reserved();
        if base < end && reserved.splits(base, end) == Splits::OneInTwo && !reserved.has_capacity(1)
        {
            return Err(Error::ArrayFull);
        }
        Ok(free_to(self.frames_freed_by(base, size), pages))
    }

    /// Performs the first step of reserving `base .. base + size` after the release, as
    /// [`Released::reserve_late`] does: claims the frames that stop being free, all or none.
    ///
    /// [`reserve`](Self::reserve) must follow. If it fails, [`hand_back`](Self::hand_back) undoes
    /// the claim.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`] if a frame is in use. Nothing has been claimed then.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # struct Frames(Vec<core::ops::Range<u64>>);
    /// # impl PageAllocator for Frames {
    /// #     fn free_pages(&mut self, frames: core::ops::Range<u64>) {
    /// #         self.0.push(frames);
    /// #     }
    /// #     fn claim_pages(&mut self, frames: core::ops::Range<u64>) -> bool {
    /// #         frames.start != 3
    /// #     }
    /// # }
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// # let mut pages = Frames(Vec::new());
    /// boot.add(0, 0x10_000)?;
    /// boot.close();
    /// boot.hand_out(&mut pages);
    /// boot.claim(0x5000, 0x1000, &mut pages)?;
    /// if boot.reserve(0x5000, 0x1000).is_err() {
    ///     boot.hand_back(0x5000, 0x1000, &mut pages);
    /// }
    /// # Ok::<(), Error>(())
    /// ```
    pub fn claim(&self, base: u64, size: u64, pages: &mut impl PageAllocator) -> Result<(), Error> {
        let taken = || self.frames_taken_by(base, size);
        for (i, span) in taken().enumerate() {
            if !pages.claim_pages(span.start..span.end) {
                free_to(taken().take(i), pages);
                return Err(Error::NoMemory);
            }
        }
        Ok(())
    }

    /// Undoes [`claim`](Self::claim) of the same range.
    pub fn hand_back(&self, base: u64, size: u64, pages: &mut impl PageAllocator) {
        free_to(self.frames_taken_by(base, size), pages);
    }

    /// Removes all regions, as [`clear`](Self::clear) does, and returns the frames of the arrays
    /// that had grown. After a release, these frames belong to the page allocator too.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x1000, 0x1000)?;
    /// assert_eq!(boot.dismantle().count(), 0, "the arrays had not grown");
    /// assert_eq!(boot.phys_mem_size(), 0);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn dismantle(&mut self) -> impl Iterator<Item = Span> + use<M> {
        let arrays = Kind::ALL.map(|kind| {
            let grown = self.grown[kind as usize];
            let in_use = grown.size > 0 && grown.regions == self.regions(kind).as_ptr();
            in_use.then(|| {
                let frames = contained_frames(grown.base, grown.base + grown.size);
                Span {
                    start: frames.start,
                    end: frames.end,
                    nid: self
                        .memory()
                        .search(grown.base)
                        .map_or(NodeId::NONE, |r| r.nid),
                }
            })
        });
        self.clear();
        arrays.into_iter().flatten()
    }
}

impl<M: PhysMap> Released<'_, M> {
    /// Frees `base .. base + size` late: the frames that become free
    /// ([`Memblock::frames_freed_by`]) go to the page allocator. Returns their number. Parts that
    /// are not reserved do not matter. Linux's `memblock_free_late`.
    ///
    /// # Errors
    ///
    /// [`Error::ArrayFull`] if a reserved region must be split and there is no capacity. Nothing
    /// has changed then.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # struct Frames(Vec<core::ops::Range<u64>>);
    /// # impl PageAllocator for Frames {
    /// #     fn free_pages(&mut self, frames: core::ops::Range<u64>) {
    /// #         self.0.push(frames);
    /// #     }
    /// #     fn claim_pages(&mut self, frames: core::ops::Range<u64>) -> bool {
    /// #         frames.start != 3
    /// #     }
    /// # }
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// # let mut pages = Frames(Vec::new());
    /// boot.add(0, 0x10_000)?;
    /// boot.reserve(0x3800, 0x2000)?; // the initial ramdisk, say
    /// let (mut late, _) = boot.release(&mut pages);
    /// pages.0.clear();
    /// assert_eq!(late.free_late(0x3800, 0x2000, &mut pages), Ok(3));
    /// assert_eq!(pages.0, [3..6]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn free_late(
        &mut self,
        base: u64,
        size: u64,
        pages: &mut impl PageAllocator,
    ) -> Result<u64, Error> {
        let count = self.memblock.hand_out_freed(base, size, pages)?;
        self.memblock.free(base, size)?;
        Ok(count)
    }

    /// Reserves `base .. base + size` late: claims back those of its frames that were handed out,
    /// all or none.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`] if a frame is in use; [`Error::ArrayFull`] if there is no capacity for
    /// another region. Nothing has changed then.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # struct Frames(Vec<core::ops::Range<u64>>);
    /// # impl PageAllocator for Frames {
    /// #     fn free_pages(&mut self, frames: core::ops::Range<u64>) {
    /// #         self.0.push(frames);
    /// #     }
    /// #     fn claim_pages(&mut self, frames: core::ops::Range<u64>) -> bool {
    /// #         frames.start != 3
    /// #     }
    /// # }
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// # let mut pages = Frames(Vec::new());
    /// boot.add(0, 0x10_000)?;
    /// let (mut late, _) = boot.release(&mut pages);
    /// assert_eq!(late.reserve_late(0x4000, 0x1000, &mut pages), Ok(()));
    /// // Somebody uses frame 3.
    /// assert_eq!(late.reserve_late(0x3000, 0x1000, &mut pages), Err(Error::NoMemory));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn reserve_late(
        &mut self,
        base: u64,
        size: u64,
        pages: &mut impl PageAllocator,
    ) -> Result<(), Error> {
        self.memblock.claim(base, size, pages)?;
        let reserved = self.memblock.reserve(base, size);
        if reserved.is_err() {
            self.memblock.hand_back(base, size, pages);
        }
        reserved
    }

    /// Discards the memblock: the frames of its arrays go to the page allocator too. Returns their
    /// number. Linux's `memblock_discard`.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # struct Frames(Vec<core::ops::Range<u64>>);
    /// # impl PageAllocator for Frames {
    /// #     fn free_pages(&mut self, frames: core::ops::Range<u64>) {
    /// #         self.0.push(frames);
    /// #     }
    /// #     fn claim_pages(&mut self, frames: core::ops::Range<u64>) -> bool {
    /// #         frames.start != 3
    /// #     }
    /// # }
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// # let mut pages = Frames(Vec::new());
    /// boot.add(0, 0x10_000)?;
    /// let (late, _) = boot.release(&mut pages);
    /// assert_eq!(late.discard(&mut pages), 0, "the arrays had not grown");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn discard(mut self, pages: &mut impl PageAllocator) -> u64 {
        free_to(self.memblock.dismantle(), pages)
    }
}

/// Hands frames to a page allocator and returns their number.
fn free_to(frames: impl Iterator<Item = Span>, pages: &mut impl PageAllocator) -> u64 {
    let mut count = 0;
    for span in frames {
        count += span.end - span.start;
        pages.free_node_pages(span.start..span.end, span.nid);
    }
    count
}

#[cfg(feature = "buddy_system_allocator")]
impl<const ORDER: usize> PageAllocator for buddy_system_allocator::FrameAllocator<ORDER> {
    fn free_pages(&mut self, frames: Range<u64>) {
        // A machine whose frame numbers exceed its words has no use for those frames.
        let (Ok(start), Ok(end)) = (usize::try_from(frames.start), usize::try_from(frames.end))
        else {
            return;
        };
        self.add_frame(start, end);
    }

    fn claim_pages(&mut self, frames: Range<u64>) -> bool {
        let (Ok(start), Ok(end)) = (usize::try_from(frames.start), usize::try_from(frames.end))
        else {
            return false;
        };
        // One by one: a larger block is found only if it has been merged, and added frames are not
        // merged.
        for frame in start..end {
            if self.alloc_at(frame, 1).is_none() {
                (start..frame).for_each(|claimed| self.dealloc(claimed, 1));
                return false;
            }
        }
        true
    }
}
