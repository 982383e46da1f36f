//! What no map shows, taken over from the model that was followed before.
//!
//! A model that has parted from the process is built anew from the process's map. That shows neither who owns private pages nor which open
//! file is mapped, not what was attached, set aside or promised to areas to come: all of it is in the former model.

use alloc::vec::Vec;

use crate::errno::Errno;
use crate::file::{File, FileId};
use crate::flags::VmFlags;
use crate::heap::boxed::try_str;
use crate::space::guards::Guards;
use crate::space::merge::continues;
use crate::space::vma::{AnonVma, Area, Backing, Vma};
use crate::space::vma_box::VmaBox;
use crate::space::{AddressSpace, given_name};

impl AddressSpace {
    /// Takes over from `before`, an earlier model of the same process, what a map does not show: owners of private pages, open file
    /// descriptions, attachments, policies, protection keys, guard markers and poison, and what holds for areas to come. The map stays as it is: where
    /// it has something else than `before` had there, nothing is taken over. O(n log n).
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails; some areas may have been done then.
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
        // Where the last area ends, and where that began from which it took over.
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
                // One area there, two here: what kept them apart is most likely the owner.
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

    /// Whether the area that ends at `start` would continue in one with these attributes if they had one owner.
    fn kept_apart(&self, start: u64, owner: Option<AnonVma>, vma: &Vma) -> bool {
        let lower: Option<Area<'_>> = self.areas.before(start);
        owner.is_some()
            && lower.is_some_and(|lower| {
                lower.end == start && lower.vma.anon() == owner && continues(lower.vma, vma)
            })
    }
}

/// Shared anonymous objects by their numbers here, and what the map shows for each: the kernel numbers them, too, but otherwise.
#[derive(Debug, Default)]
struct Objects(Vec<(u64, FileId)>);

impl Objects {
    /// Can it be this object that is shown so? What was taken for another one cannot.
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

/// The map calls shared anonymous memory a file, by a name that no file has which is mapped shared.
fn is_shared_anonymous(shown: &File) -> bool {
    &*shown.name == "/dev/zero (deleted)" || shown.name.starts_with("[anon_shmem:")
}

/// Memory of the pool of huge pages that is no file of the program's, of which the kernel makes one all the same.
fn is_anonymous_huge(shown: &File) -> bool {
    &*shown.name == "/anon_hugepage (deleted)"
}

/// Whether an area of the map can be what the former model had there.
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

/// Gives an area of the map what the former model knew of it.
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
