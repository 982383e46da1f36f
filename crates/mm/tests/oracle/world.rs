//! Prepares what histories refer to, takes the zygote's map over into the engine, and compares the two sides.

use std::collections::HashSet;
use std::fs::{self, File as StdFile};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::OnceLock;

use samara_mm::{
    AddressSpace, Backing, Capabilities, Config, Counted, DriverFlags, Errno, File, FileId,
    FileKind, KernelVersion, Layout, Limits, MapsLine, Object, Pages, SeedVma, SharedMap,
    ShmSegment, VmFlags,
};

use crate::coverage::Coverage;
use crate::generate::{ARENA, PAGE};
use crate::kernel::{Flags, Kernel, Step};
use crate::look::{KArea, raw};
use crate::op::{Objects, Op};
use crate::shortest::shortest;
use crate::smaps::{SmapsArea, parse_smaps};

pub(crate) struct World {
    pub(crate) kernel: Kernel,
    pub(crate) objects: Objects,
    /// The zygote's address space.
    base: AddressSpace,
    /// From the first to the last of its areas that the kernel installed at exec.
    pub(crate) special: (u64, u64),
    /// Pages of these areas that the kernel does not back: who reads one gets SIGBUS. By name of the area and number in it.
    unbacked: HashSet<(Box<str>, u64)>,
    /// Histories are performed while there is a handle for other threads, through which maps are then compared.
    pub(crate) shared: bool,
    /// The flags of all areas are compared after each step, and not only at the end.
    pub(crate) flags_after_each: bool,
    /// What the histories have done.
    pub(crate) coverage: Coverage,
}

/// How the engine learns of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// It is told of every fault.
    Told,
    /// It asks when it must know, as for a program that is traced.
    Asked,
}

/// The pages of the arena before a call.
struct Written(Option<u64>);

impl Pages for Written {
    fn written(&mut self, start: u64, end: u64) -> bool {
        let bits = self.0.unwrap_or(0);
        (0..64).any(|page| bits >> page & 1 != 0 && (start..end).contains(&(ARENA + page * PAGE)))
    }

    fn informed(&self) -> bool {
        self.0.is_some()
    }

    fn listens(&self) -> bool {
        false
    }
}

/// The first difference between the engine and the kernel.
#[derive(Debug, Clone)]
pub(crate) struct Difference {
    pub(crate) step: usize,
    pub(crate) what: String,
}

fn file(
    file: &StdFile,
    description: u64,
    name: &str,
    kind: FileKind,
    access: (bool, bool),
) -> Counted<File> {
    let meta = file.metadata().unwrap();
    Counted::try_new(File {
        id: FileId {
            major: libc::major(meta.dev()),
            minor: libc::minor(meta.dev()),
            inode: meta.ino(),
        },
        description,
        name: name.into(),
        readable: access.0,
        writable: access.1,
        noexec: kind == FileKind::Unmappable,
        kind,
        seals: 0,
        driver: DriverFlags::default(),
        object: Object::none(),
    })
    .unwrap()
}

/// Does a file lie in tmpfs, whose mappings are not aligned for huge pages unless it is told to use such?
fn in_memory(path: &std::path::Path) -> bool {
    const TMPFS: i64 = 0x0102_1994;
    let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the path ends with a zero byte; zeroes are valid for the structure, which is ours.
    unsafe {
        let mut system: libc::statfs = std::mem::zeroed();
        assert_eq!(libc::statfs(path.as_ptr(), &raw mut system), 0);
        system.f_type == TMPFS
    }
}

