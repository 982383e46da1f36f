//! Threads on the same tables: concurrent faults, walks, forks, moves and exits. It also runs under
//! ThreadSanitizer.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use samara_paging::format::{Sv39, X86_64};
use samara_paging::{
    Arena, Attrs, Change, Entry, Error, ForkFilter, Format, Grace, HeapBytes, Kind, Mapping,
    PAGE_SIZE, PageSize, PageTables, Physical, Source, WritePolicy, check,
};

type Memory = Arc<Physical<Arena<HeapBytes>, Grace>>;

const ROUNDS: u64 = if cfg!(miri) { 6 } else { 600 };
const FRAMES: u64 = 2048;
/// 2 MiB, the region of one table.
const STRETCH: u64 = 512 * PAGE_SIZE;
const START: u64 = 0x4000_0000 - STRETCH;

const RW: Attrs = Attrs::READ
    .union(Attrs::WRITE)
    .union(Attrs::USER)
    .union(Attrs::ACCESSED)
    .union(Attrs::DIRTY);

fn memory() -> Memory {
    let arena = Arena::on_heap(FRAMES as usize).unwrap();
    Arc::new(Physical::new(arena, Grace::new(), Arena::<HeapBytes>::BASE, FRAMES).unwrap())
}

fn ended(memory: &Memory) {
    memory.reclaim();
    assert_eq!(memory.table_frames(), 0);
    assert_eq!(memory.shared_tables(), 0);
    assert_eq!(memory.backing().free_frames() + 1, FRAMES);
}

/// Ends the loops of the other threads, even if a test fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Repeats a call that fails for lack of memory: tables wait for walks, and a walk's thread may not
/// be running.
fn again<T>(mut call: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    loop {
        match call() {
            Err(Error::NoMemory) => thread::yield_now(),
            result => return result,
        }
    }
}

fn page(memory: &Memory, addr: u64) -> u64 {
    let phys = again(|| {
        memory.reclaim();
        memory.alloc_page(Kind::Anon)
    })
    .unwrap();
    word(memory, phys).store(addr, Ordering::Relaxed);
    phys
}

fn space<F: Format>(memory: &Memory, asid: u32) -> PageTables<F, Memory> {
    again(|| PageTables::new(memory.clone(), asid)).unwrap()
}

/// Returns a word of a frame that holds the address at which the frame was mapped. A walk that
/// finds the page of another address is caught by it.
fn word(memory: &Memory, phys: u64) -> &AtomicU64 {
    // SAFETY: the arena's frames do not move, and threads access this word by atomic instructions
    // only.
    unsafe { memory.to_virt(phys).cast().as_ref() }
}

