//! The scheduler. Each processor has a queue of runnable threads. It runs them one after the other,
//! each until it waits or the timer ticks. A processor with an empty queue takes a thread from
//! another's queue.
//!
//! # States of a thread
//!
//! ```text
//! RUNNABLE  ──prepare_to_wait──▶  PREPARED  ──off the processor──▶  BLOCKED
//!    ▲                                │                                │
//!    └─────────────── wake ───────────┴───────────── wake ─────────────┘
//! ```
//!
//! A thread is in a queue only after its registers have been saved, so that no two processors ever
//! use one kernel stack. Two functions put it there. [`finish_switch`] does on the stack of the
//! thread that runs next, and [`wake`] does for a thread that is `BLOCKED`. Only `finish_switch`
//! sets `BLOCKED`.
//!
//! A wake-up of a `PREPARED` thread only makes it `RUNNABLE`. The thread finds that in [`block`],
//! or `finish_switch` finds it and enqueues the thread.
//!
//! # Idle processors
//!
//! A processor that is about to halt sets its bit in `IDLE` and then looks at all queues. A
//! processor that fills a queue looks at `IDLE` afterwards. All of these accesses are sequentially
//! consistent: either the halting processor sees the thread, or the other one sees the bit and
//! interrupts it.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering, fence};

use spin::Mutex;

use super::thread::Thread;
use super::wait;
use crate::arch::{Arch, Context, Machine, switch};
use crate::memory::{Memory, kernel_tables};

/// The states of a thread.
pub(super) const RUNNABLE: u8 = 0;
pub(super) const PREPARED: u8 = 1;
pub(super) const BLOCKED: u8 = 2;
const DEAD: u8 = 3;

/// The most processors. A set of processors is a word with a bit for each.
pub const MAX_CPUS: usize = 64;

struct Processor {
    queue: Mutex<VecDeque<Arc<Thread>>>,
    /// `true` if the running thread should check its signals and let other threads run.
    need_resched: AtomicBool,
    /// The number of the running thread, or 0 if none runs.
    running: AtomicI32,
    local: UnsafeCell<Local>,
}

/// The data that only the processor itself uses, outside of interrupt handlers.
struct Local {
    current: Option<Arc<Thread>>,
    /// The thread that has just left the processor.
    previous: Option<Arc<Thread>>,
    /// The context of the idle loop.
    idle: Option<Context>,
    /// The memory whose page tables are loaded, or `None` for the kernel's page tables.
    loaded: Option<Arc<Memory>>,
    /// The time at which `current` began to run.
    since: u64,
    /// `true` if `current` must check its signals before it returns to its program.
    recheck: bool,
}

// SAFETY: only its own processor uses `local`, outside of interrupt handlers, and the kernel is not
// preempted. The other fields are `Sync`.
unsafe impl Sync for Processor {}

static PROCESSORS: [Processor; MAX_CPUS] = [const {
    Processor {
        queue: Mutex::new(VecDeque::new()),
        need_resched: AtomicBool::new(false),
        running: AtomicI32::new(0),
        local: UnsafeCell::new(Local {
            current: None,
            previous: None,
            idle: None,
            loaded: None,
            since: 0,
            recheck: false,
        }),
    }
}; MAX_CPUS];
/// The processors that run threads.
static ONLINE: AtomicU64 = AtomicU64::new(0);
/// The online processors that are halted or about to halt.
static IDLE: AtomicU64 = AtomicU64::new(0);

fn bit(processor: usize) -> u64 {
    1 << processor
}

fn this() -> &'static Processor {
    &PROCESSORS[Arch::processor()]
}

/// Calls `used` with the data of this processor.
fn local<R>(used: impl FnOnce(&mut Local) -> R) -> R {
    // SAFETY: as for `Processor`. No closure in this file calls `local` or switches to another
    // thread.
    used(unsafe { &mut *this().local.get() })
}

/// Returns the processors that run threads, one bit each.
pub fn online() -> u64 {
    ONLINE.load(Ordering::SeqCst)
}

/// Handles the timer's interrupt.
pub fn tick() {
    this().need_resched.store(true, Ordering::Relaxed);
}

/// Returns `true` if the running thread should let other threads run.
pub(super) fn need_resched() -> bool {
    this().need_resched.load(Ordering::Relaxed)
}

pub(super) fn current() -> Option<Arc<Thread>> {
    local(|local| local.current.clone())
}

/// Returns the memory whose page tables this processor has loaded.
pub(super) fn active_mm() -> Option<Arc<Memory>> {
    local(|local| local.loaded.clone())
}

/// Makes the running thread check its signals, and whether it must exit, before it returns to its
/// program.
///
/// A thread calls this for what it does to itself. What other threads do reschedules the thread's
/// processor, or happens while the thread does not run.
pub fn recheck_signals() {
    local(|local| local.recheck = true);
}

