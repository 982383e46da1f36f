//! Which userfaultfd a descriptor of a traced program stands for.
//!
//! No descriptor is held here: the last one that is closed lets go of all that it watched.

use std::fs;
use std::num::NonZeroU32;
use std::os::unix::fs::MetadataExt;

use samara_linux::Tid;

/// Those that were named so far.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    known: Vec<Watcher>,
    last: u32,
}

#[derive(Debug)]
struct Watcher {
    /// Each has an inode of its own (observed from 6.1 on). It identifies a descriptor's
    /// userfaultfd when the process that made it is gone.
    inode: u64,
    number: NonZeroU32,
    /// Its address space: that of its maker, whichever process uses it. `None` if its creation was
    /// not traced, until it is seen to watch a range.
    owner: Option<u32>,
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
        let inode = inode(tid, descriptor)?;
        let features = features(tid, descriptor)?;
        let number = self.named(inode)?.number;
        Some((number, features))
    }

    /// The one behind a descriptor has just been made, in the address space `owner`.
    pub(crate) fn made(&mut self, tid: Tid, descriptor: i32, owner: u32) {
        let Some(inode) = inode(tid, descriptor) else {
            return;
        };
        // One that had the inode before is gone, unless another thread has used this one already.
        self.known
            .retain(|known| known.inode != inode || known.owner.is_none());
        if let Some(watcher) = self.named(inode) {
            watcher.owner = Some(owner);
        }
    }

    /// The one with an inode, which is named if it was not.
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

    /// The number of the address space that one is for, if that is known.
    pub(crate) fn owner(&self, number: NonZeroU32) -> Option<u32> {
        let known = self.known.iter().find(|known| known.number == number);
        known.and_then(|known| known.owner)
    }

    /// One has been seen to watch something in an address space.
    pub(crate) fn is_for(&mut self, number: NonZeroU32, owner: u32) {
        let mut known = self.known.iter_mut();
        if let Some(known) = known.find(|known| known.number == number) {
            known.owner = Some(owner);
        }
    }

    /// It has been closed: the next one at its number is another.
    pub(crate) fn forget(&mut self, number: NonZeroU32) {
        self.known.retain(|known| known.number != number);
    }
}

/// The inode of the userfaultfd that a descriptor stands for, if it does.
fn inode(tid: Tid, descriptor: i32) -> Option<u64> {
    let path = format!("/proc/{tid}/fd/{descriptor}");
    let link = fs::read_link(&path).ok()?;
    if link.to_str() != Some("anon_inode:[userfaultfd]") {
        return None;
    }
    Some(fs::metadata(&path).ok()?.ino())
}

/// `API:` of `/proc/PID/fdinfo`: the interface, what is switched on, what there is.
fn features(tid: Tid, descriptor: i32) -> Option<u64> {
    let text =
        samara_linux::proc_file::read_text(format!("/proc/{tid}/fdinfo/{descriptor}")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("API:"))?;
    u64::from_str_radix(line.trim().split(':').nth(1)?, 16).ok()
}
