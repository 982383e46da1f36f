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

    /// Looks again, at the return, at what was not written. True if something is now.
    pub(crate) fn look_again(&mut self, pagemap: &mut Pagemap) -> bool {
        self.after.clear();
        let mut changed = false;
        for sample in &self.list {
            let written =
                sample.written || pagemap.written(sample.start, sample.end).unwrap_or(false);
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
