//! The format of a memory map, guessed from what is in the file.

use samara_memblock::firmware::{Problem, e820, iomem, uefi};

use super::source::Content;

/// First bytes of a flattened device tree.
const DEVICE_TREE: [u8; 4] = 0xd00d_feed_u32.to_be_bytes();

/// Returns the map if its format can be told. A boot log with both e820 and UEFI lines is taken for e820: that is what the kernel used.
pub(super) fn guess(bytes: Vec<u8>) -> Option<Content> {
    if bytes.starts_with(&DEVICE_TREE) {
        return Some(Content::DeviceTree(bytes));
    }
    // Text has no zero bytes, descriptors always have.
    if bytes.contains(&0) {
        let stride = uefi::Descriptors::guess_stride(&bytes)?;
        return Some(Content::UefiRaw(bytes, stride));
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if e820::lines(&text).any(|item| item.is_ok()) {
        Some(Content::E820Log(text))
    } else if uefi::lines(&text).any(|item| item.is_ok()) {
        Some(Content::UefiText(text))
    } else if iomem::lines(&text).any(|item| item.is_ok() || item == Err(Problem::Hidden)) {
        Some(Content::Iomem(text))
    } else if e820::lines(&text).next().is_some() {
        // Nothing but odd entries: loading says what is wrong with them.
        Some(Content::E820Log(text))
    } else if uefi::lines(&text).next().is_some() {
        Some(Content::UefiText(text))
    } else {
        None
    }
}
