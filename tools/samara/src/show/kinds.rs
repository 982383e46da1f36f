//! The kinds of all areas of a map, with what else is known of a process.

use std::collections::HashMap;

use samara_linux::maps::{Area, Map};
use samara_linux::smaps::Figures;
use samara_mm::VmFlags;

use crate::kind::{Kind, is_library};

/// The known facts about a process besides its map.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    /// The name of the file that was executed.
    pub(crate) program: Option<Vec<u8>>,
    /// The start of the heap.
    pub(crate) start_brk: u64,
    /// Stack pointers of threads.
    pub(crate) stack_pointers: Vec<u64>,
    /// The size that new threads' stacks have by default; 0 if it is not known.
    pub(crate) stack_size: u64,
}

/// Returns the kind of each area, in one pass over files and one over areas.
pub(crate) fn kinds(map: &Map, told: &[(VmFlags, Figures)], hints: &Hints) -> Vec<Kind> {
    let areas = map.areas();
    let files = Files::look(map, hints);
    let mut kinds: Vec<Kind> = Vec::with_capacity(areas.len());
    for (i, area) in areas.iter().enumerate() {
        let name = map.name(area);
        let before = i
            .checked_sub(1)
            .map(|before| (&areas[before], kinds[before]))
            .filter(|(lower, _)| lower.end == area.start);
        let (flags, figures) = told
            .get(i)
            .copied()
            .unwrap_or((VmFlags::empty(), Figures::default()));
        kinds.push(kind(area, name, flags, &figures, before, &files));
    }
    stacks(map, told, &mut kinds, hints);
    kinds
}

fn kind(
    area: &Area,
    name: &[u8],
    flags: VmFlags,
    figures: &Figures,
    before: Option<(&Area, Kind)>,
    files: &Files,
) -> Kind {
    let executable = area.perms[2] == b'x';
    if name == b"[heap]" {
        return Kind::Heap;
    }
    if name.starts_with(b"[stack") || flags.contains(VmFlags::GROWSDOWN) {
        return Kind::Stack;
    }
    let given = name.starts_with(b"[anon");
    if name.starts_with(b"[") && !given {
        return Kind::Special;
    }
    let memory = area.perms[3] == b's' && (name.is_empty() || given)
        || name.starts_with(b"/dev/zero")
        || name.starts_with(b"/memfd:")
        || name.starts_with(b"/SYSV")
        || name.starts_with(b"/dev/shm/");
    if memory {
        return if executable { Kind::Jit } else { Kind::Shared };
    }
    if name.starts_with(b"/dev/") {
        return Kind::Device;
    }
    if !name.is_empty() && !given {
        return files.kind(area);
    }
    if executable {
        return Kind::Jit;
    }
    if &area.perms[..3] == b"---" && figures.resident == 0 && figures.swapped == 0 {
        return Kind::Reserved;
    }
    // Zeroed data lies behind the file's.
    if let Some((lower, kind @ (Kind::Program | Kind::Library))) = before
        && name.is_empty()
        && lower.inode != 0
        && area.perms[1] == b'w'
    {
        return kind;
    }
    Kind::Anonymous
}

/// Which files are which.
struct Files(HashMap<(u32, u32, u64), Kind>);

fn key(area: &Area) -> (u32, u32, u64) {
    (area.major, area.minor, area.inode)
}

impl Files {
    fn look(map: &Map, hints: &Hints) -> Self {
        let mut files = HashMap::new();
        let mut last = None;
        for area in map.areas() {
            let executable = area.perms[2] == b'x';
            if area.inode == 0 || last == Some((key(area), executable)) {
                continue;
            }
            last = Some((key(area), executable));
            let library = || executable || is_library(map.name(area));
            let kind = files.entry(key(area)).or_insert(Kind::File);
            if *kind == Kind::File && library() {
                *kind = Kind::Library;
            }
        }
        // The heap begins behind the program; its name tells for certain.
        let named =
            |area: &&Area| area.inode != 0 && hints.program.as_deref() == Some(map.name(area));
        let below = |area: &&Area| {
            area.inode != 0
                && area.end <= hints.start_brk
                && files.get(&key(area)) == Some(&Kind::Library)
        };
        let program = map
            .areas()
            .iter()
            .find(named)
            .or_else(|| map.areas().iter().rev().find(below))
            .map(key);
        if let Some(program) = program {
            files.insert(program, Kind::Program);
        }
        Files(files)
    }

