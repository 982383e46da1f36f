//! The records, and how each is laid out.

use std::sync::Arc;

use samara_mm::{
    Call, Capabilities, Config, File, FileArg, FileId, FileKind, Layout, Limits, Overcommit,
    SeedVma, ShmSegment, VmFlags,
};

use crate::maps::{Area, Map};
use crate::seed::Seed;

/// First bytes of every file.
pub(super) const MAGIC: &[u8; 8] = b"SAMARATR";
/// Raised whenever the meaning of a byte changes.
pub(super) const VERSION: u32 = 1;

/// Names of the records and of their fields, for the description at the head of a file.
pub(super) const SCHEMA: &[(u8, &str, &str)] = &[
    (
        1,
        "file",
        "major minor inode name readable writable noexec kind huge_page_size seals description (numbered from 0 in order)",
    ),
    (2, "seed", "space reason config limits layout areas"),
    (3, "fork", "parent child"),
    (4, "written", "space start length"),
    (5, "grown", "space start"),
    (6, "limits", "space address_space data stack memlock"),
    (
        7,
        "call",
        "space thread returned written-at-entry there-is-more written-at-return kind arguments",
    ),
    (8, "unmodelled", "space thread returned name"),
    (
        9,
        "map",
        "space kept-in-front kept-behind areas (the kernel's map, against the one before it of this space)",
    ),
    (10, "gone", "space main"),
    (11, "end", "exit_code signal"),
    (12, "settings", "space config"),
];

/// Why an engine is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    Exec,
    /// Engine and kernel had parted, or a call was not modelled.
    Resync,
    /// A process appeared of which no fork had been seen.
    Adopted,
}

/// How a map differs from the one before it: areas kept in front, new ones, areas kept behind.
#[derive(Debug)]
pub(crate) struct MapChange {
    pub(crate) front: usize,
    pub(crate) behind: usize,
    pub(crate) areas: Map,
}

/// One step of a trace.
#[derive(Debug)]
pub(crate) enum Record {
    Seed {
        space: u32,
        reason: Reason,
        seed: Box<Seed>,
    },
    Fork {
        parent: u32,
        child: u32,
    },
    Written {
        space: u32,
        start: u64,
        end: u64,
    },
    Grown {
        space: u32,
        start: u64,
    },
    Limits {
        space: u32,
        limits: Limits,
    },
    Call {
        space: u32,
        thread: i32,
        returned: i64,
        /// Ranges (start, end) of areas that were newly found to hold anonymous pages, ascending: at entry …
        before: Box<[(u64, u64)]>,
        /// … and at the return, if another thread wrote meanwhile.
        after: Option<Box<[(u64, u64)]>>,
        call: Call,
    },
    Unmodelled {
        #[allow(dead_code, reason = "part of the record; replay only counts names")]
        space: u32,
        name: Box<str>,
    },
    /// The kernel's map, as what differs from the one before.
    Map {
        space: u32,
        change: Box<MapChange>,
    },
    Gone {
        space: u32,
        /// It was the last of the program that was started.
        main: bool,
    },
    Settings {
        space: u32,
        config: Box<Config>,
    },
    End {
        exit_code: i32,
        signal: i32,
    },
}

pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, (value << 1 ^ value >> 63) as u64);
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Reads fields; every method is `None` when the bytes end or make no sense.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Fields<'a> {
    #[inline]
    pub(super) fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    #[inline]
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        let mut shift = 0;
        loop {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
            shift += 7;
            if shift > 63 {
                return None;
            }
        }
    }

    pub(super) fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    pub(super) fn signed(&mut self) -> Option<i64> {
        let value = self.number()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(super) fn raw(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let text = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(text)
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.raw()?).ok()
    }

    /// A count of things that take at least one byte each, so that a damaged one cannot ask for much memory.
    pub(super) fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.bytes.len() - self.at).then_some(count)
    }
}

pub(super) fn put_file(out: &mut Vec<u8>, file: &File) {
    put(out, u64::from(file.id.major));
    put(out, u64::from(file.id.minor));
    put(out, file.id.inode);
    put_text(out, file.name.as_bytes());
    out.push(u8::from(file.readable));
    out.push(u8::from(file.writable));
    out.push(u8::from(file.noexec));
    let (kind, size) = match file.kind {
        FileKind::Regular => (0, 0),
        FileKind::Shmem => (1, 0),
        FileKind::HugeTlb(size) => (2, size),
        FileKind::DevZero => (3, 0),
        FileKind::Device => (4, 0),
        FileKind::Unaligned => (6, 0),
        _ => (5, 0),
    };
    out.push(kind);
    put(out, size);
    put(out, u64::from(file.seals));
    put(out, file.description);
}

