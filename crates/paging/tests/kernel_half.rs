//! The kernel's half, which all roots share: what is found through them, what stays, what is
//! refused, and who frees what.
#![cfg(feature = "hosted")]
#![cfg(not(miri))]
#![allow(clippy::unwrap_used, clippy::panic)]

use std::ops::Range;
use std::sync::Arc;
use std::thread;

use samara_paging::format::{Aarch64, Sv39, Sv48, X86_64, X86_64La57};
use samara_paging::{
    Arena, Attrs, Change, Dump, Entry, Error, ForkFilter, Format, Grace, HostMemory, Kind, Mapping,
    PAGE_SIZE, PageSize, PageTables, Physical, Source, UnmapFilter, WritePolicy, check,
};

type Memory = Arc<Physical<Arena<HostMemory>, Grace>>;
type Space<F> = PageTables<F, Memory>;

const RW: Attrs = Attrs::READ.union(Attrs::WRITE).union(Attrs::GLOBAL);
const USER: Attrs = Attrs::READ
    .union(Attrs::WRITE)
    .union(Attrs::USER)
    .union(Attrs::ACCESSED)
    .union(Attrs::DIRTY);
const LARGE: u64 = 2 << 20;
const GIANT: u64 = 1 << 30;
const AT: u64 = 0x40_0000;

fn memory(frames: usize) -> Memory {
    let arena = Arena::hosted(frames).unwrap();
    Arc::new(Physical::new(arena, Grace::new(), 1 << 30, frames as u64).unwrap())
}

fn ended(memory: &Memory) {
    memory.reclaim();
    assert_eq!((memory.table_frames(), memory.shared_tables()), (0, 0));
    let arena = memory.backing();
    assert_eq!(arena.free_frames() + 1, arena.frames());
}

/// Returns the region of the root entry before the last one. The kernels of these tests map in its
/// middle, and nothing between that and the lower entry.
fn root_entry<F: Format>() -> u64 {
    1 << (12 + 9 * (F::LEVELS - 1))
}

fn ranges<F: Format>() -> [Range<u64>; 2] {
    let start = F::kernel_start();
    [start..start + 2 * root_entry::<F>(), u64::MAX - 1..u64::MAX]
}

fn kernel<F: Format>(memory: &Memory) -> Space<F> {
    PageTables::new_kernel(memory.clone(), 0, &ranges::<F>()).unwrap()
}

/// Returns the entry that a processor finds with this root loaded.
fn through<F: Format>(memory: &Memory, root: u64, addr: u64) -> Entry {
    let (mut table, mut level) = (root, F::LEVELS - 1);
    loop {
        let index = (addr >> (12 + 9 * level)) as usize & 511;
        // SAFETY: a table that no other thread changes.
        let raw = unsafe { memory.to_virt(table).cast::<u64>().add(index).read() };
        if level == 0 || !F::is_table(raw) {
            return F::decode(raw, level);
        }
        (table, level) = (F::phys(raw), level - 1);
    }
}

/// Returns `true` if processes have the kernel's entries in their roots.
fn has_one_root<F: Format>() -> bool {
    F::is_canonical(F::kernel_start())
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
    what_the_kernel_maps_is_seen_through_every_root
    tables_below_the_root_stay_when_they_are_empty
    a_process_cannot_touch_the_kernels_half
    the_kernel_maps_only_where_it_was_made_for
    forks_have_the_kernel_and_neither_copy_nor_free_it
    every_refused_frame_leaves_nothing
    ranges_that_are_not_the_kernels_are_refused
    the_kernel_changes_while_processes_start_and_exit
    dumps_and_counts_cover_only_the_own_half
}

mod in_format {
    use super::*;