    fn kind(&self, area: &Area) -> Kind {
        self.0.get(&key(area)).copied().unwrap_or(Kind::File)
    }
}

/// Finds the stacks of threads: where a stack pointer points to, or, if it is not known, what has the size of one together with its guard. A stack has a
/// guard below it, which is an area or a marker in it: pointers into other memory (coroutines) make no stack of it.
fn stacks(map: &Map, told: &[(VmFlags, Figures)], kinds: &mut [Kind], hints: &Hints) {
    const LARGEST_GUARD: u64 = 1 << 20;
    let areas = map.areas();
    let guard_of = |i: usize| {
        let below = i.checked_sub(1)?;
        let (guard, area) = (&areas[below], &areas[i]);
        let is_guard = kinds[below] == Kind::Reserved
            && guard.end == area.start
            && guard.end - guard.start <= LARGEST_GUARD;
        is_guard.then_some(below)
    };
    let may_be = |i: usize| {
        kinds[i] == Kind::Anonymous
            && areas[i].perms == *b"rw-p"
            && (map.name(&areas[i]).is_empty() || map.name(&areas[i]).starts_with(b"[anon:stack"))
    };
    let marked = |i: usize| {
        told.get(i)
            .is_some_and(|(flags, _)| flags.contains(VmFlags::GUARDED))
    };
    let mut found = Vec::new();
    for &pointer in &hints.stack_pointers {
        let i = areas.partition_point(|area| area.end <= pointer);
        let inside = areas.get(i).is_some_and(|area| area.start <= pointer);
        if inside && may_be(i) && (guard_of(i).is_some() || marked(i)) {
            found.push(i);
        }
    }
    if hints.stack_size != 0 {
        for (i, area) in areas.iter().enumerate() {
            let start = guard_of(i).map_or(area.start, |guard| areas[guard].start);
            let sized = area.end - start == hints.stack_size;
            if sized && may_be(i) && (start != area.start || marked(i)) {
                found.push(i);
            }
        }
    }
    let guards: Vec<_> = found.iter().filter_map(|&i| guard_of(i)).collect();
    for i in found.into_iter().chain(guards) {
        kinds[i] = Kind::Stack;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds_of(text: &str, hints: &Hints) -> Vec<Kind> {
        let mut map = Map::default();
        for line in text.lines() {
            map.push_line(line.as_bytes()).unwrap();
        }
        kinds(&map, &[], hints)
    }

    #[test]
    fn areas_are_what_they_are() {
        let hints = Hints {
            program: Some(b"/bin/a".to_vec()),
            stack_pointers: vec![0x7fff_0000_1000 + 0x80_2000 - 8],
            ..Hints::default()
        };
        let found = kinds_of(
            "\
1000-2000 r-xp 00000000 fe:00 1 /bin/a
2000-3000 rw-p 00001000 fe:00 1 /bin/a
3000-4000 rw-p 00000000 00:00 0
5000-6000 rw-p 00000000 00:00 0 [heap]
10000-11000 r--p 00000000 fe:00 2 /lib/libc.so.6
11000-12000 r--s 00000000 fe:00 3 /usr/lib/locale/locale-archive
12000-13000 rwxp 00000000 00:00 0
13000-14000 rw-s 00000000 00:01 9 /dev/zero (deleted)
14000-15000 rw-s 00000000 00:06 10 /dev/dri/card0
15000-16000 rw-p 00000000 00:00 0 [anon:cache]
16000-18000 ---p 00000000 00:00 0
7fff00000000-7fff00001000 ---p 00000000 00:00 0
7fff00001000-7fff00803000 rw-p 00000000 00:00 0
7fff10000000-7fff10021000 rw-p 00000000 00:00 0 [stack]
7fff10030000-7fff10031000 r-xp 00000000 00:00 0 [vdso]
",
            &hints,
        );
        use Kind::*;
        let expected = [
            Program, Program, Program, Heap, Library, File, Jit, Shared, Device, Anonymous,
            Reserved, Stack, Stack, Stack, Special,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_thread_that_runs_has_a_stack_of_the_usual_size() {
        let text = "\
7fff00000000-7fff00001000 ---p 00000000 00:00 0
7fff00001000-7fff00800000 rw-p 00000000 00:00 0
";
        let hints = Hints {
            stack_size: 8 << 20,
            ..Hints::default()
        };
        assert_eq!(kinds_of(text, &hints), [Kind::Stack; 2]);
        assert_eq!(
            kinds_of(text, &Hints::default()),
            [Kind::Reserved, Kind::Anonymous]
        );
    }
}
