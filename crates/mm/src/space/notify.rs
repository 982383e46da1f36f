//! Notifications of the owner of the pages: with the current attributes of VMAs, and only of what
//! was mapped.

use alloc::vec::Vec;

use crate::errno::Errno;
use crate::flags::PAGE_SIZE;
use crate::pages::{PageAdvice, Pages, PrepareOp};
use crate::space::AddressSpace;
use crate::space::areas::{Areas, Overlap};
use crate::space::journal::Notification;

/// The ranges within a range that are mapped, each without a hole. They are collected before they
/// are unmapped, and notified afterwards.
#[derive(Debug, Default)]
pub(crate) struct MappedRanges {
    first: Option<(u64, u64)>,
    more: Vec<(u64, u64)>,
}

impl MappedRanges {
    /// Returns those of `[start, end)`, in which `over` was found. Empty for an owner that wants no
    /// notifications.
    ///
    /// # Errors
    /// `ENOMEM`.
    #[inline(always)]
    pub(crate) fn of<P: Pages + ?Sized>(
        pages: &P,
        areas: &Areas,
        (start, end): (u64, u64),
        over: &Overlap,
    ) -> Result<Self, Errno> {
        if over.areas == 0 || !pages.listens() {
            return Ok(Self::default());
        }
        if over.pages.total() == (end - start) >> 12 {
            return Ok(MappedRanges {
                first: Some((start, end)),
                more: Vec::new(),
            });
        }
        Self::with_holes(areas, start, end)
    }

    fn with_holes(areas: &Areas, start: u64, end: u64) -> Result<Self, Errno> {
        let mut all = Self::default();
        let mut last: Option<(u64, u64)> = None;
        let mut next = start;
        while let Some(area) = areas.find_in(next, end) {
            let (from, to) = (area.start.max(start), area.end.min(end));
            next = area.end;
            last = match last {
                Some((first, upto)) if upto == from => Some((first, to)),
                Some(stretch) => {
                    all.push(stretch)?;
                    Some((from, to))
                }
                None => Some((from, to)),
            };
        }
        if let Some(stretch) = last {
            all.push(stretch)?;
        }
        Ok(all)
    }

    fn push(&mut self, stretch: (u64, u64)) -> Result<(), Errno> {
        if self.first.is_none() {
            self.first = Some(stretch);
            return Ok(());
        }
        self.more.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        self.more.push(stretch);
        Ok(())
    }

    fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.first.into_iter().chain(self.more.iter().copied())
    }
}

impl AddressSpace {
    /// Has the owner prepare an operation before the map changes.
    #[inline(always)]
    pub(crate) fn prepare<P: Pages + ?Sized>(
        &mut self,
        pages: &mut P,
        op: PrepareOp,
    ) -> Result<(), Errno> {
        if pages.listens() {
            // Locks are closed first: a fault must not merge again what the owner divides now.
            match op {
                PrepareOp::Unmap { start, end } | PrepareOp::Protect { start, end } => {
                    self.areas.close_locks(start, end);
                }
                PrepareOp::Move { from, len, .. } => self.areas.close_locks(from, from + len),
                PrepareOp::Split { at } => self.areas.close_locks(at, at + PAGE_SIZE),
                PrepareOp::Map { .. } => {}
            }
            let answer = pages.prepare(op);
            return self.answered(pages, answer);
        }
        Ok(())
    }

    /// Notifies that `[start, end)`, which lies in one VMA, is mapped.
    #[inline(always)]
    pub(crate) fn notify_map<P: Pages + ?Sized>(
        &mut self,
        pages: &mut P,
        start: u64,
        end: u64,
    ) -> Result<(), Errno> {
        if !pages.listens() || !pages.listens_to_maps() && !pages.refuses() {
            return Ok(());
        }
        self.notify(
            pages,
            Notification::Map { start, end },
            |space, pages| match space.areas.at(start) {
                Some(area) => pages.map(start, end, area.vma),
                None => Ok(()),
            },
        )
    }

