//! Calls from within an atomic operation on the same process, which would wait for themselves: an error.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;

use samara_mm::abi::MAP_SHARED;
use samara_mm::observe::ClearRefs;
use samara_mm::process::{Access, Fault, ForkMode, Process};
use samara_mm::walkers::PinFlags;
use samara_mm::{Call, Errno, NoPages};

use crate::world::{BASE, Disk, Hosted, PAGE, anonymous, machine, mapping, open, process};

/// Each way into a process that waits.
fn refused(process: &Process<Hosted>) {
    let unmap = Call::Munmap {
        addr: BASE,
        len: PAGE,
    };
    let discard = Call::Madvise {
        addr: BASE,
        len: PAGE,
        advice: 4,
    };
    for call in [&unmap, &discard] {
        assert_eq!(process.perform(call), Err(Errno::EDEADLK));
        assert_eq!(
            process.perform_with(call, &mut NoPages),
            Err(Errno::EDEADLK)
        );
    }
    assert_eq!(process.fault(BASE, Access::WRITE), Err(Fault::Deadlock));
    assert_eq!(process.copy_in(BASE, b"x"), 0);
    assert_eq!(process.copy_out(BASE, &mut [0]), 0);
    assert_eq!(process.atomic_u32(BASE, |_| ()), Err(Fault::Deadlock));
    assert_eq!(process.atomic_u64(BASE, |_| ()), Err(Fault::Deadlock));
    assert_eq!(
        process.clear_refs(ClearRefs::SoftDirty),
        Err(Errno::EDEADLK)
    );
    let pinned = process.pin(BASE, 1, PinFlags::empty());
    assert!(matches!(pinned, Err(Errno::EDEADLK)));
    assert!(matches!(process.fork(ForkMode::Copy), Err(Errno::EDEADLK)));
}

#[test]
fn calls_from_within_an_atomic_operation_are_refused() {
    let machine = machine(64);
    let (one, two) = (process(&machine), process(&machine));
    let disk = Disk::new(2 * 4096, false);
    let file = open(&disk);
    for process in [&one, &two] {
        process.perform(&anonymous(BASE, 2, 3)).unwrap();
    }
    one.perform(&mapping(&file, BASE + 8 * PAGE, 0, 1, 3, MAP_SHARED))
        .unwrap();
    let done = one.atomic_u32(BASE, |word| {
        refused(&one);
        assert_eq!(machine.truncate(&file.object, 0), Err(Errno::EDEADLK));
        assert_eq!(machine.punch(&file.object, 0, PAGE), Err(Errno::EDEADLK));
        // Others can be called, and then both are in use.
        two.atomic_u32(BASE, |other| {
            refused(&one);
            refused(&two);
            word.store(3, Ordering::Relaxed);
            other.store(4, Ordering::Relaxed);
        })
        .unwrap();
        assert_eq!(two.copy_in(BASE + 4, b"x"), 1);
        // Another thread waits, and is no concern of this one's.
        std::thread::scope(|s| s.spawn(|| two.fault(BASE, Access::WRITE)).join().unwrap())
    });
    assert_eq!(done, Ok(Ok(())));
    // Afterwards all is as before.
    assert_eq!(
        one.atomic_u32(BASE, |word| word.load(Ordering::Relaxed)),
        Ok(3)
    );
    assert_eq!(
        two.atomic_u64(BASE, |word| word.load(Ordering::Relaxed) as u32),
        Ok(4)
    );
    one.perform(&Call::Munmap {
        addr: BASE,
        len: PAGE,
    })
    .unwrap();
    assert_eq!(machine.truncate(&file.object, 0), Ok(()));
    one.check().unwrap();
}

#[test]
fn an_operation_that_panics_is_over() {
    let machine = machine(64);
    let process = process(&machine);
    process.perform(&anonymous(BASE, 2, 3)).unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        process.atomic_u32(BASE, |_| resume_unwind(Box::new("op")))
    }));
    assert!(panicked.is_err());
    assert_eq!(process.copy_in(BASE, b"x"), 1);
    process
        .perform(&Call::Munmap {
            addr: BASE,
            len: PAGE,
        })
        .unwrap();
}
