//! The areas of an address space: the only room that changes the tree. (`shared.rs` looks into it from other threads.)
//!
//! | file | concept |
//! |---|---|
//! | `mod` | the tree with its one writer; finding areas and gaps |
//! | `lookup` | what lies in a range and beside it, and where in the tree that is |
//! | `change` | writes, and the counts that go with them |
//! | `before_change` | what comes before a write that somebody may see, or that may be undone |
//! | `retired` | areas that have left the tree and may still be seen |
//!
//! Ranges here are half-open and page-aligned, `start < end`. Counts of pages by kind are kept up with every
//! change, so that limits can be checked without walking.
//!
//! # Readers beside the writer
//!
//! The tree is on the heap, counted, and there is one writer of it for all its life, which an exclusive borrow of [`Areas`] stands for.
//! [`Areas::share`] hands out further handles; those only read. While there is one, the tree is in RCU mode: nodes and areas are replaced,
//! not changed, and what they replace is freed after the readers that may see it have left; and the lock of each area is closed before it is changed (see
//! `vma_lock`). The first
//! change that finds no handle left switches RCU mode off, and changes are made in place again. An area's
//! owner of private pages is all that ever changes in an area that is in the tree; it is an atomic word.

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
use crate::space::vma::{Area, Vma};
use crate::space::vma_box::{Batch, CopyAttrs, VmaBox};
use crate::space::vma_cache::VmaCache;
use crate::space::vma_lock::Calls;

/// Areas by address.
type Tree = SyncMapleTree<u64, VmaBox, Retired>;

/// What handles on the areas share.
pub(crate) struct Shared {
    pub(crate) tree: Tree,
    /// Calls are counted only while there is another handle.
    pub(crate) calls: Calls,
}

/// The writer of a tree whose handles are beside it. Not as itself: it refers to what the last handle drops, and a function that is given a reference
/// (the structure with both by value, say) may rely on its target's outliving the function.
type SoleWriter = MaybeUninit<Writer<'static, u64, VmaBox, Retired>>;

/// A place in the tree.
type Seat = maple_tree::Seat<u64>;

/// Areas by address, with their counts.
pub(crate) struct Areas {
    /// The one writer of `tree`, which never leaves this place; dropping it would do nothing.
    writer: SoleWriter,
    shared: Counted<Shared>,
    /// What holders have found, while there may be other handles; nothing where there was no memory for it.
    vma_cache: Option<Counted<VmaCache<Vma>>>,
    /// How many changes have begun: what was found before the last of them says nothing any more.
    changes: u64,
    /// Where the last change was made, if it changed just a leaf: the next look is often near.
    last_seat: Option<Seat>,
    /// The tree is in RCU mode, as it must be while there is another handle.
    concurrent: bool,
    /// That, or a journal is kept: a change is not to begin at once.
    is_observed: bool,
    /// A lock was closed since the last call ended.
    locks_closed: bool,
    /// So was that of an area which may have more than memory to give up.
    flush_at_end: bool,
    /// A change was refused for want of memory before it looked where to go.
    out_of_memory: bool,
    journal: Option<Box<Journal>>,
    count: usize,
    peak: usize,
    pages: Counts,
    /// No area that keeps a gap below it free begins below this address.
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
            last_seat: None,
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

    /// A tree with one handle and one writer.
    ///
    /// # Errors
    /// `ENOMEM`; the tree is dropped.
    #[inline]
    fn with_one_writer(tree: Tree) -> Result<(Counted<Shared>, SoleWriter), Errno> {
        // SAFETY:
        // - nobody else has the tree yet;
        // - while RCU mode is off there is one handle (`share` switches it on before there is a second, `prepare_change` off when
        //   there is none left), and whoever writes through that one borrows it exclusively.
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
        // SAFETY: the place is filled.
        let shared = unsafe { Counted::try_make(fill)? };
        // SAFETY:
        // - the view goes into `writer`, which is not used after the handle has been dropped, as both are fields of one structure;
        // - this is the only writer that is ever made of this tree: other handles are given to `SharedMap`, which
        //   reads; and it writes only when it is borrowed exclusively.
        let writer = unsafe { shared.detached().tree.write_locked() };
        Ok((shared, MaybeUninit::new(writer)))
    }

