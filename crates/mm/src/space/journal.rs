//! The journal: what a call has changed, so that it can be undone. For owners of the pages that may
//! refuse a call, and for calls of several changes that must have changed nothing when memory runs
//! out.
//!
//! A journal is kept only while such a call runs. Before the tree changes, the VMAs that the change
//! concerns are copied whole, and enough nodes to restore them are preallocated. That may fail, and
//! then the change fails. Notifications of the owner are recorded, too. So undoing needs no memory:
//! the copies go back into the tree, last change first, the numbers and the markers are replaced by
//! the former ones, and the owner is notified of the reverse.
//!
//! Markers of guards and poison are copied as a whole, before the first change of any.

use alloc::vec::{Drain, Vec};

use maple_tree::alloc::Spare;

use crate::config::Layout;
use crate::errno::Errno;
use crate::flags::VmFlags;
use crate::heap::boxed::try_box;
use crate::pages::Pages;
use crate::space::areas::Figures;
use crate::space::guards::Guards;
use crate::space::{AddressSpace, Counters};
use crate::vma::vma_box::VmaBox;
use crate::vma::{Area, Vma};

/// The changes of a call so far.
pub(crate) struct Journal {
    /// The numbers before the call. Here, because the stack is small.
    before: Numbers,
    changes: Vec<Change>,
    /// The VMAs that the changes replaced, upwards for each change.
    areas: Vec<Copied>,
    /// The markers, if they have changed.
    guards: Option<Guards>,
    notified: Vec<Notification>,
    /// The call must be undone.
    refused: bool,
    /// The call fails as in Linux, which keeps the effects so far.
    keeps_effects: bool,
    /// The number of writes that restoring takes.
    pub(crate) writes: usize,
    /// Preallocated nodes for these writes.
    pub(crate) nodes: Spare,
}

/// A former VMA: start, end, attributes.
pub(crate) type Copied = (u64, u64, VmaBox);

/// A range whose ends are boundaries of VMAs or free, before and after the change. The last `areas`
/// copies were in it, once those of later changes have been removed.
pub(crate) struct Change {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) areas: usize,
}

/// A notification that the owner of the pages has got.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Notification {
    Map { start: u64, end: u64 },
    Unmap { start: u64, end: u64 },
    Protect { start: u64, end: u64 },
    Relocate { from: u64, to: u64, len: u64 },
}

/// The state of an address space apart from VMAs and markers.
#[derive(Clone, Copy)]
struct Numbers {
    figures: Figures,
    layout: Layout,
    future_locked: VmFlags,
    pkeys: u16,
    execute_only: u8,
    next_anon: u64,
    locked_leak: u64,
    counters: Counters,
}

impl Journal {
    fn new(before: Numbers) -> Self {
        Journal {
            before,
            changes: Vec::new(),
            areas: Vec::new(),
            guards: None,
            notified: Vec::new(),
            refused: false,
            keeps_effects: false,
            writes: 0,
            nodes: Spare::new(),
        }
    }

    /// Begins to record a change of a range.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn begin(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        self.changes.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        self.changes.push(Change {
            start,
            end,
            areas: 0,
        });
        self.writes += 1;
        Ok(())
    }

    /// Copies a VMA that the last begun change concerns.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn copy(&mut self, area: &Area<'_>) -> Result<(), Errno> {
        let vma = VmaBox::try_copy(area.vma)?;
        self.areas.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        self.areas.push((area.start, area.end, vma));
        // The VMA, and the hole before it.
        self.writes += 2;
        if let Some(change) = self.changes.last_mut() {
            change.areas += 1;
            change.start = change.start.min(area.start);
            change.end = change.end.max(area.end);
        }
        Ok(())
    }

    /// Removes the last change, and returns it with its copies.
    pub(crate) fn pop(&mut self) -> Option<(Change, Drain<'_, Copied>)> {
        let change = self.changes.pop()?;
        let first = self.areas.len().saturating_sub(change.areas);
        Some((change, self.areas.drain(first..)))
    }
}

/// A call under way for an owner that may refuse. If the owner panics, dropping this undoes the
/// call while the thread unwinds.
struct Refusable<'a, P: Pages + ?Sized> {
    space: &'a mut AddressSpace,
    pages: &'a mut P,
    returned: bool,
}

impl<P: Pages + ?Sized> Drop for Refusable<'_, P> {
    fn drop(&mut self) {
        if !self.returned
            && let Some(mut journal) = self.space.areas.end_journal()
        {
            self.space.roll_back(&mut journal);
            // If the owner panicked again, the program would abort.
            quietly(|| self.pages.undoing());
            for notification in journal.notified.iter().rev() {
                quietly(|| self.space.notify_reverse(*notification, self.pages));
            }
        }
    }
}

