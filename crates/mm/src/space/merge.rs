//! Who may join whom, and the one way in which areas are laid down and changed.
//!
//! Two adjacent areas join when everything that Linux compares is equal: flags (soft-dirty aside), object and
//! open file description, continuing page offsets, policy, userfaultfd, name; and when their private pages have
//! the same owner, or only one of them has an owner and that one was not inherited by fork. Areas that a driver manages never join.
//!
//! If an area could join both neighbours but those two have different owners, it joins the lower one.

use crate::errno::Errno;
use crate::flags::VmFlags;
use crate::space::AddressSpace;
use crate::space::areas::{Look, Overlap};
use crate::space::vma::{AnonVma, Area, Backing, Vma};

/// Whether `upper` continues `lower` in all but the owner of private pages.
pub(crate) fn continues(lower: &Vma, upper: &Vma) -> bool {
    (lower.flags ^ upper.flags)
        .difference(VmFlags::SOFTDIRTY)
        .is_empty()
        && !lower.flags.intersects(VmFlags::SPECIAL)
        && lower.shift == upper.shift
        && lower.backing.same(&upper.backing)
        && lower.policy == upper.policy
        && lower.uffd == upper.uffd
        && lower.name == upper.name
}

/// Whether areas with these owners of private pages may become one.
pub(crate) fn owners_agree(a: Option<AnonVma>, b: Option<AnonVma>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(owner), None) | (None, Some(owner)) => !owner.is_inherited(),
        (Some(a), Some(b)) => a == b,
    }
}

/// How an area is laid over a range: decided by a look, and without its borrow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Laying {
    start: u64,
    end: u64,
    over: Overlap,
    /// What it becomes with its neighbours, if it joins any.
    union: Option<Union>,
}

/// The area that a new one and its neighbours become.
#[derive(Debug, Clone, Copy)]
struct Union {
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

impl Laying {
    /// A new area with attributes `vma` over the range.
    pub(crate) fn new(look: &Look<'_>, vma: &Vma) -> Self {
        Self::of(look, vma, false)
    }

    /// The attributes `vma` for the range, which lies in one area.
    pub(crate) fn altering(look: &Look<'_>, vma: &Vma) -> Self {
        Self::of(look, vma, look.over.covered == 1)
    }

    /// `replaces` if a whole area that is there now would vanish in its neighbours.
    #[inline]
    fn of(look: &Look<'_>, vma: &Vma, replaces: bool) -> Self {
        let &Look {
            start, end, over, ..
        } = look;
        Laying {
            start,
            end,
            over,
            union: Union::of(look, vma, replaces),
        }
    }

    /// The boundaries that it makes within areas.
    fn cuts(&self) -> usize {
        1 + usize::from(self.over.divided) - self.over.covered
    }
}

impl Union {
    #[inline]
    fn of(look: &Look<'_>, vma: &Vma, replaces: bool) -> Option<Self> {
        // A counted attachment may grow and shrink, but not vanish in another.
        let counted = matches!(vma.backing, Backing::Shm { .. });
        if counted && replaces {
            return None;
        }
        let &Look { start, end, .. } = look;
        let lower = look
            .lower
            .filter(|area| continues(area.vma, vma) && owners_agree(area.vma.anon(), vma.anon()));
        let lower_owner = lower.and_then(|area| area.vma.anon());
        let upper = look
            .upper
            .filter(|area| {
                area.start <= end
                    && continues(vma, area.vma)
                    && owners_agree(vma.anon(), area.vma.anon())
            })
            .filter(|upper| {
                let owner = upper.vma.anon();
                !(counted && lower.is_some())
                    && (lower_owner.is_none() || owner.is_none() || lower_owner == owner)
            });
        let keeper = lower.or(upper)?;
        let owner = vma.anon().or(lower_owner);
        let owner = owner.or(upper.and_then(|area| area.vma.anon()));
        let marked = |area: Option<Area<'_>>| area.is_some_and(|area| area.vma.guarded.get());
        let guarded = vma.guarded.get() || marked(lower) || marked(upper);
        let around = lower.zip(upper).is_some_and(|(a, b)| a.start == b.start);
        let merges = usize::from(lower.is_some()) + usize::from(upper.is_some());
        Some(Union {
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
    /// `ENOMEM` when an allocation fails; see [`Areas::put`](crate::space::areas::Areas::put).
    #[inline]
    pub(crate) fn lay(&mut self, laying: &Laying, vma: Vma) -> Result<(), Errno> {
        match &laying.union {
            Some(union) => self.join(laying, union, vma.flags),
            None => self.areas.put(laying.start, laying.end, &laying.over, vma),
        }
    }

    /// Lets the area that ends at `start` go on to `end`, and joins it with what it reaches.
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails, and nothing has changed.
    pub(crate) fn extend(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        let look = self.areas.look(start, end);
        let Some(lower) = look.lower else {
            return Err(Errno::EFAULT);
        };
        let mut laying = Laying::new(&look, lower.vma);
        let union = laying.union.get_or_insert(Union {
            // An area that never joins others may still grow.
            start: lower.start,
            end,
            keeper: start - 1,
            joined: 1,
            merges: 0,
            owner: None,
            guarded: false,
        });
        let (union, flags) = (*union, lower.vma.flags);
        self.join(&laying, &union, flags)
    }

    /// Gives a range that lies in one area the attributes `vma`: joined with neighbours where that is
    /// possible, cut out of its area where it is not. One change of the tree.
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails, and nothing has changed; or at the limit on the number of areas, and a first cut may
    /// then stay.
    pub(crate) fn change(&mut self, laying: &Laying, vma: Vma) -> Result<(), Errno> {
        if let Some(union) = &laying.union {
            return self.join(laying, union, vma.flags);
        }
        let &Laying { start, end, .. } = laying;
        let cuts = laying.cuts();
        if self.areas.count() + cuts > self.config.max_map_count as usize {
            // One cut may be allowed where two are not.
            self.cut(start)?;
            self.cut(end)?;
        }
        self.areas.put(start, end, &laying.over, vma)?;
        self.counters.splits += cuts as u64;
        Ok(())
    }

    /// Lets a neighbour take in a range, and the other neighbour too if it joins. `flags` are those of all of them.
    #[inline]
    fn join(&mut self, laying: &Laying, union: &Union, flags: VmFlags) -> Result<(), Errno> {
        let &Laying { start, end, .. } = laying;
        let pages = (end - start) >> 12;
        let all = (union.start, union.end);
        self.areas
            .grow(union.keeper, all, &laying.over, union.joined, flags, pages)?;
        if union.owner.is_some() {
            self.areas.set_owner(start, union.owner);
        }
        if union.guarded
            && let Some(area) = self.areas.at(start)
        {
            area.vma.guarded.set();
        }
        self.counters.merges += union.merges;
        Ok(())
    }

    /// Makes `address` a boundary if an area spans it.
    ///
    /// # Errors
    /// `ENOMEM` at the limit on the number of areas or when an allocation fails.
    fn cut(&mut self, address: u64) -> Result<(), Errno> {
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
