//! Facts about a call that cannot be known. They are looked for where engine and kernel differ, or
//! noted where they may matter later.
//!
//! # Arguments in memory
//! The kernel reads a call's arguments behind pointers (node masks, ranges, names) while it
//! performs the call. If another thread, or another process that shares the memory, can write
//! there, the values that the kernel read are unknown. Then a different answer is undecided, and so
//! is the state of the memory that the call names. That needs no request to the kernel, because the
//! engine knows which memory others can write.

use samara_conformance::replica::may_be_sealed;
use samara_conformance::undecided::Unknown;
use samara_linux::Tid;
use samara_linux::proc;
use samara_mm::{Call, Config, VmFlags};

use super::{Space, Who};
use crate::trace::decode;
use crate::trace::entry::Entry;
use crate::trace::files::seals_of_mapped;
use crate::trace::session::Session;

/// Advice that changes no property of an area, and gives it no `anon_vma`: `MADV_WILLNEED`,
/// `MADV_DONTNEED`, `MADV_FREE`, `MADV_REMOVE`, `MADV_COLD`, `MADV_PAGEOUT`,
/// `MADV_DONTNEED_LOCKED`.
const ON_PAGES: [i32; 7] = [3, 4, 8, 9, 20, 21, 24];
const ENOMEM: i64 = -(libc::ENOMEM as i64);

impl Space {
    /// Notes, at the entry of a call, if others can write to its arguments while the kernel reads
    /// them.
    pub(crate) fn look_who_writes(&mut self, entry: &Entry) {
        self.racing = decode::points_to(entry).is_some_and(|pointer| {
            let area = self.checker.engine().lookup(pointer);
            area.is_some_and(|area| {
                let flags = area.vma.flags;
                // The threads stand still during a request to a userfaultfd.
                let beside = self.users > 1 && !decode::tells_watcher(entry);
                flags.contains(VmFlags::MAYSHARE) || beside && flags.contains(VmFlags::WRITE)
            })
        });
    }

    /// Doubts the memory that a call has named, or may have, after a call whose arguments others
    /// could write.
    pub(super) fn doubt_arguments(&mut self, call: &Call, session: &mut Session) {
        if !std::mem::take(&mut self.racing) {
            return;
        }
        let range = match *call {
            Call::ProcessMadvise { advice, .. } if ON_PAGES.contains(&advice) => return,
            // It may have named any memory.
            Call::ProcessMadvise { .. } => (0, u64::MAX),
            _ => match call.range() {
                Some((start, len)) => (start, start.saturating_add(len)),
                None => return,
            },
        };
        self.doubt_for(range, Unknown::Argument, session);
    }

    /// Doubts the result of `remap_file_pages`, which maps a file again with its current seals. The
    /// engine does not see those.
    pub(super) fn doubt_seals(
        &mut self,
        call: &Call,
        who: Who,
        returned: i64,
        session: &mut Session,
    ) {
        let Call::RemapFilePages { addr, len, .. } = *call else {
            return;
        };
        let area = self.checker.engine().lookup(addr);
        let Some(file) = area.as_ref().and_then(|area| area.vma.file()) else {
            return;
        };
        let (area, seals) = (area.map(|area| (area.start, area.end)), file.seals);
        let sealed = may_be_sealed(file.kind) && returned == 0 && file.name.starts_with("/memfd:");
        let same = || area.and_then(|area| seals_of_mapped(who.tid, area)) == Some(seals);
        if sealed && !same() {
            self.doubt_for((addr, addr.saturating_add(len)), Unknown::Sealed, session);
        }
    }

    fn doubt_for(&mut self, (start, end): (u64, u64), unknown: Unknown, session: &mut Session) {
        if start < end {
            self.checker.doubt_for(start, end, unknown);
            if let Some(record) = &mut session.record {
                record.unknown(self.number, (start, end), unknown);
            }
        }
    }

    /// Looks for a reason on the machine why the answers to a call differ. Returns the settings
    /// that apply from then on, if those have changed.
    pub(super) fn look_for_unknown(
        &mut self,
        call: &Call,
        who: Who,
        (returned, own): (i64, i64),
        session: &mut Session,
    ) -> Option<Config> {
        let is_brk = matches!(call, Call::Brk { .. });
        // `brk` does not report its errors.
        let lacks = |answer: i64, other: i64| answer == ENOMEM || is_brk && answer < other;
        let mut changed = None;
        let unknown = if self.racing {
            Some(Unknown::Argument)
        } else {
            if lacks(returned, own) || lacks(own, returned) {
                changed = self.with_another_limit();
            }
            if changed.as_ref().is_some_and(|config| self.is_near(config)) {
                Some(Unknown::MaxMapCount)
            } else if lacks(returned, own) && is_memory_short(who.tid) {
                Some(Unknown::KernelMemory)
            } else {
                None
            }
        };
        if let Some(unknown) = unknown {
            self.checker.next_is_unknown(unknown);
            if let Some(record) = &mut session.record {
                record.unknown(self.number, (0, 0), unknown);
            }
        }
        changed
    }

    /// Reads `vm.max_map_count` again. Returns the settings with it, if it differs from the
    /// engine's.
    fn with_another_limit(&self) -> Option<Config> {
        let mut config = self.checker.engine().config().clone();
        let now = proc::sysctl("vm/max_map_count", u64::from(config.max_map_count)) as u32;
        let changed = now != config.max_map_count;
        config.max_map_count = now;
        changed.then_some(config)
    }

    /// Returns `true` if the number of areas is near the engine's limit, or near this one, so that
    /// the limit may decide.
    fn is_near(&self, other: &Config) -> bool {
        /// The most areas that a call adds.
        const MORE: usize = 3;
        let engine = self.checker.engine();
        let limit = engine.config().max_map_count.min(other.max_map_count);
        engine.area_count() + MORE >= limit as usize
    }
}

/// Returns `true` if the memory cgroup of a thread, or one above it, has reached its limit. Then
/// the kernel may have no memory for itself.
fn is_memory_short(tid: Tid) -> bool {
    let Ok(listed) = samara_linux::proc_file::read_text(format!("/proc/{tid}/cgroup")) else {
        return false;
    };
    let path = listed.lines().find_map(|line| line.strip_prefix("0::"));
    let of_second = path.is_some_and(|path| {
        groups("/sys/fs/cgroup", path).any(|group| has_reached(&group, "memory.events", "max"))
    });
    let path = listed.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers
            .split(',')
            .any(|name| name == "memory")
            .then_some(path)
    });
    let of_first = path.is_some_and(|path| {
        let mut groups = groups("/sys/fs/cgroup/memory", path);
        groups.any(|group| {
            samara_linux::proc_file::read_text(format!("{group}/memory.failcnt"))
                .is_ok_and(|text| text.trim() != "0")
        })
    });
    of_second || of_first
}

/// Returns a group, and those above it.
fn groups<'a>(root: &'a str, path: &'a str) -> impl Iterator<Item = String> + 'a {
    let above = std::iter::successors(Some(path), |path| Some(path.rsplit_once('/')?.0));
    above.map(move |path| format!("{root}{path}"))
}

fn has_reached(group: &str, file: &str, event: &str) -> bool {
    let events = samara_linux::proc_file::read_text(format!("{group}/{file}"));
    events.is_ok_and(|text| {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.any(|(name, count)| name == event && count != "0")
    })
}
