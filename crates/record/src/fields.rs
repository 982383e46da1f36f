//! The smallest parts of a record: numbers and texts.

use alloc::vec::Vec;

/// Appends a number: seven bits per byte, the lowest first.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a number that may be negative.
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, (value << 1 ^ value >> 63) as u64);
}

/// Appends a text, preceded by its length.
pub fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// A reader of fields. Every method returns `None` if the bytes end or are invalid.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    /// All bytes.
    pub bytes: &'a [u8],
    /// The number of bytes read.
    pub at: usize,
}

impl<'a> Fields<'a> {
    /// Reads a byte.
    #[inline]
    pub fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// Reads a number.
    #[inline]
    pub fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        let mut shift = 0;
        loop {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
            shift += 7;
            if shift > 63 {
                return None;
            }
        }
    }

    /// Reads a number of 32 bits.
    pub fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    /// Reads a number that may be negative.
    pub fn signed(&mut self) -> Option<i64> {
        let value = self.number()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Reads a flag, 0 or 1.
    pub fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// Reads a text of any bytes.
    pub fn raw(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let text = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(text)
    }

    /// Reads a text in UTF-8.
    pub fn text(&mut self) -> Option<&'a str> {
        core::str::from_utf8(self.raw()?).ok()
    }

    /// Reads a count of items that take at least one byte each. A larger count is rejected, so that
    /// damaged bytes cannot request much memory.
    pub fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.bytes.len() - self.at).then_some(count)
    }
}
