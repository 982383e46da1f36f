//! Ranges of pages that were examined before a call, and the anonymous memory that they held.

use std::time::Duration;

use samara_conformance::checker::Evidence;
use samara_linux::pagemap::Pagemap;
use samara_mm::{AddressSpace, Call, Watch};

use super::faulting::Faulting;
use super::faulting::Faults;

/// The longest of the pauses in which a page fault may end. Each pause is twice as long as the one
/// before.
const LONGEST_PAUSE: Duration = Duration::from_millis(64);
/// The number of pauses in which a thread may run as long as a fault takes: eight seconds.
const PAUSES: u32 = 128;

/// The samples for the current call.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    /// In ascending order.
    list: Vec<Sample>,
    /// Ranges that were written at the entry, ascending.
    before: Vec<(u64, u64)>,
    /// Ranges that were written at the return, ascending.
    after: Vec<(u64, u64)>,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    start: u64,
    end: u64,
    written: bool,
}

impl Samples {
    /// Examines the pages on which the outcome of `call` depends.
    pub(crate) fn take(&mut self, engine: &AddressSpace, call: &Call, pagemap: &mut Pagemap) {
        self.list.clear();
        self.before.clear();
        self.after.clear();
        let list = &mut self.list;
        engine.facts_needed_where(call, &mut |start, end| {
            let at = match list.binary_search_by_key(&start, |sample| sample.start) {
                Ok(at) => at,
                Err(at) => {
                    list.insert(at, sample(start, end, pagemap));
                    at
                }
            };
            list[at].written
        });
        self.before.extend(
            self.list
                .iter()
                .filter(|sample| sample.written)
                .map(|sample| (sample.start, sample.end)),
        );
    }

    /// Examines the pages after the kernel has performed `call`, if the tracer did not see it
    /// begin. Pages that are found written may have been written before or since. Returns `true` if
    /// any are.
    pub(crate) fn take_late(
        &mut self,
        engine: &AddressSpace,
        call: &Call,
        pagemap: &mut Pagemap,
    ) -> bool {
        self.take(engine, call, pagemap);
        self.after.append(&mut self.before);
        for sample in &mut self.list {
            sample.written = false;
        }
        !self.after.is_empty()
    }

    /// Returns `true` if `call` removes pages where nothing was written yet. A write there before
    /// the kernel's part of the call leaves no visible page. The heap ends at `brk`.
    pub(crate) fn may_be_lost(&self, call: &Call, brk: u64) -> bool {
        let taken = taken(call, brk);
        let lost = |sample: &Sample| taken.iter().any(|range| overlap(sample, *range).is_some());
        self.list
            .iter()
            .any(|sample| !sample.written && lost(sample))
    }

    /// Examines again, after `call` has returned, the pages that were not written. Returns `true`
    /// if any are written now, or may have been when the kernel performed the call. The heap ended
    /// at `brk` before. If other threads were `held`, none has written where pages were removed.
    pub(crate) fn look_again(
        &mut self,
        call: &Call,
        returned: i64,
        brk: u64,
        held: bool,
        pagemap: &mut Pagemap,
    ) -> bool {
        self.after.clear();
        let taken = taken(call, brk);
        let moved = moved(call, returned);
        let mut changed = false;
        for sample in &self.list {
            let mut written = |start, end| pagemap.written(start, end).unwrap_or(false);
            let now = sample.written
                || written(sample.start, sample.end)
                || moved.is_some_and(|(from, to)| {
                    let at = |address| to + (address - from.0);
                    overlap(sample, from).is_some_and(|(start, end)| written(at(start), at(end)))
                })
                || !held && taken.iter().any(|range| overlap(sample, *range).is_some());
            changed |= now && !sample.written;
            if now {
                self.after.push((sample.start, sample.end));
            }
        }
        self.after.sort_unstable();
        changed
    }

    /// Returns `true` if a range is left that showed no page when the call had returned.
    pub(crate) fn leave_open(&self) -> bool {
        self.open().next().is_some()
    }

    /// Returns the ranges that showed no page when the call had returned.
    fn open(&self) -> impl Iterator<Item = (u64, u64)> {
        let open = self.list.iter().filter(|sample| self.is_open(sample));
        open.map(|sample| (sample.start, sample.end))
    }

