//! `struct mm_backend`: the caller is told what a call does, and may refuse.

use core::ffi::c_int;

use samara_mm::{Area, Backing, Discard, Errno, Object, Pages, SyncFlags, VmFlags, Vma, abi};

use crate::mm::abi::MmBackend;
use crate::mm::file::open_of;

/// The caller's functions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backend(pub(crate) MmBackend);

// SAFETY: the header lets any thread call any function, so that the caller's must bear that, too; the context is only handed on.
unsafe impl Send for Backend {}
// SAFETY: as above.
unsafe impl Sync for Backend {}

/// What a function of the caller's says: less than 0 is a refusal.
fn answer(number: c_int) -> Result<(), Errno> {
    if number < 0 {
        Err(Errno(number.saturating_neg()))
    } else {
        Ok(())
    }
}

fn prot(vma: &Vma) -> c_int {
    (vma.flags & VmFlags::ACCESS).bits() as c_int
}

/// The flags with which `mmap` would make such an area, but for `MAP_FIXED`.
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
        // SAFETY: the caller's function and context; the file is good as long as the area is.
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

    // Of what follows the header's functions are not told.

    fn discard(&mut self, _: u64, _: u64, _: &Vma, _: Discard) -> Result<(), Errno> {
        Ok(())
    }

    fn populate(&mut self, _: u64, _: u64, _: &Area<'_>, _: bool) -> Result<(), Errno> {
        Ok(())
    }

    fn sync(&mut self, _: u64, _: u64, _: &Vma, _: SyncFlags) -> Result<(), Errno> {
        Ok(())
    }

    fn object(&mut self, _: u64) -> Result<Object, Errno> {
        Ok(Object::none())
    }
}
