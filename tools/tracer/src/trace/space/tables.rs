//! The two tables of calls that a program may use. The table of a call decides where the kernel
//! places its mappings.
//!
//! For i386 calls in a program with 64-bit addresses, the kernel has chosen separate bases at exec.
//! Nothing shows them. They follow from the settings, except for one random number, which the first
//! address that the kernel chooses reveals.

use samara_linux::Tid;
use samara_linux::proc;
use samara_mm::{Call, Calls};

use super::Space;
use super::bases::placed;
use crate::trace::session::Session;

const PAGE: u64 = 4096;

/// The bases of placement for calls of the other table.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OtherTable {
    bases: Option<Bases>,
}

#[derive(Debug, Clone, Copy)]
struct Bases {
    mmap_base: u64,
    legacy_base: u64,
    end: u64,
    /// The size in bytes of the range in which a base may lie, while it is not known.
    span: u64,
}

impl Bases {
    /// Returns the bases of a program that was started with these limits.
    fn of(tid: Tid, stack: u64, gap: u64) -> Self {
        const ADDR_NO_RANDOMIZE: u64 = 0x004_0000;
        const ADDR_LIMIT_3GB: u64 = 0x800_0000;
        const LEAST_ROOM: u64 = 128 << 20;
        const STACK_SPAN: u64 = 0x7ff * PAGE;
        let personality = proc::personality(tid).unwrap_or(0);
        let end = match personality & ADDR_LIMIT_3GB {
            0 => 0xffff_e000,
            _ => 0xc000_0000,
        };
        let is_random = personality & ADDR_NO_RANDOMIZE == 0
            && proc::sysctl("kernel/randomize_va_space", 2) != 0;
        let (margin, span) = match is_random {
            true => {
                let bits = proc::sysctl("vm/mmap_rnd_compat_bits", 8).min(40);
                (STACK_SPAN, ((1 << bits) - 1) * PAGE)
            }
            false => (0, 0),
        };
        let room = stack
            .saturating_add(gap + margin)
            .clamp(LEAST_ROOM, end / 6 * 5);
        Self {
            mmap_base: (end - room).next_multiple_of(PAGE),
            legacy_base: (end / 3).next_multiple_of(PAGE),
            end,
            span,
        }
    }

    fn calls(self) -> Calls {
        Calls::Other {
            mmap_base: self.mmap_base,
            legacy_base: self.legacy_base,
            end: self.end,
        }
    }
}

impl Space {
    /// Returns the engine's setting for the table of a call.
    pub(super) fn calls(&mut self, is_i386: bool, tid: Tid, session: &mut Session) -> Calls {
        let engine = self.checker.engine();
        let config = engine.config();
        if config.is_wide() != is_i386 {
            return Calls::Own;
        }
        if !config.is_wide() {
            // No program with 32-bit addresses has memory where these place mappings.
            return Calls::Other {
                mmap_base: session.machine.end_of_user_space(),
                legacy_base: 0,
                end: 0,
            };
        }
        let stack = engine.limits().stack;
        let gap = config.stack_guard_gap;
        self.other_table
            .bases
            .get_or_insert_with(|| Bases::of(tid, stack, gap))
            .calls()
    }

    /// Learns the bases from the first address that the kernel has chosen.
    pub(super) fn learn_bases(&mut self, call: &Call, returned: i64, session: &mut Session) {
        let engine = self.checker.engine();
        let config = engine.config();
        let Some(bases) = &mut self.other_table.bases else {
            return;
        };
        if bases.span == 0 || config.calls == Calls::Own {
            return;
        }
        let Some((address, len)) = placed(call, returned) else {
            return;
        };
        let above = match engine.layout().bottom_up {
            true => address.checked_sub(bases.legacy_base),
            false => bases
                .mmap_base
                .checked_sub(address.saturating_add(len).next_multiple_of(PAGE)),
        };
        let Some(drawn) = above.filter(|drawn| *drawn <= bases.span) else {
            return;
        };
        bases.mmap_base -= drawn;
        bases.legacy_base += drawn;
        bases.span = 0;
        let config = samara_mm::Config {
            calls: bases.calls(),
            ..config.clone()
        };
        self.set_config(&config, session);
    }
}