fn objects() -> Objects {
    let dir = std::env::temp_dir().join(format!("samara-oracle-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let path = dir.join("file");
    StdFile::create(&path).unwrap().set_len(64 << 20).unwrap();
    let kind = if in_memory(&path) {
        FileKind::Shmem
    } else {
        FileKind::Regular
    };
    let mut files = Vec::new();
    let open = |read, write| {
        StdFile::options()
            .read(read)
            .write(write)
            .open(&path)
            .unwrap()
    };
    let mut add = |f: StdFile, kind, access| {
        let number = files.len() as u64 + 1;
        let file = file(&f, number, "file", kind, access);
        files.push((f.into_raw_fd(), file));
    };
    add(open(true, true), kind, (true, true));
    add(open(true, false), kind, (true, false));
    add(open(false, true), kind, (false, true));
    // SAFETY: a constant name; the descriptor is new.
    let memfd = unsafe {
        use std::os::fd::FromRawFd;
        StdFile::from_raw_fd(libc::memfd_create(c"oracle".as_ptr(), 0))
    };
    memfd.set_len(64 << 20).unwrap();
    add(memfd, FileKind::Shmem, (true, true));
    let zero = StdFile::options()
        .read(true)
        .write(true)
        .open("/dev/zero")
        .unwrap();
    add(zero, FileKind::DevZero, (true, true));
    add(
        StdFile::open("/proc").unwrap(),
        FileKind::Unmappable,
        (true, false),
    );
    // Opened once more, and the first one by another descriptor.
    add(open(true, true), kind, (true, true));
    // SAFETY: a constant name and integers; the descriptor is new.
    let sealed = unsafe {
        use std::os::fd::FromRawFd;
        let sealed = libc::memfd_create(c"sealed".as_ptr(), libc::MFD_ALLOW_SEALING);
        libc::ftruncate(sealed, 64 << 20);
        libc::fcntl(sealed, libc::F_ADD_SEALS, libc::F_SEAL_WRITE);
        StdFile::from_raw_fd(sealed)
    };
    add(sealed, FileKind::Shmem, (true, true));
    if let Some(sealed) = files.last_mut().map(|file| &mut file.1) {
        let seals = libc::F_SEAL_WRITE as u32;
        let file = (**sealed).clone();
        *sealed = Counted::try_new(File { seals, ..file }).unwrap();
    }
    let first = files[0].clone();
    // SAFETY: a descriptor of ours.
    files.push((unsafe { libc::dup(first.0) }, first.1));
    fs::remove_dir_all(&dir).unwrap();
    let mut segments = Vec::new();
    for size in [3 * 4096, 0x5123] {
        // SAFETY: plain system calls; the segment is removed as soon as it is attached no more.
        unsafe {
            let id = libc::shmget(libc::IPC_PRIVATE, size, 0o700);
            assert!(id >= 0);
            let meta = (0, 1);
            segments.push((
                id,
                Counted::try_new(ShmSegment {
                    file: Counted::try_new(File {
                        id: FileId {
                            major: meta.0,
                            minor: meta.1,
                            inode: id as u64,
                        },
                        description: 0,
                        name: "/SYSV00000000 (deleted)".into(),
                        readable: true,
                        writable: true,
                        noexec: false,
                        kind: FileKind::Shmem,
                        seals: 0,
                        driver: DriverFlags::default(),
                        object: Object::none(),
                    })
                    .unwrap(),
                    size: size as u64,
                })
                .unwrap(),
            ));
            // Held attached here, and so usable although it is marked for removal.
            libc::shmat(id, std::ptr::null(), 0);
            libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut());
        }
    }
    Objects {
        files,
        segments,
        start_brk: 0,
    }
}

/// Does the kernel remember where guard markers were (since about Linux 6.18), and show it?
fn shows_guarded() -> bool {
    static SHOWS: OnceLock<bool> = OnceLock::new();
    *SHOWS.get_or_init(|| {
        const GUARD_INSTALL: i32 = 102;
        // SAFETY: a new mapping of this process that nobody else knows, removed again.
        unsafe {
            let (anywhere, length) = (std::ptr::null_mut(), PAGE as usize);
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let page = libc::mmap(anywhere, length, libc::PROT_NONE, flags, -1, 0);
            libc::madvise(page, length, GUARD_INSTALL);
            let text = fs::read_to_string("/proc/self/smaps").unwrap();
            libc::munmap(page, length);
            parse_smaps(&text)
                .iter()
                .any(|area| area.flags.contains(VmFlags::GUARDED))
        }
    })
}

/// Does the kernel show which pages are locked when they are faulted in? (It has such for longer.)
fn shows_lock_on_fault() -> bool {
    static SHOWS: OnceLock<bool> = OnceLock::new();
    *SHOWS.get_or_init(|| {
        // SAFETY: a new mapping of this process that nobody else knows, removed again.
        unsafe {
            let (anywhere, length) = (std::ptr::null_mut(), PAGE as usize);
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let page = libc::mmap(anywhere, length, libc::PROT_NONE, flags, -1, 0);
            libc::syscall(libc::SYS_mlock2, page, length, libc::MLOCK_ONFAULT);
            let text = fs::read_to_string("/proc/self/smaps").unwrap();
            libc::munmap(page, length);
            parse_smaps(&text)
                .iter()
                .any(|area| area.flags.contains(VmFlags::LOCKONFAULT))
        }
    })
}

/// The address space of a process, and from where to where it has areas that the kernel installed at exec.
fn seed(objects: &mut Objects, pid: i32) -> (AddressSpace, (u64, u64)) {
    let smaps = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let pagemap = StdFile::open(format!("/proc/{pid}/pagemap")).unwrap();
    // Field 47 is start_brk, counted from 1; the name in brackets holds no blank.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let start_brk: u64 = stat
        .split_ascii_whitespace()
        .nth(46)
        .unwrap()
        .parse()
        .unwrap();
    objects.start_brk = start_brk;
    let field = |n: usize| -> u64 {
        stat.split_ascii_whitespace()
            .nth(n - 1)
            .unwrap()
            .parse()
            .unwrap()
    };
    let areas = parse_smaps(&smaps);
    let mut layout = Layout {
        data_size: field(46) - field(45),
        start_brk,
        brk: start_brk,
        ..Layout::default()
    };
    for area in &areas {
        match area.name.as_str() {
            "[heap]" => layout.brk = area.end,
            "[stack]" => layout.stack_top = area.end - 16,
            _ => {}
        }
    }
    // The loader's end, as it was at exec, is where top-down placement starts.
    layout.mmap_base = areas
        .iter()
        .filter(|a| a.name.contains("/ld-linux"))
        .map(|a| a.end)
        .next_back()
        .unwrap_or(layout.mmap_base);
    layout.legacy_base = 0x2aaa_aaaa_b000;
    let get = |which| {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: the structure is ours.
        unsafe { libc::getrlimit(which, &raw mut limit) };
        limit.rlim_cur
    };
    let limits = Limits {
        address_space: get(libc::RLIMIT_AS),
        data: get(libc::RLIMIT_DATA),
        stack: get(libc::RLIMIT_STACK),
        memlock: get(libc::RLIMIT_MEMLOCK),
    };
    let number = |path: &str| -> u64 { fs::read_to_string(path).unwrap().trim().parse().unwrap() };
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let caps = status
        .lines()
        .find_map(|l| l.strip_prefix("CapEff:"))
        .map_or(0, |l| u64::from_str_radix(l.trim(), 16).unwrap());
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let kib = |label: &str| -> u64 {
        meminfo
            .lines()
            .find_map(|l| l.strip_prefix(label))
            .map_or(0, |l| {
                l.trim().trim_end_matches(" kB").trim().parse().unwrap()
            })
    };
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let config = Config {
        kernel: release.parse().unwrap(),
        task_size: end_of_user_space(),
        max_map_count: number("/proc/sys/vm/max_map_count") as u32,
        fixed_min_addr: number("/proc/sys/vm/mmap_min_addr"),
        total_pages: (kib("MemTotal:") + kib("SwapTotal:")) / 4,
        capabilities: Capabilities {
            ipc_lock: caps >> 14 & 1 != 0,
            sys_admin: caps >> 21 & 1 != 0,
            sys_nice: caps >> 23 & 1 != 0,
            sys_rawio: caps >> 17 & 1 != 0,
            sys_resource: caps >> 24 & 1 != 0,
        },
        pkeys: fs::read_to_string("/proc/cpuinfo")
            .unwrap()
            .contains(" ospke"),
        ..Config::default()
    };
    let mut space = AddressSpace::new(config, limits, layout).unwrap();
    let special = |area: &&SmapsArea| area.name.starts_with("[v") && area.name != "[vsyscall]";
    let around_special = (
        areas.iter().find(special).map_or(0, |area| area.start),
        areas.iter().rfind(special).map_or(0, |area| area.end),
    );
    for area in &areas {
        if area.name == "[vsyscall]" {
            continue;
        }
        let pages = ((area.end - area.start) / 4096) as usize;
        let mut touched = false;
        let mut words = vec![0u8; pages.min(1 << 16) * 8];
        let got = pagemap
            .read_at(&mut words, area.start / 4096 * 8)
            .unwrap_or(0);
        for word in words[..got].chunks_exact(8) {
            let word = u64::from_le_bytes(word.try_into().unwrap());
            // Present and neither file nor shared.
            touched |= word >> 63 & 1 == 1 && word >> 61 & 1 == 0;
        }
        let shared = area.perms.ends_with('s');
        let special = area.name.starts_with('[') && !matches!(&*area.name, "[heap]" | "[stack]");
        let file = (area.inode != 0).then(|| {
            Counted::try_new(File {
                id: FileId {
                    major: area.dev.0,
                    minor: area.dev.1,
                    inode: area.inode,
                },
                description: 0,
                name: area.name.as_str().into(),
                readable: true,
                writable: true,
                noexec: false,
                kind: FileKind::Regular,
                seals: 0,
                driver: DriverFlags::default(),
                object: Object::none(),
            })
            .unwrap()
        });
        let prot = area
            .perms
            .bytes()
            .zip([1, 2, 4])
            .filter(|(c, _)| *c != b'-')
            .map(|p| p.1)
            .sum();
        space
            .seed(SeedVma {
                start: area.start,
                end: area.end,
                prot,
                shared,
                offset: area.offset,
                file,
                flags: Some(area.flags),
                name: special.then(|| area.name.as_str().into()),
                touched: touched && !shared && !special,
            })
            .unwrap();
    }
    let _ = pagemap.as_raw_fd();
    (space, around_special)
}

/// With page tables of five levels there is room above 47 bits: a page is mapped there.
fn end_of_user_space() -> u64 {
    let private_anonymous = 0x22;
    let hint = [1 << 48, PAGE, 0, private_anonymous, u64::MAX, 0];
    let page = raw(libc::SYS_mmap, hint);
    raw(libc::SYS_munmap, [page as u64, PAGE, 0, 0, 0, 0]);
    if page >= 1 << 47 {
        (1 << 56) - PAGE
    } else {
        Config::default().task_size
    }
}

/// Which pages of the areas that the kernel installed cannot be read, asked of the kernel: clocks of machines that this one is not,
/// and those of a time namespace in which the process is not.
fn unbacked(base: &AddressSpace, special: (u64, u64)) -> HashSet<(Box<str>, u64)> {
    let mut ends = [0; 2];
    // SAFETY: two descriptors for the array, of which both are closed below.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    let readable = |addr: u64| {
        let written = raw(libc::SYS_write, [ends[1] as u64, addr, 1, 0, 0, 0]);
        let mut byte = 0u8;
        if written == 1 {
            // SAFETY: one byte lies in the pipe, and there is room for it.
            unsafe { libc::read(ends[0], (&raw mut byte).cast(), 1) };
        }
        written == 1
    };
    let mut found = HashSet::new();
    for area in base.areas() {
        if let Backing::Special(name) = &area.vma.backing
            && (special.0..special.1).contains(&area.start)
        {
            let pages = (area.start..area.end).step_by(PAGE as usize);
            let refused = pages.filter(|page| !readable(*page));
            found.extend(refused.map(|page| ((***name).into(), (page - area.start) / PAGE)));
        }
    }
    for end in ends {
        // SAFETY: a descriptor of ours.
        unsafe { libc::close(end) };
    }
    found
}