    pub(crate) fn what_the_kernel_maps_is_seen_through_every_root<F: Format>() {
        let memory = memory(2048);
        let kernel = kernel::<F>(&memory);
        let before: Space<F> = PageTables::new_process(&kernel, 1).unwrap();
        let start = F::kernel_start();
        let frame = memory.alloc_page(Kind::File).unwrap();
        let small = start + root_entry::<F>() + 5 * PAGE_SIZE;
        kernel
            .map(small, PageSize::Small, Source::Owned(frame), RW, &())
            .unwrap();
        let large = (PAGE_SIZE.wrapping_neg() - 4 * LARGE) & !(LARGE - 1);
        kernel
            .map(large, PageSize::Large, Source::Special(LARGE), RW, &())
            .unwrap();
        let giant = kernel.map(start, PageSize::Giant, Source::Special(0), RW, &());
        // Where root entries could be pages of this size, tables are there instead.
        let fits = root_entry::<F>() > GIANT;
        assert_eq!(giant, if fits { Ok(()) } else { Err(Error::Exists) });
        // Through a process, and through one created from a process.
        let after: Space<F> = PageTables::new_process(&before, 2).unwrap();
        let mut pages = vec![
            (small, PageSize::Small, frame),
            (large, PageSize::Large, LARGE),
        ];
        if fits {
            pages.push((start, PageSize::Giant, 0));
        }
        for (addr, size, phys) in pages {
            let Entry::Page { attrs, .. } = kernel.entry(addr) else {
                panic!("{addr:#x} is not mapped");
            };
            assert!(attrs.contains(RW) && !attrs.contains(Attrs::USER));
            let page = Entry::Page { phys, attrs, size };
            assert_eq!(kernel.entry(addr), page);
            for space in [&kernel, &before, &after] {
                let there = std::ptr::eq(space, &kernel) || has_one_root::<F>();
                let found = through::<F>(&memory, space.root(), addr);
                assert_eq!(found, if there { page } else { Entry::Empty });
            }
            kernel.unmap(addr..addr + size.bytes(), &()).unwrap();
            for space in [&kernel, &before, &after] {
                let found = through::<F>(&memory, space.root(), addr);
                assert_eq!(found, Entry::Empty);
            }
            check(&[&kernel, &before, &after]).unwrap();
        }
        drop((before, after, kernel));
        ended(&memory);
    }

    pub(crate) fn tables_below_the_root_stay_when_they_are_empty<F: Format>() {
        let memory = memory(2048);
        let kernel = kernel::<F>(&memory);
        let process: Space<F> = PageTables::new_process(&kernel, 1).unwrap();
        let tables = memory.table_frames();
        // The kernel's root, three tables, and the process's root.
        assert_eq!(tables, 5);
        let start = F::kernel_start();
        let range = start..start + 8 * PAGE_SIZE;
        for round in 0..3 {
            let frame = memory.alloc_page(Kind::File).unwrap();
            kernel
                .map(start, PageSize::Small, Source::Owned(frame), RW, &())
                .unwrap();
            match round {
                0 => kernel.unmap(range.clone(), &()).unwrap(),
                1 => kernel
                    .unmap_with(range.clone(), UnmapFilter::Pages, &(), |_, _| {})
                    .unwrap(),
                _ => {
                    kernel
                        .move_range(start, start + root_entry::<F>(), PAGE_SIZE, &())
                        .unwrap();
                    let moved = start + root_entry::<F>();
                    kernel.unmap(moved..moved + PAGE_SIZE, &()).unwrap();
                }
            }
            assert_eq!(memory.table_frames(), tables);
            check(&[&kernel, &process]).unwrap();
        }
        // A marker is set and cleared, and a page is refused.
        kernel.set_marker(start, Some(7), &()).unwrap();
        kernel.set_marker(start, None, &()).unwrap();
        // No page replaces such a table.
        let collapsed = kernel.collapse(start, PageSize::Giant, Source::Special(0), RW, &());
        assert_eq!(collapsed, Err(Error::NotMapped));
        assert_eq!(memory.table_frames(), tables);
        // The process's root still leads there.
        let frame = memory.alloc_page(Kind::File).unwrap();
        kernel
            .map(start, PageSize::Small, Source::Owned(frame), RW, &())
            .unwrap();
        let found = through::<F>(&memory, process.root(), start);
        assert_eq!(found != Entry::Empty, has_one_root::<F>());
        check(&[&kernel, &process]).unwrap();
        drop((process, kernel));
        ended(&memory);
    }

