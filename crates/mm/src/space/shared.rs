//! Looking at the map from other threads while it is changed.
//!
//! Handles to the tree come from [`Areas::share`](crate::space::areas::Areas::share); nothing here writes.

use core::fmt;
use core::ops::RangeBounds;
use core::ptr::NonNull;

use maple_tree::Reader;

use crate::atomic::AtomicU32;
use crate::config::Layout;
use crate::heap::counted::Counted;
use crate::space::AddressSpace;
use crate::space::areas::{Retired, Shared, area};
use crate::space::maps::{MapsLine, line};
use crate::space::vma::{Area, Vma};
use crate::space::vma_box::VmaBox;
use crate::space::vma_cache::{CacheLookup, Found, VmaCache, release};
use crate::space::vma_lock::Hold;

/// How often a look-up begins anew that the end of a call has overtaken.
const ATTEMPTS: usize = 16;

/// A handle through which any thread looks at an [`AddressSpace`]'s map, while another changes it.
///
/// It is what a page fault needs: [`read`](Self::read) takes no lock, and a look-up never waits and never starts over because of
/// a change elsewhere. Whoever changes the map still borrows the [`AddressSpace`] exclusively (behind a lock of the caller's,
/// Linux's `mmap_lock`), which is also the fallback for what a reader finds and cannot decide.
///
/// # What a reader sees
///
/// * Each look-up finds an area, or that there is none, as it was at one moment between the look-up's begin and end, with the range
///   and the attributes that belonged together then. No half-changed area is ever seen. (The
///   [owner of private pages](Vma::anon) is the exception: it may be set while one looks at the area, as in Linux.)
/// * What a call changes by one store is seen all or not at all. `MAP_FIXED` over mappings is one, so no reader finds a hole between
///   old and new; so are a mapping that joins its neighbours, a stack that grows, and `munmap` of any range.
/// * Calls over several areas (`mprotect`, `madvise`, `mlock` … of a range) change one area after the other, upwards,
///   and readers see each state on the way: some parts are changed (cut out of their areas, or joined with a neighbour, by one store for each), others not yet.
///   `mremap` maps the new place before it takes the old one away: both are there for a moment, never neither. If that
///   place was mapped, it is unmapped first, and seen empty.
/// * Two look-ups see the map at two moments. So do the steps of an iteration: areas come in ascending order, each
///   as it was when the iteration came to it or later; one that is there throughout comes exactly once; one that grew downwards meanwhile may begin
///   below the end of the one before.
///
/// # Who installs pages
///
/// A view tells what was: by the time that it is used, a call may have changed the area and cleared the page tables. Whoever handles a fault
/// [holds](Self::hold) the area instead. A call waits for the holders of the areas that it changes before it tells the owner of the pages anything, and
/// nobody can hold them again until it has ended; holders of other areas and views do not hold it up. (What a view may have found is freed after the
/// view has gone: it is for a few look-ups, not for keeping.)
///
/// # Costs
///
/// While there is a handle, changes build new nodes and areas instead of changing them in place, which makes them slower; without one,
/// they are as fast as ever. Entering and leaving a view is one atomic addition each. What [`hold`](Self::hold) has found twice is remembered: the next one there does
/// without view and walk, until a call changes that very area. Areas that calls have replaced are freed some at a time; what goes with a file's or an object's last mapping, at the end
/// of the call that takes it away.
///
/// ```
/// use samara_mm::{AddressSpace, Config, Layout, Limits, MmapOptions, Prot};
///
/// let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
/// let memory = MmapOptions::anonymous(0x4000).prot(Prot::READ | Prot::WRITE).fixed(0x10_0000);
/// space.mmap(&memory)?;
/// let shared = space.share();
/// std::thread::scope(|s| {
///     s.spawn(|| {
///         let view = shared.read();
///         assert!(view.lookup(0x10_2000).is_some());
///         if let Some(held) = shared.hold(0x10_2000) {
///             assert_eq!(held.area().end, 0x10_4000);
///         }
///     });
///     // Mapped over at once: the other thread finds the old or the new.
///     s.spawn(|| space.mmap(&memory));
/// });
/// # Ok::<(), samara_mm::Errno>(())
/// ```
#[derive(Clone)]
pub struct SharedMap {
    shared: Counted<Shared>,
    /// What holders have found; nothing where there was no memory for it.
    vma_cache: Option<Counted<VmaCache<Vma>>>,
}

/// A reader of a [`SharedMap`]: areas that it finds stay as long as it does. Not for keeping: memory waits for it.
pub struct MapView<'a> {
    reader: Reader<'a, u64, VmaBox, Retired>,
}

impl AddressSpace {
    /// A handle for looking at the map from other threads while it is changed here. O(1). Changes cost more as long as it, or a
    /// clone of it, is there. It outlives the address space, and then shows the map as it was last.
    pub fn share(&mut self) -> SharedMap {
        let (shared, vma_cache) = self.areas.share();
        SharedMap { shared, vma_cache }
    }
}

