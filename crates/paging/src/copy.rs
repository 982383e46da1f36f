//! The loop that copies entries of last-level tables, for a fork and for unsharing a table.

use crate::atomic::{AtomicU64, Ordering};
use core::ops::Range;

use crate::cursor::may_be_in_tlb;
use crate::deferred_free::DeferredFree;
use crate::entry::{Attrs, ENTRIES, PAGE_SIZE, tag};
use crate::error::Error;
use crate::fork::ForkFilter;
use crate::format::Format;
use crate::frames::Counts;
use crate::phys::{FrameAllocator, PhysMem, Physical};
use crate::reclaim::Reclaim;
use crate::table::{LockedTable, SPARSE, Table};

/// The changes that copying makes to a leaf.
pub(crate) trait CopyPolicy {
    /// `true` if pinned memory is copied instead of shared.
    const COPIES_PINNED: bool = false;
    /// Returns `true` if both sides lose write access to a frame, which is private memory if
    /// `anon`.
    fn protects(anon: bool) -> bool;
    /// Returns the leaf to store in the copy.
    fn copy<F: Format>(raw: u64) -> u64;
}

/// A fork of a private mapping.
pub(crate) struct Private;
/// A fork of a shared mapping.
pub(crate) struct Shared;
/// An address space that replaces a shared table by its own copy.
pub(crate) struct Unshare;

impl CopyPolicy for Private {
    const COPIES_PINNED: bool = true;

    #[inline(always)]
    fn protects(_: bool) -> bool {
        true
    }

    #[inline(always)]
    fn copy<F: Format>(raw: u64) -> u64 {
        F::without_accessed(raw)
    }
}

impl CopyPolicy for Shared {
    #[inline(always)]
    fn protects(_: bool) -> bool {
        false
    }

    #[inline(always)]
    fn copy<F: Format>(raw: u64) -> u64 {
        F::without_accessed(F::without_dirty(raw))
    }
}

impl CopyPolicy for Unshare {
    /// Writable pages are either private memory, or shared by all who map them.
    #[inline(always)]
    fn protects(anon: bool) -> bool {
        anon
    }

    #[inline(always)]
    fn copy<F: Format>(raw: u64) -> u64 {
        raw
    }
}

/// The result of a loop over the entries of a table.
#[derive(Debug)]
pub(crate) struct Copied {
    /// The number of used entries in the copy.
    pub(crate) used: u32,
    /// The range of entries in which the original has lost write access that TLBs may hold.
    pub(crate) protected: Range<usize>,
}

impl Copied {
    /// Records that the original has lost write access in these entries, which are above all
    /// recorded ones.
    fn protect(&mut self, part: Range<usize>) {
        self.protected = self.protected.start.min(part.start)..part.end;
    }
}

/// Copies a part of a table, whose lock is held, into a table that is empty there. Adds a mapping
/// to each frame. If the copy is `FRESH`, no other thread can reach it, and the entries outside the
/// part become empty. On error the copy is unchanged and no count has changed.
pub(crate) fn copy_entries<
    F: Format,
    W: CopyPolicy,
    B: FrameAllocator + PhysMem,
    R: Reclaim,
    const FRESH: bool,
>(
    memory: &Physical<B, R>,
    copy: ForkFilter,
    from: &LockedTable<'_>,
    to: &Table<'_>,
    part: Range<usize>,
) -> (Copied, Result<(), Error>) {
    let frames = memory.frames();
    let mut copied = Copied {
        used: 0,
        protected: part.end..part.end,
    };
    // A table with few entries: the whole copy is cleared first, and empty cache lines are skipped.
    let sparse = FRESH && from.used() < SPARSE;
    if sparse {
        memory.clear_table(to.phys);
    } else if FRESH {
        for i in (0..part.start).chain(part.end..ENTRIES) {
            to.slot(i).store(0, Ordering::Relaxed);
        }
    }
    let mut i = part.start;
    loop {
        if sparse {
            i = from.table.skip_empty_lines(i..part.end);
        }
        if i == part.end {
            break;
        }
        let usual = copy_common::<F, W, FRESH>(frames.counts(), from, to, i..part.end);
        if usual.protected {
            copied.protect(i..i + usual.count);
        }
        copied.used += usual.count as u32;
        i += usual.count;
        if i == part.end {
            break;
        }
        loop {
            // Most entries off the fast path are empty, or are pages of a file.
            if from.load(i) != 0 {
                match copy_entry::<F, W, B, R>(memory, copy, from, i) {
                    Ok((leaf, protected)) => {
                        copied.used += u32::from(leaf != 0);
                        to.slot(i).store(leaf, order::<FRESH>());
                        if protected {
                            copied.protect(i..i + 1);
                        }
                    }
                    Err(error) => {
                        undo_copies::<F, B, R>(memory, to, part.start..i);
                        copied.used = 0;
                        return (copied, Err(error));
                    }
                }
            } else if FRESH && !sparse {
                to.slot(i).store(0, Ordering::Relaxed);
            }
            i += 1;
            if i == part.end {
                break;
            }
            let raw = from.load(i);
            if W::protects(true) && F::is_common(raw) || sparse && raw == 0 {
                break;
            }
        }
    }
    (copied, Ok(()))
}

