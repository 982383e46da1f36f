//! Who may join whom, and the one way in which areas are laid down and changed.
//!
//! Two adjacent areas join when everything that Linux compares is equal: flags (soft-dirty aside), object and
//! open file description, continuing page offsets, policy, userfaultfd, name; and when their private pages have
//! the same owner, or only one of them has an owner and that one was not inherited by fork. Areas that a driver manages never join.
//!
//! If an area could join both neighbours but those two have different owners, it joins the lower one.
//!
//! An area that grows in place until it meets another one joins that too if it has no owner, though its own was inherited.

use crate::errno::Errno;
use crate::flags::VmFlags;
use crate::kernel::{KernelVersion, Rule};
use crate::space::AddressSpace;
use crate::space::areas::{Neighbours, Span};
use crate::space::obstacles::Obstacles;
use crate::space::vma::{AnonVma, Area, Vma};
use crate::space::vma_box::VmaBox;

/// Whether `upper` continues `lower` in all but the owner of private pages.
pub(crate) fn continues(lower: &Vma, upper: &Vma) -> bool {
    flags_agree(lower.flags, upper.flags) && alike(lower, upper)
}

/// Whether areas with these flags may become one.
#[inline]
fn flags_agree(lower: VmFlags, upper: VmFlags) -> bool {
    check_flags(lower, upper, |_| false)
}

/// Whether two areas are the same in all but their flags and the owner of private pages.
#[inline(always)]
fn alike(lower: &Vma, upper: &Vma) -> bool {
    check_attributes(lower, upper, |_| false)
}

/// Tells `found` what in two areas' flags keeps them apart, until it answers false: the rule, for those who ask whether and those who ask why.
#[inline(always)]
fn check_flags(lower: VmFlags, upper: VmFlags, mut found: impl FnMut(Obstacles) -> bool) -> bool {
    let differ = !(lower ^ upper).difference(VmFlags::SOFTDIRTY).is_empty();
    (!differ || found(Obstacles::FLAGS))
        && (!lower.intersects(VmFlags::SPECIAL) || found(Obstacles::SPECIAL))
}

/// Tells `found` what else but flags and owners keeps two areas apart, until it answers false.
#[inline(always)]
fn check_attributes(lower: &Vma, upper: &Vma, mut found: impl FnMut(Obstacles) -> bool) -> bool {
    (lower.shift == upper.shift || found(Obstacles::OFFSET))
        && (lower.backing.same(&upper.backing) || found(Obstacles::OBJECT))
        && (lower.policy == upper.policy || found(Obstacles::POLICY))
        && (lower.uffd == upper.uffd || found(Obstacles::UFFD))
        && (lower.name == upper.name || found(Obstacles::NAME))
}

/// All that keeps two adjacent areas apart.
pub(crate) fn obstacles(lower: &Vma, upper: &Vma) -> Obstacles {
    let mut all = Obstacles::empty();
    let mut note = |obstacle| {
        all |= obstacle;
        true
    };
    check_flags(lower.flags, upper.flags, &mut note);
    check_flags(upper.flags, upper.flags, &mut note);
    check_attributes(lower, upper, &mut note);
    if !anon_vmas_agree(lower.anon(), upper.anon()) {
        all |= Obstacles::OWNER;
    }
    all
}

/// Whether areas with these owners of private pages may become one.
pub(crate) fn anon_vmas_agree(a: Option<AnonVma>, b: Option<AnonVma>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(owner), None) | (None, Some(owner)) => !owner.is_inherited(),
        (Some(a), Some(b)) => a == b,
    }
}

/// Whether a neighbour with this owner of private pages may take in a piece with that one.
fn can_absorb(neighbour: Option<AnonVma>, piece: Option<AnonVma>, kernel: KernelVersion) -> bool {
    anon_vmas_agree(neighbour, piece)
        && (neighbour.is_some() || piece.is_none() || kernel.has(Rule::UntouchedTakesTouched))
}

/// What a range is that may join its neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    /// A new mapping, or a part of an area.
    Part,
    /// A whole area that is there now, and would vanish in its neighbours.
    Whole,
    /// What the lower neighbour grows by.
    Growth,
}

impl Piece {
    /// Returns `true` if the upper neighbour, with this owner, may take in the piece, with that one.
    #[inline(always)]
    fn can_be_absorbed_above(
        self,
        upper: Option<AnonVma>,
        piece: Option<AnonVma>,
        kernel: KernelVersion,
    ) -> bool {
        // There are no pages in what an area grows by: nothing of it was inherited, though its owner was.
        let empty =
            self == Piece::Growth && upper.is_none() && kernel.has(Rule::UntouchedTakesTouched);
        empty || can_absorb(upper, piece, kernel)
    }
}

