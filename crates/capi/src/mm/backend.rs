//! `struct mm_backend` and `struct mm_contents`: notification of the caller about the effects of a
//! call, which the caller may refuse.

use core::ffi::c_int;
use std::sync::OnceLock;

use samara_mm::{Area, Backing, Errno, Object, PageAdvice, Pages, SyncFlags, VmFlags, Vma, abi};

use crate::mm::abi::{MmBackend, MmContents};
use crate::mm::file::open_of;

/// The caller's functions for one address space.
#[derive(Debug)]
pub(crate) struct BackendHooks {
    backend: MmBackend,
    /// Set later, once.
    contents: OnceLock<MmContents>,
}

// SAFETY: the header permits any thread to call any function, so that the caller's functions must
// tolerate that, too. The context is only passed on.
unsafe impl Send for BackendHooks {}
// SAFETY: as above.
unsafe impl Sync for BackendHooks {}

impl BackendHooks {
    pub(crate) fn new(backend: &MmBackend) -> Self {
        BackendHooks {
            backend: *backend,
            contents: OnceLock::new(),
        }
    }

    /// Sets the functions for contents.
    ///
    /// # Errors
    ///
    /// `EBUSY` if they have been set before.
    pub(crate) fn name(&self, contents: &MmContents) -> Result<(), Errno> {
        self.contents.set(*contents).map_err(|_| Errno::EBUSY)
    }

    /// Returns the owner of the pages for one call.
    pub(crate) fn backend(&self) -> Backend {
        Backend(self.backend, self.contents.get().copied())
    }
}

/// The caller's functions during one call.
#[derive(Debug)]
pub(crate) struct Backend(MmBackend, Option<MmContents>);

/// Converts the return value of a caller's function: a negative one is a refusal.
fn answer(number: c_int) -> Result<(), Errno> {
    if number < 0 {
        Err(Errno(number.saturating_neg()))
    } else {
        Ok(())
    }
}

/// Returns the number of advice that may change the content of pages, or their accessibility. Other
/// advice is not reported.
fn libc_advice(advice: PageAdvice) -> Option<c_int> {
    Some(match advice {
        PageAdvice::DontNeed => abi::MADV_DONTNEED,
        PageAdvice::Free => abi::MADV_FREE,
        PageAdvice::Remove => abi::MADV_REMOVE,
        PageAdvice::GuardInstall => abi::MADV_GUARD_INSTALL,
        PageAdvice::GuardRemove => abi::MADV_GUARD_REMOVE,
        _ => return None,
    })
}

fn prot(vma: &Vma) -> c_int {
    (vma.flags & VmFlags::ACCESS).bits() as c_int
}

/// Returns the flags with which `mmap` would create such an area, without `MAP_FIXED`.
fn flags(vma: &Vma) -> c_int {
    let mut flags = if vma.flags.contains(VmFlags::MAYSHARE) {
        abi::MAP_SHARED
    } else {
        abi::MAP_PRIVATE
    };
    for (given, flag) in [
        (VmFlags::GROWSDOWN, abi::MAP_GROWSDOWN),
        (VmFlags::NORESERVE, abi::MAP_NORESERVE),
        (VmFlags::LOCKED, abi::MAP_LOCKED),
    ] {
        if vma.flags.contains(given) {
            flags |= flag;
        }
    }
    if !matches!(vma.backing, Backing::File(_)) {
        flags |= abi::MAP_ANONYMOUS;
    }
    flags as c_int
}

impl Pages for Backend {
    fn refuses(&self) -> bool {
        true
    }

    fn map(&mut self, start: u64, end: u64, vma: &Vma) -> Result<(), Errno> {
        let Some(map) = self.0.map else {
            return Ok(());
        };
        let (file, offset) = match &vma.backing {
            Backing::File(file) => (open_of(file), (start >> 12).wrapping_add(vma.shift) << 12),
            _ => (core::ptr::null_mut(), 0),
        };
        // SAFETY: the caller's function and context. The file is valid as long as the area exists.
        answer(unsafe { map(self.0.ctx, start, end, prot(vma), flags(vma), file, offset) })
    }

    fn unmap(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        let Some(unmap) = self.0.unmap else {
            return Ok(());
        };
        // SAFETY: the caller's function and context.
        answer(unsafe { unmap(self.0.ctx, start, end) })
    }

    fn protect(&mut self, start: u64, end: u64, vma: &Vma) -> Result<(), Errno> {
        let Some(protect) = self.0.protect else {
            return Ok(());
        };
        // SAFETY: as above.
        answer(unsafe { protect(self.0.ctx, start, end, prot(vma)) })
    }

    fn relocate(&mut self, from: u64, to: u64, len: u64) -> Result<(), Errno> {
        let Some(relocate) = self.0.r#move else {
            return Ok(());
        };
        // SAFETY: as above.
        answer(unsafe { relocate(self.0.ctx, from, to, len) })
    }

    fn advise(&mut self, start: u64, end: u64, _: &Vma, advice: PageAdvice) -> Result<(), Errno> {
        let (Some(discard), Some(advice)) = (self.1.and_then(|c| c.discard), libc_advice(advice))
        else {
            return Ok(());
        };
        // SAFETY: as above.
        answer(unsafe { discard(self.0.ctx, start, end, advice) })
    }

    /// Does nothing: the caller's memory exists when it is used.
    fn populate(&mut self, _: u64, _: u64, _: &Area<'_>, _: bool) -> Result<(), Errno> {
        Ok(())
    }

    fn sync(&mut self, start: u64, end: u64, _: &Vma, flags: SyncFlags) -> Result<(), Errno> {
        let Some(sync) = self.1.and_then(|contents| contents.sync) else {
            return Ok(());
        };
        // SAFETY: as above.
        answer(unsafe { sync(self.0.ctx, start, end, flags.bits() as c_int) })
    }

    /// Returns none: the tables provide the object, if there are any.
    fn object(&mut self, _: u64) -> Result<Object, Errno> {
        Ok(Object::none())
    }
}