/// Returns `true`, with interrupts off, if the running thread may return to its program. No event
/// has come since its last check, and a later event interrupts the program.
pub(super) fn may_return_to_user() -> bool {
    Arch::disable_interrupts();
    let this = this();
    // SAFETY: as in `local`.
    let recheck = core::mem::take(unsafe { &mut (*this.local.get()).recheck });
    let may_return_to_user = !recheck && !this.need_resched.load(Ordering::Relaxed);
    if !may_return_to_user {
        Arch::restore_interrupts(true);
    }
    may_return_to_user
}

/// Wakes threads whose timeout is over or whose console input has come, as interrupts have noted.
pub(super) fn poll() {
    if need_resched() {
        wait::expire(Arch::now());
    }
    crate::fs::console::poll();
}

/// Makes a processor check for signals and other threads, by an interrupt if it is not this one.
fn reschedule(processor: usize) {
    PROCESSORS[processor].need_resched.store(true, Ordering::SeqCst);
    if processor != Arch::processor() {
        Arch::send_ipi(processor);
    }
}

/// Interrupts the first processor, whose idle loop shuts the machine down.
pub(super) fn kick_first() {
    reschedule(0);
}

/// Lets another thread run if this processor's queue has one, or if the running thread may no
/// longer run here.
pub fn yield_now() {
    let this = this();
    this.need_resched.store(false, Ordering::Relaxed);
    let next = this.queue.lock().pop_front();
    let stays = current().is_none_or(|thread| may_run(&thread, Arch::processor()));
    if next.is_some() || !stays {
        switch_to(next);
    }
}

fn may_run(thread: &Thread, processor: usize) -> bool {
    thread.affinity.load(Ordering::Relaxed) & bit(processor) != 0
}

/// Announces that the running thread is about to wait. From now on [`wake`] makes it runnable.
pub(super) fn prepare_to_wait(thread: &Thread) {
    thread.state.store(PREPARED, Ordering::SeqCst);
}

/// Withdraws the announcement of [`prepare_to_wait`].
pub(super) fn cancel_wait(thread: &Thread) {
    thread.state.store(RUNNABLE, Ordering::SeqCst);
}

/// Gives up the processor until [`wake`] is called for this thread. Returns at once if that has
/// happened since [`prepare_to_wait`].
pub(super) fn block(thread: &Thread) {
    if thread.state.load(Ordering::SeqCst) == PREPARED {
        switch_to(next());
    }
}

/// Makes a waiting thread runnable. Does nothing if the thread does not wait.
pub fn wake(thread: &Arc<Thread>) {
    let mut state = thread.state.load(Ordering::SeqCst);
    while state == PREPARED || state == BLOCKED {
        match thread.state.compare_exchange(state, RUNNABLE, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(BLOCKED) => return enqueue(thread.clone()),
            Ok(_) => return,
            Err(now) => state = now,
        }
    }
}

/// Makes a thread check its signals soon, whether it waits or runs.
pub fn signal_wake_up(thread: &Arc<Thread>) {
    wake(thread);
    let processor = thread.processor.load(Ordering::SeqCst);
    if PROCESSORS[processor].running.load(Ordering::SeqCst) == thread.tid {
        reschedule(processor);
    }
}

/// Adds a thread whose registers are saved to a queue: that of an idle processor that may run it,
/// else that of the processor it last ran on, or of another one if it may not run there.
fn enqueue(thread: Arc<Thread>) {
    let allowed = thread.affinity.load(Ordering::Relaxed) & online();
    let last = thread.processor.load(Ordering::SeqCst);
    let processor = loop {
        let idle = IDLE.load(Ordering::SeqCst) & allowed;
        let chosen = match () {
            () if idle & bit(last) != 0 => last,
            () if idle != 0 => idle.trailing_zeros() as usize,
            () if allowed & bit(last) != 0 || allowed == 0 => break last,
            () => break allowed.trailing_zeros() as usize,
        };
        // Each idle processor gets one thread only: the one whose enqueuer clears the bit.
        if IDLE.fetch_and(!bit(chosen), Ordering::SeqCst) & bit(chosen) != 0 {
            PROCESSORS[chosen].queue.lock().push_back(thread);
            return reschedule(chosen);
        }
    };
    PROCESSORS[processor].queue.lock().push_back(thread);
    fence(Ordering::SeqCst);
    if IDLE.load(Ordering::SeqCst) & bit(processor) != 0 {
        reschedule(processor);
    }
}

/// Takes the next thread for this processor, from its own queue or else from another's.
fn next() -> Option<Arc<Thread>> {
    let here = Arch::processor();
    if let Some(next) = PROCESSORS[here].queue.lock().pop_front() {
        return Some(next);
    }
    let count = online().count_ones() as usize;
    (1..count).find_map(|distance| {
        let mut queue = PROCESSORS[(here + distance) % count].queue.lock();
        let at = queue.iter().position(|thread| may_run(thread, here))?;
        queue.remove(at)
    })
}