/// Stores to a page and takes the faults; maps a page if there is none.
fn store<F: Format>(memory: &Memory, space: &PageTables<F, Memory>, addr: u64) {
    loop {
        match space.entry(addr) {
            Entry::Empty => {
                let new = page(memory, addr);
                let source = Source::Owned(new);
                match again(|| space.map(addr, PageSize::Small, source, RW, &())) {
                    Ok(()) => return,
                    Err(Error::Exists) => memory.put(new),
                    Err(error) => panic!("{error}"),
                }
            }
            Entry::Page { attrs, .. } if attrs.contains(Attrs::WRITE) => return,
            Entry::Page { phys, .. } => {
                match again(|| space.pte(addr, &()).reuse_exclusive(phys)) {
                    Ok(true) => return,
                    Ok(false) => {
                        let new = page(memory, addr);
                        // The copied frame stays allocated during the copy.
                        let copy = |_still| assert!(memory.frames().info(phys).is_some());
                        match again(|| space.pte(addr, &()).copy_on_write(phys, new, RW, copy)) {
                            Ok(true) => return,
                            Ok(false) | Err(Error::NotMapped) => memory.put(new),
                            Err(error) => panic!("{error}"),
                        }
                    }
                    Err(Error::NotMapped) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            Entry::Marker(_) => panic!("nobody marks"),
        }
    }
}

/// Two threads fault and unmap in the same two tables, so that these are created and removed. A
/// third walks, and a fourth protects.
fn faults_during_unmap<F: Format>() {
    let memory = memory();
    let space = space::<F>(&memory, 1);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _done = Done(&done);
        let writers: Vec<_> = (0..2u64)
            .map(|thread| {
                let (memory, space) = (&memory, &space);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        // Each thread has its own pages on both sides of the boundary.
                        let at = START + STRETCH + (thread * 2 + round % 2) * PAGE_SIZE;
                        let below = START + STRETCH - (thread + 1) * PAGE_SIZE;
                        store(memory, space, at);
                        store(memory, space, below);
                        assert!(space.translate(at).is_some());
                        again(|| space.unmap(at..at + PAGE_SIZE, &())).unwrap();
                        again(|| space.unmap(below..below + PAGE_SIZE, &())).unwrap();
                        assert_eq!(space.translate(at), None);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                space.walk(START..START + 2 * STRETCH, |addr, entry| {
                    let Entry::Page { phys, .. } = entry else {
                        panic!("{entry:?} at {addr:#x}");
                    };
                    assert!(phys.is_multiple_of(PAGE_SIZE));
                });
            }
        });
        scope.spawn(|| {
            let change = Change::access(Attrs::READ, WritePolicy::Never);
            while !done.load(Ordering::Relaxed) {
                let part = START + STRETCH - 4 * PAGE_SIZE..START + STRETCH + 8 * PAGE_SIZE;
                again(|| space.protect(part.clone(), change, &())).unwrap();
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
    });
    check(&[&space]).unwrap();
    drop(space);
    ended(&memory);
}

/// One thread forks, by copying and by sharing. Children write and end in other threads, while a
/// second thread writes to the parent.
fn forks_during_writes<F: Format>() {
    let memory = memory();
    let parent = space::<F>(&memory, 1);
    let pages = [0, 1, 2, 510, 511, 512, 513];
    for page in pages {
        store(&memory, &parent, START + page * PAGE_SIZE);
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _done = Done(&done);
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for page in pages {
                    store(&memory, &parent, START + page * PAGE_SIZE);
                }
            }
        });
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for page in pages {
                    // A walk concurrent with giving up a table must not find the entries of others.
                    let found = parent.translate(START + page * PAGE_SIZE);
                    // A page has no access for a moment while it is replaced.
                    if let Some((phys, _)) = found {
                        assert!(phys.is_multiple_of(PAGE_SIZE));
                    }
                }
            }
        });
        let forks = if cfg!(miri) { 4 } else { ROUNDS / 6 };
        for round in 0..forks {
            let child = space::<F>(&memory, 2);
            let range = START..START + 2 * STRETCH;
            if round % 3 == 0 {
                let mapping = Mapping::Private;
                again(|| parent.copy_range(&child, range.clone(), mapping, ForkFilter::All, &()))
                    .unwrap();
            } else {
                again(|| parent.share_range(&child, range.clone(), &())).unwrap();
            }
            let memory = &memory;
            let running = scope.spawn(move || {
                let grandchild = space::<F>(memory, 3);
                again(|| child.share_range(&grandchild, range.clone(), &())).unwrap();
                for page in pages {
                    store(memory, &child, START + page * PAGE_SIZE);
                }
                drop(child);
                store(memory, &grandchild, START);
                again(|| grandchild.unmap(range.clone(), &())).unwrap();
            });
            if round % 2 == 0 {
                running.join().unwrap();
            }
        }
    });
    check(&[&parent]).unwrap();
    for page in pages {
        let addr = START + page * PAGE_SIZE;
        let (phys, _) = parent.translate(addr).unwrap();
        assert_eq!(word(&memory, phys).load(Ordering::Relaxed), addr);
    }
    drop(parent);
    ended(&memory);
}

/// One thread moves a table back and forth. Another must find each page at one of the two places or
/// at none, and never the page of another address.
fn walks_during_moves<F: Format>() {
    let memory = memory();
    let space = space::<F>(&memory, 1);
    let done = AtomicBool::new(false);
    let there = START + 4 * STRETCH;
    store(&memory, &space, START);
    thread::scope(|scope| {
        let _done = Done(&done);
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // The second page exists only at `there`.
                assert_eq!(space.translate(START + PAGE_SIZE), None);
            }
        });
        for _ in 0..ROUNDS {
            again(|| space.move_range(START, there, STRETCH, &())).unwrap();
            store(&memory, &space, there + PAGE_SIZE);
            let second = there + PAGE_SIZE..there + 2 * PAGE_SIZE;
            again(|| space.unmap(second.clone(), &())).unwrap();
            again(|| space.move_range(there, START, STRETCH, &())).unwrap();
        }
    });
    check(&[&space]).unwrap();
    drop(space);
    ended(&memory);
}

#[test]
fn faults_and_walks_during_unmap() {
    faults_during_unmap::<X86_64>();
}

#[test]
fn forks_during_writes_of_both_sides() {
    forks_during_writes::<X86_64>();
}

#[test]
fn forks_where_upper_entries_cannot_forbid_writes() {
    forks_during_writes::<Sv39>();
}

#[test]
fn walks_find_no_page_of_others_during_moves() {
    walks_during_moves::<X86_64>();
}