pub(super) fn file(fields: &mut Fields<'_>) -> Option<File> {
    Some(File {
        id: FileId {
            major: fields.small()?,
            minor: fields.small()?,
            inode: fields.number()?,
        },
        name: fields.text()?.into(),
        readable: fields.flag()?,
        writable: fields.flag()?,
        noexec: fields.flag()?,
        kind: {
            let kind = fields.byte()?;
            let size = fields.number()?;
            match kind {
                0 => FileKind::Regular,
                1 => FileKind::Shmem,
                2 => FileKind::HugeTlb(size),
                3 => FileKind::DevZero,
                4 => FileKind::Device,
                5 => FileKind::Unmappable,
                6 => FileKind::Unaligned,
                _ => return None,
            }
        },
        seals: fields.small()?,
        description: fields.number()?,
    })
}

pub(super) fn put_config(out: &mut Vec<u8>, config: &Config) {
    put(out, config.task_size);
    put(out, config.mmap_min_addr);
    put(out, config.fixed_min_addr);
    put(out, u64::from(config.max_map_count));
    match config.overcommit {
        Overcommit::Heuristic => put(out, 0),
        Overcommit::Always => put(out, 1),
        Overcommit::Never { limit_pages } => {
            put(out, 2);
            put(out, limit_pages);
        }
    }
    let switches = [
        config.anon_vma_names,
        config.ksm,
        config.transparent_huge_pages,
        config.shmem_huge,
        config.pkeys,
        config.read_implies_exec,
        config.capabilities.ipc_lock,
        config.capabilities.sys_admin,
        config.capabilities.sys_nice,
        config.capabilities.sys_rawio,
        config.capabilities.sys_resource,
    ];
    let bits = switches
        .iter()
        .enumerate()
        .map(|(index, on)| u64::from(*on) << index)
        .sum();
    put(out, bits);
    put(out, config.stack_guard_gap);
    put(out, config.total_pages);
    put(out, u64::from(config.numa_nodes));
}

fn config(fields: &mut Fields<'_>) -> Option<Config> {
    let mut config = Config::default();
    config.task_size = fields.number()?;
    config.mmap_min_addr = fields.number()?;
    config.fixed_min_addr = fields.number()?;
    config.max_map_count = fields.small()?;
    config.overcommit = match fields.number()? {
        0 => Overcommit::Heuristic,
        1 => Overcommit::Always,
        2 => Overcommit::Never {
            limit_pages: fields.number()?,
        },
        _ => return None,
    };
    let bits = fields.number()?;
    let on = |index: u32| bits >> index & 1 == 1;
    config.anon_vma_names = on(0);
    config.ksm = on(1);
    config.transparent_huge_pages = on(2);
    config.shmem_huge = on(3);
    config.pkeys = on(4);
    config.read_implies_exec = on(5);
    config.capabilities = Capabilities {
        ipc_lock: on(6),
        sys_admin: on(7),
        sys_nice: on(8),
        sys_rawio: on(9),
        sys_resource: on(10),
    };
    config.stack_guard_gap = fields.number()?;
    config.total_pages = fields.number()?;
    config.numa_nodes = fields.small()?;
    Some(config)
}

pub(super) fn put_limits(out: &mut Vec<u8>, limits: &Limits) {
    for limit in [
        limits.address_space,
        limits.data,
        limits.stack,
        limits.memlock,
    ] {
        put(out, limit);
    }
}

fn limits(fields: &mut Fields<'_>) -> Option<Limits> {
    Some(Limits {
        address_space: fields.number()?,
        data: fields.number()?,
        stack: fields.number()?,
        memlock: fields.number()?,
    })
}

pub(super) fn put_layout(out: &mut Vec<u8>, layout: &Layout) {
    put(out, layout.mmap_base);
    put(out, layout.legacy_base);
    out.push(u8::from(layout.bottom_up));
    put(out, layout.start_brk);
    put(out, layout.brk);
    put(out, layout.data_size);
    put(out, layout.stack_top);
}

fn layout(fields: &mut Fields<'_>) -> Option<Layout> {
    Some(Layout {
        mmap_base: fields.number()?,
        legacy_base: fields.number()?,
        bottom_up: fields.flag()?,
        start_brk: fields.number()?,
        brk: fields.number()?,
        data_size: fields.number()?,
        stack_top: fields.number()?,
    })
}

