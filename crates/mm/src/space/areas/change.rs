//! Changes of the tree. Each keeps the counts up to date. A change that fails has changed nothing.
//!
//! Each exists twice: at the position that the look-up has found, which is the usual and fast way,
//! and as a slow way from the root. They are separate calls, so that the stack frame of the first
//! is gone when the second goes deep into the tree.

use core::ops::ControlFlow;

use crate::errno::Errno;
use crate::flags::VmFlags;
use crate::space::areas::lookup::{Overlap, Span};
use crate::space::areas::{Areas, Hint, area};
use crate::space::counts::{Class, Counts};
use crate::vma::AnonVma;
use crate::vma::vma_box::VmaBox;

/// A VMA that the slow way must store, and the upper part of a divided one. Two words and a
/// discriminant, which registers take.
type Pair = (VmaBox, Option<VmaBox>);

impl Areas {
    /// Makes a range one VMA with these attributes, in place of whatever is there. It is one change
    /// of the tree, so no reader finds a hole. VMAs that reach out of the range are trimmed.
    ///
    /// # Errors
    /// `ENOMEM`, and nothing has changed.
    #[inline(always)]
    pub(crate) fn insert(&mut self, span: &Span, boxed: VmaBox) -> Result<(), Errno> {
        match self.insert_at_hint(span, boxed) {
            Ok(()) => Ok(()),
            Err(pair) => self.insert_slow(span, pair),
        }
    }

    /// As [`insert`](Self::insert), at the position of the look-up. If that is not possible, gives
    /// back the VMA and the upper part of a divided one.
    #[inline(never)]
    fn insert_at_hint(&mut self, span: &Span, mut boxed: VmaBox) -> Result<(), Pair> {
        let &Span { start, end, .. } = span;
        let over = &span.over;
        let flags = boxed.flags;
        let noted = self.before_insert(start, end, &mut boxed);
        // Copied only now, so that its lock is closed, too.
        let Ok(upper_part) = noted.and_then(|()| self.upper_part(span)) else {
            self.out_of_memory = true;
            return Err((boxed, None));
        };
        self.discount(start, end, over);
        let refused = match self.valid_hint(span) {
            // SAFETY: a span is used with the areas that it comes from. A valid position was found
            // by a look-up at `start`, and the tree has not changed since, as `writer_now` counts.
            Some(hint) => unsafe {
                let done = self
                    .writer_now()
                    .store_here(hint, (start, end - 1), boxed, upper_part);
                self.keep_hint(hint, done)
            },
            None => Err((boxed, upper_part)),
        };
        refused?;
        self.count_inserted(span, flags);
        Ok(())
    }

    /// Updates the counts after an insertion.
    #[inline(always)]
    fn count_inserted(&mut self, span: &Span, flags: VmFlags) {
        let &Span { start, end, .. } = span;
        let over = &span.over;
        self.pages.add(Class::of(flags), (end - start) >> 12);
        self.count = self.count + 1 + over.kept as usize - over.areas as usize;
        self.grown(start, flags);
    }

    /// Extends the VMA at `keeper` over `[start, end)`: over `span`, whose pages get these flags,
    /// and over VMAs with the same attributes. `joined` is the number of VMAs that become one.
    /// Allocates no VMA. Returns `false` if the position of the look-up does not allow it: the
    /// caller then calls [`grow_slow`](Self::grow_slow), after this stack frame is gone.
    ///
    /// # Errors
    /// `ENOMEM`, and nothing has changed.
    #[inline(always)]
    pub(crate) fn grow_at_hint(
        &mut self,
        keeper: u64,
        (start, end): (u64, u64),
        span: &Span,
        joined: usize,
        flags: VmFlags,
    ) -> Result<bool, Errno> {
        self.before_change(start, end)?;
        self.discount(span.start, span.end, &span.over);
        let done = match self.valid_hint(span) {
            // SAFETY: as in `insert_at_hint`; the range begins with `span`, or with the VMA that
            // ends there.
            Some(hint) => unsafe {
                let done = self.writer_now().grow_here(hint, keeper, (start, end - 1));
                self.keep_hint(hint, done.then_some(()).ok_or(())).is_ok()
            },
            None => false,
        };
        if done {
            self.count_grown(start, span, joined, flags);
        }
        Ok(done)
    }

