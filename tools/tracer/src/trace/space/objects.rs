//! Facts that only show when a call returns: the object that was mapped, and other threads' changes
//! to the arguments.

use samara_linux::Tid;
use samara_linux::maps;
use samara_mm::{Call, Counted, File, FileArg, FileId, FileKind, PAGE_SIZE};

use super::{Space, Who};
use crate::trace::decode::{NodeMask, Nodes};
use crate::trace::segments;
use crate::trace::session::Session;
use crate::vm_flags::{file_id, vm_flags};

impl Space {
    /// Notes the node masks that the kernel may have read, if other threads have changed the mask
    /// since the entry. It may have read the current one, the previous call's, or an empty one
    /// between two changes. Any other value is [not known](super::unknown).
    pub(super) fn look_at_nodes(&mut self, nodes: u64, tid: Tid, at: NodeMask) {
        let others = &mut self.nodes_meanwhile;
        others.clear();
        let now = match at.read(tid) {
            Nodes::These(now) | Nodes::Beyond(now) => Some(now),
            Nodes::Refused => None,
        };
        if now != Some(nodes) {
            others.extend(now);
            others.extend([self.nodes_before, 0]);
        }
        others.retain(|other| *other != nodes);
        others.sort_unstable();
        others.dedup();
        self.nodes_before = nodes;
    }

    /// Completes the mapped object by the properties that only the map shows.
    pub(super) fn confirm_object(
        &mut self,
        call: &mut Call,
        who: Who,
        returned: i64,
        session: &mut Session,
    ) {
        if (-4095..0).contains(&returned) {
            doubt_segment(call, returned, session);
            return;
        }
        match call {
            Call::Mmap {
                file: FileArg::File(file),
                ..
            } => {
                self.confirm_file(file, returned as u64, session);
                if file.kind.is_driven()
                    && let Ok(flags) = vm_flags(who.tid)
                    && let Some((_, flags)) =
                        flags.iter().rfind(|(start, _)| *start <= returned as u64)
                {
                    *file = session.files.driven(file, *flags);
                }
            }
            // The segment belongs to another namespace.
            Call::Shmat { segment, .. } if segment.is_none() => {
                if self.maps.read(&mut session.map).is_ok()
                    && let Some(area) = session.map.at(returned as u64)
                {
                    let name = String::from_utf8_lossy(session.map.name(area));
                    let (id, size) = (id_of(area), area.end - area.start);
                    let page_size = self.page_size(who.tid, returned as u64);
                    *segment = Some(segments::shown(id, &name, size, page_size));
                }
            }
            Call::Shmat {
                segment: Some(segment),
                ..
            } if !session.files.segments.is_known(segment) => {
                if let Ok(Some(info)) = self.maps.at(returned as u64) {
                    let page_size = self.page_size(who.tid, returned as u64);
                    *segment = session
                        .files
                        .segments
                        .confirm(segment, file_id(&info), page_size);
                }
            }
            _ => {}
        }
    }

    /// Returns the page size of the area at `address`, or that of small pages if it cannot be read.
    fn page_size(&mut self, tid: Tid, address: u64) -> u64 {
        let told = self.maps.at(address).ok().flatten();
        let size = told.and_then(|info| {
            info.page_size
                .or_else(|| samara_linux::smaps::page_size(tid, info.start))
        });
        size.unwrap_or(PAGE_SIZE)
    }

    /// Takes a file's identity from the map, once for each file. Some file systems show another
    /// device in maps than `fstat` does, and the map is right. Likewise for a name that is too long
    /// for a link.
    pub(super) fn confirm_file(
        &mut self,
        file: &mut Counted<File>,
        address: u64,
        session: &mut Session,
    ) {
        if !session.files.unconfirmed(file) {
            return;
        }
        let unnamed = file.name.is_empty();
        if unnamed {
            if self.maps.read(&mut session.map).is_ok()
                && let Some(area) = session.map.at(address)
            {
                let name = session.map.name(area);
                *file = session.files.confirm(file, id_of(area), Some(name));
            }
        } else if let Ok(Some(info)) = self.maps.at(address) {
            let id = file_id(&info);
            // A mapping of /dev/zero has another object behind it, or none.
            if file.kind == FileKind::DevZero || id.inode == 0 {
                return;
            }
            *file = session.files.confirm(file, id, None);
        }
    }
}

/// Forgets the segment of a call that was refused for its address, if no map has shown that
/// segment. It may have huge pages, whose mappings begin and end elsewhere.
fn doubt_segment(call: &mut Call, returned: i64, session: &Session) {
    let Call::Shmat { segment, .. } = call else {
        return;
    };
    let is_unknown = segment
        .as_ref()
        .is_some_and(|segment| !session.files.segments.is_known(segment));
    if returned == -i64::from(libc::EINVAL) && is_unknown {
        *segment = None;
    }
}

fn id_of(area: &maps::Area) -> FileId {
    FileId {
        major: area.major,
        minor: area.minor,
        inode: area.inode,
    }
}
