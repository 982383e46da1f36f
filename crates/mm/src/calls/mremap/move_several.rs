//! Moves of several VMAs by one call.

use super::Request;
use crate::errno::Errno;
use crate::file::FileKind;
use crate::flags::VmFlags;
use crate::pages::Pages;
use crate::space::AddressSpace;
use crate::vma::{Backing, Vma};

impl AddressSpace {
    /// Moves all VMAs of the old range to a fixed address, with the holes between them. No length
    /// changes.
    ///
    /// # Errors
    /// `EFAULT` at a VMA that cannot move with others, and those of each move. VMAs below have
    /// moved.
    pub(super) fn move_several<P: Pages + ?Sized>(
        &mut self,
        request: &Request,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        let end = request.old.wrapping_add(request.old_len);
        let first = self.areas.at(request.old).ok_or(Errno::EFAULT)?;
        if first.end >= end {
            return self.mremap_one(request, None, pages);
        }
        let mut next = request.old;
        while let Some(area) = self.areas.find_in(next, end) {
            let from = area.start.max(next);
            let to = area.end.min(end);
            if !may_move_with_others(area.vma) {
                return Err(Errno::EFAULT);
            }
            let part = Request {
                old: from,
                old_len: to - from,
                new_len: to - from,
                new: request.new + (from - request.old),
                ..*request
            };
            self.mremap_one(&part, None, pages)?;
            next = to;
        }
        Ok(request.new)
    }
}

/// Returns `true` if the VMA may move with others. Attached segments of small pages, private
/// mappings of `/dev/zero` and files of some kinds choose their address themselves and move alone,
/// and so does a VMA that is registered with a userfaultfd. Few drivers choose addresses; the
/// engine does not know which.
fn may_move_with_others(vma: &Vma) -> bool {
    if vma.flags.intersects(VmFlags::UFFD) {
        return false;
    }
    match &vma.backing {
        Backing::File(file) => !matches!(
            file.kind,
            FileKind::DevZero | FileKind::Placed | FileKind::PlacedDevice
        ),
        Backing::Shm { segment, .. } => matches!(segment.file.kind, FileKind::HugeTlb(_)),
        Backing::Anonymous | Backing::SharedAnonymous(_) | Backing::Special(_) => true,
    }
}
