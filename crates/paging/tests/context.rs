//! Invalidations receive the context of their address space, and its end is reported before
//! anything is freed.
#![cfg(feature = "hosted")]
#![cfg(not(miri))]
#![allow(clippy::unwrap_used, clippy::panic)]

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use samara_paging::format::{Aarch64, Sv39, X86_64};
use samara_paging::{
    Arena, Attrs, Change, Changed, Context, ForkFilter, Format, Grace, HeapBytes, Invalidate, Kind,
    Mapping, Memory, PAGE_SIZE, PageSize, PageTables, Physical, Source, WritePolicy,
};

type Frames = Physical<Arena<HeapBytes>, Grace>;
type Space = PageTables<X86_64, Told>;

const AT: u64 = 0x40_0000;
const RW: Attrs = Attrs::READ.union(Attrs::WRITE).union(Attrs::USER);

/// The number of an address space that has ended, its tag, and the number of free frames at that
/// time.
type End = (u32, u64, u64);

/// Memory that records which address spaces have ended.
#[derive(Clone)]
struct Told(Arc<(Frames, Mutex<Vec<End>>)>);

impl Told {
    fn new() -> Self {
        let arena = Arena::on_heap(64).unwrap();
        let physical = Physical::new(arena, Grace::new(), 1 << 30, 64).unwrap();
        Self(Arc::new((physical, Mutex::default())))
    }

    fn free(&self) -> u64 {
        self.0.0.reclaim();
        self.0.0.backing().free_frames()
    }

    fn ends(&self) -> Vec<End> {
        self.0.1.lock().unwrap().clone()
    }
}

impl Memory for Told {
    type Backing = Arena<HeapBytes>;
    type Reclaim = Grace;

    fn physical(&self) -> &Frames {
        &self.0.0
    }

    fn ended(&self, context: &Context) {
        let end = (context.asid(), context.tag().load(Relaxed), self.free());
        self.0.1.lock().unwrap().push(end);
    }
}

/// Records the calls: number, processors, tag.
#[derive(Default)]
struct Flushes(Mutex<Vec<(u32, u64, u64)>>);

impl Invalidate for Flushes {
    fn invalidate(&self, context: &Context, _: &[Range<u64>], _: Changed) {
        let told = (
            context.asid(),
            context.cpus().load(Relaxed),
            context.tag().load(Relaxed),
        );
        self.0.lock().unwrap().push(told);
    }
}

fn page(memory: &Told) -> Source {
    Source::Owned(memory.physical().alloc_page(Kind::Anon).unwrap())
}

#[test]
fn invalidations_receive_the_context() {
    let memory = Told::new();
    let (first, second) = (
        Space::new(memory.clone(), 1).unwrap(),
        Space::new(memory.clone(), 2).unwrap(),
    );
    for (space, cpus, tag) in [(&first, 0b101, 0x1_0007), (&second, 0b10, 0x1_0008)] {
        assert_eq!(space.context().cpus().swap(cpus, Relaxed), 0);
        assert_eq!(space.context().tag().swap(tag, Relaxed), 0);
        assert_eq!(space.asid(), space.context().asid());
        space
            .map(AT, PageSize::Small, page(&memory), RW, &())
            .unwrap();
    }
    let told = Flushes::default();
    second.unmap(AT..AT + PAGE_SIZE, &told).unwrap();
    // A fork invalidates the parent's TLBs; a replaced page is invalidated with the lock held.
    let child = Space::new(memory.clone(), 3).unwrap();
    let range = AT..AT + PAGE_SIZE;
    first
        .copy_range(&child, range, Mapping::Private, ForkFilter::All, &told)
        .unwrap();
    let old = first.page(AT).unwrap().phys;
    let mut pte = first.pte(AT, &told);
    pte.replace(old, page(&memory), RW).unwrap();
    drop(pte);
    assert_eq!(
        *told.0.lock().unwrap(),
        [
            (2, 0b10, 0x1_0008),
            (1, 0b101, 0x1_0007),
            (1, 0b101, 0x1_0007)
        ]
    );
}

