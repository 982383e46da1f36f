//! Processes under a kernel: every root has its half, no call of a process changes it, and it is counted apart.

use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use samara_mm::abi::{PROT_READ, PROT_WRITE};
use samara_mm::process::{Access, Fault, ForkMode, Machine, Process};
use samara_mm::{Call, Config, Errno, Layout, Limits};
use samara_paging::{
    Arena, Attrs, Bytes, Entry, Format, Grace, HeapBytes, Physical, format::X86_64,
};

use crate::countdown::LEFT;
use crate::world::{
    BASE, Hosted, KERNEL, PAGE, anonymous, byte, free_frames, machine, machine_with_kernel, process,
};

/// Returns the entry that a processor finds with this process's root loaded.
fn through(process: &Process<Hosted>, addr: u64) -> Entry {
    let (mut table, mut level) = (process.root(), 3);
    loop {
        let index = (addr >> (12 + 9 * level)) as usize & 511;
        let entries = process.machine().physical().to_virt(table).cast::<u64>();
        // SAFETY: a table, which does not change during the look.
        let raw = unsafe { entries.add(index).read() };
        if level == 0 || !X86_64::is_table(raw) {
            return X86_64::decode(raw, level);
        }
        (table, level) = (X86_64::phys(raw), level - 1);
    }
}

fn arena(machine: &Machine<Hosted>) -> &Arena<HeapBytes> {
    machine.physical().backing()
}

#[test]
fn every_process_has_the_kernels_half() {
    let machine = machine_with_kernel(1024);
    let free = free_frames(&machine);
    let kernel = machine.kernel().unwrap();
    let parent = process(&machine);
    parent
        .perform(&anonymous(BASE, 8, PROT_READ | PROT_WRITE))
        .unwrap();
    assert_eq!(parent.copy_in(BASE, b"parent"), 6);
    for mode in [ForkMode::Copy, ForkMode::Share] {
        let child = parent.fork(mode).unwrap();
        assert_eq!(child.copy_in(BASE, b"child"), 5);
        for process in [&parent, &child] {
            let page = kernel.entry(KERNEL[1].start);
            assert!(matches!(page, Entry::Page { .. }));
            assert_eq!(through(process, KERNEL[1].start), page);
            // It is none of the process's memory.
            assert_eq!(process.translate(KERNEL[1].start), None);
            let fault = process.fault(KERNEL[1].start, Access::READ);
            assert_eq!(fault, Err(Fault::MAPERR));
            assert_eq!(byte(process, KERNEL[1].start), None);
        }
        machine.check().unwrap();
        drop(child);
        assert_eq!(byte(&parent, BASE), Some(b'p'));
    }
    // All roots have what the kernel changes.
    let range = KERNEL[1].start..KERNEL[1].start + PAGE;
    kernel.unmap(range, &()).unwrap();
    assert_eq!(through(&parent, KERNEL[1].start), Entry::Empty);
    assert_eq!(through(&parent, BASE), own_entry(&parent));
    machine.check().unwrap();
    drop(parent);
    machine.physical().reclaim();
    // Without the two tables that led to the kernel's page.
    assert_eq!(free_frames(&machine), free + 2);
}

/// The entry of the process's own page.
fn own_entry(process: &Process<Hosted>) -> Entry {
    let (phys, _) = process.translate(BASE).unwrap();
    let entry = through(process, BASE);
    assert!(matches!(entry, Entry::Page { phys: found, attrs, .. }
        if found == phys && attrs.contains(Attrs::USER)));
    entry
}

#[test]
fn exits_give_back_all_but_the_kernels() {
    let machine = machine_with_kernel(1024);
    let free = free_frames(&machine);
    let before = machine.stats();
    // A root, two tables below it, and those that lead to one page.
    assert_eq!((before.tables, before.kernel_tables), (0, 5));
    let first = process(&machine);
    let number = first.asid();
    assert_ne!(
        (number, first.root()),
        (0, machine.kernel().unwrap().root())
    );
    let root = first.root();
    first
        .perform(&anonymous(BASE, 8, PROT_READ | PROT_WRITE))
        .unwrap();
    assert_eq!(first.copy_in(BASE, b"x"), 1);
    let second = first.fork(ForkMode::Copy).unwrap();
    assert_ne!(second.asid(), number);
    let stats = machine.stats();
    assert_eq!((stats.tables, stats.kernel_tables), (8, 5));
    assert_eq!((first.root(), first.asid()), (root, number));
    drop(first);
    machine.check().unwrap();
    drop(second);
    machine.physical().reclaim();
    assert_eq!((machine.stats(), free_frames(&machine)), (before, free));
    machine.check().unwrap();
}

