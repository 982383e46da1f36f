//! Which thread runs: those that can, one after the other, each until it waits or a tick of the timer is over.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};

use spin::Mutex;

use super::thread::Thread;
use super::wait;
use crate::arch::{Arch, Machine, switch};
use crate::memory::kernel_tables;

/// States of a thread.
pub(super) const RUNNABLE: u8 = 0;
pub(super) const WAITING: u8 = 1;

struct Scheduler {
    current: Option<Arc<Thread>>,
    queue: VecDeque<Arc<Thread>>,
    /// The thread that has just given the processor up for ever: its stack was in use until now.
    ended: Option<Arc<Thread>>,
    /// The loop that runs when no thread can.
    idle: Option<<Arch as Machine>::Context>,
    root: u64,
    since: u64,
}

static SCHEDULER: Mutex<Scheduler> = Mutex::new(Scheduler {
    current: None,
    queue: VecDeque::new(),
    ended: None,
    idle: None,
    root: 0,
    since: 0,
});
static DUE: AtomicBool = AtomicBool::new(false);

/// The timer's interrupt.
pub fn tick() {
    DUE.store(true, Ordering::Relaxed);
}

/// Returns `true` if the thread that runs should let others run.
pub(super) fn is_due() -> bool {
    DUE.load(Ordering::Relaxed)
}

pub(super) fn current() -> Option<Arc<Thread>> {
    SCHEDULER.lock().current.clone()
}

/// Ends waits whose time is over or whose input has come: what interrupts have noted.
pub(super) fn poll() {
    if is_due() {
        wait::expire(Arch::now());
    }
    crate::files::console::poll();
}

/// Lets another thread run, if one can.
pub fn give_way() {
    DUE.store(false, Ordering::Relaxed);
    let mut scheduler = SCHEDULER.lock();
    if scheduler.queue.is_empty() {
        return;
    }
    if let Some(current) = scheduler.current.clone() {
        scheduler.queue.push_back(current);
    }
    drop(scheduler);
    switch_away();
}

/// The thread that runs says that it is about to wait. From now on [`wake`] makes it runnable.
pub(super) fn prepare(thread: &Thread) {
    thread.state.store(WAITING, Ordering::SeqCst);
}

/// The thread does not wait after all.
pub(super) fn cancel(thread: &Arc<Thread>) {
    if thread.state.swap(RUNNABLE, Ordering::SeqCst) == RUNNABLE {
        // It was woken meanwhile, and stands in the queue.
        let queue = &mut SCHEDULER.lock().queue;
        if let Some(at) = queue.iter().position(|other| Arc::ptr_eq(other, thread)) {
            queue.remove(at);
        }
    }
}

/// Gives the processor up until somebody wakes this thread. Returns at once if that has happened since [`prepare`].
pub(super) fn block() {
    switch_away();
}

/// Makes a thread that waits runnable. One that does not wait stays as it is.
pub fn wake(thread: &Arc<Thread>) {
    if thread.state.swap(RUNNABLE, Ordering::SeqCst) == WAITING {
        SCHEDULER.lock().queue.push_back(thread.clone());
    }
}

/// Gives the processor up for ever.
pub(super) fn end() -> ! {
    let mut scheduler = SCHEDULER.lock();
    scheduler.ended = scheduler.current.clone();
    drop(scheduler);
    switch_away();
    panic!("a thread that has ended runs");
}

/// Runs threads until `end` gives something, and waits for interrupts where there is none that can run.
pub fn idle<T>(end: impl Fn() -> Option<T>) -> T {
    loop {
        if let Some(end) = end() {
            return end;
        }
        poll();
        if !SCHEDULER.lock().queue.is_empty() {
            switch_away();
            continue;
        }
        DUE.store(false, Ordering::Relaxed);
        Arch::interrupts_off();
        if SCHEDULER.lock().queue.is_empty() && !is_due() {
            Arch::wait_for_interrupt();
        }
        Arch::restore_interrupts(true);
    }
}

/// Switches to the first thread of the queue, or to the idle loop. Returns when the thread runs again.
fn switch_away() {
    let were_on = Arch::interrupts_off();
    let mut scheduler = SCHEDULER.lock();
    let next = scheduler.queue.pop_front();
    let previous = core::mem::replace(&mut scheduler.current, next.clone());
    let same = match (&previous, &next) {
        (Some(previous), Some(next)) => Arc::ptr_eq(previous, next),
        (None, None) => true,
        _ => false,
    };
    if !same {
        let now = Arch::now();
        if let Some(previous) = &previous {
            let time = now - scheduler.since;
            previous.time.fetch_add(time, Ordering::Relaxed);
            previous.process.time.fetch_add(time, Ordering::Relaxed);
        }
        scheduler.since = now;
        let idle: *mut _ = scheduler.idle.get_or_insert_default();
        let context = |thread: &Option<Arc<Thread>>| {
            thread.as_ref().map_or(idle, |thread| thread.context.get())
        };
        let (from, to) = (context(&previous), context(&next));
        let memory = next.as_ref().and_then(|next| next.process.memory.lock().clone());
        let root = memory.as_ref().map_or_else(|| kernel_tables().root(), |memory| memory.root());
        if root != scheduler.root {
            scheduler.root = root;
            // SAFETY: a table of a process that runs, or the kernel's own. Every table has the kernel's half.
            unsafe { Arch::load_root(root) };
        }
        // What has no end on this stack, if the thread does not come back, goes before the switch.
        drop((previous, next, memory, scheduler));
        // SAFETY: the queue, `current` or `ended` hold both threads, and nobody else runs them.
        unsafe { switch(from, to) };
        arrived();
    } else {
        drop(scheduler);
    }
    Arch::restore_interrupts(were_on);
}

/// Loads another root, now that the memory of the thread that runs is another one, or will be given up.
pub(super) fn load(root: u64) {
    let were_on = Arch::interrupts_off();
    SCHEDULER.lock().root = root;
    // SAFETY: as in `switch_away`.
    unsafe { Arch::load_root(root) };
    Arch::restore_interrupts(were_on);
}

/// The first thing after a switch, on the new thread's stack: what the previous thread was made of goes now.
pub(super) fn arrived() {
    let ended = SCHEDULER.lock().ended.take_if(|ended| ended.ended.load(Ordering::Relaxed));
    drop(ended);
}