    pub(crate) fn a_process_cannot_touch_the_kernels_half<F: Format>() {
        let memory = memory(2048);
        let kernel = kernel::<F>(&memory);
        let process: Space<F> = PageTables::new_process(&kernel, 1).unwrap();
        let start = F::kernel_start();
        let range = start..start + PAGE_SIZE;
        let frame = memory.alloc_page(Kind::Anon).unwrap();
        kernel
            .map(start, PageSize::Small, Source::Owned(frame), USER, &())
            .unwrap();
        let page = Source::Counted(frame);
        memory.get(frame).unwrap();
        let no = Err(Error::OutOfRange);
        let change = Change::access(Attrs::READ, WritePolicy::Never);
        assert_eq!(process.map(start, PageSize::Small, page, RW, &()), no);
        let large = process.map(start, PageSize::Large, Source::Special(LARGE), RW, &());
        assert_eq!(large, no);
        assert_eq!(process.map_run(start, 1, page, RW, &()), no);
        assert_eq!(process.map_pages(start, &[page], RW, &()), no);
        let filled = process.populate(range.clone(), RW, &(), |_| Ok(Some(page)));
        assert_eq!(filled, Err(Error::OutOfRange));
        assert_eq!(process.set_marker(start, Some(1), &()), no);
        assert_eq!(process.unmap(range.clone(), &()), no);
        assert_eq!(process.protect(range.clone(), change, &()), no);
        assert_eq!(process.move_range(start, AT, PAGE_SIZE, &()), no);
        assert_eq!(process.move_range(AT, start, PAGE_SIZE, &()), no);
        assert_eq!(process.split(start, PageSize::Small, &()), no);
        let mut pte = process.pte(start, &());
        assert_eq!(pte.entry(), Entry::Empty);
        assert_eq!(pte.reuse_exclusive(frame), Err(Error::OutOfRange));
        assert_eq!(pte.replace(frame, page, RW), no);
        drop(pte);
        assert!(process.get_page(start, Attrs::empty()).is_err());
        assert!(process.pin_page(start, Attrs::empty()).is_err());
        assert!(process.access(start, Attrs::READ, |_| ()).is_err());
        assert_eq!(process.translate(start), None);
        assert_eq!(process.page(start), None);
        process.walk(range.clone(), |addr, _| panic!("{addr:#x} was seen"));
        let child: Space<F> = PageTables::new_process(&kernel, 2).unwrap();
        let other = PageTables::new(memory.clone(), 3).unwrap();
        let all = ForkFilter::All;
        for (from, to) in [(&process, &child), (&kernel, &child), (&other, &kernel)] {
            let copied = from.copy_range(to, range.clone(), Mapping::Private, all, &());
            assert!(matches!(copied, Err(Error::OutOfRange | Error::Misaligned)));
            assert!(from.share_range(to, range.clone(), &()).is_err());
        }
        // The other way round.
        let lower = AT..AT + PAGE_SIZE;
        assert_eq!(kernel.map(AT, PageSize::Small, page, RW, &()), no);
        assert_eq!(kernel.unmap(lower, &()), no);
        assert_eq!(kernel.translate(AT), None);
        // Nothing is mapped between the halves.
        let hole = F::lower_end()..F::lower_end() + PAGE_SIZE;
        assert_eq!(process.unmap(hole, &()), Err(Error::Misaligned));
        assert!(kernel.translate(start).is_some());
        check(&[&kernel, &process, &child, &other]).unwrap();
        drop((process, child, other, kernel));
        memory.put(frame);
        ended(&memory);
    }