impl World {
    pub(crate) fn new() -> World {
        let mut objects = objects();
        let brk = fs::read_to_string("/proc/self/stat").unwrap();
        objects.start_brk = brk
            .split_ascii_whitespace()
            .nth(46)
            .unwrap()
            .parse()
            .unwrap();
        let kernel = Kernel::start(&objects);
        let (base, special) = seed(&mut objects, kernel.zygote);
        let unbacked = unbacked(&base, special);
        World {
            kernel,
            objects,
            base,
            special,
            unbacked,
            shared: false,
            flags_after_each: true,
            coverage: Coverage::default(),
        }
    }

    /// The areas that the kernel installed at exec, ascending.
    pub(crate) fn special_areas(&self) -> Vec<(u64, u64)> {
        let within = self.special.0..self.special.1;
        let areas = self.base.areas().map(|area| (area.start, area.end));
        areas.filter(|area| within.contains(&area.0)).collect()
    }

    /// Is the kernel the newest with which the engine was compared?
    pub(crate) fn is_newest(&self) -> bool {
        self.base.config().kernel >= KernelVersion::NEWEST
    }

    /// Are there addresses of 57 bits?
    pub(crate) fn is_wide(&self) -> bool {
        self.base.config().task_size > 1 << 47
    }

    /// Executes the history on both sides; the first difference.
    pub(crate) fn compare(&mut self, ops: &[Op], way: Way) -> Option<Difference> {
        let told = way == Way::Told;
        let flags = match (told, self.flags_after_each) {
            (false, _) => Flags::Never,
            (true, false) => Flags::Last,
            (true, true) => Flags::Each,
        };
        let steps = self.kernel.run(ops, flags, !told);
        let mut facts = match way {
            Way::Told => None,
            Way::Asked => Some(0),
        };
        let mut space = self.base.fork().unwrap();
        for (step, (op, kernel)) in ops.iter().zip(&steps).enumerate() {
            // Made anew for each step, which may put a child in the place of the space.
            let shared = self.shared.then(|| space.share());
            let engine = self.step(&mut space, op, kernel, facts);
            let shared = shared.map(|_| space.share());
            if let Some(bits) = &mut facts {
                *bits = kernel.written;
            }
            let difference = |what| Some(Difference { step, what });
            if let Err(broken) = space.check() {
                return difference(format!("{op:?}: check: {broken}"));
            }
            if engine != kernel.result {
                return difference(format!(
                    "{op:x?}: the kernel returned {}, the engine {}",
                    show(kernel.result),
                    show(engine)
                ));
            }
            let compared = compare_maps(&space, shared.as_ref(), kernel).or_else(|| {
                let read = flags == Flags::Each || flags == Flags::Last && step + 1 == ops.len();
                compare_flags(&space, kernel).filter(|_| read)
            });
            if let Some(what) = compared {
                return difference(format!("{op:x?} = {}: {what}", show(engine)));
            }
            self.coverage.add(op, kernel.result);
        }
        if steps.len() != ops.len() {
            return Some(Difference {
                step: steps.len(),
                what: format!("{:x?}: the child died", ops[steps.len()]),
            });
        }
        None
    }

