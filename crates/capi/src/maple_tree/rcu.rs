//! Read-side sections, and the fate of replaced nodes.
//!
//! A write hands over its dead nodes as one chain (the links are in the nodes, where no reader looks). A chain waits for a grace
//! period in one of the [`BATCHES`], each with the head that `call_rcu` wants; there are many, so that writes do not wait for
//! each other's, and if all are in use the chain joins those that the next free batch takes. Nothing is allocated.
//!
//! Without hooks the grace periods are those of `crossbeam-epoch`.

use core::cell::UnsafeCell;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use maple_tree::alloc::NodeAlloc;
use maple_tree::raw::{NODE_LAYOUT, chain, chained};

use crate::maple_tree::abi::{RcuHead, gfp};
use crate::maple_tree::hooks::{self, Gfp};

/// A read-side section, ended when dropped.
pub(crate) struct ReadSide {
    hooked: bool,
    #[cfg(feature = "epoch")]
    pin: Option<crossbeam_epoch::Guard>,
}

impl ReadSide {
    pub(crate) fn enter() -> Self {
        Self {
            hooked: hooks::read_lock(),
            #[cfg(feature = "epoch")]
            pin: (!hooks::has_call_rcu()).then(crossbeam_epoch::pin),
        }
    }
}

impl Drop for ReadSide {
    fn drop(&mut self) {
        if self.hooked {
            hooks::read_unlock();
        }
        #[cfg(feature = "epoch")]
        if let Some(pin) = self.pin.take() {
            drop(pin);
            if UNSETTLED.load(Ordering::SeqCst) {
                settle();
            }
        }
    }
}

/// Frees a node that nobody can be in.
///
/// # Safety
///
/// The node came from the hooks' memory, and has no users left.
pub(crate) unsafe fn free(block: NonNull<u8>) {
    // SAFETY: the caller's promise; freeing ignores the flags.
    unsafe { Gfp(gfp::NOWAIT).deallocate(block, NODE_LAYOUT) }
}

/// Dead nodes of one write, newest first.
pub(crate) struct Dead {
    newest: Option<NonNull<u8>>,
    oldest: Option<NonNull<u8>>,
}