/// Notifies an owner. Drops its panic, where panics can be caught.
fn quietly(notify: impl FnOnce()) {
    #[cfg(feature = "hosted")]
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(notify));
    #[cfg(not(feature = "hosted"))]
    notify();
}

impl AddressSpace {
    /// Runs a call for an owner that may refuse: all of it or nothing takes effect.
    #[inline(never)]
    pub(crate) fn refusable<P: Pages + ?Sized>(
        &mut self,
        pages: &mut P,
        run: impl FnOnce(&mut Self, &mut P) -> Result<u64, Errno>,
    ) -> Result<u64, Errno> {
        self.start_journal()?;
        let mut call = Refusable {
            space: self,
            pages,
            returned: false,
        };
        let result = run(call.space, call.pages);
        call.returned = true;
        let (space, pages) = (&mut *call.space, &mut *call.pages);
        let Some(mut journal) = space.areas.end_journal() else {
            return result;
        };
        if journal.refused {
            space.undo(&mut journal, pages);
        }
        result
    }

    /// Starts a journal. Never inlined, so that the journal takes no stack of the call.
    ///
    /// # Errors
    /// `ENOMEM`.
    #[inline(never)]
    fn start_journal(&mut self) -> Result<(), Errno> {
        let journal = try_box(Journal::new(self.numbers()))?;
        self.areas.start_journal(journal);
        Ok(())
    }

    /// Undoes a call that was refused, and notifies the owner of the reverse.
    #[cold]
    #[inline(never)]
    fn undo<P: Pages + ?Sized>(&mut self, journal: &mut Journal, pages: &mut P) {
        self.roll_back(journal);
        pages.undoing();
        for notification in journal.notified.iter().rev() {
            self.notify_reverse(*notification, pages);
        }
    }

    /// Runs a part of a call that has changed nothing if memory runs out, for owners that can be
    /// notified of the reverse or are not notified at all. Other owners keep what they were
    /// notified of. Limits are not meant: see [`keep_effects`](Self::keep_effects).
    pub(crate) fn undo_if_out_of_memory<P: Pages + ?Sized>(
        &mut self,
        pages: &mut P,
        run: impl FnOnce(&mut Self, &mut P) -> Result<u64, Errno>,
    ) -> Result<u64, Errno> {
        if pages.listens() && !pages.refuses() {
            return run(self, pages);
        }
        let run = |space: &mut Self, pages: &mut P| {
            let result = run(space, pages);
            if let Some(journal) = space.areas.journal() {
                journal.refused |= result == Err(Errno::ENOMEM) && !journal.keeps_effects;
            }
            result
        };
        if self.areas.journal().is_some() {
            return run(self, pages);
        }
        self.refusable(pages, run)
    }

    /// Returns `true` if the call must be undone.
    pub(crate) fn is_refused(&mut self) -> bool {
        self.areas.journal().is_some_and(|journal| journal.refused)
    }

    /// Returns an error that Linux gives, too, at a limit for example: the effects of the call so
    /// far stay.
    pub(crate) fn keep_effects(&mut self, errno: Errno) -> Errno {
        if let Some(journal) = self.areas.journal() {
            journal.keeps_effects = true;
        }
        errno
    }

    /// Runs several changes of the map before the owner is notified. If one fails, none has an
    /// effect.
    ///
    /// # Errors
    /// Those of `change`; `ENOMEM`.
    pub(crate) fn all_or_nothing(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        if self.areas.journal().is_some() {
            let result = change(self);
            if let Some(journal) = self.areas.journal() {
                journal.refused |= result.is_err();
            }
            return result;
        }
        self.start_journal()?;
        let result = change(self);
        if let Some(mut journal) = self.areas.end_journal()
            && result.is_err()
        {
            self.roll_back(&mut journal);
        }
        result
    }

    fn numbers(&self) -> Numbers {
        Numbers {
            figures: self.areas.figures(),
            layout: self.layout,
            future_locked: self.future_locked,
            pkeys: self.pkeys,
            execute_only: self.execute_only,
            next_anon: self.next_anon,
            locked_leak: self.locked_leak,
            counters: self.counters,
        }
    }

    #[cold]
    #[inline(never)]
    fn roll_back(&mut self, journal: &mut Journal) {
        let before = journal.before;
        if let Some(mut guards) = journal.guards.take() {
            let before = guards.huge.take();
            let huge = self.guards.huge.take();
            self.guards = guards;
            self.guards.huge = match (huge, before) {
                (Some(mut now), Some(before)) => {
                    now.roll_back(*before);
                    Some(now)
                }
                // Slots that did not exist before are empty again.
                (now, _) => now,
            };
        }
        self.areas.roll_back(journal, before.figures);
        self.layout = before.layout;
        self.future_locked = before.future_locked;
        self.pkeys = before.pkeys;
        self.execute_only = before.execute_only;
        self.next_anon = before.next_anon;
        self.locked_leak = before.locked_leak;
        self.counters = before.counters;
    }