    /// Has the page at `addr`, which is mapped, something behind it? An area that the kernel installed is never cut, and so the page's number in
    /// it is the same wherever it was moved to.
    fn is_backed(&self, space: &AddressSpace, addr: u64) -> bool {
        let Some(area) = space.lookup(addr) else {
            return true;
        };
        match &area.vma.backing {
            Backing::Special(name) => {
                let page = (addr - area.start) / PAGE;
                !self.unbacked.contains(&((***name).into(), page))
            }
            _ => true,
        }
    }

    fn step(&self, space: &mut AddressSpace, op: &Op, kernel: &Step, bits: Option<u64>) -> i64 {
        let mut facts = Written(bits);
        let facts = &mut facts;
        let result = match *op {
            Op::Write { addr } | Op::Read { addr } if bits.is_some() => {
                if space.lookup(addr).is_none() {
                    let _ = space.grow_stack(addr);
                }
                return kernel.result;
            }
            // Whether the page was there, nobody keeps; what a fault leaves in the area, it leaves in either case.
            Op::Write { addr } | Op::Read { addr } if is_watched(space, addr) => {
                let write = matches!(op, Op::Write { .. });
                match space.fault(addr, write) {
                    Ok(()) if [0, -i64::from(libc::EFAULT)].contains(&kernel.result) => {
                        return kernel.result;
                    }
                    own => own.map(|()| 0),
                }
            }
            Op::Write { addr } => space.fault(addr, true).map(|()| 0),
            Op::Read { addr } => {
                let readable = space.fault(addr, false);
                readable.and_then(|()| match self.is_backed(space, addr) {
                    true => Ok(0),
                    false => Err(Errno::EFAULT),
                })
            }
            Op::ForkInto | Op::ForkAside | Op::ForkKeep if bits.is_some_and(|bits| bits != 0) => {
                for page in 0..64 {
                    if bits.is_some_and(|bits| bits >> page & 1 != 0) {
                        let start = ARENA + page * PAGE;
                        space.note_written(start, start + PAGE);
                    }
                }
                return self.step(space, op, kernel, Some(0));
            }
            Op::ForkInto => space.fork().map(|child| {
                *space = child;
                0
            }),
            Op::ForkAside | Op::ForkKeep => space.fork().map(|_| 0),
            Op::Limit { which, value } => {
                let mut limits = space.limits();
                match which as u32 {
                    libc::RLIMIT_AS => limits.address_space = value,
                    libc::RLIMIT_DATA => limits.data = value,
                    libc::RLIMIT_STACK => limits.stack = value,
                    libc::RLIMIT_MEMLOCK => limits.memlock = value,
                    _ => unreachable!(),
                }
                space.set_limits(limits);
                Ok(0)
            }
            Op::DropCaps => {
                let mut config = space.config().clone();
                config.capabilities = Capabilities::default();
                space.set_config(config);
                Ok(0)
            }
            // The kernel draws a new start for the search of every such call.
            Op::Mmap { flags, .. }
                if flags & 0x10_0050 == 0x40
                    && (0x4000_0000..0x8000_0000).contains(&kernel.result) =>
            {
                let call = op.call(&self.objects).unwrap();
                space.perform_at(&call, kernel.result as u64, facts)
            }
            _ => space.perform_with(&op.call(&self.objects).unwrap(), facts),
        };
        match result {
            Ok(value) => value as i64,
            Err(errno) => -i64::from(errno.0),
        }
    }

