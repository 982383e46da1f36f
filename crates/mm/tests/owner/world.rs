//! The objects of histories, without a kernel, and the performing of their steps for a mirror.

use samara_mm::{
    AddressSpace, Capabilities, Config, Counted, DriverFlags, Errno, File, FileId, FileKind,
    Layout, Limits, Object, ShmSegment,
};

use crate::mirror::Mirror;
use crate::op::{Objects, Op};

fn file(inode: u64, kind: FileKind, readable: bool, writable: bool) -> Counted<File> {
    Counted::try_new(File {
        id: FileId {
            major: 8,
            minor: 1,
            inode,
        },
        description: std::num::NonZeroU64::new(inode),
        name: "file".into(),
        readable,
        writable,
        noexec: kind == FileKind::Unmappable,
        kind,
        seals: 0,
        driver: DriverFlags::default(),
        object: Object::none(),
    })
    .unwrap()
}

pub(crate) fn objects(start_brk: u64) -> Objects {
    let files = [
        file(1, FileKind::Regular, true, true),
        file(2, FileKind::Regular, true, false),
        file(3, FileKind::Regular, false, true),
        file(4, FileKind::Shmem, true, true),
        file(5, FileKind::DevZero, true, true),
        file(6, FileKind::Unmappable, true, false),
    ];
    let segment = |inode, size| {
        let file = file(inode, FileKind::Shmem, true, true);
        (-1, Counted::try_new(ShmSegment { file, size }).unwrap())
    };
    Objects {
        files: files.into_iter().map(|file| (-1, file)).collect(),
        huge: Vec::new(),
        segments: vec![segment(7, 3 * 4096), segment(8, 0x5123)],
        start_brk,
    }
}

pub(crate) fn space() -> AddressSpace {
    let config = Config {
        anon_vma_names: true,
        pkeys: true,
        total_pages: 1 << 16,
        capabilities: Capabilities {
            ipc_lock: true,
            sys_nice: true,
            ..Capabilities::default()
        },
        ..Config::default()
    };
    AddressSpace::new(config, Limits::default(), Layout::default()).unwrap()
}

/// Performs a step. `None` if it is one that no owner is told of.
pub(crate) fn step(
    space: &mut AddressSpace,
    mirror: &mut Mirror,
    objects: &Objects,
    op: &Op,
) -> Option<Result<u64, Errno>> {
    Some(match *op {
        Op::Write { addr } => space.fault_with(addr, true, mirror).map(|()| 0),
        Op::Read { addr } => space.fault_with(addr, false, mirror).map(|()| 0),
        Op::ForkInto => {
            *space = space.fork().unwrap();
            *mirror = Mirror::of(space);
            return None;
        }
        Op::ForkAside | Op::ForkKeep => {
            space.fork().unwrap();
            return None;
        }
        Op::Limit { which, value } => {
            let mut limits = space.limits();
            match which as u32 {
                libc::RLIMIT_AS => limits.address_space = value,
                libc::RLIMIT_DATA => limits.data = value,
                libc::RLIMIT_MEMLOCK => limits.memlock = value,
                _ => limits.stack = value,
            }
            space.set_limits(limits);
            return None;
        }
        Op::DropCaps => {
            let mut config = space.config().clone();
            config.capabilities = Capabilities::default();
            space.set_config(config);
            return None;
        }
        Op::ReadImpliesExec { on } => {
            let mut config = space.config().clone();
            config.read_implies_exec = on == 1;
            space.set_config(config);
            return None;
        }
        _ => space.perform_with(&op.call(objects).unwrap(), mirror),
    })
}
