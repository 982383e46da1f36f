//! Grace periods of the environment: one for each chain of nodes. Its head lies in [idle
//! words](maple_tree::raw::idle_words) of one of the nodes.
//!
//! Chains without such a node wait in one of the [`BATCHES`], each of which has a head of the
//! library. If all batches are in use, the chain joins the pending ones, which the next free batch
//! takes.

use core::cell::UnsafeCell;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use maple_tree::raw::{chain, chained, node_with};

use crate::maple_tree::abi::RcuHead;
use crate::maple_tree::hooks;
use crate::maple_tree::rcu::free_chain;
use crate::maple_tree::rcu::pending::PendingChains;

/// Frees the chain after a grace period.
///
/// # Safety
///
/// [`RetiredNodes`](super::RetiredNodes) built the chain, and found the head in one of its nodes.
pub(super) unsafe fn retire(head: NonNull<RcuHead>, newest: NonNull<u8>, oldest: NonNull<u8>) {
    // A ring, so that any node may have the head.
    //
    // SAFETY: the chain is the caller's.
    unsafe { chain(oldest, Some(newest)) };
    // If the hook has been removed just now, nothing tells when the readers are gone: the nodes
    // leak.
    hooks::call_rcu(head.as_ptr(), done);
}

/// The callback after a grace period.
///
/// # Safety
///
/// `head` is one that [`retire`] passed to `call_rcu`, once.
unsafe extern "C" fn done(head: *mut RcuHead) {
    let Some(head) = NonNull::new(head) else {
        return;
    };
    // SAFETY: the head is in a node of the ring, and no reader is left in any of them.
    unsafe {
        let node = node_with(head.cast());
        let first = chained(node);
        chain(node, None);
        free_chain(first);
    }
}

static PENDING: PendingChains = PendingChains::new();

/// Chains that wait for one grace period.
#[repr(C)]
struct Batch {
    /// The first member: the callback finds the batch by its head.
    _head: UnsafeCell<RcuHead>,
    used: AtomicBool,
    nodes: AtomicPtr<u8>,
}

// SAFETY: only the environment accesses the head, between `call_rcu` and its callback.
unsafe impl Sync for Batch {}

impl Batch {
    /// Returns the head, by a pointer from which the batch can be reached.
    fn head(&'static self) -> *mut RcuHead {
        ptr::from_ref(self).cast_mut().cast()
    }

    fn release(&self) {
        self.used.store(false, Ordering::SeqCst);
    }
}

/// The number of grace periods that can be pending at once.
const BATCHES: usize = 1024;

static BATCH: [Batch; BATCHES] = [const {
    Batch {
        _head: UnsafeCell::new(RcuHead {
            opaque: [ptr::null_mut(); 2],
        }),
        used: AtomicBool::new(false),
        nodes: AtomicPtr::new(ptr::null_mut()),
    }
}; BATCHES];

/// The index at which the search for a free batch begins.
static HINT: AtomicUsize = AtomicUsize::new(0);

fn claim() -> Option<&'static Batch> {
    let from = HINT.load(Ordering::Relaxed);
    for i in 0..BATCHES {
        let at = (from + i) % BATCHES;
        let batch = &BATCH[at];
        if !batch.used.load(Ordering::Relaxed)
            && batch
                .used
                .compare_exchange(false, true, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
        {
            HINT.store((at + 1) % BATCHES, Ordering::Relaxed);
            return Some(batch);
        }
    }
    None
}

/// Frees the chain, none of whose nodes has idle words, after a grace period.
pub(super) fn retire_without_head(newest: NonNull<u8>, oldest: NonNull<u8>) {
    PENDING.push(newest, oldest);
    start();
}

/// Starts a grace period for the pending chains, if a batch is free. If none is, [`batch_done`]
/// starts it. It frees its batch before it checks for pending chains, and this thread looked for a
/// batch after it had added its chain.
fn start() {
    while !PENDING.is_empty() {
        let Some(batch) = claim() else { return };
        let Some(nodes) = PENDING.take() else {
            batch.release();
            continue;
        };
        batch.nodes.store(nodes.as_ptr(), Ordering::Release);
        // If the hook has been removed just now, nothing tells when the readers are gone: the nodes
        // leak.
        hooks::call_rcu(batch.head(), batch_done);
    }
}

/// The callback after a batch's grace period.
///
/// # Safety
///
/// `head` is that of a batch that was passed to `call_rcu`, once.
unsafe extern "C" fn batch_done(head: *mut RcuHead) {
    // SAFETY: the head is the first member of a batch, which is static.
    let batch: &'static Batch = unsafe { &*head.cast::<Batch>() };
    let nodes = NonNull::new(batch.nodes.swap(ptr::null_mut(), Ordering::Acquire));
    // SAFETY: `RetiredNodes` and `PendingChains` built the chain, and no reader is left in it.
    unsafe { free_chain(nodes) };
    batch.release();
    start();
}