    /// Notifies the owner of the reverse of a notification. The map is as it was before the call:
    /// no call notifies of an address twice in a way that an intermediate state would matter.
    fn notify_reverse<P: Pages + ?Sized>(&self, notification: Notification, pages: &mut P) {
        let _ = match notification {
            Notification::Map { start, end } => pages.unmap(start, end),
            Notification::Unmap { start, end } => {
                self.each_part(start, end, |from, to, vma| pages.map(from, to, vma))
            }
            Notification::Protect { start, end } => {
                self.each_part(start, end, |from, to, vma| pages.protect(from, to, vma))
            }
            Notification::Relocate { from, to, len } => pages.relocate(to, from, len),
        };
    }

    /// Calls `each` for the part of each VMA in a range.
    fn each_part(
        &self,
        start: u64,
        end: u64,
        mut each: impl FnMut(u64, u64, &Vma) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut next = start;
        while let Some(area) = self.areas.find_in(next, end) {
            let _ = each(area.start.max(start), area.end.min(end), area.vma);
            next = area.end;
        }
        Ok(())
    }

    /// Returns the markers, for a change. Records them in the journal first.
    ///
    /// # Errors
    /// `ENOMEM`, while a journal is kept.
    pub(crate) fn guards_mut(&mut self) -> Result<&mut Guards, Errno> {
        if let Some(journal) = self.areas.journal()
            && journal.guards.is_none()
        {
            journal.guards = Some(self.guards.try_clone()?);
        }
        Ok(&mut self.guards)
    }

    /// Prepares the removal of the markers of a range before its VMAs change, so that
    /// [`unguard`](Self::unguard) needs no memory. Returns `true` if that must be called
    /// afterwards. O(n) in all markers if there are some in the range.
    ///
    /// # Errors
    /// `ENOMEM`.
    #[inline(always)]
    pub(crate) fn prepare_unguard(&mut self, start: u64, end: u64) -> Result<bool, Errno> {
        if self.guards.is_empty() {
            return Ok(false);
        }
        self.prepare_unguard_marked(start, end)
    }

    #[cold]
    fn prepare_unguard_marked(&mut self, start: u64, end: u64) -> Result<bool, Errno> {
        let huge = self.guards.huge.as_ref();
        let huge = huge.is_some_and(|slots| !slots.is_empty_in(&(start..end)));
        let expected = huge || self.guards.first_in(start, end).is_some();
        if expected {
            self.guards_mut()?.prepare_removal(start, end)?;
        }
        Ok(expected)
    }

    /// Removes the markers and huge pages of a range whose VMAs have changed, as
    /// [prepared](Self::prepare_unguard).
    #[cold]
    pub(crate) fn unguard(&mut self, start: u64, end: u64) {
        self.guards.clear_huge(start, end);
        self.guards.remove_prepared();
    }

    /// Removes the poison in a range.
    ///
    /// # Errors
    /// `ENOMEM`.
    #[inline(always)]
    pub(crate) fn clear_poison(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        if self.guards.is_empty() || self.guards.first_poison(start, end).is_none() {
            return Ok(());
        }
        self.guards_mut()?.clear_poison(start, end)
    }

    /// Notifies the owner, and records the notification if the owner may refuse.
    #[inline(always)]
    pub(crate) fn notify<P: Pages + ?Sized>(
        &mut self,
        pages: &mut P,
        notification: Notification,
        notify: impl FnOnce(&Self, &mut P) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        if !pages.refuses() {
            return notify(self, pages);
        }
        // If there is no memory for the record, the call is treated as refused.
        let room = match self.areas.journal() {
            Some(journal) => journal.notified.try_reserve(1).map_err(|_| Errno::ENOMEM),
            None => Ok(()),
        };
        let answer = room.and_then(|()| notify(self, pages));
        if let Some(journal) = self.areas.journal() {
            match answer {
                Ok(()) => journal.notified.push(notification),
                Err(_) => journal.refused = true,
            }
        }
        answer
    }

    /// Records a refusal of what has no reverse, and returns the answer.
    #[inline(always)]
    pub(crate) fn answered<P: Pages + ?Sized>(
        &mut self,
        pages: &P,
        answer: Result<(), Errno>,
    ) -> Result<(), Errno> {
        if answer.is_err()
            && pages.refuses()
            && let Some(journal) = self.areas.journal()
        {
            journal.refused = true;
        }
        answer
    }
}
