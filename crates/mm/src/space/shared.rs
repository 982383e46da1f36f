//! Look-ups in the map from other threads while it is changed.
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
use crate::vma::vma_box::VmaBox;
use crate::vma::vma_cache::{CacheLookup, Found, VmaCache, release};
use crate::vma::vma_lock::Hold;
use crate::vma::{Area, Vma};

/// The number of times that a look-up starts over after the end of a call has overtaken it.
const ATTEMPTS: usize = 16;

/// A handle through which any thread reads the map of an [`AddressSpace`] while another changes it.
///
/// It serves page faults: [`read`](Self::read) takes no lock, and a look-up never waits and never
/// starts over because of a change elsewhere. A thread that changes the map still borrows the
/// [`AddressSpace`] exclusively, behind a lock of the caller's (Linux's `mmap_lock`). That lock is
/// also the fallback where a reader cannot decide.
///
/// # What a reader sees
///
/// * Each look-up finds a VMA or a hole as it was at one moment between the begin and the end of
///   the look-up, with the range and the attributes that belonged together then. No reader sees a
///   half-changed VMA. (The [anon_vma](Vma::anon) is the exception: it may be set while a reader
///   looks at the VMA, as in Linux.)
/// * Changes by one store are seen completely or not at all. `MAP_FIXED` over mappings is one, so
///   no reader finds a hole between old and new. So are a mapping that merges with its neighbours,
///   a stack that grows, and `munmap` of any range.
/// * Calls over several VMAs (`mprotect`, `madvise`, `mlock` … of a range) change one VMA after the
///   other, upwards. Readers see each intermediate state: some parts have changed (split from their
///   VMAs or merged with a neighbour, by one store each), others not yet. `mremap` maps the new
///   place before it removes the old one: for a moment both are mapped, never neither. If something
///   was mapped at the new place, it is unmapped first, and readers see the hole.
/// * Two look-ups see the map at two moments, and so do the steps of an iteration. VMAs come in
///   ascending order, each as it was when the iteration reached it or later. A VMA that is mapped
///   throughout comes exactly once. One that has grown downwards since may begin below the end of
///   the one before.
///
/// # Installing pages
///
/// A view shows the past: by the time it is used, a call may have changed the VMA and cleared the
/// page tables. A thread that handles a fault therefore [holds](Self::hold) the VMA. A call waits
/// for the holders of the VMAs that it changes before it notifies the owner of the pages, and no
/// thread can hold them again until it has ended. Holders of other VMAs and views do not delay it.
/// What a view may have found is freed after the view is dropped, so a view is for a few look-ups
/// only.
///
/// # Costs
///
/// While there is a handle, changes build new nodes and VMAs and do not change them in place, which
/// makes them slower. Without one, they are as fast as ever. Entering and leaving a view is one
/// atomic addition each. The second [`hold`](Self::hold) of a VMA in a region caches it: later ones
/// there need no view and no walk, until a call changes that VMA. VMAs that calls have replaced are
/// freed in batches. What must go with the last mapping of a file or an object goes at the end of
/// the call that removes it.
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
    /// The VMA cache; `None` if there was no memory for it.
    vma_cache: Option<Counted<VmaCache<Vma>>>,
}

/// A read-side critical section of a [`SharedMap`]. VMAs that it finds live as long as it does.
/// Memory is not freed while it exists, so drop it soon.
pub struct MapView<'a> {
    reader: Reader<'a, u64, VmaBox, Retired>,
}

impl AddressSpace {
    /// Returns a handle for reading the map from other threads while it is changed here. O(1).
    /// Changes cost more as long as the handle or a clone of it exists. It outlives the address
    /// space, and then shows the map as it was last.
    pub fn share(&mut self) -> SharedMap {
        let (shared, vma_cache) = self.areas.share();
        SharedMap { shared, vma_cache }
    }
}

impl SharedMap {
    /// Holds the lock of the VMA at `address` (Linux's per-VMA lock). Until it is dropped, neither
    /// the range nor the attributes of the VMA change, and no call unmaps, moves or protects its
    /// pages.
    ///
    /// Never waits. Returns `None` if nothing is mapped there, if a call is changing the VMA, or if
    /// calls have ended again and again during the look-up. The lock on the [`AddressSpace`]
    /// decides then. O(log n), and O(1) if two of its pages were held before, one after the other,
    /// and it has not changed since.
    ///
    /// Calls that would change the VMA spin until it is dropped. Hold it only during a page fault
    /// that does not sleep, and do not change the map while holding it.
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

    /// Holds the VMA that the tree has at `address`.
    #[inline]
    fn hold_found(&self, address: u64) -> Option<HeldArea<'_>> {
        let view = self.read();
        // Calls on other VMAs end all the time while threads fault. That one ends during each of
        // many look-ups is a sign of something else.
        for _ in 0..ATTEMPTS {
            let number = self.shared.calls.now();
            let area = view.lookup(address)?;
            match area.vma.lock.try_hold(&self.shared.calls, number) {
                // Until here the view has kept the VMA alive; now its lock does, as `vma_lock`
                // explains.
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

    /// Enters a read-side critical section. Never waits.
    pub fn read(&self) -> MapView<'_> {
        MapView {
            reader: self.shared.tree.read(),
        }
    }
}

/// A VMA whose lock is held: see [`SharedMap::hold`]. Dropping this releases it.
pub struct HeldArea<'a> {
    found: Found<Vma>,
    /// The counter of the lock of the VMA, or of its slot in the cache.
    holders: &'a AtomicU32,
}

// SAFETY: it is a reference to a VMA, which any thread may read, and any thread may release the
// lock.
unsafe impl Send for HeldArea<'_> {}
// SAFETY: as above.
unsafe impl Sync for HeldArea<'_> {}

impl HeldArea<'_> {
    /// Returns the VMA.
    #[inline]
    pub fn area(&self) -> Area<'_> {
        Area {
            start: self.found.start,
            end: self.found.end,
            // SAFETY: no call removes the VMA while its lock is held, and the VMAs of a tree live
            // as long as a handle on it.
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
    /// Returns the VMA that holds `address` (Linux's `vma_lookup`). O(log n).
    pub fn lookup(&self, address: u64) -> Option<Area<'_>> {
        self.reader.get_range(address).map(area)
    }

    /// Returns the VMA that holds `address` or the first one above it (Linux's `find_vma`). O(log
    /// n).
    pub fn find(&self, address: u64) -> Option<Area<'_>> {
        self.reader.find(address..).map(area)
    }

    /// Returns the last VMA that begins below `address`. O(log n).
    pub fn find_below(&self, address: u64) -> Option<Area<'_>> {
        self.reader.find_rev(..address).map(area)
    }

    /// Returns the first VMA that intersects `[start, end)` (Linux's `find_vma_intersection`).
    /// O(log n).
    pub fn find_intersection(&self, start: u64, end: u64) -> Option<Area<'_>> {
        if start >= end {
            return None;
        }
        self.reader.find(start..end).map(area)
    }

    /// Returns the VMAs that intersect the addresses in `range`, upwards and downwards; `..` for
    /// all.
    pub fn areas(&self, range: impl RangeBounds<u64>) -> impl DoubleEndedIterator<Item = Area<'_>> {
        self.reader.range(range).map(area)
    }

    /// Returns the map as `/proc/PID/maps` lists it. `layout` says where heap and stack are:
    /// [`AddressSpace::layout`].
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