/// The area that a new one and its neighbours become.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Merge {
    start: u64,
    end: u64,
    /// An address in the neighbour that stays.
    keeper: u64,
    /// How many neighbours it is made of; an area around the range on both sides counts once.
    joined: usize,
    merges: u64,
    /// The owner and the mark that the keeper lacks.
    owner: Option<AnonVma>,
    guarded: bool,
}

impl Merge {
    /// Of a new area with attributes `vma` over a range, if it joins any.
    #[inline]
    pub(crate) fn new(
        span: &Span,
        neighbours: &Neighbours<'_>,
        vma: &Vma,
        kernel: KernelVersion,
    ) -> Option<Self> {
        Self::of(span, neighbours, vma, vma.flags, Piece::Part, kernel)
    }

    /// Of a range that lies in one area, and gets the attributes `vma` with other flags, if it joins any.
    #[inline]
    pub(crate) fn altering(
        span: &Span,
        neighbours: &Neighbours<'_>,
        vma: &Vma,
        flags: VmFlags,
        kernel: KernelVersion,
    ) -> Option<Self> {
        let piece = match span.over.covered() == 1 {
            true => Piece::Whole,
            false => Piece::Part,
        };
        Self::of(span, neighbours, vma, flags, piece, kernel)
    }

    #[inline(always)]
    fn of(
        span: &Span,
        neighbours: &Neighbours<'_>,
        vma: &Vma,
        flags: VmFlags,
        piece: Piece,
        kernel: KernelVersion,
    ) -> Option<Self> {
        let lower = neighbours
            .lower
            .filter(|area| flags_agree(area.vma.flags, flags));
        let upper = neighbours
            .upper
            .filter(|area| area.start <= span.end && flags_agree(area.vma.flags, flags));
        if lower.is_none() && upper.is_none() {
            return None;
        }
        Self::with(span, (lower, upper), vma, piece, kernel)
    }

    /// As [`of`](Self::of); the flags agree with those of the neighbours.
    fn with(
        span: &Span,
        (lower, upper): (Option<Area<'_>>, Option<Area<'_>>),
        vma: &Vma,
        piece: Piece,
        kernel: KernelVersion,
    ) -> Option<Self> {
        // A counted area may grow and shrink, but not vanish in another.
        let counted = vma.is_counted();
        if counted && (piece == Piece::Whole || !kernel.has(Rule::AttachmentsGrow)) {
            return None;
        }
        let &Span { start, end, .. } = span;
        let anon = vma.anon();
        let lower =
            lower.filter(|area| can_absorb(area.vma.anon(), anon, kernel) && alike(area.vma, vma));
        let lower_owner = lower.and_then(|area| area.vma.anon());
        let upper = upper
            .filter(|area| {
                piece.can_be_absorbed_above(area.vma.anon(), anon, kernel) && alike(vma, area.vma)
            })
            .filter(|upper| {
                let owner = upper.vma.anon();
                !(counted && lower.is_some())
                    && (lower_owner.is_none() || owner.is_none() || lower_owner == owner)
            });
        let keeper = lower.or(upper)?;
        let owner = anon.or(lower_owner);
        let owner = owner.or(upper.and_then(|area| area.vma.anon()));
        let marked = |area: Option<Area<'_>>| area.is_some_and(|area| area.vma.guarded.get());
        let guarded = vma.guarded.get() || marked(lower) || marked(upper);
        let around = lower.zip(upper).is_some_and(|(a, b)| a.start == b.start);
        let merges = usize::from(lower.is_some()) + usize::from(upper.is_some());
        Some(Merge {
            start: lower.map_or(start, |area| area.start),
            end: upper.map_or(end, |area| area.end),
            keeper: if lower.is_some() { start - 1 } else { end },
            joined: merges - usize::from(around),
            merges: merges as u64,
            owner: owner.filter(|_| keeper.vma.anon() != owner),
            guarded: guarded && !keeper.vma.guarded.get(),
        })
    }
}

impl AddressSpace {
    /// Lays a new area over a range, whatever is there, joined with its neighbours. One change of the tree.
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails; see [`Areas::insert`](crate::space::areas::Areas::insert).
    #[inline(always)]
    pub(crate) fn insert(
        &mut self,
        span: &Span,
        merge: Option<Merge>,
        vma: Vma,
    ) -> Result<(), Errno> {
        match merge {
            Some(merge) => self.merge_into(span, &merge, vma.flags),
            None => self.areas.insert(span, VmaBox::try_new(vma)?),
        }
    }

    /// Lets the area that ends at `start` go on to `end`, and joins it with what it reaches.
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails, and nothing has changed.
    pub(crate) fn extend(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        let mut span = Span::new(start, end);
        let neighbours = self.areas.neighbours(&mut span);
        let Some(lower) = neighbours.lower else {
            return Err(Errno::EFAULT);
        };
        let (vma, flags, kernel) = (lower.vma, lower.vma.flags, self.config.kernel);
        let merge = Merge::of(&span, &neighbours, vma, flags, Piece::Growth, kernel);
        // An area that never joins others may still grow.
        let merge = merge.unwrap_or(Merge {
            start: lower.start,
            end,
            keeper: start - 1,
            joined: 1,
            merges: 0,
            owner: None,
            guarded: false,
        });
        self.merge_into(&span, &merge, flags)
    }

