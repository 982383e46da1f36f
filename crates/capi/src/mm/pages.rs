//! Faults, copies, translations, and page status.

use core::ffi::{c_int, c_uint, c_void};
use core::slice;

use samara_mm::process::{Access, Fault};
use samara_mm::{Errno, Prot};

use crate::mm::abi::{MM_EXEC, MM_READ, MM_WRITE};
use crate::mm::code;
use crate::mm::lifecycle::Mm;

/// Handles a fault of the program. Returns 0, a signal with its code, or `-ENOMEM`.
///
/// # Safety
///
/// `mm` is an address space. `si_code` points to an int or is NULL.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_fault(
    mm: *mut Mm,
    addr: u64,
    access: c_uint,
    si_code: *mut c_int,
) -> c_int {
    // SAFETY: the caller's duty.
    let Some(mm) = (unsafe { mm.as_ref() }) else {
        return code(Errno::EINVAL);
    };
    let mut wanted = Access::empty();
    for (bit, one) in [
        (MM_READ, Access::READ),
        (MM_WRITE, Access::WRITE),
        (MM_EXEC, Access::EXEC),
    ] {
        if access & bit != 0 {
            wanted |= one;
        }
    }
    match take(mm, addr, wanted) {
        Ok(()) => 0,
        Err(Fault::Signal { signal, code }) => {
            if !si_code.is_null() {
                // SAFETY: the caller's duty.
                unsafe { si_code.write(code) };
            }
            signal.number()
        }
        Err(Fault::NoMemory) => code(Errno::ENOMEM),
        Err(Fault::Deadlock) => code(Errno::EDEADLK),
    }
}

/// Handles a fault, and notifies the backend of a stack that grows.
fn take(mm: &Mm, addr: u64, access: Access) -> Result<(), Fault> {
    match &mm.backend {
        Some(told) => mm.space.fault(addr, access, Some(&mut told.backend())),
        None => mm.space.fault(addr, access, None),
    }
}

/// Copies `len` bytes by `copy`, which copies a range of them. With a backend, which must be
/// notified of a growing stack, each page is faulted in before.
fn pieces(
    mm: &Mm,
    addr: u64,
    len: usize,
    access: Access,
    mut copy: impl FnMut(u64, core::ops::Range<usize>) -> usize,
) -> usize {
    if mm.backend.is_none() {
        return copy(addr, 0..len);
    }
    let mut done = 0;
    while done < len {
        let Some(at) = addr.checked_add(done as u64) else {
            break;
        };
        let piece = (len - done).min((4096 - at % 4096) as usize);
        if take(mm, at, access).is_err() {
            break;
        }
        let copied = copy(at, done..done + piece);
        done += copied;
        if copied < piece {
            break;
        }
    }
    done
}

/// Copies from the program's memory, like its own loads. Returns the number of bytes.
///
/// # Safety
///
/// `mm` is an address space. `to` has space for `len` bytes.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_copy_out(mm: *mut Mm, addr: u64, to: *mut c_void, len: usize) -> usize {
    // SAFETY: the caller's duty.
    let Some(mm) = (unsafe { mm.as_ref() }).filter(|_| len > 0 && !to.is_null()) else {
        return 0;
    };
    // No object is longer.
    let len = len.min(isize::MAX as usize);
    // SAFETY: the caller's duty.
    let to = unsafe { slice::from_raw_parts_mut(to.cast::<u8>(), len) };
    pieces(mm, addr, len, Access::READ, |at, range| {
        mm.space.copy_out(at, &mut to[range])
    })
}

/// Copies to the program's memory, like its own stores. Returns the number of bytes.
///
/// # Safety
///
/// `mm` is an address space. `from` has `len` bytes.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_copy_in(
    mm: *mut Mm,
    addr: u64,
    from: *const c_void,
    len: usize,
) -> usize {
    // SAFETY: the caller's duty.
    let Some(mm) = (unsafe { mm.as_ref() }).filter(|_| len > 0 && !from.is_null()) else {
        return 0;
    };
    // No object is longer.
    let len = len.min(isize::MAX as usize);
    // SAFETY: the caller's duty.
    let from = unsafe { slice::from_raw_parts(from.cast::<u8>(), len) };
    pieces(mm, addr, len, Access::WRITE, |at, range| {
        mm.space.copy_in(at, &from[range])
    })
}

/// Returns what the processor would find in the tables now.
///
/// # Safety
///
/// `mm` is an address space. `phys` and `prot` are valid for writes, or NULL.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_translate(
    mm: *mut Mm,
    addr: u64,
    phys: *mut u64,
    prot: *mut c_uint,
) -> c_int {
    // SAFETY: the caller's duty.
    let Some(mm) = (unsafe { mm.as_ref() }) else {
        return code(Errno::EINVAL);
    };
    let Some((at, allowed)) = mm.space.translate(addr) else {
        return code(Errno::ENOENT);
    };
    let mut bits = 0;
    for (one, bit) in [
        (Prot::READ, MM_READ),
        (Prot::WRITE, MM_WRITE),
        (Prot::EXEC, MM_EXEC),
    ] {
        if allowed.contains(one) {
            bits |= bit;
        }
    }
    // SAFETY: the caller's duties.
    unsafe {
        if !phys.is_null() {
            phys.write(at);
        }
        if !prot.is_null() {
            prot.write(bits);
        }
    }
    0
}

/// Returns the physical address of the top table, or 0 without pages.
///
/// # Safety
/// `mm` is an address space.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_root(mm: *mut Mm) -> u64 {
    // SAFETY: the caller's duty.
    unsafe { mm.as_ref() }.map_or(0, |mm| mm.space.root())
}

/// Returns what `/proc/PID/pagemap` reports about the page at an address: `MM_PAGE_…`.
///
/// # Safety
/// `mm` is an address space.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_page(mm: *mut Mm, addr: u64) -> c_uint {
    // SAFETY: the caller's duty.
    unsafe { mm.as_ref() }.map_or(0, |mm| mm.space.page(addr).bits())
}
