//! Inferred anon_vmas, and what later maps of the process say about them.
//!
//! The map of a running process does not show its anon_vmas. Each VMA with private pages gets an
//! inferred one of its own; parts of one VMA share it, even if their protections differ. Calls
//! treat inferred anon_vmas like all others. Later maps of the process correct them:
//!
//! - The process has one VMA where only inferred anon_vmas keep two apart here: they are the same
//!   one.
//! - The process has two VMAs where new memory has merged here with a VMA that has an inferred
//!   anon_vma: that one was inherited from a parent.
//! - The process has two VMAs, one of which seemed to have no anon_vma: it has one.

use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, VmFlags};
use crate::space::AddressSpace;
use crate::space::merge::obstacles;
use crate::space::obstacles::Obstacles;
use crate::vma::vma_box::VmaBox;
use crate::vma::{AnonVma, Area, Backing};

impl AddressSpace {
    /// Reports that the map of the process shows one VMA in `start..end`. If there are several here
    /// that only [inferred](AnonVma::is_inferred) anon_vmas keep apart, these anon_vmas become one
    /// everywhere, and the VMAs merge. Returns `true` then; otherwise nothing has changed. O(n).
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails; some VMAs may have merged then.
    pub fn note_one_area(&mut self, start: u64, end: u64) -> Result<bool, Errno> {
        if !self.may_be_one(start, end) {
            return Ok(false);
        }
        let mut boundary = self.areas.at(start).map_or(end, |area| area.end);
        while boundary < end {
            let (Some(lower), Some(upper)) = (self.areas.before(boundary), self.areas.at(boundary))
            else {
                break;
            };
            let next = upper.end;
            if let (Some(a), Some(b)) = (lower.vma.anon(), upper.vma.anon())
                && a != b
            {
                let (goes, stays) = match (a.is_inferred(), b.is_inferred()) {
                    (true, true) if b.is_inherited() => (a, b),
                    (_, true) => (b, a),
                    _ => (a, b),
                };
                self.replace_anon_vma(goes, stays);
            }
            self.merge_at(boundary)?;
            boundary = next;
        }
        self.areas.open_locks();
        Ok(true)
    }

    /// Reports that the map of the process shows `start..end`, which was mapped just now, as a VMA
    /// of its own. If it has merged here with a VMA whose anon_vma is
    /// [inferred](AnonVma::is_inferred), that anon_vma becomes [inherited](AnonVma::is_inherited)
    /// everywhere: it may be shared with a parent. The new memory is split off, without an
    /// anon_vma. Returns `true` then; otherwise nothing has changed. O(n).
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails; the VMA may have been split then.
    pub fn note_own_area(&mut self, start: u64, end: u64) -> Result<bool, Errno> {
        let joined = self
            .around(start, end)
            .filter(|area| (area.start, area.end) != (start, end));
        let owner = joined.and_then(|area| area.vma.anon());
        let Some(owner) = owner.filter(|owner| owner.is_inferred() && !owner.is_inherited()) else {
            return Ok(false);
        };
        for boundary in [start, end] {
            self.areas.split(boundary)?;
        }
        self.areas.set_anon_vma(start, None);
        self.replace_anon_vma(owner, owner.inherited());
        self.areas.open_locks();
        Ok(true)
    }

    /// Reports that the map of the process shows `start..end` as a VMA of its own, which has merged
    /// here because it seemed to have no anon_vma. It has one that no page shows, since the pages
    /// are gone. It is split off with an inferred one, and is charged if `charged`. Returns `true`
    /// then. Only anonymous memory within a larger VMA qualifies; otherwise nothing has changed.
    /// O(log n).
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails; the VMA may have been split then.
    pub fn note_owned_area(&mut self, start: u64, end: u64, charged: bool) -> Result<bool, Errno> {
        let area = self.around(start, end).filter(|area| {
            let joined = (area.start, area.end) != (start, end);
            let seems_free = joined || area.vma.anon().is_none();
            seems_free && matches!(area.vma.backing, Backing::Anonymous)
        });
        if area.is_none() {
            return Ok(false);
        }
        for boundary in [start, end] {
            self.areas.split(boundary)?;
        }
        let area = self.areas.at(start).ok_or(Errno::ENOMEM)?;
        let mut vma = VmaBox::try_copy(area.vma)?;
        if charged {
            vma.flags |= VmFlags::ACCOUNT;
        }
        vma.anon.set(Some(AnonVma::inferred(&mut self.next_anon)));
        self.areas.replace(start, vma)?;
        self.areas.open_locks();
        Ok(true)
    }

    /// Returns the VMA that holds all of `start..end`, whole pages, if it may be split there.
    fn around(&self, start: u64, end: u64) -> Option<Area<'_>> {
        let aligned = start.is_multiple_of(PAGE_SIZE) && end.is_multiple_of(PAGE_SIZE);
        let area = self.areas.at(start).filter(|_| aligned && start < end)?;
        (end <= area.end && !area.vma.is_unsplittable()).then_some(area)
    }

    /// Returns `true` if VMAs fill `start..end` without holes, and only inferred anon_vmas keep
    /// some of them apart.
    fn may_be_one(&self, start: u64, end: u64) -> bool {
        let mut told = false;
        let mut lower: Option<Area<'_>> = None;
        let mut next = start;
        while next < end {
            let Some(area) = self.areas.at(next).filter(|area| area.start == next) else {
                return false;
            };
            if let Some(lower) = lower {
                match obstacles(lower.vma, area.vma) {
                    Obstacles::OWNER if is_inference(&lower, &area) => told = true,
                    none if none.is_empty() => {}
                    _ => return false,
                }
                if area.vma.is_counted() {
                    return false;
                }
            }
            next = area.end;
            lower = Some(area);
        }
        told && next == end
    }

    /// Replaces an anon_vma by another in all VMAs.
    fn replace_anon_vma(&mut self, goes: AnonVma, stays: AnonVma) {
        for area in self.areas.iter() {
            if area.vma.anon() == Some(goes) {
                area.vma.anon.set(Some(stays));
            }
        }
    }
}

/// Returns `true` if both have an anon_vma, at least one of them inferred.
fn is_inference(lower: &Area<'_>, upper: &Area<'_>) -> bool {
    match (lower.vma.anon(), upper.vma.anon()) {
        (Some(a), Some(b)) => a.is_inferred() || b.is_inferred(),
        _ => false,
    }
}
