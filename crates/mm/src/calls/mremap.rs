//! `mremap(2)`.

use crate::abi;
use crate::calls::uffd::unwatch;
use crate::errno::Errno;
use crate::file::FileKind;
use crate::flags::{PAGE_SIZE, VmFlags, page_align};
use crate::kernel::Rule;
use crate::pages::{Coming, Pages};
use crate::space::AddressSpace;
use crate::space::areas::{Beside, Span};
use crate::space::merge::Union;
use crate::space::place::Huge;
use crate::space::vma::{Area, Backing, Vma};
use crate::space::vma_box::VmaBox;

/// A move may need this many areas more for a moment.
const SPARE_AREAS: usize = 3;

/// A validated request, lengths in whole pages.
#[derive(Debug, Clone, Copy)]
struct Request {
    old: u64,
    old_len: u64,
    new_len: u64,
    flags: u64,
    new: u64,
}

impl Request {
    fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }
}

impl AddressSpace {
    #[allow(clippy::too_many_arguments, reason = "the system call has five")]
    pub(crate) fn do_mremap<P: Pages + ?Sized>(
        &mut self,
        old: u64,
        old_len: u64,
        new_len: u64,
        flags: u64,
        new: u64,
        forced: Option<u64>,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        let request = self.mremap_request(old, old_len, new_len, flags, new)?;
        if !request.has(abi::MREMAP_FIXED) {
            return self.mremap_one(&request, forced, pages);
        }
        self.unless_memory_runs_out(pages, |space, pages| {
            if request.old_len == request.new_len
                && space.config.kernel.has(Rule::MremapMovesSeveral)
            {
                space.move_several(&request, pages)
            } else {
                space.mremap_one(&request, forced, pages)
            }
        })
    }

    /// Where a move would go, if the call moves anything.
    pub(crate) fn mremap_target(
        &self,
        old: u64,
        old_len: u64,
        new_len: u64,
        flags: u64,
        new: u64,
    ) -> Option<u64> {
        let request = self
            .mremap_request(old, old_len, new_len, flags, new)
            .ok()?;
        if request.has(abi::MREMAP_FIXED) {
            return Some(new);
        }
        if !request.has(abi::MREMAP_DONTUNMAP)
            && (request.old_len >= request.new_len || !request.has(abi::MREMAP_MAYMOVE))
        {
            return None;
        }
        let area = self.areas.at(old)?;
        self.move_place(&request, &area).ok()
    }

    fn mremap_request(
        &self,
        old: u64,
        old_len: u64,
        new_len: u64,
        flags: u64,
        new: u64,
    ) -> Result<Request, Errno> {
        let request = Request {
            old,
            old_len: page_align(old_len),
            new_len: page_align(new_len),
            flags,
            new,
        };
        let task_size = self.config.task_size;
        let checks_first = self.config.kernel.has(Rule::MremapChecksFirst);
        if flags & !(abi::MREMAP_MAYMOVE | abi::MREMAP_FIXED | abi::MREMAP_DONTUNMAP) != 0
            || !old.is_multiple_of(PAGE_SIZE)
            || request.new_len == 0
            || checks_first && request.new_len > task_size
        {
            return Err(Errno::EINVAL);
        }
        let fixed = request.has(abi::MREMAP_FIXED | abi::MREMAP_DONTUNMAP);
        let same_len = if checks_first {
            request.old_len == request.new_len
        } else {
            old_len == new_len
        };
        let odd = fixed && !request.has(abi::MREMAP_MAYMOVE)
            || request.has(abi::MREMAP_DONTUNMAP) && !same_len;
        if odd {
            return Err(Errno::EINVAL);
        }
        if !checks_first {
            let area = self.areas.at(old).ok_or(Errno::EFAULT)?;
            if area.vma.flags.contains(VmFlags::SEALED) {
                return Err(Errno::EPERM);
            }
        }
        if !fixed {
            return Ok(request);
        }
        if request.new_len > task_size
            || request.new > task_size - request.new_len
            || !new.is_multiple_of(PAGE_SIZE)
        {
            return Err(Errno::EINVAL);
        }
        let overlap = old.wrapping_add(request.old_len) > new && new + request.new_len > old;
        if overlap {
            return Err(Errno::EINVAL);
        }
        if self.areas.count() + 2
            >= (self.config.max_map_count as usize).saturating_sub(SPARE_AREAS)
        {
            return Err(Errno::ENOMEM);
        }
        Ok(request)
    }

