//! The door through which every call enters, and one file for each family of calls.
//!
//! A file holds what is peculiar to its family: Linux's order of checks and errors, and which areas become what. `unmap` (`munmap.rs`),
//! `map_region` (`mmap.rs`) and the walk over the parts of a range (`parts.rs`) are shared by several. `learn` tells which facts about pages a call depends on, `typed`
//! has types for arguments.

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
pub(crate) mod typed;

use crate::call::Call;
use crate::errno::Errno;
use crate::facts::Facts;
use crate::space::AddressSpace;

impl AddressSpace {
    /// Validates and performs `call`; the result is what the system call returns: an address, 0, or an error. For programs that report
    /// each fault ([`fault`](Self::fault)), so that nothing need be asked.
    ///
    /// # Errors
    /// Linux's, in Linux's order of checks. `ENOMEM` also when an allocation for the map itself fails; nothing has then
    /// changed beyond what Linux leaves in that case.
    pub fn perform(&mut self, call: &Call) -> Result<u64, Errno> {
        self.run(call, None)
    }

    /// As [`perform`](Self::perform), and asks for the facts about pages that the call depends on.
    ///
    /// # Errors
    /// As [`perform`](Self::perform).
    pub fn perform_with(&mut self, call: &Call, facts: &mut dyn Facts) -> Result<u64, Errno> {
        if facts.informed() {
            self.learn(call, None, facts);
        }
        self.run(call, None)
    }

    /// As [`perform_with`](Self::perform_with), but a mapping whose place the kernel chooses goes to `address`: for following a kernel
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
        if facts.informed() {
            self.learn(call, Some(address), facts);
        }
        self.run(call, Some(address))
    }

    fn run(&mut self, call: &Call, forced: Option<u64>) -> Result<u64, Errno> {
        match call {
            Call::Mmap {
                addr,
                len,
                prot,
                flags,
                file,
                offset,
            } => self.do_mmap(*addr, *len, *prot, *flags, file, *offset, forced),
            Call::Munmap { addr, len } => self.do_munmap(*addr, *len),
            Call::Mprotect {
                addr,
                len,
                prot,
                pkey,
            } => self.do_mprotect(*addr, *len, *prot, *pkey),
            Call::Brk { addr } => Ok(self.do_brk(*addr)),
            Call::Mremap {
                old_addr,
                old_len,
                new_len,
                flags,
                new_addr,
            } => self.do_mremap(*old_addr, *old_len, *new_len, *flags, *new_addr, forced),
            Call::Madvise { addr, len, advice } => self.do_madvise(*addr, *len, *advice),
            Call::Mlock { addr, len, flags } => self.do_mlock(*addr, *len, *flags),
            Call::Munlock { addr, len } => self.do_munlock(*addr, *len),
            Call::Mlockall { flags } => self.do_mlockall(*flags),
            Call::Munlockall => self.do_munlockall(),
            Call::Msync { addr, len, flags } => self.do_msync(*addr, *len, *flags),
            Call::Mincore { addr, len } => self.mincore(*addr, *len),
            Call::Mseal { addr, len, flags } => self.do_mseal(*addr, *len, *flags),
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
            } => self.do_shmat(segment.as_ref(), *addr, *flags, forced),
            Call::Shmdt { addr } => self.do_shmdt(*addr),
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
