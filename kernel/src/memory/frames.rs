//! The allocator of frames: samara-paging's arena over all memory, with what it knows in memory that memblock gave.

use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::{AtomicU64, Ordering};

use samara_memblock::{self as memblock, Memblock, NodeId, PAGE_SIZE, PageAllocator};
use samara_paging::{Arena, DirectMap, Error, Frames, Grace, Physical, Ranges};

use super::heap;
use crate::arch::{Arch, Machine};

/// The direct map as the arena sees it.
pub struct Direct;

// SAFETY: the kernel's tables map all memory at one distance, and so do the first ones as far as memory is given out before they are replaced.
unsafe impl DirectMap for Direct {
    fn to_virt(&self, phys: u64) -> NonNull<u8> {
        let at = core::ptr::with_exposed_provenance_mut((phys + Arch::DIRECT_MAP) as usize);
        // SAFETY: no address of the kernel's half is zero.
        unsafe { NonNull::new_unchecked(at) }
    }

    fn processor(&self) -> usize {
        Arch::processor()
    }
}

#[cfg(not(feature = "refusals"))]
pub type FrameArena = Arena<Ranges<Direct>>;
#[cfg(feature = "refusals")]
pub type FrameArena = crate::refusals::Refusing<Direct>;

/// Frames of the first heap and all that the allocator has had: not those of the image and of what is written down of each frame.
static MANAGED: AtomicU64 = AtomicU64::new(heap::INITIAL_SIZE / PAGE_SIZE);

/// Frames that are there for programs, files and the kernel's heap: `MemTotal`, as proc(5) has it.
pub fn managed() -> u64 {
    MANAGED.load(Ordering::Relaxed)
}

/// # Safety
/// As of [`Arena::add`].
unsafe fn add(arena: &FrameArena, ranges: impl IntoIterator<Item = Range<u64>>) {
    let ranges = ranges.into_iter().filter(|range| !range.is_empty());
    // SAFETY: the caller's promise.
    let added = unsafe { arena.add(ranges) };
    MANAGED.fetch_add(added, Ordering::Relaxed);
}

/// Pieces of memory that a machine may have.
const MAX_RANGES: usize = 32;

/// What memblock hands over to. Frames that are not mapped yet are kept for deferred.
pub struct HandOver<'a> {
    arena: &'a FrameArena,
    /// Physical address from which on nothing is mapped.
    mapped: u64,
    deferred: [Range<u64>; MAX_RANGES],
}

impl<'a> HandOver<'a> {
    pub fn new(arena: &'a FrameArena, mapped: u64) -> Self {
        HandOver { arena, mapped, deferred: [const { 0..0 }; MAX_RANGES] }
    }
}

// ANCHOR: hand_over
impl PageAllocator for HandOver<'_> {
    fn free_pages(&mut self, frames: Range<u64>) {
        let (start, end) = (frames.start * PAGE_SIZE, frames.end * PAGE_SIZE);
        let middle = self.mapped.clamp(start, end);
        // SAFETY: memblock gives each free frame once, and has it no more.
        unsafe { add(self.arena, core::iter::once(start..middle)) };
        if let Some(slot) = self.deferred.iter_mut().find(|range| range.is_empty()) {
            *slot = middle..end;
        }
    }
}
// ANCHOR_END: hand_over

/// Frames that wait until they are mapped.
pub struct Deferred([Range<u64>; MAX_RANGES]);

impl Deferred {
    /// Hands them over.
    pub fn add(self, arena: &FrameArena) {
        // SAFETY: kept by `HandOver`, and given once.
        unsafe { add(arena, self.0) };
    }
}

/// Takes memory from memblock for ever.
fn alloc_forever<M: memblock::PhysMap>(
    memblock: &mut Memblock<'_, M>,
    size: usize,
) -> Result<&'static mut [MaybeUninit<u8>], Error> {
    let phys = memblock.phys_alloc(size as u64, 128).map_err(|_| Error::NoMemory)?;
    // SAFETY: so many bytes that are nobody else's, below what the first tables map.
    Ok(unsafe { slice::from_raw_parts_mut(Direct.to_virt(phys).cast().as_ptr(), size) })
}

/// The frames of the machine with their counts, and what is left of the start.
type Initialised<'s, M> = (Physical<FrameArena, Grace>, memblock::Released<'s, M>, Deferred);

/// Makes the allocator over all of memblock's memory, hands it what is free below `mapped`, and joins it with the counts of frames.
///
/// # Errors
/// Those of samara-paging.
pub fn init<'s, M: memblock::PhysMap>(
    mut memblock: Memblock<'s, M>,
    mapped: u64,
) -> Result<Initialised<'s, M>, Error> {
    let mut ranges = [const { 0..0 }; MAX_RANGES];
    let mut count = 0;
    for (range, frames) in ranges.iter_mut().zip(memblock.pfn_ranges(NodeId::NONE)) {
        *range = frames.start * PAGE_SIZE..frames.end * PAGE_SIZE;
        count += 1;
    }
    // ANCHOR: frames
    let ranges = &ranges[..count];
    let room = alloc_forever(&mut memblock, Arena::<Ranges<Direct>>::size_for(ranges)?)?;
    let counts = alloc_forever(&mut memblock, Frames::size_for(ranges)?)?;
    let arena = FrameArena::from(Arena::over_ranges(Direct, ranges, room)?);
    let mut taker = HandOver::new(&arena, mapped);
    let (memblock, _) = memblock.release(&mut taker);
    let deferred = Deferred(taker.deferred);
    Ok((Physical::with_counts(arena, Grace::new(), ranges, counts)?, memblock, deferred))
    // ANCHOR_END: frames
}
