//! The soft TLB: a virtual processor's loads, stores and fetches have the results of the process's
//! own accesses, whatever calls run concurrently.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use samara_mm::abi::{MADV_DONTNEED, MADV_POPULATE_READ, MAP_PRIVATE, MAP_SHARED, MREMAP_FIXED};
use samara_mm::abi::{MREMAP_MAYMOVE, PROT_EXEC, PROT_READ, PROT_WRITE};
use samara_mm::observe::ClearRefs;
use samara_mm::process::{
    self, Fault, ForkMode, FrameRun, HostLock, Inode, Machine, PAGE_BYTES, PageFrame, PageSource,
    Process, SoftTlb, Stop, Vcpus,
};
use samara_mm::{Call, Config, Counted, Errno, File, FileId, FileKind, Layout, Limits};
use samara_paging::{Arena, HeapBytes};

use crate::rng::Rng;
use crate::world::{BASE, Disk, PAGE, anonymous, mapping, open};

type Emulator = process::Hosted<HeapBytes, Vcpus<HostLock>>;

const RW: u64 = PROT_READ | PROT_WRITE;

fn machine(frames: usize, vcpus: usize) -> Machine<Emulator> {
    let vcpus = Vcpus::new(vcpus).unwrap();
    Machine::<Emulator>::over_with(Arena::on_heap(frames).unwrap(), vcpus).unwrap()
}

fn process(machine: &Machine<Emulator>) -> Process<Emulator> {
    process_of(machine, Config::default())
}

fn process_of(machine: &Machine<Emulator>, config: Config) -> Process<Emulator> {
    Process::new(machine, config, Limits::default(), Layout::default()).unwrap()
}

fn load(vcpu: &mut SoftTlb<Emulator>, addr: u64) -> Result<u8, Stop> {
    vcpu.run(|memory| memory.load::<u8>(addr))
}

fn unmap(addr: u64, pages: u64) -> Call {
    let len = pages * PAGE;
    Call::Munmap { addr, len }
}

fn protect(addr: u64, pages: u64, prot: u64) -> Call {
    let (len, pkey) = (pages * PAGE, -1);
    Call::Mprotect {
        addr,
        len,
        prot,
        pkey,
    }
}

#[test]
fn words_of_each_size_at_each_place() {
    let machine = machine(64, 1);
    let process = process(&machine);
    process.perform(&anonymous(BASE, 2, RW)).unwrap();
    let mut vcpu = SoftTlb::new(&process).unwrap();
    for at in (BASE..BASE + 16).chain(BASE + PAGE - 16..BASE + PAGE + 8) {
        vcpu.run(|memory| {
            memory.store(at, 0x8877_6655_4433_2211_u64).unwrap();
            assert_eq!(memory.load::<u64>(at), Ok(0x8877_6655_4433_2211));
            assert_eq!(memory.load::<u32>(at), Ok(0x4433_2211));
            assert_eq!(memory.load::<u16>(at + 1), Ok(0x3322));
            assert_eq!(memory.load::<u8>(at + 7), Ok(0x88));
            memory.store(at + 2, 0xbeef_u16).unwrap();
        });
        let mut bytes = [0; 8];
        assert_eq!(process.copy_out(at, &mut bytes), 8);
        assert_eq!(bytes, [0x11, 0x22, 0xef, 0xbe, 0x55, 0x66, 0x77, 0x88]);
    }
    vcpu.run(|memory| {
        memory.store(BASE + 8, 5_u32).unwrap();
        let word = memory.atomic_u32(BASE + 8).unwrap();
        assert_eq!(u32::from_le(word.swap(7_u32.to_le(), Ordering::SeqCst)), 5);
        let word = memory.atomic_u64(BASE + 8).unwrap();
        assert_eq!(word.load(Ordering::SeqCst).to_le_bytes()[0], 7);
        assert_eq!(
            memory.atomic_u64(BASE + 4).err(),
            Some(Stop::Fault(Fault::ADRALN))
        );
        let page = memory.page(BASE + 100).unwrap();
        assert_eq!(page[8].load(Ordering::Relaxed), 7);
    });
}