#[test]
fn an_end_is_reported_once_and_before_anything_is_freed() {
    let memory = Told::new();
    let start = 0xffff_8000_0000_0000;
    let ranges = [start..start + PAGE_SIZE, u64::MAX - 1..u64::MAX];
    let kernel = Space::new_kernel(memory.clone(), 0, &ranges).unwrap();
    let mut expected = Vec::new();
    for asid in 1..4 {
        let space = PageTables::new_process(&kernel, asid).unwrap();
        space
            .map(AT, PageSize::Small, page(&memory), RW, &())
            .unwrap();
        space.context().tag().store(u64::from(asid) * 7, Relaxed);
        let before = memory.free();
        assert_eq!(memory.ends(), expected);
        drop(space);
        expected.push((asid, u64::from(asid) * 7, before));
        assert_eq!(memory.ends(), expected);
        assert!(memory.free() > before);
    }
    // An address space that was never created does not end.
    memory.physical().backing().refuse_after(Some(0));
    assert!(PageTables::new_process(&kernel, 9).is_err());
    memory.physical().backing().refuse_after(None);
    assert_eq!(memory.ends(), expected);
    let before = memory.free();
    drop(kernel);
    expected.push((0, 0, before));
    assert_eq!(memory.ends(), expected);
}

/// Records the reports of valid entries: number, range, executable.
#[derive(Default)]
struct Entered(Mutex<Vec<(u32, Range<u64>, bool)>>);

impl Invalidate for Entered {
    fn invalidate(&self, _: &Context, _: &[Range<u64>], _: Changed) {}

    fn notify_mapped(&self, context: &Context, range: Range<u64>, executable: bool) {
        let told = (context.asid(), range, executable);
        self.0.lock().unwrap().push(told);
    }
}

/// Returns the reports of each call; there are none on x86-64.
fn what_becomes_valid<F: Format>() -> Vec<(u32, Range<u64>, bool)> {
    const LARGE: u64 = 2 << 20;
    let memory = Told::new();
    let told = Entered::default();
    let space = PageTables::<F, _>::new(memory.clone(), 1).unwrap();
    let code = Attrs::READ | Attrs::EXEC | Attrs::USER;
    let range = |pages: Range<u64>| AT + pages.start * PAGE_SIZE..AT + pages.end * PAGE_SIZE;
    // A fault, a page of code, and a page without access, which is reported only when it becomes
    // accessible.
    space
        .map(AT, PageSize::Small, page(&memory), RW, &told)
        .unwrap();
    space
        .map(
            range(1..2).start,
            PageSize::Small,
            page(&memory),
            code,
            &told,
        )
        .unwrap();
    let none = Attrs::USER;
    space
        .map(
            range(2..3).start,
            PageSize::Small,
            page(&memory),
            none,
            &told,
        )
        .unwrap();
    let change = Change::access(Attrs::READ, WritePolicy::Never);
    space.protect(range(2..3), change, &told).unwrap();
    let none = Change::without(Attrs::ACCESS);
    space.protect(range(2..3), none, &told).unwrap();
    // Across the end of a table.
    let special = Source::Special(0x1000_0000);
    space
        .map_run(AT + LARGE - PAGE_SIZE, 2, special, RW, &told)
        .unwrap();
    space
        .map(AT + 2 * LARGE, PageSize::Large, special, code, &told)
        .unwrap();
    let fill = space.populate(range(0..4), RW, &told, |_| Ok(Some(special)));
    assert_eq!(fill, Ok(1));
    let to = AT + 4 * LARGE;
    space.move_range(AT, to, PAGE_SIZE, &told).unwrap();
    // The child's entries, and none of the parent's.
    let child = PageTables::<F, _>::new(memory.clone(), 2).unwrap();
    let whole = AT..AT + LARGE;
    space.share_range(&child, whole.clone(), &told).unwrap();
    told.0.into_inner().unwrap()
}

#[test]
fn entries_that_become_valid_are_reported_where_processors_need_it() {
    const LARGE: u64 = 2 << 20;
    let page = |number: u64| AT + number * PAGE_SIZE..AT + (number + 1) * PAGE_SIZE;
    let expected = vec![
        (1, page(0), false),
        (1, page(1), true),
        (1, page(2), false),
        (1, AT + LARGE - PAGE_SIZE..AT + LARGE, false),
        (1, AT + LARGE..AT + LARGE + PAGE_SIZE, false),
        (1, AT + 2 * LARGE..AT + 3 * LARGE, true),
        (1, page(0).start..page(3).end, false),
        (1, AT + 4 * LARGE..AT + 4 * LARGE + PAGE_SIZE, false),
        (2, AT..AT + LARGE, false),
    ];
    assert_eq!(what_becomes_valid::<Aarch64>(), expected);
    assert_eq!(what_becomes_valid::<Sv39>(), expected);
    assert_eq!(what_becomes_valid::<X86_64>(), []);
}
