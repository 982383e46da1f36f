//! Splitting, removing and changing the regions of a range. Nothing here can fail, since the caller
//! makes capacity first.

use crate::array::RegionType;
use crate::region::{NodeId, Region, capped_end};
use crate::{Error, Flags};

/// The regions that contain an end of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Splits {
    None,
    /// One end is inside a region.
    One,
    /// The two ends are inside two regions.
    Two,
    /// Both ends are inside the same region.
    OneInTwo,
}

impl Splits {
    pub(crate) fn count(self) -> usize {
        match self {
            Splits::None => 0,
            Splits::One => 1,
            Splits::Two | Splits::OneInTwo => 2,
        }
    }
}

impl RegionType {
    /// Returns the splits that isolating `base..end` needs.
    pub(crate) fn splits(&self, base: u64, end: u64) -> Splits {
        let through = |addr: u64| {
            let i = self.first_ending_after(addr);
            (i < self.len() && self[i].base < addr).then_some(i)
        };
        match (through(base), through(end)) {
            (None, None) => Splits::None,
            (Some(a), Some(b)) if a == b => Splits::OneInTwo,
            (Some(_), Some(_)) => Splits::Two,
            _ => Splits::One,
        }
    }

    /// Splits the region that contains `addr` and begins before it, if any. There is capacity.
    pub(crate) fn split_at(&mut self, addr: u64) {
        let i = self.first_ending_after(addr);
        let Some(r) = self.as_slice().get(i).copied().filter(|r| r.base < addr) else {
            return;
        };
        let upper = Region {
            base: addr,
            size: r.end() - addr,
            ..r
        };
        self.storage()[i].size = addr - r.base;
        // `insert_at` adds the size, which is part of the total already. Both together may exceed
        // the address space.
        *self.total_mut() -= upper.size;
        self.insert_at(i + 1, upper);
    }

    /// Removes `base..end`. One memmove. There is capacity if a region is cut in two.
    pub(crate) fn remove_range(&mut self, base: u64, end: u64) {
        let (mut first, past) = (self.first_ending_after(base), self.first_from(end));
        if first >= past {
            return;
        }
        let (low, high) = (self[first], self[past - 1]);
        if first + 1 == past && low.base < base && end < low.end() {
            self.storage()[first].size = base - low.base;
            *self.total_mut() -= low.size;
            *self.total_mut() += base - low.base;
            self.insert_at(
                past,
                Region {
                    base: end,
                    size: low.end() - end,
                    ..low
                },
            );
            return;
        }
        let removed: u64 = self[first..past]
            .iter()
            .map(|r| r.end().min(end) - r.base.max(base))
            .sum();
        let mut last = past;
        if end < high.end() {
            last -= 1;
            self.storage()[last] = Region {
                base: end,
                size: high.end() - end,
                ..high
            };
        }
        if low.base < base {
            self.storage()[first].size = base - low.base;
            first += 1;
        }
        *self.total_mut() -= removed;
        self.drain(first, last);
    }

    /// Applies `set` to all regions within `base..end`, whose ends no region crosses, and merges
    /// neighbours that then agree.
    pub(crate) fn set(&mut self, base: u64, end: u64, set: impl Fn(&mut Region)) {
        let (first, past) = (self.first_from(base), self.first_from(end));
        self.storage()[first..past].iter_mut().for_each(set);
        self.merge_around(base, end);
    }

    /// Sets the node of the regions within `base .. base + size`, in an array that does not grow.
    ///
    /// # Errors
    ///
    /// [`Error::ArrayFull`] if there is no capacity to split regions. Nothing has changed then.
    pub fn set_node(&mut self, base: u64, size: u64, nid: NodeId) -> Result<(), Error> {
        let end = capped_end(base, size);
        if base == end {
            return Ok(());
        }
        if !self.has_capacity(self.splits(base, end).count()) {
            return Err(Error::ArrayFull);
        }
        self.split_at(base);
        self.split_at(end);
        self.set(base, end, |r| r.nid = nid.canonical());
        Ok(())
    }

    /// Returns `true` if any region has one of `flags`.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add_node(0x1000, 0x1000, NodeId(0), Flags::NOMAP)?;
    /// assert!(boot.memory().any_with(Flags::NOMAP) && !boot.memory().any_with(Flags::MIRROR));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn any_with(&self, flags: Flags) -> bool {
        self.iter().any(|r| r.flags.intersects(flags))
    }
}
