//! Owners of private pages that were made up, and what later maps of the process tell of them.
//!
//! The map of a process that runs already does not show who owns its private pages. Each area that has some gets an owner of its own, which is
//! an assumption: halves of one area share theirs, however their protections differ. Calls carry assumed owners along like all others. Where the
//! process then has one area, and only such owners keep two apart here, they were one all the time. Where it has two areas, and new memory has joined an
//! area with such an owner here, that is one which came from a parent. And where it has two of which one seemed to have no owner, that one has.

use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, VmFlags};
use crate::space::AddressSpace;
use crate::space::merge::obstacles;
use crate::space::obstacles::Obstacles;
use crate::space::vma::{AnonVma, Area, Backing};
use crate::space::vma_box::VmaBox;

impl AddressSpace {
    /// The process's own map shows one area in `start..end`. If there are several here, and nothing but [assumed](AnonVma::is_inferred) owners keeps them
    /// apart, these owners are one from now on, wherever they are, and the areas are joined. Says whether that is so; otherwise nothing has
    /// changed. O(n).
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails; some areas may have been joined then.
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

    /// The process's own map shows `start..end`, which was mapped just now, as an area of its own. If it has joined an area with an
    /// [assumed](AnonVma::is_inferred) owner here, that one may be shared with a parent, as it [is](AnonVma::is_inherited) from now on, wherever it is; and what was
    /// mapped is an area of its own that nobody has written to. Says whether that is so; otherwise nothing has changed. O(n).
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails; the area may have been cut then.
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

    /// The process's own map shows `start..end` as an area of its own, which has joined another here since it seemed that nobody had written to it: it has an owner that
    /// no page shows, since the pages have gone. It gets an assumed one, and is charged if it was before it joined. Says whether that is so: only anonymous memory
    /// within a larger area can be meant; otherwise nothing has changed. O(log n).
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails; the area may have been cut then.
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

    /// The area that holds all of `start..end`, whole pages, where it may be cut.
    fn around(&self, start: u64, end: u64) -> Option<Area<'_>> {
        let aligned = start.is_multiple_of(PAGE_SIZE) && end.is_multiple_of(PAGE_SIZE);
        let area = self.areas.at(start).filter(|_| aligned && start < end)?;
        (end <= area.end && !area.vma.is_unsplittable()).then_some(area)
    }

    /// Do areas fill `start..end` that only assumed owners keep apart, and do these keep any apart?
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

    /// All areas of one owner get another.
    fn replace_anon_vma(&mut self, goes: AnonVma, stays: AnonVma) {
        for area in self.areas.iter() {
            if area.vma.anon() == Some(goes) {
                area.vma.anon.set(Some(stays));
            }
        }
    }
}

/// Have the two owners of which one was made up?
fn is_inference(lower: &Area<'_>, upper: &Area<'_>) -> bool {
    match (lower.vma.anon(), upper.vma.anon()) {
        (Some(a), Some(b)) => a.is_inferred() || b.is_inferred(),
        _ => false,
    }
}
