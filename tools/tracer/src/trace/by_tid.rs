//! Tables by thread number. Several of them are searched at each stop.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use samara_linux::Tid;

/// A table by thread number. The kernel assigns these numbers in order, so a keyed hash would
/// defend against no attacker.
pub(crate) type ByTid<V> = HashMap<Tid, V, BuildHasherDefault<Spread>>;

/// The golden ratio, as a fraction of all words: its multiples lie far apart.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Debug, Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(GOLDEN);
        }
    }

    fn write_i32(&mut self, number: i32) {
        self.0 = (self.0 ^ u64::from(number as u32)).wrapping_mul(GOLDEN);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
