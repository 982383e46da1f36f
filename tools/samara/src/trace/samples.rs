//! Ranges of pages that were looked at before a call, and whether they held anonymous memory.

use samara_mm::{AddressSpace, Call, Pages};

use super::facts::Pagemap;

/// The samples for the call that is under way.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    list: Vec<Sample>,
    /// Written at entry, ascending.
    before: Vec<(u64, u64)>,
    /// Written at the return, ascending.
    after: Vec<(u64, u64)>,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    start: u64,
    end: u64,
    written: bool,
}

impl Samples {
    /// Looks at the pages on which the outcome of `call` depends.
    pub(crate) fn take(&mut self, engine: &AddressSpace, call: &Call, pagemap: &mut Pagemap) {
        self.list.clear();
        self.before.clear();
        self.after.clear();
        let list = &mut self.list;
        engine.facts_needed(call, &mut |start, end| {
            if !list.iter().any(|sample| sample.start == start) {
                list.push(sample(start, end, pagemap));
            }
        });
        self.before.extend(
            self.list
                .iter()
                .filter(|sample| sample.written)
                .map(|sample| (sample.start, sample.end)),
        );
        self.before.sort_unstable();
    }

    /// Looks again, when `call` has returned, at what was not written. True if something is now, or may have been when the kernel came to the call.
    pub(crate) fn look_again(&mut self, call: &Call, returned: i64, pagemap: &mut Pagemap) -> bool {
        self.after.clear();
        let taken = taken(call, returned);
        let mut changed = false;
        for sample in &self.list {
            let mut written = |start, end| pagemap.written(start, end).unwrap_or(false);
            let mut written = sample.written || written(sample.start, sample.end);
            if let (false, Some((range, to))) = (written, taken) {
                let (start, end) = (sample.start.max(range.0), sample.end.min(range.1));
                written = start < end
                    && match to {
                        Some(to) => {
                            let at = |address| to + (address - range.0);
                            pagemap.written(at(start), at(end)).unwrap_or(false)
                        }
                        None => true,
                    };
            }
            changed |= written && !sample.written;
            if written {
                self.after.push((sample.start, sample.end));
            }
        }
        self.after.sort_unstable();
        changed
    }

    /// Written at entry, ascending.
    pub(crate) fn before(&self) -> &[(u64, u64)] {
        &self.before
    }

    /// Written at the last [`look_again`](Self::look_again), ascending.
    pub(crate) fn after(&self) -> &[(u64, u64)] {
        &self.after
    }
}

/// From where a call has taken pages, so that whether there were any does not show there; and where they are now, if anywhere.
fn taken(call: &Call, returned: i64) -> Option<((u64, u64), Option<u64>)> {
    const DONT_NEED: i32 = 4;
    const DONT_NEED_LOCKED: i32 = 24;
    match *call {
        Call::Madvise {
            addr,
            len,
            advice: DONT_NEED | DONT_NEED_LOCKED,
        } => Some(((addr, addr.saturating_add(len)), None)),
        Call::Mremap {
            old_addr,
            old_len,
            new_len,
            ..
        } if !(-4095..0).contains(&returned) && returned as u64 != old_addr => {
            let len = old_len.min(new_len);
            Some((
                (old_addr, old_addr.saturating_add(len)),
                Some(returned as u64),
            ))
        }
        _ => None,
    }
}

fn sample(start: u64, end: u64, pagemap: &mut Pagemap) -> Sample {
    let written = pagemap.written(start, end).unwrap_or(false);
    Sample {
        start,
        end,
        written,
    }
}

/// The samples, and the pages themselves for what nobody thought of before the call.
#[derive(Debug)]
pub(crate) struct Known<'a> {
    pub(crate) samples: &'a Samples,
    pub(crate) pagemap: &'a mut Pagemap,
    /// What nobody thought of and was written.
    pub(crate) missed: Vec<(u64, u64)>,
}

impl Pages for Known<'_> {
    fn informed(&self) -> bool {
        true
    }

    fn listens(&self) -> bool {
        false
    }

    fn written(&mut self, start: u64, end: u64) -> bool {
        let sampled = self
            .samples
            .list
            .iter()
            .find(|sample| sample.start == start && sample.end == end);
        if let Some(sample) = sampled {
            return sample.written;
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

    #[test]
    fn pages_that_a_call_takes_away_do_not_show_any_more() {
        let advice = |advice| Call::Madvise {
            addr: 0x4000,
            len: 0x2000,
            advice,
        };
        assert_eq!(taken(&advice(4), 0), Some(((0x4000, 0x6000), None)));
        // `MADV_COLD` leaves them.
        assert_eq!(taken(&advice(20), 0), None);
        let moving = Call::Mremap {
            old_addr: 0x4000,
            old_len: 0x3000,
            new_len: 0x2000,
            flags: 3,
            new_addr: 0x9000,
        };
        assert_eq!(
            taken(&moving, 0x9000),
            Some(((0x4000, 0x6000), Some(0x9000)))
        );
        assert_eq!(taken(&moving, -14), None);
        assert_eq!(taken(&moving, 0x4000), None);
    }
}
