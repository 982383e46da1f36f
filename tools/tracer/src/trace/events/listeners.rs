//! Filters with a listener (`SECCOMP_FILTER_FLAG_NEW_LISTENER`), which decide about calls that the tracer does not see then.

use std::io;

use samara_linux::Tid;
use samara_linux::ptrace;

use super::Tracer;

/// Why a process is not followed.
pub(super) const UNSEEN: &str =
    "a filter with a listener decides about its calls, and may let them pass unseen";

impl Tracer<'_> {
    /// From now on, calls of a thread may pass unseen: it returns from the call that has put such a filter on it, and perhaps on the other threads of its process.
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
