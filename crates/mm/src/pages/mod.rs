//! The interface to the owner of the pages: what it is asked, and notified of, during a call.
//!
//! | file | concept |
//! |---|---|
//! | `mod` | the interface, and its empty implementation |
//! | `watch` | owners that only look on |
//!
//! It uses VMAs and error numbers, and knows nothing of calls.

mod watch;

pub use watch::Watch;

use crate::abi::SyncFlags;
use crate::errno::Errno;
use crate::object::Object;
use crate::vma::{Area, Vma};

/// The owner of the pages of an address space. It is asked what only it knows, and notified of what
/// a call does.
///
/// It is passed to the call ([`AddressSpace::perform_with`](crate::AddressSpace::perform_with)).
/// The address space holds the map and knows no pages. There are three kinds of owners:
///
/// * **None** ([`NoPages`]): a map alone. The notification calls compile to nothing.
/// * **A watcher**, which has no pages itself, such as a tracer that looks at those of another
///   process, or a mirror. It implements [`Watch`], whose methods all have defaults. It refuses
///   nothing.
/// * **An owner with pages**: page tables, or a region of a host process. It is notified which
///   pages are mapped, unmapped, moved and so on, and implements this trait. Methods that contents
///   depend on have no default: an owner that forgets to move pages, to discard them or to write
///   them back does not compile.
///
/// # Notifications
///
/// * They come after the map has changed, in Linux's order, step by step. `MAP_FIXED` over mappings
///   is [`unmap`](Self::unmap) of what was there, then [`map`](Self::map). `mprotect` over three
///   VMAs is [`protect`](Self::protect) three times, upwards.
/// * Ranges are whole pages, `[start, end)`, and not empty. Only pages that were mapped are
///   notified as unmapped, protected, moved or advised. `munmap` over a hole is one `unmap` for
///   each range without a hole, however many VMAs lie in it. A notification for one VMA carries its
///   current attributes; the VMA itself may be larger than the range.
/// * So an owner that keeps an array of pages and applies the notifications has, at the end of each
///   call, exactly the pages that are mapped, with the protection of their VMA.
/// * Changes without an effect on pages are not notified: advice that is only stored, names,
///   policies, locking by itself, sealing.
///
/// # Failures
///
/// Memory is allocated before the map changes: [`prepare`](Self::prepare). If that fails, the call
/// fails, and this step has done nothing. Later notifications must succeed. An owner that may
/// refuse one all the same says so by [`refuses`](Self::refuses), and pays for a journal: a refusal
/// then undoes the whole call. Undoing allocates nothing. It may wait for readers
/// ([`SharedMap`](crate::SharedMap)), as any change may.
///
/// # Panics of an owner
///
/// A panic of an owner that may refuse undoes the call as a refusal does, while the thread unwinds:
/// the owner is notified of the reverse of earlier notifications, but not of the one that panicked.
/// If it panics again, that panic is dropped with the feature `hosted`, and aborts the program
/// without it. For other owners, the effects of the call so far stay, and the map is sound. In
/// either case later calls and faults work.
///
/// ```compile_fail,E0046
/// use samara_mm::{Errno, Pages, Vma};
///
/// struct Region;
///
/// // Does not compile: `relocate`, `advise`, `sync` and `object` are required, too. Without them,
/// // the region's pages would stay where they are.
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
    /// Returns `true` if [`written`](Self::written) can ever return `true`. Asking costs a look-up.
    /// The default is `false`.
    fn informed(&self) -> bool {
        false
    }

    /// Returns `true` if `[start, end)` holds at least one private anonymous page now, present or
    /// swapped out. The shared zero page does not count. The range lies in one VMA.
    ///
    /// A VMA has an anon_vma from its first private page on, and that decides which VMAs may merge.
    /// An owner that handles faults reports them through
    /// [`AddressSpace::fault`](crate::AddressSpace::fault) and need not answer. A tracer, which
    /// sees no faults, looks at the pages.
    fn written(&mut self, start: u64, end: u64) -> bool {
        let _ = (start, end);
        false
    }

    /// Returns `true` if a page of `[start, end)`, which lies in one VMA, is on none of these nodes
    /// (0 to 63, one bit each) and stays there. `mbind` with `MPOL_MF_STRICT` fails then. The
    /// shared zero page does not count. The default is `false`.
    fn strays(&mut self, start: u64, end: u64, nodes: u64, moving: Moving) -> bool {
        let _ = (start, end, nodes, moving);
        false
    }

    /// Returns `true` if it wants notifications. The default is `true`; an owner that only answers
    /// returns `false` and saves the look-ups.
    fn listens(&self) -> bool {
        true
    }

    /// Returns `true` if it wants notifications of what is [mapped](Self::map). The default is
    /// `true`; `false` saves a look-up, unless the owner may refuse.
    fn listens_to_maps(&self) -> bool {
        true
    }

    /// Returns `true` if it may refuse a notification. The default is `false`.
    ///
    /// Each call then keeps a journal, which costs O(log n) and a copy of each VMA that it changes.
    /// After a refusal, the map, its counts and everything else are as before the call. The owner
    /// has been notified of the reverse of all notifications, last one first, and the call returns
    /// the error of the refusal.
    fn refuses(&self) -> bool {
        false
    }

    /// Allocates what the operation may need, before the map changes: divides huge pages and shared
    /// tables at the ends of a range, makes tables for a destination. The notification cannot fail
    /// then. A program sees no change. The operation may not follow, because the call may still
    /// fail.
    ///
    /// # Errors
    /// The call's, usually `ENOMEM`.
    fn prepare(&mut self, op: PrepareOp) -> Result<(), Errno> {
        let _ = op;
        Ok(())
    }

    /// Notifies that a range without mappings is mapped: by `mmap`, `brk` upwards, growth of any
    /// kind, `shmat`, `remap_file_pages`, and for the source of `MREMAP_DONTUNMAP` after its pages
    /// have been moved.
    ///
    /// # Errors
    /// A refusal.
    fn map(&mut self, start: u64, end: u64, vma: &Vma) -> Result<(), Errno>;

    /// Notifies that a range is no longer mapped.
    ///
    /// # Errors
    /// A refusal.
    fn unmap(&mut self, start: u64, end: u64) -> Result<(), Errno>;

    /// Notifies that all of `[start, end)` has been [unmapped](Self::unmap), nothing else was
    /// mapped there, and the range is the one that was [prepared](PrepareOp::Unmap). Page tables
    /// are cleared here and not range by range: a table that is shared is dropped whole without
    /// memory, but must be copied for a part.
    ///
    /// # Errors
    /// A refusal.
    fn vacate(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        let _ = (start, end);
        Ok(())
    }

    /// Returns `true` if it wants to be notified of what is [left around](Self::left_around) a
    /// range. The default is `false`; `true` costs two look-ups.
    fn asks_what_is_left(&self) -> bool {
        false
    }

    /// Notifies of the neighbours of unmapped or moved pages of `[start, end)`, which may have had
    /// holes. The VMA below ends at `below`, or `below` is 0. The VMA above begins at `above`, or
    /// `above` is `u64::MAX`. If the source of a move stays mapped, both are `start`. Linux frees
    /// the page tables that serve only addresses between the two, and keeps others even if they are
    /// empty.
    fn left_around(&mut self, start: u64, end: u64, below: u64, above: u64) {
        let _ = (start, end, below, above);
    }

    /// Notifies that the protection or the protection key has changed to that of `vma`.
    ///
    /// # Errors
    /// A refusal.
    fn protect(&mut self, start: u64, end: u64, vma: &Vma) -> Result<(), Errno>;

    /// Notifies that the `len` bytes at `from` are at `to` now, with their pages. Nothing is mapped
    /// at `from`, and nothing was at `to`. The two do not overlap.
    ///
    /// # Errors
    /// A refusal.
    fn relocate(&mut self, from: u64, to: u64, len: u64) -> Result<(), Errno>;

    /// Applies advice to the pages of a range, which stays mapped and lies in one VMA.
    ///
    /// # Errors
    /// The call's. Discarded contents do not return when a call is undone.
    fn advise(&mut self, start: u64, end: u64, vma: &Vma, advice: PageAdvice) -> Result<(), Errno>;

    /// Returns `true` if populating `[start, end)` for reading gives the VMA an anon_vma, because a
    /// huge page, even the one of zeroes, comes there. Asked only for private VMAs with
    /// `MADV_HUGEPAGE` and without an anon_vma. The default is `false`.
    fn is_owned_by_reading(&mut self, start: u64, end: u64, area: &Area<'_>) -> bool {
        let _ = (start, end, area);
        false
    }

    /// Faults in the pages of a range as an access to each does, for writing if `write`. The range
    /// lies in `area`, which allows the access, has its anon_vma if it needs one, and has no guard
    /// marker there. The range ends within a shared object, but a file may end before. Stops at the
    /// first page that is not available.
    ///
    /// # Errors
    /// `EFAULT` beyond the end of a file, `ENOMEM` when memory runs out, `EIO` … Each call treats
    /// it as Linux does: `mmap` ignores it. It is no refusal.
    fn populate(&mut self, start: u64, end: u64, area: &Area<'_>, write: bool)
    -> Result<(), Errno>;

    /// Writes changes of a shared mapping to its object, for `msync`. The range lies in one VMA.
    ///
    /// # Errors
    /// The call's: `EIO` … It is no refusal.
    fn sync(&mut self, start: u64, end: u64, vma: &Vma, flags: SyncFlags) -> Result<(), Errno>;

    /// Returns what the owner keeps with a new shared anonymous object of `pages` pages
    /// (`MAP_SHARED | MAP_ANONYMOUS`), as long as a VMA maps it.
    ///
    /// # Errors
    /// The call's; nothing has changed.
    fn object(&mut self, pages: u64) -> Result<Object, Errno>;

    /// Says that the call is being undone: notifications until it returns are the reverse of
    /// earlier ones, and their results are ignored.
    fn undoing(&mut self) {}
}