    fn writer(&self) -> &Writer<'static, u64, VmaBox, Retired> {
        // SAFETY: it has been there from the start, and what it refers to lives as long as the handle.
        unsafe { self.writer.assume_init_ref() }
    }

    /// The tree, for a change of a range and of the areas that reach into it.
    ///
    /// # Errors
    /// `ENOMEM`, while a journal is kept; nothing has changed.
    #[inline(always)]
    fn writer_mut(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<&mut Writer<'static, u64, VmaBox, Retired>, Errno> {
        self.before_change(start, end)?;
        Ok(self.writer_now())
    }

    /// The tree, for a change that has been [noted](Self::before_change).
    #[inline(always)]
    fn writer_now(&mut self) -> &mut Writer<'static, u64, VmaBox, Retired> {
        self.changes += 1;
        self.last_seat = None;
        // SAFETY: as in `writer`.
        unsafe { self.writer.assume_init_mut() }
    }

    /// The areas that intersect a range, upwards.
    pub(crate) fn in_range(&self, range: Range<u64>) -> impl Iterator<Item = Area<'_>> {
        self.writer().range(range).map(area)
    }

    /// Number of areas.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Largest number of areas that there ever was.
    pub(crate) fn peak(&self) -> usize {
        self.peak
    }

    pub(crate) fn pages(&self) -> &Counts {
        &self.pages
    }

    /// No area that keeps a gap below it free ([`KEEPS_GAP`](crate::flags::VmFlags::KEEPS_GAP)) begins below this address.
    pub(crate) fn guarded_from(&self) -> u64 {
        self.guarded_from
    }

    /// The first area that ends above `address`. O(log n).
    pub(crate) fn find(&self, address: u64) -> Option<Area<'_>> {
        self.writer().find(address..).map(area)
    }

    /// The first area that intersects `[start, end)`. O(log n).
    pub(crate) fn find_in(&self, start: u64, end: u64) -> Option<Area<'_>> {
        if start >= end {
            return None;
        }
        self.find(start).filter(|area| area.start < end)
    }

    /// The area that holds `address`. O(log n).
    pub(crate) fn at(&self, address: u64) -> Option<Area<'_>> {
        self.writer().get_range(address).map(area)
    }

    /// The last area that starts below `address`. O(log n).
    pub(crate) fn before(&self, address: u64) -> Option<Area<'_>> {
        self.writer().find_rev(..address).map(area)
    }

    /// All areas, upwards and downwards.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Area<'_>> {
        self.writer().iter().map(area)
    }

    /// Lowest free range of `size` bytes within `[low, high)`. O(log n).
    pub(crate) fn gap_up(&self, low: u64, high: u64, size: u64) -> Option<u64> {
        if size == 0 || low >= high || high - low < size {
            return None;
        }
        self.writer().gap_up(low..=high - 1, size)
    }

    /// Highest free range of `size` bytes within `[low, high)`. O(log n).
    pub(crate) fn gap_down(&self, low: u64, high: u64, size: u64) -> Option<u64> {
        if size == 0 || low >= high || high - low < size {
            return None;
        }
        self.writer().gap_down(low..=high - 1, size)
    }

    /// Puts a duplicate into its place, of which `inherit` tells, of each area with its range, how the copy differs, or that there is none.
    ///
    /// # Errors
    /// `ENOMEM`, and nothing of the duplicate is left.
    #[inline]
    pub(crate) fn try_clone_into(
        &self,
        place: &mut MaybeUninit<Areas>,
        mut inherit: impl FnMut(RangeInclusive<u64>, &Vma) -> Option<CopyAttrs>,
    ) -> Result<(), Errno> {
        // Most areas count for what they counted for before.
        // SAFETY: a field of the place.
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
                last_seat: None,
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

    /// Figures of the tree. O(n).
    pub(crate) fn tree_stats(&self) -> maple_tree::Stats {
        self.writer().stats()
    }

    /// The tree's nodes, to be shown. O(n).
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