    /// One area: shrink, grow in place, or move.
    fn mremap_one<P: Pages + ?Sized>(
        &mut self,
        request: &Request,
        forced: Option<u64>,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        let &Request {
            old,
            old_len,
            new_len,
            new,
            ..
        } = request;
        let area = self.areas.at(old).ok_or(Errno::EFAULT)?;
        let checks_first = self.config.kernel.has(Rule::MremapChecksFirst);
        if checks_first || !request.has(abi::MREMAP_FIXED) {
            self.check_source(request, &area)?;
        }
        if request.has(abi::MREMAP_FIXED) {
            // All that needs memory first: what is at the destination does not come back.
            let (end, kept) = (new + new_len, old_len.min(new_len));
            self.prepare(pages, Coming::Unmap { start: new, end })?;
            // What reaches beyond the end of addresses is refused below, when the destination has gone.
            let end = old.checked_add(old_len);
            if let Some(end) = end.filter(|&end| end <= self.config.task_size) {
                if old_len > new_len {
                    let start = old + new_len;
                    self.prepare(pages, Coming::Unmap { start, end })?;
                }
                if kept > 0 {
                    let (from, to, len) = (old, new, kept);
                    self.prepare(pages, Coming::Move { from, to, len })?;
                }
            }
            // The destination goes first, whatever comes of the move, but for want of memory.
            self.munmap_prepared(new, new_len, pages)?;
            self.areas.at(old).ok_or(Errno::EFAULT)?;
            if old_len > new_len {
                self.munmap_prepared(old + new_len, old_len - new_len, pages)?;
            }
            let kept = Request {
                old_len: old_len.min(new_len),
                ..*request
            };
            if !checks_first {
                let area = self.areas.at(old).ok_or(Errno::EFAULT)?;
                let checked = self.check_source(&kept, &area);
                checked.map_err(|errno| self.limited(errno))?;
            }
            self.charge_copy(&kept)?;
            let to = self.place(new, new_len, abi::MAP_FIXED, Huge::No);
            let to = to.map_err(|errno| self.limited(errno))?;
            return self.relocate(&kept, to, pages);
        }
        if request.has(abi::MREMAP_DONTUNMAP) {
            let place = self.move_place(request, &area);
            self.charge_copy(request)?;
            let place = place?;
            return self.relocate(request, forced.unwrap_or(place), pages);
        }
        if old_len >= new_len {
            if old_len > new_len {
                self.do_munmap(old + new_len, old_len - new_len, pages)?;
            }
            return Ok(old);
        }
        if self.can_grow(&area, old, old_len, new_len) {
            return self.grow_area(old, old_len, new_len, pages);
        }
        if !request.has(abi::MREMAP_MAYMOVE) {
            return Err(Errno::ENOMEM);
        }
        let place = self.move_place(request, &area)?;
        self.relocate(request, forced.unwrap_or(place), pages)
    }

    fn check_source(&self, request: &Request, area: &Area<'_>) -> Result<(), Errno> {
        let &Request {
            old,
            old_len,
            new_len,
            ..
        } = request;
        let flags = area.vma.flags;
        if flags.contains(VmFlags::SEALED) {
            return Err(Errno::EPERM);
        }
        if old_len == 0 && !flags.intersects(VmFlags::SHARED | VmFlags::MAYSHARE) {
            return Err(Errno::EINVAL);
        }
        if request.has(abi::MREMAP_DONTUNMAP)
            && flags.intersects(VmFlags::DONTEXPAND | VmFlags::PFNMAP)
        {
            return Err(Errno::EINVAL);
        }
        if old_len.min(new_len) > area.end - old
            && (old_len < new_len || request.has(abi::MREMAP_FIXED | abi::MREMAP_DONTUNMAP))
        {
            return Err(Errno::EFAULT);
        }
        if old_len >= new_len {
            return Ok(());
        }
        if area
            .vma
            .page_offset(old)
            .checked_add(new_len >> 12)
            .is_none()
        {
            return Err(Errno::EINVAL);
        }
        if flags.intersects(VmFlags::DONTEXPAND | VmFlags::PFNMAP) {
            return Err(Errno::EFAULT);
        }
        let more = new_len - old_len;
        if !self.may_lock_new(flags, more) {
            return Err(Errno::EAGAIN);
        }
        if !self.may_expand(flags, more >> 12) {
            return Err(Errno::ENOMEM);
        }
        Ok(())
    }

    /// A copy that leaves its source in place needs room of its own.
    fn charge_copy(&mut self, request: &Request) -> Result<(), Errno> {
        let area = self.areas.at(request.old).ok_or(Errno::EFAULT)?;
        if request.has(abi::MREMAP_DONTUNMAP)
            && !self.may_expand(area.vma.flags, request.old_len >> 12)
        {
            return Err(self.limited(Errno::ENOMEM));
        }
        Ok(())
    }

