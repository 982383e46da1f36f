//! The memory in a record of process accounting (`acct(5)`).

use crate::flags::PAGE_SIZE;
use crate::space::AddressSpace;

/// The accounted memory of a process: all mapped memory, in KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acct {
    kib: u64,
}

impl Acct {
    /// Returns the mapped memory in KiB, present or not.
    pub const fn kib(self) -> u64 {
        self.kib
    }

    /// Returns the value in the record (`ac_mem`, a `comp_t`): 13 bits, and a power of 8 in the
    /// three above, rounded. The highest value stands for all larger ones.
    pub const fn ac_mem(self) -> u16 {
        const MANTISSA: u64 = 0x1fff;
        let (mut value, mut exponent, mut round) = (self.kib, 0, false);
        while value > MANTISSA {
            round = value & 4 != 0;
            value >>= 3;
            exponent += 1;
        }
        if round {
            value += 1;
            if value > MANTISSA {
                value >>= 3;
                exponent += 1;
            }
        }
        if exponent > 7 {
            return u16::MAX;
        }
        (exponent << 13) | value as u16
    }
}

impl AddressSpace {
    /// Returns the accounted memory of the map. O(1).
    ///
    /// ```
    /// # use samara_mm::{AddressSpace, Config, Layout, Limits, MmapOptions};
    /// let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
    /// space.mmap(&MmapOptions::anonymous(100 << 20))?;
    /// assert_eq!(space.acct().kib(), 102_400);
    /// assert_eq!(space.acct().ac_mem(), 2 << 13 | 1600); // 1600 times 8 times 8
    /// # Ok::<(), samara_mm::Errno>(())
    /// ```
    pub fn acct(&self) -> Acct {
        Acct {
            kib: self.page_counts().total * (PAGE_SIZE >> 10),
        }
    }
}
