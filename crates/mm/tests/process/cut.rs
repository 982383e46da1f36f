//! Pages of files that a fault copies without their lock. They may be truncated during the copy,
//! and the copy must not be mapped then.

use std::ptr::NonNull;
use std::sync::Mutex;

use samara_mm::abi::{MAP_PRIVATE, PROT_READ, PROT_WRITE};
use samara_mm::process::{Access, Fault, Machine, Platform, Process};
use samara_mm::{Advice, Config, Layout, Limits};
use samara_paging::{Arena, FrameAllocator, Grace, HeapBytes, PhysMem, Physical, format::X86_64};

use crate::world::{BASE, Disk, PAGE, byte, machine, mapping, open, process};

type Hook = Box<dyn FnOnce() + Send>;

/// Frames on the heap; before the next one is given out, something else happens.
struct Interrupted {
    arena: Arena<HeapBytes>,
    hook: Mutex<Option<Hook>>,
}

// SAFETY: the arena's.
unsafe impl FrameAllocator for Interrupted {
    fn alloc(&self, order: u32) -> Option<u64> {
        let hook = self.hook.lock().unwrap().take();
        if let Some(hook) = hook {
            hook();
        }
        self.arena.alloc(order)
    }

    unsafe fn free(&self, phys: u64, order: u32) {
        // SAFETY: the caller's promise.
        unsafe { self.arena.free(phys, order) };
    }

    fn alloc_table(&self) -> Option<u64> {
        self.arena.alloc_table()
    }

    unsafe fn free_table(&self, phys: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.arena.free_table(phys) };
    }
}

// SAFETY: the arena's.
unsafe impl PhysMem for Interrupted {
    fn to_virt(&self, phys: u64) -> NonNull<u8> {
        self.arena.to_virt(phys)
    }
}

struct Interrupting;

impl Platform for Interrupting {
    type Format = X86_64;
    type Backing = Interrupted;
    type Reclaim = Grace;
    type Tlb = ();
    type Mutex = parking_lot::RawMutex;
    type RwLock = parking_lot::RawRwLock;
}

#[test]
fn a_copy_of_a_page_that_is_cut_off_meanwhile_is_not_mapped() {
    const FRAMES: u64 = 64;
    for threads in [false, true] {
        let backing = Interrupted {
            arena: Arena::on_heap(FRAMES as usize).unwrap(),
            hook: Mutex::new(None),
        };
        let base = Arena::<HeapBytes>::BASE;
        let physical = Physical::new(backing, Grace::new(), base, FRAMES).unwrap();
        let machine: Machine<Interrupting> = Machine::new(physical, ()).unwrap();
        let free = || machine.physical().backing().arena.free_frames();
        let before = free();
        let (config, limits, layout) = (Config::default(), Limits::default(), Layout::default());
        let process = Process::new(&machine, config, limits, layout).unwrap();
        let disk = Disk::new(4 * PAGE as usize, false);
        let file = open(&disk);
        let map = mapping(&file, BASE, 0, 4, PROT_READ | PROT_WRITE, MAP_PRIVATE);
        process.perform(&map).unwrap();
        if threads {
            process.expect_threads();
        }
        // The area's owner of private pages, and pages of the file in memory.
        process.fault(BASE, Access::WRITE).unwrap();
        process.fault(BASE + 2 * PAGE, Access::READ).unwrap();
        process.fault(BASE + 3 * PAGE, Access::READ).unwrap();
        process.madvise(BASE, 4 * PAGE, Advice::DONTNEED).unwrap();
        let (disk, machine_too, object) = (disk.clone(), machine.clone(), file.object.clone());
        let cut: Hook = Box::new(move || {
            disk.resize(3 * PAGE as usize);
            machine_too.truncate(&object, 3 * PAGE).unwrap();
        });
        *machine.physical().backing().hook.lock().unwrap() = Some(cut);
        let fault = process.fault(BASE + 3 * PAGE, Access::WRITE);
        assert_eq!(fault, Err(Fault::ADRERR));
        assert_eq!(process.translate(BASE + 3 * PAGE), None);
        process.fault(BASE + 2 * PAGE, Access::WRITE).unwrap();
        machine.check().unwrap();
        drop((process, file, map));
        machine.physical().reclaim();
        assert_eq!(free(), before);
    }
}

#[test]
fn a_page_that_has_all_references_is_copied_as_well() {
    let machine = machine(64);
    let process = process(&machine);
    let disk = Disk::new(4 * PAGE as usize, false);
    let file = open(&disk);
    let map = mapping(&file, BASE, 0, 4, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    process.perform(&map).unwrap();
    // Another page's, so that the area has an owner; and the page itself, which goes again.
    process.fault(BASE, Access::WRITE).unwrap();
    assert_eq!(byte(&process, BASE + PAGE), Some(2));
    let (phys, _) = process.translate(BASE + PAGE).unwrap();
    process.madvise(BASE, 4 * PAGE, Advice::DONTNEED).unwrap();
    let physical = machine.physical();
    let mut held = 0;
    while physical.get(phys).is_ok() {
        held += 1;
    }
    process.fault(BASE + PAGE, Access::WRITE).unwrap();
    assert_ne!(process.translate(BASE + PAGE).unwrap().0, phys);
    assert_eq!(byte(&process, BASE + PAGE), Some(2));
    (0..held).for_each(|_| physical.put(phys));
    machine.check().unwrap();
}
