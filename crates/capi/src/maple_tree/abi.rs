//! The structures and constants of the header.

use core::ffi::{c_int, c_void};

use maple_tree::raw::WordTree;

use crate::maple_tree::lock::Lock;

/// The bits of `ma_flags`.
pub(crate) mod flags {
    pub(crate) const ALLOC_RANGE: u32 = 0x01;
    pub(crate) const USE_RCU: u32 = 0x02;
    pub(crate) const HEIGHT_MASK: u32 = 0x7c;
    pub(crate) const LOCK_MASK: u32 = 0x300;
    pub(crate) const LOCK_EXTERN: u32 = 0x300;
    pub(crate) const ALLOC_WRAPPED: u32 = 0x800;
}

/// Allocation flags.
pub(crate) mod gfp {
    /// The caller may block.
    pub(crate) const DIRECT_RECLAIM: u32 = 0x400;
    pub(crate) const KERNEL: u32 = 0xcc0;
    pub(crate) const NOWAIT: u32 = 0x2800;
}

/// Linux's error numbers. C functions return them negated.
pub(crate) mod errno {
    use core::ffi::c_int;

    pub(crate) const ENOMEM: c_int = 12;
    pub(crate) const EBUSY: c_int = 16;
    pub(crate) const EEXIST: c_int = 17;
    pub(crate) const EINVAL: c_int = 22;
}

/// `struct maple_tree`.
#[repr(C)]
pub struct MapleTree {
    /// The lock of trees without an external one. It is all zero while it is free.
    pub ma_lock: Lock,
    /// `ma_flags` and `ma_root`.
    pub words: WordTree,
}

impl MapleTree {
    /// Creates an empty tree.
    pub const fn new(flags: u32) -> Self {
        Self {
            ma_lock: Lock::new(),
            words: WordTree::new(flags),
        }
    }

    pub(crate) fn in_rcu(&self) -> bool {
        self.words.flags() & flags::USE_RCU != 0
    }

    pub(crate) fn tracks_gaps(&self) -> bool {
        self.words.flags() & flags::ALLOC_RANGE != 0
    }

    pub(crate) fn lock_is_external(&self) -> bool {
        self.words.flags() & flags::LOCK_MASK == flags::LOCK_EXTERN
    }

    /// Takes the tree's own lock, if it has one.
    pub(crate) fn lock(&self) {
        if !self.lock_is_external() {
            self.ma_lock.lock();
        }
    }

    /// Releases the tree's own lock, if it has one.
    pub(crate) fn unlock(&self) {
        if !self.lock_is_external() {
            self.ma_lock.unlock();
        }
    }
}

/// `struct maple_rcu_head`: the space in which the environment queues a callback.
#[repr(C)]
pub struct RcuHead {
    /// The environment's words.
    pub opaque: [*mut c_void; 2],
}

/// `enum maple_status`: the status of a state. C code may write any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Status(pub u32);

#[expect(missing_docs, reason = "described by the table in `cursor`")]
impl Status {
    pub const ACTIVE: Self = Self(0);
    pub const START: Self = Self(1);
    pub const ROOT: Self = Self(2);
    pub const NONE: Self = Self(3);
    pub const PAUSE: Self = Self(4);
    pub const OVERFLOW: Self = Self(5);
    pub const UNDERFLOW: Self = Self(6);
    pub const ERROR: Self = Self(7);
}

/// The bits of `mas_flags`.
pub(crate) mod mas_flags {
    /// `alloc` was filled for a run of ascending stores.
    pub(crate) const BULK: u8 = 1;
    /// `alloc` was filled for the next store.
    pub(crate) const PREALLOC: u8 = 4;
}

/// `struct ma_state`: a position in a tree, and the range of an operation. Plain data.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MaState {
    /// The tree.
    pub tree: *const MapleTree,
    /// The first index that was requested or found.
    pub index: usize,
    /// The last index that was requested or found.
    pub last: usize,
    /// The leaf that contains the state, or NULL. `MA_ERROR(…)` if `status` is an error.
    pub node: *mut (),
    /// The first index of the leaf.
    pub min: usize,
    /// The last index of the leaf.
    pub max: usize,
    /// Preallocated nodes.
    pub alloc: *mut (),
    /// The status.
    pub status: Status,
    /// The slot of the leaf in its parent at the time when the state arrived there from another
    /// leaf. A hint, which is verified before it is used.
    pub depth: u8,
    /// The slot in the leaf. If the status is an error, the number of missing nodes.
    pub offset: u8,
    /// The purpose for which `alloc` was filled.
    pub mas_flags: u8,
    /// The last used slot of the leaf.
    pub end: u8,
    /// The number of moves of leaves that the tree had seen when the leaf was looked up.
    pub store_type: u32,
}

/// Returns `MA_ERROR(-errno)`.
pub(crate) fn error_word(errno: c_int) -> *mut () {
    let negative = (errno as isize).wrapping_neg();
    core::ptr::without_provenance_mut(((negative << 2) | 2) as usize)
}

/// Returns the negative number in an `MA_ERROR(…)`.
pub(crate) fn error_of(word: *mut ()) -> c_int {
    ((word.addr() as isize) >> 2) as c_int
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(size_of::<Lock>() == 40);
    assert!(size_of::<MapleTree>() == 56);
    assert!(offset_of!(MapleTree, words) == 40);
    assert!(size_of::<MaState>() == 72);
    assert!(offset_of!(MaState, alloc) == 48);
    assert!(offset_of!(MaState, status) == 56);
    assert!(offset_of!(MaState, depth) == 60);
    assert!(offset_of!(MaState, store_type) == 64);
};

#[cfg(target_pointer_width = "32")]
const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(size_of::<Lock>() == 40);
    assert!(size_of::<MapleTree>() == 48);
    assert!(offset_of!(MapleTree, words) == 40);
    assert!(size_of::<MaState>() == 40);
    assert!(offset_of!(MaState, alloc) == 24);
    assert!(offset_of!(MaState, status) == 28);
    assert!(offset_of!(MaState, depth) == 32);
    assert!(offset_of!(MaState, store_type) == 36);
};
