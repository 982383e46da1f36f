//! Which thread runs: each processor has a queue of threads that can run, and takes them one after the other, each until it waits or a tick of the timer is over.
//! A processor without threads takes one from another's queue.
//!
//! # States of a thread
//!
//! ```text
//! RUNNABLE  ──prepare──▶  PREPARED  ──off the processor──▶  BLOCKED
//!    ▲                        │                                │
//!    └──────── wake ──────────┴───────────── wake ─────────────┘
//! ```
//!
//! A thread stands in a queue only after its registers have been saved: the thread that runs next puts it there ([`finish_switch`]), or whoever wakes it from `BLOCKED`, a state that
//! is entered only there, too. So no two processors ever use one kernel stack. A wake-up of a thread that is still about to wait makes it `RUNNABLE` and does nothing else: the thread
//! finds that in [`block`], or is put into the queue where it has left the processor.
//!
//! # Idle processors
//!
//! A processor that is about to halt sets its bit in `IDLE` and then recheck at all queues; whoever fills a queue recheck at `IDLE` afterwards. All of it is sequentially
//! consistent: either the processor sees the thread, or the other sees the bit and interrupts it.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering, fence};

use spin::Mutex;

use super::thread::Thread;
use super::wait;
use crate::arch::{Arch, Context, Machine, switch};
use crate::memory::{Memory, kernel_tables};

/// States of a thread.
pub(super) const RUNNABLE: u8 = 0;
pub(super) const PREPARED: u8 = 1;
pub(super) const BLOCKED: u8 = 2;
const DEAD: u8 = 3;

/// Processors that can be used: each has a bit in a word.
pub const MAX_CPUS: usize = 64;

struct Processor {
    queue: Mutex<VecDeque<Arc<Thread>>>,
    /// The thread that runs should look for signals, and let others run.
    need_resched: AtomicBool,
    /// The number of the thread that runs; 0: none.
    running: AtomicI32,
    local: UnsafeCell<Local>,
}

/// What only the processor itself uses, and no interrupt handler.
struct Local {
    current: Option<Arc<Thread>>,
    /// The thread that has just left the processor.
    previous: Option<Arc<Thread>>,
    /// The loop that runs when no thread can.
    idle: Option<Context>,
    /// Whose tables are loaded; `None`: the kernel's.
    loaded: Option<Arc<Memory>>,
    /// When `current` began to run.
    since: u64,
    /// `current` has to look at its signals before its program goes on.
    recheck: bool,
}

// SAFETY: `own` is used by its processor alone, outside of interrupt handlers; the kernel is not preempted.
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
/// Processors that run threads.
static ONLINE: AtomicU64 = AtomicU64::new(0);
/// Those of them that are about to halt, or have.
static IDLE: AtomicU64 = AtomicU64::new(0);

fn bit(processor: usize) -> u64 {
    1 << processor
}

fn this() -> &'static Processor {
    &PROCESSORS[Arch::processor()]
}

/// Lends what only this processor uses.
fn local<R>(used: impl FnOnce(&mut Local) -> R) -> R {
    // SAFETY: see `Processor`; none of the closures below calls this, or switches to another thread.
    used(unsafe { &mut *this().local.get() })
}

/// The processors that run threads, a bit for each.
pub fn online() -> u64 {
    ONLINE.load(Ordering::SeqCst)
}

/// The timer's interrupt.
pub fn tick() {
    this().need_resched.store(true, Ordering::Relaxed);
}

/// Returns `true` if the thread that runs should let others run.
pub(super) fn need_resched() -> bool {
    this().need_resched.load(Ordering::Relaxed)
}

pub(super) fn current() -> Option<Arc<Thread>> {
    local(|local| local.current.clone())
}

/// The memory whose tables this processor has loaded.
pub(super) fn active_mm() -> Option<Arc<Memory>> {
    local(|local| local.loaded.clone())
}

/// Makes the thread that runs look at its signals, and at whether it ends, before its program goes on. For what the thread does to itself; what others do makes its processor need_resched, or comes
/// while it does not run.
pub fn recheck_signals() {
    local(|local| local.recheck = true);
}

/// Returns `true`, with interrupts off, if the thread's program may go on: nothing has come since the thread last looked, and what comes from now on interrupts the program.
pub(super) fn may_return_to_user() -> bool {
    Arch::disable_interrupts();
    let this = this();
    // SAFETY: as in `own`.
    let recheck = core::mem::take(unsafe { &mut (*this.local.get()).recheck });
    let may_return_to_user = !recheck && !this.need_resched.load(Ordering::Relaxed);
    if !may_return_to_user {
        Arch::restore_interrupts(true);
    }
    may_return_to_user
}

