//! The base of placement in a program that does not show it at its start.
//!
//! Kernels before 6.12 put the vdso near the stack. So a statically linked program has nothing at
//! the base of mappings there. The first address that the kernel chooses shows the base, or a bound
//! of it if that address is aligned.

use std::ops::RangeInclusive;

use samara_conformance::seed::Seed;
use samara_mm::{Call, Calls};

use super::Space;
use crate::trace::seeding::{Asked, base_is_hidden};
use crate::trace::session::Session;

const PAGE: u64 = 4096;
/// A mapping of at least this length may be aligned to a huge page.
const HUGE: u64 = 2 << 20;

/// A base that is not known, or of which only a bound is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hidden {
    first: u64,
    last: u64,
    /// The nearest address to it so far.
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

    /// Returns the hidden base of a program that was found running. The engine assumes the nearest
    /// area.
    pub(super) fn of_a_running(asked: &Asked, seed: &Seed) -> Option<Self> {
        let layout = seed.layout;
        let mut starts = seed.areas.iter().map(|area| area.start);
        let mut ends = seed.areas.iter().map(|area| area.end);
        base_is_hidden(asked, seed.config.kernel).then_some(Self {
            first: seed.config.mmap_min_addr,
            last: layout.stack_top,
            // There is no bound if no area was found.
            bound: match layout.bottom_up {
                true => Some(layout.legacy_base).filter(|base| starts.any(|start| start == *base)),
                false => Some(layout.mmap_base).filter(|base| ends.any(|end| end == *base)),
            },
        })
    }
}

/// Returns the address and the length of a mapping that the kernel placed freely.
pub(super) fn placed(call: &Call, returned: i64) -> Option<(u64, u64)> {
    if (-4095..0).contains(&returned) {
        return None;
    }
    let address = returned as u64;
    let len = match call {
        // A mapping that is not at the requested address was placed.
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

/// Returns the page size of a mapping from the pool of huge pages.
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
    /// Learns the bases from an address that the kernel has chosen, before the engine performs the
    /// call.
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
        // An unaligned mapping without a neighbour there lies directly at the base.
        if len < HUGE && grain == PAGE && engine.lookup(beyond).is_none() {
            self.own_bases = None;
        }
        // Both are moved by the same random number, in opposite directions.
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
