//! The kernel's view of areas in smaps, in the engine's terms.

use std::collections::HashMap;
use std::io;

use samara_linux::Tid;
use samara_linux::maps::AreaInfo;
use samara_linux::smaps::{Figures, Smaps, each_flags};
use samara_mm::{FileId, VmFlags};

/// Returns the flags that smaps shows, each with the start of its area. They include the protection
/// key, which has a line of its own in smaps.
pub(crate) fn vm_flags(tid: Tid) -> io::Result<Vec<(u64, VmFlags)>> {
    let mut flags = Vec::new();
    each_flags(tid, &mut |start, letters, key| {
        flags.push((start, VmFlags::from_smaps(letters) | protection_key(key)));
    })?;
    Ok(flags)
}

/// Returns the flags and the sizes of all areas of an smaps, in order.
pub fn of_smaps(smaps: &Smaps) -> Vec<(VmFlags, Figures)> {
    // Few of the texts differ.
    let mut known: HashMap<&str, VmFlags> = HashMap::new();
    let told = smaps.told.iter().map(|&(flags, figures)| {
        let letters = smaps.letters(flags);
        let decoded = known
            .entry(letters)
            .or_insert_with(|| VmFlags::from_smaps(letters));
        (*decoded | protection_key(flags.key), figures)
    });
    told.collect()
}

/// Returns the number of a protection key as flags.
fn protection_key(number: u64) -> VmFlags {
    let bits = number << VmFlags::PKEY.bits().trailing_zeros();
    VmFlags::from_bits_retain(bits) & VmFlags::PKEY
}

/// Returns the file that an area maps.
pub(crate) fn file_id(info: &AreaInfo) -> FileId {
    FileId {
        major: info.major,
        minor: info.minor,
        inode: info.inode,
    }
}
