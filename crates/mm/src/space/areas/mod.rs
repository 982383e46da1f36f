//! The VMAs of an address space by address: the only module that changes the tree. (`shared.rs`
//! reads it from other threads.)
//!
//! | file | concept |
//! |---|---|
//! | `mod` | the tree with its one writer; finding areas and gaps |
//! | `lookup` | what lies in a range and beside it, and where in the tree that is |
//! | `change` | writes, and the counts that go with them |
//! | `before_change` | what comes before a write that somebody may see, or that may be undone |
//! | `retired` | areas that have left the tree and may still be seen |
//!
//! Ranges here are half-open and page-aligned, `start < end`. Every change also updates the numbers
//! of pages by kind, so that limits are checked without a walk.
//!
//! # Readers concurrent with the writer
//!
//! The tree is reference-counted on the heap. It has one writer for all its life, which an
//! exclusive borrow of [`Areas`] stands for. [`Areas::share`] gives out further handles, which only
//! read. While there is one, the tree is in RCU mode: nodes and VMAs are replaced and not changed,
//! and what they replace is freed after a grace period. The lock of each VMA is closed before the
//! VMA is changed (see `vma_lock`).
//!
//! The first change that finds no other handle switches RCU mode off, and changes are made in place
//! again. Only two attributes of a VMA ever change while it is in the tree, its anon_vma and the
//! mark of guards, and both are atomic words.

mod before_change;
mod change;
mod lookup;
mod retired;

pub(crate) use before_change::Figures;
pub(crate) use lookup::{Neighbours, Overlap, Span};
pub(crate) use retired::Retired;

use alloc::boxed::Box;
use core::fmt;
use core::mem::MaybeUninit;
use core::ops::{Range, RangeInclusive};

use maple_tree::{CloneError, SyncMapleTree, Writer};

use crate::errno::Errno;
use crate::heap::counted::Counted;
use crate::heap::place::fill;
use crate::space::counts::{Class, Counts};
use crate::space::journal::Journal;
use crate::vma::vma_box::{Batch, CopyAttrs, VmaBox};
use crate::vma::vma_cache::VmaCache;
use crate::vma::vma_lock::Calls;
use crate::vma::{Area, Vma};

/// VMAs by address.
type Tree = SyncMapleTree<u64, VmaBox, Retired>;

/// The part that all handles share.
pub(crate) struct Shared {
    pub(crate) tree: Tree,
    /// Counts calls while there is another handle.
    pub(crate) calls: Calls,
}

/// The writer of the tree of the same structure. It is `MaybeUninit` because it borrows what the
/// last handle drops: a function that gets the structure by value or by reference could otherwise
/// rely on the borrow to outlive the call.
type SoleWriter = MaybeUninit<Writer<'static, u64, VmaBox, Retired>>;

/// A position in the tree.
type Hint = maple_tree::Hint<u64>;

/// VMAs by address, with their counts.
pub(crate) struct Areas {
    /// The only writer of `tree`, which never leaves this structure. Dropping it would have no
    /// effect.
    writer: SoleWriter,
    shared: Counted<Shared>,
    /// The cache of VMAs that faults have found, while there may be other handles. `None` if there
    /// was no memory for it.
    vma_cache: Option<Counted<VmaCache<Vma>>>,
    /// The number of changes so far. What was found before the last one is stale.
    changes: u64,
    /// The position of the last change if it changed only a leaf. The next look-up is often near.
    last_hint: Option<Hint>,
    /// The tree is in RCU mode. It must be while there is another handle.
    concurrent: bool,
    /// The tree is in RCU mode, or a journal is kept: a change must be prepared first.
    is_observed: bool,
    /// A lock was closed since the last call ended.
    locks_closed: bool,
    /// A VMA whose lock was closed may own more than memory, such as a file. Retired VMAs are freed
    /// at the end of the call.
    flush_at_end: bool,
    /// An allocation failed before the change chose a way into the tree.
    out_of_memory: bool,
    journal: Option<Box<Journal>>,
    count: usize,
    peak: usize,
    pages: Counts,
    /// No VMA with a guard gap begins below this address.
    guarded_from: u64,
}

pub(crate) fn area((range, vma): (RangeInclusive<u64>, &Vma)) -> Area<'_> {
    Area {
        start: *range.start(),
        end: *range.end() + 1,
        vma,
    }
}

