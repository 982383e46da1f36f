//! The door to the pages: what their owner is asked and told while a call is performed.
//!
//! | file | concept |
//! |---|---|
//! | `mod` | the door itself, and nobody behind it |
//! | `object` | what an owner keeps with a file or a shared object |
//! | `notify` | how calls tell: in which order, and of which ranges |
//! | `watch` | who only looks on |
//!
//! May know: areas and error numbers. Knows nothing of calls.

mod notify;
mod object;
mod watch;

pub(crate) use notify::MappedRanges;
pub use object::Object;
pub use watch::Watch;

use crate::abi::SyncFlags;
use crate::errno::Errno;
use crate::space::vma::{Area, Vma};

/// The owner of the pages of an address space: asked what only it knows, and told what a call does.
///
/// It is passed to the call ([`AddressSpace::perform_with`](crate::AddressSpace::perform_with)); the address space holds the map and knows no
/// pages. Three kinds:
///
/// * **Nobody** ([`NoPages`]): a map alone. Costs nothing: the calls are compiled for it without a trace of the door.
/// * **A watcher**, which has no pages itself: a tracer that looks at those of a process elsewhere, or a mirror. It implements [`Watch`], whose methods all
///   have defaults, and so is an owner that refuses nothing.
/// * **Whoever has the pages**: page tables, or a region of a host process. It is told which pages are mapped, unmapped, moved and so on, and implements this
///   trait. What contents depend on has no default: an owner that forgets to move pages, to give them up or to write them back does not compile.
///
/// # What is told, and when
///
/// * After the map has changed, in the order in which Linux does it, step by step: `MAP_FIXED` over mappings is [`unmap`](Self::unmap) of what was
///   there, then [`map`](Self::map); `mprotect` over three areas is [`protect`](Self::protect) three times, upwards.
/// * Ranges are whole pages, `[start, end)`, not empty. Exactly pages that were mapped are told as unmapped, protected, moved or discarded: `munmap` over a
///   hole is one `unmap` for each stretch without a hole, however many areas lie in it. What is told of one area carries its attributes as they are
///   now; the area itself may reach further.
/// * So one who keeps an array of pages and applies what it is told has, at the end of each call, a page for each that is mapped and for
///   no other, with the protection that its area has.
/// * Changes that no page can show are not told: advice that is only remembered, names, policies, locking by itself, sealing.
///
/// # When it cannot be done
///
/// Memory is asked for before the map changes: [`prepare`](Self::prepare). If that fails, the call fails, and nothing of this step was done.
/// What is told afterwards is to succeed. An owner that may refuse it all the same says so ([`refuses`](Self::refuses)), and pays for a journal:
/// a refusal then undoes the whole call. Undoing takes no memory. It may wait for readers ([`SharedMap`](crate::SharedMap)), as any change may.
///
/// # When it panics
///
/// A panic of an owner that may refuse undoes the call as a refusal does, while the thread unwinds: the owner is told the reverse of what it had been told
/// before, and not of what it panicked at. If it panics again meanwhile, that is dropped with the feature `hosted`, and ends the program without it. For other owners what the
/// call has changed so far stays, and the map is sound. In either case calls and faults go on.
///
/// ```compile_fail,E0046
/// use samara_mm::{Errno, Pages, Vma};
///
/// struct Region;
///
/// // What `mremap` moves, `madvise` gives up and `msync` writes would stay where it is: that is no owner.
/// impl Pages for Region {
///     fn refuses(&self) -> bool {
///         true
///     }
///     fn map(&mut self, _: u64, _: u64, _: &Vma) -> Result<(), Errno> {
///         Ok(())
///     }
///     fn unmap(&mut self, _: u64, _: u64) -> Result<(), Errno> {
///         Ok(())
///     }
///     fn protect(&mut self, _: u64, _: u64, _: &Vma) -> Result<(), Errno> {
///         Ok(())
///     }
/// }
/// ```
pub trait Pages {
    /// Whether [`written`](Self::written) can ever answer true; asking costs a look-up. `false` unless said otherwise.
    fn informed(&self) -> bool {
        false
    }

