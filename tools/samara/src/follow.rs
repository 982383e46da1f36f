//! One engine beside one real (or recorded) address space: perform a call, judge the answer, compare the maps.

use samara_mm::{AddressSpace, Call, Errno, Facts};

use crate::compare::{self, Alike};
use crate::describe::{self, Described, Returned};
use crate::maps::Map;
use crate::tally::{Finding, FindingKind, SpaceFigures, Tally};

/// The engine's side of one address space.
#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) engine: AddressSpace,
    alike: Alike,
}

/// How the engine's answer to a call stands to the kernel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Agrees,
    /// They differ: the engine's map is no longer the kernel's.
    Differs,
    /// The kernel failed for a reason that no address space decides; the engine went on.
    Outside,
    /// The engine does not know the call.
    NotModelled,
}

/// Where a finding was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) call_number: u64,
    pub(crate) process: i32,
}

impl Follower {
    pub(crate) fn new(engine: AddressSpace) -> Self {
        Self {
            engine,
            alike: Alike::default(),
        }
    }

    /// The child's side after a fork.
    pub(crate) fn fork(&mut self) -> Result<Self, Errno> {
        Ok(Self {
            engine: self.engine.fork()?,
            alike: self.alike.clone(),
        })
    }

    /// An engine in the same state, to try an alternative on.
    pub(crate) fn try_clone(&self) -> Result<Self, Errno> {
        Err(Errno::ENOSYS)
    }

    /// Performs a call and judges the answer against what the kernel returned. Nothing is counted yet.
    pub(crate) fn perform(
        &mut self,
        call: &Call,
        returned: i64,
        facts: &mut dyn Facts,
    ) -> (Verdict, i64) {
        let own = describe::returned(self.engine.perform(call, facts));
        let verdict = if own == returned {
            Verdict::Agrees
        } else if own == -i64::from(Errno::ENOSYS.0) {
            Verdict::NotModelled
        } else if own >= 0 && outside(call, returned) {
            Verdict::Outside
        } else {
            Verdict::Differs
        };
        (verdict, own)
    }

    /// Counts a judged call.
    pub(crate) fn count(
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
            Verdict::Agrees | Verdict::Differs => {}
        }
        tally.results += 1;
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

    /// Compares the whole map, growing stacks that the kernel has grown. `Ok` has the lowest addresses that areas grew to.
    pub(crate) fn compare(
        &mut self,
        kernel: &Map,
        grown: &mut Vec<u64>,
        renamed: &mut u64,
    ) -> Result<(), compare::Difference> {
        loop {
            match compare::compare(&self.engine, kernel, &mut self.alike, renamed) {
                Ok(()) => return Ok(()),
                Err(difference) => match difference.growth {
                    // A fault grew the area since the last look, if the engine finds that possible.
                    Some(start) if self.engine.grow_stack(start).is_ok() => grown.push(start),
                    _ => return Err(difference),
                },
            }
        }
    }

    /// The finding for a map that differs.
    pub(crate) fn map_finding(
        &self,
        kernel: &Map,
        difference: &compare::Difference,
        place: Place,
        cause: String,
    ) -> Finding {
        Finding {
            kind: FindingKind::Map,
            call_number: place.call_number,
            process: place.process,
            call: cause,
            detail: compare::side_by_side(&self.engine, kernel, difference),
        }
    }

    /// State of the engine for the summary.
    pub(crate) fn figures(&self) -> SpaceFigures {
        let stats = self.engine.stats();
        let config = self.engine.config();
        let mut end = config.mmap_min_addr;
        let mut largest_gap = 0;
        for line in self.engine.maps() {
            largest_gap = largest_gap.max(line.start.saturating_sub(end));
            end = line.end;
        }
        largest_gap = largest_gap.max(config.task_size.saturating_sub(end));
        SpaceFigures {
            areas: self.engine.area_count() as u64,
            areas_peak: stats.areas_peak as u64,
            gaps: stats.gaps as u64,
            largest_gap,
            mapped: stats.pages.total * samara_mm::PAGE_SIZE,
            tree_height: stats.tree_height as u64,
            tree_bytes: stats.tree_bytes as u64,
        }
    }

    /// Adds the engine's figures at its end.
    pub(crate) fn retire(&self, main: bool, tally: &mut Tally) {
        let stats = self.engine.stats();
        let figures = self.figures();
        let totals = &mut tally.spaces;
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

/// Did the kernel choose the address that the call returned?
fn chosen(call: &Call, returned: i64) -> bool {
    const MAP_FIXED: u64 = 0x10;
    const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;
    if (-4095..0).contains(&returned) {
        return false;
    }
    match call {
        Call::Mmap { flags, .. } => flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) == 0,
        Call::Mremap {
            old_addr, flags, ..
        } => flags & 2 == 0 && returned as u64 != *old_addr,
        Call::Shmat { addr, .. } => *addr == 0,
        _ => false,
    }
}

/// Can the kernel have failed with this error for a reason that lies outside the address space: a device's driver,
/// input and output, the state of pages?
fn outside(call: &Call, returned: i64) -> bool {
    use samara_mm::{FileArg, FileKind};
    let error = -returned as i32;
    if !(-4095..0).contains(&returned) {
        return false;
    }
    const EHWPOISON: i32 = 133;
    match call {
        Call::Mmap {
            file: FileArg::File(file),
            ..
        } => {
            file.kind == FileKind::Device
                || matches!(
                    error,
                    libc::ENODEV | libc::EIO | libc::ENXIO | libc::ENFILE | libc::ENOLCK
                )
        }
        Call::Madvise { advice, .. } => {
            let on_pages = !matches!(advice, 0..=2 | 10..=19);
            on_pages
                && matches!(
                    error,
                    libc::EAGAIN
                        | libc::EBUSY
                        | libc::EIO
                        | libc::EINVAL
                        | libc::EFAULT
                        | libc::ENOMEM
                        | libc::EPERM
                        | EHWPOISON
                )
        }
        Call::Mlock { .. } | Call::Mlockall { .. } => error == libc::EAGAIN || error == libc::EINTR,
        Call::Msync { .. } => matches!(error, libc::EIO | libc::EBUSY | libc::EINTR),
        Call::Mincore { .. } => matches!(error, libc::EFAULT | libc::EAGAIN),
        Call::Mbind { .. } => matches!(error, libc::EIO | libc::EFAULT),
        Call::Shmat { .. } => matches!(error, libc::EACCES | libc::EIDRM),
        _ => false,
    }
}
