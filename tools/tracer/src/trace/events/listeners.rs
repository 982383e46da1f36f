//! Filters with a listener (`SECCOMP_FILTER_FLAG_NEW_LISTENER`). The listener decides about calls,
//! which the tracer then does not see.

use std::io;

use samara_linux::Tid;
use samara_linux::ptrace;

use super::Tracer;

/// The reason why such a process is not followed.
pub(super) const UNSEEN: &str =
    "a filter with a listener decides about its calls, and may hide them";

impl Tracer<'_> {
    /// Stops following a thread whose calls may be invisible from now on. It returns from the call
    /// that installed such a filter, perhaps for all threads of its process.
    pub(super) fn lose_sight(&mut self, tid: Tid, index: usize) {
        let flags = ptrace::registers(tid).map_or(0, |registers| match ptrace::is_i386(tid) {
            true => registers.rcx,
            false => registers.rsi,
        });
        let all = flags & u64::from(libc::SECCOMP_FILTER_FLAG_TSYNC as u32) != 0;
        let process = self.tasks.get(&tid).map_or(tid, |task| task.process);
        for (other, task) in self.tasks.iter_mut() {
            task.unseen |= *other == tid || all && task.process == process;
        }
        if let Some(space) = &mut self.spaces[index] {
            space.give_up(&io::Error::other(UNSEEN), self.session);
        }
    }
}