    /// Joins the areas that meet at `boundary`, if they may be one.
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails, and nothing has changed.
    pub(crate) fn merge_at(&mut self, boundary: u64) -> Result<(), Errno> {
        let Some(upper) = self.areas.at(boundary) else {
            return Ok(());
        };
        let mut span = Span::new(boundary, upper.end);
        let neighbours = self.areas.neighbours(&mut span);
        let lower = Neighbours {
            upper: None,
            ..neighbours
        };
        let flags = upper.vma.flags;
        let (vma, kernel) = (upper.vma, self.config.kernel);
        match Merge::of(&span, &lower, vma, flags, Piece::Whole, kernel) {
            Some(merge) => self.merge_into(&span, &merge, flags),
            None => Ok(()),
        }
    }

    /// Gives a range that lies in one area, and [joins](Merge::altering) no other, the attributes `vma`: it is cut out of its area. One change of the tree.
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails, and nothing has changed; or `EINVAL` if the area may not be cut, or `ENOMEM` at the limit on the number
    /// of areas, and a first cut may then stay.
    #[inline(always)]
    pub(crate) fn split_out(&mut self, span: &Span, vma: VmaBox) -> Result<(), Errno> {
        if span.over.splits_unsplittable() {
            // Of an area that can be cut at some places only, the lower cut may be allowed, and has then been made.
            if !span.over.unsplittable.0 {
                self.split_at(span.start)?;
            }
            return Err(Errno::EINVAL);
        }
        let cuts = span.over.kept as usize;
        if self.is_split_out_refused(span) {
            // One cut may be allowed where two are not.
            self.split_at(span.start)?;
            self.split_at(span.end)?;
        }
        self.areas.insert(span, vma)?;
        self.counters.splits += cuts as u64;
        Ok(())
    }

    /// Returns `true` if [`split_out`](Self::split_out) fails for the limit on the number of areas, or because the area may not be cut there.
    #[inline(always)]
    pub(crate) fn is_split_out_refused(&self, span: &Span) -> bool {
        // The boundaries that it makes within its area.
        let cuts = span.over.kept as usize;
        span.over.splits_unsplittable()
            || self.areas.count() + cuts > self.config.max_map_count as usize
    }

    /// Lets a neighbour take in a range, and the other neighbour too if it joins. `flags` are those of all of them.
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails, and nothing has changed.
    #[inline(always)]
    pub(crate) fn merge_into(
        &mut self,
        span: &Span,
        merge: &Merge,
        flags: VmFlags,
    ) -> Result<(), Errno> {
        match self.merge_at_seat(span, merge, flags) {
            Ok(false) => self.merge_slow(span, merge, flags),
            done => done.map(|_| ()),
        }
    }

    /// As [`join`](Self::merge_into), where the look has been; `false` if that is not possible. Of the two calls this is the usual one, and its frame is given
    /// up for the other, from which the tree goes deep.
    #[inline(never)]
    fn merge_at_seat(&mut self, span: &Span, merge: &Merge, flags: VmFlags) -> Result<bool, Errno> {
        let all = (merge.start, merge.end);
        let done = (self.areas).grow_at_seat(merge.keeper, all, span, merge.joined, flags)?;
        if done {
            self.count_merged(span.start, merge);
        }
        Ok(done)
    }

    /// The end of [`join`](Self::merge_into), wherever it is.
    #[cold]
    #[inline(never)]
    fn merge_slow(&mut self, span: &Span, merge: &Merge, flags: VmFlags) -> Result<(), Errno> {
        let all = (merge.start, merge.end);
        (self.areas).grow_slow(merge.keeper, all, span, merge.joined, flags)?;
        self.count_merged(span.start, merge);
        Ok(())
    }

    /// Gives the area at `start` what the keeper lacks, and counts the merges.
    #[inline(always)]
    fn count_merged(&mut self, start: u64, merge: &Merge) {
        if merge.owner.is_some() {
            self.areas.set_anon_vma(start, merge.owner);
        }
        if merge.guarded
            && let Some(area) = self.areas.at(start)
        {
            area.vma.guarded.set();
        }
        self.counters.merges += merge.merges;
    }

    /// Makes `address` a boundary if an area spans it.
    ///
    /// # Errors
    /// `ENOMEM` at the limit on the number of areas or when an allocation fails.
    fn split_at(&mut self, address: u64) -> Result<(), Errno> {
        let at_limit = self.at_map_limit();
        if at_limit && self.areas.at(address).is_some_and(|a| a.start < address) {
            return Err(Errno::ENOMEM);
        }
        if !at_limit && self.areas.split(address)? {
            self.counters.splits += 1;
        }
        Ok(())
    }
}
