//! What a fault handler, a page cache and a fork do with one page or a few, in every format.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use samara_paging::format::{Aarch64, Sv39, Sv48, X86_64, X86_64La57};
use samara_paging::{
    Among, Arena, Attrs, Change, Copy, Entry, Error, Format, Grace, HeapBytes, Kind, Mapping,
    PAGE_SIZE, PageSize, PageTables, Physical, Source, Take, Write, check,
};

type Memory = Arc<Physical<Arena<HeapBytes>, Grace>>;
type Space<F> = PageTables<F, Memory>;

const RW: Attrs = Attrs::READ
    .union(Attrs::WRITE)
    .union(Attrs::USER)
    .union(Attrs::ACCESSED)
    .union(Attrs::DIRTY);
const CLEAN: Attrs = Attrs::READ.union(Attrs::USER).union(Attrs::ACCESSED);
/// The second page of a stretch of 2 MiB.
const AT: u64 = 0x4000_1000;
const STRETCH: std::ops::Range<u64> = 0x4000_0000..0x4020_0000;

fn memory() -> Memory {
    let frames = 2048;
    let arena = Arena::on_heap(frames).unwrap();
    Arc::new(Physical::new(arena, Grace::new(), 1 << 30, frames as u64).unwrap())
}

fn space<F: Format>(memory: &Memory, asid: u32) -> Space<F> {
    PageTables::new(memory.clone(), asid).unwrap()
}

fn map_anon<F: Format>(space: &Space<F>, memory: &Memory, addr: u64) -> u64 {
    let phys = memory.alloc_page(Kind::Anon).unwrap();
    let source = Source::Owned(phys);
    space.map(addr, PageSize::Small, source, RW, &()).unwrap();
    phys
}

/// Maps a page that a page cache keeps.
fn map_file<F: Format>(space: &Space<F>, memory: &Memory, addr: u64, attrs: Attrs) -> u64 {
    let phys = memory.alloc_page(Kind::File).unwrap();
    let source = Source::Counted(phys);
    space
        .map(addr, PageSize::Small, source, attrs, &())
        .unwrap();
    phys
}

fn told<F: Format>(space: &Space<F>, take: Take) -> Vec<(u64, Entry)> {
    let mut told = Vec::new();
    let seen = |addr, entry| told.push((addr, entry));
    space.unmap_with(STRETCH, take, &(), seen).unwrap();
    told
}

macro_rules! every_format {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                in_format::$name::<X86_64>();
                if !cfg!(miri) {
                    in_format::$name::<Sv39>();
                    in_format::$name::<X86_64La57>();
                    in_format::$name::<Aarch64>();
                    in_format::$name::<Sv48>();
                }
            }
        )*
    };
}

every_format! {
    each_user_of_a_shared_table_tells_of_its_pages
    nothing_is_stored_through_a_shared_table
    a_hole_leaves_private_copies_and_markers
    markers_survive_a_discard
    only_what_nobody_misses_is_dropped
    only_pages_that_are_had_alone_become_cold
    a_page_is_allowed_only_where_it_still_is
    a_pinned_page_is_not_alone
    a_copy_may_come_too_late
    an_access_notes_what_a_processor_notes
    filling_passes_over_what_is_there
    filling_stops_at_an_error
    a_huge_page_is_written_alone
    a_fork_leaves_out_what_a_fault_brings_back
    cleaning_tells_of_dirty_pages
    a_view_sees_what_has_changed
    frames_come_back_in_any_order
    new_frames_fill_what_is_empty
    pages_leave_shared_tables_without_memory
}

mod in_format {
    use super::*;

