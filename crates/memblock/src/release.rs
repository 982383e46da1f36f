//! The end of memblock's time: handing what is free to a page allocator.
//!
//! From then on exactly the free frames (see `frames.rs`) are the page allocator's. Each call that changes what is free keeps
//! that so: freeing gives the frames that it makes free, reserving first claims those that it takes.

use core::iter::FusedIterator;
use core::ops::{Deref, Range};

use crate::Error;
use crate::cursor::Span;
use crate::frames::contained_frames;
use crate::isolate::Splits;
use crate::map::PhysMap;
use crate::memblock::{Kind, Memblock};
use crate::region::{Flags, NodeId, capped_end};

/// What takes over from memblock: an allocator of page frames.
///
/// With the feature `buddy_system_allocator` that crate's `FrameAllocator` is one.
pub trait PageAllocator {
    /// Takes in frames, given as numbers. They were never given before, or were claimed since.
    fn free_pages(&mut self, frames: Range<u64>);

    /// The same, told the node of the memory ([`NodeId::NONE`] if it has none): for allocators that keep nodes apart.
    fn free_node_pages(&mut self, frames: Range<u64>, nid: NodeId) {
        let _ = nid;
        self.free_pages(frames);
    }

    /// Gives back certain frames if all of them are free, and says whether it did. An allocator that cannot do so refuses.
    fn claim_pages(&mut self, frames: Range<u64>) -> bool {
        let _ = frames;
        false
    }
}

/// Splits a range of frames into blocks of 2^order frames, each at a multiple of its size, as buddy allocators want them.
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
    /// Blocks of at most 2^`max_order` frames.
    #[must_use]
    pub const fn new(frames: Range<u64>, max_order: u32) -> Self {
        PageBlocks { frames, max_order }
    }
}

impl Iterator for PageBlocks {
    /// First frame and order.
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

/// A memblock that has handed out what was free. It still answers questions, and reserved memory can be given after the rest.
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
    /// Hands every free frame ([`free_frames`](Self::free_frames)) to a page allocator, lowest first, and returns how many there
    /// were.
    ///
    /// Memory that must not be mapped or that a driver manages is left out; hot-pluggable memory is not, and is no longer
    /// marked as such afterwards. A frame of which any part is reserved stays. Nothing can be allocated here from now on, so
    /// that no frame has two owners. Linux's `memblock_free_all`.
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

    /// First step of [`release`](Self::release), for a memblock that cannot be moved, such as one that C code shares: arrays no
    /// longer grow, and no memory counts as hot-pluggable. Afterwards [`hand_out`](Self::hand_out), and the caller sees to it that
    /// nothing is allocated any more.
    pub fn close(&mut self) {
        self.can_resize = false;
        // The whole array, so that no region is split and no room needed.
        self.array(Kind::Memory)
            .set(0, u64::MAX, |r| r.flags.remove(Flags::HOTPLUG));
    }

    /// Second step of [`release`](Self::release): gives all free frames and says how many there are. The page allocator may ask
    /// this memblock questions meanwhile.
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

    /// First step of freeing `base .. base + size` after everything has been handed out, see [`Released::free_late`]: gives the frames
    /// that become free and says how many they are. [`free`](Self::free) is to follow, and cannot fail.
    ///
    /// # Errors
    /// [`Error::ArrayFull`] when a reserved region has to be split and there is no room; nothing was given then.
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

    /// First step of reserving `base .. base + size` after everything has been handed out, see [`Released::reserve_late`]: claims
    /// the frames that stop being free, all or none. Reserving is to follow; should it fail, [`hand_back`](Self::hand_back)
    /// undoes this.
    ///
    /// # Errors
    /// [`Error::NoMemory`] when some frame is in use; nothing has been claimed then.
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

    /// Forgets everything, as [`clear`](Self::clear) does, and returns the frames that arrays lay in which had grown. Once
    /// everything has been handed out, these are the page allocator's, too.
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
    /// Frees `base .. base + size` late: the frames that become free by it ([`Memblock::frames_freed_by`]) go to the page allocator.
    /// Returns how many there were. What is not reserved does not matter. Linux's `memblock_free_late`.
    ///
    /// # Errors
    /// [`Error::ArrayFull`] when a reserved region has to be split and there is no room; nothing has changed then.
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

    /// Reserves `base .. base + size` late: the frames of it that were handed out are claimed back, all or none.
    ///
    /// # Errors
    /// [`Error::NoMemory`] when some frame is in use; [`Error::ArrayFull`] when there is no room for another region. Nothing has
    /// changed then.
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

    /// Gives up memblock: what its arrays occupied goes to the page allocator too. Returns how many frames that is. Linux's
    /// `memblock_discard`.
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

/// Gives frames to a page allocator and says how many they were.
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
        // One by one: a larger block is only found if it has been merged, which added frames are not.
        for frame in start..end {
            if self.alloc_at(frame, 1).is_none() {
                (start..frame).for_each(|claimed| self.dealloc(claimed, 1));
                return false;
            }
        }
        true
    }
}
