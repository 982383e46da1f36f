//! Threads in strict mode (`SECCOMP_SET_MODE_STRICT`). The tracer imitates the mode, because the
//! kernel does not combine it with the tracer's filter.

use samara_linux::Tid;
use samara_linux::ptrace;

use crate::trace::entry::entered;

use super::Tracer;

impl Tracer<'_> {
    /// Handles the begin or the return of a call of a thread in strict mode. As the kernel would,
    /// it allows four calls. Any other call ends the thread, or the process by SIGKILL if the
    /// thread is the only one.
    pub(super) fn strict_call(&mut self, tid: Tid) {
        const ALLOWED: [i64; 4] = [
            libc::SYS_read,
            libc::SYS_write,
            libc::SYS_exit,
            libc::SYS_rt_sigreturn,
        ];
        /// The same calls in the i386 table, with `sigreturn` for `rt_sigreturn`.
        const ALLOWED_I386: [i64; 4] = [3, 4, 1, 119];
        let (allowed, exit) = match ptrace::is_i386(tid) {
            true => (ALLOWED_I386, ALLOWED_I386[2]),
            false => (ALLOWED, libc::SYS_exit),
        };
        if let Ok(Some((entry, _))) = entered(tid, &self.filter)
            && !allowed.contains(&(entry.nr as i64))
        {
            let process = self.tasks.get(&tid).map_or(tid, |task| task.process);
            let is_other = |(other, task): (&Tid, &super::task::Task)| {
                // If several threads end at once, the process ends like the last one.
                *other != tid && task.process == process && task.space.is_some() && !task.ends
            };
            let ends = self.tasks.iter().any(is_other) && ptrace::call_instead(tid, exit).is_ok();
            if !ends {
                // SAFETY: the call ends our own tracee.
                unsafe { libc::kill(tid, libc::SIGKILL) };
            } else if let Some(task) = self.tasks.get_mut(&tid) {
                task.ends = true;
            }
        }
        ptrace::resume_to_exit(tid, 0);
    }
}
