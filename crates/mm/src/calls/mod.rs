//! The door through which every call enters, and one file for each family of calls.
//!
//! A file holds what is peculiar to its family: Linux's order of checks and errors, and which areas become what. `unmap` (`munmap.rs`),
//! `map_region` (`mmap.rs`) and the walk over the parts of a range (`parts.rs`) are shared by several. `learn` tells which facts about pages a call depends on.

mod brk;
mod learn;
mod madvise;
mod mbind;
mod mincore;
mod mlock;
mod mmap;
mod mprotect;
mod mremap;
mod mseal;
mod msync;
mod munmap;
mod name;
mod parts;
mod pkeys;
mod remap_file_pages;
mod shm;

use crate::call::Call;
use crate::errno::Errno;
use crate::facts::Facts;
use crate::space::AddressSpace;

impl AddressSpace {
    /// Validates and performs `call`; the result is what the system call returns: an address, 0, or an error.
    ///
    /// # Errors
    /// Linux's, in Linux's order of checks. `ENOMEM` also when an allocation for the map itself fails; nothing has then
    /// changed beyond what Linux leaves in that case.
    pub fn perform(&mut self, call: &Call, facts: &mut dyn Facts) -> Result<u64, Errno> {
        self.run(call, None, facts)
    }

    /// Like [`perform`](Self::perform), but a mapping whose place the kernel chooses goes to `address`: for following a kernel
    /// that chose otherwise.
    ///
    /// # Errors
    /// As [`perform`](Self::perform).
    pub fn perform_at(
        &mut self,
        call: &Call,
        address: u64,
        facts: &mut dyn Facts,
    ) -> Result<u64, Errno> {
        self.run(call, Some(address), facts)
    }

    fn run(
        &mut self,
        call: &Call,
        forced: Option<u64>,
        facts: &mut dyn Facts,
    ) -> Result<u64, Errno> {
        if facts.informed() {
            self.learn(call, forced, facts);
        }
        match call {
            Call::Mmap {
                addr,
                len,
                prot,
                flags,
                file,
                offset,
            } => self.mmap(*addr, *len, *prot, *flags, file, *offset, forced),
            Call::Munmap { addr, len } => self.munmap(*addr, *len),
            Call::Mprotect {
                addr,
                len,
                prot,
                pkey,
            } => self.mprotect(*addr, *len, *prot, *pkey),
            Call::Brk { addr } => Ok(self.brk(*addr)),
            Call::Mremap {
                old_addr,
                old_len,
                new_len,
                flags,
                new_addr,
            } => self.mremap(*old_addr, *old_len, *new_len, *flags, *new_addr, forced),
            Call::Madvise { addr, len, advice } => self.madvise(*addr, *len, *advice),
            Call::Mlock { addr, len, flags } => self.mlock(*addr, *len, *flags),
            Call::Munlock { addr, len } => self.munlock(*addr, *len),
            Call::Mlockall { flags } => self.mlockall(*flags),
            Call::Munlockall => self.munlockall(),
            Call::Msync { addr, len, flags } => self.msync(*addr, *len, *flags),
            Call::Mincore { addr, len } => self.mincore(*addr, *len),
            Call::Mseal { addr, len, flags } => self.mseal(*addr, *len, *flags),
            Call::RemapFilePages {
                addr,
                len,
                prot,
                pgoff,
                flags,
            } => self.remap_file_pages(*addr, *len, *prot, *pgoff, *flags),
            Call::Shmat {
                segment,
                addr,
                flags,
            } => self.shmat(segment.as_ref(), *addr, *flags, forced),
            Call::Shmdt { addr } => self.shmdt(*addr),
            Call::SetVmaName { addr, len, name } => self.set_vma_name(*addr, *len, name.as_deref()),
            Call::Mbind {
                addr,
                len,
                mode,
                nodes,
                flags,
            } => self.mbind(*addr, *len, *mode, *nodes, *flags),
            Call::PkeyAlloc { flags, rights } => self.pkey_alloc(*flags, *rights),
            Call::PkeyFree { pkey } => self.pkey_free(*pkey),
        }
    }
}
