//! The traces of hypotheses that were given up: the ranges in which they differed. Also the ranges
//! for which no hypothesis can be made, because nothing reports what happens there.
//!
//! A difference that is there later, and that such an assumption may have explained, is undecided: it is counted, and is no mistake of the engine's that
//! anybody could show.

use samara_mm::Call;

use crate::orderings::Range;
use crate::undecided::Unknown;

/// The most ranges that are kept. Beyond that the oldest are forgotten, and a difference there is a
/// disagreement.
const RANGES: usize = 1024;

/// A range, and what is not known of it.
type Doubt = (Range, Unknown);

/// Ranges of which something is not known, oldest first. Those of one reason that touch are one.
#[derive(Debug, Clone, Default)]
pub(super) struct Doubts(Vec<Doubt>);

impl Doubts {
    /// Notes ranges whose areas may have other owners.
    pub(super) fn note(&mut self, ranges: &[Range]) {
        for range in ranges {
            self.note_for(*range, Unknown::Writes);
        }
    }

    /// Notes a range, and why.
    pub(super) fn note_for(&mut self, range: Range, unknown: Unknown) {
        let mut all = range;
        self.0.retain(|&((start, end), reason)| {
            let touches = reason == unknown && start <= range.1 && range.0 <= end;
            if touches {
                all = (all.0.min(start), all.1.max(end));
            }
            !touches
        });
        self.0.push((all, unknown));
        let more = self.0.len().saturating_sub(RANGES);
        self.0.drain(..more);
    }

    /// Returns `true` if anything in this range may have another owner, or is not known for another reason.
    pub(super) fn touch(&self, range: Range) -> bool {
        self.of(range).next().is_some()
    }

