//! State that no map shows, taken over from an earlier model of the same process.
//!
//! A model that differs from its process is rebuilt from the map of the process. The map shows
//! neither anon_vmas nor open file descriptions, attachments, allocated keys or flags of future
//! VMAs. The earlier model has all of these.

use alloc::vec::Vec;

use crate::errno::Errno;
use crate::file::{File, FileId};
use crate::flags::VmFlags;
use crate::heap::boxed::try_str;
use crate::space::guards::Guards;
use crate::space::merge::continues;
use crate::space::{AddressSpace, given_name};
use crate::vma::vma_box::VmaBox;
use crate::vma::{AnonVma, Area, Backing, Vma};

impl AddressSpace {
    /// Takes over from `before`, an earlier model of the same process, what a map does not show:
    /// anon_vmas, open file descriptions, attachments, policies, protection keys, guard markers and
    /// poison, and what holds for future VMAs. The map itself does not change: where it has
    /// something else than `before`, nothing is taken over. O(n log n).
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails; some VMAs may have been treated then.
    pub fn take_over(&mut self, before: &AddressSpace) -> Result<(), Errno> {
        self.future_locked = before.future_locked;
        self.pkeys = before.pkeys;
        self.execute_only = before.execute_only;
        self.locked_leak = before.locked_leak;
        self.config.mdwe = before.config.mdwe;
        self.config.merge_any = before.config.merge_any;
        self.next_anon = self.next_anon.max(before.next_anon);
        let mut guards = Guards::new();
        let mut objects = Objects::default();
        let mut next = 0;
        // The end of the last VMA, and the start of the VMA that it took over from.
        let mut last = None;
        while let Some(area) = self.areas.find(next) {
            let (start, end) = (area.start, area.end);
            next = end;
            let old = before.areas.find_in(start, end);
            let old = match old {
                Some(old) if is_same(old.vma, area.vma, &mut objects)? => Some(old),
                _ => None,
            };
            let mut vma = VmaBox::try_copy(area.vma)?;
            let touched = vma.anon().is_some();
            let mut owner = old.and_then(|old| old.vma.anon());
            if let Some(old) = old {
                inherit(&mut vma, old.vma)?;
                guards.copy(&before.guards, start, end)?;
                // One VMA in the earlier model, two in the map: most likely different anon_vmas
                // keep them apart.
                let divided =
                    last == Some((start, old.start)) && self.kept_apart(start, owner, &vma);
                if divided {
                    owner = None;
                }
                last = Some((end, old.start));
            }
            if touched && owner.is_none() {
                owner = Some(AnonVma::inferred(&mut self.next_anon));
            }
            vma.anon.set(owner);
            self.areas.replace(start, vma)?;
        }
        self.guards = guards;
        self.areas.open_locks();
        Ok(())
    }

    /// Returns `true` if the VMA that ends at `start` would merge with one with these attributes if
    /// they had the same anon_vma.
    fn kept_apart(&self, start: u64, owner: Option<AnonVma>, vma: &Vma) -> bool {
        let lower: Option<Area<'_>> = self.areas.before(start);
        owner.is_some()
            && lower.is_some_and(|lower| {
                lower.end == start && lower.vma.anon() == owner && continues(lower.vma, vma)
            })
    }
}

/// Shared anonymous objects: the engine's number of each, and the kernel's as the map shows it.
#[derive(Debug, Default)]
struct Objects(Vec<(u64, FileId)>);

impl Objects {
    /// Returns `true` if the map may show this object under this number: neither has been matched
    /// with another.
    fn agree(&mut self, own: u64, shown: FileId) -> Result<bool, Errno> {
        let known = self.0.iter().find(|pair| pair.0 == own || pair.1 == shown);
        if let Some(pair) = known {
            return Ok(*pair == (own, shown));
        }
        self.0.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        self.0.push((own, shown));
        Ok(true)
    }
}

/// Returns `true` for shared anonymous memory, which the map shows as a file with a name that no
/// file mapped shared has.
fn is_shared_anonymous(shown: &File) -> bool {
    &*shown.name == "/dev/zero (deleted)" || shown.name.starts_with("[anon_shmem:")
}

/// Returns `true` for memory of the pool of huge pages without a file of the program's. The kernel
/// makes a file for it.
fn is_anonymous_huge(shown: &File) -> bool {
    &*shown.name == "/anon_hugepage (deleted)"
}

/// Returns `true` if a VMA of the map may be the one that the earlier model had there.
fn is_same(old: &Vma, new: &Vma, objects: &mut Objects) -> Result<bool, Errno> {
    let alike = || {
        old.shift == new.shift
            && old.flags.contains(VmFlags::MAYSHARE) == new.flags.contains(VmFlags::MAYSHARE)
    };
    let object = match (&old.backing, &new.backing) {
        (Backing::Anonymous, Backing::Anonymous) => return Ok(true),
        (Backing::File(a), Backing::File(b)) if is_anonymous_huge(a) && is_anonymous_huge(b) => {
            return Ok(alike() && objects.agree(a.id.inode, b.id)?);
        }
        (Backing::File(a), Backing::File(b)) => a.id == b.id,
        (Backing::Shm { segment, .. }, Backing::File(b)) => segment.file.id == b.id,
        (Backing::SharedAnonymous(a), Backing::File(b)) => {
            return Ok(is_shared_anonymous(b) && alike() && objects.agree(a.id(), b.id)?);
        }
        (Backing::SharedAnonymous(_), Backing::SharedAnonymous(_)) => true,
        (Backing::Special(a), Backing::Special(b)) => a == b,
        _ => false,
    };
    Ok(object && alike())
}

/// Gives a VMA of the map what the earlier model knew of it.
fn inherit(new: &mut Vma, old: &Vma) -> Result<(), Errno> {
    if let (Backing::SharedAnonymous(_), Backing::File(shown)) = (&old.backing, &new.backing) {
        new.name = given_name(&shown.name).map(try_str).transpose()?;
    }
    new.backing = old.backing.clone();
    new.shift = old.shift;
    new.policy = old.policy;
    if new.flags.pkey() == 0 {
        new.flags = new.flags.with_pkey(old.flags.pkey());
    }
    if new.flags.intersects(VmFlags::UFFD) {
        new.uffd = old.uffd;
    }
    Ok(())
}
