//! Which files a process may have pages of.
//!
//! Whoever cuts pages off a file has to find them in all tables. Most processes have none of that file, and to look at all of their areas for it takes long. So
//! each remembers in a few words of which files a fault has ever brought in a page: a Bloom filter with one hash. It may say yes where the answer is no, never the
//! other way.

use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::process::file::inode::Inode;

const WORDS: usize = 8;
const BITS: u32 = WORDS as u32 * usize::BITS;

/// The files of which a process may have pages, private copies among them.
pub(crate) struct FileFilter([AtomicUsize; WORDS]);

impl FileFilter {
    pub(crate) const fn new() -> Self {
        FileFilter([const { AtomicUsize::new(0) }; WORDS])
    }

    /// Comes before the lock of the file's cache is taken to map a page of it.
    #[inline]
    pub(crate) fn add(&self, inode: &Inode) {
        let (word, bit) = self.place(inode);
        // Relaxed: who cuts pages off takes that lock before he asks. Either he finds this, or the page was mapped after that, as the file is now.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Whether there may be a page of the file. False stays right for all pages that were cut off before.
    pub(crate) fn may_have(&self, inode: &Inode) -> bool {
        let (word, bit) = self.place(inode);
        word.load(Ordering::Relaxed) & bit != 0
    }

    /// A child gets its parent's pages. No fault of the parent's maps one meanwhile.
    pub(crate) fn inherit(&self, parent: &Self) {
        for (own, parents) in self.0.iter().zip(&parent.0) {
            // Relaxed: who cuts pages off visits the child after the parent, and the parent when the fork is over.
            own.store(parents.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// The file's bit. A file keeps its address as long as any area maps it.
    fn place(&self, inode: &Inode) -> (&AtomicUsize, usize) {
        // Fibonacci hashing: the high bits of the product depend on all of the address.
        let product = (ptr::from_ref(inode).addr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let number = (product >> (64 - BITS.trailing_zeros())) as u32;
        let word = &self.0[(number / usize::BITS) as usize % WORDS];
        (word, 1 << (number % usize::BITS))
    }
}