#[test]
fn a_store_across_pages_stores_nothing_where_one_of_them_refuses() {
    let machine = machine(64, 1);
    let process = process(&machine);
    process.perform(&anonymous(BASE, 2, RW)).unwrap();
    process
        .perform(&protect(BASE + PAGE, 1, PROT_READ))
        .unwrap();
    let mut vcpu = SoftTlb::new(&process).unwrap();
    let at = BASE + PAGE - 4;
    vcpu.run(|memory| {
        memory.store(BASE, 0_u8).unwrap();
        assert_eq!(memory.store(at, u64::MAX), Err(Stop::Fault(Fault::ACCERR)));
        assert_eq!(memory.load::<u64>(at), Ok(0));
        assert_eq!(
            memory.load::<u64>(BASE + 2 * PAGE - 4),
            Err(Stop::Fault(Fault::MAPERR))
        );
        // The last addresses of all.
        assert!(memory.load::<u64>(u64::MAX - 3).is_err());
        assert!(memory.load::<u8>(u64::MAX).is_err());
        assert!(memory.store(u64::MAX - 7, 0_u64).is_err());
    });
}

#[test]
fn a_first_store_after_loads_is_noted() {
    let machine = machine(64, 1);
    let process = process(&machine);
    process.perform(&anonymous(BASE, 1, RW)).unwrap();
    let mut vcpu = SoftTlb::new(&process).unwrap();
    let soft_dirty = || process.page(BASE).contains(process::PageStatus::SOFT_DIRTY);
    // First the page of zeroes, then one of its own; then a child's, too.
    assert_eq!(load(&mut vcpu, BASE), Ok(0));
    let store = |vcpu: &mut SoftTlb<Emulator>, byte: u8| {
        vcpu.run(|memory| memory.store(BASE, byte)).unwrap();
        assert_eq!(load(vcpu, BASE), Ok(byte));
    };
    store(&mut vcpu, 1);
    assert!(soft_dirty());
    process.clear_refs(ClearRefs::SoftDirty).unwrap();
    assert!(!soft_dirty());
    store(&mut vcpu, 2);
    assert!(soft_dirty());
    for mode in [ForkMode::Copy, ForkMode::Share] {
        store(&mut vcpu, 3);
        let child = process.fork(mode).unwrap();
        store(&mut vcpu, 4);
        let mut byte = [0];
        assert_eq!(child.copy_out(BASE, &mut byte), 1);
        assert_eq!(byte, [3], "a store of the parent's reached its child");
        let mut other = SoftTlb::new(&child).err();
        assert_eq!(other.take(), Some(Errno::EAGAIN));
    }
}

#[test]
fn execution_and_data_are_permitted_apart() {
    let machine = machine(64, 1);
    let config = Config {
        pkeys: true,
        ..Config::default()
    };
    let process = process_of(&machine, config);
    process.perform(&anonymous(BASE, 1, RW)).unwrap();
    assert_eq!(process.copy_in(BASE, &0x1234_u16.to_le_bytes()), 2);
    let mut vcpu = SoftTlb::new(&process).unwrap();
    let mut both = || vcpu.run(|memory| (memory.load::<u16>(BASE), memory.fetch::<u16>(BASE)));
    let (accerr, pkuerr) = (Stop::Fault(Fault::ACCERR), Stop::Fault(Fault::PKUERR));
    assert_eq!(both(), (Ok(0x1234), Err(accerr)));
    process
        .perform(&protect(BASE, 1, PROT_READ | PROT_EXEC))
        .unwrap();
    assert_eq!(both(), (Ok(0x1234), Ok(0x1234)));
    process.perform(&protect(BASE, 1, PROT_EXEC)).unwrap();
    assert_eq!(both(), (Err(pkuerr), Ok(0x1234)));
    process.perform(&protect(BASE, 1, PROT_READ)).unwrap();
    assert_eq!(both(), (Ok(0x1234), Err(accerr)));
}