/// One area of a seed; `file` is the file's number plus one, 0 for none.
pub(super) fn put_seed_area(out: &mut Vec<u8>, area: &SeedVma, file: u64) {
    put(out, area.start);
    put(out, area.end - area.start);
    out.push(area.prot as u8 & 7 | u8::from(area.shared) << 3);
    put(out, area.flags.map_or(0, |flags| flags.bits() << 1 | 1));
    put(out, area.offset);
    put(out, file);
    put_text(out, area.name.as_deref().unwrap_or("").as_bytes());
    out.push(u8::from(area.touched));
}

fn seed_area(fields: &mut Fields<'_>, files: &[Arc<File>]) -> Option<SeedVma> {
    let start = fields.number()?;
    let end = start.checked_add(fields.number()?)?;
    let perms = fields.byte()?;
    let flags = match fields.number()? {
        0 => None,
        bits => Some(VmFlags::from_bits_retain(bits >> 1)),
    };
    let offset = fields.number()?;
    let file = match fields.number()? {
        0 => None,
        number => Some(Arc::clone(files.get(usize::try_from(number - 1).ok()?)?)),
    };
    let name = fields.text()?;
    Some(SeedVma {
        start,
        end,
        prot: u64::from(perms & 7),
        shared: perms & 8 != 0,
        flags,
        offset,
        file,
        name: (!name.is_empty()).then(|| name.into()),
        touched: fields.flag()?,
    })
}

pub(super) fn put_ranges(out: &mut Vec<u8>, ranges: &[(u64, u64)]) {
    put(out, ranges.len() as u64);
    for (start, end) in ranges {
        put(out, *start);
        put(out, end - start);
    }
}

fn ranges(fields: &mut Fields<'_>) -> Option<Box<[(u64, u64)]>> {
    (0..fields.count()?)
        .map(|_| {
            let start = fields.number()?;
            Some((start, start.checked_add(fields.number()?)?))
        })
        .collect()
}

/// Writes a call. `file` gives a file's number.
pub(super) fn put_call(out: &mut Vec<u8>, call: &Call, file: &mut dyn FnMut(&Arc<File>) -> u64) {
    let mut numbers = |kind: u8, values: &[u64]| {
        out.push(kind);
        for &value in values {
            put(out, value);
        }
    };
    match call {
        Call::Mmap {
            addr,
            len,
            prot,
            flags,
            file: argument,
            offset,
        } => {
            let descriptor = match argument {
                FileArg::None => 0,
                FileArg::Bad => 1,
                FileArg::File(known) => 2 + file(known),
            };
            numbers(1, &[*addr, *len, *prot, *flags, descriptor, *offset]);
        }
        Call::Munmap { addr, len } => numbers(2, &[*addr, *len]),
        Call::Mprotect {
            addr,
            len,
            prot,
            pkey,
        } => numbers(3, &[*addr, *len, *prot, *pkey as u32 as u64]),
        Call::Mremap {
            old_addr,
            old_len,
            new_len,
            flags,
            new_addr,
        } => numbers(4, &[*old_addr, *old_len, *new_len, *flags, *new_addr]),
        Call::Brk { addr } => numbers(5, &[*addr]),
        Call::Madvise { addr, len, advice } => numbers(6, &[*addr, *len, *advice as u32 as u64]),
        Call::Mlock { addr, len, flags } => numbers(7, &[*addr, *len, *flags]),
        Call::Munlock { addr, len } => numbers(8, &[*addr, *len]),
        Call::Mlockall { flags } => numbers(9, &[*flags]),
        Call::Munlockall => numbers(10, &[]),
        Call::Msync { addr, len, flags } => numbers(11, &[*addr, *len, *flags]),
        Call::Mincore { addr, len } => numbers(12, &[*addr, *len]),
        Call::Mseal { addr, len, flags } => numbers(13, &[*addr, *len, *flags]),
        Call::RemapFilePages {
            addr,
            len,
            prot,
            pgoff,
            flags,
        } => numbers(14, &[*addr, *len, *prot, *pgoff, *flags]),
        Call::Shmat {
            segment,
            addr,
            flags,
        } => {
            let (number, size) = match segment {
                Some(segment) => (1 + file(&segment.file), segment.size),
                None => (0, 0),
            };
            numbers(15, &[*addr, *flags, number, size]);
        }
        Call::Shmdt { addr } => numbers(16, &[*addr]),
        Call::SetVmaName { addr, len, name } => {
            numbers(17, &[*addr, *len, u64::from(name.is_some())]);
            put_text(out, name.as_deref().unwrap_or("").as_bytes());
        }
        Call::Mbind {
            addr,
            len,
            mode,
            nodes,
            flags,
        } => numbers(18, &[*addr, *len, *mode, *nodes, *flags]),
        Call::PkeyAlloc { flags, rights } => numbers(19, &[*flags, *rights]),
        Call::PkeyFree { pkey } => numbers(20, &[*pkey as u32 as u64]),
        // A call that this version of the format cannot carry; the reader refuses it by its kind.
        _ => numbers(u8::MAX, &[]),
    }
}

