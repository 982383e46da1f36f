//! On which nodes pages lie.

use core::ops::ControlFlow;

use samara_paging::{Entry, Kind};

use crate::flags::PAGE_SIZE;
use crate::pages::Moving;
use crate::process::mm::Mm;
use crate::process::platform::Platform;

impl<P: Platform> Mm<P> {
    /// Whether a page of a range is on none of these nodes, and stays there. O(pages that are there).
    pub(super) fn strays(&self, start: u64, end: u64, nodes: u64, moving: Moving) -> bool {
        let found = self.tables.walk_until(start..end, |at, entry| {
            let Entry::Page { size, .. } = entry else {
                return ControlFlow::Continue(());
            };
            let last = at.saturating_add(size.bytes()).min(end);
            let mut pages = (at.max(start)..last).step_by(PAGE_SIZE as usize);
            match pages.any(|page| self.is_stray(page, nodes, moving)) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        found.is_break()
    }

    fn is_stray(&self, page: u64, nodes: u64, moving: Moving) -> bool {
        let Some(page) = self.tables.page(page) else {
            return false;
        };
        // The page of zeroes has no count.
        let Some(frame) = page.frame else {
            return false;
        };
        if nodes.checked_shr(P::node(page.phys)).unwrap_or(0) & 1 != 0 {
            return false;
        }
        // The reference of its file's cache holds no page fast.
        let held = frame.references > u32::from(frame.kind == Kind::File);
        match moving {
            Moving::Nothing => true,
            Moving::Own => held && page.exclusive(),
            Moving::All => held,
        }
    }
}