    pub(crate) fn the_kernel_maps_only_where_it_was_made_for<F: Format>() {
        let memory = memory(64);
        let kernel = kernel::<F>(&memory);
        let outside = F::kernel_start() + 2 * root_entry::<F>();
        let page = Source::Special(memory.zero_page());
        for addr in [outside, outside + root_entry::<F>() - PAGE_SIZE] {
            let mapped = kernel.map(addr, PageSize::Small, page, RW, &());
            assert_eq!(mapped, Err(Error::OutOfRange));
            let large = addr & !(LARGE - 1);
            let mapped = kernel.map(large, PageSize::Large, Source::Special(0), RW, &());
            assert_eq!(mapped, Err(Error::OutOfRange));
        }
        let giant = kernel.map(outside, PageSize::Giant, Source::Special(0), RW, &());
        assert_eq!(giant, Err(Error::OutOfRange));
        // A run that begins inside is mapped as a whole or not at all.
        let run = kernel.map_run(outside - PAGE_SIZE, 2, page, RW, &());
        assert_eq!(run, Err(Error::OutOfRange));
        assert_eq!(kernel.entry(outside - PAGE_SIZE), Entry::Empty);
        check(&[&kernel]).unwrap();
        drop(kernel);
        ended(&memory);
    }

    pub(crate) fn forks_have_the_kernel_and_neither_copy_nor_free_it<F: Format>() {
        let memory = memory(4096);
        let kernel = kernel::<F>(&memory);
        let start = F::kernel_start();
        let frame = memory.alloc_page(Kind::Anon).unwrap();
        kernel
            .map(start, PageSize::Small, Source::Owned(frame), RW, &())
            .unwrap();
        let parent: Space<F> = PageTables::new_process(&kernel, 1).unwrap();
        for page in 0..8 {
            let frame = Source::Owned(memory.alloc_page(Kind::Anon).unwrap());
            let addr = AT + page * PAGE_SIZE;
            parent.map(addr, PageSize::Small, frame, USER, &()).unwrap();
        }
        for share in [false, true] {
            let child: Space<F> = PageTables::new_process(&parent, 2).unwrap();
            let all = 0..F::lower_end();
            if share {
                parent.share_range(&child, all.clone(), &()).unwrap();
            } else {
                let private = Mapping::Private;
                parent
                    .copy_range(&child, all.clone(), private, ForkFilter::All, &())
                    .unwrap();
            }
            check(&[&kernel, &parent, &child]).unwrap();
            let found = through::<F>(&memory, child.root(), start);
            assert_eq!(found == kernel.entry(start), has_one_root::<F>());
            assert!(child.translate(AT).is_some());
            child.unmap(all, &()).unwrap();
            check(&[&kernel, &parent, &child]).unwrap();
            drop(child);
            assert_eq!(memory.frames().info(frame).unwrap().mappings, 1);
            assert!(kernel.translate(start).is_some());
        }
        drop((parent, kernel));
        ended(&memory);
    }

    pub(crate) fn every_refused_frame_leaves_nothing<F: Format>() {
        let memory = memory(64);
        let arena = memory.backing();
        let made = |allowed, make: &dyn Fn() -> Result<Space<F>, Error>| {
            memory.reclaim();
            let free = arena.free_frames();
            arena.refuse_after(Some(allowed));
            let made = make();
            arena.refuse_after(None);
            if let Err(error) = &made {
                memory.reclaim();
                assert_eq!((error, arena.free_frames()), (&Error::NoMemory, free));
            }
            made
        };
        let new_kernel = || PageTables::new_kernel(memory.clone(), 0, &ranges::<F>());
        let kernels: Vec<_> = (0..5).map(|allowed| made(allowed, &new_kernel)).collect();
        assert!(kernels[..4].iter().all(Result::is_err));
        let kernel = kernels[4].as_ref().unwrap();
        let under = || PageTables::new_process(kernel, 1);
        assert!(made(0, &under).is_err());
        check(&[kernel]).unwrap();
        let process = made(1, &under).unwrap();
        check(&[kernel, &process]).unwrap();
        drop((process, kernels));
        ended(&memory);
    }