#[test]
fn no_call_reaches_the_kernels_half() {
    let machine = machine_with_kernel(256);
    // A program that may have the whole of it, if anything lets it.
    let config = Config {
        task_size: !(PAGE - 1),
        ..Config::default()
    };
    let (limits, layout) = (Limits::default(), Layout::default());
    let process = Process::new(&machine, config, limits, layout).unwrap();
    let kernel = machine.kernel().unwrap();
    let before = kernel.entry(KERNEL[1].start);
    process
        .perform(&anonymous(KERNEL[1].start, 1, PROT_READ | PROT_WRITE))
        .unwrap();
    assert_eq!(process.copy_in(KERNEL[1].start, b"x"), 0);
    let (addr, len) = (KERNEL[1].start, PAGE);
    process.perform(&Call::Munmap { addr, len }).unwrap_err();
    assert_eq!(kernel.entry(KERNEL[1].start), before);
    drop(process);
    assert_eq!(kernel.entry(KERNEL[1].start), before);
    machine.check().unwrap();
}

#[test]
fn what_is_refused_to_a_machine_leaves_nothing() {
    let base = Arena::<HeapBytes>::BASE;
    let make = |frames: Option<u64>, heap: Option<u32>| {
        let arena = Arena::on_heap(64).unwrap();
        let physical = Physical::new(arena, Grace::new(), base, 64).unwrap();
        physical.backing().refuse_after(frames);
        LEFT.set(heap);
        let made = Machine::<Hosted>::with_kernel(physical, (), &KERNEL);
        LEFT.set(None);
        made
    };
    // A root and two tables; the machine, and its kernel's tables.
    for left in 0..3 {
        assert_eq!(make(Some(left), None).err(), Some(Errno::ENOMEM));
    }
    for left in 0..2 {
        assert_eq!(make(None, Some(left)).err(), Some(Errno::ENOMEM));
    }
    let machine = make(Some(3), Some(2)).unwrap();
    arena(&machine).refuse_after(None);
    machine.check().unwrap();
    let arena = Arena::on_heap(64).unwrap();
    let physical = Physical::new(arena, Grace::new(), base, 64).unwrap();
    let made = Machine::<Hosted>::with_kernel(physical, (), &[0..PAGE, KERNEL[0].clone()]);
    assert_eq!(made.err(), Some(Errno::EINVAL));
}

#[test]
fn what_is_refused_to_a_process_leaves_nothing() {
    let machine = machine_with_kernel(256);
    let parent = process(&machine);
    parent
        .perform(&anonymous(BASE, 8, PROT_READ | PROT_WRITE))
        .unwrap();
    assert_eq!(parent.copy_in(BASE, b"parent"), 6);
    machine.physical().reclaim();
    let free = free_frames(&machine);
    for mode in [ForkMode::Copy, ForkMode::Share] {
        for frames in [true, false] {
            let mut left = 0;
            let child = loop {
                match frames {
                    true => arena(&machine).refuse_after(Some(left)),
                    false => LEFT.set(Some(left as u32)),
                }
                let child = parent.fork(mode);
                arena(&machine).refuse_after(None);
                LEFT.set(None);
                machine.check().unwrap();
                if let Ok(child) = child {
                    break child;
                }
                machine.physical().reclaim();
                assert_eq!(free_frames(&machine), free);
                left += 1;
                assert!(left < 100);
            };
            assert!(left > 0);
            drop(child);
        }
    }
}

#[repr(align(4096))]
struct Frame {
    _bytes: UnsafeCell<[u8; PAGE as usize]>,
}

/// Memory that tells when it is dropped.
struct Told(Box<[Frame]>, Arc<AtomicBool>);

// SAFETY: nothing here touches the bytes.
unsafe impl Send for Told {}
// SAFETY: as above.
unsafe impl Sync for Told {}

// SAFETY: bytes of its own, which do not move.
unsafe impl Bytes for Told {
    fn start(&self) -> NonNull<u8> {
        NonNull::from(&*self.0).cast()
    }

    fn count(&self) -> usize {
        size_of_val(&*self.0)
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.1.store(true, Ordering::Relaxed);
    }
}

/// The machine's handles and the kernel's tables do not keep one another alive.
#[test]
fn the_last_handle_frees_the_kernels_tables() {
    let gone = Arc::new(AtomicBool::new(false));
    let frames = (0..64).map(|_| Frame {
        _bytes: UnsafeCell::new([0; PAGE as usize]),
    });
    let arena = Arena::over(Told(frames.collect(), gone.clone())).unwrap();
    let base = Arena::<HeapBytes>::BASE;
    let physical = Physical::new(arena, Grace::new(), base, 64).unwrap();
    let machine = Machine::<samara_mm::process::Hosted<Told>>::with_kernel(physical, (), &KERNEL);
    let machine = machine.unwrap();
    let (config, limits, layout) = (Config::default(), Limits::default(), Layout::default());
    let process = Process::new(&machine, config, limits, layout).unwrap();
    drop(machine);
    // The process has a handle.
    assert!(process.machine().kernel().is_some());
    process.machine().check().unwrap();
    assert!(!gone.load(Ordering::Relaxed));
    drop(process);
    assert!(
        gone.load(Ordering::Relaxed),
        "the machine is not given back"
    );
}

#[test]
fn machines_without_a_kernel_have_none() {
    let machine = machine(64);
    assert!(machine.kernel().is_none());
    assert_eq!(machine.stats().kernel_tables, 0);
}
