//! Processes and their threads.
//!
//! A thread enters the kernel by a [`Trap`], runs on its own kernel stack, and returns by
//! [`exit_to_user`]. The kernel is not preempted. A thread gives up the processor where it waits
//! ([`wait`]), and on its way back to the program.
//!
//! | file | concept |
//! |---|---|
//! | `thread`, `table` | threads, processes, and their tables |
//! | `scheduler`, `wait` | the scheduler; wait queues, with timeouts |
//! | `clone`, `exec`, `exit` | creation, program loading, exit |
//! | `signals` | sending and delivery |
//! | `futex` | words in memory on which threads wait |
//! | `oom` | the OOM killer |
//!
//! # Locks, outermost first
//!
//! ```text
//! parents and children (`exit::TASKLIST`)
//!   table of processes
//!     children of a process → state of a process
//!       signals of a process → signals of a thread
//!         wait queue
//!           run queue
//! ```
//!
//! A thread that waits holds none of them. Interrupt handlers take none of them.

mod clone;
mod exec;
mod exit;
pub mod futex;
pub mod oom;
pub mod scheduler;
pub mod signals;
mod table;
mod thread;
pub mod wait;

pub use clone::{CloneArgs, clone, set_fork_mode};
pub use exec::{execute, start_first};
pub use exit::{ChildEvent, exit_group, exit_thread, exited_with, wait_for_child};
pub use table::{find, find_thread, processes};
pub use thread::{Process, State, Thread, current};

use alloc::sync::Arc;

use samara_mm::process::{Fault, Signal};

use crate::arch::{Arch, Machine, Trap};
use crate::syscalls;
use signals::SigInfo;

/// The registers of a program.
pub type Frame = <Arch as Machine>::Frame;

/// Handles a trap of a program, and returns when the program may continue with its frame.
///
/// An exiting thread ends here, where its stack holds no value that must be dropped. Interrupts are
/// off on return.
pub fn trap_from_user(frame: &mut Frame, trap: Trap) {
    handle(frame, trap);
    while !scheduler::may_return_to_user() {
        if !exit_to_user(&current(), frame) {
            exit::end_thread();
        }
    }
}

// ANCHOR: fault
fn handle(frame: &mut Frame, trap: Trap) {
    if let Trap::PageFault { address, access } = trap
        && scheduler::active_mm().is_some_and(|memory| memory.fault(address, access).is_ok())
    {
        return;
    }
    let thread = current();
    oom::refill_reserve(&thread);
    match trap {
        _ if thread.is_ending() => {}
        Trap::SystemCall => syscalls::perform(&thread, frame),
        Trap::PageFault { address, access } => {
            if let Err(fault) = oom::fault(&thread.process.memory(), address, access) {
                signals::force(&thread, &fault_signal(fault, address));
            }
        }
        Trap::Exception { signal, code, address } => {
            signals::force(&thread, &SigInfo::fault(signal, code, address));
        }
        Trap::Interrupt => {}
    }
}
// ANCHOR_END: fault

/// Returns the signal for a fault that could not be handled.
fn fault_signal(fault: Fault, address: u64) -> SigInfo {
    match fault {
        Fault::Signal { signal: Signal::Bus, code } => {
            SigInfo::fault(signals::SIGBUS, code, address)
        }
        Fault::Signal { signal: Signal::Segv, code } => {
            SigInfo::fault(signals::SIGSEGV, code, address)
        }
        Fault::NoMemory | Fault::Deadlock => SigInfo::kernel(signals::SIGKILL),
    }
}

/// Lets other threads run, and delivers signals, before a thread returns to its program. Returns
/// `false` if the thread must exit.
fn exit_to_user(thread: &Arc<Thread>, frame: &mut Frame) -> bool {
    loop {
        if thread.is_ending() {
            return false;
        }
        scheduler::poll();
        if scheduler::need_resched() {
            scheduler::yield_now();
        }
        if !signals::deliver(thread, frame) {
            return !thread.is_ending();
        }
    }
}

/// Runs first on a new thread's stack. The architecture's entry code calls it.
#[unsafe(no_mangle)]
extern "C" fn thread_started() {
    let previous = scheduler::finish_switch();
    Arch::restore_interrupts(true);
    drop(previous);
}

/// Runs last before a new thread's first instruction in the program. Interrupts are off on return.
#[unsafe(no_mangle)]
extern "C" fn thread_to_user(frame: &mut Frame) {
    scheduler::recheck_signals();
    trap_from_user(frame, Trap::Interrupt);
}
