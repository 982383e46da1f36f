//! NUMA nodes of pages, for `mbind` with `MPOL_MF_STRICT`.

use core::ops::ControlFlow;

use samara_paging::{Entry, Kind};

use crate::flags::PAGE_SIZE;
use crate::pages::Moving;
use crate::process::mm::Mm;
use crate::process::platform::Platform;

impl<P: Platform> Mm<P> {
    /// Returns `true` if a page of the range is on none of `nodes`, and will not be moved.
    /// O(present pages).
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
        // The zero page has no count.
        let Some(frame) = page.frame else {
            return false;
        };
        if nodes.checked_shr(P::node(page.phys)).unwrap_or(0) & 1 != 0 {
            return false;
        }
        // The reference of the file's cache does not pin the page.
        let held = frame.references > u32::from(frame.kind == Kind::File);
        match moving {
            Moving::Nothing => true,
            Moving::Own => held && page.exclusive(),
            Moving::All => held,
        }
    }
}