    /// The shortest history found that still shows a difference. None if this one does not.
    pub(crate) fn shrink(&mut self, ops: &[Op], way: Way) -> Option<(Vec<Op>, Difference)> {
        self.flags_after_each = true;
        shortest(ops, |ops| {
            let found = self.compare(ops, way)?;
            Some((found.step, found))
        })
    }
}

/// Does a userfaultfd watch the area at `addr`?
fn is_watched(space: &AddressSpace, addr: u64) -> bool {
    let area = space.lookup(addr);
    area.is_some_and(|area| area.vma.flags.intersects(VmFlags::UFFD))
}

fn show(result: i64) -> String {
    match result {
        -4095..0 => samara_mm::Errno(-result as i32).to_string(),
        _ => format!("{result:#x}"),
    }
}

fn compare_maps(space: &AddressSpace, shared: Option<&SharedMap>, kernel: &Step) -> Option<String> {
    let view = shared.map(SharedMap::read);
    let mut in_view = view.iter().flat_map(|view| view.maps(space.layout()));
    let mut in_place = space.maps();
    let engine: &mut dyn Iterator<Item = MapsLine<'_>> = match shared {
        Some(_) => &mut in_view,
        None => &mut in_place,
    };
    let mut theirs = kernel.areas.iter().filter(|a| a.start < 1 << 63);
    loop {
        let (line, area) = (engine.next(), theirs.next());
        let same = match (&line, area) {
            (None, None) => return None,
            (Some(line), Some(area)) => {
                let perms = line
                    .perms
                    .iter()
                    .zip([b'r', b'w', b'x', b's'])
                    .enumerate()
                    .fold(0, |bits, (n, (have, want))| {
                        bits | u64::from(*have == want) << n
                    });
                let anonymous_object = (line.id.major, line.id.minor) == (0, 1);
                line.start == area.start
                    && line.end == area.end
                    && perms == area.perms
                    && (line.id.major, line.id.minor) == area.dev
                    && (anonymous_object || line.id.inode == area.inode)
                    // The kernel shows an offset only for files.
                    && (line.offset == area.offset || area.inode == 0)
            }
            _ => false,
        };
        if !same {
            return Some(format!(
                "maps differ\n{}",
                side_by_side(space, &kernel.areas)
            ));
        }
    }
}

