//! Structures written field by field.

/// Consecutive fields, little-endian.
pub(super) struct Fields<const N: usize> {
    pub(super) bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Fields<N> {
    pub(super) fn new() -> Self {
        Fields {
            bytes: [0; N],
            at: 0,
        }
    }

    /// Appends a field. Bytes beyond the end are dropped: each structure here has its length.
    pub(super) fn put(mut self, field: &[u8]) -> Self {
        if let Some(place) = self.bytes.get_mut(self.at..self.at + field.len()) {
            place.copy_from_slice(field);
        }
        self.at += field.len();
        self
    }

    pub(super) fn half(self, number: u16) -> Self {
        self.put(&number.to_le_bytes())
    }

    pub(super) fn word(self, number: u32) -> Self {
        self.put(&number.to_le_bytes())
    }

    pub(super) fn long(self, number: u64) -> Self {
        self.put(&number.to_le_bytes())
    }

    /// Continues at this offset of the structure.
    pub(super) fn to(mut self, at: usize) -> Self {
        self.at = at;
        self
    }
}