    /// Where the kernel would move the area to.
    fn move_place(&self, request: &Request, area: &Area<'_>) -> Result<u64, Errno> {
        let offset = area.vma.page_offset(request.old) << 12;
        let huge = match &area.vma.backing {
            Backing::File(file)
                if file.kind.aligns_huge()
                    || area.vma.is_anonymous() && self.config.kernel.has(Rule::ZeroIsAligned) =>
            {
                Huge::File(offset)
            }
            Backing::File(file) if file.kind == FileKind::Shmem && self.config.shmem_huge => {
                Huge::File(offset)
            }
            Backing::SharedAnonymous(_) | Backing::Shm { .. } if self.config.shmem_huge => {
                Huge::File(offset)
            }
            Backing::Anonymous => Huge::Anonymous,
            _ => Huge::No,
        };
        self.place(request.new_hint(), request.new_len, 0, huge)
    }

    /// The area ends where the old range does, and there is room above.
    fn can_grow(&self, area: &Area<'_>, old: u64, old_len: u64, new_len: u64) -> bool {
        if old_len != area.end - old {
            return false;
        }
        let Some(end) = old.checked_add(new_len) else {
            return false;
        };
        end <= self.config.task_size && self.areas.find_in(area.end, end).is_none()
    }

    fn grow_area<P: Pages + ?Sized>(
        &mut self,
        old: u64,
        old_len: u64,
        new_len: u64,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        let (from, to) = (old + old_len, old + new_len);
        let area = self.areas.at(old).ok_or(Errno::EFAULT)?;
        let flags = area.vma.flags;
        if flags.contains(VmFlags::ACCOUNT) && !self.may_commit((to - from) >> 12) {
            return Err(Errno::ENOMEM);
        }
        self.prepare(
            pages,
            Coming::Map {
                start: from,
                end: to,
            },
        )?;
        self.extend(from, to)?;
        self.tell_map(pages, from, to)?;
        if flags.contains(VmFlags::LOCKED) {
            let _ = self.populate(from, to, pages);
        }
        Ok(old)
    }

    /// Maps the old range's object at `to` and, unless it is to stay, removes the old range.
    fn relocate<P: Pages + ?Sized>(
        &mut self,
        request: &Request,
        to: u64,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        let &Request {
            old,
            old_len,
            new_len,
            ..
        } = request;
        if self.areas.count() >= (self.config.max_map_count as usize).saturating_sub(SPARE_AREAS) {
            return Err(self.limited(Errno::ENOMEM));
        }
        let area = self.areas.at(old).ok_or(Errno::EFAULT)?;
        let (start, end, flags) = (area.start, area.end, area.vma.flags);
        if area.vma.is_whole() && (start, end) != (old, old + old_len) {
            return Err(Errno::EINVAL);
        }
        if flags.contains(VmFlags::ACCOUNT) {
            let charged = if request.has(abi::MREMAP_DONTUNMAP) {
                new_len
            } else {
                new_len.saturating_sub(old_len)
            };
            if !self.may_commit(charged >> 12) {
                return Err(self.limited(Errno::ENOMEM));
            }
        }
        let area = self.areas.at(old).ok_or(Errno::EFAULT)?;
        let mut copy = area.vma.try_clone()?;
        copy.shift = moved_shift(&copy, old, to);
        // What stands in for the source when it stays and is unlocked: allocated while this can still fail.
        let unlocked = if request.has(abi::MREMAP_DONTUNMAP) && flags.contains(VmFlags::LOCKED) {
            Some(VmaBox::try_new(area.vma.try_clone()?)?)
        } else {
            None
        };
        if old_len > 0 && !request.has(abi::MREMAP_FIXED) {
            let len = old_len;
            self.prepare(pages, Coming::Move { from: old, to, len })?;
        }
        if new_len > old_len {
            let (start, end) = (to + old_len, to + new_len);
            self.prepare(pages, Coming::Map { start, end })?;
        }
        let stays = request.has(abi::MREMAP_DONTUNMAP);
        let apart = stays && self.config.kernel.has(Rule::CopyStaysApart);
        let cut = apart && unlocked.is_some();
        let source = match cut {
            true => (old, old + old_len),
            false => (start, end),
        };
        let whole = source == (old, old + old_len);
        self.all_or_nothing(|space| {
            if cut {
                space.cut_for_unmap(old)?;
                space.cut_for_unmap(old + old_len)?;
            }
            let mut span = Span::new(to, to + new_len);
            let mut beside = space.areas.look(&mut span);
            if apart {
                beside = without(source, to > old, beside);
            }
            let union = Union::new(&span, &beside, &copy, space.config.kernel);
            let watched = copy.uffd.is_some();
            space.lay(&span, union, copy)?;
            if watched {
                space.unwatch_moved(to)?;
            }
            space.empty_source(request, to, whole, unlocked)
        })?;
        if old_len > 0 {
            self.tell_relocate(pages, old, to, old_len)?;
        }
        if request.has(abi::MREMAP_DONTUNMAP) {
            self.tell_map(pages, old, old + old_len)?;
        }
        if new_len > old_len {
            self.tell_map(pages, to + old_len, to + new_len)?;
        }
        if flags.contains(VmFlags::LOCKED) && new_len > old_len {
            let _ = self.populate(to + old_len, to + new_len, pages);
        }
        Ok(to)
    }

