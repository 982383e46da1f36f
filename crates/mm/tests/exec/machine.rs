//! The machine that the tests run on, as exec takes it; and its files.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};

use samara_mm::exec::{Image, Program, Randomize, SetId, Settings, SpecialArea};
use samara_mm::{
    Capabilities, Config, Counted, Errno, File, FileId, FileKind, Limits, Object, Overcommit,
};

use crate::kernel::{self, State, Subject};
use crate::running::running;

pub(crate) struct Machine {
    pub(crate) config: Config,
    pub(crate) settings: Settings,
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn memory(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .unwrap();
    line.split_whitespace()
        .next()
        .unwrap()
        .parse::<u64>()
        .unwrap()
        >> 2
}

impl Machine {
    /// Looks around. `program_32` is a program with 32-bit addresses, if the machine runs such.
    pub(crate) fn look() -> Self {
        let minimum = number("/proc/sys/vm/mmap_min_addr").unwrap_or(4096);
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let effective = u64::from_str_radix(effective.unwrap().trim(), 16).unwrap();
        let has = |bit: u32| effective >> bit & 1 == 1;
        let config = Config {
            kernel: running(),
            max_map_count: number("/proc/sys/vm/max_map_count").unwrap_or(65530) as u32,
            overcommit: match number("/proc/sys/vm/overcommit_memory") {
                Some(1) => Overcommit::Always,
                _ => Overcommit::Heuristic,
            },
            total_pages: memory("MemTotal:") + memory("SwapTotal:"),
            transparent_huge_pages: fs::exists("/sys/kernel/mm/transparent_hugepage").unwrap(),
            capabilities: Capabilities {
                ipc_lock: has(14),
                sys_rawio: has(17),
                sys_admin: has(21),
                sys_nice: has(23),
                sys_resource: has(24),
            },
            ..Config::default().with_min_addr(minimum)
        };
        let bits =
            |name: &str, or| number(&format!("/proc/sys/vm/{name}")).map_or(or, |n| n as u32);
        let settings = Settings {
            randomize: match number("/proc/sys/kernel/randomize_va_space") {
                Some(0) => Randomize::Nothing,
                Some(1) => Randomize::AllButHeap,
                _ => Randomize::Everything,
            },
            legacy_layout: number("/proc/sys/vm/legacy_va_layout").unwrap_or(0) != 0,
            random_bits: bits("mmap_rnd_bits", 28),
            random_bits_32: bits("mmap_rnd_compat_bits", 8),
            ..Settings::default()
        };
        Machine { config, settings }
    }

    /// Sees from a program what the kernel maps into each.
    pub(crate) fn learn(&mut self, program: &str, is_32: bool) -> bool {
        let subject = Subject {
            path: program.into(),
            arguments: vec![b"program".to_vec()],
            environment: Vec::new(),
            personality: 0,
            limits: Vec::new(),
        };
        let kernel::Outcome::Started(state) = kernel::execute(&subject) else {
            return false;
        };
        let special = special(&state);
        if is_32 {
            self.settings.special_32 = special;
        } else {
            self.settings.special = special;
        }
        true
    }

    /// The limits for one subject.
    pub(crate) fn limits(&self, subject: &Subject) -> Limits {
        let mut limits = [
            libc::RLIMIT_AS,
            libc::RLIMIT_DATA,
            libc::RLIMIT_STACK,
            libc::RLIMIT_MEMLOCK,
        ]
        .map(|resource| {
            let mut limit = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            // SAFETY: `limit` is a valid place for the answer.
            unsafe { libc::getrlimit(resource, &raw mut limit) };
            (resource, limit.rlim_cur)
        });
        for (resource, limit) in &mut limits {
            let given = subject.limits.iter().find(|(number, _)| number == resource);
            *limit = given.map_or(*limit, |(_, value)| *value);
        }
        let [address_space, data, stack, memlock] = limits.map(|(_, limit)| limit);
        Limits {
            address_space,
            data,
            stack,
            memlock,
        }
    }
}

fn special(state: &State) -> Vec<SpecialArea> {
    let areas = state.areas.iter().filter_map(|area| {
        let name = area.line.split(' ').nth(5)?;
        name.starts_with("[v").then(|| SpecialArea {
            name: name.into(),
            pages: (area.end - area.start) >> 12,
            flags: area.flags,
            object: Object::none(),
        })
    });
    areas.collect()
}

/// A file of the machine.
pub(crate) struct OnDisk(fs::File, u64);

impl Image for OnDisk {
    fn len(&self) -> u64 {
        self.1
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, Errno> {
        let errno = |error: std::io::Error| Errno(error.raw_os_error().unwrap_or(libc::EIO));
        self.0.read_at(into, offset).map_err(errno)
    }
}

/// Opens a file of the machine as exec does.
pub(crate) fn open(path: &[u8]) -> Result<Program<OnDisk>, Errno> {
    let errno = |error: std::io::Error| Errno(error.raw_os_error().unwrap_or(libc::EIO));
    let path = std::str::from_utf8(path).map_err(|_| Errno::ENOENT)?;
    let metadata = fs::metadata(path).map_err(errno)?;
    if !metadata.is_file() || metadata.mode() & 0o111 == 0 {
        return Err(Errno::EACCES);
    }
    let file = fs::File::open(path).map_err(errno)?;
    let mode = metadata.mode();
    let (sets_user, sets_group) = (mode & 0o4000 != 0, mode & 0o2010 == 0o2010);
    // SAFETY: these only ask.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let other = sets_user && metadata.uid() != user || sets_group && metadata.gid() != group;
    let set_id = match (sets_user || sets_group, other) {
        (false, _) => SetId::No,
        (true, false) => SetId::Same,
        (true, true) => SetId::Other,
    };
    let real = fs::canonicalize(path).map_err(errno)?;
    let id = FileId {
        major: libc::major(metadata.dev()),
        minor: libc::minor(metadata.dev()),
        inode: metadata.ino(),
    };
    // SAFETY: numbers of a file system, all valid as zero.
    let mut system: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: an open descriptor, and room for the answer.
    unsafe { libc::fstatfs(std::os::fd::AsRawFd::as_raw_fd(&file), &raw mut system) };
    let kind = match system.f_type {
        0xef53 | 0x5846_5342 | 0x9123_683e => FileKind::Regular,
        0x0102_1994 => FileKind::Shmem,
        0x794c_7630 => FileKind::Stacked,
        0x6573_5546 => FileKind::Fuse,
        0x8584_58f6 => FileKind::Placed,
        _ => FileKind::Unaligned,
    };
    let described = File {
        writable: false,
        kind,
        ..File::opened(id, real.to_str().unwrap().into())
    };
    Ok(Program {
        file: Counted::try_new(described).unwrap(),
        image: OnDisk(file, metadata.len()),
        set_id,
    })
}