    pub(crate) fn ranges_that_are_not_the_kernels_are_refused<F: Format>() {
        let memory = memory(64);
        let start = F::kernel_start();
        for range in [0..PAGE_SIZE, start - 1..start + 1, 0..u64::MAX] {
            let made: Result<Space<F>, _> = PageTables::new_kernel(memory.clone(), 0, &[range]);
            assert_eq!(made.err(), Some(Error::Misaligned));
        }
        // No range at all and empty ranges are accepted.
        let kernel: Space<F> =
            PageTables::new_kernel(memory.clone(), 0, std::slice::from_ref(&(start..start)))
                .unwrap();
        assert_eq!(kernel.table_frames(), 1);
        drop(kernel);
        ended(&memory);
    }

    pub(crate) fn the_kernel_changes_while_processes_start_and_exit<F: Format>() {
        let memory = memory(4096);
        let kernel = kernel::<F>(&memory);
        thread::scope(|scope| {
            for thread in 0..2 {
                let (memory, kernel) = (&memory, &kernel);
                scope.spawn(move || {
                    let addr = F::kernel_start() + thread * root_entry::<F>();
                    for _ in 0..300 {
                        let frame = Source::Owned(memory.alloc_page(Kind::File).unwrap());
                        kernel.map(addr, PageSize::Small, frame, RW, &()).unwrap();
                        assert!(kernel.translate(addr).is_some());
                        kernel.unmap(addr..addr + PAGE_SIZE, &()).unwrap();
                    }
                });
                scope.spawn(move || {
                    for _ in 0..100 {
                        let parent: Space<F> = PageTables::new_process(kernel, 1).unwrap();
                        let frame = Source::Owned(memory.alloc_page(Kind::Anon).unwrap());
                        parent.map(AT, PageSize::Small, frame, USER, &()).unwrap();
                        let child: Space<F> = PageTables::new_process(&parent, 2).unwrap();
                        parent.share_range(&child, 0..GIANT, &()).unwrap();
                        drop(parent);
                        assert!(child.translate(AT).is_some());
                    }
                });
            }
        });
        check(&[&kernel]).unwrap();
        assert_eq!(kernel.table_frames(), 4);
        drop(kernel);
        ended(&memory);
    }

    pub(crate) fn dumps_and_counts_cover_only_the_own_half<F: Format>() {
        let memory = memory(64);
        let kernel = kernel::<F>(&memory);
        let process: Space<F> = PageTables::new_process(&kernel, 1).unwrap();
        let zero = Source::Special(memory.zero_page());
        let start = F::kernel_start();
        kernel
            .map(start, PageSize::Small, zero, Attrs::READ, &())
            .unwrap();
        let user = Attrs::READ | Attrs::USER;
        process.map(AT, PageSize::Small, zero, user, &()).unwrap();
        let (of_kernel, own) = (Dump(&kernel).to_string(), Dump(&process).to_string());
        assert!(of_kernel.starts_with(&format!("{start:x}-")), "{of_kernel}");
        assert!(own.starts_with("000000400000-"), "{own}");
        assert_eq!((of_kernel.lines().count(), own.lines().count()), (1, 1));
        // The kernel has a root, three tables and those below; the process has a root and those
        // below.
        let below = F::LEVELS - 2;
        assert_eq!(kernel.table_frames(), 4 + below);
        assert_eq!(process.table_frames(), 2 + below);
        assert_eq!(memory.table_frames(), 6 + 2 * below);
        let mut seen = 0;
        kernel.walk(start..PAGE_SIZE.wrapping_neg(), |_, _| seen += 1);
        assert_eq!(seen, 1);
        drop((process, kernel));
        ended(&memory);
    }
}
