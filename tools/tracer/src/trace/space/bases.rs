//! The bases of placement in a program that shows nothing of them when it starts.
//!
//! A program that is linked statically has nothing at the base of mappings on kernels before 6.12, which put the vdso near the stack. The first place that the
//! kernel chooses tells the base; or a bound of it, if that place is aligned.

use std::ops::RangeInclusive;

use samara_conformance::seed::Seed;
use samara_mm::{Call, Calls};

use super::Space;
use crate::trace::seeding::{Asked, base_is_hidden};
use crate::trace::session::Session;

const PAGE: u64 = 4096;
/// The length from which on a mapping may be aligned to a huge page.
const HUGE: u64 = 2 << 20;

/// A base that is not known, or only to a bound.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hidden {
    first: u64,
    last: u64,
    /// The place nearest to it so far.
    bound: Option<u64>,
}

impl Hidden {
    pub(super) fn within(range: RangeInclusive<u64>) -> Self {
        Self {
            first: *range.start(),
            last: *range.end(),
            bound: None,
        }
    }

    /// Returns the base of a program that was found running. The engine begins at the nearest area.
    pub(super) fn of_a_running(asked: &Asked, seed: &Seed) -> Option<Self> {
        let layout = seed.layout;
        let mut starts = seed.areas.iter().map(|area| area.start);
        let mut ends = seed.areas.iter().map(|area| area.end);
        base_is_hidden(asked, seed.config.kernel).then_some(Self {
            first: seed.config.mmap_min_addr,
            last: layout.stack_top,
            // Unless nothing was found.
            bound: match layout.bottom_up {
                true => Some(layout.legacy_base).filter(|base| starts.any(|start| start == *base)),
                false => Some(layout.mmap_base).filter(|base| ends.any(|end| end == *base)),
            },
        })
    }
}

/// The place and the length of what the kernel placed as it liked.
pub(super) fn placed(call: &Call, returned: i64) -> Option<(u64, u64)> {
    if (-4095..0).contains(&returned) {
        return None;
    }
    let address = returned as u64;
    let len = match call {
        // What is not where it was asked for was placed.
        Call::Mmap { addr, len, .. } if addr & !(PAGE - 1) != address => *len,
        Call::Shmat {
            addr: 0,
            segment: Some(segment),
            ..
        } => segment.size,
        Call::Mremap {
            old_addr, new_len, ..
        } if *old_addr != address => *new_len,
        _ => return None,
    };
    Some((address, len))
}

/// The size of pages that a mapping of the pool of huge ones has.
fn huge_size(call: &Call) -> Option<u64> {
    const MAP_HUGETLB: u64 = 0x4_0000;
    match call {
        Call::Mmap { flags, .. } if flags & MAP_HUGETLB != 0 => match flags >> 26 & 0x3f {
            0 => Some(HUGE),
            log2 => Some(1 << log2),
        },
        _ => None,
    }
}

impl Space {
    /// Takes from a place that the kernel has chosen where the bases are, before the engine performs the call.
    pub(super) fn learn_own_bases(&mut self, call: &Call, returned: i64, session: &mut Session) {
        let Some(hidden) = &mut self.own_bases else {
            return;
        };
        let engine = self.checker.engine();
        if engine.config().calls != Calls::Own {
            return;
        }
        let Some((start, len)) = placed(call, returned) else {
            return;
        };
        let grain = huge_size(call).unwrap_or(PAGE);
        let end = start.saturating_add(len.next_multiple_of(grain));
        let mut layout = engine.layout();
        let upwards = layout.bottom_up;
        let (edge, base, beyond) = match upwards {
            true => (start, &mut layout.legacy_base, start.wrapping_sub(1)),
            false => (end, &mut layout.mmap_base, end),
        };
        let is_nearer = hidden.bound.is_none_or(|bound| match upwards {
            true => edge < bound,
            false => edge > bound,
        });
        if !(hidden.first..=hidden.last).contains(&edge) || !is_nearer {
            return;
        }
        hidden.bound = Some(edge);
        // Nothing keeps the base away from what is not aligned and has no neighbour there.
        if len < HUGE && grain == PAGE && engine.lookup(beyond).is_none() {
            self.own_bases = None;
        }
        // Both are moved by the same random number, apart from each other.
        let moved = edge.wrapping_sub(*base);
        *base = edge;
        let other = match upwards {
            true => &mut layout.mmap_base,
            false => &mut layout.legacy_base,
        };
        *other = other.wrapping_sub(moved);
        if let Some(record) = &mut session.record {
            record.bases(self.number, layout.mmap_base, layout.legacy_base);
        }
        self.checker.set_bases(layout.mmap_base, layout.legacy_base);
    }
}
