//! What a call has changed, where all of it may have to be undone: for an owner of the pages that may refuse it, and for calls of several changes
//! that have changed nothing when memory runs out.
//!
//! A journal is kept while such a call runs, and only then. Before the tree changes, the areas that the change concerns are copied, whole, and nodes
//! enough to put them back are set aside; that may fail, and is then a failure of the change. What was told is noted, too. So undoing
//! takes no memory: the copies go back into the tree, last change first; the numbers and the marks are exchanged for those of before; and the owner
//! is told the reverse.
//!
//! Marks of guards and poison are copied as a whole, before the first change of any.

use alloc::vec::{Drain, Vec};

use maple_tree::alloc::Spare;

use crate::config::Layout;
use crate::errno::Errno;
use crate::flags::VmFlags;
use crate::heap::boxed::try_box;
use crate::pages::Pages;
use crate::space::areas::Figures;
use crate::space::guards::Guards;
use crate::space::vma::{Area, Vma};
use crate::space::vma_box::VmaBox;
use crate::space::{AddressSpace, Counters};

/// What a call has changed so far.
pub(crate) struct Journal {
    /// As it was before the call. Here, for the stack has little room.
    before: Numbers,
    changes: Vec<Change>,
    /// The areas that the changes found, upwards for each change.
    areas: Vec<Copied>,
    /// The marks, if they have been changed.
    guards: Option<Guards>,
    notified: Vec<Notification>,
    /// Everything is to be undone.
    refused: bool,
    /// The call fails as Linux's does, which leaves what was done before.
    keeps_effects: bool,
    /// Writes that it takes to put back what is here.
    pub(crate) writes: usize,
    /// Nodes for these.
    pub(crate) nodes: Spare,
}

/// An area as it was: from, to, what.
pub(crate) type Copied = (u64, u64, VmaBox);

/// A range whose ends were, and are, ends of areas or free: what was in it are the last `areas` copies, when those of later changes have gone.
pub(crate) struct Change {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) areas: usize,
}

/// What the owner of the pages has been told.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Notification {
    Map { start: u64, end: u64 },
    Unmap { start: u64, end: u64 },
    Protect { start: u64, end: u64 },
    Relocate { from: u64, to: u64, len: u64 },
}

/// What an address space has besides areas and marks.
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

    /// Begins a change of a range.
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

    /// Copies an area that the change concerns, which was begun last.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn copy(&mut self, area: &Area<'_>) -> Result<(), Errno> {
        let vma = VmaBox::try_copy(area.vma)?;
        self.areas.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        self.areas.push((area.start, area.end, vma));
        // The area, and what is free before it.
        self.writes += 2;
        if let Some(change) = self.changes.last_mut() {
            change.areas += 1;
            change.start = change.start.min(area.start);
            change.end = change.end.max(area.end);
        }
        Ok(())
    }

    /// Takes the last change out, with what it found.
    pub(crate) fn pop(&mut self) -> Option<(Change, Drain<'_, Copied>)> {
        let change = self.changes.pop()?;
        let first = self.areas.len().saturating_sub(change.areas);
        Some((change, self.areas.drain(first..)))
    }
}

/// A call under way for an owner that may refuse. If the owner panics, this undoes the call while the thread unwinds.
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
            // An owner that panics again would end the program.
            quietly(|| self.pages.undoing());
            for notification in journal.notified.iter().rev() {
                quietly(|| self.space.notify_reverse(*notification, self.pages));
            }
        }
    }
}

/// Tells an owner something of which a panic is dropped, where panics can be caught.
fn quietly(notify: impl FnOnce()) {
    #[cfg(feature = "hosted")]
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(notify));
    #[cfg(not(feature = "hosted"))]
    notify();
}

impl AddressSpace {
    /// Runs a call for an owner that may refuse: all or nothing of it.
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

    /// Begins to keep a journal. A call, so that what goes into it takes no stack from the call that it is of.
    ///
    /// # Errors
    /// `ENOMEM`.
    #[inline(never)]
    fn start_journal(&mut self) -> Result<(), Errno> {
        let journal = try_box(Journal::new(self.numbers()))?;
        self.areas.start_journal(journal);
        Ok(())
    }

    /// Undoes a call that was refused, and tells the owner the reverse.
    #[cold]
    #[inline(never)]
    fn undo<P: Pages + ?Sized>(&mut self, journal: &mut Journal, pages: &mut P) {
        self.roll_back(journal);
        pages.undoing();
        for notification in journal.notified.iter().rev() {
            self.notify_reverse(*notification, pages);
        }
    }

    /// Runs a part of a call that has changed nothing when memory runs out, for owners that can be told the reverse or need not be told anything. Others
    /// keep what they were told until then. Limits are not meant: see [`keep_effects`](Self::keep_effects).
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

    /// Whether all that the call has done is to be undone.
    pub(crate) fn is_refused(&mut self) -> bool {
        self.areas.journal().is_some_and(|journal| journal.refused)
    }

    /// An error that Linux gives, too (at a limit, say): what the call has done before stays.
    pub(crate) fn keep_effects(&mut self, errno: Errno) -> Errno {
        if let Some(journal) = self.areas.journal() {
            journal.keeps_effects = true;
        }
        errno
    }

    /// Several changes of the map, of which nobody has been told yet: a failure has changed nothing.
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
                // What was not there before is empty again.
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

    /// Tells the reverse of what was told. The map is as it was before: no call tells of an address twice in such a way that the state
    /// between would matter.
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

    /// The parts of areas in a range.
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

    /// The marks, for a change.
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

    /// Before the areas of a range change: what is left of the marks when those in the range have gone is set aside, so that [`unguard`](Self::unguard) needs no
    /// memory. Says whether that is to be called then. O(n) in all marks if there are some in the range.
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

    /// Removes the marks and the huge pages of a range whose areas have changed, as was [expected](Self::prepare_unguard).
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

    /// Tells, and notes what has been told where a refusal is to be undone.
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
        // No memory to note it is as good as a refusal.
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

    /// The answer of an owner to what needs no reverse.
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