impl SharedMap {
    /// Holds the lock of the area at `address` (Linux's per-VMA lock), so that neither its range nor its attributes change, and none of its pages is unmapped,
    /// moved or protected by a call, until it is let go. Never waits: `None` if nothing is mapped there, if a call is changing
    /// the area, or if calls have ended again and again while it was looked for. Then the lock on the [`AddressSpace`] decides. O(log n), and O(1) where two pages of
    /// it were held before, one after the other, and it has not been changed since.
    ///
    /// Calls that would change the area spin meanwhile. So it is for the time of a page fault that does not sleep, and its holder must not
    /// change the map.
    #[inline]
    pub fn hold(&self, address: u64) -> Option<HeldArea<'_>> {
        let known = match &self.vma_cache {
            Some(vma_cache) => vma_cache.hold(address),
            None => CacheLookup::Conflict,
        };
        if let CacheLookup::Hit(found, holders) = known {
            return Some(HeldArea { found, holders });
        }
        let held = self.hold_found(address)?;
        if known.may_be_replaced(address)
            && let Some(vma_cache) = &self.vma_cache
            && vma_cache.should_insert(address, &held.found)
        {
            let lock = &held.area().vma.lock;
            lock.mark_cached();
            vma_cache.insert(address, held.found, || lock.is_open(&self.shared.calls));
        }
        Some(held)
    }

    /// Holds what the tree has.
    #[inline]
    fn hold_found(&self, address: u64) -> Option<HeldArea<'_>> {
        let view = self.read();
        // Calls on other areas end all the time beside threads that fault; that many of them during one look-up each are a sign of something else.
        for _ in 0..ATTEMPTS {
            let number = self.shared.calls.now();
            let area = view.lookup(address)?;
            match area.vma.lock.try_hold(&self.shared.calls, number) {
                // Until here the view has kept the area; now its lock does, as `vma_lock` explains.
                Hold::Held => {
                    let found = Found::from(area);
                    // SAFETY: as `HeldArea::area`.
                    let holders = unsafe { found.area.as_ref() }.lock.holders();
                    return Some(HeldArea { found, holders });
                }
                Hold::Closed => return None,
                Hold::Overtaken => {}
            }
        }
        None
    }

    /// Begins to look. Never waits.
    pub fn read(&self) -> MapView<'_> {
        MapView {
            reader: self.shared.tree.read(),
        }
    }
}

/// An area whose lock is held: see [`SharedMap::hold`]. Dropping it lets go.
pub struct HeldArea<'a> {
    found: Found<Vma>,
    /// Of the area's lock, or of the place where it was found.
    holders: &'a AtomicU32,
}

// SAFETY: it is a view of an area, which any thread may look at, and whose lock any thread may let go.
unsafe impl Send for HeldArea<'_> {}
// SAFETY: as above.
unsafe impl Sync for HeldArea<'_> {}

impl HeldArea<'_> {
    /// The area as it is while this is held.
    #[inline]
    pub fn area(&self) -> Area<'_> {
        Area {
            start: self.found.start,
            end: self.found.end,
            // SAFETY: no call removes the area while its lock is held, and the areas of a tree live as long as a handle on it.
            vma: unsafe { self.found.area.as_ref() },
        }
    }
}

impl Drop for HeldArea<'_> {
    #[inline]
    fn drop(&mut self) {
        release(self.holders);
    }
}

impl From<Area<'_>> for Found<Vma> {
    #[inline]
    fn from(area: Area<'_>) -> Self {
        Found {
            start: area.start,
            end: area.end,
            area: NonNull::from(area.vma),
        }
    }
}

impl fmt::Debug for HeldArea<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.area().fmt(f)
    }
}

impl MapView<'_> {
    /// The area that holds `address` (Linux's `vma_lookup`, and what a page fault begins with). O(log n).
    pub fn lookup(&self, address: u64) -> Option<Area<'_>> {
        self.reader.get_range(address).map(area)
    }

    /// The area that holds `address` or the first one above it (Linux's `find_vma`). O(log n).
    pub fn find(&self, address: u64) -> Option<Area<'_>> {
        self.reader.find(address..).map(area)
    }

    /// The last area that begins below `address`. O(log n).
    pub fn find_below(&self, address: u64) -> Option<Area<'_>> {
        self.reader.find_rev(..address).map(area)
    }

    /// The first area that intersects `[start, end)` (Linux's `find_vma_intersection`). O(log n).
    pub fn find_intersection(&self, start: u64, end: u64) -> Option<Area<'_>> {
        if start >= end {
            return None;
        }
        self.reader.find(start..end).map(area)
    }

    /// The areas that intersect the addresses in `range`, upwards and downwards; `..` for all.
    pub fn areas(&self, range: impl RangeBounds<u64>) -> impl DoubleEndedIterator<Item = Area<'_>> {
        self.reader.range(range).map(area)
    }

    /// The map as `/proc/PID/maps` lists it. `layout` tells where heap and stack are: [`AddressSpace::layout`].
    pub fn maps(&self, layout: Layout) -> impl DoubleEndedIterator<Item = MapsLine<'_>> {
        self.areas(..).map(move |area| line(area, &layout))
    }
}

impl fmt::Debug for SharedMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read().fmt(f)
    }
}

impl fmt::Debug for MapView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.areas(..)).finish()
    }
}