impl Dead {
    pub(crate) const fn new() -> Self {
        Self {
            newest: None,
            oldest: None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.newest.is_none()
    }

    /// Adds a node.
    ///
    /// # Safety
    ///
    /// A write just retired the node, in RCU mode, and only this list has it.
    pub(crate) unsafe fn push(&mut self, block: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe { chain(block, self.newest) };
        self.newest = Some(block);
        self.oldest.get_or_insert(block);
    }

    /// Frees the nodes once today's readers are gone.
    pub(crate) fn retire(self) {
        let (Some(newest), Some(oldest)) = (self.newest, self.oldest) else {
            return;
        };
        WAITING.push(newest, oldest);
        start();
        nudge();
    }
}

/// A stack of chains that nobody has started a grace period for.
struct Waiting(AtomicPtr<u8>);

static WAITING: Waiting = Waiting(AtomicPtr::new(ptr::null_mut()));

impl Waiting {
    fn push(&self, newest: NonNull<u8>, oldest: NonNull<u8>) {
        let mut top = self.0.load(Ordering::Relaxed);
        loop {
            // SAFETY: the chain is the caller's until the exchange below succeeds.
            unsafe { chain(oldest, NonNull::new(top)) };
            match self.0.compare_exchange_weak(
                top,
                newest.as_ptr(),
                Ordering::SeqCst,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// Takes all. Nothing is ever taken singly, so that an address that comes back does no harm.
    fn take(&self) -> Option<NonNull<u8>> {
        NonNull::new(self.0.swap(ptr::null_mut(), Ordering::Acquire))
    }

    /// Sequentially consistent, against the freeing of a batch: see [`start`].
    fn is_empty(&self) -> bool {
        self.0.load(Ordering::SeqCst).is_null()
    }
}

/// Chains that wait for one grace period.
#[repr(C)]
struct Batch {
    /// First: the callback finds the batch by its head.
    _head: UnsafeCell<RcuHead>,
    used: AtomicBool,
    nodes: AtomicPtr<u8>,
}

// SAFETY: the head is touched only by the environment, between `call_rcu` and its callback.
unsafe impl Sync for Batch {}

impl Batch {
    /// The head, by a pointer that leads back to the batch.
    fn head(&'static self) -> *mut RcuHead {
        ptr::from_ref(self).cast_mut().cast()
    }

    fn give_back(&self) {
        self.used.store(false, Ordering::SeqCst);
        UNDER_WAY.fetch_sub(1, Ordering::SeqCst);
    }
}

/// How many grace periods are under way.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// How many grace periods can be under way at once.
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

/// Where the search for a free batch begins.
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
            UNDER_WAY.fetch_add(1, Ordering::SeqCst);
            return Some(batch);
        }
    }
    None
}

/// Starts a grace period for what waits, if a batch is free. If none is, [`done`] starts it: it frees its batch before it looks
/// whether anything waits, and we looked for a batch after we had put our chain there.
///
/// Without hooks there is one batch at a time: each costs memory in the epochs' own queue.
fn start() {
    while !WAITING.is_empty() {
        if !hooks::has_call_rcu() && UNDER_WAY.load(Ordering::SeqCst) > 0 {
            return;
        }
        let Some(batch) = claim() else { return };
        let Some(nodes) = WAITING.take() else {
            batch.give_back();
            continue;
        };
        batch.nodes.store(nodes.as_ptr(), Ordering::Release);
        after_grace_period(batch);
    }
}

fn after_grace_period(batch: &'static Batch) {
    if !hooks::call_rcu(batch.head(), done) {
        by_default(batch);
    }
}

#[cfg(feature = "epoch")]
fn by_default(batch: &'static Batch) {
    let guard = crossbeam_epoch::pin();
    guard.defer(|| {
        // SAFETY: this is the batch's callback, and every reader that was about has gone.
        unsafe { done(batch.head()) }
    });
    // Otherwise the callback would stay with this thread until it has collected some dozens.
    guard.flush();
}

/// Without hooks and without epochs nobody knows when the readers are gone: the nodes stay for ever.
#[cfg(not(feature = "epoch"))]
fn by_default(_: &'static Batch) {}

/// The callback after a grace period.
///
/// # Safety
///
/// `head` is that of a batch that was handed to `call_rcu`, once.
unsafe extern "C" fn done(head: *mut RcuHead) {
    // SAFETY: the head is the first member of a batch, which is static.
    let batch: &'static Batch = unsafe { &*head.cast::<Batch>() };
    let mut next = NonNull::new(batch.nodes.swap(ptr::null_mut(), Ordering::Acquire));
    while let Some(block) = next {
        // SAFETY: the chain was built by `Dead` and `Waiting`; no reader is left in it.
        unsafe {
            next = chained(block);
            free(block);
        }
    }
    batch.give_back();
    start();
}

/// Now and then a write looks whether the epochs have gone on.
fn nudge() {
    #[cfg(feature = "epoch")]
    {
        const WRITES: usize = 32;
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        if !hooks::has_call_rcu() && count.is_multiple_of(WRITES) {
            crossbeam_epoch::pin().flush();
        }
    }
}

/// Where the default's epochs need pushing: after this, if no reader is about, nothing waits. If one is, it does this when it leaves.
/// Does nothing if the environment has its own grace periods.
pub(crate) fn settle() {
    #[cfg(feature = "epoch")]
    if !hooks::has_call_rcu() && !is_settled() {
        // An epoch ends two steps after it was current; what waits behind the batch under way takes another.
        const ROUNDS: usize = 16;
        UNSETTLED.store(true, Ordering::SeqCst);
        for _ in 0..ROUNDS {
            crossbeam_epoch::pin().flush();
            if is_settled() {
                UNSETTLED.store(false, Ordering::SeqCst);
                return;
            }
        }
    }
}

/// A batch is claimed before it takes what waits, so that one or the other shows.
#[cfg(feature = "epoch")]
fn is_settled() -> bool {
    WAITING.is_empty() && UNDER_WAY.load(Ordering::SeqCst) == 0
}

/// A tree was destroyed while readers were about.
#[cfg(feature = "epoch")]
static UNSETTLED: AtomicBool = AtomicBool::new(false);
