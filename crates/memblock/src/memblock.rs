//! The state of a memblock: three arrays of regions, and the settings.

use core::ffi::CStr;
use core::fmt;
use core::marker::PhantomData;

use crate::Notice;
use crate::array::RegionType;
use crate::map::{PhysMap, Unmapped};
use crate::region::Region;

/// The number of regions of each kind that the first storage holds in Linux
/// (`INIT_MEMBLOCK_REGIONS`).
pub const INIT_REGIONS: usize = 128;

/// As an upper limit: any address. Linux's `MEMBLOCK_ALLOC_ANYWHERE`.
pub const ALLOC_ANYWHERE: u64 = u64::MAX;

/// As an upper limit: the current limit. Linux's `MEMBLOCK_ALLOC_ACCESSIBLE`.
pub const ALLOC_ACCESSIBLE: u64 = 0;

/// The kind of an array of regions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Memory that the system may use.
    Memory,
    /// Ranges that are in use, whether they are memory or not.
    Reserved,
    /// All physically present memory, whatever limits its use has.
    Physmem,
}

impl Kind {
    pub(crate) const ALL: [Kind; 3] = [Kind::Memory, Kind::Reserved, Kind::Physmem];

    const fn label(self) -> &'static CStr {
        match self {
            Kind::Memory => c"memory",
            Kind::Reserved => c"reserved",
            Kind::Physmem => c"physmem",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label().to_str().unwrap_or_default())
    }
}

/// The first storage of a [`Memblock`]: `N` regions of each kind.
pub struct Storage<const N: usize = INIT_REGIONS> {
    arrays: [[Region; N]; 3],
}

impl<const N: usize> Storage<N> {
    /// Creates unused storage.
    #[must_use]
    pub const fn new() -> Self {
        Storage {
            arrays: [[Region::EMPTY; N]; 3],
        }
    }
}

impl<const N: usize> Default for Storage<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// An array in memory that memblock allocated for it.
#[derive(Clone, Copy)]
pub(crate) struct GrownArray {
    pub(crate) regions: *mut Region,
    pub(crate) base: u64,
    pub(crate) size: u64,
}

impl GrownArray {
    pub(crate) const NONE: GrownArray = GrownArray {
        regions: core::ptr::null_mut(),
        base: 0,
        size: 0,
    };
}

/// The physical memory of a machine before there is an allocator: which memory exists, and which of
/// it is in use.
///
/// This type begins with Linux's `struct memblock`, field for field. The C library exports one
/// under that name.
///
/// ```
/// use samara_memblock::{Memblock, Storage};
///
/// let mut storage: Storage = Storage::new();
/// let mut boot = Memblock::new(&mut storage);
/// boot.add(0, 0x10_0000)?;
/// boot.reserve(0x1000, 0x2000)?;
/// let table = boot.phys_alloc(0x1000, 0x1000)?;
/// assert_eq!(table, 0xf_f000); // highest first
/// assert!(boot.is_reserved(table));
/// # Ok::<(), samara_memblock::Error>(())
/// ```
#[repr(C)]
pub struct Memblock<'s, M: PhysMap = Unmapped> {
    bottom_up: bool,
    current_limit: u64,
    memory: RegionType,
    reserved: RegionType,
    // C code does not see the fields from here on.
    physmem: RegionType,
    first: [(*mut Region, usize); 3],
    pub(crate) grown: [GrownArray; 3],
    pub(crate) can_resize: bool,
    pub(crate) movable_node: bool,
    pub(crate) has_mirror: bool,
    pub(crate) kho_scratch_only: bool,
    pub(crate) record_nodes: bool,
    pub(crate) record_kern: bool,
    notify: Option<fn(&Notice)>,
    pub(crate) map: M,
    storage: PhantomData<&'s mut [Region]>,
}