    pub(super) fn each_user_of_a_shared_table_tells_of_its_pages<F: Format>() {
        let memory = memory();
        let (parent, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
        let file = map_file(&parent, &memory, AT, RW);
        map_anon(&parent, &memory, AT + PAGE_SIZE);
        parent.mark(AT + 2 * PAGE_SIZE, Some(7), &()).unwrap();
        parent.share_range(&child, STRETCH, &()).unwrap();
        for (users, space) in [(2, &child), (1, &parent)] {
            assert_eq!(space.page(AT).unwrap().users, users);
            let told = told(space, Take::All);
            assert_eq!(told.len(), 3);
            assert_eq!(told[2], (AT + 2 * PAGE_SIZE, Entry::Marker(7)));
            let (AT, Entry::Page { phys, attrs, .. }) = told[0] else {
                panic!("{told:?}")
            };
            assert!(phys == file && attrs.contains(Attrs::DIRTY));
            check(&[&parent, &child]).unwrap();
        }
        assert_eq!(memory.frames().info(file).unwrap().mappings, 0);
    }

    /// So no page becomes dirty after a user of the table has told of it.
    pub(super) fn nothing_is_stored_through_a_shared_table<F: Format>() {
        let memory = memory();
        let (parent, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
        let file = map_file(&parent, &memory, AT, RW);
        let device = AT + PAGE_SIZE;
        let source = Source::Special(0x1000);
        parent
            .map(device, PageSize::Small, source, RW, &())
            .unwrap();
        parent.share_range(&child, STRETCH, &()).unwrap();
        for addr in [AT, device] {
            for space in [&parent, &child] {
                assert!(!space.translate(addr).unwrap().1.contains(Attrs::WRITE));
                assert!(space.access(addr, Attrs::WRITE, |_| ()).is_err());
            }
        }
        parent.allow(AT, file, Attrs::WRITE, &()).unwrap();
        assert!(parent.translate(AT).unwrap().1.contains(Attrs::WRITE));
        assert!(!child.translate(AT).unwrap().1.contains(Attrs::WRITE));
        child.allow(AT, file, Attrs::WRITE, &()).unwrap();
        assert!(child.translate(AT).unwrap().1.contains(Attrs::WRITE));
        check(&[&parent, &child]).unwrap();
    }

    pub(super) fn a_hole_leaves_private_copies_and_markers<F: Format>() {
        for share in [false, true] {
            let memory = memory();
            let (space, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
            map_file(&space, &memory, AT, CLEAN);
            let copy = map_anon(&space, &memory, AT + PAGE_SIZE);
            space.mark(AT + 2 * PAGE_SIZE, Some(7), &()).unwrap();
            if share {
                space.share_range(&child, STRETCH, &()).unwrap();
            }
            assert_eq!(told(&space, Take::FilePages).len(), 1);
            assert_eq!(space.entry(AT), Entry::Empty);
            assert_eq!(space.translate(AT + PAGE_SIZE).unwrap().0, copy);
            assert_eq!(space.entry(AT + 2 * PAGE_SIZE), Entry::Marker(7));
            assert_eq!(child.translate(AT).is_some(), share);
            // Nothing is left to take: a table that is shared stays so.
            let tables = memory.table_frames();
            assert_eq!(told(&space, Take::FilePages), []);
            assert_eq!(memory.table_frames(), tables);
            check(&[&space, &child]).unwrap();
        }
    }

    pub(super) fn markers_survive_a_discard<F: Format>() {
        for share in [false, true] {
            let memory = memory();
            let (space, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
            map_anon(&space, &memory, AT);
            space.mark(AT + PAGE_SIZE, Some(7), &()).unwrap();
            if share {
                space.share_range(&child, STRETCH, &()).unwrap();
            }
            assert_eq!(told(&space, Take::Pages).len(), 1);
            assert_eq!(space.entry(AT), Entry::Empty);
            assert_eq!(space.entry(AT + PAGE_SIZE), Entry::Marker(7));
            assert_eq!(told(&space, Take::All).len(), 1);
            check(&[&space, &child]).unwrap();
        }
    }

    pub(super) fn only_what_nobody_misses_is_dropped<F: Format>() {
        let memory = memory();
        let (space, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
        let clean = Change::without(Attrs::WRITE | Attrs::DIRTY | Attrs::ACCESSED);
        let page = |n: u64| AT + n * PAGE_SIZE;
        for n in 0..3 {
            map_anon(&space, &memory, page(n));
        }
        map_file(&space, &memory, page(3), RW);
        let zero = Source::Special(memory.zero_page());
        space
            .map(page(4), PageSize::Small, zero, CLEAN, &())
            .unwrap();
        space.mark(page(5), Some(7), &()).unwrap();
        space.protect(page(0)..page(2), clean, &()).unwrap();
        // A page that is written again is missed.
        let second = space.translate(page(1)).unwrap().0;
        assert!(space.access(page(1), Attrs::WRITE, |_| ()).is_err());
        assert!(space.spot(page(1), &()).write_alone(second).unwrap());
        // Who shares the table, too, has all pages of it.
        space.share_range(&child, STRETCH, &()).unwrap();
        let tables = memory.table_frames();
        assert_eq!(told(&space, Take::Idle), []);
        assert_eq!(memory.table_frames(), tables);
        child.unmap(STRETCH, &()).unwrap();
        let gone: Vec<u64> = told(&space, Take::Idle).iter().map(|told| told.0).collect();
        assert_eq!(gone, [page(0), page(3)]);
        // So has who copied it.
        space.protect(page(1)..page(3), clean, &()).unwrap();
        space
            .copy_range(&child, STRETCH, Mapping::Private, Copy::All, &())
            .unwrap();
        assert_eq!(told(&space, Take::Idle), []);
        child.unmap(page(1)..page(2), &()).unwrap();
        assert_eq!(told(&space, Take::Idle).len(), 1);
        check(&[&space, &child]).unwrap();
    }

    pub(super) fn only_pages_that_are_had_alone_become_cold<F: Format>() {
        let memory = memory();
        let (space, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
        let cold = Change::without(Attrs::ACCESSED).among(Among::Alone);
        let used = |addr| {
            let (_, attrs) = space.translate(addr).unwrap();
            attrs.contains(Attrs::ACCESSED)
        };
        map_anon(&space, &memory, AT);
        map_anon(&space, &memory, AT + PAGE_SIZE);
        space.share_range(&child, STRETCH, &()).unwrap();
        space.protect(STRETCH, cold, &()).unwrap();
        assert!(used(AT));
        assert_eq!(memory.shared_tables(), 1);
        child.unmap(STRETCH, &()).unwrap();
        space
            .copy_range(&child, AT..AT + PAGE_SIZE, Mapping::Private, Copy::All, &())
            .unwrap();
        space.protect(STRETCH, cold, &()).unwrap();
        assert!(used(AT) && !used(AT + PAGE_SIZE));
        check(&[&space, &child]).unwrap();
    }

    pub(super) fn a_page_is_allowed_only_where_it_still_is<F: Format>() {
        let memory = memory();
        let space = space::<F>(&memory, 1);
        let page = map_file(&space, &memory, AT, CLEAN);
        let add = Attrs::WRITE | Attrs::DIRTY;
        let missing = Err(Error::NotMapped);
        assert_eq!(space.allow(AT, page + PAGE_SIZE, add, &()), missing);
        assert_eq!(space.allow(AT + PAGE_SIZE, page, add, &()), missing);
        space.allow(AT, page, add, &()).unwrap();
        assert!(space.translate(AT).unwrap().1.contains(add));
    }

    pub(super) fn a_pinned_page_is_not_alone<F: Format>() {
        let memory = memory();
        let space = space::<F>(&memory, 1);
        let page = map_anon(&space, &memory, AT);
        let change = Change::without(Attrs::WRITE);
        space.protect(AT..AT + PAGE_SIZE, change, &()).unwrap();
        assert_eq!(space.pin(AT, Attrs::WRITE), Err(Error::NotMapped));
        let pin = space.pin(AT + 5, Attrs::READ).unwrap();
        assert!(pin.phys() == page && pin.counted());
        assert_eq!(space.spot(AT, &()).write_alone(page), Ok(false));
        // It outlives the mapping.
        space.unmap(STRETCH, &()).unwrap();
        assert_eq!(memory.frames().info(page).unwrap().references, 1);
        pin.put(&memory);
        assert_eq!(memory.frames().info(page), None);

        let zero = memory.zero_page();
        let source = Source::Special(zero);
        space.map(AT, PageSize::Small, source, CLEAN, &()).unwrap();
        let pin = space.pin(AT, Attrs::READ).unwrap();
        assert!(pin.phys() == zero && !pin.counted());
        pin.put(&memory);
        assert!(space.page(AT).unwrap().zero);
    }

    pub(super) fn a_copy_may_come_too_late<F: Format>() {
        let memory = memory();
        let (parent, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
        let fork = || {
            let copied = parent.copy_range(&child, STRETCH, Mapping::Private, Copy::All, &());
            copied.unwrap();
        };
        let old = map_anon(&parent, &memory, AT);
        let frame = || memory.alloc_page(Kind::Anon).unwrap();
        let references = |phys| memory.frames().info(phys).map(|info| info.references);
        let spaces = [&parent, &child];

        // Another thread was faster.
        fork();
        let (first, second) = (frame(), frame());
        let mut spot = child.spot(AT, &());
        assert!(matches!(spot.entry(), Entry::Page { .. }) && !spot.seems_alone(old));
        assert_eq!(
            child.spot(AT, &()).write_copy(old, first, RW, |_| ()),
            Ok(true)
        );
        let copy = |_| panic!("what is to be copied has gone");
        assert_eq!(
            spot.write_copy(old, second, RW, copy),
            Err(Error::NotMapped)
        );
        assert_eq!(references(second), Some(1));
        assert_eq!(child.page(AT).unwrap().phys, first);
        drop(spot);
        check(&spaces).unwrap();

        // The table has gone, and another is in its place.
        let mut spot = child.spot(AT, &());
        spot.entry();
        child.unmap(STRETCH, &()).unwrap();
        fork();
        let mut still = None;
        let copy = |is| still = Some(is);
        assert_eq!(spot.write_copy(old, second, RW, copy), Ok(true));
        assert_eq!(still, Some(true));
        assert_eq!(child.page(AT).unwrap().phys, second);
        assert_eq!(parent.page(AT).unwrap().phys, old);
        drop(spot);
        check(&spaces).unwrap();

        // The other side has given the page up.
        child.unmap(STRETCH, &()).unwrap();
        fork();
        let new = frame();
        let mut spot = child.spot(AT, &());
        spot.entry();
        parent.unmap(STRETCH, &()).unwrap();
        let copy = |_| panic!("nobody else has the page");
        assert_eq!(spot.write_copy(old, new, RW, copy), Ok(false));
        drop(spot);
        assert_eq!(references(new), Some(1));
        memory.put(new);
        assert_eq!(child.page(AT).unwrap().phys, old);
        assert!(child.translate(AT).unwrap().1.contains(Attrs::WRITE));
        check(&spaces).unwrap();
    }

    pub(super) fn an_access_notes_what_a_processor_notes<F: Format>() {
        let memory = memory();
        let space = space::<F>(&memory, 1);
        assert_eq!(
            space.access(u64::MAX / 2, Attrs::READ, |_| ()),
            Err(Entry::Empty)
        );
        let page = map_file(
            &space,
            &memory,
            AT,
            Attrs::READ | Attrs::WRITE | Attrs::USER,
        );
        let attrs = || space.translate(AT).unwrap().1;
        assert_eq!(space.access(AT + 9, Attrs::READ, |phys| phys), Ok(page + 9));
        assert!(attrs().contains(Attrs::ACCESSED) && !attrs().contains(Attrs::DIRTY));
        assert_eq!(space.access(AT, Attrs::WRITE, |phys| phys), Ok(page));
        assert!(attrs().contains(Attrs::DIRTY));
        assert!(matches!(
            space.access(AT, Attrs::EXEC, |_| ()),
            Err(Entry::Page { .. })
        ));
        let change = Change::access(Attrs::empty(), Write::Never);
        space.protect(STRETCH, change, &()).unwrap();
        assert!(space.access(AT, Attrs::empty(), |_| ()).is_err());
        // Within a huge page, the byte's own address.
        let block = memory.alloc_block(9, Kind::Anon).unwrap();
        let large = 0x8000_0000;
        let source = Source::Owned(block);
        space.map(large, PageSize::Large, source, RW, &()).unwrap();
        let there = space.access(large + 0x12345, Attrs::WRITE, |phys| phys);
        assert_eq!(there, Ok(block + 0x12345));
        let pin = space.pin(large + 0x12345, Attrs::WRITE).unwrap();
        assert_eq!(pin.phys(), block + 0x12000);
        pin.put(&memory);
    }

    pub(super) fn filling_passes_over_what_is_there<F: Format>() {
        let memory = memory();
        let (space, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
        let own = map_anon(&space, &memory, AT);
        space.mark(AT + PAGE_SIZE, Some(1), &()).unwrap();
        let block = memory.alloc_block(9, Kind::Anon).unwrap();
        let source = Source::Owned(block);
        space
            .map(STRETCH.end, PageSize::Large, source, RW, &())
            .unwrap();
        space.share_range(&child, STRETCH, &()).unwrap();
        let (mut pages, mut asked) = (Vec::new(), Vec::new());
        // From the page before, over the huge page, into the stretch behind it.
        let after = STRETCH.end + (2 << 20);
        let mapped = space.fill(AT - PAGE_SIZE..after + PAGE_SIZE, RW, &(), |addr| {
            asked.push(addr);
            if addr > AT && addr < after {
                return Ok(None);
            }
            let page = memory.alloc_page(Kind::Anon)?;
            pages.push(page);
            Ok(Some(Source::Owned(page)))
        });
        assert_eq!(mapped, Ok(2));
        assert_eq!(asked.len(), 511);
        assert!(asked.is_sorted() && !asked.contains(&AT));
        assert_eq!(space.translate(AT - PAGE_SIZE).unwrap().0, pages[0]);
        assert_eq!(space.translate(AT).unwrap().0, own);
        assert_eq!(space.translate(after).unwrap().0, pages[1]);
        assert_eq!(child.entry(AT - PAGE_SIZE), Entry::Empty);
        // Nothing comes: no table is left for it.
        let tables = memory.table_frames();
        let far = 0x10_0000_0000;
        let nothing = space.fill(far..far + (4 << 20), RW, &(), |_| Ok(None));
        assert_eq!((nothing, memory.table_frames()), (Ok(0), tables));
        check(&[&space, &child]).unwrap();
    }

    pub(super) fn filling_stops_at_an_error<F: Format>() {
        let memory = memory();
        let space = space::<F>(&memory, 1);
        let mut left = 3;
        let result = space.fill(STRETCH, RW, &(), |_| {
            if left == 0 {
                return Err(Error::NoMemory);
            }
            left -= 1;
            memory
                .alloc_page(Kind::Anon)
                .map(|page| Some(Source::Owned(page)))
        });
        assert_eq!(result, Err(Error::NoMemory));
        assert!(space.translate(AT + PAGE_SIZE).is_some());
        assert!(space.translate(AT + 2 * PAGE_SIZE).is_none());
        check(&[&space]).unwrap();
        // An owned frame that cannot be mapped goes back.
        let free = memory.backing().free_frames();
        let result = space.fill(AT + 2 * PAGE_SIZE..STRETCH.end, RW, &(), |_| {
            Ok(Some(Source::Special(1)))
        });
        assert_eq!(result, Err(Error::Misaligned));
        assert_eq!(memory.backing().free_frames(), free);
    }

    pub(super) fn new_frames_fill_what_is_empty<F: Format>() {
        let memory = memory();
        let (space, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
        let there = map_anon(&space, &memory, AT + PAGE_SIZE);
        space.mark(AT + 2 * PAGE_SIZE, Some(7), &()).unwrap();
        space.share_range(&child, STRETCH, &()).unwrap();
        // Bytes of whoever had the frames before.
        let mut frames = [0; 64];
        assert_eq!(memory.alloc_pages(Kind::Anon, &mut frames), 64);
        for &phys in &frames {
            // SAFETY: a frame of the test's own.
            unsafe { memory.to_virt(phys).write_bytes(0xee, PAGE_SIZE as usize) };
            memory.put(phys);
        }
        assert_eq!(memory.alloc_zeroed_pages(Kind::Anon, &mut frames), 64);
        for &phys in &frames {
            // SAFETY: as above.
            let bytes = unsafe { memory.to_virt(phys).cast::<[u8; 4096]>().as_ref() };
            assert!(bytes.iter().all(|&byte| byte == 0));
        }
        // Fewer places than frames: two of eight are taken. The other side's table stays as it is.
        let range = AT..AT + 8 * PAGE_SIZE;
        let (mapped, result) = space.fill_owned(range.clone(), RW, &(), &frames[..8]);
        assert_eq!((mapped, result), (6, Ok(())));
        let found: Vec<_> = (range.clone().step_by(PAGE_SIZE as usize))
            .filter_map(|page| Some(space.translate(page)?.0))
            .collect();
        assert_eq!(
            found,
            [
                frames[0], there, frames[1], frames[2], frames[3], frames[4], frames[5]
            ]
        );
        assert_eq!(space.entry(AT + 2 * PAGE_SIZE), Entry::Marker(7));
        assert_eq!(child.translate(AT), None);
        let (_, attrs) = space.translate(AT).unwrap();
        assert!(attrs.contains(RW));
        // Fewer frames than places, over the end of a table; and a frame that is none.
        let far = STRETCH.end - 2 * PAGE_SIZE..STRETCH.end + 20 * PAGE_SIZE;
        let (mapped, result) = space.fill_owned(far, RW, &(), &frames[6..14]);
        assert_eq!((mapped, result), (8, Ok(())));
        let odd = [frames[14], frames[15] + 1];
        let end = STRETCH.end + 100 * PAGE_SIZE;
        let (mapped, result) = space.fill_owned(end..end + 2 * PAGE_SIZE, RW, &(), &odd);
        assert_eq!((mapped, result), (1, Err(Error::Misaligned)));
        // Without memory for a table, nothing is left of what was tried.
        memory.backing().refuse_after(Some(1));
        let nowhere = 0x10_0000_0000;
        let range = nowhere..nowhere + 4 * PAGE_SIZE;
        let (mapped, result) = space.fill_owned(range, RW, &(), &frames[15..19]);
        assert_eq!((mapped, result), (0, Err(Error::NoMemory)));
        memory.backing().refuse_after(None);
        frames[15..].iter().for_each(|&phys| memory.put(phys));
        check(&[&space, &child]).unwrap();
    }

    pub(super) fn pages_leave_shared_tables_without_memory<F: Format>() {
        let memory = memory();
        let spaces = [1, 2, 3].map(|asid| space::<F>(&memory, asid));
        let cached = memory.alloc_page(Kind::File).unwrap();
        let last = STRETCH.end;
        for addr in [AT, last] {
            let source = Source::Counted(cached);
            (spaces[0].map(addr, PageSize::Small, source, RW, &())).unwrap();
        }
        let own = map_anon(&spaces[0], &memory, AT + PAGE_SIZE);
        let range = STRETCH.start..STRETCH.end + (2 << 20);
        for child in &spaces[1..] {
            spaces[0].share_range(child, range.clone(), &()).unwrap();
        }
        memory.backing().refuse_after(Some(0));
        let file = AT..last + PAGE_SIZE;
        let told = std::cell::RefCell::new(Vec::new());
        let tlb = |asid, ranges: &[std::ops::Range<u64>], _| {
            told.borrow_mut().push((asid, ranges.to_vec()));
        };
        for space in &spaces {
            space.hide(file.clone(), Take::FilePages, &tlb).unwrap();
        }
        // Each has been told of both, whoever hid them.
        let both = vec![AT..AT + PAGE_SIZE, last..last + PAGE_SIZE];
        let expected: Vec<_> = (1..=3).map(|asid| (asid, both.clone())).collect();
        assert_eq!(*told.borrow(), expected);
        assert_eq!(memory.frames().info(cached).unwrap().mappings, 2);
        // One makes it accessible again, in a table of its own, and shares that.
        memory.backing().refuse_after(None);
        let again = Change::access(Attrs::READ, Write::Never);
        spaces[1].protect(AT..AT + PAGE_SIZE, again, &()).unwrap();
        let late = space::<F>(&memory, 4);
        spaces[1].share_range(&late, range.clone(), &()).unwrap();
        memory.backing().refuse_after(Some(0));
        let strip = |space: &Space<F>| space.strip(file.clone(), Take::FilePages, &tlb).unwrap();
        let all: Vec<_> = spaces.iter().chain([&late]).collect();
        let complete: Vec<bool> = all.iter().map(|space| strip(space)).collect();
        assert_eq!(complete, [true, false, true, false]);
        for space in &all {
            space.hide(file.clone(), Take::FilePages, &tlb).unwrap();
        }
        for space in &all {
            assert!(strip(space));
            assert_eq!(space.translate(AT), None);
            assert_eq!(space.translate(last), None);
            assert_eq!(space.translate(AT + PAGE_SIZE).unwrap().0, own);
        }
        let info = memory.frames().info(cached).unwrap();
        assert_eq!((info.mappings, info.references), (0, 1));
        memory.put(cached);
        check(&all).unwrap();
    }

    pub(super) fn a_huge_page_is_written_alone<F: Format>() {
        let memory = memory();
        let (space, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
        let block = memory.alloc_block(9, Kind::Anon).unwrap();
        let source = Source::Owned(block);
        space
            .map(STRETCH.start, PageSize::Large, source, RW, &())
            .unwrap();
        space
            .copy_range(&child, STRETCH, Mapping::Private, Copy::All, &())
            .unwrap();
        assert_eq!(space.spot(AT, &()).write_alone(block), Ok(false));
        // One of its frames is still the child's.
        child
            .unmap(STRETCH.start..STRETCH.end - PAGE_SIZE, &())
            .unwrap();
        assert_eq!(space.spot(AT, &()).write_alone(block), Ok(false));
        drop(child);
        assert_eq!(
            space.spot(AT, &()).write_alone(block + PAGE_SIZE),
            Err(Error::NotMapped)
        );
        assert_eq!(space.spot(AT, &()).write_alone(block), Ok(true));
        let page = space.page(AT).unwrap();
        assert!(page.size == PageSize::Large && page.attrs.contains(Attrs::WRITE));
        check(&[&space]).unwrap();
    }

    pub(super) fn a_fork_leaves_out_what_a_fault_brings_back<F: Format>() {
        let page = |i: u64| AT + i * PAGE_SIZE;
        for (copy, expected) in [
            (Copy::All, [true; 5]),
            (Copy::NotCleanFile, [false, true, true, true, true]),
            (Copy::NotRestorable, [false, true, true, false, true]),
        ] {
            let memory = memory();
            let (parent, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
            map_file(&parent, &memory, page(0), CLEAN);
            map_file(&parent, &memory, page(1), RW);
            map_anon(&parent, &memory, page(2));
            let zero = Source::Special(memory.zero_page());
            parent
                .map(page(3), PageSize::Small, zero, CLEAN, &())
                .unwrap();
            parent.mark(page(4), Some(3), &()).unwrap();
            parent
                .copy_range(&child, STRETCH, Mapping::Private, copy, &())
                .unwrap();
            let found: [bool; 5] =
                std::array::from_fn(|i| child.entry(page(i as u64)) != Entry::Empty);
            assert_eq!(found, expected, "{copy:?}");
            check(&[&parent, &child]).unwrap();
        }
    }

    pub(super) fn cleaning_tells_of_dirty_pages<F: Format>() {
        let memory = memory();
        let (space, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
        let dirty = map_file(&space, &memory, AT, RW);
        map_file(&space, &memory, AT + PAGE_SIZE, CLEAN);
        space.share_range(&child, STRETCH, &()).unwrap();
        let mut told = Vec::new();
        let change = Change::without(Attrs::WRITE | Attrs::DIRTY);
        let mut clean = |space: &Space<F>| {
            space
                .protect_with(STRETCH, change, &(), |addr, before| {
                    told.push((addr, before))
                })
                .unwrap();
            told.len()
        };
        assert_eq!(clean(&space), 1);
        assert_eq!(clean(&space), 1);
        // The other side's own word on the same page.
        assert_eq!(clean(&child), 2);
        for (addr, before) in told {
            let Entry::Page { phys, attrs, .. } = before else {
                panic!("{before:?}")
            };
            assert!((addr, phys) == (AT, dirty) && attrs.contains(Attrs::DIRTY));
        }
        check(&[&space, &child]).unwrap();
    }

    /// Whatever comes in the place of a table that a view remembers.
    pub(super) fn a_view_sees_what_has_changed<F: Format>() {
        let memory = memory();
        let (space, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
        let mut view = space.view(AT);
        let page = map_anon(&space, &memory, AT);
        map_anon(&space, &memory, AT + PAGE_SIZE);
        assert_eq!(view.translate(AT), Some((page, RW)));
        // The table becomes shared, and the space's own again by either way.
        for leaves in [false, true] {
            let child = PageTables::<F, _>::new(memory.clone(), 3).unwrap();
            space.share_range(&child, STRETCH, &()).unwrap();
            let mut other = child.view(AT);
            for found in [view.translate(AT), other.translate(AT)] {
                let (phys, attrs) = found.unwrap();
                assert!(phys == page && !attrs.contains(Attrs::WRITE));
            }
            child.unmap(AT..AT + PAGE_SIZE, &()).unwrap();
            assert_eq!(other.translate(AT), None);
            if leaves {
                child.unmap(STRETCH, &()).unwrap();
            }
            assert_eq!(space.spot(AT, &()).write_alone(page), Ok(true));
            assert!(view.translate(AT).unwrap().1.contains(Attrs::WRITE));
        }
        // It goes, and a huge page comes, which is divided.
        space.unmap(STRETCH, &()).unwrap();
        assert_eq!(view.translate(AT), None);
        let block = memory.alloc_block(9, Kind::Anon).unwrap();
        let source = Source::Owned(block);
        space
            .map(STRETCH.start, PageSize::Large, source, RW, &())
            .unwrap();
        assert_eq!(view.translate(AT).unwrap().0, block + PAGE_SIZE);
        space.split(AT, PageSize::Small, &()).unwrap();
        assert_eq!(view.translate(AT).unwrap().0, block + PAGE_SIZE);
        // Moved away, and back; then put together.
        let away = 0x10_0000_0000;
        space.move_range(STRETCH.start, away, 2 << 20, &()).unwrap();
        assert_eq!(view.translate(AT), None);
        assert!(view.translate(away).is_some());
        space.move_range(away, STRETCH.start, 2 << 20, &()).unwrap();
        assert_eq!(view.translate(away), None);
        assert!(view.translate(AT).is_some());
        let source = Source::Owned(memory.alloc_block(9, Kind::Anon).unwrap());
        space
            .collapse(STRETCH.start, PageSize::Large, source, RW, &())
            .unwrap();
        assert_eq!(view.translate(AT).unwrap().0, source.phys() + PAGE_SIZE);
        assert_eq!(view.entry(u64::MAX / 2), Entry::Empty);
        check(&[&space, &child]).unwrap();
    }

    /// Runs of dead frames, ascending, descending and scattered, of single frames and of parts of blocks.
    pub(super) fn frames_come_back_in_any_order<F: Format>() {
        let memory = memory();
        let space = space::<F>(&memory, 1);
        let free = memory.backing().free_frames();
        let block = memory.alloc_block(9, Kind::Anon).unwrap();
        let mut sources: Vec<_> = (0..512)
            .map(|i| Source::Owned(block + i * PAGE_SIZE))
            .collect();
        sources.extend((0..500).map(|_| Source::Owned(memory.alloc_page(Kind::Anon).unwrap())));
        let steps: &[usize] = if cfg!(miri) {
            &[1, 255]
        } else {
            &[1, 1011, 5, 255]
        };
        for &step in steps {
            let order: Vec<_> = (0..1012).map(|i| sources[i * step % 1012]).collect();
            // The mapping takes a reference each time; one is kept.
            for source in &order {
                memory.get(source.phys()).unwrap();
            }
            space.map_pages(AT, &order, RW, &()).unwrap();
            if step != 255 {
                space.unmap(AT..AT + 1012 * PAGE_SIZE, &()).unwrap();
            }
        }
        for source in sources.iter().skip(1) {
            memory.put(source.phys());
        }
        check(&[&space]).unwrap();
        space.unmap(AT..AT + 1012 * PAGE_SIZE, &()).unwrap();
        // The block waits for its first frame.
        assert_eq!(memory.backing().free_frames(), free - 512);
        memory.put(block);
        assert_eq!(memory.backing().free_frames(), free);
        let again = memory.alloc_block(9, Kind::Anon).unwrap();
        memory.put_block(again, 9);
    }
}
