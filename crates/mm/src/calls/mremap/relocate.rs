//! The move itself: the old range's object at a new place, and what becomes of the old one.

use super::{Request, SPARE_AREAS};
use crate::abi;
use crate::calls::uffd::unregister;
use crate::errno::Errno;
use crate::flags::VmFlags;
use crate::kernel::Rule;
use crate::pages::{Pages, PrepareOp};
use crate::space::AddressSpace;
use crate::space::areas::{Neighbours, Span};
use crate::space::merge::Merge;
use crate::space::vma::{Backing, Vma};
use crate::space::vma_box::VmaBox;

impl AddressSpace {
    /// Maps the old range's object at `to` and, unless it is to stay, removes the old range.
    pub(super) fn relocate<P: Pages + ?Sized>(
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
            return Err(self.keep_effects(Errno::ENOMEM));
        }
        let area = self.areas.at(old).ok_or(Errno::EFAULT)?;
        let (start, end, flags) = (area.start, area.end, area.vma.flags);
        if area.vma.is_unsplittable() && (start, end) != (old, old + old_len) {
            return Err(Errno::EINVAL);
        }
        if flags.contains(VmFlags::ACCOUNT) {
            let charged = if request.has(abi::MREMAP_DONTUNMAP) {
                new_len
            } else {
                new_len.saturating_sub(old_len)
            };
            if !self.may_commit(charged >> 12) {
                return Err(self.keep_effects(Errno::ENOMEM));
            }
        }
        let area = self.areas.at(old).ok_or(Errno::EFAULT)?;
        let mut copy = VmaBox::try_copy(area.vma)?;
        copy.shift = moved_shift(&copy, old, to);
        let stays = request.has(abi::MREMAP_DONTUNMAP);
        let apart = stays && self.config.kernel.has(Rule::CopyStaysApart);
        let locked = flags.contains(VmFlags::LOCKED);
        let cut = apart && locked;
        let source = match cut {
            true => (old, old + old_len),
            false => (start, end),
        };
        let whole = source == (old, old + old_len);
        // Anonymous memory that has lost its pages is numbered as if it had never had any; a private mapping of `/dev/zero` keeps its offset in the file.
        let nameless = matches!(area.vma.backing, Backing::Anonymous);
        let anew = apart && whole && nameless && area.vma.anon().is_some();
        // What stands in for the source when it stays and is another: allocated while this can still fail.
        let emptied = match stays && locked || anew && area.vma.shift != 0 {
            true => {
                let mut emptied = VmaBox::try_copy(area.vma)?;
                emptied.shift = if anew { 0 } else { emptied.shift };
                Some(emptied)
            }
            false => None,
        };
        if old_len > 0 && !request.has(abi::MREMAP_FIXED) {
            let len = old_len;
            self.prepare(pages, PrepareOp::Move { from: old, to, len })?;
        }
        if new_len > old_len {
            let (start, end) = (to + old_len, to + new_len);
            self.prepare(pages, PrepareOp::Map { start, end })?;
        }
        self.all_or_nothing(|space| {
            if cut {
                space.split_for_unmap(old)?;
                space.split_for_unmap(old + old_len)?;
            }
            let watched = copy.uffd.is_some();
            let source = apart.then_some(source);
            space.insert_copy((old, to, new_len), source, copy)?;
            if flags.contains(VmFlags::HUGETLB) {
                space.shift_huge(old, old_len, start..end, to)?;
            }
            if watched {
                space.unregister_moved(to)?;
            }
            space.empty_source(request, to, whole, emptied)
        })?;
        if old_len > 0 {
            self.notify_relocate(pages, old, to, old_len)?;
        }
        if request.has(abi::MREMAP_DONTUNMAP) {
            self.notify_map(pages, old, old + old_len)?;
        }
        if new_len > old_len {
            self.notify_map(pages, to + old_len, to + new_len)?;
        }
        if flags.contains(VmFlags::LOCKED) && new_len > old_len {
            let _ = self.populate(to + old_len, to + new_len, pages);
        }
        Ok(to)
    }

    /// Lays what is moved from `old` over `to..to + len`, joined with its neighbours; if it has a source to stay apart from, not with that. A call, whose
    /// frame is given up before the source is emptied.
    #[inline(never)]
    fn insert_copy(
        &mut self,
        (old, to, len): (u64, u64, u64),
        source: Option<(u64, u64)>,
        copy: VmaBox,
    ) -> Result<(), Errno> {
        let mut span = Span::new(to, to + len);
        let neighbours = self.areas.neighbours(&mut span);
        let kernel = self.config.kernel;
        let merge = if let Some(source) = source {
            let (own, others) = split(source, to > old, neighbours);
            let alone = kernel.has(Rule::CopyBesideStaysAlone)
                && Merge::new(&span, &own, &copy, kernel).is_some();
            Merge::new(&span, &others, &copy, kernel).filter(|_| !alone)
        } else {
            Merge::new(&span, &neighbours, &copy, kernel)
        };
        match merge {
            Some(merge) => self.merge_into(&span, &merge, copy.flags),
            None => self.areas.insert(&span, copy),
        }
    }

    /// What is moved is no longer watched by a userfaultfd; nor is, then, the neighbour that it has joined. It joins no other for that.
    fn unregister_moved(&mut self, to: u64) -> Result<(), Errno> {
        let Some(area) = self.areas.at(to) else {
            return Ok(());
        };
        let start = area.start;
        let mut vma = VmaBox::try_copy(area.vma)?;
        unregister(&mut vma);
        self.areas.replace(start, vma)
    }

    /// What has been mapped at `to` leaves its old place, with its guards.
    #[inline(never)]
    fn empty_source(
        &mut self,
        request: &Request,
        to: u64,
        whole: bool,
        emptied: Option<VmaBox>,
    ) -> Result<(), Errno> {
        let &Request { old, old_len, .. } = request;
        if old_len == 0 {
            return Ok(());
        }
        if self.guards.first_in(old, old + old_len).is_some() {
            self.guards_mut()?.shift(old, old_len, to)?;
        }
        if request.has(abi::MREMAP_DONTUNMAP) {
            return self.strip_source(old, whole, emptied);
        }
        let mut gone = Span::new(old, old + old_len);
        self.areas.overlap(&mut gone);
        self.areas.clear(&gone)
    }

    /// The source of `MREMAP_DONTUNMAP` stays, but unlocked; if the `whole` of it was moved, its pages and their owner are gone. What it then is,
    /// `emptied` has, but for its flags and owner, if it is another than before.
    ///
    /// # Errors
    /// None that can come up: all that it needs is there.
    fn strip_source(
        &mut self,
        old: u64,
        whole: bool,
        emptied: Option<VmaBox>,
    ) -> Result<(), Errno> {
        if whole {
            self.areas.before_change(old, old + 1)?;
            self.areas.set_anon_vma(old, None);
        }
        let Some(area) = self.areas.at(old) else {
            return Ok(());
        };
        if let Some(mut emptied) = emptied {
            let locked = area.vma.flags.contains(VmFlags::LOCKED);
            if locked && !self.config.kernel.has(Rule::CopyStaysApart) {
                self.locked_leak += area.len() >> 12;
            }
            emptied.flags = area.vma.flags - VmFlags::LOCKED_MASK;
            emptied.anon.set(area.vma.anon());
            self.areas.replace(old, emptied)?;
        }
        Ok(())
    }
}

/// Returns of the neighbours of a copy the area `source` that it is of, which lies `below` it or above, and the others.
fn split(
    source: (u64, u64),
    below: bool,
    neighbours: Neighbours<'_>,
) -> (Neighbours<'_>, Neighbours<'_>) {
    let Neighbours { lower, upper, .. } = neighbours;
    let is_lower = below && lower.is_some_and(|lower| lower.start == source.0);
    let is_upper = !below && upper.is_some_and(|upper| upper.end == source.1);
    let own = Neighbours {
        lower: lower.filter(|_| is_lower),
        upper: upper.filter(|_| is_upper),
        ..neighbours
    };
    let others = Neighbours {
        lower: lower.filter(|_| !is_lower),
        upper: upper.filter(|_| !is_upper),
        ..neighbours
    };
    (own, others)
}

/// The page offset goes with pages that exist; an untouched anonymous area is numbered anew.
fn moved_shift(vma: &Vma, from: u64, to: u64) -> u64 {
    if vma.is_anonymous() && vma.anon().is_none() {
        0
    } else {
        vma.shift.wrapping_add(from >> 12).wrapping_sub(to >> 12)
    }
}
