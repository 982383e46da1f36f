//! Areas, and address spaces as text.

use core::ffi::{c_char, c_int};
use core::fmt::{self, Write};
use core::ptr;

use samara_mm::{Errno, MapsLine, VmFlags};

use crate::mm::abi::MmArea;
use crate::mm::code;
use crate::mm::lifecycle::Mm;

/// Text in the manner of `snprintf`: truncated, with a terminating zero, and the length of the
/// whole text.
struct Text {
    to: *mut u8,
    /// The size of the buffer, including the zero.
    size: usize,
    length: usize,
}

impl Text {
    /// Creates a text that is written to a buffer.
    ///
    /// # Safety
    ///
    /// `to` has space for `size` bytes.
    unsafe fn new(to: *mut c_char, size: usize) -> Self {
        let size = if to.is_null() { 0 } else { size };
        Text {
            to: to.cast(),
            size,
            length: 0,
        }
    }

    /// Returns the length of the whole text, without the zero.
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
            // SAFETY: `length + fits` is less than `size`, and the caller of `new` promised that
            // much space.
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

/// Finds the area that contains an address, or the first above it.
///
/// # Safety
///
/// `mm` is an address space. `area` points to the structure or is NULL.
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

/// Writes the text of `/proc/PID/maps`, like `snprintf`.
///
/// # Safety
///
/// `mm` is an address space. `text` has space for `size` bytes, or is NULL.
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
            // Writing to `Text` does not fail.
            let _ = writeln!(text, "{line}");
        }
    });
    text.end()
}

/// Writes the text of `/proc/PID/smaps`, like `snprintf`.
///
/// # Safety
///
/// `mm` is an address space. `text` has space for `size` bytes, or is NULL.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_smaps(mm: *mut Mm, text: *mut c_char, size: usize) -> usize {
    // SAFETY: the caller's duty.
    let mut text = unsafe { Text::new(text, size) };
    // SAFETY: the caller's duty.
    if let Some(mm) = unsafe { mm.as_ref() } {
        // Writing to `Text` does not fail.
        let _ = mm.space.smaps(&mut text);
    }
    text.end()
}

/// Checks all invariants. Returns 0, or `-EINVAL` and the reason in words.
///
/// # Safety
///
/// `mm` is an address space. `why` has space for `size` bytes, or is NULL.
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