fn call(fields: &mut Fields<'_>, files: &[Arc<File>]) -> Option<Call> {
    let known = |number: u64| -> Option<&Arc<File>> { files.get(usize::try_from(number).ok()?) };
    let kind = fields.byte()?;
    let f = fields;
    Some(match kind {
        1 => Call::Mmap {
            addr: f.number()?,
            len: f.number()?,
            prot: f.number()?,
            flags: f.number()?,
            file: match f.number()? {
                0 => FileArg::None,
                1 => FileArg::Bad,
                number => FileArg::File(Arc::clone(known(number - 2)?)),
            },
            offset: f.number()?,
        },
        2 => Call::Munmap {
            addr: f.number()?,
            len: f.number()?,
        },
        3 => Call::Mprotect {
            addr: f.number()?,
            len: f.number()?,
            prot: f.number()?,
            pkey: f.small()? as i32,
        },
        4 => Call::Mremap {
            old_addr: f.number()?,
            old_len: f.number()?,
            new_len: f.number()?,
            flags: f.number()?,
            new_addr: f.number()?,
        },
        5 => Call::Brk { addr: f.number()? },
        6 => Call::Madvise {
            addr: f.number()?,
            len: f.number()?,
            advice: f.small()? as i32,
        },
        7 => Call::Mlock {
            addr: f.number()?,
            len: f.number()?,
            flags: f.number()?,
        },
        8 => Call::Munlock {
            addr: f.number()?,
            len: f.number()?,
        },
        9 => Call::Mlockall { flags: f.number()? },
        10 => Call::Munlockall,
        11 => Call::Msync {
            addr: f.number()?,
            len: f.number()?,
            flags: f.number()?,
        },
        12 => Call::Mincore {
            addr: f.number()?,
            len: f.number()?,
        },
        13 => Call::Mseal {
            addr: f.number()?,
            len: f.number()?,
            flags: f.number()?,
        },
        14 => Call::RemapFilePages {
            addr: f.number()?,
            len: f.number()?,
            prot: f.number()?,
            pgoff: f.number()?,
            flags: f.number()?,
        },
        15 => {
            let (addr, flags, number, size) = (f.number()?, f.number()?, f.number()?, f.number()?);
            let segment = match number {
                0 => None,
                number => Some(Arc::new(ShmSegment {
                    file: Arc::clone(known(number - 1)?),
                    size,
                })),
            };
            Call::Shmat {
                segment,
                addr,
                flags,
            }
        }
        16 => Call::Shmdt { addr: f.number()? },
        17 => {
            let (addr, len, named) = (f.number()?, f.number()?, f.number()?);
            let name = f.text()?;
            Call::SetVmaName {
                addr,
                len,
                name: (named == 1).then(|| name.into()),
            }
        }
        18 => Call::Mbind {
            addr: f.number()?,
            len: f.number()?,
            mode: f.number()?,
            nodes: f.number()?,
            flags: f.number()?,
        },
        19 => Call::PkeyAlloc {
            flags: f.number()?,
            rights: f.number()?,
        },
        20 => Call::PkeyFree {
            pkey: f.small()? as i32,
        },
        _ => return None,
    })
}

/// Writes the kernel's map as what differs from `before`.
pub(super) fn put_map(out: &mut Vec<u8>, map: &Map, before: &Map) {
    let same = |a: &Area, b: &Area| {
        (a.start, a.end, a.perms, a.offset, a.major, a.minor, a.inode)
            == (b.start, b.end, b.perms, b.offset, b.major, b.minor, b.inode)
            && map.name(a) == before.name(b)
    };
    let (new, old) = (map.areas(), before.areas());
    let front = new.iter().zip(old).take_while(|(a, b)| same(a, b)).count();
    let behind = new[front..]
        .iter()
        .rev()
        .zip(old[front..].iter().rev())
        .take_while(|(a, b)| same(a, b))
        .count();
    put(out, front as u64);
    put(out, behind as u64);
    put(out, (new.len() - front - behind) as u64);
    for area in &new[front..new.len() - behind] {
        put(out, area.start);
        put(out, area.end - area.start);
        out.extend_from_slice(&area.perms);
        put(out, area.offset);
        put(out, u64::from(area.major));
        put(out, u64::from(area.minor));
        put(out, area.inode);
        put_text(out, map.name(area));
    }
}