    /// Notifies that the ranges in `gone`, which are everything that was mapped in `[start, end)`,
    /// are unmapped.
    #[inline(always)]
    pub(crate) fn notify_unmap<P: Pages + ?Sized>(
        &mut self,
        pages: &mut P,
        (start, end): (u64, u64),
        gone: &MappedRanges,
    ) -> Result<(), Errno> {
        if pages.listens() && gone.first.is_some() {
            for (start, end) in gone.iter() {
                self.notify(pages, Notification::Unmap { start, end }, |_, pages| {
                    pages.unmap(start, end)
                })?;
            }
            // The range as it was prepared: no address below the base of a confined range.
            let start = start.max(self.config.task_base);
            let answer = pages.vacate(start, end);
            self.answered(pages, answer)?;
            if pages.asks_what_is_left() {
                self.notify_neighbours(pages, start, end);
            }
        }
        Ok(())
    }

    /// Notifies of the neighbours of `[start, end)`. Another VMA may already be in the range.
    #[cold]
    fn notify_neighbours<P: Pages + ?Sized>(&self, pages: &mut P, start: u64, end: u64) {
        let below = self
            .areas
            .before(start)
            .map_or(0, |area| area.end.min(start));
        let above = self
            .areas
            .find(end)
            .map_or(u64::MAX, |area| area.start.max(end));
        pages.left_around(start, end, below, above);
    }

    /// Notifies that `[start, end)`, which lies in one VMA, has another protection.
    #[inline(always)]
    pub(crate) fn notify_protect<P: Pages + ?Sized>(
        &mut self,
        pages: &mut P,
        start: u64,
        end: u64,
    ) -> Result<(), Errno> {
        if !pages.listens() {
            return Ok(());
        }
        self.notify(
            pages,
            Notification::Protect { start, end },
            |space, pages| match space.areas.at(start) {
                Some(area) => pages.protect(start, end, area.vma),
                None => Ok(()),
            },
        )
    }

    /// Notifies that the `len` bytes at `from` are at `to` now.
    #[inline(always)]
    pub(crate) fn notify_relocate<P: Pages + ?Sized>(
        &mut self,
        pages: &mut P,
        from: u64,
        to: u64,
        len: u64,
    ) -> Result<(), Errno> {
        if !pages.listens() {
            return Ok(());
        }
        self.notify(
            pages,
            Notification::Relocate { from, to, len },
            |_, pages| pages.relocate(from, to, len),
        )?;
        if pages.asks_what_is_left() {
            match self.areas.at(from) {
                Some(_) => pages.left_around(from, from + len, from, from),
                None => self.notify_neighbours(pages, from, from + len),
            }
        }
        Ok(())
    }

    /// Notifies of advice for the pages of `[start, end)`, which lies in one VMA.
    #[inline(always)]
    pub(crate) fn notify_advice<P: Pages + ?Sized>(
        &mut self,
        pages: &mut P,
        start: u64,
        end: u64,
        advice: PageAdvice,
    ) -> Result<(), Errno> {
        if !pages.listens() {
            return Ok(());
        }
        if matches!(advice, PageAdvice::Collapse | PageAdvice::PageOut) {
            // No fault may map a page that is being copied, or access one that is being written to
            // swap.
            self.areas.close_locks(start, end);
        }
        if let Some(area) = self.areas.at(start) {
            let answer = pages.advise(start, end, area.vma, advice);
            return self.answered(pages, answer);
        }
        Ok(())
    }

    /// Has the owner fault in the pages of `[start, end)`, which lies in one VMA.
    #[inline(always)]
    pub(crate) fn notify_populate<P: Pages + ?Sized>(
        &mut self,
        pages: &mut P,
        start: u64,
        end: u64,
        write: bool,
    ) -> Result<(), Errno> {
        if pages.listens()
            && let Some(area) = self.areas.at(start)
        {
            pages.populate(start, end, &area, write)?;
        }
        Ok(())
    }
}
