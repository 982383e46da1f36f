//! The frame allocator: samara-paging's arena over all memory. Its metadata lies in memory that
//! memblock allocates.

use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::{AtomicU64, Ordering};

use samara_memblock::{self as memblock, Memblock, NodeId, PAGE_SIZE, PageAllocator};
use samara_paging::{Arena, DirectMap, Error, Frames, Grace, Physical, Ranges};

use super::heap;
use crate::arch::{Arch, Machine};

/// The direct map, as the arena uses it.
pub struct Direct;

// SAFETY: the kernel's page tables map all memory at one offset. The boot page tables do the same
// for all memory that is allocated before they are replaced.
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

/// The number of frames that the allocator manages, plus those of the heap's initial memory. The
/// frames of the image and of the allocator's metadata are not counted.
static MANAGED: AtomicU64 = AtomicU64::new(heap::INITIAL_SIZE / PAGE_SIZE);

/// Returns the number of frames for programs, files and the kernel's heap: `MemTotal` of
/// `proc_meminfo(5)`.
pub fn managed() -> u64 {
    MANAGED.load(Ordering::Relaxed)
}

/// Adds ranges to the arena, and counts their frames.
///
/// # Safety
///
/// As for [`Arena::add`].
unsafe fn add(arena: &FrameArena, ranges: impl IntoIterator<Item = Range<u64>>) {
    let ranges = ranges.into_iter().filter(|range| !range.is_empty());
    // SAFETY: the caller's promise.
    let added = unsafe { arena.add(ranges) };
    MANAGED.fetch_add(added, Ordering::Relaxed);
}

/// The most ranges of memory that a machine may have.
const MAX_RANGES: usize = 32;

/// The receiver of memblock's free memory. Ranges that are not mapped yet are deferred.
pub struct HandOver<'a> {
    arena: &'a FrameArena,
    /// The physical address from which on memory is not mapped yet.
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
        // SAFETY: memblock frees each frame once, and does not use it afterwards.
        unsafe { add(self.arena, core::iter::once(start..middle)) };
        if let Some(slot) = self.deferred.iter_mut().find(|range| range.is_empty()) {
            *slot = middle..end;
        }
    }
}
// ANCHOR_END: hand_over

/// Free ranges that wait until the kernel's page tables map them.
pub struct Deferred([Range<u64>; MAX_RANGES]);

impl Deferred {
    /// Adds the ranges to the frame allocator.
    pub fn add(self, arena: &FrameArena) {
        // SAFETY: memblock freed these ranges to `HandOver`, and `self` is consumed.
        unsafe { add(arena, self.0) };
    }
}

/// Allocates memory from memblock that is never freed.
fn alloc_forever<M: memblock::PhysMap>(
    memblock: &mut Memblock<'_, M>,
    size: usize,
) -> Result<&'static mut [MaybeUninit<u8>], Error> {
    let phys = memblock.phys_alloc(size as u64, 128).map_err(|_| Error::NoMemory)?;
    // SAFETY: memblock has just allocated this many bytes, below the end of what the boot page
    // tables map. They have no other user.
    Ok(unsafe { slice::from_raw_parts_mut(Direct.to_virt(phys).cast().as_ptr(), size) })
}

/// The machine's frames with their reference counts, the released memblock, and the deferred
/// ranges.
type Initialised<'s, M> = (Physical<FrameArena, Grace>, memblock::Released<'s, M>, Deferred);

/// Creates the frame allocator over all of memblock's memory, frees to it what lies below `mapped`,
/// and joins it with the reference counts.
///
/// # Errors
///
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
