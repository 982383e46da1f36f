//! A word for each page, as in `/proc/PID/pagemap` (Documentation/admin-guide/mm/pagemap.rst).

use core::ops::ControlFlow;

use bitflags::bitflags;
use samara_paging::{Attrs, PageInfo, PageSize};

use crate::errno::Errno;
use crate::flags::PAGE_SIZE;
use crate::observe::walk::Seen;
use crate::process::{Platform, Process};

bitflags! {
    /// The flag bits of a word. The lowest 55 bits are the frame number.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct PagemapWord: u64 {
        /// The page was written since soft-dirty was last cleared.
        const SOFT_DIRTY = 1 << 55;
        /// One entry of one address space maps the page. All parts of a huge page show the value of
        /// its first 4 KiB.
        const EXCLUSIVE = 1 << 56;
        /// The page is a guard.
        const GUARD = 1 << 58;
        /// The page is a file's, or shared memory.
        const FILE = 1 << 61;
        /// The page is swapped out. Guards have it, too.
        const SWAP = 1 << 62;
        /// The page is in memory.
        const PRESENT = 1 << 63;
    }
}

impl PagemapWord {
    /// Returns the frame number in a word.
    pub const fn frame(word: u64) -> u64 {
        word & ((1 << 55) - 1)
    }
}

/// Returns the word of a page in memory.
fn word(page: &PageInfo, at: u64, exclusive: bool) -> u64 {
    let mut bits = PagemapWord::PRESENT;
    bits.set(
        PagemapWord::SOFT_DIRTY,
        page.attrs.contains(Attrs::SOFT_DIRTY),
    );
    bits.set(PagemapWord::EXCLUSIVE, exclusive);
    // Linux sets it for the huge zero page, and not for the small one.
    let huge_zero = page.attrs.contains(Attrs::SPECIAL) && page.size != PageSize::Small;
    bits.set(PagemapWord::FILE, huge_zero || page.file());
    let inside = at & (page.size.bytes() - 1);
    bits.bits() | PagemapWord::frame((page.phys + inside) / PAGE_SIZE)
}

impl<P: Platform> Process<P> {
    /// Writes the words of the pages from `addr` on to `into`, as root reads them in
    /// `/proc/PID/pagemap` at `addr / 4096 * 8`. A guard has no frame. Calls wait until it returns. O(VMAs
    /// and pages).
    ///
    /// # Errors
    /// `EINVAL` if `addr` is not the start of a page.
    pub fn pagemap(&self, addr: u64, into: &mut [u64]) -> Result<(), Errno> {
        if !addr.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        into.fill(0);
        // There are no pages beyond.
        let end = addr.saturating_add((into.len() as u64).saturating_mul(PAGE_SIZE));
        let space = self.mm.space.read();
        let end = end.min(space.config.task_size);
        let _ = self.walk_in(&space, addr..end, |seen| {
            let (at, word) = match seen {
                Seen::Page(at, page) => (at, word(&page, at, self.is_shown_exclusive(at, &page))),
                Seen::Swapped(at, out) => {
                    let mut bits = PagemapWord::SWAP;
                    bits.set(PagemapWord::SOFT_DIRTY, out.soft_dirty);
                    // The lowest five bits are the number of the device.
                    (at, bits.bits() | u64::from(out.place) << 5)
                }
                Seen::Guard(at) => (at, (PagemapWord::GUARD | PagemapWord::SWAP).bits()),
                _ => return ControlFlow::Continue(()),
            };
            if let Some(place) = into.get_mut(((at - addr) / PAGE_SIZE) as usize) {
                *place = word;
            }
            ControlFlow::Continue(())
        });
        Ok(())
    }
}
