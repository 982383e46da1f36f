//! Processes and their threads.
//!
//! A thread enters the kernel by a [`Trap`], runs on its own kernel stack, and goes back by [`exit_to_user`]. The kernel is not preempted: a thread gives the processor up where it
//! waits ([`wait`]) and on its way back to the program.
//!
//! | file | concept |
//! |---|---|
//! | `thread`, `table` | threads, processes, and where they are found |
//! | `scheduler`, `wait` | who runs; waiting, with time limits |
//! | `clone`, `exec`, `exit` | beginnings and ends |
//! | `signals`, `action` | sending and delivering |
//! | `futex` | words in memory that threads wait at |
//! | `oom` | who is killed where memory runs out |
//!
//! # Locks, outermost first
//!
//! ```text
//! who is whose child (`exit::TASKLIST`)
//!   table of processes
//!     children of a process → state of a process
//!       signals of a process → signals of a thread
//!         wait queue
//!           run queue
//! ```
//!
//! None is held while a thread waits. Interrupt handlers take none of them.

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

/// A program's registers.
pub type Frame = <Arch as Machine>::Frame;

/// Handles what made a program enter the kernel. When this returns, the program goes on by its frame. A thread that is to end does so here, where its stack
/// holds nothing that somebody would have to drop.
///
/// Interrupts are off when it returns.
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

/// The signal of a fault that could not be handled.
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

/// Does what is to be done before a program goes on: others run, signals are delivered. Returns `false` if the thread is to end.
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

/// The first thing that a new thread does, called by the architecture's entry code.
#[unsafe(no_mangle)]
extern "C" fn thread_started() {
    let previous = scheduler::finish_switch();
    Arch::restore_interrupts(true);
    drop(previous);
}

/// The last thing before a new thread's first instruction. Interrupts are off when it returns.
#[unsafe(no_mangle)]
extern "C" fn thread_to_user(frame: &mut Frame) {
    scheduler::recheck_signals();
    trap_from_user(frame, Trap::Interrupt);
}
