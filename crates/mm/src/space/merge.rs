//! The merge rule, and the functions through which calls insert and change VMAs.
//!
//! Two adjacent VMAs merge if everything that Linux compares is equal: flags (except soft-dirty),
//! object and open file description, contiguous page offsets, policy, userfaultfd, and name. Their
//! anon_vmas must be the same, or only one of them has one, which was not inherited by a fork. VMAs
//! that a driver manages never merge.
//!
//! If a VMA could merge with both neighbours, but those have different anon_vmas, it merges with
//! the lower one.
//!
//! A VMA that grows in place until it meets another one merges with that too if it has no anon_vma,
//! even if the growing one has inherited its own.

use crate::errno::Errno;
use crate::flags::VmFlags;
use crate::kernel::{KernelVersion, Rule};
use crate::space::AddressSpace;
use crate::space::areas::{Neighbours, Span};
use crate::space::obstacles::Obstacles;
use crate::vma::vma_box::VmaBox;
use crate::vma::{AnonVma, Area, Vma};

/// Returns `true` if the two VMAs may merge as far as everything but the anon_vma is concerned.
pub(crate) fn continues(lower: &Vma, upper: &Vma) -> bool {
    flags_agree(lower.flags, upper.flags) && alike(lower, upper)
}

/// Returns `true` if VMAs with these flags may merge.
#[inline]
fn flags_agree(lower: VmFlags, upper: VmFlags) -> bool {
    check_flags(lower, upper, |_| false)
}

/// Returns `true` if two VMAs are equal in everything but their flags and anon_vmas.
#[inline(always)]
fn alike(lower: &Vma, upper: &Vma) -> bool {
    check_attributes(lower, upper, |_| false)
}

/// Calls `found` with each obstacle in the flags of two VMAs until it returns `false`. Shared by
/// the question whether VMAs merge and the question why not.
#[inline(always)]
fn check_flags(lower: VmFlags, upper: VmFlags, mut found: impl FnMut(Obstacles) -> bool) -> bool {
    let differ = !(lower ^ upper).difference(VmFlags::SOFTDIRTY).is_empty();
    (!differ || found(Obstacles::FLAGS))
        && (!lower.intersects(VmFlags::SPECIAL) || found(Obstacles::SPECIAL))
}

/// Calls `found` with each other obstacle, except that of the anon_vmas, until it returns `false`.
#[inline(always)]
fn check_attributes(lower: &Vma, upper: &Vma, mut found: impl FnMut(Obstacles) -> bool) -> bool {
    (lower.shift == upper.shift || found(Obstacles::OFFSET))
        && (lower.backing.same(&upper.backing) || found(Obstacles::OBJECT))
        && (lower.policy == upper.policy || found(Obstacles::POLICY))
        && (lower.uffd == upper.uffd || found(Obstacles::UFFD))
        && (lower.name == upper.name || found(Obstacles::NAME))
}

/// Returns all obstacles to a merge of two adjacent VMAs.
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

/// Returns `true` if VMAs with these anon_vmas may merge.
pub(crate) fn anon_vmas_agree(a: Option<AnonVma>, b: Option<AnonVma>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(owner), None) | (None, Some(owner)) => !owner.is_inherited(),
        (Some(a), Some(b)) => a == b,
    }
}

/// Returns `true` if a neighbour with this anon_vma may absorb a piece with that one.
fn can_absorb(neighbour: Option<AnonVma>, piece: Option<AnonVma>, kernel: KernelVersion) -> bool {
    anon_vmas_agree(neighbour, piece)
        && (neighbour.is_some() || piece.is_none() || kernel.has(Rule::UntouchedTakesTouched))
}

/// The kind of range that may merge with its neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    /// A new mapping, or a part of a VMA.
    Part,
    /// A whole VMA, which would disappear in its neighbours.
    Whole,
    /// The range that the lower neighbour grows by.
    Growth,
}

impl Piece {
    /// Returns `true` if the upper neighbour, with the first anon_vma, may absorb the piece, with
    /// the second.
    #[inline(always)]
    fn can_be_absorbed_above(
        self,
        upper: Option<AnonVma>,
        piece: Option<AnonVma>,
        kernel: KernelVersion,
    ) -> bool {
        // A growth has no pages: nothing of it was inherited, even if the anon_vma was.
        let empty =
            self == Piece::Growth && upper.is_none() && kernel.has(Rule::UntouchedTakesTouched);
        empty || can_absorb(upper, piece, kernel)
    }
}