    /// Updates the counts after a VMA from `start` has grown.
    #[inline(always)]
    fn count_grown(&mut self, start: u64, span: &Span, joined: usize, flags: VmFlags) {
        self.pages
            .add(Class::of(flags), (span.end - span.start) >> 12);
        self.count = self.count + 1 - joined - span.over.covered();
        self.grown(start, flags);
    }

    /// Removes everything in a range. VMAs that reach out of it are trimmed.
    ///
    /// # Errors
    /// `ENOMEM`, and nothing has changed.
    #[inline(always)]
    pub(crate) fn clear(&mut self, span: &Span) -> Result<(), Errno> {
        match self.clear_at_hint(span) {
            Ok(()) => Ok(()),
            Err(upper_part) => self.clear_slow(span, upper_part),
        }
    }

    /// As [`clear`](Self::clear), at the position of the look-up.
    #[inline(never)]
    fn clear_at_hint(&mut self, span: &Span) -> Result<(), Option<VmaBox>> {
        let &Span { start, end, .. } = span;
        let over = &span.over;
        if over.areas == 0 {
            return Ok(());
        }
        let noted = self.before_change(start, end);
        // Copied only now, so that its lock is closed, too.
        let Ok(upper_part) = noted.and_then(|()| self.upper_part(span)) else {
            self.out_of_memory = true;
            return Err(None);
        };
        self.discount(start, end, over);
        let refused = match self.valid_hint(span) {
            // SAFETY: as in `insert_at_hint`.
            Some(hint) => unsafe {
                let done = self
                    .writer_now()
                    .erase_here(hint, (start, end - 1), upper_part);
                self.keep_hint(hint, done)
            },
            None => Err(upper_part),
        };
        refused?;
        self.count_cleared(over);
        Ok(())
    }

    #[inline(always)]
    fn count_cleared(&mut self, over: &Overlap) {
        self.count = self.count + over.kept as usize - over.areas as usize;
        self.peak = self.peak.max(self.count);
    }

    /// Keeps the position after a change that started from it, if only the leaf has changed: the
    /// next look-up may start there.
    #[inline(always)]
    fn keep_hint<E>(&mut self, hint: &Hint, done: Result<(), E>) -> Result<(), E> {
        if done.is_ok() {
            self.last_hint = Some(*hint);
        }
        done
    }

    /// Returns a copy for the upper part of a VMA that the change of the span divides.
    ///
    /// # Errors
    /// `ENOMEM`.
    #[inline(always)]
    fn upper_part(&self, span: &Span) -> Result<Option<VmaBox>, Errno> {
        if !span.over.is_divided() {
            return Ok(None);
        }
        let around = match self.valid_hint(span) {
            // SAFETY: as in `insert_at_hint`.
            Some(hint) => unsafe { self.writer().get_here(hint) },
            None => self.at(span.start).map(|area| area.vma),
        };
        around.map(VmaBox::try_copy).transpose()
    }

    /// Inserts from the root: the slow way of [`insert`](Self::insert).
    #[cold]
    #[inline(never)]
    fn insert_slow(&mut self, span: &Span, pair: Pair) -> Result<(), Errno> {
        if core::mem::take(&mut self.out_of_memory) {
            return Err(Errno::ENOMEM);
        }
        let (boxed, upper_part) = pair;
        let (start, end, flags) = (span.start, span.end, boxed.flags);
        let range = start..=end - 1;
        let done = self
            .writer_now()
            .store_range_splitting(range, boxed, |_, _| upper_part);
        if done.is_err() {
            return Err(self.refused(start, end, &span.over));
        }
        self.count_inserted(span, flags);
        Ok(())
    }

    /// Grows from the root: the slow way of [`grow_at_hint`](Self::grow_at_hint).
    ///
    /// # Errors
    /// `ENOMEM`, and nothing has changed.
    #[inline(always)]
    pub(crate) fn grow_slow(
        &mut self,
        keeper: u64,
        (start, end): (u64, u64),
        span: &Span,
        joined: usize,
        flags: VmFlags,
    ) -> Result<(), Errno> {
        if self.writer_now().grow(keeper, start..=end - 1) != Ok(true) {
            return Err(self.refused(span.start, span.end, &span.over));
        }
        self.count_grown(start, span, joined, flags);
        Ok(())
    }