    /// Returns what is not known of anything in this range.
    pub(super) fn of(&self, range: Range) -> impl Iterator<Item = Unknown> {
        self.within(range).map(|(_, unknown)| unknown)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Goes along with what a call has mapped, moved and removed.
    pub(super) fn follow(&mut self, call: &Call, returned: i64) {
        if self.0.is_empty() || (-4095..0).contains(&returned) {
            return;
        }
        const DONTUNMAP: u64 = 4;
        let to = |from: u64, len: u64| {
            (
                from,
                from.saturating_add(len.checked_next_multiple_of(0x1000).unwrap_or(len)),
            )
        };
        let place = returned as u64;
        match *call {
            Call::Munmap { addr, len } => self.forget(to(addr, len)),
            Call::Mmap { len, .. } => self.forget(to(place, len)),
            Call::Mremap {
                old_addr,
                old_len,
                new_len,
                ..
            } if place == old_addr => {
                let (_, end) = to(old_addr, old_len);
                let (_, left) = to(old_addr, new_len);
                self.forget((left, end.max(left)));
            }
            Call::Mremap {
                old_addr,
                old_len,
                new_len,
                flags,
                ..
            } => {
                let old = to(old_addr, old_len);
                let there = |address: u64| (address - old.0).saturating_add(place);
                let moved: Vec<Doubt> = self
                    .within(old)
                    .map(|((start, end), unknown)| ((there(start), there(end)), unknown))
                    .collect();
                if flags & DONTUNMAP == 0 {
                    self.forget(old);
                }
                self.forget(to(place, new_len));
                for (range, unknown) in moved {
                    self.note_for(range, unknown);
                }
            }
            _ => {}
        }
    }

    /// Returns the parts of the ranges that lie in one.
    fn within(&self, of: Range) -> impl Iterator<Item = Doubt> {
        let parts = self.0.iter();
        let parts = parts.map(move |&((start, end), why)| ((start.max(of.0), end.min(of.1)), why));
        parts.filter(|((start, end), _)| start < end)
    }

    /// The contents of the range are new.
    fn forget(&mut self, gone: Range) {
        let rest = |&((start, end), unknown): &Doubt| {
            [(start, end.min(gone.0)), (start.max(gone.1), end)]
                .into_iter()
                .filter(|(start, end)| start < end)
                .map(move |range| (range, unknown))
        };
        if gone.0 < gone.1 {
            self.0 = self.0.iter().flat_map(rest).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 0x1000;

    fn ranges(doubts: &Doubts) -> Vec<Range> {
        doubts.0.iter().map(|(range, _)| *range).collect()
    }

    fn doubts(ranges: &[Range]) -> Doubts {
        let mut doubts = Doubts::default();
        doubts.note(ranges);
        doubts
    }

    #[test]
    fn doubts_go_where_the_memory_goes() {
        let mut doubts = doubts(&[(PAGE, 9 * PAGE)]);
        let munmap = Call::Munmap {
            addr: 4 * PAGE,
            len: 1,
        };
        doubts.follow(&munmap, -22);
        assert_eq!(ranges(&doubts), [(PAGE, 9 * PAGE)]);
        doubts.follow(&munmap, 0);
        assert_eq!(ranges(&doubts), [(PAGE, 4 * PAGE), (5 * PAGE, 9 * PAGE)]);
        let mremap = |old_addr, old_len, new_len, flags| Call::Mremap {
            old_addr,
            old_len,
            new_len,
            flags,
            new_addr: 0,
        };
        // Less in its place, and then elsewhere with more room.
        doubts.follow(&mremap(5 * PAGE, 4 * PAGE, 2 * PAGE, 0), 5 * PAGE as i64);
        assert_eq!(ranges(&doubts), [(PAGE, 4 * PAGE), (5 * PAGE, 7 * PAGE)]);
        doubts.follow(&mremap(2 * PAGE, PAGE, 4 * PAGE, 1), 100 * PAGE as i64);
        let rest = [
            (PAGE, 2 * PAGE),
            (3 * PAGE, 4 * PAGE),
            (5 * PAGE, 7 * PAGE),
            (100 * PAGE, 101 * PAGE),
        ];
        assert_eq!(ranges(&doubts), rest);
        doubts.follow(&mremap(5 * PAGE, 2 * PAGE, 2 * PAGE, 5), 200 * PAGE as i64);
        let touched = |page| doubts.touch((page * PAGE, (page + 1) * PAGE));
        assert_eq!(
            [6, 7, 199, 200, 201, 202].map(touched),
            [true, false, false, true, true, false]
        );
        // Nothing is known of new memory but what the call says of it.
        let mmap = Call::Mmap {
            addr: 0,
            len: 300 * PAGE,
            prot: 3,
            flags: 0x32,
            file: samara_mm::FileArg::None,
            offset: 0,
        };
        doubts.follow(&mmap, 0);
        assert!(doubts.is_empty());
    }

    #[test]
    fn lengths_may_be_any() {
        let mut doubts = doubts(&[(PAGE, 9 * PAGE)]);
        let mremap = Call::Mremap {
            old_addr: 3 * PAGE,
            old_len: u64::MAX,
            new_len: u64::MAX - 1,
            flags: 0,
            new_addr: 0,
        };
        doubts.follow(&mremap, 3 * PAGE as i64);
        assert!(doubts.touch((PAGE, 9 * PAGE)));
    }

    #[test]
    fn ranges_of_one_reason_that_touch_are_one() {
        let mut doubts = doubts(&[(PAGE, 2 * PAGE), (3 * PAGE, 4 * PAGE)]);
        doubts.note_for((2 * PAGE, 3 * PAGE), Unknown::Argument);
        assert_eq!(doubts.0.len(), 3);
        doubts.note(&[(2 * PAGE, 3 * PAGE)]);
        let all = ((PAGE, 4 * PAGE), Unknown::Writes);
        assert_eq!(doubts.0, [((2 * PAGE, 3 * PAGE), Unknown::Argument), all]);
        let of: Vec<Unknown> = doubts.of((2 * PAGE, 3 * PAGE)).collect();
        assert_eq!(of, [Unknown::Argument, Unknown::Writes]);
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut doubts = Doubts::default();
        for at in 0..2 * RANGES as u64 {
            doubts.note(&[(2 * at * PAGE, (2 * at + 1) * PAGE)]);
        }
        assert_eq!(doubts.0.len(), RANGES);
        assert!(!doubts.touch((0, PAGE)) && doubts.touch((0, u64::MAX)));
    }
}