    /// Does `[start, end)` hold at least one private anonymous page (present or swapped out) now?
    /// The shared zero page does not count. The range lies in one area.
    ///
    /// An area counts as touched (it has an anon_vma) from the first private page on; whether that has happened
    /// decides who may merge. An owner that takes faults reports them through [`AddressSpace::fault`](crate::AddressSpace::fault) and need
    /// not answer; a tracer, which sees no faults, looks at the pages instead.
    fn written(&mut self, start: u64, end: u64) -> bool {
        let _ = (start, end);
        false
    }

    /// Whether a page of `[start, end)`, which lies in one area, is there on none of these nodes (0 to 63, bit by bit), and stays there: what `mbind` with
    /// `MPOL_MF_STRICT` fails at. The shared zero page does not count. `false` unless said otherwise.
    fn strays(&mut self, start: u64, end: u64, nodes: u64, moving: Moving) -> bool {
        let _ = (start, end, nodes, moving);
        false
    }

    /// Whether it is to be told anything. `true` unless said otherwise; what only answers says `false` and saves the look-ups.
    fn listens(&self) -> bool {
        true
    }

    /// Whether it is to be told of what is [mapped](Self::map), too. `true` unless said otherwise; `false`
    /// saves a look-up, unless it may refuse.
    fn listens_to_maps(&self) -> bool {
        true
    }

    /// Whether it may refuse what it is told. Then each call keeps a journal, O(log n) and the areas that it changes; and after a refusal the map, its counts
    /// and everything else are as before the call, the owner has been told the reverse of what it had been told, last first, and the
    /// call returns the error of the refusal.
    fn refuses(&self) -> bool {
        false
    }

    /// Before the map changes: what may need memory is done now (huge pages and shared tables divided at the ends of a range, tables for a
    /// destination made), so that telling cannot fail afterwards. Nothing that a program can see changes. What was
    /// prepared need not follow: the call may still fail.
    ///
    /// # Errors
    /// The call's; `ENOMEM` as a rule.
    fn prepare(&mut self, op: PrepareOp) -> Result<(), Errno> {
        let _ = op;
        Ok(())
    }

    /// Mapped, where nothing was: `mmap`, `brk` upwards, growth of any kind, `shmat`, `remap_file_pages`; and the source of
    /// `MREMAP_DONTUNMAP`, after its pages have been moved.
    ///
    /// # Errors
    /// A refusal.
    fn map(&mut self, start: u64, end: u64, vma: &Vma) -> Result<(), Errno>;

    /// No longer mapped.
    ///
    /// # Errors
    /// A refusal.
    fn unmap(&mut self, start: u64, end: u64) -> Result<(), Errno>;

    /// All of `[start, end)` has been [unmapped](Self::unmap), each stretch of it: nothing else was mapped there, and the range is the one that was
    /// [announced](PrepareOp::Unmap). Page tables take pages out here and not stretch by stretch: a table that others use is given up as a whole without memory, and
    /// must be copied for a part.
    ///
    /// # Errors
    /// A refusal.
    fn vacate(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        let _ = (start, end);
        Ok(())
    }

    /// Whether it wants to know what is [left around](Self::left_around) what it has just been told of. `false` unless said otherwise; it costs two look-ups.
    fn asks_what_is_left(&self) -> bool {
        false
    }

    /// After what was told of the unmapped or moved pages of `[start, end)`, which may have had holes: the area below ends at `below` (0: there is none), the one
    /// above begins at `above` (`u64::MAX`). Where the source of a move stays mapped, both are `start`. Linux gives back the page tables that only serve what lies
    /// between the two, and keeps the others, be they empty.
    fn left_around(&mut self, start: u64, end: u64, below: u64, above: u64) {
        let _ = (start, end, below, above);
    }

    /// The protection (or the protection key) has changed to that of `vma`.
    ///
    /// # Errors
    /// A refusal.
    fn protect(&mut self, start: u64, end: u64, vma: &Vma) -> Result<(), Errno>;

    /// The `len` bytes at `from` are at `to` now, pages and all, and nothing is mapped at `from`. Nothing was at `to`, and the two do not overlap.
    ///
    /// # Errors
    /// A refusal.
    fn relocate(&mut self, from: u64, to: u64, len: u64) -> Result<(), Errno>;

    /// The pages are given up, or treated otherwise as `how` says; the range stays mapped. It lies in one area.
    ///
    /// # Errors
    /// The call's. What is gone is not brought back when a call is undone.
    fn advise(&mut self, start: u64, end: u64, vma: &Vma, advice: PageAdvice) -> Result<(), Errno>;

