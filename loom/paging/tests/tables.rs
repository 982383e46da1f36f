//! All interleavings, up to a bound of preemptions, of two threads on page tables of two levels
//! with four entries each.
//!
//! `cargo test --release --manifest-path loom/Cargo.toml -p samara-paging-loom`
//!
//! Freed frames are poisoned, and reading one fails the test: so a walk that is still in a freed
//! table fails.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use samara_paging::format::X86_64;
use samara_paging::{
    Attrs, Entry, Error, Format, FrameAllocator, Kind, PAGE_SIZE, PageSize, PageTables, PhysMem,
    Physical, Reclaim, Source, check,
};

// ---- a small machine ----

/// The entries of x86-64, in two levels.
#[derive(Clone, Copy, Debug)]
struct Two;

macro_rules! as_x86 {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            fn $name($($arg: $type),*) -> $result {
                X86_64::$name($($arg),*)
            }
        )*
    };
}

impl Format for Two {
    const NAME: &'static str = "two levels";
    const LEVELS: usize = 2;
    const TABLES_FORBID_WRITES: bool = X86_64::TABLES_FORBID_WRITES;

    as_x86! {
        is_canonical(addr: u64) -> bool;
        frame_bits(phys: u64) -> u64;
        attr_bits(raw: u64) -> u64;
        leaf(phys: u64, attrs: Attrs, level: usize) -> u64;
        table_entry(phys: u64, shared: bool) -> u64;
        is_table(raw: u64) -> bool;
        is_shared(raw: u64) -> bool;
        phys(raw: u64) -> u64;
        attrs(raw: u64) -> Attrs;
        is_writable(raw: u64) -> bool;
        write_protected(raw: u64) -> u64;
        without_accessed(raw: u64) -> u64;
        without_dirty(raw: u64) -> u64;
        is_special(raw: u64) -> bool;
        is_hw_stable(raw: u64) -> bool;
    }
}

const BASE: u64 = 1 << 30;
const FRAMES: usize = 12;
const ENTRIES: usize = 4;

#[repr(C, align(4096))]
struct Frame {
    entries: [AtomicU64; ENTRIES],
}

/// An allocator that allocates each frame once. The lock is not the checker's: no step of the other
/// thread comes in between.
struct Machine {
    frames: Vec<Frame>,
    alive: Mutex<(usize, BTreeSet<u64>)>,
    /// Set when the checker is done. What threads still hold is dropped later, when the checker's
    /// atomics no longer exist.
    over: AtomicBool,
}

impl Machine {
    fn new() -> Self {
        let frames = (0..FRAMES)
            .map(|_| Frame {
                entries: std::array::from_fn(|_| AtomicU64::new(0)),
            })
            .collect();
        Self {
            frames,
            alive: Mutex::default(),
            over: AtomicBool::new(false),
        }
    }

    fn frame(&self, phys: u64) -> &Frame {
        &self.frames[((phys - BASE) / PAGE_SIZE) as usize]
    }
}

// SAFETY: each frame is allocated once.
unsafe impl FrameAllocator for Machine {
    fn alloc(&self, order: u32) -> Option<u64> {
        assert_eq!(order, 0);
        let (next, alive) = &mut *self.alive.lock().unwrap();
        let phys = BASE + *next as u64 * PAGE_SIZE;
        *next += 1;
        assert!(*next <= FRAMES, "the machine is too small");
        alive.insert(phys);
        Some(phys)
    }

    unsafe fn free(&self, phys: u64, _order: u32) {
        assert!(self.alive.lock().unwrap().1.remove(&phys), "freed twice");
        if self.over.load(std::sync::atomic::Ordering::Relaxed) {
            return;
        }
        for entry in &self.frame(phys).entries {
            // The address of a table that does not exist.
            entry.store(0xdead_f001, Ordering::Relaxed);
        }
    }
}

// SAFETY: frames do not move.
unsafe impl PhysMem for Machine {
    fn to_virt(&self, phys: u64) -> NonNull<u8> {
        let alive = self.alive.lock().unwrap().1.contains(&phys);
        assert!(alive, "{phys:#x} is looked at, and was freed");
        NonNull::from(self.frame(phys)).cast()
    }
}

/// The current sections, by the number that each got when it was entered. One lock orders them and
/// the waits for them.
#[derive(Default)]
struct Sections(loom::sync::Mutex<(usize, BTreeSet<usize>)>);

struct Section<'a>(&'a Sections, usize);

impl Drop for Section<'_> {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().1.remove(&self.1);
    }
}

// SAFETY: a cookie is the number of the next section, and has passed when all earlier ones have
// ended. The lock makes what was stored before the cookie was taken visible to later sections.
unsafe impl Reclaim for Sections {
    type Section<'a> = Section<'a>;

    fn enter(&self, _near: u64) -> Section<'_> {
        let (next, under_way) = &mut *self.0.lock().unwrap();
        *next += 1;
        under_way.insert(*next);
        Section(self, *next)
    }

    fn start(&self) -> usize {
        self.0.lock().unwrap().0
    }

    fn passed(&self, cookie: usize) -> bool {
        let (_, under_way) = &*self.0.lock().unwrap();
        under_way.first().is_none_or(|&first| first > cookie)
    }
}

