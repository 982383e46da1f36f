//! The engine's map against the kernel's.

use std::fmt::Write;

use samara_linux::maps::{self, Map};
use samara_mm::{AddressSpace, MapsLine, VmFlags};

use crate::orderings::Range;

/// The correspondence of the engine's unnamed objects to the kernel's. Shared anonymous memory gets a
/// number from either, and the two must correspond one to one.
#[derive(Debug, Default, Clone)]
pub struct Alike {
    pairs: Vec<(u64, u64)>,
}

impl Alike {
    /// Returns the kernel's number of one of the engine's objects, if it is known.
    fn shown(&self, own: u64) -> Option<u64> {
        let pair = self.pairs.iter().find(|pair| pair.0 == own)?;
        Some(pair.1)
    }

    /// Notes that the two are the same object; false if either is known to be another's.
    fn agree(&mut self, own: u64, kernel: u64) -> bool {
        if self.pairs.contains(&(own, kernel)) {
            return true;
        }
        // The engine never uses a number twice, while the kernel may, once the object is gone.
        if self.pairs.iter().any(|pair| pair.0 == own) {
            return false;
        }
        self.pairs.retain(|pair| pair.1 != kernel);
        self.pairs.push((own, kernel));
        true
    }
}

/// The first place where two maps differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference {
    /// The number of areas before it that agree.
    pub(crate) index: usize,
    /// The kernel's area there is the engine's, begun lower: it may have grown down to this address.
    pub(crate) growth: Option<u64>,
}

const SHARED_ANONYMOUS: &[u8] = b"/dev/zero (deleted)";
/// Memory of the pool of huge pages without a file of the program's.
const ANONYMOUS_HUGE: &[u8] = b"/anon_hugepage (deleted)";

/// Compares two maps line by line, in one pass over both. Names of files may have changed while they were
/// mapped, as long as the file is the same: `renamed` counts these.
///
/// # Errors
/// The first difference.
pub fn compare<'a>(
    engine: impl Iterator<Item = MapsLine<'a>>,
    kernel: &Map,
    alike: &mut Alike,
    renamed: &mut u64,
) -> Result<(), Difference> {
    let mut others = kernel.areas().iter();
    let mut index = 0;
    for line in engine {
        let Some(area) = others.next() else {
            return Err(Difference {
                index,
                growth: None,
            });
        };
        let name = kernel.name(area);
        // The engine has names as text: what is none in them is replaced.
        let same_name = line.name.as_bytes() == name || line.name == String::from_utf8_lossy(name);
        let same_body = line.end == area.end && line.perms == area.perms;
        if line.start != area.start || !same_body || line.offset != area.offset {
            let grown = same_body && same_name && area.start < line.start;
            return Err(Difference {
                index,
                growth: grown.then_some(area.start),
            });
        }
        let id = line.id;
        let same_object = if is_invented(&line, name) {
            alike.agree(id.inode, area.inode)
        } else {
            (id.major, id.minor, id.inode) == (area.major, area.minor, area.inode)
        };
        if !same_object || !same_name && area.inode == 0 {
            return Err(Difference {
                index,
                growth: None,
            });
        }
        *renamed += u64::from(!same_name);
        index += 1;
    }
    if others.next().is_some() {
        return Err(Difference {
            index,
            growth: None,
        });
    }
    Ok(())
}

/// Returns `true` if the engine has made up the number of what it has mapped in an area with this name.
fn is_invented(line: &MapsLine<'_>, name: &[u8]) -> bool {
    let shared = line.flags.contains(VmFlags::MAYSHARE);
    line.id.inode != 0 && has_no_file(name, shared)
}

/// Returns `true` if maps show memory with this name, which no program has opened, as a file.
fn has_no_file(name: &[u8], shared: bool) -> bool {
    shared && (name == SHARED_ANONYMOUS || name.starts_with(b"[anon_shmem:"))
        || name == ANONYMOUS_HUGE
}

/// Areas of one of two maps that are several areas in the other, ascending, in pieces where they overlap; and those that have another name where `unnamed` says that
/// their names are not known. `None` if the maps differ otherwise, too.
pub(crate) fn joints<'a>(
    engine: impl Iterator<Item = MapsLine<'a>>,
    kernel: &Map,
    unnamed: &dyn Fn(Range) -> bool,
) -> Option<Vec<Range>> {
    let mut found = Vec::new();
    let mut own = engine.peekable();
    let mut theirs = kernel.areas().iter().peekable();
    let mut at = 0;
    loop {
        let (a, b) = match (own.peek(), theirs.peek()) {
            (None, None) => return Some(found),
            (Some(a), Some(b)) => (a, *b),
            _ => return None,
        };
        let name = kernel.name(b);
        // Names of files may change, and the heap's is that of its first area.
        let plain = |name: &[u8]| matches!(name, b"" | b"[heap]");
        let same_name = b.inode != 0
            || a.name == String::from_utf8_lossy(name)
            || plain(a.name.as_bytes()) && plain(name);
        let shared = a.flags.contains(VmFlags::MAYSHARE);
        let same_object =
            shared || (a.id.major, a.id.minor, a.id.inode) == (b.major, b.minor, b.inode);
        // Both go on from here, or both begin.
        let starts = [a.start.max(at), b.start.max(at)];
        let piece = (starts[0], a.end.min(b.end));
        let renamed = !same_name && b.inode == 0 && unnamed(piece);
        let offset = |start: u64, offset: u64| {
            let into = if b.inode == 0 { 0 } else { starts[0] - start };
            offset.wrapping_add(into)
        };
        let alike = starts[0] == starts[1]
            && a.perms == b.perms
            && offset(a.start, a.offset) == offset(b.start, b.offset)
            && same_object
            && (same_name || renamed);
        if !alike {
            return None;
        }
        if renamed {
            found.push(piece);
        }
        if a.start != b.start {
            found.push((a.start.min(b.start), a.end.max(b.end)));
        }
        at = a.end.min(b.end);
        let ends = (a.end == at, b.end == at);
        if ends.0 {
            own.next();
        }
        if ends.1 {
            theirs.next();
        }
    }
}

