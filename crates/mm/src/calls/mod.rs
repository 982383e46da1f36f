//! The entry point of every call, and one file for each family of calls.
//!
//! A file holds what is specific to its family: Linux's order of checks and errors, and the changes
//! of VMAs. Several families share `unmap` (`munmap.rs`), `map_region` (`mmap.rs`) and the walk
//! over the parts of a range (`parts.rs`). `advice` has the values of `madvise`, `file_flags` the
//! rules of files. `learn` finds the facts about pages that a call depends on. `typed` has methods
//! with types for arguments.
//!
//! `calls` uses `space`, and `space` knows nothing of calls.

mod advice;
mod brk;
mod file_flags;
mod huge;
mod learn;
mod madvise;
mod mbind;
mod mincore;
mod mlock;
pub(crate) mod mmap;
mod mprotect;
mod mremap;
mod mseal;
mod msync;
mod munmap;
mod name;
mod parts;
mod pkeys;
mod prctl;
mod process_madvise;
mod remap_file_pages;
mod shm;
pub(crate) mod typed;
mod uffd;

use crate::abi::KnownAdvice;
use crate::call::Call;
use crate::calls::mmap::MmapRequest;
use crate::config::Layout;
use crate::errno::Errno;
use crate::pages::{NoPages, Pages};
use crate::space::AddressSpace;
use crate::space::in_call::InCall;

impl AddressSpace {
    /// Validates and performs `call`. Returns what the system call returns: an address, 0, or an
    /// error. For programs that report each [`fault`](Self::fault), so that no owner of the pages
    /// is asked.
    ///
    /// # Errors
    /// Linux's, in Linux's order of checks. `ENOMEM` also if an allocation for the map itself
    /// fails; then nothing has changed beyond what Linux leaves in that case.
    #[inline]
    pub fn perform(&mut self, call: &Call) -> Result<u64, Errno> {
        let result = self.perform_without_owner(call);
        self.end_call();
        result
    }

    /// Performs a call without an owner of the pages, and does not end it. `perform` is inlined
    /// into its callers and this is not, so that a call has one stack frame less, in whatever crate
    /// it is made.
    #[inline(never)]
    fn perform_without_owner(&mut self, call: &Call) -> Result<u64, Errno> {
        self.dispatch_inline(call, None, &mut NoPages)
    }

    /// As [`perform`](Self::perform), with an owner of the pages: it is asked what the call depends
    /// on, and notified of what the call does.
    ///
    /// # Errors
    /// As [`perform`](Self::perform), and those of the owner.
    pub fn perform_with<P: Pages + ?Sized>(
        &mut self,
        call: &Call,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        InCall(self).0.perform_closed(call, pages)
    }

    /// As [`perform_with`](Self::perform_with), for an owner that has something left to do before
    /// faults see the new map: the caller calls [`end_call`](Self::end_call) afterwards.
    ///
    /// # Errors
    /// As [`perform_with`](Self::perform_with).
    pub(crate) fn perform_closed<P: Pages + ?Sized>(
        &mut self,
        call: &Call,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        if pages.informed() {
            self.learn(call, None, pages);
        }
        self.attempt(call, None, pages)
    }

    /// As [`perform_with`](Self::perform_with), but a mapping whose address the kernel chooses goes
    /// to `address`: for following a kernel that chose otherwise.
    ///
    /// # Errors
    /// As [`perform_with`](Self::perform_with).
    pub fn perform_at<P: Pages + ?Sized>(
        &mut self,
        call: &Call,
        address: u64,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        let under_way = InCall(self);
        let space = &mut *under_way.0;
        if pages.informed() {
            space.learn(call, Some(address), pages);
        }
        space.attempt(call, Some(address), pages)
    }

    /// Performs a call completely or not at all if the owner may refuse. The locks of VMAs stay
    /// closed, so that no fault comes between a call and its undoing.
    fn attempt<P: Pages + ?Sized>(
        &mut self,
        call: &Call,
        forced: Option<u64>,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        if pages.refuses() && notifies(call) {
            self.refusable(pages, |space, pages| space.dispatch(call, forced, pages))
        } else {
            self.dispatch(call, forced, pages)
        }
    }