#[test]
fn registers_of_a_device_are_the_emulators() {
    const REGISTERS: u64 = 0xfe00_0000_0000;
    let machine = machine(64, 1);
    let process = process(&machine);
    let first = PageFrame::Device(REGISTERS);
    let id = FileId {
        major: 10,
        minor: 1,
        inode: 5,
    };
    let file = File {
        kind: FileKind::Device,
        object: Inode::object(FrameRun { first, pages: 2 }).unwrap(),
        ..File::new(id, "/dev/port".into())
    };
    let file = Counted::try_new(file).unwrap();
    process
        .perform(&mapping(&file, BASE, 0, 2, PROT_READ, MAP_SHARED))
        .unwrap();
    let mut vcpu = SoftTlb::new(&process).unwrap();
    vcpu.run(|memory| {
        let at = |offset| Err(Stop::Device(REGISTERS + offset));
        assert_eq!(memory.load::<u32>(BASE + 4), at(4));
        assert_eq!(memory.load::<u32>(BASE + PAGE + 8), at(PAGE + 8));
        let forbidden = memory.store(BASE, 1_u32);
        assert_eq!(forbidden, Err(Stop::Fault(Fault::ACCERR)));
    });
    process.perform(&protect(BASE, 1, RW)).unwrap();
    let stored = vcpu.run(|memory| memory.store(BASE + 12, 1_u32));
    assert_eq!(stored, Err(Stop::Device(REGISTERS + 12)));
}

#[test]
fn calls_within_a_run_are_refused() {
    let machine = machine(64, 1);
    let process = process(&machine);
    process.perform(&anonymous(BASE, 2, RW)).unwrap();
    let mut vcpu = SoftTlb::new(&process).unwrap();
    vcpu.run(|memory| {
        memory.store(BASE, 1_u8).unwrap();
        assert_eq!(process.perform(&unmap(BASE, 1)), Err(Errno::EDEADLK));
        assert_eq!(process.copy_out(BASE, &mut [0]), 0);
        assert!(matches!(process.fork(ForkMode::Copy), Err(Errno::EDEADLK)));
        // Misses are the virtual processor's own faults.
        memory.store(BASE + PAGE, 1_u8).unwrap();
        assert_eq!(process.perform(&unmap(BASE, 1)), Err(Errno::EDEADLK));
    });
    process.perform(&unmap(BASE, 1)).unwrap();
    assert_eq!(load(&mut vcpu, BASE), Err(Stop::Fault(Fault::MAPERR)));
}

/// A source that panics for page 1.
struct Panics;

impl PageSource for Panics {
    fn read_page(&self, page: u64, into: &mut [u8; PAGE_BYTES]) -> Result<(), Errno> {
        assert_eq!(page, 0, "as it should");
        into.fill(7);
        Ok(())
    }

    fn write_page(&self, _: u64, _: &[u8; PAGE_BYTES]) -> Result<(), Errno> {
        Ok(())
    }

    fn punch(&self, _: u64, _: u64) -> Result<(), Errno> {
        Ok(())
    }

    fn size(&self) -> u64 {
        2 * PAGE
    }
}

#[test]
fn a_source_that_panics_leaves_the_section_as_it_was() {
    let machine = machine(64, 1);
    let process = process(&machine);
    let id = FileId {
        major: 1,
        minor: 1,
        inode: 5,
    };
    let file = File {
        object: Inode::object(Panics).unwrap(),
        ..File::new(id, "/panics".into())
    };
    let file = Counted::try_new(file).unwrap();
    let call = mapping(&file, BASE, 0, 2, PROT_READ, MAP_PRIVATE);
    process.perform(&call).unwrap();
    let mut vcpu = SoftTlb::new(&process).unwrap();
    vcpu.run(|memory| {
        assert_eq!(memory.load::<u8>(BASE), Ok(7));
        let panicked = catch_unwind(AssertUnwindSafe(|| memory.load::<u8>(BASE + PAGE)));
        assert!(panicked.is_err());
        // It is within the run again: calls would wait for it.
        assert_eq!(process.perform(&unmap(BASE, 1)), Err(Errno::EDEADLK));
        assert_eq!(memory.load::<u8>(BASE), Ok(7));
    });
    let panicked = catch_unwind(AssertUnwindSafe(|| load(&mut vcpu, BASE + PAGE)));
    assert!(panicked.is_err());
    // It is not waited for any more.
    process.perform(&unmap(BASE, 1)).unwrap();
    assert_eq!(load(&mut vcpu, BASE), Err(Stop::Fault(Fault::MAPERR)));
}

