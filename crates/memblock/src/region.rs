//! A region, with its flags and its NUMA node.

use core::fmt;

bitflags::bitflags! {
    /// The properties of a region. The bits are those of Linux's `enum memblock_flags`.
    #[repr(transparent)]
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Flags: u32 {
        /// Memory that may be unplugged later. Allocations avoid it when movable nodes are on.
        const HOTPLUG = 1;
        /// Memory that the hardware mirrors. Allocations prefer it once any memory is marked.
        const MIRROR = 2;
        /// Memory that must not get a kernel mapping. It is never allocated.
        const NOMAP = 4;
        /// Memory that a driver added and manages. It is never allocated.
        const DRIVER_MANAGED = 8;
        /// A reserved region whose page structures need no initialisation.
        const RSRV_NOINIT = 16;
        /// A region that is reserved for the kernel itself, by
        /// [`Memblock::reserve_kern`](crate::Memblock::reserve_kern).
        const RSRV_KERN = 32;
        /// Memory that is known to be unused before all reservations are known, as the previous
        /// kernel handed it over: see
        /// [`Memblock::set_kho_scratch_only`](crate::Memblock::set_kho_scratch_only).
        const KHO_SCRATCH = 64;
    }
}

impl Flags {
    /// No flags.
    pub const NONE: Flags = Flags::empty();
    /// Marks a region that a call has inserted but not yet committed, so that it can be removed if
    /// the array cannot grow. No region has it when a public call returns.
    pub(crate) const PENDING: Flags = Flags::from_bits_retain(1 << 31);
}

/// A NUMA node, or none.
///
/// ```
/// use samara_memblock::NodeId;
/// assert!(!NodeId::NONE.is_valid());
/// assert!(NodeId(3).is_valid());
/// assert!(!NodeId(NodeId::MAX).is_valid());
/// ```
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub i32);

impl NodeId {
    /// No node in particular: Linux's `NUMA_NO_NODE`.
    pub const NONE: NodeId = NodeId(-1);
    /// The number of node identifiers (Linux's `MAX_NUMNODES`). Valid ones are below it. As a node
    /// it means none, as Linux's older callers use it.
    pub const MAX: i32 = 1024;

    /// Returns `true` if this names a node.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        0 <= self.0 && self.0 < Self::MAX
    }

    /// Replaces every representation of "no node" by one, so that regions without a node merge.
    #[must_use]
    pub const fn canonical(self) -> NodeId {
        if self.is_valid() { self } else { NodeId::NONE }
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_valid() {
            write!(f, "{}", self.0)
        } else {
            f.write_str("none")
        }
    }
}

impl From<i32> for NodeId {
    fn from(nid: i32) -> Self {
        NodeId(nid)
    }
}

/// A range of physical memory, `base .. base + size` in bytes, with its flags and node: Linux's `struct memblock_region`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Region {
    /// First byte.
    pub base: u64,
    /// Length in bytes.
    pub size: u64,
    /// Its properties.
    pub flags: Flags,
    /// Its NUMA node.
    pub nid: NodeId,
}

impl Region {
    /// An unused entry of an array.
    pub const EMPTY: Region = Region {
        base: 0,
        size: 0,
        flags: Flags::NONE,
        nid: NodeId::NONE,
    };

    /// Returns the first byte after the region.
    #[inline]
    #[must_use]
    pub const fn end(&self) -> u64 {
        // Regions never pass the end of the address space. One that C code made may; its end wraps
        // as in C.
        self.base.wrapping_add(self.size)
    }

    /// Returns `true` if it is memory that may be unplugged.
    ///
    /// ```
    /// use samara_memblock::{Flags, Region};
    /// let r = Region { flags: Flags::HOTPLUG | Flags::MIRROR, ..Region::EMPTY };
    /// assert!(r.is_hotpluggable() && r.is_mirror());
    /// assert!(!r.is_nomap() && !r.is_driver_managed() && !r.is_kho_scratch());
    /// ```
    #[must_use]
    pub const fn is_hotpluggable(&self) -> bool {
        self.flags.contains(Flags::HOTPLUG)
    }

    /// Returns `true` if it is memory that the hardware mirrors.
    #[must_use]
    pub const fn is_mirror(&self) -> bool {
        self.flags.contains(Flags::MIRROR)
    }

    /// Returns `true` if it is memory that must not be mapped.
    #[must_use]
    pub const fn is_nomap(&self) -> bool {
        self.flags.contains(Flags::NOMAP)
    }

    /// Returns `true` if it is memory that a driver added and manages.
    #[must_use]
    pub const fn is_driver_managed(&self) -> bool {
        self.flags.contains(Flags::DRIVER_MANAGED)
    }

    /// Returns `true` if it is memory that is known to be unused before all reservations are known.
    #[must_use]
    pub const fn is_kho_scratch(&self) -> bool {
        self.flags.contains(Flags::KHO_SCRATCH)
    }

    /// Returns `true` if it is reserved and its page structures need no initialisation.
    #[must_use]
    pub const fn is_reserved_noinit(&self) -> bool {
        self.flags.contains(Flags::RSRV_NOINIT)
    }

    /// Returns flags and node, which must agree for two neighbours to merge.
    #[inline]
    pub(crate) fn attributes(&self) -> (Flags, NodeId) {
        (self.flags, self.nid)
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{:#x}..{:#x}", self.base, self.end())?;
        if self.nid.is_valid() {
            write!(f, " node {}", self.nid.0)?;
        }
        if !self.flags.is_empty() {
            write!(f, " flags {:#x}", self.flags.bits())?;
        }
        f.write_str("]")
    }
}

/// Returns `base + size`, capped at the largest address as in Linux. So the last byte of the
/// address space is never part of a region.
#[inline]
pub(crate) fn capped_end(base: u64, size: u64) -> u64 {
    base + size.min(u64::MAX - base)
}

/// Returns `true` if `base1 .. base1 + size1` and `base2 .. base2 + size2` share a byte. As in
/// Linux, an empty range strictly inside the other counts as sharing one, and sums wrap.
///
/// ```
/// use samara_memblock::addrs_overlap;
/// assert!(addrs_overlap(0x1000, 0x1000, 0x1fff, 1));
/// assert!(!addrs_overlap(0x1000, 0x1000, 0x2000, 1));
/// ```
#[must_use]
pub const fn addrs_overlap(base1: u64, size1: u64, base2: u64, size2: u64) -> bool {
    base1 < base2.wrapping_add(size2) && base2 < base1.wrapping_add(size1)
}
