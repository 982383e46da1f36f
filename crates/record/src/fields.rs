//! The smallest parts of a record: numbers and texts.

use alloc::vec::Vec;

/// Appends a number: seven bits a byte, the lowest first.
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

/// Appends a text, with its length in front.
pub fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Reads fields; every method is `None` when the bytes end or make no sense.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    /// All bytes.
    pub bytes: &'a [u8],
    /// How many have been read.
    pub at: usize,
}

impl<'a> Fields<'a> {
    /// The next byte.
    #[inline]
    pub fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// A number.
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

    /// A number of 32 bits.
    pub fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    /// A number that may be negative.
    pub fn signed(&mut self) -> Option<i64> {
        let value = self.number()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// 0 or 1.
    pub fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// A text of any bytes.
    pub fn raw(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let text = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(text)
    }

    /// A text of UTF-8.
    pub fn text(&mut self) -> Option<&'a str> {
        core::str::from_utf8(self.raw()?).ok()
    }

    /// A count of things that take at least one byte each, so that a damaged one cannot ask for much memory.
    pub fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.bytes.len() - self.at).then_some(count)
    }
}