#[test]
#[cfg_attr(miri, ignore = "of 70 virtual processors, for minutes")]
fn places_are_taken_and_given_back() {
    let machine = machine(256, 70);
    let (one, two) = (process(&machine), process(&machine));
    for process in [&one, &two] {
        process.perform(&anonymous(BASE, 1, RW)).unwrap();
    }
    assert_eq!(two.copy_in(BASE, &[2]), 1);
    assert_eq!(machine.tlb().len(), 70);
    // The 65th has the bit of the first.
    let mut vcpus: Vec<_> = (0..69).map(|_| SoftTlb::new(&one).unwrap()).collect();
    let mut other = SoftTlb::new(&two).unwrap();
    assert_eq!(SoftTlb::new(&one).err(), Some(Errno::EAGAIN));
    for byte in [1, 3] {
        assert_eq!(one.copy_in(BASE, &[byte]), 1);
        for vcpu in &mut vcpus {
            assert_eq!(load(vcpu, BASE), Ok(byte));
        }
        one.perform(&anonymous(BASE, 1, RW)).unwrap();
    }
    for vcpu in &mut vcpus {
        assert_eq!(load(vcpu, BASE), Ok(0));
    }
    assert_eq!(load(&mut other, BASE), Ok(2));
    // A place that is given back may be another process's.
    drop(vcpus);
    let mut again = SoftTlb::new(&two).unwrap();
    assert_eq!(load(&mut again, BASE), Ok(2));
    two.perform(&unmap(BASE, 1)).unwrap();
    for vcpu in [&mut other, &mut again] {
        assert_eq!(load(vcpu, BASE), Err(Stop::Fault(Fault::MAPERR)));
    }
}

#[test]
fn a_vcpu_keeps_the_pages_of_a_process_that_was_dropped() {
    let machine = machine(64, 1);
    let free = machine.physical().backing().free_frames();
    let process = process(&machine);
    process.perform(&anonymous(BASE, 1, RW)).unwrap();
    let mut vcpu = SoftTlb::new(&process).unwrap();
    vcpu.run(|memory| memory.store(BASE, 5_u8)).unwrap();
    process.exit().unwrap();
    assert_eq!(load(&mut vcpu, BASE), Ok(5));
    drop(vcpu);
    assert_eq!(machine.physical().backing().free_frames(), free);
}

/// A virtual processor looks at all pages after each of many calls; what it finds is what the process's own copies find. It begins with all pages among its entries.
fn beside_calls(seed: u64, steps: u32) {
    const PAGES: u64 = 12;
    let mut rng = Rng::new(seed);
    let machine = machine(512, 4);
    let process = process(&machine);
    let disk = Disk::new(8 * 4096, false);
    let file = open(&disk);
    let mut vcpu = SoftTlb::new(&process).unwrap();
    let mut child = None;
    for step in 0..steps {
        let page = rng.below(PAGES);
        let (addr, pages) = (BASE + page * PAGE, 1 + rng.below(PAGES - page));
        let len = pages * PAGE;
        let prot = rng.pick(&[RW, RW, RW, PROT_READ, 0]);
        let other = BASE + rng.below(PAGES) * PAGE;
        let advice = |advice| {
            let _ = process.perform(&Call::Madvise { addr, len, advice });
        };
        match rng.below(15) {
            0..=2 => _ = process.perform(&anonymous(addr, pages, prot)),
            3 => _ = process.perform(&unmap(addr, pages)),
            4 | 5 => _ = process.perform(&protect(addr, pages, prot)),
            6 => advice(MADV_DONTNEED),
            7 => advice(MADV_POPULATE_READ),
            8 => {
                let flags = MREMAP_MAYMOVE | MREMAP_FIXED;
                let _ = process.perform(&Call::Mremap {
                    old_addr: addr,
                    old_len: PAGE,
                    new_len: PAGE,
                    flags,
                    new_addr: other,
                });
            }
            9 => {
                let flags = rng.pick(&[MAP_SHARED, MAP_PRIVATE]);
                let _ = process.perform(&mapping(&file, addr, 0, pages, prot, flags));
            }
            10 => {
                let size = rng.below(8) as usize * 4096;
                disk.resize(size);
                machine.truncate(&file.object, size as u64).unwrap();
                disk.resize(8 * 4096);
            }
            11 => {
                let mode = rng.pick(&[ForkMode::Copy, ForkMode::Share]);
                child = process.fork(mode).ok();
            }
            12 => child = None,
            13 => _ = process.clear_refs(ClearRefs::SoftDirty),
            _ => _ = process.copy_in(addr, &[step as u8]),
        }
        for page in 0..PAGES {
            let at = BASE + page * PAGE + 8;
            let mut bytes = [0; 8];
            let loaded = vcpu.run(|memory| memory.load::<u64>(at)).ok();
            let copied = (process.copy_out(at, &mut bytes) == 8).then(|| u64::from_le_bytes(bytes));
            assert_eq!(loaded, copied, "seed {seed}, step {step}, page {page}");
            if rng.chance(30) {
                let word = rng.next();
                let before = (child.as_ref()).map(|child: &Process<_>| {
                    let mut bytes = [0; 8];
                    (child.copy_out(at, &mut bytes), bytes)
                });
                let stored = vcpu.run(|memory| memory.store(at, word)).is_ok();
                let expected = if stored { Some(word) } else { copied };
                let copied =
                    (process.copy_out(at, &mut bytes) == 8).then(|| u64::from_le_bytes(bytes));
                assert_eq!(copied, expected, "seed {seed}, step {step}, page {page}");
                let shared = process.page(at).contains(process::PageStatus::FILE);
                if let (Some(child), Some(before), false) = (&child, before, shared) {
                    let mut bytes = [0; 8];
                    let after = (child.copy_out(at, &mut bytes), bytes);
                    assert_eq!(after, before, "seed {seed}, step {step}: in the child");
                }
            }
        }
    }
}

