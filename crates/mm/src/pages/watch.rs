//! Watchers: clients that are notified of calls and own no pages.

use crate::abi::SyncFlags;
use crate::errno::Errno;
use crate::object::Object;
use crate::pages::{Moving, PageAdvice, Pages, PrepareOp};
use crate::vma::{Area, Vma};

/// A client that is asked and notified as an owner of pages is ([`Pages`]) and has none: a tracer,
/// a counter, a mirror of the map.
///
/// A watcher implements only the methods that it needs: every one has a default, which returns
/// `false` or does nothing. It cannot refuse. If a call is undone because another owner refuses it,
/// the watcher is notified of the reverse.
///
/// ```
/// use samara_mm::{AddressSpace, Config, Layout, Limits, MmapOptions, Vma, Watch};
///
/// /// Counts pages.
/// struct Counter(u64);
///
/// impl Watch for Counter {
///     fn map(&mut self, start: u64, end: u64, _: &Vma) {
///         self.0 += (end - start) / 4096;
///     }
///
///     fn unmap(&mut self, start: u64, end: u64) {
///         self.0 -= (end - start) / 4096;
///     }
/// }
///
/// let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
/// let mut counter = Counter(0);
/// let memory = space.with(&mut counter).mmap(&MmapOptions::anonymous(0x4000))?;
/// space.with(&mut counter).munmap(memory + 0x1000, 0x8000)?;
/// assert_eq!(counter.0, 1);
/// # Ok::<(), samara_mm::Errno>(())
/// ```
#[allow(
    unused_variables,
    reason = "defaults do nothing with what they are told"
)]
pub trait Watch {
    /// As [`Pages::informed`].
    #[inline(always)]
    fn informed(&self) -> bool {
        false
    }

    /// As [`Pages::written`].
    #[inline(always)]
    fn written(&mut self, start: u64, end: u64) -> bool {
        false
    }

    /// As [`Pages::strays`].
    #[inline(always)]
    fn strays(&mut self, start: u64, end: u64, nodes: u64, moving: Moving) -> bool {
        false
    }

    /// As [`Pages::listens`]. The default is `true`.
    #[inline(always)]
    fn listens(&self) -> bool {
        true
    }

    /// As [`Pages::listens_to_maps`]. The default is `true`.
    #[inline(always)]
    fn listens_to_maps(&self) -> bool {
        true
    }

    /// As [`Pages::prepare`].
    #[inline(always)]
    fn prepare(&mut self, op: PrepareOp) {}

    /// As [`Pages::map`].
    #[inline(always)]
    fn map(&mut self, start: u64, end: u64, vma: &Vma) {}

    /// As [`Pages::unmap`].
    #[inline(always)]
    fn unmap(&mut self, start: u64, end: u64) {}

    /// As [`Pages::protect`].
    #[inline(always)]
    fn protect(&mut self, start: u64, end: u64, vma: &Vma) {}

    /// As [`Pages::relocate`].
    #[inline(always)]
    fn relocate(&mut self, from: u64, to: u64, len: u64) {}

    /// As [`Pages::advise`].
    #[inline(always)]
    fn advise(&mut self, start: u64, end: u64, vma: &Vma, advice: PageAdvice) {}

    /// As [`Pages::populate`]. By default all pages are available.
    ///
    /// # Errors
    /// A page is not available. It is no refusal.
    #[inline(always)]
    fn populate(
        &mut self,
        start: u64,
        end: u64,
        area: &Area<'_>,
        write: bool,
    ) -> Result<(), Errno> {
        Ok(())
    }

    /// As [`Pages::sync`].
    #[inline(always)]
    fn sync(&mut self, start: u64, end: u64, vma: &Vma, flags: SyncFlags) {}

    /// As [`Pages::undoing`].
    #[inline(always)]
    fn undoing(&mut self) {}
}

/// A watcher is an owner that answers what it knows and refuses nothing.
impl<W: Watch + ?Sized> Pages for W {
    #[inline(always)]
    fn informed(&self) -> bool {
        Watch::informed(self)
    }

    #[inline(always)]
    fn written(&mut self, start: u64, end: u64) -> bool {
        Watch::written(self, start, end)
    }

    #[inline(always)]
    fn strays(&mut self, start: u64, end: u64, nodes: u64, moving: Moving) -> bool {
        Watch::strays(self, start, end, nodes, moving)
    }

    #[inline(always)]
    fn listens(&self) -> bool {
        Watch::listens(self)
    }

    #[inline(always)]
    fn listens_to_maps(&self) -> bool {
        Watch::listens_to_maps(self)
    }

    #[inline(always)]
    fn prepare(&mut self, op: PrepareOp) -> Result<(), Errno> {
        Watch::prepare(self, op);
        Ok(())
    }

    #[inline(always)]
    fn map(&mut self, start: u64, end: u64, vma: &Vma) -> Result<(), Errno> {
        Watch::map(self, start, end, vma);
        Ok(())
    }

    #[inline(always)]
    fn unmap(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        Watch::unmap(self, start, end);
        Ok(())
    }

    #[inline(always)]
    fn protect(&mut self, start: u64, end: u64, vma: &Vma) -> Result<(), Errno> {
        Watch::protect(self, start, end, vma);
        Ok(())
    }

    #[inline(always)]
    fn relocate(&mut self, from: u64, to: u64, len: u64) -> Result<(), Errno> {
        Watch::relocate(self, from, to, len);
        Ok(())
    }

    #[inline(always)]
    fn advise(&mut self, start: u64, end: u64, vma: &Vma, advice: PageAdvice) -> Result<(), Errno> {
        Watch::advise(self, start, end, vma, advice);
        Ok(())
    }

    #[inline(always)]
    fn populate(
        &mut self,
        start: u64,
        end: u64,
        area: &Area<'_>,
        write: bool,
    ) -> Result<(), Errno> {
        Watch::populate(self, start, end, area, write)
    }

    #[inline(always)]
    fn sync(&mut self, start: u64, end: u64, vma: &Vma, flags: SyncFlags) -> Result<(), Errno> {
        Watch::sync(self, start, end, vma, flags);
        Ok(())
    }

    #[inline(always)]
    fn object(&mut self, _: u64) -> Result<Object, Errno> {
        Ok(Object::none())
    }

    #[inline(always)]
    fn undoing(&mut self) {
        Watch::undoing(self);
    }
}
