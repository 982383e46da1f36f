//! Huge pages of both sizes, runs of frames, and counts at their limits, in every format.
#![cfg(feature = "hosted")]
#![cfg(not(miri))]
#![allow(clippy::unwrap_used, clippy::panic)]

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use samara_paging::format::{Aarch64, Sv39, Sv48, X86_64, X86_64La57};
use samara_paging::{
    Arena, Attrs, Change, Changed, Context, Entry, Error, ForkFilter, Format, FrameAllocator,
    Grace, HostMemory, Kind, Mapping, PAGE_SIZE, PageSize, PageTables, Physical, Source,
    WritePolicy, check,
};

type Memory = Arc<Physical<Arena<HostMemory>, Grace>>;
type Space<F> = PageTables<F, Memory>;

const RW: Attrs = Attrs::READ
    .union(Attrs::WRITE)
    .union(Attrs::USER)
    .union(Attrs::ACCESSED)
    .union(Attrs::DIRTY);
const LARGE: u64 = 2 << 20;
const GIANT: u64 = 1 << 30;
/// A multiple of 1 GiB.
const AT: u64 = 0x8_0000_0000;

fn memory(frames: usize) -> Memory {
    let arena = Arena::hosted(frames).unwrap();
    Arc::new(Physical::new(arena, Grace::new(), 1 << 30, frames as u64).unwrap())
}

fn space<F: Format>(memory: &Memory, asid: u32) -> Space<F> {
    PageTables::new(memory.clone(), asid).unwrap()
}

/// Checks that all frames except the zero page have been freed.
fn ended(memory: &Memory) {
    memory.reclaim();
    assert_eq!((memory.table_frames(), memory.shared_tables()), (0, 0));
    let arena = memory.backing();
    assert_eq!(arena.free_frames() + 1, arena.frames());
}

fn page(memory: &Memory) -> Source {
    Source::Owned(memory.alloc_page(Kind::Anon).unwrap())
}

fn block(memory: &Memory, order: u32) -> u64 {
    memory.alloc_block(order, Kind::Anon).unwrap()
}

macro_rules! every_format {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                in_format::$name::<X86_64>();
                in_format::$name::<X86_64La57>();
                in_format::$name::<Aarch64>();
                in_format::$name::<Sv39>();
                in_format::$name::<Sv48>();
            }
        )*
    };
}

every_format! {
    small_pages_are_collapsed
    large_pages_are_collapsed
    what_cannot_be_collapsed_stays
    a_giant_page_is_split_where_a_range_ends
    a_giant_page_is_forked
    a_run_is_mapped_as_a_whole_or_not_at_all
    a_frame_has_a_limit_of_mappings
    a_frame_has_a_limit_of_references
}

mod in_format {
    use super::*;

    pub(super) fn small_pages_are_collapsed<F: Format>() {
        let memory = memory(4096);
        let space = space::<F>(&memory, 1);
        let kept = page(&memory);
        memory.get(kept.phys()).unwrap();
        for i in (0..512).step_by(3) {
            let source = if i == 3 { kept } else { page(&memory) };
            let at = AT + i * PAGE_SIZE;
            space.map(at, PageSize::Small, source, RW, &()).unwrap();
        }
        let told = RefCell::new(Vec::new());
        let tlb = |_: &Context, ranges: &[Range<u64>], changed: Changed| {
            // With break-before-make, the first look-up may find nothing.
            let found = space.translate(AT);
            told.borrow_mut().push((ranges.to_vec(), changed, found));
        };
        let source = Source::Owned(block(&memory, 9));
        space
            .collapse(AT, PageSize::Large, source, RW, &tlb)
            .unwrap();
        let told = told.into_inner();
        assert_eq!(told.len(), if F::BREAK_BEFORE_MAKE { 2 } else { 1 });
        for (ranges, changed, found) in &told {
            assert_eq!(ranges.as_slice(), std::slice::from_ref(&(AT..AT + LARGE)));
            assert_eq!(*changed, Changed::PAGES | Changed::TABLES);
            assert!(found.is_none_or(|(phys, _)| phys == source.phys()));
        }
        assert_eq!(told[0].2.is_none(), F::BREAK_BEFORE_MAKE);
        assert_eq!(
            space.translate(AT + 5),
            Some((source.phys() + 5, RW)),
            "{}",
            F::NAME
        );
        assert_eq!(memory.frames().info(kept.phys()).unwrap().mappings, 0);
        memory.put(kept.phys());
        check(&[&space]).unwrap();
        drop(space);
        ended(&memory);
    }

    pub(super) fn large_pages_are_collapsed<F: Format>() {
        let memory = memory(4 << 18);
        let space = space::<F>(&memory, 1);
        for i in [0, 7, 511] {
            let source = Source::Owned(block(&memory, 9));
            let at = AT + i * LARGE;
            space.map(at, PageSize::Large, source, RW, &()).unwrap();
        }
        let giant = Source::Owned(block(&memory, 18));
        space.collapse(AT, PageSize::Giant, giant, RW, &()).unwrap();
        let found = space.page(AT + 7 * LARGE + PAGE_SIZE).unwrap();
        assert_eq!((found.phys, found.size), (giant.phys(), PageSize::Giant));
        check(&[&space]).unwrap();
        drop(space);
        ended(&memory);
    }