#[test]
fn random_calls() {
    let (seeds, steps) = if cfg!(miri) { (1, 60) } else { (12, 400) };
    (1..=seeds).for_each(|seed| beside_calls(seed, steps));
}

/// Tells the readers that they are done, also when a test fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One thread replaces the contents of a page again and again, by each of several calls. Virtual
/// processors that load concurrently never find contents that were replaced before their load.
#[test]
#[cfg_attr(
    miri,
    ignore = "threads that load all the time are most of what Miri would run"
)]
fn no_stale_byte_beside_calls_of_another_thread() {
    let rounds = 2_000;
    let machine = machine(1024, 4);
    let process = process(&machine);
    process.expect_threads();
    process.perform(&anonymous(BASE, 2, RW)).unwrap();
    // Contents up to this number have gone.
    let gone = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    // Tables that calls take away wait for a reader that has lost its processor in the middle of a walk.
    let perform = |call: &Call| {
        while let Err(error) = process.perform(call) {
            assert_eq!(error, Errno::ENOMEM);
            thread::yield_now();
            machine.physical().reclaim();
        }
    };
    let store = |writer: &mut SoftTlb<Emulator>, word: u64| {
        while let Err(stop) = writer.run(|memory| memory.store(BASE + 8, word)) {
            assert_eq!(stop, Stop::Fault(Fault::NoMemory));
            thread::yield_now();
            machine.physical().reclaim();
        }
    };
    thread::scope(|scope| {
        let _done = Done(&done);
        for _ in 0..2 {
            let mut vcpu = SoftTlb::new(&process).unwrap();
            let (gone, done) = (&gone, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    vcpu.run(|memory| {
                        for _ in 0..50 {
                            let before = gone.load(Ordering::Acquire);
                            let found = memory.load::<u64>(BASE + 8).unwrap_or(0);
                            assert!(found == 0 || found > before, "{found} after {before}");
                        }
                    });
                }
            });
        }
        let mut writer = SoftTlb::new(&process).unwrap();
        for round in 1..=rounds {
            store(&mut writer, round);
            match round % 4 {
                0 => perform(&anonymous(BASE, 1, RW)),
                1 => {
                    perform(&unmap(BASE, 1));
                    gone.store(round, Ordering::Release);
                    perform(&anonymous(BASE, 1, RW));
                }
                2 => {
                    let (addr, len, advice) = (BASE, PAGE, MADV_DONTNEED);
                    perform(&Call::Madvise { addr, len, advice });
                }
                // What a child has of it is copied at the next store.
                _ => {
                    let child = process.fork(ForkMode::Copy).ok();
                    store(&mut writer, 0);
                    drop(child);
                }
            }
            gone.store(round, Ordering::Release);
        }
    });
}