    /// Whether populating `[start, end)` of an area for reading gives it its anon_vma: a huge page comes there, be it one of zeroes. Asked only of private areas with
    /// `MADV_HUGEPAGE` that have none. `false` unless said otherwise.
    fn is_owned_by_reading(&mut self, start: u64, end: u64, area: &Area<'_>) -> bool {
        let _ = (start, end, area);
        false
    }

    /// Pages are to be there, as after an access to each: for writing if `write`. The range lies in `area`, which allows the access and has its
    /// anon_vma if it needs one, and has no guard marker; it reaches to the end of a shared object at most, but a file may end before. Stops at the
    /// first page that cannot be had.
    ///
    /// # Errors
    /// `EFAULT` beyond the end of a file, `ENOMEM` when memory runs out, `EIO` … Each call does with it what Linux does: `mmap`
    /// says nothing of it. It is no refusal.
    fn populate(&mut self, start: u64, end: u64, area: &Area<'_>, write: bool)
    -> Result<(), Errno>;

    /// `msync`: what was written to a shared mapping goes to its object. The range lies in one area.
    ///
    /// # Errors
    /// The call's: `EIO` … It is no refusal.
    fn sync(&mut self, start: u64, end: u64, vma: &Vma, flags: SyncFlags) -> Result<(), Errno>;

    /// A shared anonymous object of so many pages is made (`MAP_SHARED | MAP_ANONYMOUS`): what the owner wants to keep with it, as long as an area maps it.
    ///
    /// # Errors
    /// The call's; nothing has changed.
    fn object(&mut self, pages: u64) -> Result<Object, Errno>;

    /// The call is undone: what is told from now until it returns is the reverse of what it had told, and answers to it are ignored.
    fn undoing(&mut self) {}
}

/// What a call is about to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PrepareOp {
    /// [`Pages::map`].
    Map {
        /// First address.
        start: u64,
        /// First address beyond.
        end: u64,
    },
    /// [`Pages::unmap`] of what is mapped in the range, and [`Pages::vacate`] of the range.
    Unmap {
        /// First address.
        start: u64,
        /// First address beyond.
        end: u64,
    },
    /// [`Pages::protect`].
    Protect {
        /// First address.
        start: u64,
        /// First address beyond.
        end: u64,
    },
    /// Nothing: the call fails, and its area becomes two all the same. No page may reach across the address.
    Split {
        /// Where the upper of the two begins.
        at: u64,
    },
    /// [`Pages::relocate`]. What is at the destination is unmapped before.
    Move {
        /// The old place.
        from: u64,
        /// The new one.
        to: u64,
        /// Bytes.
        len: u64,
    },
}

/// Which pages `mbind` moves to the nodes that it names. Those that somebody has a reference on stay where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Moving {
    /// None: each page on another node stays there.
    Nothing,
    /// `MPOL_MF_MOVE`: those that this address space alone maps. Others are left alone, and not counted.
    Own,
    /// `MPOL_MF_MOVE_ALL`.
    All,
}

/// What becomes of pages whose area stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PageAdvice {
    /// `MADV_DONTNEED` and `MADV_DONTNEED_LOCKED`: they leave the address space; the next access finds zeroes or the object's.
    DontNeed,
    /// `MADV_FREE`: as `DontNeed`, but at leisure, and not those that are written again before.
    Free,
    /// `MADV_REMOVE`: they go, and what is behind them in the object.
    Remove,
    /// `MADV_GUARD_INSTALL`: as `DontNeed`, and accesses fail from now on.
    GuardInstall,
    /// `MADV_GUARD_REMOVE`: accesses no longer fail; other pages stay.
    GuardRemove,
    /// `MADV_WILLNEED`: they may be read ahead.
    WillNeed,
    /// `MADV_COLD`: they are the first to be reclaimed.
    Cold,
    /// `MADV_PAGEOUT`: they are reclaimed now, if they can be had back.
    PageOut,
    /// `MADV_COLLAPSE`: huge pages take their place now.
    Collapse,
    /// `MADV_UNMERGEABLE`, or `PR_SET_MEMORY_MERGE` off: those that were merged with equal ones are the process's alone again.
    Unmerge,
}

/// Nobody: for address spaces that are a map alone. Whoever takes faults all the same reports each one.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPages;

impl Watch for NoPages {
    #[inline(always)]
    fn listens(&self) -> bool {
        false
    }
}