/// Undoes the copies of entries.
#[cold]
fn undo_copies<F: Format, B: FrameAllocator + PhysMem, R: Reclaim>(
    memory: &Physical<B, R>,
    to: &Table<'_>,
    part: Range<usize>,
) {
    let frames = memory.frames();
    let mut dead = DeferredFree::new();
    for i in part {
        let raw = to.load(i);
        if tag::is_page(raw) && !F::is_special(raw) {
            // Copies of pinned frames have no other mapping.
            if let Some(index) = frames.unmap(F::phys(raw)) {
                dead.push(frames, index, 1);
            }
        }
        to.slot(i).store(0, Ordering::Release);
    }
    memory.free_deferred(&mut dead);
}

/// Release: a walk that finds the entry finds the page's contents. For a fresh table, the entry
/// above it is stored with Release later.
const fn order<const FRESH: bool>() -> Ordering {
    if FRESH {
        Ordering::Relaxed
    } else {
        Ordering::Release
    }
}

/// The result of [`copy_common`].
struct Usual {
    count: usize,
    protected: bool,
}

/// The number of entries copied at once if their frames are adjacent, as in memory filled in order:
/// one cache line. The model checker's tables are shorter.
const RUN: usize = if cfg!(samara_loom) { 2 } else { 8 };

/// Copies pages on the fast path, up to the first that is not: private memory with one mapping and
/// no reference, whose count may be changed by a plain store (see `frames/mod.rs`), in a stable entry.
/// It has no locked instruction and no call. A fork spends most of its time in this loop.
#[inline(never)]
fn copy_common<F: Format, W: CopyPolicy, const FRESH: bool>(
    counts: Counts<'_>,
    from: &LockedTable<'_>,
    to: &Table<'_>,
    part: Range<usize>,
) -> Usual {
    let (mut old, mut new) = (from.table.entries(part.clone()), to.entries(part));
    // The union of all copied entries.
    let mut any = 0;
    let all = old.len();
    if W::protects(true) {
        loop {
            while let (Some((from, old_rest)), Some((to, new_rest))) =
                (old.split_first_chunk(), new.split_first_chunk())
                && let Some(first) = copy_run::<F, W, FRESH>(counts, from, to)
            {
                any |= first;
                (old, new) = (old_rest, new_rest);
            }
            let (Some((from, old_rest)), Some((to, new_rest))) =
                (old.split_first(), new.split_first())
            else {
                break;
            };
            let raw = from.load(Ordering::Relaxed);
            if !F::is_common(raw) || !counts.map_second(F::phys(raw)) {
                break;
            }
            let guarded = F::write_protected(raw);
            if guarded != raw {
                // The stable case of `LockedTable::update`.
                from.store(guarded, Ordering::Release);
            }
            any |= raw;
            to.store(W::copy::<F>(guarded), order::<FRESH>());
            (old, new) = (old_rest, new_rest);
        }
    }
    Usual {
        count: all - old.len(),
        protected: F::is_writable(any),
    }
}

/// Does the same for a run of entries with equal attributes and adjacent frames, and returns the
/// first entry. Returns `None` without a change if the run is not like that.
#[inline(always)]
fn copy_run<F: Format, W: CopyPolicy, const FRESH: bool>(
    counts: Counts<'_>,
    old: &[AtomicU64; RUN],
    new: &[AtomicU64; RUN],
) -> Option<u64> {
    // The difference between the entries of adjacent frames: frame numbers are in contiguous bits.
    // The loops below count to `RUN`. The compiler does not always see the length of two zipped
    // iterators, and then does not unroll them.
    let place = |i| i as u64 * F::frame_bits(PAGE_SIZE);
    let first = old[0].load(Ordering::Relaxed);
    let differ = (0..RUN).fold(0, |all, i| {
        all | old[i].load(Ordering::Relaxed) ^ first.wrapping_add(place(i))
    });
    if differ != 0 || !F::is_common(first) || !counts.map_second_run::<RUN>(F::phys(first)) {
        return None;
    }
    let guarded = F::write_protected(first);
    if guarded != first {
        (0..RUN).for_each(|i| old[i].store(guarded + place(i), Ordering::Release));
    }
    let copy = W::copy::<F>(guarded);
    (0..RUN).for_each(|i| new[i].store(copy + place(i), order::<FRESH>()));
    Some(first)
}

/// Copies an entry off the fast path. Returns the entry for the copy, and `true` if the original
/// has lost write access that TLBs may hold.
#[inline(never)]
fn copy_entry<F: Format, W: CopyPolicy, B: FrameAllocator + PhysMem, R: Reclaim>(
    memory: &Physical<B, R>,
    copy: ForkFilter,
    from: &LockedTable<'_>,
    i: usize,
) -> Result<(u64, bool), Error> {
    let (frames, zero) = (memory.frames(), memory.zero_page());
    let raw = from.load(i);
    if !tag::is_page(raw) {
        return Ok((raw, false));
    }
    let phys = F::phys(raw);
    let special = F::is_special(raw);
    if copy.skips::<F>(frames, zero, raw) {
        return Ok((0, false));
    }
    if !special {
        if W::COPIES_PINNED && frames.is_pinned(phys) {
            let own = memory.duplicate(phys)?;
            frames.map_owned(own)?;
            let leaf = F::leaf(own, F::attrs(raw) | Attrs::DIRTY, 0);
            return Ok((W::copy::<F>(leaf), false));
        }
        frames.map(phys)?;
    }
    if !F::is_writable(raw) || !W::protects(!special && frames.is_anon(phys)) {
        return Ok((W::copy::<F>(raw), false));
    }
    let was = from.update::<F>(i, raw, F::write_protected);
    Ok((W::copy::<F>(F::write_protected(was)), may_be_in_tlb(was)))
}
