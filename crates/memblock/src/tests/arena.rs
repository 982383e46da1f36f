//! The memory that tests manage: a buffer that claims a physical address.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::rc::Rc;

use crate::{Memblock, PAGE_SIZE, PhysMap, Region, Storage};

struct Buffer {
    memory: NonNull<u8>,
    layout: Layout,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout in `Arena::new`.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}

/// Creates `size` bytes at physical address `base`.
#[derive(Clone)]
pub(crate) struct Arena {
    buffer: Rc<Buffer>,
    pub(crate) base: u64,
    pub(crate) size: u64,
}

impl Arena {
    pub(crate) fn new(base: u64, size: u64) -> Self {
        let layout = Layout::from_size_align(size as usize, PAGE_SIZE as usize).unwrap();
        // SAFETY: the layout is not empty.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap();
        Arena {
            buffer: Rc::new(Buffer { memory, layout }),
            base,
            size,
        }
    }

    pub(crate) fn end(&self) -> u64 {
        self.base + self.size
    }
}

// SAFETY: only the memblock under test uses the buffer. Tests look at it between calls.
unsafe impl PhysMap for Arena {
    fn virt(&self, phys: u64, size: u64) -> Option<NonNull<u8>> {
        let offset = phys.checked_sub(self.base)?;
        (offset.checked_add(size)? <= self.size).then(|| {
            // SAFETY: within the buffer.
            unsafe { self.buffer.memory.add(offset as usize) }
        })
    }
}

/// Makes the arrays look full, so that any call that needs capacity must grow.
pub(crate) fn squeeze<M: PhysMap>(m: &mut Memblock<'_, M>) {
    for kind in crate::Kind::ALL {
        let array = m.array(kind);
        let n = array.len();
        array.set_capacity(n.max(1));
    }
}

/// Returns the comparable state.
pub(crate) fn snapshot<M: PhysMap>(m: &Memblock<'_, M>) -> [(Vec<Region>, u64); 3] {
    crate::Kind::ALL.map(|kind| (m.regions(kind).to_vec(), m.regions(kind).total_size()))
}

pub(crate) fn check<M: PhysMap>(m: &Memblock<'_, M>) {
    for kind in crate::Kind::ALL {
        assert_eq!(
            m.regions(kind).check(),
            Ok(()),
            "{kind}: {:?}",
            m.regions(kind)
        );
    }
}

pub(crate) fn storage<const N: usize>() -> Storage<N> {
    Storage::new()
}

pub(crate) fn region(base: u64, size: u64) -> Region {
    Region {
        base,
        size,
        ..Region::EMPTY
    }
}
