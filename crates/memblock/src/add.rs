//! Addition of a range in one pass.
//!
//! No pass counts first. A range is inserted as far as the array has capacity. When the array is
//! full, the pass returns the address that it has reached and the number of regions still missing
//! ([`Incomplete`]). The array grows once, and the insertion resumes from that address.
//!
//! There are four cases, the cheapest first:
//! 1. The range lies after all others. One entry is written, and nothing is searched or moved.
//! 2. It lies within one region. Nothing changes. One search.
//! 3. All regions that it overlaps or touches have its flags and node. They become one region. One
//!    search, one memmove.
//! 4. It overlaps regions with other flags or nodes, which keep theirs. Only the gaps between them
//!    are inserted. One memmove makes space (at most one gap before each region and one after the
//!    last), and gaps and regions are laid into it. Then the unused space is closed and neighbours
//!    that agree are merged. Three memmoves.
//!
//! Only the last case can be incomplete when the array is full. The regions that it has inserted
//! carry [`Flags::PENDING`], and nothing has been merged. So [`RegionType::undo`] restores the
//! array exactly if growing fails.

use crate::array::RegionType;
use crate::region::{Flags, NodeId, Region};

/// The state of an insertion that filled the array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Incomplete {
    /// Everything below this address is in the array. Nothing from here on is.
    pub(crate) resume: u64,
    /// The number of regions that the rest needs.
    pub(crate) missing: usize,
}

impl RegionType {
    /// Inserts the parts of `from..end` that no region covers, as far as there is capacity.
    /// `from < end`.
    ///
    /// `Ok` means that everything is inserted and merged. After `Err`, the caller grows the array
    /// and calls again with `resume` as `from`, and then [`finish`](Self::finish). Or it gives up
    /// with [`undo`](Self::undo).
    #[inline]
    pub(crate) fn insert_until_full(
        &mut self,
        from: u64,
        end: u64,
        flags: Flags,
        nid: NodeId,
    ) -> Result<(), Incomplete> {
        let new = Region {
            base: from,
            size: end - from,
            flags,
            nid,
        };
        match self.as_slice().last() {
            Some(last) if from <= last.end() => self.insert_overlapping(new),
            _ => {
                let n = self.as_slice().len();
                if !self.has_capacity(1) {
                    return Err(Incomplete {
                        resume: from,
                        missing: 1,
                    });
                }
                self.storage()[n] = new;
                *self.len_mut() = n + 1;
                *self.total_mut() += new.size;
                Ok(())
            }
        }
    }

    fn insert_overlapping(&mut self, new: Region) -> Result<(), Incomplete> {
        let end = new.end();
        let regions = self.as_slice();
        let mut first = match regions.last() {
            Some(last) if last.base < new.base => regions.len() - 1,
            _ => self.first_reaching(new.base),
        };
        let mut past = first;
        let (mut low, mut high, mut replaced) = (new.base, end, 0);
        while let Some(r) = regions.get(past)
            && r.base <= end
        {
            if r.base <= new.base && end <= r.end() {
                return Ok(());
            }
            if r.attributes() != new.attributes() {
                if r.base == end {
                    break;
                }
                if r.end() > new.base {
                    return self.insert_gaps(new);
                }
                // This region only touches the range from below, and does not merge with it.
                first += 1;
            } else {
                low = low.min(r.base);
                high = high.max(r.end());
                replaced += r.size;
            }
            past += 1;
        }
        if first == past {
            if !self.has_capacity(1) {
                return Err(Incomplete {
                    resume: new.base,
                    missing: 1,
                });
            }
            self.insert_at(first, new);
            return Ok(());
        }
        self.storage()[first] = Region {
            base: low,
            size: high - low,
            ..new
        };
        *self.total_mut() += high - low - replaced;
        self.drain(first + 1, past);
        Ok(())
    }

    /// Inserts the gaps of case 4: at least one region with other attributes is overlapped.
    fn insert_gaps(&mut self, new: Region) -> Result<(), Incomplete> {
        let (base, end) = (new.base, new.end());
        let n = self.as_slice().len();
        let first = self.first_ending_after(base);
        let past = first + self.as_slice()[first..].partition_point(|r| r.base < end);
        let room = (past - first + 1).min(self.capacity() - n);

        // Entries `write..read` are the remaining space. `read..past` are the overlapped regions
        // that must still move down.
        let s = self.storage();
        s.copy_within(first..n, first + room);
        let (mut write, mut read, past) = (first, first + room, past + room);
        let (mut at, mut inserted, mut missing) = (base, 0, 0);
        let hole = |at: u64, until: u64| Region {
            base: at,
            size: until - at,
            flags: new.flags | Flags::PENDING,
            nid: new.nid,
        };
        while at < end {
            let next = if read < past { s[read].base } else { end };
            if at < next {
                if write == read {
                    missing = 1 + gaps_after(&s[read..past], end);
                    break;
                }
                s[write] = hole(at, next);
                inserted += next - at;
                write += 1;
                at = next;
            }
            if read < past {
                at = at.max(s[read].end());
                s[write] = s[read];
                write += 1;
                read += 1;
            }
        }
        if missing == 0 {
            s.copy_within(read..n + room, write);
        }
        *self.len_mut() = n + room - (read - write);
        *self.total_mut() += inserted;
        if missing > 0 {
            return Err(Incomplete {
                resume: at,
                missing,
            });
        }
        self.finish(base, end);
        Ok(())
    }

    /// Commits the regions that were inserted into `base..end`, and merges neighbours that agree.
    pub(crate) fn finish(&mut self, base: u64, end: u64) {
        self.merge(base, end, true);
    }

    /// Merges neighbours that agree within `base..end` and at its edges.
    pub(crate) fn merge_around(&mut self, base: u64, end: u64) {
        self.merge(base, end, false);
    }

    fn merge(&mut self, base: u64, end: u64, clear_pending: bool) {
        let n = self.as_slice().len();
        let lo = self.first_reaching(base);
        let s = self.storage();
        let (mut write, mut read) = (lo, lo);
        while read < n && s[read].base <= end {
            let mut r = s[read];
            read += 1;
            if clear_pending {
                r.flags.remove(Flags::PENDING);
            }
            if write > lo {
                let last = &mut s[write - 1];
                if last.end() == r.base && last.attributes() == r.attributes() {
                    last.size += r.size;
                    continue;
                }
            }
            s[write] = r;
            write += 1;
        }
        self.drain(write, read);
    }

    /// Removes the regions that an incomplete insertion has put into `base..end`.
    pub(crate) fn undo(&mut self, base: u64, end: u64) {
        let (lo, hi) = (self.first_ending_after(base), self.first_from(end));
        let s = self.storage();
        let (mut write, mut removed) = (lo, 0);
        for read in lo..hi {
            let r = s[read];
            if r.flags.contains(Flags::PENDING) {
                removed += r.size;
            } else {
                s[write] = r;
                write += 1;
            }
        }
        *self.total_mut() -= removed;
        self.drain(write, hi);
    }
}

/// Counts the gaps after the first of `regions` and up to `end`, without the gap before it.
fn gaps_after(regions: &[Region], end: u64) -> usize {
    let between = regions
        .windows(2)
        .filter(|w| w[0].end() < w[1].base)
        .count();
    between + usize::from(regions.last().is_some_and(|r| r.end() < end))
}
