//! The data of files that an exit loses, and the reports of the loss.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use samara_mm::abi::{MAP_PRIVATE, MAP_SHARED};
use samara_mm::process::{ForkMode, Inode, PAGE_BYTES, PageSource, Process};
use samara_mm::{Call, Counted, Errno, File, FileId};

use crate::world::{BASE, Hosted, PAGE, free_frames, machine, mapping, process};

/// A file of three pages, whose second one cannot be written.
#[derive(Default)]
struct Bad {
    written: AtomicU32,
    panics: bool,
}

struct Source(Arc<Bad>);

impl PageSource for Source {
    fn read_page(&self, _: u64, into: &mut [u8; PAGE_BYTES]) -> Result<(), Errno> {
        into.fill(0);
        Ok(())
    }

    fn write_page(&self, page: u64, _: &[u8; PAGE_BYTES]) -> Result<(), Errno> {
        if page == 1 && self.0.panics {
            resume_unwind(Box::new("write_page"));
        }
        if page == 1 {
            return Err(Errno::ENOSPC);
        }
        self.0.written.fetch_or(1 << page, Ordering::Relaxed);
        Ok(())
    }

    fn punch(&self, _: u64, _: u64) -> Result<(), Errno> {
        Ok(())
    }

    fn size(&self) -> u64 {
        3 * PAGE
    }
}

fn open(bad: &Arc<Bad>) -> Counted<File> {
    let (major, minor, inode) = (8, 1, 7);
    let id = FileId {
        major,
        minor,
        inode,
    };
    let object = Inode::object(Source(bad.clone())).unwrap();
    let file = File::new(id, "/bad".into());
    Counted::try_new(File { object, ..file }).unwrap()
}

/// All three pages are dirty.
fn map(process: &Process<Hosted>, file: &Counted<File>) {
    let call = mapping(file, BASE, 0, 3, 3, MAP_SHARED);
    process.perform(&call).unwrap();
    for page in 0..3 {
        assert_eq!(process.copy_in(BASE + page * PAGE, b"x"), 1);
    }
}

#[test]
fn an_exit_tells_which_error_lost_a_page() {
    let machine = machine(64);
    let free = free_frames(&machine);
    let bad = Arc::default();
    let process = process(&machine);
    let file = open(&bad);
    map(&process, &file);
    // A second area of it, which is not adjacent to the first.
    let more = mapping(&file, BASE + 16 * PAGE, 0, 1, 1, MAP_PRIVATE);
    process.perform(&more).unwrap();
    drop((more, file));
    assert_eq!(process.exit(), Err(Errno::ENOSPC));
    assert_eq!(bad.written.load(Ordering::Relaxed), 0b101);
    machine.check().unwrap();
    assert_eq!(free_frames(&machine), free);
}

#[test]
fn an_exit_loses_nothing_that_others_have() {
    let machine = machine(64);
    let bad = Arc::default();
    let process = process(&machine);
    let file = open(&bad);
    map(&process, &file);
    let child = process.fork(ForkMode::Copy).unwrap();
    assert_eq!(process.exit(), Ok(()));
    assert_eq!(child.exit(), Ok(()));
    assert_eq!(bad.written.load(Ordering::Relaxed), 0);
    // It is still open: a program with a descriptor can ask.
    assert_eq!(machine.sync_file(&file.object), Err(Errno::ENOSPC));
    assert_eq!(bad.written.load(Ordering::Relaxed), 0b101);
    assert_eq!(
        machine.sync_file(&samara_mm::Object::none()),
        Err(Errno::EINVAL)
    );
}

#[test]
fn the_last_of_several_processes_is_told() {
    let machine = machine(64);
    let bad = Arc::default();
    let process = process(&machine);
    map(&process, &open(&bad));
    let child = process.fork(ForkMode::Share).unwrap();
    let exits = [process, child].map(|process| std::thread::spawn(|| process.exit()));
    let told = exits.map(|exit| exit.join().unwrap());
    assert!(
        told.contains(&Ok(())) && told.contains(&Err(Errno::ENOSPC)),
        "{told:?}"
    );
}

