//! Physical memory: who gives frames, where they are read and written, and all that address spaces have in common.

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

/// Where frames come from.
///
/// All processors that take faults come here. An allocator does well to keep some single frames for each of them, as [`Arena`](crate::Arena) does, so that
/// they seldom wait for one another.
///
/// # Safety
///
/// A block that was given out is nobody else's until it is freed, is aligned to its size, and lies among the frames that the [`Physical`]
/// around this allocator counts.
pub unsafe trait FrameAllocator {
    /// 2^`order` frames, of any content; `None` when there are none. The library asks for orders 0, 9 and 18.
    fn alloc(&self, order: u32) -> Option<u64>;

    /// Takes a block back.
    ///
    /// # Safety
    ///
    /// `phys` and `order` are of one call of [`alloc`](Self::alloc), and nobody uses the block any more.
    unsafe fn free(&self, phys: u64, order: u32);

    /// Fills `frames` from its start with single frames, as many as there are: as so many calls of [`alloc`](Self::alloc) with order 0 would give. How
    /// many. An allocator does well to take its lock once for all of them.
    fn alloc_bulk(&self, frames: &mut [u64]) -> usize {
        alloc_one_by_one(self, frames)
    }

    /// A frame for a table, of any content; freed by [`free_table`](Self::free_table). Tables stay where they are, and a fork looks at all of them: an
    /// allocator does well to take them from the same pieces of memory, where pages that could be moved are not.
    fn alloc_table(&self) -> Option<u64> {
        self.alloc(0)
    }

    /// Takes back a table's frame.
    ///
    /// # Safety
    ///
    /// `phys` is of one call of [`alloc_table`](Self::alloc_table), and nobody uses the frame any more.
    unsafe fn free_table(&self, phys: u64) {
        // SAFETY: the caller's promise; unless both are provided otherwise, tables are allocated with order 0.
        unsafe { self.free(phys, 0) };
    }

    /// Takes back all frames of these ranges of physical addresses. An allocator does well to take its lock once for all of them.
    ///
    /// # Safety
    ///
    /// Each of these frames was given out by [`alloc`](Self::alloc) with order 0, and nobody uses it any more.
    unsafe fn free_runs(&self, runs: &[Range<u64>]) {
        for run in runs {
            for phys in run.clone().step_by(PAGE_SIZE as usize) {
                // SAFETY: the caller's promise.
                unsafe { self.free(phys, 0) };
            }
        }
    }
}

/// [`FrameAllocator::alloc_bulk`] of allocators that give one frame at a time.
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

/// Where the library reads and writes a frame.
///
/// # Safety
///
/// For each block that the allocator has given out, the pointer to its first byte is valid for reads and writes of the whole block, aligned to
/// 4 KiB, and the same until the block is freed. What [`to_virt_run`](Self::to_virt_run) gives is valid for as many frames as were asked for.
pub unsafe trait PhysMem {
    /// The first byte of the frame at this physical address.
    fn to_virt(&self, phys: u64) -> NonNull<u8>;

    /// The first byte of so many frames that follow one another, all of which have been given out, if one pointer is valid for all of them until the first
    /// is freed: they are cleared quicker than one by one. `None` unless said otherwise.
    fn to_virt_run(&self, phys: u64, frames: usize) -> Option<NonNull<u8>> {
        let _ = (phys, frames);
        None
    }

    /// Whether the bytes of a frame that has just been given out, and of those that follow it, are probably still in the cache of a processor. Many frames
    /// of which that is not so are cleared past the cache, if the processor has stores that do so: in about half the time, and without driving out what is
    /// there. `true` unless said otherwise; [`Arena`](crate::Arena) says it of frames that were freed among the last 4 MiB.
    fn is_cached(&self, phys: u64) -> bool {
        let _ = phys;
        true
    }
}

/// Memory as address spaces see it: frames, their counts, and when tables are freed that a walk may still read.
///
/// One of these serves any number of address spaces, whose tables may share frames and tables with one another.
#[derive(Debug)]
pub struct Physical<B: FrameAllocator + PhysMem, R: Reclaim> {
    backing: B,
    frames: Frames,
    reclaim: R,
    /// [`NONE`] only until there is one: memory may begin at 0.
    zero: u64,
    tables: CachePadded<Tables>,
}

/// So many frames that follow one another may be cleared past the cache: of fewer, the program will probably soon touch all.
const MANY: usize = 32;

/// No address of a frame.
const NONE: u64 = u64::MAX;

