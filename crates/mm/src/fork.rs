//! The map of a child.

use crate::errno::Errno;
use crate::flags::VmFlags;
use crate::space::{AddressSpace, Counters};
use crate::vmas::Vmas;

impl AddressSpace {
    /// The address space of a child made by `fork(2)`: areas marked `MADV_DONTFORK` are left out, locks are not inherited, and
    /// every touched area gets an owner of private pages of its own.
    ///
    /// Areas that have been written must have been noted before.
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails; nothing of the child is left.
    pub fn fork(&mut self) -> Result<AddressSpace, Errno> {
        let mut child = AddressSpace {
            vmas: Vmas::new(),
            config: self.config.clone(),
            limits: self.limits,
            layout: self.layout,
            future_locked: VmFlags::empty(),
            pkeys: self.pkeys,
            next_anon: self.next_anon,
            next_object: self.next_object,
            counters: Counters::default(),
        };
        for area in self.vmas.iter() {
            if area.vma.flags.contains(VmFlags::DONTCOPY) {
                continue;
            }
            let mut vma = area.vma.try_clone()?;
            vma.flags -= VmFlags::LOCKED_MASK;
            vma.uffd = None;
            vma.flags -= VmFlags::UFFD;
            if vma.flags.contains(VmFlags::WIPEONFORK) {
                vma.anon = None;
            } else if vma.anon.is_some() {
                vma.anon = Some(child.new_forked_anon());
            }
            child.vmas.put(area.start, area.end, vma)?;
        }
        Ok(child)
    }
}
