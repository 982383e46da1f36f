//! The smallest parts of a record: numbers and texts.

pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, (value << 1 ^ value >> 63) as u64);
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Reads fields; every method is `None` when the bytes end or make no sense.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Fields<'a> {
    #[inline]
    pub(super) fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    #[inline]
    pub(super) fn number(&mut self) -> Option<u64> {
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

    pub(super) fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    pub(super) fn signed(&mut self) -> Option<i64> {
        let value = self.number()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(super) fn raw(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let text = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(text)
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.raw()?).ok()
    }

    /// A count of things that take at least one byte each, so that a damaged one cannot ask for much memory.
    pub(super) fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.bytes.len() - self.at).then_some(count)
    }
}