    fn is_open(&self, sample: &Sample) -> bool {
        !sample.written
            && self
                .after
                .binary_search(&(sample.start, sample.end))
                .is_err()
    }

    /// Returns the ranges that show a page now, but did not when the call had returned. A page
    /// fault gives an area its `anon_vma` first and its page later, much later if a disk must be
    /// read. Such faults may have been pending when the kernel performed the call.
    pub(crate) fn shown_late(&self, pagemap: &mut Pagemap) -> Vec<(u64, u64)> {
        self.open()
            .filter(|&(start, end)| pagemap.written(start, end).unwrap_or(false))
            .collect()
    }

    /// After [`look_again`](Self::look_again), waits for [pages that show late](Self::shown_late),
    /// until all pending faults have ended. Returns `true` if any show: they count as written at
    /// the return. If a fault does not end, it may have written every open range.
    pub(crate) fn wait_for_late(&mut self, pagemap: &mut Pagemap, faulting: &mut Faulting) -> bool {
        let mut pause = Duration::from_micros(250);
        let mut pauses = 0;
        let late = loop {
            let faults = faulting.look();
            // Faults that have ended show their page by now.
            let late = self.shown_late(pagemap);
            let last = pauses == PAUSES || faults == Faults::Wait && pause == LONGEST_PAUSE;
            if !late.is_empty() || faults == Faults::Ended {
                break late;
            } else if last {
                break self.open().collect();
            }
            std::thread::sleep(pause);
            pause = LONGEST_PAUSE.min(pause * 2);
            pauses += 1;
        };
        self.after.extend_from_slice(&late);
        self.after.sort_unstable();
        !late.is_empty()
    }

    /// Returns the ranges written at the entry. With `overlapped`, also those written at the last
    /// [look](Self::look_again), because other threads may have written during the call.
    pub(crate) fn evidence(&self, overlapped: bool) -> Evidence<'_> {
        Evidence {
            before: &self.before,
            after: overlapped.then_some(&self.after),
        }
    }
}

/// The ranges from which a call removes pages, so that their presence does not show there. Empty
/// ranges are unused.
type Taken = [(u64, u64); 2];

/// Returns the ranges whose pages `call` drops, or may drop if it fails midway. The heap ends at
/// `brk` before.
fn taken(call: &Call, brk: u64) -> Taken {
    const FIXED: u64 = 0x10;
    const NO_REPLACE: u64 = 0x10_0000;
    const REMAP_FIXED: u64 = 2;
    const REPLACE_SEGMENT: u64 = 0o40000;
    let none = (0, 0);
    let from = |addr: u64, len: u64| (addr, addr.saturating_add(len));
    match *call {
        Call::Madvise { addr, len, advice } if empties(advice) => [from(addr, len), none],
        Call::ProcessMadvise {
            ref ranges, advice, ..
        } if empties(advice) => {
            let low = ranges.iter().map(|range| range.0).min();
            let high = ranges.iter().map(|range| range.0.saturating_add(range.1));
            [low.zip(high.max()).unwrap_or(none), none]
        }
        Call::Munmap { addr, len } => [from(addr, len), none],
        Call::Mmap {
            addr, len, flags, ..
        } if flags & (FIXED | NO_REPLACE) == FIXED => [from(addr, len), none],
        Call::Shmat {
            segment: Some(ref segment),
            addr,
            flags,
        } if flags & REPLACE_SEGMENT != 0 => [from(addr, segment.size), none],
        Call::Brk { addr } if addr < brk => [(addr & !0xfff, brk), none],
        Call::Mremap {
            old_addr,
            old_len,
            new_len,
            flags,
            new_addr,
        } => {
            let replaced = if flags & REMAP_FIXED != 0 {
                from(new_addr, new_len)
            } else {
                none
            };
            let cut = from(
                old_addr.saturating_add(new_len),
                old_len.saturating_sub(new_len),
            );
            [replaced, cut]
        }
        _ => [none, none],
    }
}

/// Returns `true` for `MADV_DONTNEED`, `MADV_DONTNEED_LOCKED` and guard markers.
fn empties(advice: i32) -> bool {
    matches!(advice, 4 | 24 | 102)
}