impl Areas {
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self, Errno> {
        let empty = SyncMapleTree::with_gaps(Retired::new());
        Self::of(empty, 0, Counts::new(), u64::MAX)
    }

    /// # Errors
    /// `ENOMEM`; the tree is dropped.
    fn of(tree: Tree, count: usize, pages: Counts, guarded_from: u64) -> Result<Self, Errno> {
        let (shared, writer) = Self::with_one_writer(tree)?;
        Ok(Areas {
            writer,
            shared,
            vma_cache: None,
            changes: 0,
            last_hint: None,
            concurrent: false,
            is_observed: false,
            locks_closed: false,
            flush_at_end: false,
            out_of_memory: false,
            journal: None,
            count,
            peak: count,
            pages,
            guarded_from,
        })
    }

    /// Returns a tree with one handle and its writer.
    ///
    /// # Errors
    /// `ENOMEM`; the tree is dropped.
    #[inline]
    fn with_one_writer(tree: Tree) -> Result<(Counted<Shared>, SoleWriter), Errno> {
        // SAFETY:
        // - no other thread has the tree yet;
        // - while RCU mode is off there is one handle: `share` switches it on before there is a
        //   second, and `prepare_change` off when none is left. A writer borrows that handle
        //   exclusively.
        unsafe { tree.set_in_rcu(false) };
        let fill = |place: &mut MaybeUninit<Shared>| {
            let calls = Calls::new();
            fill!(
                place,
                Shared {
                    tree: tree,
                    calls: calls
                }
            );
            Ok(())
        };
        // SAFETY: the closure initialises the place.
        let shared = unsafe { Counted::try_make(fill)? };
        // SAFETY:
        // - the view goes into `writer`, which is not used after the handle has been dropped, since
        //   both are fields of one structure;
        // - this is the only writer of this tree: other handles go to `SharedMap`, which only
        //   reads, and this one writes only when it is borrowed exclusively.
        let writer = unsafe { shared.detached().tree.write_locked() };
        Ok((shared, MaybeUninit::new(writer)))
    }

