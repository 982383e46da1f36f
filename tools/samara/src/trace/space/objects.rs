//! What only shows when a call returns: which object was mapped, and what other threads made of its arguments.

use samara_mm::{Call, Counted, File, FileArg, FileId, FileKind};

use super::{Space, Who};
use crate::maps;
use crate::trace::decode::{NodeMask, Nodes};
use crate::trace::proc;
use crate::trace::ptrace::Tid;
use crate::trace::segments;
use crate::trace::session::Session;

impl Space {
    /// Other threads may have changed a set of nodes while the kernel read it. It may have found what is there now, what the call before named, or
    /// nothing, as between two changes.
    pub(super) fn look_at_nodes(&mut self, nodes: u64, tid: Tid, at: NodeMask) {
        let others = &mut self.nodes_meanwhile;
        others.clear();
        if let Nodes::These(now) | Nodes::Beyond(now) = at.read(tid) {
            others.push(now);
        }
        others.extend([self.nodes_before, 0]);
        others.retain(|other| *other != nodes);
        others.sort_unstable();
        others.dedup();
        self.nodes_before = nodes;
    }

    /// What only the map shows of the object that was mapped.
    pub(super) fn confirm_object(
        &mut self,
        call: &mut Call,
        who: Who,
        returned: i64,
        session: &mut Session,
    ) {
        if (-4095..0).contains(&returned) {
            return;
        }
        match call {
            Call::Mmap {
                file: FileArg::File(file),
                ..
            } => {
                self.confirm_file(file, returned as u64, session);
                if file.kind.is_driven()
                    && let Ok(flags) = proc::vm_flags(who.tid)
                    && let Some((_, flags)) =
                        flags.iter().rfind(|(start, _)| *start <= returned as u64)
                {
                    *file = session.files.driven(file, *flags);
                }
            }
            // It is of a namespace that is not ours.
            Call::Shmat { segment, .. } if segment.is_none() => {
                if self.maps.read(&mut session.map).is_ok()
                    && let Some(area) = session.map.at(returned as u64)
                {
                    let name = String::from_utf8_lossy(session.map.name(area));
                    let id = id_of(area);
                    *segment = Some(segments::segment_of(id, &name, area.end - area.start));
                }
            }
            _ => {}
        }
    }

    /// Where file systems show another device in maps than `fstat` tells, the map is right: asked once for each file. So it is where a name
    /// is too long for a link.
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
            let id = FileId {
                major: info.major,
                minor: info.minor,
                inode: info.inode,
            };
            // A mapping of /dev/zero has another object, or none, behind it.
            if file.kind == FileKind::DevZero || id.inode == 0 {
                return;
            }
            *file = session.files.confirm(file, id, None);
        }
    }
}

fn id_of(area: &maps::Area) -> FileId {
    FileId {
        major: area.major,
        minor: area.minor,
        inode: area.inode,
    }
}
