//! A memblock whose arrays the benchmark fills and restores by writing its fields, as C code may.

use std::alloc::{Layout, alloc_zeroed};
use std::ptr::NonNull;

use samara_bench::Random;
use samara_memblock::{Flags, Identity, Memblock, NodeId, Region, Storage};

/// `struct memblock_type`.
#[repr(C)]
pub struct CType {
    pub cnt: usize,
    pub max: usize,
    pub total_size: u64,
    pub regions: *mut Region,
    name: *const u8,
}

/// `struct memblock`.
#[repr(C)]
pub struct CMemblock {
    bottom_up: bool,
    pub current_limit: u64,
    pub memory: CType,
    pub reserved: CType,
}

pub type Boot = Memblock<'static, Identity>;

/// The same memory as C sees it.
pub fn as_c(m: &mut Boot) -> &mut CMemblock {
    // SAFETY: a memblock begins with these fields, in this order, and no other reference to it is
    // used.
    unsafe { &mut *(&raw mut *m).cast() }
}

/// Zeroed memory that is never given back.
pub fn leak(bytes: usize) -> NonNull<u8> {
    let layout = Layout::from_size_align(bytes, 4096).expect("a size that fits");
    // SAFETY: the size is not zero.
    let memory = NonNull::new(unsafe { alloc_zeroed(layout) }).expect("memory for the benchmark");
    memory.as_ptr().expose_provenance();
    memory
}

/// A memblock with room for `N` regions of each kind.
pub fn boot<const N: usize>() -> Boot {
    let storage = leak(size_of::<Storage<N>>()).cast::<Storage<N>>();
    // SAFETY: zeroed regions are regions; the storage is leaked; only memory that is there is added where pointers are used.
    unsafe { Memblock::from_raw_storage(storage.as_ptr(), Identity::new()) }
}

/// Distance from one region to the next, and the length of each.
pub const STEP: u64 = 0x4000;
pub const LEN: u64 = 0x1000;
/// The base of the first region. Additions in front go below.
pub const BASE: u64 = 1 << 40;

/// `n` regions with gaps, and an array with the capacity that doubling from 128 gives.
pub struct Bed {
    pub m: Boot,
    template: Vec<Region>,
    max: usize,
}

impl Bed {
    /// Regions at even distances, or at distances that differ by up to a factor of a million, most of them short.
    pub fn new(n: usize, extra: usize, even: bool) -> Self {
        let mut random = Random::new(7);
        let mut base = BASE;
        let mut region = |_| {
            let r = Region {
                base,
                size: LEN,
                flags: Flags::NONE,
                nid: NodeId::NONE,
            };
            let order = if even {
                0
            } else {
                random.below(21) * random.below(21) / 20
            };
            base += STEP << order;
            r
        };
        let template = (0..n).map(&mut region).collect();
        let mut max = 128;
        while max < n + extra {
            max *= 2;
        }
        Bed {
            m: boot::<{ 1 << 18 }>(),
            template,
            max,
        }
    }

    /// Returns the base of the region at an index.
    pub fn base_of(&self, place: usize) -> u64 {
        self.template[place].base
    }

    /// Back to the regions of the beginning.
    pub fn reset(&mut self) {
        let memory = &mut as_c(&mut self.m).memory;
        memory.cnt = self.template.len();
        memory.max = self.max;
        memory.total_size = self.template.len() as u64 * LEN;
        // SAFETY: the array has 2^18 entries.
        unsafe {
            memory
                .regions
                .copy_from_nonoverlapping(self.template.as_ptr(), self.template.len())
        };
    }
}
