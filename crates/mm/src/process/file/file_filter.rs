//! A filter of the files whose pages a process may have.
//!
//! Truncation must find the pages of a file in all tables. Most processes have none of that file,
//! and a search of all their VMAs takes long. So each process records the files of which a fault
//! has ever mapped a page, in a Bloom filter with one hash. The filter may have false positives,
//! but no false negatives.

use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::process::file::inode::Inode;

const WORDS: usize = 8;
const BITS: u32 = WORDS as u32 * usize::BITS;

/// The files of which a process may have pages, private copies included.
pub(crate) struct FileFilter([AtomicUsize; WORDS]);

impl FileFilter {
    pub(crate) const fn new() -> Self {
        FileFilter([const { AtomicUsize::new(0) }; WORDS])
    }

    /// Adds a file. Called before the lock of the file's cache is taken to map a page of it.
    #[inline]
    pub(crate) fn add(&self, inode: &Inode) {
        let (word, bit) = self.place(inode);
        // Relaxed: truncation takes that lock before it asks. Either it finds this bit, or the page
        // was mapped after truncation, from the truncated file.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Returns `true` if the process may have a page of the file. `false` stays right for all pages
    /// that were cut off before.
    pub(crate) fn may_have(&self, inode: &Inode) -> bool {
        let (word, bit) = self.place(inode);
        word.load(Ordering::Relaxed) & bit != 0
    }

    /// Adds the parent's files. No fault of the parent maps a page during the fork.
    pub(crate) fn inherit(&self, parent: &Self) {
        for (own, parents) in self.0.iter().zip(&parent.0) {
            // Relaxed: truncation visits the child after the parent, and the parent after the fork.
            own.store(parents.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Returns the word and the bit of a file. A file keeps its address as long as a VMA maps it.
    fn place(&self, inode: &Inode) -> (&AtomicUsize, usize) {
        // Fibonacci hashing: the high bits of the product depend on all bits of the address.
        let product = (ptr::from_ref(inode).addr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let number = (product >> (64 - BITS.trailing_zeros())) as u32;
        let word = &self.0[(number / usize::BITS) as usize % WORDS];
        (word, 1 << (number % usize::BITS))
    }
}
