//! One region and what it carries: flags and a NUMA node.

use core::fmt;

bitflags::bitflags! {
    /// What is special about a region. The bits are those of Linux's `enum memblock_flags`.
    #[repr(transparent)]
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Flags: u32 {
        /// Memory that may be unplugged later: allocations avoid it when movable nodes are on.
        const HOTPLUG = 1;
        /// Memory that the hardware keeps twice: allocations prefer it once any is marked.
        const MIRROR = 2;
        /// Memory that must not get a kernel mapping; never allocated from.
        const NOMAP = 4;
        /// Memory that a driver brought and manages; never allocated from.
        const DRIVER_MANAGED = 8;
        /// A reserved region whose page structures need no initialisation.
        const RSRV_NOINIT = 16;
        /// A reserved region that is the kernel's own, as told to [`Memblock::reserve_kern`](crate::Memblock::reserve_kern).
        const RSRV_KERN = 32;
        /// Memory that is known to be unused before all reservations are known, as handed over by the kernel before this one:
        /// see [`Memblock::set_kho_scratch_only`](crate::Memblock::set_kho_scratch_only).
        const KHO_SCRATCH = 64;
    }
}

impl Flags {
    /// No flags.
    pub const NONE: Flags = Flags::empty();
    /// Set on what a call has inserted but not yet made final, so that it can be taken out again should the array be
    /// unable to grow. No region has it when a public call returns.
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
    /// The number of node identifiers (Linux's `MAX_NUMNODES`): valid ones are below it. Passed as a node it means none,
    /// as Linux's older callers use it.
    pub const MAX: i32 = 1024;

    /// Whether this names a node.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        0 <= self.0 && self.0 < Self::MAX
    }

    /// Every way of saying "no node", made one, so that regions without a node merge.
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
    /// What is special about it.
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

    /// The first byte after the region.
    #[inline]
    #[must_use]
    pub const fn end(&self) -> u64 {
        // Regions never pass the end of the address space; one that C code made up may, and then wraps as there.
        self.base.wrapping_add(self.size)
    }

    /// Whether it is memory that may be unplugged.
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

    /// Whether it is memory that the hardware keeps twice.
    #[must_use]
    pub const fn is_mirror(&self) -> bool {
        self.flags.contains(Flags::MIRROR)
    }

    /// Whether it is memory that must not be mapped.
    #[must_use]
    pub const fn is_nomap(&self) -> bool {
        self.flags.contains(Flags::NOMAP)
    }

    /// Whether it is memory that a driver brought and manages.
    #[must_use]
    pub const fn is_driver_managed(&self) -> bool {
        self.flags.contains(Flags::DRIVER_MANAGED)
    }

    /// Whether it is memory that is known to be unused before all reservations are known.
    #[must_use]
    pub const fn is_kho_scratch(&self) -> bool {
        self.flags.contains(Flags::KHO_SCRATCH)
    }

    /// Whether it is reserved and its page structures need no initialisation.
    #[must_use]
    pub const fn is_reserved_noinit(&self) -> bool {
        self.flags.contains(Flags::RSRV_NOINIT)
    }

    /// Flags and node: what has to agree for two neighbours to merge.
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

/// `size` cut so that `base + size` is at most the largest address, as Linux cuts it: the last byte of the address space
/// is never part of a region.
#[inline]
pub(crate) fn capped_end(base: u64, size: u64) -> u64 {
    base + size.min(u64::MAX - base)
}

/// Whether `base1 .. base1 + size1` and `base2 .. base2 + size2` share a byte. As in Linux, an empty range strictly inside
/// the other counts as sharing one, and sums wrap.
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