    /// Dispatches a call. Each frequent call has a stack frame of its own, so that the deepest one
    /// does not determine the size for all.
    #[inline(never)]
    fn dispatch<P: Pages + ?Sized>(
        &mut self,
        call: &Call,
        forced: Option<u64>,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        match call {
            Call::Mmap { .. } => self.mmap_outlined(call, forced, pages),
            Call::Munmap { addr, len } => self.munmap_outlined(*addr, *len, pages),
            Call::Mprotect {
                addr,
                len,
                prot,
                pkey,
            } => self.mprotect_outlined(*addr, *len, *prot, *pkey, pages),
            Call::Brk { addr } => self.brk_outlined(*addr, pages),
            Call::Mremap { .. } => self.mremap_outlined(call, forced, pages),
            Call::Madvise { addr, len, advice } => self.do_madvise(*addr, *len, *advice, pages),
            _ => self.dispatch_other(call, forced, pages),
        }
    }

    #[inline(never)]
    fn mmap_outlined<P: Pages + ?Sized>(
        &mut self,
        call: &Call,
        forced: Option<u64>,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        let Call::Mmap {
            addr,
            len,
            prot,
            flags,
            file,
            offset,
        } = call
        else {
            return Err(Errno::EINVAL);
        };
        self.do_mmap(
            MmapRequest {
                addr: *addr,
                len: *len,
                protection: *prot,
                flags: *flags,
                file,
                offset: *offset,
                forced,
            },
            pages,
        )
    }

    #[inline(never)]
    fn munmap_outlined<P: Pages + ?Sized>(
        &mut self,
        addr: u64,
        len: u64,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        self.do_munmap(addr, len, pages)
    }

    #[inline(never)]
    fn mprotect_outlined<P: Pages + ?Sized>(
        &mut self,
        addr: u64,
        len: u64,
        prot: u64,
        pkey: i32,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        self.do_mprotect(addr, len, prot, pkey, pages)
    }

    #[inline(never)]
    fn brk_outlined<P: Pages + ?Sized>(&mut self, addr: u64, pages: &mut P) -> Result<u64, Errno> {
        Ok(self.do_brk(addr, pages))
    }

    #[inline(never)]
    fn mremap_outlined<P: Pages + ?Sized>(
        &mut self,
        call: &Call,
        forced: Option<u64>,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        let Call::Mremap {
            old_addr,
            old_len,
            new_len,
            flags,
            new_addr,
        } = call
        else {
            return Err(Errno::EINVAL);
        };
        self.do_mremap(
            *old_addr, *old_len, *new_len, *flags, *new_addr, forced, pages,
        )
    }

    /// As [`dispatch`](Self::dispatch), with frequent calls inlined.
    #[inline(always)]
    fn dispatch_inline<P: Pages + ?Sized>(
        &mut self,
        call: &Call,
        forced: Option<u64>,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        match call {
            Call::Mmap {
                addr,
                len,
                prot,
                flags,
                file,
                offset,
            } => self.do_mmap(
                MmapRequest {
                    addr: *addr,
                    len: *len,
                    protection: *prot,
                    flags: *flags,
                    file,
                    offset: *offset,
                    forced,
                },
                pages,
            ),
            Call::Munmap { addr, len } => self.do_munmap(*addr, *len, pages),
            Call::Mprotect {
                addr,
                len,
                prot,
                pkey,
            } => self.do_mprotect(*addr, *len, *prot, *pkey, pages),
            Call::Brk { addr } => Ok(self.do_brk(*addr, pages)),
            Call::Mremap {
                old_addr,
                old_len,
                new_len,
                flags,
                new_addr,
            } => self.do_mremap(
                *old_addr, *old_len, *new_len, *flags, *new_addr, forced, pages,
            ),
            _ => self.dispatch_other(call, forced, pages),
        }
    }

