//! Physical memory: the frame allocator, the mapping through which the library accesses frames, and
//! the state shared by all address spaces.

use crate::atomic::{AtomicU64, AtomicUsize, Ordering};
use core::mem::MaybeUninit;
use core::ops::{Deref, Range};
use core::ptr::NonNull;

use crate::deferred_free::DeferredFree;
use crate::entry::{ENTRIES, PAGE_SIZE};
use crate::error::Error;
use crate::frames::{Frames, Kind};
use crate::invalidate::{Context, Retired};
use crate::reclaim::{Limbo, Reclaim};
use crate::shard::CachePadded;
use crate::spin::Spin;
use crate::table::Table;
use crate::zero;

/// The allocator of frames.
///
/// All processors that take faults call it. An allocator should keep a few single frames for each
/// processor, as [`Arena`](crate::Arena) does, so that processors rarely wait for one another.
///
/// # Safety
///
/// A block that was given out is not given out again until it is freed. It is aligned to its size,
/// and it lies among the frames that the [`Physical`] around this allocator counts.
pub unsafe trait FrameAllocator {
    /// Allocates 2^`order` frames, of any content, or returns `None` if there are none. The library
    /// asks for orders 0, 9 and 18.
    fn alloc(&self, order: u32) -> Option<u64>;

    /// Frees a block.
    ///
    /// # Safety
    ///
    /// `phys` and `order` are those of one call of [`alloc`](Self::alloc), and nothing uses the
    /// block any more.
    unsafe fn free(&self, phys: u64, order: u32);

    /// Fills `frames` from its start with single frames, as repeated calls of
    /// [`alloc`](Self::alloc) with order 0 would, and returns their number. Implementations should
    /// take their lock once for all of them.
    fn alloc_bulk(&self, frames: &mut [u64]) -> usize {
        alloc_one_by_one(self, frames)
    }

    /// Allocates a frame for a table, of any content. It is freed by
    /// [`free_table`](Self::free_table). Tables do not move, and a fork visits all of them.
    /// Implementations should therefore group tables, away from pages that could be moved.
    fn alloc_table(&self) -> Option<u64> {
        self.alloc(0)
    }

    /// Frees the frame of a table.
    ///
    /// # Safety
    ///
    /// `phys` is the result of one call of [`alloc_table`](Self::alloc_table), and nothing uses the
    /// frame any more.
    unsafe fn free_table(&self, phys: u64) {
        // SAFETY: the caller's promise. Unless an implementation overrides both functions, tables
        // are allocated with order 0.
        unsafe { self.free(phys, 0) };
    }

    /// Frees all frames of these ranges of physical addresses. Implementations should take their
    /// lock once for all of them.
    ///
    /// # Safety
    ///
    /// Each frame was given out by [`alloc`](Self::alloc) with order 0, and nothing uses it any
    /// more.
    unsafe fn free_runs(&self, runs: &[Range<u64>]) {
        for run in runs {
            for phys in run.clone().step_by(PAGE_SIZE as usize) {
                // SAFETY: the caller's promise.
                unsafe { self.free(phys, 0) };
            }
        }
    }
}

/// [`FrameAllocator::alloc_bulk`] for allocators that give out one frame at a time.
pub(crate) fn alloc_one_by_one(
    backing: &(impl FrameAllocator + ?Sized),
    frames: &mut [u64],
) -> usize {
    let mut len = 0;
    for frame in frames {
        let Some(phys) = backing.alloc(0) else {
            break;
        };
        *frame = phys;
        len += 1;
    }
    len
}

/// The mapping through which the library reads and writes frames.
///
/// # Safety
///
/// For each block that the allocator has given out, the pointer to its first byte is valid for
/// reads and writes of the whole block, aligned to 4 KiB, and the same until the block is freed. A
/// pointer from [`to_virt_run`](Self::to_virt_run) is valid for the number of frames that was asked
/// for.
pub unsafe trait PhysMem {
    /// Returns the first byte of the frame at this physical address.
    fn to_virt(&self, phys: u64) -> NonNull<u8>;

    /// Returns the first byte of `frames` adjacent frames, all of which have been given out, if one
    /// pointer is valid for all of them until the first is freed. Such frames are cleared faster
    /// than one by one. The default is `None`.
    fn to_virt_run(&self, phys: u64, frames: usize) -> Option<NonNull<u8>> {
        let _ = (phys, frames);
        None
    }

