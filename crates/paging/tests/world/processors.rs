//! Processors: they cache every translation, and drop only those that are invalidated.

use std::collections::BTreeSet;
use std::ops::Range;

use samara_paging::{
    Attrs, Changed, Context, Entry, Format, FrameAllocator, Invalidate, PAGE_SIZE, PhysMem,
};

use super::World;

/// The processors of a world.
pub(super) struct Processors<'a, F: Format, A: FrameAllocator + PhysMem>(
    pub(super) &'a World<F, A>,
);

impl<F: Format, A: FrameAllocator + PhysMem> Invalidate for Processors<'_, F, A> {
    fn invalidate(&self, context: &Context, ranges: &[Range<u64>], changed: Changed) {
        self.0.forget(context, ranges, changed);
    }

    fn notify_mapped(&self, context: &Context, range: Range<u64>, _executable: bool) {
        assert!(F::NOTIFIES_MAPPED && range.start < range.end);
        let mut notified = self.0.notified[context.asid() as usize].borrow_mut();
        notified.extend(self.0.accessible(context.asid() as usize, range));
    }
}

impl<F: Format, A: FrameAllocator + PhysMem> World<F, A> {
    /// Returns the small pages of a range that a processor can find now.
    fn accessible(&self, s: usize, range: Range<u64>) -> BTreeSet<u64> {
        let mut pages = BTreeSet::new();
        self.spaces[s].walk(range, |addr, entry| {
            if let Entry::Page { attrs, size, .. } = entry
                && attrs.intersects(Attrs::ACCESS)
            {
                pages.extend((0..size.frames()).map(|i| addr + i * PAGE_SIZE));
            }
        });
        pages
    }

    /// Checks that every page that became accessible was reported.
    pub(super) fn compare_notified(&self) {
        for (s, notified) in self.notified.iter().enumerate() {
            let pages = self.accessible(s, self.seen());
            let mut notified = notified.borrow_mut();
            if F::NOTIFIES_MAPPED {
                let untold: Vec<_> = pages.difference(&notified).collect();
                assert!(untold.is_empty(), "space {s}: {untold:x?}");
            }
            // A page that was removed must be reported again when it comes back.
            *notified = pages;
        }
    }

    /// Fills the TLBs with all translations.
    pub(super) fn learn(&self) {
        for (space, tlb) in self.spaces.iter().zip(&self.tlb) {
            let mut tlb = tlb.borrow_mut();
            space.walk(self.seen(), |addr, entry| {
                if let Entry::Page { phys, attrs, size } = entry
                    && attrs.intersects(Attrs::ACCESS)
                {
                    for i in 0..size.frames() {
                        let at = i * PAGE_SIZE;
                        tlb.insert(addr + at, (phys + at, attrs.contains(Attrs::WRITE)));
                    }
                }
            });
        }
    }

    fn forget(&self, context: &Context, ranges: &[Range<u64>], _changed: Changed) {
        assert!(!ranges.is_empty() && ranges.len() <= 8);
        assert!(ranges.iter().all(|range| range.start < range.end));
        assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start));
        let mut tlb = self.tlb[context.asid() as usize].borrow_mut();
        for range in ranges {
            let gone: Vec<u64> = tlb.range(range.clone()).map(|(&at, _)| at).collect();
            for at in gone {
                tlb.remove(&at);
            }
        }
    }

    /// Checks that every cached translation is still permitted.
    pub(super) fn compare_tlb(&self) {
        for (space, tlb) in self.spaces.iter().zip(&self.tlb) {
            for (&addr, &(phys, write)) in tlb.borrow().iter() {
                let now = space.translate(addr);
                assert!(
                    now.is_some_and(|(at, attrs)| {
                        at == phys && (!write || attrs.contains(Attrs::WRITE))
                    }),
                    "a processor of space {} still has {addr:#x} at {phys:#x} (write: {write}); now {now:?}",
                    space.asid()
                );
            }
        }
    }
}
