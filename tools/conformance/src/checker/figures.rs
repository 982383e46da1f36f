//! Counters of judged calls, and of the engine at its end.

use samara_mm::Call;

use crate::checker::{Checker, Place};
use crate::describe::{self, Described, Returned};
use crate::replica::{Verdict, placed_at_random};
use crate::tally::{Finding, FindingKind, SpaceFigures, Tally};

impl Checker {
    /// Counts a judged call.
    pub fn count(
        call: &Call,
        returned: i64,
        own: i64,
        verdict: Verdict,
        place: Place,
        tally: &mut Tally,
    ) {
        tally.calls[describe::kind(call)] += 1;
        match verdict {
            Verdict::NotModelled => {
                crate::tally::count(&mut tally.unmodelled, describe::KINDS[describe::kind(call)]);
                return;
            }
            Verdict::Outside => {
                let name = describe::KINDS[describe::kind(call)];
                crate::tally::count(&mut tally.outside, name);
                return;
            }
            Verdict::Agrees | Verdict::Differs | Verdict::Undecided(_) => {}
        }
        tally.results += 1;
        tally.random += u64::from(placed_at_random(call, returned));
        if let Verdict::Undecided(unknown) = verdict {
            tally.undecided_results += 1;
            tally.note_undecided(unknown);
            return;
        }
        let chosen = chosen(call, returned);
        if chosen {
            tally.predictions += 1;
        }
        if verdict == Verdict::Agrees {
            tally.failing += u64::from((-4095..0).contains(&returned));
            return;
        }
        let kind = if chosen && own >= 0 {
            FindingKind::Prediction
        } else {
            FindingKind::Result
        };
        tally.find(kind, || Finding {
            kind,
            call_number: place.call_number,
            process: place.process,
            call: Described(call).to_string(),
            detail: format!(
                "engine: {}\nkernel: {}\n",
                Returned(own),
                Returned(returned)
            ),
        });
    }

    /// State of the engine for the summary.
    pub(crate) fn figures(&self) -> SpaceFigures {
        let stats = self.replica.engine.stats();
        let config = self.replica.engine.config();
        let mut end = config.mmap_min_addr;
        let mut largest_gap = 0;
        for line in self.replica.engine.maps() {
            largest_gap = largest_gap.max(line.start.saturating_sub(end));
            end = line.end;
        }
        largest_gap = largest_gap.max(config.task_size.saturating_sub(end));
        SpaceFigures {
            areas: self.replica.engine.area_count() as u64,
            areas_peak: stats.areas_peak as u64,
            gaps: stats.gaps as u64,
            largest_gap,
            mapped: stats.pages.total * samara_mm::PAGE_SIZE,
            tree_height: stats.tree_height as u64,
            tree_bytes: stats.tree_bytes as u64,
        }
    }

    /// Adds the engine's figures at its end. `main` says that it is the main program's.
    pub fn retire(&self, main: bool, tally: &mut Tally) {
        let stats = self.replica.engine.stats();
        let figures = self.figures();
        let totals = &mut tally.spaces;
        totals.alternatives += self.performed;
        totals.given_up += self.given_up;
        totals.merges += stats.merges;
        totals.splits += stats.splits;
        totals.areas_peak = totals.areas_peak.max(figures.areas_peak);
        if figures.areas_peak > totals.largest.areas_peak {
            totals.largest = figures;
        }
        if main {
            totals.main = figures;
        }
    }
}

/// Returns `true` if the kernel chose the address that the call returned.
fn chosen(call: &Call, returned: i64) -> bool {
    const MAP_FIXED: u64 = 0x10;
    const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;
    if (-4095..0).contains(&returned) {
        return false;
    }
    match call {
        Call::Mmap { flags, .. } => {
            flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) == 0 && !placed_at_random(call, returned)
        }
        Call::Mremap {
            old_addr, flags, ..
        } => flags & 2 == 0 && returned as u64 != *old_addr,
        Call::Shmat { addr, .. } => *addr == 0,
        _ => false,
    }
}