    /// Returns `true` if the bytes of a frame that was just given out, and of those after it, are
    /// probably still in a processor's cache. Large runs that are not cached are cleared with
    /// non-temporal stores, if the processor has them. That takes about half the time, and does not
    /// evict what is cached. The default is `true`; [`Arena`](crate::Arena) returns `true` for
    /// frames that were freed among the last 4 MiB.
    fn is_cached(&self, phys: u64) -> bool {
        let _ = phys;
        true
    }
}

/// Physical memory as address spaces use it: frames, their counts, and the grace periods after
/// which tables are freed.
///
/// One value serves any number of address spaces, which may share frames and tables with one
/// another.
#[derive(Debug)]
pub struct Physical<B: FrameAllocator + PhysMem, R: Reclaim> {
    backing: B,
    frames: Frames,
    reclaim: R,
    /// The zero page; [`NONE`] only during construction, because memory may start at 0.
    zero: u64,
    tables: CachePadded<Tables>,
}

/// The least number of adjacent frames that may be cleared with non-temporal stores. A program that
/// asks for fewer will probably touch all of them soon.
const MANY: usize = 32;

/// The address that belongs to no frame.
const NONE: u64 = u64::MAX;

/// The fields that change when tables are created and freed, apart from those that all threads
/// read.
#[derive(Debug)]
struct Tables {
    limbo: Spin<Limbo>,
    count: AtomicUsize,
    shared: AtomicUsize,
}

/// A handle by which address spaces keep their memory alive: a reference or a counted pointer.
///
/// A clone is another handle to the same [`Physical`].
pub trait Memory: Clone {
    /// Returns the allocator.
    type Backing: FrameAllocator + PhysMem;
    /// The grace periods of walks.
    type Reclaim: Reclaim;
    /// Returns the memory, always the same.
    fn physical(&self) -> &Physical<Self::Backing, Self::Reclaim>;
    /// Is called when tables over this memory are dropped, before they are freed. Implementations
    /// pass the call on to [`Invalidate::ended`](crate::Invalidate::ended). The default does
    /// nothing.
    fn ended(&self, context: &Context) {
        let _ = context;
    }
}

impl<B: FrameAllocator + PhysMem, R: Reclaim, P: Deref<Target = Physical<B, R>> + Clone> Memory
    for P
{
    type Backing = B;
    type Reclaim = R;

    fn physical(&self) -> &Physical<B, R> {
        self
    }
}

impl<B: FrameAllocator + PhysMem, R: Reclaim> Physical<B, R> {
    /// Creates memory with the frames in `base .. base + frames * 4096`. Allocates one frame for
    /// the zero page, and four bytes for the count of each frame.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`]; [`Error::Misaligned`] for a base that is not a multiple of 4,096;
    /// [`Error::TooMany`] for more than 4 TiB.
    pub fn new(backing: B, reclaim: R, base: u64, frames: u64) -> Result<Self, Error> {
        Self::of(backing, reclaim, Frames::new(base, frames)?)
    }

