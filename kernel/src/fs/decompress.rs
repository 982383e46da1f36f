//! Decompression of archives: gzip and zstd.

use alloc::vec::Vec;

use ruzstd::decoding::FrameDecoder;
use samara_mm::Errno;
use zune_inflate::DeflateDecoder;

/// Decompresses an archive. Returns `None` if it is not compressed.
///
/// # Errors
///
/// `EINVAL` if it cannot be decompressed; `ENOMEM`.
pub(super) fn unpacked(bytes: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
    match bytes {
        [0x1f, 0x8b, 8, ..] => gzip(bytes).map(Some),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => zstd(bytes).map(Some),
        _ => Ok(None),
    }
}

fn gzip(bytes: &[u8]) -> Result<Vec<u8>, Errno> {
    DeflateDecoder::new(bytes).decode_gzip().map_err(|_| Errno::EINVAL)
}

fn zstd(bytes: &[u8]) -> Result<Vec<u8>, Errno> {
    let mut out = Vec::new();
    let mut decoder = FrameDecoder::new();
    // A frame need not tell its decompressed size, so the buffer grows until the content fits.
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