    fn writer(&self) -> &Writer<'static, u64, VmaBox, Retired> {
        // SAFETY: it is initialised from the start, and what it refers to lives as long as the
        // handle.
        unsafe { self.writer.assume_init_ref() }
    }

    /// Returns the writer for a change of a range and of the VMAs that reach into it.
    ///
    /// # Errors
    /// `ENOMEM` while a journal is kept; nothing has changed.
    #[inline(always)]
    fn writer_mut(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<&mut Writer<'static, u64, VmaBox, Retired>, Errno> {
        self.before_change(start, end)?;
        Ok(self.writer_now())
    }

    /// Returns the writer for a change that [`before_change`](Self::before_change) has prepared.
    #[inline(always)]
    fn writer_now(&mut self) -> &mut Writer<'static, u64, VmaBox, Retired> {
        self.changes += 1;
        self.last_hint = None;
        // SAFETY: as in `writer`.
        unsafe { self.writer.assume_init_mut() }
    }

    /// Returns the VMAs that intersect a range, upwards.
    pub(crate) fn in_range(&self, range: Range<u64>) -> impl Iterator<Item = Area<'_>> {
        self.writer().range(range).map(area)
    }

    /// Returns the number of VMAs.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns the largest number of VMAs so far.
    pub(crate) fn peak(&self) -> usize {
        self.peak
    }

    pub(crate) fn pages(&self) -> &Counts {
        &self.pages
    }

    /// Returns an address below which no VMA with a guard gap
    /// ([`KEEPS_GAP`](crate::flags::VmFlags::KEEPS_GAP)) begins.
    pub(crate) fn guarded_from(&self) -> u64 {
        self.guarded_from
    }

    /// Returns the first VMA that ends above `address`. O(log n).
    pub(crate) fn find(&self, address: u64) -> Option<Area<'_>> {
        self.writer().find(address..).map(area)
    }

    /// Returns the first VMA that intersects `[start, end)`. O(log n).
    pub(crate) fn find_in(&self, start: u64, end: u64) -> Option<Area<'_>> {
        if start >= end {
            return None;
        }
        self.find(start).filter(|area| area.start < end)
    }

    /// Returns the VMA that holds `address`. O(log n).
    pub(crate) fn at(&self, address: u64) -> Option<Area<'_>> {
        self.writer().get_range(address).map(area)
    }

    /// Returns the last VMA that begins below `address`. O(log n).
    pub(crate) fn before(&self, address: u64) -> Option<Area<'_>> {
        self.writer().find_rev(..address).map(area)
    }

    /// Returns all VMAs, upwards and downwards.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Area<'_>> {
        self.writer().iter().map(area)
    }

    /// Returns the start of the lowest free range of `size` bytes within `[low, high)`. O(log n).
    pub(crate) fn gap_up(&self, low: u64, high: u64, size: u64) -> Option<u64> {
        if size == 0 || low >= high || high - low < size {
            return None;
        }
        self.writer().gap_up(low..=high - 1, size)
    }

    /// Returns the start of the highest free range of `size` bytes within `[low, high)`. O(log n).
    pub(crate) fn gap_down(&self, low: u64, high: u64, size: u64) -> Option<u64> {
        if size == 0 || low >= high || high - low < size {
            return None;
        }
        self.writer().gap_down(low..=high - 1, size)
    }

    /// Builds a duplicate in `place`. For each VMA with its inclusive range, `inherit` returns how
    /// the copy differs, or `None` to leave it out.
    ///
    /// # Errors
    /// `ENOMEM`; the duplicate is dropped.
    #[inline]
    pub(crate) fn try_clone_into(
        &self,
        place: &mut MaybeUninit<Areas>,
        mut inherit: impl FnMut(RangeInclusive<u64>, &Vma) -> Option<CopyAttrs>,
    ) -> Result<(), Errno> {
        // Most copies count for the same kinds as the originals.
        // SAFETY: a field of `place`, which this function initialises.
        let pages = unsafe {
            let pages = &raw mut (*place.as_mut_ptr()).pages;
            pages.write(self.pages);
            &mut *pages
        };
        let mut count = self.count;
        let mut batch = Batch::new(count);
        let tree = self
            .writer()
            .try_clone_with_error(|range, vma| {
                let len = range.end() - range.start() + 1;
                let Some(attrs) = inherit(range, vma) else {
                    pages.sub(Class::of(vma.flags), len >> 12);
                    count -= 1;
                    return Ok(None);
                };
                if attrs.flags != vma.flags {
                    pages.sub(Class::of(vma.flags), len >> 12);
                    pages.add(Class::of(attrs.flags), len >> 12);
                }
                batch.copy(vma, attrs).map(Some)
            })
            .map_err(|error| match error {
                CloneError::Alloc => Errno::ENOMEM,
                CloneError::Entry(errno) => errno,
            })?;
        let tree = SyncMapleTree::from_exclusive(tree, Retired::new());
        let (shared, writer) = Self::with_one_writer(tree)?;
        fill!(
            place,
            Areas {
                pages,
                writer: writer,
                shared: shared,
                vma_cache: None,
                changes: 0,
                last_hint: None,
                concurrent: false,
                is_observed: false,
                locks_closed: false,
                flush_at_end: false,
                out_of_memory: false,
                journal: None,
                count: count,
                peak: count,
                guarded_from: self.guarded_from,
            }
        );
        Ok(())
    }

    /// Returns figures of the tree. O(n).
    pub(crate) fn tree_stats(&self) -> maple_tree::Stats {
        self.writer().stats()
    }

    /// Returns the tree's nodes for display. O(n).
    pub(crate) fn dump(&self) -> impl fmt::Display {
        self.writer().dump(maple_tree::Format::Hexadecimal)
    }

    /// Checks the tree's structure and the counts. O(n).
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        self.writer().check().map_err(|_| "the tree is damaged")?;
        let mut pages = Counts::new();
        let mut count = 0;
        for area in self.iter() {
            pages.add(Class::of(area.vma.flags), area.len() >> 12);
            count += 1;
        }
        if count != self.count {
            return Err("the number of areas is wrong");
        }
        if pages != self.pages {
            return Err("a number of pages is wrong");
        }
        Ok(())
    }
}

impl fmt::Debug for Areas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Areas")
            .field("tree", &self.shared.tree)
            .field("pages", &self.pages)
            .finish_non_exhaustive()
    }
}
