//! Processors: they remember every translation there is, and forget only what they are told to forget.

use std::ops::Range;

use samara_paging::{Attrs, Changed, Context, Entry, Format, FrameAllocator, PAGE_SIZE, PhysMem};

use super::World;

impl<F: Format, A: FrameAllocator + PhysMem> World<F, A> {
    /// Processors learn all that there is to know.
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

    pub(super) fn forget(&self, context: &Context, ranges: &[Range<u64>], _changed: Changed) {
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

    /// What processors remember must be allowed still.
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