fn compare_flags(space: &AddressSpace, kernel: &Step) -> Option<String> {
    // Kernels that track writes mark areas for it, whatever is done with them.
    let mut unseen = VmFlags::SOFTDIRTY;
    unseen.set(VmFlags::GUARDED, !shows_guarded());
    unseen.set(VmFlags::LOCKONFAULT, !shows_lock_on_fault());
    space.maps().zip(&kernel.areas).find_map(|(line, area)| {
        let theirs = VmFlags::from_bits_retain(area.flags);
        if line.flags - unseen == theirs - VmFlags::SOFTDIRTY {
            return None;
        }
        let names = |flags: VmFlags| flags.smaps_names().collect::<Vec<_>>().join(" ");
        Some(format!(
            "flags of {:x}-{:x}: kernel {} (key {}), engine {} (key {})",
            area.start,
            area.end,
            names(theirs),
            theirs.pkey(),
            names(line.flags),
            line.flags.pkey(),
        ))
    })
}

fn side_by_side(space: &AddressSpace, kernel: &[KArea]) -> String {
    let engine: Vec<String> = space
        .areas()
        .map(|a| {
            format!(
                "{:x}-{:x} {:?} {:x} {:?}",
                a.start,
                a.end,
                String::from_utf8_lossy(&space.area_at(a.start).unwrap().perms),
                a.page_offset(),
                a.vma.anon()
            )
        })
        .collect();
    let theirs: Vec<String> = kernel
        .iter()
        .map(|a| {
            let p: String = "rwxs"
                .chars()
                .enumerate()
                .map(|(i, c)| if a.perms >> i & 1 != 0 { c } else { '-' })
                .collect();
            format!(
                "{:x}-{:x} {p} {:x} {}",
                a.start,
                a.end,
                a.offset >> 12,
                a.inode
            )
        })
        .collect();
    let mut out =
        String::from("  kernel                                                  engine\n");
    let common = engine
        .iter()
        .zip(&theirs)
        .take_while(|(e, t)| e.split(' ').next() == t.split(' ').next())
        .count()
        .saturating_sub(3);
    for i in common..(common + 12).min(engine.len().max(theirs.len())) {
        let none = String::new();
        let (t, e) = (
            theirs.get(i).unwrap_or(&none),
            engine.get(i).unwrap_or(&none),
        );
        out += &format!("  {t:<55} {e}\n");
    }
    out
}