type Memory = Arc<Physical<Machine, Sections>>;
type Space = PageTables<Two, Memory>;

const RW: Attrs = Attrs::READ
    .union(Attrs::WRITE)
    .union(Attrs::USER)
    .union(Attrs::ACCESSED)
    .union(Attrs::DIRTY);
/// The tested address. A stretch is four pages.
const AT: u64 = 0x4000;
const NEXT: u64 = AT + PAGE_SIZE;
const STRETCH: std::ops::Range<u64> = AT..AT + ENTRIES as u64 * PAGE_SIZE;

fn model(body: impl Fn(&Memory) + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_branches = 100_000;
    builder.check(move || {
        let sections = Sections(loom::sync::Mutex::default());
        let memory = Physical::new(Machine::new(), sections, BASE, FRAMES as u64).unwrap();
        let memory = Arc::new(memory);
        body(&memory);
        memory.reclaim();
        assert_eq!((memory.table_frames(), memory.shared_tables()), (0, 0));
        // The zero page.
        assert_eq!(memory.backing().alive.lock().unwrap().1.len(), 1);
        let over = &memory.backing().over;
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

fn space(memory: &Memory, asid: u32) -> Arc<Space> {
    Arc::new(PageTables::new(memory.clone(), asid).unwrap())
}

fn map(memory: &Memory, space: &Space, addr: u64) -> Result<u64, Error> {
    let phys = memory.alloc_page(Kind::Anon).unwrap();
    let result = space.map(addr, PageSize::Small, Source::Owned(phys), RW, &());
    if result.is_err() {
        memory.put(phys);
    }
    result.map(|()| phys)
}

/// Performs a store with its faults, and returns the frame that it goes to.
fn store(memory: &Memory, space: &Space, addr: u64) -> u64 {
    loop {
        let Entry::Page { phys, attrs, .. } = space.entry(addr) else {
            panic!("not mapped");
        };
        if attrs.contains(Attrs::WRITE) {
            return phys;
        }
        let alone = space.pte(addr, &()).reuse_exclusive(phys);
        match alone {
            Ok(true) => return phys,
            Ok(false) => {}
            Err(Error::NotMapped) => continue,
            Err(error) => panic!("{error}"),
        }
        let new = memory.alloc_page(Kind::Anon).unwrap();
        // The memory itself checks that the frame still exists.
        let copy = |_still| _ = memory.to_virt(phys);
        let copied = space.pte(addr, &()).copy_on_write(phys, new, RW, copy);
        match copied {
            Ok(true) => return new,
            Ok(false) => {
                memory.put(new);
                return phys;
            }
            Err(Error::NotMapped) => memory.put(new),
            Err(error) => panic!("{error}"),
        }
    }
}

// ---- programs ----

/// A table is freed while a walk may be in it.
#[test]
fn walk_during_unmap() {
    model(|memory| {
        let space = space(memory, 1);
        let phys = map(memory, &space, AT).unwrap();
        let walker = {
            let space = space.clone();
            thread::spawn(move || {
                let found = space.translate(AT);
                assert!(found.is_none_or(|found| found == (phys, RW)));
            })
        };
        space.unmap(STRETCH, &()).unwrap();
        assert_eq!(space.translate(AT), None);
        walker.join().unwrap();
        check(&[&space]).unwrap();
    });
}

/// A view remembers a table while another one takes its place.
#[test]
fn view_during_unmap_and_map() {
    model(|memory| {
        let space = space(memory, 1);
        let phys = map(memory, &space, AT).unwrap();
        let viewer = {
            let space = space.clone();
            thread::spawn(move || {
                let mut view = space.view(AT);
                assert!(view.translate(AT).is_none_or(|found| found.0 == phys));
                // The next page is another frame, in another entry of another table.
                assert!(view.translate(NEXT).is_none_or(|found| found.0 != phys));
            })
        };
        space.unmap(STRETCH, &()).unwrap();
        map(memory, &space, NEXT).unwrap();
        assert!(space.translate(NEXT).is_some());
        viewer.join().unwrap();
        check(&[&space]).unwrap();
    });
}

/// Two faults without a table: one table is created.
#[test]
fn two_faults_in_one_table() {
    model(|memory| {
        let space = space(memory, 1);
        let other = {
            let (memory, space) = (memory.clone(), space.clone());
            thread::spawn(move || map(&memory, &space, NEXT).unwrap())
        };
        let here = map(memory, &space, AT).unwrap();
        let there = other.join().unwrap();
        assert_eq!(space.translate(AT), Some((here, RW)));
        assert_eq!(space.translate(NEXT), Some((there, RW)));
        assert_eq!(memory.table_frames(), 2);
        check(&[&space]).unwrap();
    });
}

/// Two faults on one page: one of them maps it.
#[test]
fn two_faults_on_one_page() {
    model(|memory| {
        let space = space(memory, 1);
        let other = {
            let (memory, space) = (memory.clone(), space.clone());
            thread::spawn(move || map(&memory, &space, AT))
        };
        let here = map(memory, &space, AT);
        let there = other.join().unwrap();
        let mapped = match (here, there) {
            (Ok(phys), Err(Error::Exists)) | (Err(Error::Exists), Ok(phys)) => phys,
            other => panic!("{other:?}"),
        };
        assert_eq!(space.translate(AT), Some((mapped, RW)));
        check(&[&space]).unwrap();
    });
}

/// A fault, with an unmap that empties the table.
#[test]
fn fault_during_unmap() {
    model(|memory| {
        let space = space(memory, 1);
        map(memory, &space, AT).unwrap();
        let other = {
            let (memory, space) = (memory.clone(), space.clone());
            thread::spawn(move || map(&memory, &space, NEXT).unwrap())
        };
        space.unmap(AT..NEXT, &()).unwrap();
        let phys = other.join().unwrap();
        assert_eq!(space.translate(NEXT), Some((phys, RW)));
        assert_eq!(space.translate(AT), None);
        check(&[&space]).unwrap();
    });
}

/// A page is written to, or copied, while its table is shared with a child.
#[test]
fn copy_on_write_during_share() {
    model(|memory| {
        let (parent, child) = (space(memory, 1), space(memory, 2));
        let phys = map(memory, &parent, AT).unwrap();
        let change = samara_paging::Change::without(Attrs::WRITE);
        parent.protect(AT..NEXT, change, &()).unwrap();
        let writer = {
            let (memory, parent) = (memory.clone(), parent.clone());
            thread::spawn(move || store(&memory, &parent, AT))
        };
        parent.share_range(&child, STRETCH, &()).unwrap();
        writer.join().unwrap();
        // The child has the page of the moment of the fork, and cannot write to it unless it is the
        // only owner.
        let (here, mine) = parent.translate(AT).unwrap();
        let (there, theirs) = child.translate(AT).unwrap();
        assert_eq!(there, phys);
        assert!(here != there || !(mine | theirs).contains(Attrs::WRITE));
        check(&[&parent, &child]).unwrap();
    });
}

/// Both sides of a fork copy one table at once.
#[test]
fn both_sides_unshare() {
    model(|memory| {
        let (parent, child) = (space(memory, 1), space(memory, 2));
        map(memory, &parent, AT).unwrap();
        parent.share_range(&child, STRETCH, &()).unwrap();
        let other = {
            let (memory, child) = (memory.clone(), child.clone());
            thread::spawn(move || store(&memory, &child, AT))
        };
        let here = store(memory, &parent, AT);
        let there = other.join().unwrap();
        assert_ne!(here, there);
        assert_eq!(parent.translate(AT).unwrap().0, here);
        assert_eq!(child.translate(AT).unwrap().0, there);
        check(&[&parent, &child]).unwrap();
    });
}

/// A fault looks at a page of the parent, whose table then becomes the child's alone, and loses the
/// page there.
#[test]
fn look_during_unshare() {
    model(|memory| {
        let (parent, child) = (space(memory, 1), space(memory, 2));
        map(memory, &parent, AT).unwrap();
        parent.share_range(&child, STRETCH, &()).unwrap();
        let other = {
            let parent = parent.clone();
            thread::spawn(move || {
                let entry = parent.pte(AT, &()).entry();
                assert!(matches!(entry, Entry::Page { .. }), "the child's entry");
            })
        };
        store(memory, &parent, AT);
        child.unmap(STRETCH, &()).unwrap();
        other.join().unwrap();
        check(&[&parent, &child]).unwrap();
    });
}

/// A fault looks at a page whose table is freed, and returns with another page.
#[test]
fn look_during_unmap_and_map() {
    model(|memory| {
        let space = space(memory, 1);
        let first = map(memory, &space, AT).unwrap();
        let other = {
            let space = space.clone();
            thread::spawn(move || match space.pte(AT, &()).entry() {
                Entry::Page { phys, .. } => Some(phys),
                Entry::Empty => None,
                other => panic!("{other:?}"),
            })
        };
        space.unmap(STRETCH, &()).unwrap();
        let second = map(memory, &space, AT).unwrap();
        let found = other.join().unwrap();
        assert!(found.is_none_or(|phys| phys == first || phys == second));
        check(&[&space]).unwrap();
    });
}

/// One side ends while the other copies its table.
#[test]
fn exit_during_unshare() {
    model(|memory| {
        let (parent, child) = (space(memory, 1), space(memory, 2));
        map(memory, &parent, AT).unwrap();
        parent.share_range(&child, STRETCH, &()).unwrap();
        let other = thread::spawn(move || drop(child));
        store(memory, &parent, AT);
        other.join().unwrap();
        assert!(parent.translate(AT).unwrap().1.contains(Attrs::WRITE));
        check(&[&parent]).unwrap();
    });
}