    pub(super) fn what_cannot_be_collapsed_stays<F: Format>() {
        let memory = memory(4096);
        let (space, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
        let source = Source::Owned(block(&memory, 9));
        let collapse = |at| space.collapse(at, PageSize::Large, source, RW, &());
        assert_eq!(collapse(AT), Err(Error::NotMapped));
        assert_eq!(collapse(AT + PAGE_SIZE), Err(Error::Misaligned));
        space
            .map(AT, PageSize::Small, page(&memory), RW, &())
            .unwrap();
        space.set_marker(AT + PAGE_SIZE, Some(1), &()).unwrap();
        assert_eq!(collapse(AT), Err(Error::Exists));
        space.set_marker(AT + PAGE_SIZE, None, &()).unwrap();
        space.share_range(&child, AT..AT + LARGE, &()).unwrap();
        assert_eq!(collapse(AT), Err(Error::NotMapped));
        drop(child);
        // Still marked as shared: the next call that changes something clears the mark.
        space
            .map(AT + PAGE_SIZE, PageSize::Small, page(&memory), RW, &())
            .unwrap();
        assert_eq!(collapse(AT), Ok(()));
        assert_eq!(collapse(AT), Err(Error::NotMapped));
        drop(space);
        ended(&memory);
    }

    pub(super) fn a_giant_page_is_split_where_a_range_ends<F: Format>() {
        let memory = memory(3 << 18);
        let space = space::<F>(&memory, 1);
        let giant = block(&memory, 18);
        let source = Source::Owned(giant);
        space.map(AT, PageSize::Giant, source, RW, &()).unwrap();
        // From the fourth small page of the second large one to the end.
        let from = AT + LARGE + 3 * PAGE_SIZE;
        let change = Change::access(Attrs::READ, WritePolicy::Never);
        space.protect(from..AT + GIANT, change, &()).unwrap();
        let at = |addr| space.page(addr).unwrap();
        assert_eq!(at(AT).size, PageSize::Large);
        assert_eq!(at(AT + LARGE).size, PageSize::Small);
        assert_eq!(at(AT + 2 * LARGE).size, PageSize::Large);
        for addr in [AT, from - PAGE_SIZE, from, AT + 2 * LARGE, AT + GIANT - 1] {
            let (phys, attrs) = space.translate(addr).unwrap();
            assert_eq!(phys, giant + (addr - AT));
            assert_eq!(attrs.contains(Attrs::WRITE), addr < from);
        }
        check(&[&space]).unwrap();
        let mut told = 0;
        space
            .unmap_with(
                AT..from,
                samara_paging::UnmapFilter::All,
                &(),
                |_, entry| {
                    if let Entry::Page { size, .. } = entry {
                        told += size.frames();
                    }
                },
            )
            .unwrap();
        assert_eq!(told, 512 + 3);
        check(&[&space]).unwrap();
        // The block is freed as the block that it was.
        space.unmap(AT..AT + GIANT, &()).unwrap();
        drop(space);
        ended(&memory);
        let again = block(&memory, 18);
        memory.put_block(again, 18);
    }

    pub(super) fn a_giant_page_is_forked<F: Format>() {
        let memory = memory(3 << 18);
        let parent = space::<F>(&memory, 1);
        let giant = block(&memory, 18);
        let source = Source::Owned(giant);
        parent.map(AT, PageSize::Giant, source, RW, &()).unwrap();
        for share in [false, true] {
            let child = space::<F>(&memory, 2);
            // More than the page, and then a part of it.
            for range in [AT - GIANT..AT + 2 * GIANT, AT + LARGE..AT + 2 * LARGE] {
                if share {
                    parent.share_range(&child, range.clone(), &()).unwrap();
                } else {
                    let all = ForkFilter::All;
                    parent
                        .copy_range(&child, range.clone(), Mapping::Private, all, &())
                        .unwrap();
                }
                for space in [&parent, &child] {
                    let (phys, attrs) = space.translate(AT + LARGE + 9).unwrap();
                    assert_eq!(phys, giant + LARGE + 9);
                    assert!(!attrs.contains(Attrs::WRITE));
                }
                check(&[&parent, &child]).unwrap();
                child.unmap(range, &()).unwrap();
            }
            check(&[&parent, &child]).unwrap();
        }
        drop(parent);
        ended(&memory);
    }

    pub(super) fn a_run_is_mapped_as_a_whole_or_not_at_all<F: Format>() {
        let memory = memory(4096);
        let space = space::<F>(&memory, 1);
        let run = block(&memory, 9);
        let at = AT + LARGE - 100 * PAGE_SIZE;
        let source = Source::Owned(run);
        let map = |count| space.map_run(at, count, source, RW, &());
        // In the way, in the second of the two tables.
        let there = at + 300 * PAGE_SIZE;
        space
            .map(there, PageSize::Small, page(&memory), RW, &())
            .unwrap();
        let tables = memory.table_frames();
        assert_eq!(map(512), Err(Error::Exists));
        space.unmap(there..there + PAGE_SIZE, &()).unwrap();
        for allowed in 0..F::LEVELS as u64 {
            memory.backing().refuse_after(Some(allowed));
            assert_eq!(map(512), Err(Error::NoMemory));
            memory.backing().refuse_after(None);
        }
        assert!(memory.table_frames() < tables);
        assert_eq!(map(usize::MAX), Err(Error::Misaligned));
        assert_eq!(memory.frames().info(run).unwrap().references, 1);
        map(512).unwrap();
        for i in [0, 99, 100, 511] {
            let found = space.translate(at + i * PAGE_SIZE);
            assert_eq!(found, Some((run + i * PAGE_SIZE, RW)));
        }
        assert_eq!(space.entry(at + LARGE), Entry::Empty);
        check(&[&space]).unwrap();
        // Some frames of the block are mapped twice, and one is not mapped.
        let counted = Source::Counted(run + 500 * PAGE_SIZE);
        space.map_run(AT, 12, counted, RW, &()).unwrap();
        space
            .map_run(AT + LARGE * 2, 3, Source::Special(1 << 40), RW, &())
            .unwrap();
        assert_eq!(
            space.translate(AT + LARGE * 2 + 2 * PAGE_SIZE).unwrap().0,
            (1 << 40) + 2 * PAGE_SIZE
        );
        drop(space);
        ended(&memory);
    }

    pub(super) fn a_frame_has_a_limit_of_mappings<F: Format>() {
        let memory = memory(8192);
        let (space, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
        let file = memory.alloc_page(Kind::File).unwrap();
        // All processors together must not cross the limit, so that the last 4,096 are reserved.
        let most = (1 << 20) - 1 - 4096;
        let sources = vec![Source::Counted(file); most];
        space.map_pages(AT, &sources, RW, &()).unwrap();
        let mapped = || memory.frames().info(file).unwrap().mappings as usize;
        assert_eq!(mapped(), most);
        let range = AT..AT + most as u64 * PAGE_SIZE;
        let map = |at| space.map(at, PageSize::Small, Source::Counted(file), RW, &());
        assert_eq!(map(range.end), Err(Error::TooMany));
        // A fork also fails at its second page, and counts nothing.
        let after = page(&memory);
        space.unmap(AT..AT + PAGE_SIZE, &()).unwrap();
        space.map(AT, PageSize::Small, after, RW, &()).unwrap();
        for mapping in [Mapping::Private, Mapping::Shared] {
            let part = AT..AT + 3 * PAGE_SIZE;
            let result = space.copy_range(&child, part, mapping, ForkFilter::All, &());
            assert_eq!(result, Err(Error::TooMany));
            assert_eq!(mapped(), most - 1);
            assert_eq!(child.entry(AT), Entry::Empty);
        }
        check(&[&space, &child]).unwrap();
        // Sharing counts tables: only the end, which fills no table, cannot be copied. Nothing
        // stays shared then.
        let result = space.share_range(&child, range, &());
        assert_eq!(result, Err(Error::TooMany));
        check(&[&space, &child]).unwrap();
        assert_eq!((child.entry(AT), memory.shared_tables()), (Entry::Empty, 0));
        // The copy that ends the sharing fails as well.
        space.share_range(&child, AT..AT + LARGE, &()).unwrap();
        let alone = child.pte(AT, &()).reuse_exclusive(after.phys());
        assert_eq!(alone, Err(Error::TooMany));
        assert_eq!(child.page(AT).unwrap().users, 2);
        check(&[&space, &child]).unwrap();
        drop((space, child));
        memory.put(file);
        ended(&memory);
    }

    pub(super) fn a_frame_has_a_limit_of_references<F: Format>() {
        let memory = memory(64);
        let space = space::<F>(&memory, 1);
        let source = page(&memory);
        space.map(AT, PageSize::Small, source, RW, &()).unwrap();
        let pins: Vec<_> = (0..1023)
            .map(|_| space.get_page(AT, Attrs::READ).unwrap())
            .collect();
        assert_eq!(space.get_page(AT, Attrs::READ), Err(Error::TooMany));
        assert_eq!(memory.get(source.phys()), Err(Error::TooMany));
        let info = memory.frames().info(source.phys()).unwrap();
        assert_eq!((info.mappings, info.references), (1, 1023));
        pins.into_iter().for_each(|pin| pin.put(&memory));
        drop(space);
        ended(&memory);
        assert!(memory.backing().alloc(0).is_some());
    }
}