    /// Removes from the root: the slow way of [`clear`](Self::clear).
    #[cold]
    #[inline(never)]
    fn clear_slow(&mut self, span: &Span, upper_part: Option<VmaBox>) -> Result<(), Errno> {
        if core::mem::take(&mut self.out_of_memory) {
            return Err(Errno::ENOMEM);
        }
        let (start, end) = (span.start, span.end);
        let done = self
            .writer_now()
            .erase_range_splitting(start..=end - 1, |_, _| upper_part);
        if done.is_err() {
            return Err(self.refused(start, end, &span.over));
        }
        self.count_cleared(&span.over);
        Ok(())
    }

    /// Splits the VMA around `address` there. Returns `false` if there is nothing to split.
    ///
    /// # Errors
    /// `ENOMEM`, and nothing has changed.
    pub(crate) fn split(&mut self, address: u64) -> Result<bool, Errno> {
        let Some(whole) = self.at(address) else {
            return Ok(false);
        };
        if whole.start == address {
            return Ok(false);
        }
        let end = whole.end;
        let mut upper = VmaBox::try_copy(whole.vma)?;
        self.close_new(&mut upper);
        self.writer_mut(address, end)?
            .store_range(address..=end - 1, upper)
            .map_err(|_| Errno::ENOMEM)?;
        self.count += 1;
        self.peak = self.peak.max(self.count);
        Ok(true)
    }

    /// Gives the whole VMA that holds `address` other attributes, with one store. Merges nothing.
    ///
    /// # Errors
    /// `ENOMEM` if there is no VMA or an allocation fails; nothing has changed.
    pub(crate) fn replace(&mut self, address: u64, mut vma: VmaBox) -> Result<(), Errno> {
        self.close_new(&mut vma);
        let Some(area) = self.at(address) else {
            return Err(Errno::ENOMEM);
        };
        let pages = area.len() >> 12;
        let old = Class::of(area.vma.flags);
        let start = area.start;
        let flags = vma.flags;
        self.writer_mut(address, address + 1)?
            .replace(address, vma)
            .map_err(|_| Errno::ENOMEM)?;
        self.pages.sub(old, pages);
        self.pages.add(Class::of(flags), pages);
        self.grown(start, flags);
        Ok(())
    }

    /// Sets the anon_vma of the VMA that holds `address`, if there is one. Allocates nothing. The
    /// journal does not record it: see [`before_change`](Self::before_change).
    pub(crate) fn set_anon_vma(&mut self, address: u64, owner: Option<AnonVma>) {
        if let Some(area) = self.at(address) {
            area.vma.anon.set(owner);
        }
    }

    /// Takes the pages in `[start, end)` off the counts before a write removes them. `over` is what
    /// the look-up has found there.
    #[inline(always)]
    fn discount(&mut self, start: u64, end: u64, over: &Overlap) {
        if !over
            .pages
            .classes(|class, pages| self.pages.sub(class, pages))
        {
            self.recount(start, end, Counts::sub);
        }
    }

    /// Adds them again after the write has failed. Returns the error.
    #[cold]
    fn refused(&mut self, start: u64, end: u64, over: &Overlap) -> Errno {
        if !over
            .pages
            .classes(|class, pages| self.pages.add(class, pages))
        {
            self.recount(start, end, Counts::add);
        }
        Errno::ENOMEM
    }

    /// Applies `change` to the pages of each VMA in `[start, end)`.
    #[cold]
    fn recount(&mut self, start: u64, end: u64, change: fn(&mut Counts, Class, u64)) {
        let mut counts = self.pages;
        let show = |range, vma| {
            let area = area((range, vma));
            if area.start >= end {
                return ControlFlow::Break(());
            }
            let (low, high) = (area.start.max(start), area.end.min(end));
            change(&mut counts, Class::of(area.vma.flags), (high - low) >> 12);
            ControlFlow::Continue(())
        };
        let _ = self.writer().visit_from(start, show);
        self.pages = counts;
    }

    /// Updates the peak and the lowest guard gap for a VMA with these flags that begins at `start`.
    fn grown(&mut self, start: u64, flags: VmFlags) {
        self.peak = self.peak.max(self.count);
        if flags.intersects(VmFlags::KEEPS_GAP) {
            self.guarded_from = self.guarded_from.min(start);
        }
    }
}
