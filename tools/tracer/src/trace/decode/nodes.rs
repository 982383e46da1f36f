//! The node masks that `mbind` takes.

use samara_linux::Tid;
use samara_linux::memory;

use crate::trace::entry::Entry;
use crate::trace::filter::mark;

/// A node mask in the memory of the caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeMask {
    pointer: u64,
    /// One more than the number of bits that the kernel reads.
    count: u64,
    /// `true` for a mask of the i386 table, with words of 32 bits.
    narrow: bool,
}

/// The kernel's view of a node mask in `mbind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nodes {
    These(u64),
    /// Nodes above 63, too, which a smaller machine does not have. The upper half of these 64 bits
    /// encodes them on a machine that has none of those either: other nodes give other bits.
    Beyond(u64),
    /// The mask is too long, cannot be read, or names nodes that no kernel has.
    Refused,
}

impl NodeMask {
    pub(crate) fn of(entry: &Entry) -> Self {
        NodeMask {
            pointer: entry.args[3],
            count: entry.args[4],
            narrow: entry.is_i386(),
        }
    }

    pub(crate) fn read(self, tid: Tid) -> Nodes {
        self.read_by(|at, half| {
            if half {
                memory::read_half(tid, at).ok()
            } else {
                memory::read_word(tid, at).ok()
            }
        })
    }

    /// Reads the mask by `word`, which reads a word at an address, or half of one.
    fn read_by(self, mut word: impl FnMut(u64, bool) -> Option<u64>) -> Nodes {
        // The kernel accepts up to a page of words. Debian's kernels know 1024 nodes
        // (CONFIG_NODES_SHIFT). They check for nodes above that from the end (observed).
        const LONGEST: u64 = 4096 * 8;
        const KNOWN: u64 = 1024 / 64;
        /// Digits of the golden ratio.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        if self.pointer == 0 {
            return Nodes::These(0);
        }
        let bits = match self.count.checked_sub(1) {
            Some(bits @ 0..=LONGEST) => bits,
            _ => return Nodes::Refused,
        };
        let (mut first, mut beyond) = (0, None);
        for index in (0..bits.div_ceil(64)).rev() {
            let used = bits - index * 64;
            let half = self.narrow && used <= 32;
            let Some(word) = word(self.pointer.wrapping_add(8 * index), half) else {
                return Nodes::Refused;
            };
            let word = match used {
                // Of the words above the known nodes, the table of 64 bits reads all bits.
                0..64 if self.narrow || index < KNOWN => word & ((1 << used) - 1),
                _ => word,
            };
            match index {
                0 => first = word,
                KNOWN.. if word != 0 => return Nodes::Refused,
                // The mask may contain any number of them.
                _ if word == 0 => {}
                _ => {
                    let spread = word.wrapping_mul(SPREAD.rotate_left(index as u32) | 1);
                    beyond = Some(spread.wrapping_add(beyond.unwrap_or(0)));
                }
            }
        }
        match beyond {
            None => Nodes::These(first),
            Some(spread) => Nodes::Beyond(first ^ (spread ^ spread << 32) >> 33 << 32 | 1 << 63),
        }
    }
}

/// Returns the node mask that a call names.
pub(crate) fn nodes_at(entry: &Entry) -> Option<NodeMask> {
    let is_mbind = entry.mark != mark::X32 && entry.nr as i64 == libc::SYS_mbind;
    (is_mbind && entry.args[3] != 0).then(|| NodeMask::of(entry))
}
