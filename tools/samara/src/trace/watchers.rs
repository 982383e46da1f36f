//! Which userfaultfd a descriptor of a traced program stands for.
//!
//! No descriptor is held here: the last one that is closed lets go of all that it watched.

use std::fs;
use std::num::NonZeroU32;

use super::ptrace::Tid;

/// Those that were named so far.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    known: Vec<Watcher>,
    last: u32,
}

/// A descriptor by which one was named first.
#[derive(Debug)]
struct Watcher {
    tid: Tid,
    descriptor: i32,
    number: NonZeroU32,
}

/// Shown among the features once an interface was agreed upon (`UFFDIO_API`), whichever they are (observed). Before, every other request is `EINVAL`.
pub(crate) const AGREED: u64 = 1 << 31;
/// `UFFD_FEATURE_WP_ASYNC`: bears on what may be watched.
pub(crate) const WP_ASYNC: u64 = 1 << 15;
/// `UFFD_FEATURE_EVENT_FORK` and `UFFD_FEATURE_EVENT_REMAP`: areas of children, and areas that move, go on being watched.
pub(crate) const FOLLOWING: u64 = 1 << 1 | 1 << 2;

impl Watchers {
    /// The number of the one behind a descriptor of a stopped thread, and the features that it was made with; `None` if it is none.
    pub(crate) fn of(&mut self, tid: Tid, descriptor: i32) -> Option<(NonZeroU32, u64)> {
        let link = fs::read_link(format!("/proc/{tid}/fd/{descriptor}")).ok()?;
        if link.to_str() != Some("anon_inode:[userfaultfd]") {
            return None;
        }
        let features = features(tid, descriptor)?;
        let same = |known: &&Watcher| is_same((tid, descriptor), (known.tid, known.descriptor));
        let number = match self.known.iter().find(same) {
            Some(known) => known.number,
            None => {
                self.last += 1;
                let number = NonZeroU32::new(self.last)?;
                self.known.push(Watcher {
                    tid,
                    descriptor,
                    number,
                });
                number
            }
        };
        Some((number, features))
    }

    /// It has been closed: the next one at its number is another.
    pub(crate) fn forget(&mut self, number: NonZeroU32) {
        self.known.retain(|known| known.number != number);
    }
}

fn is_same(one: (Tid, i32), other: (Tid, i32)) -> bool {
    const KCMP_FILE: libc::c_int = 0;
    // SAFETY: takes integers only.
    let compared =
        unsafe { libc::syscall(libc::SYS_kcmp, one.0, other.0, KCMP_FILE, one.1, other.1) };
    // A kernel that was built without it has only the number.
    compared == 0 || compared == -1 && one == other
}

/// `API:` of `/proc/PID/fdinfo`: the interface, what is switched on, what there is.
fn features(tid: Tid, descriptor: i32) -> Option<u64> {
    let text = crate::proc_file::read_text(format!("/proc/{tid}/fdinfo/{descriptor}")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("API:"))?;
    u64::from_str_radix(line.trim().split(':').nth(1)?, 16).ok()
}
