//! Who may join whom, and the one way in which areas are laid down and changed.
//!
//! Two adjacent areas join when everything that Linux compares is equal: flags (soft-dirty aside), object and
//! open file description, continuing page offsets, policy, userfaultfd, name; and when their private pages have
//! the same owner, or only one of them has an owner and that one was not inherited by fork. Areas that a driver manages never join.
//!
//! If an area could join both neighbours but those two have different owners, it joins the lower one.

use crate::errno::Errno;
use crate::flags::VmFlags;
use crate::heap::boxed::try_box;
use crate::space::AddressSpace;
use crate::space::vma::{AnonVma, Backing, Vma};

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

/// What an area laid down over a range becomes part of.
#[derive(Debug, Clone, Copy)]
struct Union {
    start: u64,
    end: u64,
    joins: u64,
    owner: Option<AnonVma>,
    guarded: bool,
}

impl AddressSpace {
    /// The range that an area with attributes `vma` over `[start, end)` would take with its neighbours. `replaces` if a whole area
    /// that is there now would vanish in them.
    fn union(&self, start: u64, end: u64, vma: &Vma, replaces: bool) -> Union {
        // A counted attachment may grow and shrink, but not vanish in another.
        let counted = matches!(vma.backing, Backing::Shm { .. });
        let lower = self
            .areas
            .before(start)
            .filter(|area| area.end >= start && continues(area.vma, vma))
            .filter(|area| owners_agree(area.vma.anon(), vma.anon()));
        let upper = self
            .areas
            .at(end)
            .filter(|area| continues(vma, area.vma))
            .filter(|area| owners_agree(vma.anon(), area.vma.anon()));
        let mut union = Union {
            start,
            end,
            joins: 0,
            owner: vma.anon(),
            guarded: vma.guarded.get(),
        };
        if counted && replaces {
            return union;
        }
        let mut lower_owner = None;
        if let Some(lower) = &lower {
            lower_owner = lower.vma.anon();
            union.start = lower.start;
            union.owner = union.owner.or(lower_owner);
            union.guarded |= lower.vma.guarded.get();
            union.joins += 1;
        }
        if let Some(upper) = &upper
            && !(counted && lower.is_some())
            && (lower.is_none()
                || lower_owner.is_none()
                || upper.vma.anon().is_none()
                || lower_owner == upper.vma.anon())
        {
            union.end = upper.end;
            union.owner = union.owner.or(upper.vma.anon());
            union.guarded |= upper.vma.guarded.get();
            union.joins += 1;
        }
        union
    }

    /// Lays a new area over `[start, end)`, whatever is there, joined with its neighbours. One change of the tree.
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails; see [`Areas::put`](crate::space::areas::Areas::put).
    pub(crate) fn lay(&mut self, start: u64, end: u64, vma: Vma) -> Result<(), Errno> {
        let union = self.union(start, end, &vma, false);
        if union.joins > 0 {
            return self.join(start, end, union);
        }
        self.areas.put(start, end, vma)
    }

    /// Lets the area that ends at `start` go on to `end`, and joins it with what it reaches. `vma` has its attributes.
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails, and nothing has changed.
    pub(crate) fn extend(&mut self, start: u64, end: u64, vma: Vma) -> Result<(), Errno> {
        let union = self.union(start, end, &vma, false);
        if union.start < start {
            return self.join(start, end, union);
        }
        // An area that never joins others may still grow.
        let lower = self.areas.at(start - 1).map_or(start, |area| area.start);
        self.areas.grow(lower, lower, end)
    }

    /// Gives `[start, end)`, which lies in one area, the attributes `vma`: joined with neighbours where that is
    /// possible, cut out of its area where it is not.
    ///
    /// # Errors
    /// `ENOMEM` at the limit on the number of areas or when an allocation fails; a first cut may then stay.
    pub(crate) fn change(&mut self, start: u64, end: u64, vma: Vma) -> Result<(), Errno> {
        let whole =
            matches!(vma.backing, Backing::Shm { .. }) && self.find_exact(start, end).is_some();
        let union = self.union(start, end, &vma, whole);
        if union.joins > 0 {
            return self.join(start, end, union);
        }
        let vma = try_box(vma)?;
        self.cut(start)?;
        self.cut(end)?;
        self.areas.replace(start, vma)
    }

    /// Lets a neighbour take in `[start, end)`, and the other neighbour too if it joins.
    fn join(&mut self, start: u64, end: u64, union: Union) -> Result<(), Errno> {
        let keeper = if union.start < start { start - 1 } else { end };
        self.areas.grow(keeper, union.start, union.end)?;
        if union.owner.is_some() {
            self.areas.set_owner(start, union.owner);
        }
        if union.guarded
            && let Some(area) = self.areas.at(start)
        {
            area.vma.guarded.set();
        }
        self.counters.merges += union.joins;
        Ok(())
    }

    /// Makes `address` a boundary if an area spans it.
    ///
    /// # Errors
    /// `ENOMEM` at the limit on the number of areas or when an allocation fails.
    pub(crate) fn cut(&mut self, address: u64) -> Result<(), Errno> {
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
