//! Areas, and everything as text.

use core::ffi::{c_char, c_int};
use core::fmt::{self, Write};
use core::ptr;

use samara_mm::{Errno, MapsLine, VmFlags};

use crate::mm::abi::MmArea;
use crate::mm::code;
use crate::mm::lifecycle::Mm;

/// Text as `snprintf` gives it: cut short, with a zero at the end, and the length of all of it.
struct Text {
    to: *mut u8,
    /// Bytes that there is room for, the zero included.
    size: usize,
    length: usize,
}

impl Text {
    /// # Safety
    /// `to` has room for `size` bytes.
    unsafe fn new(to: *mut c_char, size: usize) -> Self {
        let size = if to.is_null() { 0 } else { size };
        Text {
            to: to.cast(),
            size,
            length: 0,
        }
    }

    /// The length of all, without the zero.
    fn end(self) -> usize {
        if let Some(last) = self.size.checked_sub(1) {
            // SAFETY: within the `size` bytes of `new`.
            unsafe { self.to.add(last.min(self.length)).write(0) };
        }
        self.length
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.size.saturating_sub(1).saturating_sub(self.length);
        let fits = room.min(text.len());
        if fits > 0 {
            // SAFETY: `length + fits` is less than `size`, for which `new` was promised room.
            unsafe { ptr::copy_nonoverlapping(text.as_ptr(), self.to.add(self.length), fits) };
        }
        self.length = self.length.saturating_add(text.len());
        Ok(())
    }
}

pub(crate) fn area_of(line: &MapsLine<'_>) -> MmArea {
    let mut name = [0; 64];
    for (to, byte) in name[..63].iter_mut().zip(line.name.bytes()) {
        *to = byte as c_char;
    }
    MmArea {
        start: line.start,
        end: line.end,
        offset: line.offset,
        prot: (line.flags & VmFlags::ACCESS).bits() as c_int,
        shared: line.flags.contains(VmFlags::MAYSHARE),
        inode: line.id.inode,
        vm_flags: line.flags.bits(),
        name,
    }
}

/// The area that holds an address, or the first above it.
///
/// # Safety
/// `mm` is an address space; `area` points to the structure or is NULL.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_find(mm: *mut Mm, addr: u64, area: *mut MmArea) -> bool {
    // SAFETY: the caller's duty.
    let found = unsafe { mm.as_ref() }.and_then(|mm| mm.space.find(addr));
    let Some(found) = found else {
        return false;
    };
    if !area.is_null() {
        // SAFETY: the caller's duty.
        unsafe { area.write(found) };
    }
    true
}

/// The text of `/proc/PID/maps`, as `snprintf`.
///
/// # Safety
/// `mm` is an address space; `text` has room for `size` bytes, or is NULL.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_maps(mm: *mut Mm, text: *mut c_char, size: usize) -> usize {
    // SAFETY: the caller's duty.
    let mut text = unsafe { Text::new(text, size) };
    // SAFETY: the caller's duty.
    let Some(mm) = (unsafe { mm.as_ref() }) else {
        return text.end();
    };
    mm.space.with_map(&mut |map| {
        for line in map.maps() {
            // `Text` takes everything.
            let _ = writeln!(text, "{line}");
        }
    });
    text.end()
}

/// The text of `/proc/PID/smaps`, as `snprintf`.
///
/// # Safety
/// `mm` is an address space; `text` has room for `size` bytes, or is NULL.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_smaps(mm: *mut Mm, text: *mut c_char, size: usize) -> usize {
    // SAFETY: the caller's duty.
    let mut text = unsafe { Text::new(text, size) };
    // SAFETY: the caller's duty.
    if let Some(mm) = unsafe { mm.as_ref() } {
        // `Text` takes everything.
        let _ = mm.space.smaps(&mut text);
    }
    text.end()
}

/// Whether all invariants hold: 0, or `-EINVAL` and why in words.
///
/// # Safety
/// `mm` is an address space; `why` has room for `size` bytes, or is NULL.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_check(mm: *mut Mm, why: *mut c_char, size: usize) -> c_int {
    // SAFETY: the caller's duty.
    let checked = match unsafe { mm.as_ref() } {
        Some(mm) => mm.space.check(),
        None => Err("there is no address space".into()),
    };
    let Err(reason) = checked else {
        return 0;
    };
    // SAFETY: the caller's duty.
    let mut text = unsafe { Text::new(why, size) };
    let _ = text.write_str(&reason);
    text.end();
    code(Errno::EINVAL)
}