fn map_change(fields: &mut Fields<'_>) -> Option<MapChange> {
    let front = usize::try_from(fields.number()?).ok()?;
    let behind = usize::try_from(fields.number()?).ok()?;
    let mut areas = Map::default();
    for _ in 0..fields.count()? {
        let start = fields.number()?;
        let end = start.checked_add(fields.number()?)?;
        let perms = [
            fields.byte()?,
            fields.byte()?,
            fields.byte()?,
            fields.byte()?,
        ];
        let offset = fields.number()?;
        let id = (fields.small()?, fields.small()?, fields.number()?);
        areas.push(Area::new(start, end, perms, offset, id), fields.raw()?);
    }
    Some(MapChange {
        front,
        behind,
        areas,
    })
}

/// What a reader must remember from one record to the next.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) files: Vec<Arc<File>>,
    /// How many areas the last map of each space has. Spaces are numbered from 0 in order.
    lengths: Vec<usize>,
}

impl Memory {
    /// A space that is known, or the next new one.
    fn new_space(&mut self, fields: &mut Fields<'_>) -> Option<u32> {
        let space = fields.small()?;
        let index = usize::try_from(space).ok()?;
        if index == self.lengths.len() {
            self.lengths.push(0);
        }
        (index < self.lengths.len()).then_some(space)
    }

    fn known_space(&self, fields: &mut Fields<'_>) -> Option<u32> {
        let space = fields.small()?;
        (usize::try_from(space).ok()? < self.lengths.len()).then_some(space)
    }
}

/// Reads one record; `Ok(None)` for one that only the memory needs.
pub(super) fn record(fields: &mut Fields<'_>, memory: &mut Memory) -> Option<Option<Record>> {
    Some(Some(match fields.byte()? {
        1 => {
            let file = file(fields)?;
            memory.files.push(Arc::new(file));
            return Some(None);
        }
        2 => {
            let space = memory.new_space(fields)?;
            let reason = match fields.byte()? {
                0 => Reason::Exec,
                1 => Reason::Resync,
                2 => Reason::Adopted,
                _ => return None,
            };
            let (config, limits, layout) = (config(fields)?, limits(fields)?, layout(fields)?);
            let areas = (0..fields.count()?)
                .map(|_| seed_area(fields, &memory.files))
                .collect::<Option<Vec<_>>>()?;
            if reason != Reason::Resync {
                memory.lengths[space as usize] = 0;
            }
            Record::Seed {
                space,
                reason,
                seed: Box::new(Seed {
                    config,
                    limits,
                    layout,
                    areas,
                }),
            }
        }
        3 => {
            let parent = memory.known_space(fields)?;
            let child = memory.new_space(fields)?;
            memory.lengths[child as usize] = memory.lengths[parent as usize];
            Record::Fork { parent, child }
        }
        4 => {
            let (space, start) = (memory.known_space(fields)?, fields.number()?);
            Record::Written {
                space,
                start,
                end: start.checked_add(fields.number()?)?,
            }
        }
        5 => Record::Grown {
            space: memory.known_space(fields)?,
            start: fields.number()?,
        },
        6 => Record::Limits {
            space: memory.known_space(fields)?,
            limits: limits(fields)?,
        },
        7 => {
            let (space, thread) = (memory.known_space(fields)?, fields.small()? as i32);
            let returned = fields.signed()?;
            let before = ranges(fields)?;
            let after = match fields.flag()? {
                false => None,
                true => Some(ranges(fields)?),
            };
            Record::Call {
                space,
                thread,
                returned,
                before,
                after,
                call: call(fields, &memory.files)?,
            }
        }
        8 => {
            let space = memory.known_space(fields)?;
            let (_thread, _returned) = (fields.small()?, fields.signed()?);
            Record::Unmodelled {
                space,
                name: fields.text()?.into(),
            }
        }
        9 => {
            let space = memory.known_space(fields)?;
            let change = map_change(fields)?;
            let length = &mut memory.lengths[space as usize];
            let kept = change.front.checked_add(change.behind)?;
            if kept > *length {
                return None;
            }
            *length = kept + change.areas.areas().len();
            Record::Map {
                space,
                change: Box::new(change),
            }
        }
        10 => {
            let space = memory.known_space(fields)?;
            memory.lengths[space as usize] = 0;
            Record::Gone {
                space,
                main: fields.flag()?,
            }
        }
        12 => Record::Settings {
            space: memory.known_space(fields)?,
            config: Box::new(config(fields)?),
        },
        11 => Record::End {
            exit_code: i32::try_from(fields.signed()?).ok()?,
            signal: i32::try_from(fields.signed()?).ok()?,
        },
        _ => return None,
    }))
}
