//! The number of slots of a node: derived from the widths of key and pointer, or reduced for tests.

/// The bytes of a node, and its alignment.
pub(crate) const NODE_BYTES: usize = 256;
/// The most slots of any node: five bits hold the last one's number.
pub(crate) const MOST_SLOTS: usize = 32;

/// The number of slots that the nodes of a tree may use.
///
/// Production code uses [`Native`]. A smaller [`Fanout`] makes splits, merges and stores across
/// several nodes happen among a handful of entries, so that all short histories can be tried.
///
/// The trait is sealed.
pub trait Shape: sealed::Sealed + Copy + Send + Sync + 'static {
    /// The most slots that a node uses (if they fit 256 bytes). At least 4.
    const LIMIT: usize;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Native {}
    impl<const N: usize> Sealed for super::Fanout<N> {}
}

/// As many slots as fit the 256 bytes of a node. With 64-bit keys and pointers, these are 16 in
/// leaf and range nodes and 10 in gap-tracking nodes. With 32-bit keys and pointers, they are 32
/// and 21.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native;

impl Shape for Native {
    const LIMIT: usize = usize::MAX;
}

/// At most `N` slots (4 or more), for tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fanout<const N: usize>;

impl<const N: usize> Shape for Fanout<N> {
    const LIMIT: usize = {
        assert!(N >= 4, "a node needs 4 slots");
        N
    };
}