    /// What is moved is no longer watched by a userfaultfd; nor is, then, the neighbour that it has joined. It joins no other for that.
    fn unwatch_moved(&mut self, to: u64) -> Result<(), Errno> {
        let Some(area) = self.areas.at(to) else {
            return Ok(());
        };
        let start = area.start;
        let mut vma = VmaBox::try_new(area.vma.try_clone()?)?;
        unwatch(&mut vma);
        self.areas.replace(start, vma)
    }

    /// What has been mapped at `to` leaves its old place, with its guards.
    fn empty_source(
        &mut self,
        request: &Request,
        to: u64,
        whole: bool,
        unlocked: Option<VmaBox>,
    ) -> Result<(), Errno> {
        let &Request { old, old_len, .. } = request;
        if old_len == 0 {
            return Ok(());
        }
        if self.guards.first_in(old, old + old_len).is_some() {
            self.guards_mut()?.shift(old, old_len, to)?;
        }
        if request.has(abi::MREMAP_DONTUNMAP) {
            return self.strip_source(old, whole, unlocked);
        }
        let mut gone = Span::new(old, old + old_len);
        self.areas.overlap(&mut gone);
        self.areas.clear(&gone)
    }

    /// The source of `MREMAP_DONTUNMAP` stays, but unlocked, as the copy `unlocked` of a locked one; if the
    /// `whole` of it was moved, its pages and their owner are gone.
    ///
    /// # Errors
    /// None that can come up: all that it needs is there.
    fn strip_source(
        &mut self,
        old: u64,
        whole: bool,
        unlocked: Option<VmaBox>,
    ) -> Result<(), Errno> {
        if whole {
            self.areas.note(old, old + 1)?;
            self.areas.set_owner(old, None);
        }
        let Some(area) = self.areas.at(old) else {
            return Ok(());
        };
        if let Some(mut unlocked) = unlocked {
            if !self.config.kernel.has(Rule::CopyStaysApart) {
                self.locked_leak += area.len() >> 12;
            }
            unlocked.flags = area.vma.flags - VmFlags::LOCKED_MASK;
            unlocked.anon.set(area.vma.anon());
            self.areas.replace(old, unlocked)?;
        }
        Ok(())
    }

    /// A move to a fixed place without a change of length may take several areas, and the holes between them.
    fn move_several<P: Pages + ?Sized>(
        &mut self,
        request: &Request,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        let end = request.old.wrapping_add(request.old_len);
        let first = self.areas.at(request.old).ok_or(Errno::EFAULT)?;
        if first.end >= end {
            return self.mremap_one(request, None, pages);
        }
        let mut next = request.old;
        while let Some(area) = self.areas.find_in(next, end) {
            let from = area.start.max(next);
            let to = area.end.min(end);
            if !may_move_with_others(area.vma) {
                return Err(Errno::EFAULT);
            }
            let part = Request {
                old: from,
                old_len: to - from,
                new_len: to - from,
                new: request.new + (from - request.old),
                ..*request
            };
            self.mremap_one(&part, None, pages)?;
            next = to;
        }
        Ok(request.new)
    }
}

impl Request {
    /// The address that the caller would like for a move that is not fixed.
    fn new_hint(&self) -> u64 {
        if self.has(abi::MREMAP_DONTUNMAP) {
            self.new
        } else {
            0
        }
    }
}

/// The neighbours of a copy without the area `source` that it is of, which lies below it or above.
fn without(source: (u64, u64), below: bool, beside: Beside<'_>) -> Beside<'_> {
    let Beside { lower, upper, .. } = beside;
    Beside {
        lower: lower.filter(|lower| !below || lower.start != source.0),
        upper: upper.filter(|upper| below || upper.end != source.1),
        ..beside
    }
}

/// The page offset goes with pages that exist; an untouched anonymous area is numbered anew.
fn moved_shift(vma: &Vma, from: u64, to: u64) -> u64 {
    if vma.is_anonymous() && vma.anon().is_none() {
        0
    } else {
        vma.shift.wrapping_add(from >> 12).wrapping_sub(to >> 12)
    }
}

/// Devices and attached segments choose the place of their mappings themselves, and move alone; so does what a userfaultfd watches.
fn may_move_with_others(vma: &Vma) -> bool {
    if vma.flags.intersects(VmFlags::UFFD) {
        return false;
    }
    match &vma.backing {
        Backing::File(file) => !matches!(file.kind, FileKind::DevZero | FileKind::Device),
        Backing::Shm { .. } => false,
        _ => true,
    }
}