    /// Creates memory with the frames in these ranges of physical addresses (each start inclusive,
    /// each end exclusive, ascending). The counts lie in memory of the caller, which must have at
    /// least [`Frames::size_for`] bytes for the same ranges. This suits a kernel that has no
    /// allocator yet and whose memory has holes. Holes cost nothing. Frames in the largest range
    /// are found without a search. Allocates one frame for the zero page.
    ///
    /// The ranges contain all frames that the allocator may ever give out. They may contain more:
    /// the kernel's own code, or the counts themselves.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`], also if `counts` is too small; [`Error::Misaligned`] for a range that
    /// does not begin and end at a page, or begins before the previous one ends; [`Error::TooMany`]
    /// for no frame, or more than 4 TiB.
    ///
    /// ```
    /// # use samara_paging::{Arena, Error, Exclusive, Frames, Kind, Physical};
    /// # let (backing, reclaim) = (Arena::on_heap(64)?, unsafe { Exclusive::new() });
    /// // Below 640 KiB, and from 1 GiB on.
    /// let ranges = [0..0xa_0000, 1 << 30..(1 << 30) + 64 * 4096];
    /// let size = Frames::size_for(&ranges)?;
    /// assert!(size < 4 * (160 + 64) + 4096);
    /// // A kernel takes them from where it gets memory at boot, by their address in its direct map.
    /// let counts = Box::leak(Box::new_uninit_slice(size));
    /// let memory = Physical::with_counts(backing, reclaim, &ranges, counts)?;
    /// assert_eq!(memory.frames().count(), 160 + 64);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn with_counts(
        backing: B,
        reclaim: R,
        ranges: &[Range<u64>],
        counts: &'static mut [MaybeUninit<u8>],
    ) -> Result<Self, Error> {
        Self::of(backing, reclaim, Frames::within(ranges, counts)?)
    }

    fn of(backing: B, reclaim: R, frames: Frames) -> Result<Self, Error> {
        let mut this = Self {
            backing,
            frames,
            reclaim,
            zero: NONE,
            tables: CachePadded(Tables {
                limbo: Spin::new(Limbo::new()),
                count: AtomicUsize::new(0),
                shared: AtomicUsize::new(0),
            }),
        };
        this.zero = this.alloc_page(Kind::File)?;
        // SAFETY: a newly allocated frame, which nothing else uses.
        unsafe { zero::clear(this.to_virt(this.zero), 1) };
        Ok(this)
    }

    /// Returns the allocator that was passed to [`new`](Self::new).
    pub fn backing(&self) -> &B {
        &self.backing
    }

    /// Returns the counts of frames.
    pub fn frames(&self) -> &Frames {
        &self.frames
    }

    /// Returns the grace periods of walks.
    pub(crate) fn grace(&self) -> &R {
        &self.reclaim
    }

    /// Returns the zero page. It is mapped as [`Source::Special`](crate::Source::Special) and never
    /// counted.
    pub fn zero_page(&self) -> u64 {
        self.zero
    }

    /// Returns the number of frames that hold tables of address spaces, without those that wait for
    /// a grace period.
    pub fn table_frames(&self) -> usize {
        self.tables.0.count.load(Ordering::Relaxed)
    }

    /// Returns the number of last-level tables that more than one address space uses.
    pub fn shared_tables(&self) -> usize {
        self.tables.0.shared.load(Ordering::Relaxed)
    }

    /// Returns the address at which the library accesses a frame.
    pub fn to_virt(&self, phys: u64) -> NonNull<u8> {
        self.backing.to_virt(phys)
    }

    /// Allocates a frame of any content, with one reference, which belongs to the caller. The
    /// caller passes it on with [`Source::Owned`](crate::Source::Owned) or gives it up with
    /// [`put`](Self::put).
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`].
    #[inline]
    pub fn alloc_page(&self, kind: Kind) -> Result<u64, Error> {
        let phys = self.frames_or_reclaimed(|backing| backing.alloc(0))?;
        self.frames.claim_page(phys, kind);
        Ok(phys)
    }

    /// Allocates frames with one reference each, fills `frames` with them from its start, and
    /// returns their number. The number is less than the length of `frames` if memory runs out. The
    /// counts are written in one pass without other accesses. Callers should therefore clear or
    /// copy the frames' bytes afterwards.
    ///
    /// ```
    /// # use samara_paging::{Arena, Exclusive, Kind, Physical};
    /// # // SAFETY: one thread uses the memory.
    /// # let memory = Physical::new(Arena::on_heap(8)?, unsafe { Exclusive::new() }, 1 << 30, 8)?;
    /// let free = memory.backing().free_frames() as usize;
    /// let mut frames = [0; 16];
    /// assert_eq!(memory.alloc_pages(Kind::Anon, &mut frames), free);
    /// frames[..free].iter().for_each(|&phys| memory.put(phys));
    /// # Ok::<(), samara_paging::Error>(())
    /// ```
    pub fn alloc_pages(&self, kind: Kind, frames: &mut [u64]) -> usize {
        self.alloc_runs(kind, frames, |_, _| {})
    }

    /// Allocates frames as [`alloc_pages`](Self::alloc_pages) does and fills them with zeroes, in
    /// runs as long as the frames are [contiguous](PhysMem::to_virt_run).
    pub fn alloc_zeroed_pages(&self, kind: Kind, frames: &mut [u64]) -> usize {
        self.alloc_runs(kind, frames, |mut first, mut left| {
            let past_cache = left >= MANY && !self.backing.is_cached(first);
            while left > 0 {
                let whole = self.backing.to_virt_run(first, left);
                let (at, count) = whole.map_or((self.to_virt(first), 1), |at| (at, left));
                // SAFETY: `count` new frames, which nothing else uses.
                unsafe {
                    if past_cache {
                        zero::clear_nontemporal(at, count);
                    } else {
                        zero::clear(at, count);
                    }
                }
                first += count as u64 * PAGE_SIZE;
                left -= count;
            }
        })
    }

    /// Calls `each` for each run of adjacent frames, with the first frame and the number of frames,
    /// after they have been allocated and counted.
    #[inline]
    fn alloc_runs(&self, kind: Kind, frames: &mut [u64], each: impl Fn(u64, usize)) -> usize {
        let mut len = self.backing.alloc_bulk(frames);
        if len == 0 && !frames.is_empty() {
            self.reclaim();
            len = self.backing.alloc_bulk(frames);
        }
        let frames = frames.get(..len).unwrap_or(frames);
        for run in frames.chunk_by(|&frame, &next| frame + PAGE_SIZE == next) {
            self.frames.claim_run(run[0], run.len(), kind);
            each(run[0], run.len());
        }
        len
    }

    /// Allocates 2^`order` frames (orders 0, 9 and 18) with one reference each.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`], also for other orders.
    pub fn alloc_block(&self, order: u32, kind: Kind) -> Result<u64, Error> {
        if !matches!(order, 0 | 9 | 18) {
            return Err(Error::NoMemory);
        }
        let phys = self.frames_or_reclaimed(|backing| backing.alloc(order))?;
        self.frames.claim(phys, order, kind);
        Ok(phys)
    }

    /// Allocates a block filled with zeroes by non-temporal stores, because ordinary stores would
    /// evict most of the cache.
    ///
    /// # Errors
    ///
    /// As for [`alloc_block`](Self::alloc_block).
    pub fn alloc_zeroed_block(&self, order: u32, kind: Kind) -> Result<u64, Error> {
        let block = self.alloc_block(order, kind)?;
        // SAFETY: a new block of 2^`order` frames.
        unsafe { zero::clear_nontemporal(self.to_virt(block), 1 << order) };
        Ok(block)
    }

    /// Allocates frames. If the allocator refuses, it is asked once more after the tables whose
    /// grace period has ended are freed.
    #[inline]
    fn frames_or_reclaimed(&self, alloc: impl Fn(&B) -> Option<u64>) -> Result<u64, Error> {
        match alloc(&self.backing) {
            Some(phys) => Ok(phys),
            None => self.reclaimed(alloc),
        }
    }

    #[cold]
    fn reclaimed(&self, alloc: impl Fn(&B) -> Option<u64>) -> Result<u64, Error> {
        self.reclaim();
        alloc(&self.backing).ok_or(Error::NoMemory)
    }

    /// Adds a reference on a frame. The caller already has one, or holds the lock of a table that
    /// maps the frame.
    ///
    /// # Errors
    ///
    /// [`Error::TooMany`] beyond 1,023.
    pub fn get(&self, phys: u64) -> Result<(), Error> {
        self.frames.get(phys)
    }

    /// Gives up a reference. The frame is freed with the last of its references and mappings.
    pub fn put(&self, phys: u64) {
        if let Some(index) = self.frames.put(phys) {
            let mut dead = DeferredFree::new();
            dead.push(&self.frames, index, 1);
            self.free_deferred(&mut dead);
        }
    }

    /// Gives up the references on a block.
    pub fn put_block(&self, phys: u64, order: u32) {
        for i in 0..1u64 << order {
            self.put(phys + i * PAGE_SIZE);
        }
    }

    /// Frees frames without mappings and references, which no TLB holds any more.
    #[inline]
    pub(crate) fn free_deferred(&self, dead: &mut DeferredFree) {
        dead.free(&self.frames, &self.backing);
    }

    /// Allocates a frame of private memory with a copy of another frame's bytes. Programs and
    /// devices may write to that frame at the same time; the copy is then consistent for each word
    /// only.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`].
    pub(crate) fn duplicate(&self, phys: u64) -> Result<u64, Error> {
        const WORD: usize = size_of::<usize>();
        let copy = self.alloc_page(Kind::Anon)?;
        let from = self.to_virt(phys).cast::<core::sync::atomic::AtomicUsize>();
        let to = self.to_virt(copy).cast::<usize>();
        for i in 0..PAGE_SIZE as usize / WORD {
            // SAFETY: two whole aligned frames. The caller keeps the source alive, and others
            // access its words by atomic instructions; nothing else uses the copy.
            unsafe {
                to.add(i).write(
                    from.add(i)
                        .as_ref()
                        .load(core::sync::atomic::Ordering::Relaxed),
                )
            };
        }
        Ok(copy)
    }

    /// Allocates a frame of any content for a table, with one user.
    pub(crate) fn alloc_table(&self) -> Result<u64, Error> {
        let phys = self.frames_or_reclaimed(B::alloc_table)?;
        self.frames.claim_table(phys);
        self.tables.0.count.fetch_add(1, Ordering::Relaxed);
        Ok(phys)
    }

    /// Allocates a table with 512 empty entries.
    pub(crate) fn alloc_empty_table(&self) -> Result<u64, Error> {
        let phys = self.alloc_table()?;
        self.clear_table(phys);
        Ok(phys)
    }

    /// Clears all entries of a table that no other thread can reach.
    pub(crate) fn clear_table(&self, phys: u64) {
        if cfg!(samara_loom) {
            // The checker's atomics are not plain bytes.
            for slot in self.table(phys).entries(0..ENTRIES) {
                slot.store(0, Ordering::Relaxed);
            }
        } else {
            // SAFETY: the frame of a table that no other thread can reach.
            unsafe { zero::clear(self.to_virt(phys), 1) };
        }
    }

    /// Frees the frame of a table.
    ///
    /// # Safety
    ///
    /// No entry points to the table, and every walk that began before the last such entry was
    /// removed has ended.
    pub(crate) unsafe fn free_table(&self, phys: u64) {
        self.tables.0.count.fetch_sub(1, Ordering::Relaxed);
        self.frames.release_table(phys);
        // SAFETY: allocated as a table; the rest is the caller's promise.
        unsafe { self.backing.free_table(phys) };
    }

    /// Returns the table in this frame.
    #[inline]
    pub(crate) fn table(&self, phys: u64) -> Table<'_> {
        let entries = self.to_virt(phys).cast();
        // SAFETY: a table is a frame that this allocator gave out, so that the pointer is valid for
        // `ENTRIES` words of eight bytes. Callers read its address from an entry of a tree within a
        // section, or own the table.
        unsafe { Table::new(entries, self.frames.table_word(phys), phys) }
    }

    /// Returns the location of an entry of a table.
    #[inline]
    pub(crate) fn slot(&self, table: u64, index: usize) -> &AtomicU64 {
        let entries = self.to_virt(table).cast::<AtomicU64>();
        // SAFETY: as above; the index is masked.
        unsafe { entries.add(index & (ENTRIES - 1)).as_ref() }
    }

    /// Reads an entry of a table as a walk does: see [`Table::read`].
    #[inline]
    pub(crate) fn read(&self, table: u64, index: usize) -> u64 {
        self.slot(table, index).load(Ordering::SeqCst)
    }

    pub(crate) fn count_shared(&self, more: isize) {
        self.tables
            .0
            .shared
            .fetch_add(more as usize, Ordering::Relaxed);
    }

    /// Takes over tables that no entry points to any more, and frees those whose grace period has
    /// ended.
    pub(crate) fn retire(&self, retired: Retired) {
        self.tables
            .0
            .count
            .fetch_sub(retired.len, Ordering::Relaxed);
        let mut limbo = self.tables.0.limbo.lock();
        let free = limbo.push(self, retired);
        drop(limbo);
        self.free_list(free);
    }

    /// Frees retired tables whose grace period has ended. Retiring a table does this as well. A
    /// kernel may call it when it is idle.
    pub fn reclaim(&self) {
        loop {
            let free = self.tables.0.limbo.lock().poll(&self.reclaim);
            if free.is_empty() {
                return;
            }
            self.free_list(free);
        }
    }

    /// Puts a table that no thread can reach at the head of a list.
    pub(crate) fn link(&self, list: &mut Retired, phys: u64) {
        self.table(phys).set_link(list.head);
        if list.len == 0 {
            list.tail = phys;
        }
        list.head = phys;
        list.len += 1;
    }

    fn free_list(&self, mut list: Retired) {
        while list.len > 0 {
            let phys = list.head;
            list.head = self.table(phys).link();
            list.len -= 1;
            self.tables.0.count.fetch_add(1, Ordering::Relaxed);
            // SAFETY: the limbo returns tables after their grace period.
            unsafe { self.free_table(phys) };
        }
    }
}

impl<B: FrameAllocator + PhysMem, R: Reclaim> Drop for Physical<B, R> {
    /// Address spaces borrow or count this memory: none of them is left here, and no walk either.
    fn drop(&mut self) {
        self.reclaim();
        if self.zero != NONE {
            self.put(self.zero);
        }
    }
}

const _: () = assert!(ENTRIES * 8 == PAGE_SIZE as usize || cfg!(samara_loom));