    /// Dispatches the other calls.
    #[inline(never)]
    fn dispatch_other<P: Pages + ?Sized>(
        &mut self,
        call: &Call,
        forced: Option<u64>,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        match call {
            Call::Madvise { addr, len, advice } => self.do_madvise(*addr, *len, *advice, pages),
            Call::ProcessMadvise {
                ranges,
                advice,
                flags,
            } => self.process_madvise(ranges, *advice, int(*flags), pages),
            Call::Mlock { addr, len, flags } => self.do_mlock(*addr, *len, int(*flags), pages),
            Call::Munlock { addr, len } => self.do_munlock(*addr, *len),
            Call::Mlockall { flags } => self.do_mlockall(int(*flags), pages),
            Call::Munlockall => self.do_munlockall(),
            Call::Msync { addr, len, flags } => self.do_msync(*addr, *len, int(*flags), pages),
            Call::Mincore { addr, len } => self.mincore(*addr, *len),
            Call::Mseal { addr, len, flags } => self.do_mseal(*addr, *len, *flags),
            Call::RemapFilePages {
                addr,
                len,
                prot,
                pgoff,
                flags,
            } => self.remap_file_pages(*addr, *len, *prot, *pgoff, *flags, pages),
            Call::Shmat {
                segment,
                addr,
                flags,
            } => self.do_shmat(segment.as_ref(), *addr, *flags, forced, pages),
            Call::Shmdt { addr } => self.do_shmdt(*addr, pages),
            Call::SetVmaName { addr, len, name } => self.set_vma_name(*addr, *len, name.as_deref()),
            Call::Mbind {
                addr,
                len,
                mode,
                nodes,
                flags,
            } => self.mbind(*addr, *len, int(*mode), *nodes, int(*flags), pages),
            Call::SetMempolicyHomeNode {
                addr,
                len,
                home,
                flags,
            } => self.set_home_node(*addr, *len, *home, *flags),
            Call::PkeyAlloc { flags, rights } => self.pkey_alloc(*flags, *rights),
            Call::PkeyFree { pkey } => self.pkey_free(*pkey),
            Call::SetMdwe { bits } => self.set_mdwe(*bits),
            Call::SetMemoryMerge { on } => self.set_memory_merge(*on != 0, pages),
            Call::UffdRegister {
                context,
                asynchronous,
                addr,
                len,
                mode,
            } => self.uffd_register(*context, *asynchronous, *addr, *len, *mode),
            Call::UffdUnregister {
                context,
                asynchronous,
                addr,
                len,
            } => self.uffd_unregister(*context, *asynchronous, *addr, *len),
            Call::UffdClose { context } => self.uffd_close(*context),
            Call::SetMm {
                start_brk,
                brk,
                data_size,
                stack_top,
            } => self.set_mm(Layout {
                start_brk: *start_brk,
                brk: *brk,
                data_size: *data_size,
                stack_top: *stack_top,
                ..self.layout
            }),
            // The two functions above dispatch these.
            Call::Mmap { .. }
            | Call::Munmap { .. }
            | Call::Mprotect { .. }
            | Call::Brk { .. }
            | Call::Mremap { .. } => Err(Errno::EINVAL),
        }
    }
}

/// Returns the part of a register that a call sees of an argument of type `int`: the lower half.
fn int(argument: u64) -> u64 {
    argument & 0xffff_ffff
}

/// Returns `true` if the owner of the pages may refuse something of which such a call notifies it.
fn notifies(call: &Call) -> bool {
    match call {
        Call::Mmap { .. }
        | Call::Munmap { .. }
        | Call::Mprotect { .. }
        | Call::Brk { .. }
        | Call::Mremap { .. }
        | Call::RemapFilePages { .. }
        | Call::Shmat { .. }
        | Call::Shmdt { .. }
        | Call::SetMemoryMerge { on: 0 } => true,
        Call::Madvise { advice, .. } | Call::ProcessMadvise { advice, .. } => {
            KnownAdvice::new(*advice).is_some_and(KnownAdvice::notifies)
        }
        Call::Mlock { .. }
        | Call::Munlock { .. }
        | Call::Mlockall { .. }
        | Call::Munlockall
        | Call::Msync { .. }
        | Call::Mincore { .. }
        | Call::Mseal { .. }
        | Call::SetVmaName { .. }
        | Call::Mbind { .. }
        | Call::SetMempolicyHomeNode { .. }
        | Call::PkeyAlloc { .. }
        | Call::PkeyFree { .. }
        | Call::SetMdwe { .. }
        | Call::SetMemoryMerge { .. }
        | Call::UffdRegister { .. }
        | Call::UffdUnregister { .. }
        | Call::UffdClose { .. }
        | Call::SetMm { .. } => false,
    }
}