/// Without `exit`: the first panic is the one that is seen, and the program goes on.
#[test]
fn a_panic_in_write_page_while_unwinding_ends_no_program() {
    let bad = Arc::new(Bad {
        panics: true,
        ..Bad::default()
    });
    let machine = machine(64);
    let free = free_frames(&machine);
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let process = process(&machine);
        map(&process, &open(&bad));
        resume_unwind(Box::new("first"));
    }));
    let panic = panic.map_err(|panic| *panic.downcast::<&str>().unwrap());
    assert_eq!(panic, Err("first"));
    assert_eq!(bad.written.load(Ordering::Relaxed), 0b101);
    machine.check().unwrap();
    assert_eq!(free_frames(&machine), free);
}

#[test]
fn a_panic_in_write_page_loses_no_other_page() {
    let bad = Arc::new(Bad {
        panics: true,
        ..Bad::default()
    });
    let machine = machine(64);
    let free = free_frames(&machine);
    for exits in [false, true] {
        bad.written.store(0, Ordering::Relaxed);
        let process = process(&machine);
        map(&process, &open(&bad));
        let gone = catch_unwind(AssertUnwindSafe(|| match exits {
            true => drop(process.exit()),
            false => drop(process),
        }));
        let panic = gone.map_err(|panic| *panic.downcast::<&str>().unwrap());
        assert_eq!(panic, Err("write_page"));
        assert_eq!(bad.written.load(Ordering::Relaxed), 0b101);
        machine.check().unwrap();
        assert_eq!(free_frames(&machine), free);
    }
}

#[test]
fn a_panic_of_a_second_owner_undoes_the_call() {
    use samara_mm::{Vma, Watch};

    /// Panics at the n-th thing that it is told.
    struct Panicky(u32);

    impl Panicky {
        fn look(&mut self) {
            if self.0 == 1 {
                self.0 = 0;
                resume_unwind(Box::new("told"));
            }
            self.0 = self.0.saturating_sub(1);
        }
    }

    impl Watch for Panicky {
        fn map(&mut self, _: u64, _: u64, _: &Vma) {
            self.look();
        }
        fn unmap(&mut self, _: u64, _: u64) {
            self.look();
        }
        fn protect(&mut self, _: u64, _: u64, _: &Vma) {
            self.look();
        }
        fn relocate(&mut self, _: u64, _: u64, _: u64) {
            self.look();
        }
    }

    let machine = machine(64);
    let process = process(&machine);
    process.expect_threads();
    let anonymous = |page, pages| crate::world::anonymous(BASE + page * PAGE, pages, 3);
    process.perform(&anonymous(0, 2)).unwrap();
    process.perform(&anonymous(3, 2)).unwrap();
    let maps =
        || process.with_space(|space| space.maps().map(|l| l.to_string()).collect::<Vec<_>>());
    let calls = [
        anonymous(0, 4),
        anonymous(8, 1),
        Call::Munmap {
            addr: BASE,
            len: 5 * PAGE,
        },
        Call::Mprotect {
            addr: BASE,
            len: 2 * PAGE,
            prot: 1,
            pkey: -1,
        },
        Call::Mremap {
            old_addr: BASE,
            old_len: PAGE,
            new_len: PAGE,
            flags: 3,
            new_addr: BASE + 3 * PAGE,
        },
    ];
    let mut panics = 0;
    for call in &calls {
        for left in 1.. {
            for page in [0, 1, 3, 4] {
                assert_eq!(process.copy_in(BASE + page * PAGE, &[7 + page as u8]), 1);
            }
            let before = maps();
            let mut second = Panicky(left);
            let run = AssertUnwindSafe(|| process.perform_with(call, &mut second));
            if catch_unwind(run).is_ok() {
                // Once more from the start for the next call.
                process
                    .perform(&Call::Munmap {
                        addr: BASE,
                        len: 16 * PAGE,
                    })
                    .unwrap();
                process.perform(&anonymous(0, 2)).unwrap();
                process.perform(&anonymous(3, 2)).unwrap();
                break;
            }
            panics += 1;
            assert_eq!(maps(), before, "{call:?} at {left}");
            for page in [0, 1, 3, 4] {
                assert_eq!(
                    crate::world::byte(&process, BASE + page * PAGE),
                    Some(7 + page as u8)
                );
            }
            process.check().unwrap();
        }
    }
    assert!(panics > 8, "{panics}");
    drop(process);
    machine.check().unwrap();
}
