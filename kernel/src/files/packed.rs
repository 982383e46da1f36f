//! Archives that are compressed: by gzip, or by zstd.

use alloc::vec::Vec;

use miniz_oxide::inflate::decompress_slice_iter_to_slice;
use ruzstd::decoding::FrameDecoder;
use samara_mm::Errno;

/// The bytes of an archive, unpacked if it is packed. `None`: it is not.
///
/// # Errors
/// `EINVAL` for what cannot be unpacked, `ENOMEM`.
pub(super) fn unpacked(bytes: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
    match bytes {
        [0x1f, 0x8b, 8, ..] => gzip(bytes).map(Some),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => zstd(bytes).map(Some),
        _ => Ok(None),
    }
}

fn room(len: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| Errno::ENOMEM)?;
    bytes.resize(len, 0);
    Ok(bytes)
}

/// One member, as RFC 1952 describes it. Its last four bytes are the length of what was packed.
fn gzip(bytes: &[u8]) -> Result<Vec<u8>, Errno> {
    const EXTRA: u8 = 4;
    const NAME: u8 = 8;
    const COMMENT: u8 = 16;
    const CHECKSUM: u8 = 2;
    let flags = *bytes.get(3).ok_or(Errno::EINVAL)?;
    let mut rest = bytes.get(10..).ok_or(Errno::EINVAL)?;
    if flags & EXTRA != 0 {
        let len = rest.first_chunk().map(|len| u16::from_le_bytes(*len)).ok_or(Errno::EINVAL)?;
        rest = rest.get(2 + usize::from(len)..).ok_or(Errno::EINVAL)?;
    }
    for flag in [NAME, COMMENT] {
        if flags & flag != 0 {
            let end = rest.iter().position(|&byte| byte == 0).ok_or(Errno::EINVAL)?;
            rest = &rest[end + 1..];
        }
    }
    if flags & CHECKSUM != 0 {
        rest = rest.get(2..).ok_or(Errno::EINVAL)?;
    }
    // A loader may hand over some zeroes behind the archive, and the length may end with some.
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    for end in end..end + 4 {
        let tail = end.checked_sub(4).and_then(|start| bytes.get(start..end)?.first_chunk());
        let Some(len) = tail.map(|len| u32::from_le_bytes(*len) as usize) else { continue };
        // Nothing is packed more than a thousandfold.
        if len / 1032 > bytes.len() {
            continue;
        }
        let Ok(mut out) = room(len) else { continue };
        let done = decompress_slice_iter_to_slice(&mut out, [rest].into_iter(), false, true);
        if done == Ok(len) {
            return Ok(out);
        }
    }
    Err(Errno::EINVAL)
}

fn zstd(bytes: &[u8]) -> Result<Vec<u8>, Errno> {
    let mut out = Vec::new();
    let mut decoder = FrameDecoder::new();
    // How long it will be stands in the frame, mostly. Until there is room enough, more is made.
    let mut len = bytes.len().saturating_mul(4);
    loop {
        out.try_reserve_exact(len).map_err(|_| Errno::ENOMEM)?;
        match decoder.decode_all_to_vec(bytes, &mut out) {
            Ok(()) => return Ok(out),
            Err(_) if len < bytes.len().saturating_mul(256) => {
                out.clear();
                len *= 2;
            }
            Err(_) => return Err(Errno::EINVAL),
        }
    }
}
