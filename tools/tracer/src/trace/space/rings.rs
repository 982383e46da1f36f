//! The rings of `io_setup(2)`. The kernel maps a ring where it would place a mapping of the
//! program, and `io_destroy(2)` unmaps it.
//!
//! The engine performs both as `mmap` and `munmap`. The kernel's map shows a ring's length, and the
//! engine predicts its address.

use std::num::NonZeroU64;

use samara_conformance::counted::counted;
use samara_linux::memory;
use samara_mm::{Call, Counted, File, FileArg, FileId, FileKind, VmFlags};

use super::{Space, Who};
use crate::trace::files;
use crate::trace::session::Session;
use crate::vm_flags::vm_flags;

const READ_WRITE: u64 = 3;
const MAP_SHARED: u64 = 1;
const PAGE: u64 = 4096;

impl Space {
    /// Returns the mapping of a ring. With `None`, the ring is not known yet.
    pub(crate) fn ring(known: Option<(Counted<File>, u64)>) -> Call {
        let (file, len) = match known {
            Some((file, len)) => (FileArg::File(file), len),
            None => (FileArg::Bad, PAGE),
        };
        Call::Mmap {
            addr: 0,
            len,
            prot: READ_WRITE,
            flags: MAP_SHARED,
            file,
            offset: 0,
        }
    }

    /// Returns the mapping that a successful `io_setup` made, and its address, which is stored at
    /// `pointer` (with `narrow`, in 32 bits). If the pointer lies below a growing area, the kernel
    /// has grown that area before it mapped the ring.
    pub(crate) fn ring_set_up(
        &mut self,
        pointer: u64,
        narrow: bool,
        who: Who,
        session: &mut Session,
    ) -> Option<(Call, u64)> {
        let address = match narrow {
            true => memory::read_half(who.tid, pointer).ok()?,
            false => memory::read_word(who.tid, pointer).ok()?,
        };
        self.maps.read(&mut session.map).ok()?;
        let page = pointer & !(PAGE - 1);
        if self.lies_below_growth(pointer) && self.checker.grow_stack(page) {
            session.grown.push(page);
            self.note_grown(session);
        }
        let area = session.map.at(address)?;
        let flags = vm_flags(who.tid).ok()?;
        let (_, flags) = flags.iter().find(|(start, _)| *start == area.start)?;
        let id = FileId {
            major: area.major,
            minor: area.minor,
            inode: area.inode,
        };
        session.files.descriptions += 1;
        let name = String::from_utf8_lossy(session.map.name(area));
        let file = File {
            description: NonZeroU64::new(session.files.descriptions),
            kind: FileKind::Device,
            // Its file system forbids execution, so `READ_IMPLIES_EXEC` makes no difference.
            noexec: !flags.contains(VmFlags::MAYEXEC),
            driver: files::driver(*flags),
            ..File::new(id, name.into())
        };
        let len = area.end - area.start;
        // A former ring at this address has lost its place, although it was not destroyed.
        self.rings.retain(|(start, _)| *start != address);
        self.rings.push((address, len));
        Some((Self::ring(Some((counted(file), len))), address))
    }

    /// Returns the removal of the ring at `address`, if there is one.
    pub(crate) fn take_ring(&mut self, address: u64) -> Option<Call> {
        let found = self.rings.iter().position(|(start, _)| *start == address)?;
        let (addr, len) = self.rings.swap_remove(found);
        Some(Call::Munmap { addr, len })
    }

    /// Follows a ring that the program moves. A ring that the program unmaps is unmapped again when
    /// it is destroyed.
    pub(super) fn follow_rings(&mut self, call: &Call, returned: i64) {
        if self.rings.is_empty() || (-4095..0).contains(&returned) {
            return;
        }
        if let Call::Mremap { old_addr, .. } = *call
            && let Some(ring) = self.rings.iter_mut().find(|ring| ring.0 == old_addr)
        {
            ring.0 = returned as u64;
        }
    }
}