// The offsets that C code shares. Only pointers make them depend on the machine.
#[cfg(target_pointer_width = "64")]
const _: () = {
    use core::mem::offset_of;
    assert!(offset_of!(Memblock<'_>, bottom_up) == 0);
    assert!(offset_of!(Memblock<'_>, current_limit) == 8);
    assert!(offset_of!(Memblock<'_>, memory) == 16);
    assert!(offset_of!(Memblock<'_>, reserved) == 56);
    assert!(offset_of!(Memblock<'_>, physmem) == 96);
};

// SAFETY: the memblock owns the arrays, so that they may move to another thread with it.
unsafe impl<M: PhysMap + Send> Send for Memblock<'_, M> {}
// SAFETY: nothing changes through a shared reference.
unsafe impl<M: PhysMap + Sync> Sync for Memblock<'_, M> {}

impl<'s> Memblock<'s> {
    /// Creates an empty memblock that never accesses the memory it manages.
    ///
    /// Its arrays stay in `storage`. A call that needs more regions fails with
    /// [`Error::ArrayFull`](crate::Error::ArrayFull).
    #[must_use]
    pub const fn new<const N: usize>(storage: &'s mut Storage<N>) -> Self {
        Memblock::with_map(storage, Unmapped)
    }
}

impl<'s, M: PhysMap> Memblock<'s, M> {
    /// Creates an empty memblock whose memory is accessible through `map`.
    ///
    /// Its arrays start in `storage`. They may grow out of it once
    /// [`allow_resize`](Self::allow_resize) has been called.
    #[must_use]
    pub const fn with_map<const N: usize>(storage: &'s mut Storage<N>, map: M) -> Self {
        let [memory, reserved, physmem] = &mut storage.arrays;
        let first = [
            (memory.as_mut_ptr(), N),
            (reserved.as_mut_ptr(), N),
            (physmem.as_mut_ptr(), N),
        ];
        Self::over(first, map)
    }

    /// As [`with_map`](Self::with_map), over storage given by address: for a static memblock with
    /// static storage.
    ///
    /// # Safety
    ///
    /// `storage` is valid for reads and writes as long as the memblock is used, and nothing else
    /// uses it. C code that shares the memblock may use it between calls, if it keeps the
    /// invariants of the arrays.
    #[must_use]
    pub const unsafe fn from_raw_storage<const N: usize>(storage: *mut Storage<N>, map: M) -> Self {
        let first = storage.cast::<Region>();
        // SAFETY: `storage` is `3 * N` contiguous regions.
        let first = unsafe { [(first, N), (first.add(N), N), (first.add(2 * N), N)] };
        Self::over(first, map)
    }

    const fn over(first: [(*mut Region, usize); 3], map: M) -> Self {
        Memblock {
            bottom_up: false,
            current_limit: ALLOC_ANYWHERE,
            memory: RegionType::over(first[0].0, first[0].1, Kind::Memory.label()),
            reserved: RegionType::over(first[1].0, first[1].1, Kind::Reserved.label()),
            physmem: RegionType::over(first[2].0, first[2].1, Kind::Physmem.label()),
            first,
            grown: [GrownArray::NONE; 3],
            can_resize: false,
            movable_node: false,
            has_mirror: false,
            kho_scratch_only: false,
            record_nodes: false,
            record_kern: false,
            notify: None,
            map,
            storage: PhantomData,
        }
    }

    /// Returns the memory.
    #[must_use]
    pub fn memory(&self) -> &RegionType {
        &self.memory
    }

    /// Returns the reserved regions, which need not be memory.
    #[must_use]
    pub fn reserved(&self) -> &RegionType {
        &self.reserved
    }

    /// Returns the physically present memory, as added by [`physmem_add`](Self::physmem_add).
    #[must_use]
    pub fn physmem(&self) -> &RegionType {
        &self.physmem
    }

    /// Returns the regions of a kind.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.reserve(0x1000, 0x1000)?;
    /// assert_eq!(boot.regions(Kind::Reserved).len(), 1);
    /// assert_eq!(boot.regions(Kind::Memory).name(), "memory");
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn regions(&self, kind: Kind) -> &RegionType {
        match kind {
            Kind::Memory => &self.memory,
            Kind::Reserved => &self.reserved,
            Kind::Physmem => &self.physmem,
        }
    }

    pub(crate) fn array(&mut self, kind: Kind) -> &mut RegionType {
        match kind {
            Kind::Memory => &mut self.memory,
            Kind::Reserved => &mut self.reserved,
            Kind::Physmem => &mut self.physmem,
        }
    }

    /// Returns `true` if allocations go from low addresses to high ones.
    #[must_use]
    pub fn bottom_up(&self) -> bool {
        self.bottom_up
    }

    /// Sets the direction of allocations: from high addresses downwards (the default) or from low
    /// ones upwards.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x1000, 0x4000)?;
    /// boot.set_bottom_up(true);
    /// assert_eq!(boot.phys_alloc(0x100, 0x100), Ok(0x1000));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn set_bottom_up(&mut self, enable: bool) {
        self.bottom_up = enable;
    }

    /// Returns the address that [`ALLOC_ACCESSIBLE`] stands for.
    #[must_use]
    pub fn current_limit(&self) -> u64 {
        self.current_limit
    }

    /// Sets the first address that allocations with [`ALLOC_ACCESSIBLE`] may not use. The default
    /// is [`ALLOC_ANYWHERE`].
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x1000, 0x4000)?;
    /// boot.set_current_limit(0x3000); // what is mapped so far, say
    /// assert_eq!(boot.phys_alloc(0x100, 0x100), Ok(0x2f00));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn set_current_limit(&mut self, limit: u64) {
        self.current_limit = limit;
    }

    /// Returns `true` if allocations avoid memory marked [`Flags::HOTPLUG`](crate::Flags::HOTPLUG)
    /// ("movable_node"). The default is `false`.
    #[must_use]
    pub fn movable_node(&self) -> bool {
        self.movable_node
    }

    /// Sets [`movable_node`](Self::movable_node).
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x1000, 0x1000)?;
    /// boot.add_node(0x2000, 0x1000, NodeId(1), Flags::HOTPLUG)?;
    /// boot.set_movable_node(true);
    /// assert_eq!(boot.phys_alloc(0x1000, 0x1000), Ok(0x1000));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn set_movable_node(&mut self, enable: bool) {
        self.movable_node = enable;
    }

    /// Restricts allocations to memory marked [`Flags::KHO_SCRATCH`](crate::Flags::KHO_SCRATCH).
    /// The default is `false`.
    ///
    /// A kernel that receives memory from a previous kernel (kexec handover) does not know at first
    /// which memory is in use. Until it does, it allocates from memory that is known to be unused.
    /// Arrays also grow only into such memory.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x1000, 0x8000)?;
    /// boot.mark_kho_scratch(0x2000, 0x1000)?;
    /// boot.set_kho_scratch_only(true);
    /// assert_eq!(boot.phys_alloc(0x1000, 0x1000), Ok(0x2000));
    /// assert_eq!(boot.phys_alloc(0x1000, 0x1000), Err(Error::NoMemory));
    /// boot.set_kho_scratch_only(false);
    /// assert_eq!(boot.phys_alloc(0x1000, 0x1000), Ok(0x8000));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn set_kho_scratch_only(&mut self, enable: bool) {
        self.kho_scratch_only = enable;
    }

    /// Makes allocations record the requested node in the reserved region (Linux since 6.16). The
    /// default is `false`, since regions with different nodes do not merge.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add_node(0x1000, 0x4000, NodeId(1), Flags::NONE)?;
    /// boot.set_record_nodes(true);
    /// boot.phys_alloc_try_nid(0x1000, 0x1000, NodeId(1))?;
    /// assert_eq!(boot.reserved()[0].nid, NodeId(1));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn set_record_nodes(&mut self, enable: bool) {
        self.record_nodes = enable;
    }

    /// Makes allocations mark what they reserve as the kernel's own, with
    /// [`Flags::RSRV_KERN`](crate::Flags::RSRV_KERN) (Linux since 6.16). The default is `false`,
    /// since regions with different flags do not merge.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x1000, 0x4000)?;
    /// boot.set_record_kern(true);
    /// boot.phys_alloc(0x1000, 0x1000)?;
    /// assert_eq!(boot.reserved_kern_size(u64::MAX, NodeId::NONE), 0x1000);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn set_record_kern(&mut self, enable: bool) {
        self.record_kern = enable;
    }

    /// Returns `true` if any memory has been marked as mirrored, so that allocations prefer such
    /// memory.
    #[must_use]
    pub fn has_mirror(&self) -> bool {
        self.has_mirror
    }

    /// Permits full arrays to move to memory that they allocate. Call it when memory is known and
    /// everything that must not be overwritten is reserved.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let buffer = Box::leak(vec![0u64; 0x800].into_boxed_slice());
    /// # let base = buffer.as_mut_ptr().expose_provenance() as u64;
    /// # let mut storage: Storage = Storage::new();
    /// # // SAFETY: only the buffer is added as memory, and nothing else uses it.
    /// # let mut boot = Memblock::with_map(&mut storage, unsafe { Identity::new() });
    /// # boot.add(base, 0x4000)?;
    /// # let mut storage: Storage<4> = Storage::new();
    /// # // SAFETY: only the buffer is added as memory, and nothing else uses it.
    /// # let mut boot = Memblock::with_map(&mut storage, unsafe { Identity::new() });
    /// # boot.add(base, 0x4000)?;
    /// boot.allow_resize();
    /// for i in 0..100 {
    ///     boot.reserve(0x1000 + i * 0x100, 0x80)?;
    /// }
    /// assert!(boot.reserved().capacity() > 100);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn allow_resize(&mut self) {
        self.can_resize = true;
    }

    /// Sets the function that receives notices, which deserve a line in the log.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.set_notify(Some(|notice| eprintln!("{notice}")));
    /// boot.add(0x1000, 0x1000)?;
    /// boot.phys_alloc(64, 0)?; // "alignment 0 requested, using the cache line size"
    /// # Ok::<(), Error>(())
    /// ```
    pub const fn set_notify(&mut self, notify: Option<fn(&Notice)>) {
        self.notify = notify;
    }

    pub(crate) fn notice(&self, notice: Notice) {
        if let Some(notify) = self.notify {
            notify(&notice);
        }
    }

    pub(crate) fn first_storage(&self, kind: Kind) -> (*mut Region, usize) {
        self.first[kind as usize]
    }

    /// Removes all regions and returns to the first storage. Direction, limit and other settings
    /// stay.
    ///
    /// Memory that the arrays had allocated is no longer recorded, as is everything else that was
    /// reserved.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add(0x1000, 0x1000)?;
    /// boot.clear();
    /// assert_eq!(boot.phys_mem_size(), 0);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn clear(&mut self) {
        for kind in Kind::ALL {
            let (regions, max) = self.first_storage(kind);
            self.array(kind).clear();
            if self.array(kind).as_ptr() != regions {
                // SAFETY: the first storage belongs to the memblock during its lifetime, and the
                // array has no regions to move.
                unsafe { self.array(kind).relocate(regions, max) };
            }
            self.grown[kind as usize] = GrownArray::NONE;
        }
    }
}
