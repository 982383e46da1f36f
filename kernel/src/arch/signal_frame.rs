//! The common part of the architectures' signal frames.

use crate::process::signals::SigContext;

/// The offsets of the common fields.
pub struct Offsets {
    pub info: usize,
    /// The alternate stack: three words.
    pub altstack: usize,
    pub mask: usize,
}

/// The bytes of a signal frame.
pub struct SigFrame<const SIZE: usize>(pub [u8; SIZE]);

impl<const SIZE: usize> SigFrame<SIZE> {
    pub fn new(offsets: &Offsets, interrupted: &SigContext) -> Self {
        let mut bytes = SigFrame([0; SIZE]);
        bytes.0[offsets.info..offsets.info + 128].copy_from_slice(&interrupted.info);
        let (base, flags, size) = interrupted.altstack;
        bytes.put_all(offsets.altstack, [base, flags as u32 as u64, size]);
        bytes.put(offsets.mask, interrupted.mask);
        bytes
    }

    pub fn put(&mut self, at: usize, word: u64) {
        self.0[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }

    /// Writes consecutive words.
    pub fn put_all(&mut self, at: usize, words: impl IntoIterator<Item = u64>) {
        words.into_iter().enumerate().for_each(|(i, word)| self.put(at + 8 * i, word));
    }

    pub fn get(&self, at: usize) -> u64 {
        u64::from_le_bytes(core::array::from_fn(|i| self.0[at + i]))
    }

    /// Reads consecutive words.
    pub fn get_all<'w>(&self, at: usize, words: impl IntoIterator<Item = &'w mut u64>) {
        words.into_iter().enumerate().for_each(|(i, word)| *word = self.get(at + 8 * i));
    }

    /// Returns the mask and the alternate stack.
    pub fn mask_and_altstack(&self, offsets: &Offsets) -> (u64, (u64, i32, u64)) {
        let word = |i: usize| self.get(offsets.altstack + 8 * i);
        (self.get(offsets.mask), (word(0), word(1) as i32, word(2)))
    }
}