/// Ends waits whose time is over or whose input has come: what interrupts have noted.
pub(super) fn poll() {
    if need_resched() {
        wait::expire(Arch::now());
    }
    crate::fs::console::poll();
}

/// Makes a processor look for what is need_resched.
fn reschedule(processor: usize) {
    PROCESSORS[processor].need_resched.store(true, Ordering::SeqCst);
    if processor != Arch::processor() {
        Arch::send_ipi(processor);
    }
}

/// Interrupts the first processor, whose idle loop ends the machine.
pub(super) fn kick_first() {
    reschedule(0);
}

/// Lets another thread run, if one can.
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

/// The thread that runs says that it is about to wait. From now on [`wake`] makes it runnable.
pub(super) fn prepare_to_wait(thread: &Thread) {
    thread.state.store(PREPARED, Ordering::SeqCst);
}

/// The thread does not wait after all.
pub(super) fn cancel_wait(thread: &Thread) {
    thread.state.store(RUNNABLE, Ordering::SeqCst);
}

/// Gives the processor up until somebody wakes this thread. Returns at once if that has happened since [`prepare_to_wait`].
pub(super) fn block(thread: &Thread) {
    if thread.state.load(Ordering::SeqCst) == PREPARED {
        switch_to(next());
    }
}

/// Makes a thread that waits runnable. One that does not wait stays as it is.
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

/// Makes a thread look at its signals soon, whether it waits or runs.
pub fn signal_wake_up(thread: &Arc<Thread>) {
    wake(thread);
    let processor = thread.processor.load(Ordering::SeqCst);
    if PROCESSORS[processor].running.load(Ordering::SeqCst) == thread.tid {
        reschedule(processor);
    }
}

/// Puts a thread whose registers are saved into the queue of a processor: an idle one if there is one, else the one that it ran on.
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
        // One thread for each idle processor.
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

/// Lets a thread run on the processors of a set. Returns `false` if none of them is there.
pub fn set_affinity(thread: &Arc<Thread>, processors: u64) -> bool {
    if processors & online() == 0 {
        return false;
    }
    thread.affinity.store(processors, Ordering::SeqCst);
    signal_wake_up(thread);
    true
}

/// Gives the processor up for ever.
pub(super) fn exit() -> ! {
    local(|local| local.current.iter().for_each(|it| it.state.store(DEAD, Ordering::SeqCst)));
    switch_to(next());
    panic!("a thread that has ended runs");
}

/// Runs threads until `end` gives something, and waits for interrupts where there is none that can run.
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

/// Waits until no other processor runs a thread, or is at the end of one.
pub fn wait_for_others() {
    let others = online() & !bit(Arch::processor());
    while IDLE.load(Ordering::SeqCst) & others != others {
        core::hint::spin_loop();
    }
}

/// Switches to a thread, or to the idle loop. Returns when the thread that called this runs again, perhaps on another processor.
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
    // SAFETY: `current` and `previous` hold both threads. The second was taken from a queue, which has only threads that have left their processor.
    unsafe { switch(from, to) };
    let previous = finish_switch();
    recheck_signals();
    Arch::restore_interrupts(were_on);
    // Perhaps the last of it, so that its stack goes, and more.
    drop(previous);
}

/// The first thing after a switch, on the new thread's stack: the previous thread has left the processor. Returns what is to be dropped once interrupts are on.
pub(super) fn finish_switch() -> Option<Arc<Thread>> {
    let previous = local(|local| local.previous.take())?;
    let state = &previous.state;
    match state.compare_exchange(PREPARED, BLOCKED, Ordering::SeqCst, Ordering::SeqCst) {
        Ok(_) | Err(DEAD) => return Some(previous),
        // It can run on; perhaps it was woken after it had decided to wait.
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

/// Loads the tables of a process, or the kernel's, on this processor.
///
/// The bit in the address space's set of processors comes before the root is loaded: whoever changes the tables and does not find the bit yet has changed them before the first access.
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
        // SAFETY: a table that `loaded` keeps, or the kernel's local. Every table has the kernel's half.
        unsafe { Arch::load_root(root) };
        let old = core::mem::replace(&mut local.loaded, memory);
        if let Some(old) = &old {
            old.context().cpus().fetch_and(!here, Ordering::SeqCst);
        }
        old
    });
    // Perhaps the last of it.
    drop(old);
}
// ANCHOR_END: switch_mm