/// An operation of which the owner will be notified.
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
    /// No notification: the call fails, and a VMA is split all the same. No page may reach across
    /// the address.
    Split {
        /// Start of the upper VMA.
        at: u64,
    },
    /// [`Pages::relocate`]. What is mapped at the destination is unmapped before.
    Move {
        /// Old address.
        from: u64,
        /// New address.
        to: u64,
        /// Bytes.
        len: u64,
    },
}

/// The pages that `mbind` moves to the nodes that it names. Pinned pages stay where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Moving {
    /// None: a page on another node stays there.
    Nothing,
    /// `MPOL_MF_MOVE`: those that only this address space maps. Others stay, and do not count.
    Own,
    /// `MPOL_MF_MOVE_ALL`.
    All,
}

/// Advice on pages whose VMA stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PageAdvice {
    /// `MADV_DONTNEED` and `MADV_DONTNEED_LOCKED`: they are unmapped; the next access finds zeroes
    /// or the object's contents.
    DontNeed,
    /// `MADV_FREE`: as `DontNeed`, but when memory is needed, and only those that are not written
    /// before.
    Free,
    /// `MADV_REMOVE`: they are unmapped, and their part of the object is removed.
    Remove,
    /// `MADV_GUARD_INSTALL`: as `DontNeed`, and accesses fail from now on.
    GuardInstall,
    /// `MADV_GUARD_REMOVE`: accesses no longer fail; other pages stay.
    GuardRemove,
    /// `MADV_WILLNEED`: they may be read ahead.
    WillNeed,
    /// `MADV_COLD`: they are the first to be reclaimed.
    Cold,
    /// `MADV_PAGEOUT`: they are reclaimed now, if their contents can be read again.
    PageOut,
    /// `MADV_COLLAPSE`: huge pages replace them now.
    Collapse,
    /// `MADV_UNMERGEABLE`, or `PR_SET_MEMORY_MERGE` off: those that were merged with equal ones
    /// become private to the process again.
    Unmerge,
}

/// No owner, for address spaces that are a map alone. A caller that handles faults reports each
/// one.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPages;

impl Watch for NoPages {
    #[inline(always)]
    fn listens(&self) -> bool {
        false
    }
}