/// What changes when tables come and go, apart from what all read.
#[derive(Debug)]
struct Tables {
    limbo: Spin<Limbo>,
    count: AtomicUsize,
    shared: AtomicUsize,
}

/// How address spaces hold on to their memory: by reference, or counted.
///
/// Cloning gives another handle on the same [`Physical`].
pub trait Memory: Clone {
    /// Its allocator.
    type Backing: FrameAllocator + PhysMem;
    /// How it waits for walks.
    type Reclaim: Reclaim;
    /// The memory itself, always the same.
    fn physical(&self) -> &Physical<Self::Backing, Self::Reclaim>;
    /// Tables over this memory are being dropped, and are freed after this returns: [`Invalidate::ended`](crate::Invalidate::ended), for an owner that knows to
    /// whom to pass it on. Does nothing unless said otherwise.
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
    /// Memory whose frames lie in `base .. base + frames * 4096`. Takes one frame for the zero page, and four bytes for each frame.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`]; [`Error::Misaligned`] for a base that is not a multiple of 4,096; [`Error::TooMany`] for more than 4 TiB.
    pub fn new(backing: B, reclaim: R, base: u64, frames: u64) -> Result<Self, Error> {
        Self::of(backing, reclaim, Frames::new(base, frames)?)
    }

    /// Memory whose frames lie in these ranges of physical addresses (each start inclusive, end exclusive, ascending), with the counts of frames in memory of the
    /// caller's, of at least [`Frames::size_for`] the same ranges bytes: for a kernel that has no allocator yet, and whose memory has holes. Holes cost nothing.
    /// Which range a frame is in is found without a search for those in the largest one. Takes one frame for the zero page.
    ///
    /// The ranges are all that the allocator may ever give out, and may hold more: the kernel's own code, or the counts themselves.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`], also if `counts` is too small; [`Error::Misaligned`] for a range that does not begin and end with a page, or begins before the one
    /// before it ends; [`Error::TooMany`] for no frame, or more than 4 TiB.
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
        // SAFETY: the frame has just been allocated, and nobody else knows it.
        unsafe { zero::clear(this.to_virt(this.zero), 1) };
        Ok(this)
    }

    /// What was given to [`new`](Self::new).
    pub fn backing(&self) -> &B {
        &self.backing
    }

    /// The counts of frames.
    pub fn frames(&self) -> &Frames {
        &self.frames
    }

    /// How walks are waited for.
    pub(crate) fn grace(&self) -> &R {
        &self.reclaim
    }

    /// The zero page: mapped as [`Source::Special`](crate::Source::Special), never counted.
    pub fn zero_page(&self) -> u64 {
        self.zero
    }

    /// Frames that hold tables of address spaces; those that only wait for walks are not counted.
    pub fn table_frames(&self) -> usize {
        self.tables.0.count.load(Ordering::Relaxed)
    }

    /// Last-level tables that more than one address space uses.
    pub fn shared_tables(&self) -> usize {
        self.tables.0.shared.load(Ordering::Relaxed)
    }

    /// Where the library reads and writes a frame.
    pub fn to_virt(&self, phys: u64) -> NonNull<u8> {
        self.backing.to_virt(phys)
    }

    /// A frame of any content, with one reference, which is the caller's: it is handed over by
    /// [`Source::Owned`](crate::Source::Owned) or given up by [`put`](Self::put).
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

    /// Frames with one reference each, which fill `frames` from its start; how many: fewer than there is room for where memory ends. Their counts are written
    /// one after the other, and nothing else between them: who clears or copies their bytes does well to do that afterwards.
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

    /// The same, and the frames are filled with zeroes, as many at once as [lie together](PhysMem::to_virt_run).
    pub fn alloc_zeroed_pages(&self, kind: Kind, frames: &mut [u64]) -> usize {
        self.alloc_runs(kind, frames, |mut first, mut left| {
            let past_cache = left >= MANY && !self.backing.is_cached(first);
            while left > 0 {
                let whole = self.backing.to_virt_run(first, left);
                let (at, count) = whole.map_or((self.to_virt(first), 1), |at| (at, left));
                // SAFETY: so many new frames, which nobody else knows.
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

    /// `each` is called for frames that follow one another, with the first and how many, when all are there and these are counted.
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

    /// 2^`order` frames (0, 9 or 18) with one reference each.
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

    /// The same, filled with zeroes past the cache: so many would drive out most of what is there.
    ///
    /// # Errors
    ///
    /// As of [`alloc_block`](Self::alloc_block).
    pub fn alloc_zeroed_block(&self, order: u32, kind: Kind) -> Result<u64, Error> {
        let block = self.alloc_block(order, kind)?;
        // SAFETY: a new block of so many frames.
        unsafe { zero::clear_nontemporal(self.to_virt(block), 1 << order) };
        Ok(block)
    }

    /// Frames from the allocator; if it refuses, it is asked once more, after tables have been freed that no walk can hold any more.
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

    /// One more reference on a frame. The caller has one already, or holds the lock of a table that maps it.
    ///
    /// # Errors
    ///
    /// [`Error::TooMany`] beyond 1,023.
    pub fn get(&self, phys: u64) -> Result<(), Error> {
        self.frames.get(phys)
    }

    /// Gives a reference up; the frame is freed with the last of its references and mappings.
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

    /// Frees frames whose last mapping or reference has gone, and of which the processors know nothing.
    #[inline]
    pub(crate) fn free_deferred(&self, dead: &mut DeferredFree) {
        dead.free(&self.frames, &self.backing);
    }

    /// A frame of private memory with the bytes of another, which programs and devices may be writing to: what they do at once mixes word by word.
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
            // SAFETY: two whole frames, aligned; the caller keeps the one, whose words others use by atomic instructions, and nobody knows the other.
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

    /// A table's frame of any content, counted as a table with one user.
    pub(crate) fn alloc_table(&self) -> Result<u64, Error> {
        let phys = self.frames_or_reclaimed(B::alloc_table)?;
        self.frames.claim_table(phys);
        self.tables.0.count.fetch_add(1, Ordering::Relaxed);
        Ok(phys)
    }

    /// A table's frame with 512 empty entries.
    pub(crate) fn alloc_empty_table(&self) -> Result<u64, Error> {
        let phys = self.alloc_table()?;
        self.clear_table(phys);
        Ok(phys)
    }

    /// Makes all entries of a table empty that nobody else knows.
    pub(crate) fn clear_table(&self, phys: u64) {
        if cfg!(samara_loom) {
            // The checker's words are no bytes.
            for slot in self.table(phys).entries(0..ENTRIES) {
                slot.store(0, Ordering::Relaxed);
            }
        } else {
            // SAFETY: a frame of a table, which nobody else knows.
            unsafe { zero::clear(self.to_virt(phys), 1) };
        }
    }

    /// Frees a table's frame that no walk can hold.
    ///
    /// # Safety
    ///
    /// No entry points to it, and no walk that began before the last of them went is still under way.
    pub(crate) unsafe fn free_table(&self, phys: u64) {
        self.tables.0.count.fetch_sub(1, Ordering::Relaxed);
        self.frames.release_table(phys);
        // SAFETY: allocated as a table; the caller's promise for the rest.
        unsafe { self.backing.free_table(phys) };
    }

    /// The entries of a table.
    #[inline]
    pub(crate) fn table(&self, phys: u64) -> Table<'_> {
        let entries = self.to_virt(phys).cast();
        // SAFETY: tables are frames that this allocator has given out, so that the pointer is valid for `ENTRIES` words of eight bytes;
        // callers have it from an entry of a tree within a section, or own it.
        unsafe { Table::new(entries, self.frames.table_word(phys), phys) }
    }

    /// Where an entry of a table stands.
    #[inline]
    pub(crate) fn slot(&self, table: u64, index: usize) -> &AtomicU64 {
        let entries = self.to_virt(table).cast::<AtomicU64>();
        // SAFETY: as above; the index is masked.
        unsafe { entries.add(index & (ENTRIES - 1)).as_ref() }
    }

    /// An entry of a table, as a walk reads it: see [`Table::read`].
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

    /// Takes tables that no entry points to any more, and frees those that no walk can hold.
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

    /// Frees tables that no walk can hold any more. It is called whenever tables are retired; a kernel may call it when it has time.
    pub fn reclaim(&self) {
        loop {
            let free = self.tables.0.limbo.lock().poll(&self.reclaim);
            if free.is_empty() {
                return;
            }
            self.free_list(free);
        }
    }

    /// Puts a table that nobody can reach before a list of such.
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
            // SAFETY: the limbo gives tables back when no walk can hold them.
            unsafe { self.free_table(phys) };
        }
    }
}

impl<B: FrameAllocator + PhysMem, R: Reclaim> Drop for Physical<B, R> {
    /// Address spaces borrow or count this memory, so that none is left, and no walk either.
    fn drop(&mut self) {
        self.reclaim();
        if self.zero != NONE {
            self.put(self.zero);
        }
    }
}

const _: () = assert!(ENTRIES * 8 == PAGE_SIZE as usize || cfg!(samara_loom));
