//! Frames that are refused as planned, and the machine over them.

use std::ptr::NonNull;
use std::sync::Mutex;

use samara_mm::process::{HostLock, Machine, Platform};
use samara_paging::format::X86_64;
use samara_paging::{Arena, Bytes, FrameAllocator, Grace, PhysMem, Physical};

use crate::plan::{Count, Plan, spared};

/// Memory of the system, of which only what is used costs anything: tests make thousands of machines.
struct Mapped(NonNull<u8>, usize);

// SAFETY: memory of its own.
unsafe impl Send for Mapped {}
// SAFETY: this type itself never touches it.
unsafe impl Sync for Mapped {}

impl Mapped {
    fn new(bytes: usize) -> Self {
        let (prot, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: a new mapping, over nothing.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, prot, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Mapped(NonNull::new(start.cast()).unwrap(), bytes)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and no code uses it any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), self.1) };
    }
}

// SAFETY: mapped with this length until it is dropped; mappings are aligned to pages.
unsafe impl Bytes for Mapped {
    fn start(&self) -> NonNull<u8> {
        self.0
    }

    fn count(&self) -> usize {
        self.1
    }
}

/// An arena, and what is refused of it.
pub(crate) struct Refusing {
    arena: Arena<Mapped>,
    plan: Mutex<(Plan, Count)>,
}

impl Refusing {
    pub(crate) fn begin(&self, plan: &Plan) {
        *self.plan.lock().unwrap() = (plan.clone(), Count::default());
    }

    pub(crate) fn end(&self) -> Count {
        let mut plan = self.plan.lock().unwrap();
        std::mem::replace(&mut *plan, (Plan::NONE, Count::default())).1
    }

    pub(crate) fn free_frames(&self) -> u64 {
        self.arena.free_frames()
    }

    fn refuses(&self) -> bool {
        spared(|| {
            let (plan, count) = &mut *self.plan.lock().unwrap();
            count.refuses(&plan.frames)
        })
    }
}

// SAFETY: frames are the arena's.
unsafe impl FrameAllocator for Refusing {
    fn alloc(&self, order: u32) -> Option<u64> {
        if self.refuses() {
            return None;
        }
        self.arena.alloc(order)
    }

    unsafe fn free(&self, phys: u64, order: u32) {
        // SAFETY: the caller's duties are the arena's.
        unsafe { self.arena.free(phys, order) };
    }
}

// SAFETY: as above.
unsafe impl PhysMem for Refusing {
    fn to_virt(&self, phys: u64) -> NonNull<u8> {
        self.arena.to_virt(phys)
    }
}

/// A program's machine whose frames may be refused.
pub(crate) struct Host;

impl Platform for Host {
    type Format = X86_64;
    type Backing = Refusing;
    type Reclaim = Grace;
    type Tlb = ();
    type Mutex = HostLock;
    type RwLock = HostLock;
}

pub(crate) fn machine(frames: usize) -> Machine<Host> {
    let backing = Refusing {
        arena: Arena::over(Mapped::new(frames << 12)).unwrap(),
        plan: Mutex::new((Plan::NONE, Count::default())),
    };
    let base = Arena::<Mapped>::BASE;
    let physical = Physical::new(backing, Grace::new(), base, frames as u64).unwrap();
    Machine::new(physical, ()).unwrap()
}
