//! The userfaultfd behind a descriptor of a traced program.
//!
//! The tracer holds no descriptor here, because closing the last one removes all registrations.

use std::fs;
use std::num::NonZeroU32;
use std::os::unix::fs::MetadataExt;

use samara_linux::Tid;

/// The userfaultfds that have been named so far.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    known: Vec<Watcher>,
    last: u32,
}

#[derive(Debug)]
struct Watcher {
    /// The inode, of which each userfaultfd has its own (observed from Linux 6.1 on). It still
    /// identifies a userfaultfd after all users of others have ended.
    inode: u64,
    number: NonZeroU32,
    /// The address space that it serves: that of its maker, not of its users. `None` if its
    /// creation was not traced, until it shows a registration.
    owner: Option<u32>,
}

/// Shown among the features once an interface was agreed upon (`UFFDIO_API`), whatever it is
/// (observed). Before, every other request is `EINVAL`.
pub(crate) const AGREED: u64 = 1 << 31;
/// `UFFD_FEATURE_WP_ASYNC`: affects which areas may be registered.
pub(crate) const WP_ASYNC: u64 = 1 << 15;
/// `UFFD_FEATURE_EVENT_FORK` and `UFFD_FEATURE_EVENT_REMAP`: children's areas and moved areas stay
/// registered.
pub(crate) const FOLLOWING: u64 = 1 << 1 | 1 << 2;

impl Watchers {
    /// Returns the number of the userfaultfd behind a descriptor of a stopped thread, and its
    /// features. `None` if it is not a userfaultfd.
    pub(crate) fn of(&mut self, tid: Tid, descriptor: i32) -> Option<(NonZeroU32, u64)> {
        let inode = inode(tid, descriptor)?;
        let features = features(tid, descriptor)?;
        let number = self.named(inode)?.number;
        Some((number, features))
    }

    /// Notes that the userfaultfd behind a descriptor has just been made in the address space
    /// `owner`.
    pub(crate) fn made(&mut self, tid: Tid, descriptor: i32, owner: u32) {
        let Some(inode) = inode(tid, descriptor) else {
            return;
        };
        // A former one with this inode is gone, unless another thread has already used the new one.
        self.known
            .retain(|known| known.inode != inode || known.owner.is_none());
        if let Some(watcher) = self.named(inode) {
            watcher.owner = Some(owner);
        }
    }

    /// Returns the userfaultfd with an inode, which gets a number if it has none.
    fn named(&mut self, inode: u64) -> Option<&mut Watcher> {
        let known = self.known.iter().position(|known| known.inode == inode);
        let index = match known {
            Some(index) => index,
            None => {
                self.last += 1;
                let number = NonZeroU32::new(self.last)?;
                self.known.push(Watcher {
                    inode,
                    number,
                    owner: None,
                });
                self.known.len() - 1
            }
        };
        self.known.get_mut(index)
    }

    /// Returns the number of the address space that a userfaultfd serves, if that is known.
    pub(crate) fn owner(&self, number: NonZeroU32) -> Option<u32> {
        let known = self.known.iter().find(|known| known.number == number);
        known.and_then(|known| known.owner)
    }

    /// Notes that a userfaultfd has shown a registration in an address space.
    pub(crate) fn is_for(&mut self, number: NonZeroU32, owner: u32) {
        let mut known = self.known.iter_mut();
        if let Some(known) = known.find(|known| known.number == number) {
            known.owner = Some(owner);
        }
    }

    /// Forgets a userfaultfd that has been closed. The next one with its inode is another one.
    pub(crate) fn forget(&mut self, number: NonZeroU32) {
        self.known.retain(|known| known.number != number);
    }
}

/// Returns the inode of the userfaultfd behind a descriptor, or `None` if it is not a userfaultfd.
fn inode(tid: Tid, descriptor: i32) -> Option<u64> {
    let path = format!("/proc/{tid}/fd/{descriptor}");
    let link = fs::read_link(&path).ok()?;
    if link.to_str() != Some("anon_inode:[userfaultfd]") {
        return None;
    }
    Some(fs::metadata(&path).ok()?.ino())
}

/// Returns the features that are switched on, from the field `API:` of `/proc/PID/fdinfo`: the
/// interface, the features that are on, all features.
fn features(tid: Tid, descriptor: i32) -> Option<u64> {
    let text =
        samara_linux::proc_file::read_text(format!("/proc/{tid}/fdinfo/{descriptor}")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("API:"))?;
    u64::from_str_radix(line.trim().split(':').nth(1)?, 16).ok()
}