/// Restricts a thread to the processors of a set. Returns `false` if none of them is online.
pub fn set_affinity(thread: &Arc<Thread>, processors: u64) -> bool {
    if processors & online() == 0 {
        return false;
    }
    thread.affinity.store(processors, Ordering::SeqCst);
    signal_wake_up(thread);
    true
}

/// Gives up the processor for ever.
pub(super) fn exit() -> ! {
    local(|local| local.current.iter().for_each(|it| it.state.store(DEAD, Ordering::SeqCst)));
    switch_to(next());
    panic!("a dead thread runs");
}

/// Runs threads until `end` returns a value, and halts the processor while no thread is runnable.
pub fn idle<T>(end: impl Fn() -> Option<T>) -> T {
    let here = Arch::processor();
    ONLINE.fetch_or(bit(here), Ordering::SeqCst);
    loop {
        if let Some(end) = end() {
            return end;
        }
        poll();
        this().need_resched.store(false, Ordering::SeqCst);
        Arch::disable_interrupts();
        IDLE.fetch_or(bit(here), Ordering::SeqCst);
        let next = next();
        if next.is_none() && end().is_none() && !need_resched() {
            Arch::wait_for_interrupt();
        }
        IDLE.fetch_and(!bit(here), Ordering::SeqCst);
        Arch::restore_interrupts(true);
        if next.is_some() {
            switch_to(next);
        }
    }
}

/// Waits until all other processors are idle.
pub fn wait_for_others() {
    let others = online() & !bit(Arch::processor());
    while IDLE.load(Ordering::SeqCst) & others != others {
        core::hint::spin_loop();
    }
}

/// Switches to a thread, or to the idle loop. Returns when the calling thread runs again, perhaps
/// on another processor.
fn switch_to(next: Option<Arc<Thread>>) {
    switch_mm(next.as_ref().and_then(|next| next.process.memory.lock().clone()));
    let here = Arch::processor();
    let tid = next.as_ref().map_or(0, |next| next.tid);
    if let Some(next) = &next {
        next.processor.store(here, Ordering::SeqCst);
    }
    let were_on = Arch::disable_interrupts();
    let (from, to) = local(|local| {
        let now = Arch::now();
        if let Some(current) = &local.current {
            let time = now - local.since;
            current.time.fetch_add(time, Ordering::Relaxed);
            current.process.time.fetch_add(time, Ordering::Relaxed);
        }
        local.since = now;
        let idle: *mut _ = local.idle.get_or_insert_default();
        let context = |thread: &Option<Arc<Thread>>| {
            thread.as_ref().map_or(idle, |thread| thread.context.get())
        };
        local.previous = core::mem::replace(&mut local.current, next);
        (context(&local.previous), context(&local.current))
    });
    this().running.store(tid, Ordering::SeqCst);
    // SAFETY: `current` and `previous` keep both threads. The next thread comes from a queue, and a
    // queue holds only threads that have left their processor.
    unsafe { switch(from, to) };
    let previous = finish_switch();
    recheck_signals();
    Arch::restore_interrupts(were_on);
    // This may be the last reference. It frees the thread's stack, so interrupts must be on.
    drop(previous);
}

/// Completes a switch on the next thread's stack: the previous thread has left the processor.
/// Returns a thread that the caller must drop once interrupts are on.
pub(super) fn finish_switch() -> Option<Arc<Thread>> {
    let previous = local(|local| local.previous.take())?;
    let state = &previous.state;
    match state.compare_exchange(PREPARED, BLOCKED, Ordering::SeqCst, Ordering::SeqCst) {
        Ok(_) | Err(DEAD) => return Some(previous),
        // The thread is runnable; it may have been woken after `prepare_to_wait`.
        Err(_) => {}
    }
    let here = Arch::processor();
    if may_run(&previous, here) {
        this().queue.lock().push_back(previous);
    } else {
        enqueue(previous);
    }
    None
}

/// Loads the page tables of a process, or the kernel's, on this processor.
///
/// The processor sets its bit in the address space's set before it loads the root. A processor that
/// changes the page tables and does not see the bit has changed them before this one's first walk.
// ANCHOR: switch_mm
pub(super) fn switch_mm(memory: Option<Arc<Memory>>) {
    let root = memory.as_ref().map_or_else(|| kernel_tables().root(), |memory| memory.root());
    let here = bit(Arch::processor());
    let old = local(|local| {
        if local.loaded.as_ref().map(|loaded| loaded.root())
            == memory.as_ref().map(|new| new.root())
        {
            return memory;
        }
        if let Some(new) = &memory {
            new.context().cpus().fetch_or(here, Ordering::SeqCst);
        }
        // SAFETY: the new tables are the kernel's own, or `loaded` keeps them from now on. Every
        // root has the kernel's half.
        unsafe { Arch::load_root(root) };
        let old = core::mem::replace(&mut local.loaded, memory);
        if let Some(old) = &old {
            old.context().cpus().fetch_and(!here, Ordering::SeqCst);
        }
        old
    });
    // This may be the last reference to the old memory.
    drop(old);
}
// ANCHOR_END: switch_mm
