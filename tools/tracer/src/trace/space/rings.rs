//! The rings of `io_setup(2)`: the kernel maps one where a mapping of the program's own would go, and `io_destroy(2)` unmaps it.
//!
//! The engine performs both as what they are, `mmap` and `munmap`. How long a ring is, the kernel's map tells; where it goes, the engine predicts.

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
    /// The mapping of a ring, or of one that is not known yet.
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

    /// When `io_setup` has succeeded: the mapping that it made, and its address, which the program finds at `pointer`
    /// (`narrow`: in 32 bits). Where that lies below an area that grows, the kernel has read it, and so grown the area, before it mapped the ring.
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
            // Of its file system nothing may be executed, and so `READ_IMPLIES_EXEC` makes no difference.
            noexec: !flags.contains(VmFlags::MAYEXEC),
            driver: files::driver(*flags),
            ..File::new(id, name.into())
        };
        let len = area.end - area.start;
        // An earlier ring has lost its place, although it was not destroyed.
        self.rings.retain(|(start, _)| *start != address);
        self.rings.push((address, len));
        Some((Self::ring(Some((counted(file), len))), address))
    }

    /// The removal of the ring at `address`, if there is one.
    pub(crate) fn take_ring(&mut self, address: u64) -> Option<Call> {
        let found = self.rings.iter().position(|(start, _)| *start == address)?;
        let (addr, len) = self.rings.swap_remove(found);
        Some(Call::Munmap { addr, len })
    }

    /// A ring that a program moves goes on where it is then. One that it unmaps is unmapped once more when it is destroyed.
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
