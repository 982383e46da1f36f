//! The state that an engine starts from or learns later: files, settings, limits, layout, areas,
//! and written ranges.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::num::NonZeroU64;

use samara_mm::{
    Calls, Capabilities, Config, Counted, DriverFlags, File, FileId, FileKind, HugePool,
    KernelVersion, Layout, Limits, Mdwe, Object, Overcommit, SeedVma, VmFlags,
};

use crate::fields::{Fields, put, put_text};

/// Appends a file as areas refer to it, without its content.
pub fn put_file(out: &mut Vec<u8>, file: &File) {
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
        FileKind::WholeDevice => (7, 0),
        FileKind::Secret => (8, 0),
        FileKind::PacketSocket => (9, 0),
        FileKind::Stacked => (10, 0),
        FileKind::Fuse => (11, 0),
        FileKind::Placed => (12, 0),
        FileKind::PlacedDevice => (13, 0),
        FileKind::Unaligned => (6, 0),
        _ => (5, 0),
    };
    out.push(kind);
    put(out, size);
    put(out, u64::from(file.seals));
    put(out, file.description.map_or(0, NonZeroU64::get));
    put(out, file.driver.adds.bits());
    put(out, file.driver.removes.bits());
}

/// Reads a file. Before version 3 of the format, drivers added and removed no flags.
pub fn file(fields: &mut Fields<'_>, version: u32) -> Option<File> {
    let mut file = described_file(fields)?;
    if version >= 3 {
        file.driver = DriverFlags {
            adds: VmFlags::from_bits_retain(fields.number()?),
            removes: VmFlags::from_bits_retain(fields.number()?),
        };
    }
    Some(file)
}

fn described_file(fields: &mut Fields<'_>) -> Option<File> {
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
                7 => FileKind::WholeDevice,
                8 => FileKind::Secret,
                9 => FileKind::PacketSocket,
                10 => FileKind::Stacked,
                11 => FileKind::Fuse,
                12 => FileKind::Placed,
                13 => FileKind::PlacedDevice,
                5 => FileKind::Unmappable,
                6 => FileKind::Unaligned,
                _ => return None,
            }
        },
        seals: fields.small()?,
        driver: DriverFlags::default(),
        object: Object::none(),
        description: NonZeroU64::new(fields.number()?),
    })
}

/// Appends settings.
pub fn put_config(out: &mut Vec<u8>, config: &Config) {
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
        config.mdwe != Mdwe::Off,
        config.mdwe == Mdwe::NotInherited,
        config.merge_any,
        config.calls != Calls::Own,
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
    if let Calls::Other {
        mmap_base,
        legacy_base,
        end,
    } = config.calls
    {
        put(out, mmap_base);
        put(out, legacy_base);
        put(out, end);
    }
}

/// Reads settings. The version of the kernel is stored once for the whole trace, in its
/// description.
pub fn config(fields: &mut Fields<'_>, kernel: KernelVersion) -> Option<Config> {
    let mut config = Config {
        kernel,
        task_size: fields.number()?,
        mmap_min_addr: fields.number()?,
        fixed_min_addr: fields.number()?,
        max_map_count: fields.small()?,
        overcommit: match fields.number()? {
            0 => Overcommit::Heuristic,
            1 => Overcommit::Always,
            2 => Overcommit::Never {
                limit_pages: fields.number()?,
            },
            _ => return None,
        },
        huge_pool: HugePool::told().ok(),
        ..Config::default()
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
    config.mdwe = match (on(11), on(12)) {
        (false, _) => Mdwe::Off,
        (true, false) => Mdwe::On,
        (true, true) => Mdwe::NotInherited,
    };
    config.merge_any = on(13);
    config.stack_guard_gap = fields.number()?;
    config.total_pages = fields.number()?;
    config.numa_nodes = fields.small()?;
    // Before version 8 of the format, all calls came from one table.
    if on(14) {
        config.calls = Calls::Other {
            mmap_base: fields.number()?,
            legacy_base: fields.number()?,
            end: fields.number()?,
        };
    }
    Some(config)
}

/// Appends resource limits.
pub fn put_limits(out: &mut Vec<u8>, limits: &Limits) {
    for limit in [
        limits.address_space,
        limits.data,
        limits.stack,
        limits.memlock,
    ] {
        put(out, limit);
    }
}

/// Reads resource limits.
pub fn limits(fields: &mut Fields<'_>) -> Option<Limits> {
    Some(Limits {
        address_space: fields.number()?,
        data: fields.number()?,
        stack: fields.number()?,
        memlock: fields.number()?,
    })
}

/// Appends a layout: the addresses of the heap, the stack and the bases of placement.
pub fn put_layout(out: &mut Vec<u8>, layout: &Layout) {
    put(out, layout.mmap_base);
    put(out, layout.legacy_base);
    out.push(u8::from(layout.bottom_up));
    put(out, layout.start_brk);
    put(out, layout.brk);
    put(out, layout.data_size);
    put(out, layout.stack_top);
}

/// Reads a layout.
pub fn layout(fields: &mut Fields<'_>) -> Option<Layout> {
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

/// Appends an area of a seed. `file` is the file's number plus one, or 0 for none.
pub fn put_seed_area(out: &mut Vec<u8>, area: &SeedVma, file: u64) {
    put(out, area.start);
    put(out, area.end - area.start);
    out.push(area.prot as u8 & 7 | u8::from(area.shared) << 3);
    put(out, area.flags.map_or(0, |flags| flags.bits() << 1 | 1));
    put(out, area.offset);
    put(out, file);
    put_text(out, area.name.as_deref().unwrap_or("").as_bytes());
    out.push(u8::from(area.touched));
}

/// Reads an area. `files` are the files read so far, by their numbers.
pub fn seed_area(fields: &mut Fields<'_>, files: &[Counted<File>]) -> Option<SeedVma> {
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
        number => Some(files.get(usize::try_from(number - 1).ok()?)?.clone()),
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

/// Appends ranges, each as its start and its length.
pub fn put_ranges(out: &mut Vec<u8>, ranges: &[(u64, u64)]) {
    put(out, ranges.len() as u64);
    for (start, end) in ranges {
        put(out, *start);
        put(out, end - start);
    }
}

/// Reads ranges.
pub fn ranges(fields: &mut Fields<'_>) -> Option<Box<[(u64, u64)]>> {
    (0..fields.count()?)
        .map(|_| {
            let start = fields.number()?;
            Some((start, start.checked_add(fields.number()?)?))
        })
        .collect()
}
