//! The move itself: checks, what is allocated before, the change of the tree, and the notifications.

use core::ops::Range;

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
use crate::vma::vma_box::VmaBox;
use crate::vma::{Backing, Vma};

/// The parameters of a move, and the VMAs that it needs, allocated while the call can still fail.
struct Plan {
    /// Flags of the VMA that is moved.
    flags: VmFlags,
    /// Range of the VMA that is moved, in whole or in part.
    area: Range<u64>,
    /// The source is split off from its VMA first.
    splits_source: bool,
    /// The range of the source, if the copy must not merge with it.
    apart_from: Option<(u64, u64)>,
    /// The source is a whole VMA.
    whole: bool,
    /// The VMA at the new place.
    copy: VmaBox,
    /// The VMA that replaces the source, if the source stays and changes.
    emptied: Option<VmaBox>,
}

impl AddressSpace {
    /// Maps the object of the old range at `to`, and unmaps the old range unless it stays. Returns `to`.
    ///
    /// # Errors
    /// `ENOMEM` at a limit or when an allocation fails, `EINVAL` for a part of a VMA that cannot be split, and those of the owner of the pages.
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
        self.check_relocation(request)?;
        let plan = self.plan_relocation(request, to)?;
        let locked = plan.flags.contains(VmFlags::LOCKED);
        if old_len > 0 && !request.has(abi::MREMAP_FIXED) {
            let len = old_len;
            self.prepare(pages, PrepareOp::Move { from: old, to, len })?;
        }
        if new_len > old_len {
            let (start, end) = (to + old_len, to + new_len);
            self.prepare(pages, PrepareOp::Map { start, end })?;
        }
        self.all_or_nothing(|space| space.write_relocation(request, to, plan))?;
        if old_len > 0 {
            self.notify_relocate(pages, old, to, old_len)?;
        }
        if request.has(abi::MREMAP_DONTUNMAP) {
            self.notify_map(pages, old, old + old_len)?;
        }
        if new_len > old_len {
            self.notify_map(pages, to + old_len, to + new_len)?;
            if locked {
                let _ = self.populate(to + old_len, to + new_len, pages);
            }
        }
        Ok(to)
    }

    /// Checks the limits on the number of VMAs and on commitments, and that the VMA may be split at the ends of the range.
    ///
    /// # Errors
    /// `ENOMEM`, `EINVAL`, and `EFAULT` if nothing is mapped.
    fn check_relocation(&mut self, request: &Request) -> Result<(), Errno> {
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
        if area.vma.is_unsplittable() && (area.start, area.end) != (old, old + old_len) {
            return Err(Errno::EINVAL);
        }
        if area.vma.flags.contains(VmFlags::ACCOUNT) {
            let charged = if request.has(abi::MREMAP_DONTUNMAP) {
                new_len
            } else {
                new_len.saturating_sub(old_len)
            };
            if !self.may_commit(charged >> 12) {
                return Err(self.keep_effects(Errno::ENOMEM));
            }
        }
        Ok(())
    }

    /// Allocates the VMAs that the change needs.
    ///
    /// # Errors
    /// `ENOMEM`, and `EFAULT` if nothing is mapped.
    #[inline(always)]
    fn plan_relocation(&self, request: &Request, to: u64) -> Result<Plan, Errno> {
        let &Request { old, old_len, .. } = request;
        let area = self.areas.at(old).ok_or(Errno::EFAULT)?;
        let (start, end, flags) = (area.start, area.end, area.vma.flags);
        let mut copy = VmaBox::try_copy(area.vma)?;
        copy.shift = moved_shift(&copy, old, to);
        let stays = request.has(abi::MREMAP_DONTUNMAP);
        let apart = stays && self.config.kernel.has(Rule::CopyStaysApart);
        let locked = flags.contains(VmFlags::LOCKED);
        let splits_source = apart && locked;
        let source = match splits_source {
            true => (old, old + old_len),
            false => (start, end),
        };
        let whole = source == (old, old + old_len);
        // Anonymous memory that has lost its pages is numbered as if it never had any. A private mapping of `/dev/zero` keeps its offset in the file.
        let nameless = matches!(area.vma.backing, Backing::Anonymous);
        let anew = apart && whole && nameless && area.vma.anon().is_some();
        let emptied = match stays && locked || anew && area.vma.shift != 0 {
            true => {
                let mut emptied = VmaBox::try_copy(area.vma)?;
                emptied.shift = if anew { 0 } else { emptied.shift };
                Some(emptied)
            }
            false => None,
        };
        Ok(Plan {
            flags,
            area: start..end,
            splits_source,
            apart_from: apart.then_some(source),
            whole,
            copy,
            emptied,
        })
    }

    /// Changes the tree: the copy at `to` first, then the source, so that no reader finds neither.
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails; the caller undoes the change.
    #[inline(always)]
    fn write_relocation(&mut self, request: &Request, to: u64, plan: Plan) -> Result<(), Errno> {
        let &Request {
            old,
            old_len,
            new_len,
            ..
        } = request;
        if plan.splits_source {
            self.split_for_unmap(old)?;
            self.split_for_unmap(old + old_len)?;
        }
        let registered = plan.copy.uffd.is_some();
        self.insert_copy((old, to, new_len), plan.apart_from, plan.copy)?;
        if plan.flags.contains(VmFlags::HUGETLB) {
            self.shift_huge(old, old_len, plan.area, to)?;
        }
        if registered {
            self.unregister_moved(to)?;
        }
        self.empty_source(request, to, plan.whole, plan.emptied)
    }

    /// Inserts `copy`, which is moved from `old`, at `to..to + len`, merged with its neighbours but not with `source`.
    ///
    /// Never inlined, so that its stack frame is gone before the source is emptied.
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails, and nothing has changed.
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

    /// Takes the registration with a userfaultfd from the VMA at `to`, which the moved pages may have merged into. It merges with no other VMA for that.
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails, and nothing has changed.
    fn unregister_moved(&mut self, to: u64) -> Result<(), Errno> {
        let Some(area) = self.areas.at(to) else {
            return Ok(());
        };
        let start = area.start;
        let mut vma = VmaBox::try_copy(area.vma)?;
        unregister(&mut vma);
        self.areas.replace(start, vma)
    }

    /// Unmaps or strips the old range, and moves its markers to `to`.
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails; the caller undoes the change.
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

    /// Changes the source of `MREMAP_DONTUNMAP`, which stays: it is unlocked, and without an anon_vma if the `whole` VMA was moved. `emptied` replaces it,
    /// with its flags and its anon_vma, if it differs afterwards.
    ///
    /// # Errors
    /// `ENOMEM` while a journal is kept.
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

/// Divides the neighbours of a copy into the VMA `source` that it was copied from, which lies `below` it or above, and the others.
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

/// Returns the shift of a VMA at its new place: pages keep their offset, and anonymous memory without pages is numbered anew.
fn moved_shift(vma: &Vma, from: u64, to: u64) -> u64 {
    if vma.is_anonymous() && vma.anon().is_none() {
        0
    } else {
        vma.shift.wrapping_add(from >> 12).wrapping_sub(to >> 12)
    }
}