/// Returns the range whose pages a call has moved, and their new address.
fn moved(call: &Call, returned: i64) -> Option<((u64, u64), u64)> {
    match *call {
        Call::Mremap {
            old_addr,
            old_len,
            new_len,
            ..
        } if !(-4095..0).contains(&returned) && returned as u64 != old_addr => {
            let end = old_addr.saturating_add(old_len.min(new_len));
            Some(((old_addr, end), returned as u64))
        }
        _ => None,
    }
}

fn overlap(sample: &Sample, range: (u64, u64)) -> Option<(u64, u64)> {
    let (start, end) = (sample.start.max(range.0), sample.end.min(range.1));
    (start < end).then_some((start, end))
}

fn sample(start: u64, end: u64, pagemap: &mut Pagemap) -> Sample {
    let written = pagemap.written(start, end).unwrap_or(false);
    Sample {
        start,
        end,
        written,
    }
}

/// The samples, and the pages themselves for ranges that were not examined before the call.
#[derive(Debug)]
pub(crate) struct Known<'a> {
    pub(crate) samples: &'a Samples,
    pub(crate) pagemap: &'a mut Pagemap,
    /// Ranges that were not examined before the call, and were written.
    pub(crate) missed: Vec<(u64, u64)>,
}

impl Watch for Known<'_> {
    fn informed(&self) -> bool {
        true
    }

    fn listens(&self) -> bool {
        false
    }

    fn written(&mut self, start: u64, end: u64) -> bool {
        let list = &self.samples.list;
        if let Ok(at) = list.binary_search_by_key(&start, |sample| sample.start)
            && list[at].end == end
        {
            return list[at].written;
        }
        let written = self.pagemap.written(start, end).unwrap_or(false);
        if written {
            self.missed.push((start, end));
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use samara_mm::FileArg;

    #[test]
    fn pages_that_a_call_takes_away_do_not_show_any_more() {
        let none = (0, 0);
        let advice = |advice| Call::Madvise {
            addr: 0x4000,
            len: 0x2000,
            advice,
        };
        assert_eq!(taken(&advice(4), 0)[0], (0x4000, 0x6000));
        assert_eq!(taken(&advice(102), 0)[0], (0x4000, 0x6000));
        // `MADV_COLD` leaves them.
        assert_eq!(taken(&advice(20), 0), [none; 2]);
        let map = |flags| Call::Mmap {
            addr: 0x4000,
            len: 0x2000,
            prot: 3,
            flags,
            file: FileArg::None,
            offset: 0,
        };
        assert_eq!(taken(&map(0x32), 0)[0], (0x4000, 0x6000));
        assert_eq!(taken(&map(0x10_0032), 0), [none; 2]);
        assert_eq!(taken(&map(0x22), 0), [none; 2]);
        let brk = |addr| taken(&Call::Brk { addr }, 0x9000)[0];
        assert_eq!((brk(0x6123), brk(0xa000)), ((0x6000, 0x9000), none));
    }

    #[test]
    fn moved_pages_show_at_their_new_place() {
        let moving = |flags, new_len| Call::Mremap {
            old_addr: 0x4000,
            old_len: 0x3000,
            new_len,
            flags,
            new_addr: 0x9000,
        };
        let call = moving(3, 0x2000);
        assert_eq!(moved(&call, 0x9000), Some(((0x4000, 0x6000), 0x9000)));
        assert_eq!(taken(&call, 0), [(0x9000, 0xb000), (0x6000, 0x7000)]);
        assert_eq!((moved(&call, -14), moved(&call, 0x4000)), (None, None));
        let lost = |sample, call: &Call| {
            let samples = Samples {
                list: vec![sample],
                ..Samples::default()
            };
            samples.may_be_lost(call, 0)
        };
        let sample = |start, end, written| Sample {
            start,
            end,
            written,
        };
        assert!(lost(sample(0x8000, 0xa000, false), &call));
        assert!(!lost(sample(0x8000, 0xa000, true), &call));
        assert!(!lost(sample(0x4000, 0x6000, false), &call));
        assert!(!lost(sample(0x8000, 0xa000, false), &moving(1, 0x4000)));
    }
}
