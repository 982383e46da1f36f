//! Structures that are written field by field.

/// Fields one after the other, little-endian.
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

    /// What does not fit is left out: each structure here has its length.
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

    /// Goes on at a place of the structure.
    pub(super) fn to(mut self, at: usize) -> Self {
        self.at = at;
        self
    }
}