/// Areas that are shown before and behind the ones that differ.
const CONTEXT: usize = 2;
/// Areas shown at most.
const LINES: usize = 24;

/// Returns both maps where they differ, with a little around it: engine on the left, kernel on the right, one row for each start.
///
/// Objects that the engine has numbered itself get the device and the number that the kernel shows for
/// the same ones.
pub fn side_by_side(
    engine: &AddressSpace,
    kernel: &Map,
    alike: &Alike,
    difference: &Difference,
) -> String {
    let own = engine_lines(engine, kernel, alike);
    let theirs = kernel_lines(kernel);
    let from = difference.index.saturating_sub(CONTEXT);
    let same_behind = own
        .iter()
        .rev()
        .zip(theirs.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let part = |lines: &'_ [Line]| {
        let from = from.min(lines.len());
        let until = (lines.len() - same_behind.min(lines.len()) + CONTEXT).min(lines.len());
        from..until.max(from)
    };
    columns(&own[part(&own)], &theirs[part(&theirs)])
}

/// The start of an area, and its line.
type Line = (u64, String);

fn engine_lines(engine: &AddressSpace, kernel: &Map, alike: &Alike) -> Vec<Line> {
    let line = |line: MapsLine<'_>| {
        let numbered = is_invented(&line, line.name.as_bytes());
        let shown = alike.shown(line.id.inode).filter(|_| numbered);
        let of = |area: &&maps::Area, inode| {
            area.inode == inode && has_no_file(kernel.name(area), area.perms[3] == b's')
        };
        let id = shown
            .and_then(|inode| kernel.areas().iter().find(|area| of(area, inode)))
            .map_or((line.id.major, line.id.minor, line.id.inode), |area| {
                (area.major, area.minor, area.inode)
            });
        let range = (line.start, line.end);
        let text = text(range, line.perms, line.offset, id, short(line.name));
        (line.start, text)
    };
    engine.maps().map(line).collect()
}

fn kernel_lines(kernel: &Map) -> Vec<Line> {
    let line = |area: &maps::Area| {
        let id = (area.major, area.minor, area.inode);
        let name = String::from_utf8_lossy(kernel.name(area));
        let range = (area.start, area.end);
        let text = text(range, area.perms, area.offset, id, short(&name));
        (area.start, text)
    };
    kernel.areas().iter().map(line).collect()
}

/// Returns two columns of lines, with lines of one start in one row, and a mark where they differ.
fn columns(left: &[Line], right: &[Line]) -> String {
    let width = left.iter().map(|(_, text)| text.len()).max();
    let width = width.unwrap_or(0).max(6);
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    let mut out = String::new();
    let _ = writeln!(out, "  {:width$} | kernel", "engine");
    let mut shown = 0;
    loop {
        let key = match (left.peek(), right.peek()) {
            (None, None) => break,
            (Some(a), None) => a.0,
            (None, Some(b)) => b.0,
            (Some(a), Some(b)) => a.0.min(b.0),
        };
        if shown == LINES {
            let _ = writeln!(out, "  … and more");
            break;
        }
        let empty = String::new();
        let a = left
            .next_if(|(start, _)| *start == key)
            .map_or(&empty, |(_, text)| text);
        let b = right
            .next_if(|(start, _)| *start == key)
            .map_or(&empty, |(_, text)| text);
        let mark = if a == b { ' ' } else { '!' };
        let _ = writeln!(out, "{mark} {a:width$} | {b}");
        shown += 1;
    }
    out
}

fn text(range: (u64, u64), perms: [u8; 4], offset: u64, id: (u32, u32, u64), name: &str) -> String {
    let mut text = String::new();
    let _ = maps::format_line(&mut text, range, perms, offset, id, name);
    text
}

/// Returns the last part of a path, so that two maps fit side by side.
fn short(name: &str) -> &str {
    match name.rsplit_once('/') {
        Some((_, last)) if name.starts_with('/') && !last.is_empty() => last,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use samara_mm::{Config, Counted, File, FileId, Layout, Limits, MmapOptions};

    use super::*;

    #[test]
    fn a_name_that_is_no_text_has_not_changed() {
        let (config, limits) = (Config::default(), Limits::default());
        let mut space = AddressSpace::new(config, limits, Layout::default()).unwrap();
        let id = FileId {
            major: 8,
            minor: 1,
            inode: 7,
        };
        let name = b"/tmp/\xff \xc3\xa9";
        let file = Counted::try_new(File::new(id, String::from_utf8_lossy(name).into())).unwrap();
        space
            .mmap(&MmapOptions::file(file, 0, 0x1000).fixed(0x10000))
            .unwrap();
        for (shown, changed) in [(&name[..], 0), (b"/tmp/other", 1)] {
            let mut map = Map::default();
            let line = [b"00010000-00011000 ---p 00000000 08:01 7    ", shown].concat();
            map.push_line(&line).unwrap();
            let mut renamed = 0;
            let mut alike = Alike::default();
            assert_eq!(
                compare(space.maps(), &map, &mut alike, &mut renamed),
                Ok(())
            );
            assert_eq!(renamed, changed);
        }
    }
}