/// The VMA that a new one and its neighbours become.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Merge {
    start: u64,
    end: u64,
    /// An address in the neighbour that stays and absorbs the others.
    keeper: u64,
    /// The number of neighbours that it is made of. A VMA around the range counts once.
    joined: usize,
    merges: u64,
    /// The anon_vma and the mark of guards that the keeper lacks.
    owner: Option<AnonVma>,
    guarded: bool,
}

impl Merge {
    /// Returns the merge of a new VMA with attributes `vma` over a range, if it merges.
    #[inline]
    pub(crate) fn new(
        span: &Span,
        neighbours: &Neighbours<'_>,
        vma: &Vma,
        kernel: KernelVersion,
    ) -> Option<Self> {
        Self::of(span, neighbours, vma, vma.flags, Piece::Part, kernel)
    }

    /// Returns the merge of a range that lies in one VMA and gets the attributes `vma` with other
    /// flags, if it merges.
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

    /// As [`of`](Self::of), where the flags are already known to agree with those of the
    /// neighbours.
    fn with(
        span: &Span,
        (lower, upper): (Option<Area<'_>>, Option<Area<'_>>),
        vma: &Vma,
        piece: Piece,
        kernel: KernelVersion,
    ) -> Option<Self> {
        // A counted VMA may grow and shrink, but must not disappear in another.
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
    /// Inserts a VMA over a range, in place of whatever is there, or merges it with its neighbours.
    /// One change of the tree.
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

    /// Extends the VMA that ends at `start` up to `end`, and merges it with the one that it
    /// reaches.
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
        // A VMA that never merges may still grow.
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

    /// Merges the VMAs that meet at `boundary`, if they may merge.
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

    /// Gives a range that lies in one VMA, and does not [merge](Merge::altering), the attributes
    /// `vma`: splits it from its VMA. One change of the tree.
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails, and nothing has changed. `EINVAL` if the VMA must not be
    /// split there, and `ENOMEM` at the limit on the number of VMAs; then a first split may stay.
    #[inline(always)]
    pub(crate) fn split_out(&mut self, span: &Span, vma: VmaBox) -> Result<(), Errno> {
        if span.over.splits_unsplittable() {
            // A VMA that can be split only at some addresses may allow the lower split, which has
            // then been made.
            if !span.over.unsplittable.0 {
                self.split_at(span.start)?;
            }
            return Err(Errno::EINVAL);
        }
        let cuts = span.over.kept as usize;
        if self.is_split_out_refused(span) {
            // One split may be allowed where two are not.
            self.split_at(span.start)?;
            self.split_at(span.end)?;
        }
        self.areas.insert(span, vma)?;
        self.counters.splits += cuts as u64;
        Ok(())
    }

    /// Returns `true` if [`split_out`](Self::split_out) fails for the limit on the number of VMAs,
    /// or because the VMA must not be split there.
    #[inline(always)]
    pub(crate) fn is_split_out_refused(&self, span: &Span) -> bool {
        // The number of new boundaries within the VMA.
        let cuts = span.over.kept as usize;
        span.over.splits_unsplittable()
            || self.areas.count() + cuts > self.config.max_map_count as usize
    }

    /// Performs a merge: a neighbour absorbs the range, and the other neighbour if that merges too.
    /// All of them have `flags`.
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
        match self.merge_at_hint(span, merge, flags) {
            Ok(false) => self.merge_slow(span, merge, flags),
            done => done.map(|_| ()),
        }
    }

    /// As [`merge_into`](Self::merge_into), at the position of the look-up; returns `false` if that
    /// is not possible. The two ways are separate calls: the stack frame of this usual one is gone
    /// when the other goes deep into the tree.
    #[inline(never)]
    fn merge_at_hint(&mut self, span: &Span, merge: &Merge, flags: VmFlags) -> Result<bool, Errno> {
        let all = (merge.start, merge.end);
        let done = (self.areas).grow_at_hint(merge.keeper, all, span, merge.joined, flags)?;
        if done {
            self.count_merged(span.start, merge);
        }
        Ok(done)
    }

    /// Merges from the root: the slow way of [`merge_into`](Self::merge_into).
    #[cold]
    #[inline(never)]
    fn merge_slow(&mut self, span: &Span, merge: &Merge, flags: VmFlags) -> Result<(), Errno> {
        let all = (merge.start, merge.end);
        (self.areas).grow_slow(merge.keeper, all, span, merge.joined, flags)?;
        self.count_merged(span.start, merge);
        Ok(())
    }

    /// Gives the VMA at `start` what the keeper lacks, and counts the merges.
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

    /// Splits the VMA around `address`, if there is one.
    ///
    /// # Errors
    /// `ENOMEM` at the limit on the number of VMAs or when an allocation fails.
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
