//! A process with pages as the source of a core dump.

use core::ops::ControlFlow;

use crate::observe::core_file::Source;
use crate::observe::walk::Seen;
use crate::process::{Platform, Process};

/// The pages in memory and in swap. All others count as zeroes, also pages without any permission,
/// which the program itself could not read.
///
/// The map may change between two pages, if calls run. Then the core has the state at the time when
/// each page was reached.
impl<P: Platform> Source for &Process<P> {
    fn next(&mut self, addr: u64, end: u64) -> Option<u64> {
        let mut found = None;
        let _ = self.walk(addr..end, |seen| match seen {
            Seen::Page(at, _) | Seen::Swapped(at, _) => {
                found = Some(at);
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        });
        found
    }

    fn page(&mut self, addr: u64, into: &mut [u8; 4096]) -> bool {
        self.copy_out(addr, into) == into.len()
    }
}
