//! Builds the start of an address space from the state that `/proc` shows of a stopped process.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::num::NonZeroU64;
use std::rc::Rc;

use samara_conformance::seed::{Files, Seed};
use samara_linux::Tid;
use samara_linux::maps::{Area, Map};
use samara_linux::memory;
use samara_linux::pagemap::Pagemap;
use samara_linux::proc::{self, ProgramLayout};
use samara_mm::{
    Capabilities, Config, HugePool, KernelVersion, Layout, Limits, Mdwe, Overcommit, SeedVma,
    VmFlags,
};

use crate::vm_flags::vm_flags;

use super::exec::{Contents, Settled};

const PAGE: u64 = 4096;
/// The first address above the user space of programs with 32-bit addresses.
const END_32: u64 = 0xffff_e000;
const ADDR_COMPAT_LAYOUT: u64 = 0x020_0000;

/// Settings of the machine, looked up once.
#[derive(Debug)]
pub(crate) struct Machine {
    config: Config,
    legacy_layout: bool,
    pub(crate) exec: Settled,
}

impl Machine {
    pub(crate) fn look(kernel: KernelVersion) -> Self {
        let minimum = proc::sysctl("vm/mmap_min_addr", 0x1000);
        let huge = "/sys/kernel/mm/transparent_hugepage";
        let config = Config {
            kernel,
            task_size: end_of_user_space(),
            max_map_count: proc::sysctl("vm/max_map_count", 65530) as u32,
            overcommit: match proc::sysctl("vm/overcommit_memory", 0) {
                1 => Overcommit::Always,
                2 => Overcommit::Never {
                    limit_pages: commit_limit() / PAGE,
                },
                _ => Overcommit::Heuristic,
            },
            total_pages: total_memory() / PAGE,
            anon_vma_names: anonymous_names(),
            ksm: fs::exists("/sys/kernel/mm/ksm").unwrap_or(false),
            transparent_huge_pages: fs::exists(huge).unwrap_or(false),
            shmem_huge: samara_linux::proc_file::read_text_piece(format!("{huge}/shmem_enabled"))
                .is_ok_and(|text| !text.contains("[never]") && !text.contains("[deny]")),
            huge_pool: HugePool::told().ok(),
            pkeys: memory::has_protection_keys(),
            numa_nodes: numa_nodes(),
            ..Config::default().with_min_addr(minimum)
        };
        let legacy_layout = proc::sysctl("vm/legacy_va_layout", 0) != 0;
        Self {
            config,
            legacy_layout,
            exec: Settled::look(kernel, legacy_layout),
        }
    }

    /// Returns the first address above user space, for programs with 64-bit addresses.
    pub(crate) fn end_of_user_space(&self) -> u64 {
        self.config.task_size
    }

    /// Returns `true` if a new program inherits `PR_SET_MEMORY_MERGE`.
    pub(crate) fn keeps_memory_merge(&self) -> bool {
        self.config.kernel >= KernelVersion::new(6, 7)
    }

    /// Returns the restriction on executable memory for a program that is started from here.
    pub(crate) fn mdwe(&self) -> Mdwe {
        const PR_GET_MDWE: i32 = 66;
        // SAFETY: the call only returns a number.
        match unsafe { libc::prctl(PR_GET_MDWE, 0, 0, 0, 0) } {
            1 => Mdwe::On,
            _ => Mdwe::Off,
        }
    }
}

/// Returns the highest number of a node, plus one.
pub(crate) fn numa_nodes() -> u32 {
    let told = samara_linux::proc_file::read_text_piece("/sys/devices/system/node/possible").ok();
    let last = told.and_then(|text| {
        let last = text.trim().rsplit(['-', ',']).next()?;
        last.parse::<u32>().ok()
    });
    last.map_or(1, |last| last.saturating_add(1))
}

/// Returns the size of memory and swap in bytes. `/proc/meminfo` has it, too, among figures that
/// the kernel must count first.
fn total_memory() -> u64 {
    // SAFETY: all zeros is a valid value of this struct of integers.
    let mut told: libc::sysinfo = unsafe { std::mem::zeroed() };
    // SAFETY: `told` is a valid place for the answer.
    if unsafe { libc::sysinfo(&mut told) } != 0 {
        return u64::MAX;
    }
    let units = told.totalram.saturating_add(told.totalswap);
    units.saturating_mul(told.mem_unit.into())
}

/// Returns the memory that may be committed to all processes together, in bytes.
fn commit_limit() -> u64 {
    let meminfo = samara_linux::proc_file::read_text_piece("/proc/meminfo").unwrap_or_default();
    memory_line(&meminfo, "CommitLimit:")
}

/// Returns a line of `/proc/meminfo`, in bytes.
fn memory_line(meminfo: &str, name: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(u64::MAX, |kibibytes| kibibytes.saturating_mul(1024))
}

/// Returns the first address above user space, by a page of our own. Page tables of five levels
/// have room above 47 bits.
fn end_of_user_space() -> u64 {
    const ABOVE: u64 = 1 << 48;
    // SAFETY: the calls map and unmap a page of this process that has no other user.
    unsafe {
        let hint = std::ptr::without_provenance_mut(ABOVE as usize);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let page = libc::mmap(hint, PAGE as usize, libc::PROT_NONE, flags, -1, 0);
        if page != libc::MAP_FAILED {
            libc::munmap(page, PAGE as usize);
            if page as u64 >= 1 << 47 {
                return (1 << 56) - PAGE;
            }
        }
    }
    Config::default().task_size
}

/// Returns `true` if the kernel supports names of anonymous areas, by a page of our own.
fn anonymous_names() -> bool {
    const PR_SET_VMA: i32 = 0x5356_4d41;
    // SAFETY: the calls map, name and unmap a page of this process that has no other user.
    unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            PAGE as usize,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if page == libc::MAP_FAILED {
            return false;
        }
        let named = libc::prctl(PR_SET_VMA, 0, page, PAGE, c"samara".as_ptr()) == 0;
        libc::munmap(page, PAGE as usize);
        named
    }
}

/// The moment at which the state of a process is read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Moment {
    /// Right after exec. The layout can be inferred, and the kernel has opened each file once.
    Exec,
    /// While it runs, for the first time. The layout can be inferred as long as the first mapping
    /// still lies at its base.
    Found,
    /// While it runs, with a known layout. With `shows_end`, the map may show another end of the
    /// heap.
    Again { layout: Layout, shows_end: bool },
}

/// The facts about a stopped process that are read once, for several users.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) standing: Standing,
    pub(crate) personality: Option<u64>,
    /// Keys and values. Empty if the kernel does not show them.
    pub(crate) auxiliary: Vec<(u64, u64)>,
    numbers: io::Result<ProgramLayout>,
    /// The program that it runs. `None` if it may not be read.
    pub(crate) program: Option<Rc<Contents>>,
    /// `PR_SET_MEMORY_MERGE`, if the kernel shows it.
    pub(crate) merges_any: Option<bool>,
    narrow: bool,
}

impl Asked {
    pub(crate) fn of(tid: Tid) -> Self {
        Self::running(tid, Contents::of_program(tid))
    }

    /// Returns the same for a process whose program is known.
    pub(crate) fn running(tid: Tid, program: Option<Contents>) -> Self {
        let head = program.as_ref().map_or(&[][..], Contents::head);
        let narrow = is_narrow(head);
        let personality = proc::personality(tid).ok();
        Self {
            standing: Standing::with(tid, personality.unwrap_or(0)),
            personality,
            auxiliary: proc::auxiliary_vector(tid).unwrap_or_default(),
            numbers: proc::layout(tid),
            program: program.map(Rc::new),
            merges_any: proc::merges_any(tid),
            narrow,
        }
    }

    /// Returns the numbers that exec has set.
    pub(crate) fn numbers(&self) -> io::Result<ProgramLayout> {
        self.numbers.as_ref().copied().map_err(|error| {
            let number = error.raw_os_error();
            number.map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
        })
    }

    /// Returns an entry of the auxiliary vector.
    pub(crate) fn auxiliary(&self, kind: u64) -> Option<u64> {
        let found = self.auxiliary.iter().find(|(key, _)| *key == kind)?;
        Some(found.1)
    }
}

/// Reads the whole state of a stopped process.
pub(crate) fn seed(
    tid: Tid,
    asked: &Asked,
    machine: &Machine,
    map: &Map,
    pagemap: &mut Pagemap,
    moment: Moment,
    descriptions: &mut u64,
) -> io::Result<Seed> {
    let numbers = asked.numbers()?;
    let limits = limits(tid)?;
    let config = config(asked, machine);
    let mut layout = match moment {
        // `PR_SET_MM` may have changed the numbers that the kernel shows.
        Moment::Again { layout, .. } => Layout {
            brk: if layout.start_brk == numbers.start_brk {
                layout.brk
            } else {
                numbers.start_brk
            },
            start_brk: numbers.start_brk,
            data_size: numbers.data_size,
            stack_top: numbers.start_stack,
            ..layout
        },
        Moment::Exec | Moment::Found => inferred_layout(asked, machine, &config, map, &numbers),
    };
    let shows_end = match moment {
        Moment::Exec => false,
        Moment::Found => true,
        // Unmapping a part of the heap does not change its end.
        Moment::Again {
            layout: known,
            shows_end,
        } => shows_end || layout.start_brk != known.start_brk,
    };
    if shows_end
        && let Some(brk) = heap_end(map, layout.start_brk)
        && brk != layout.brk.next_multiple_of(PAGE)
    {
        layout.brk = brk;
    }
    Ok(Seed {
        config,
        limits,
        layout,
        areas: areas(tid, map, pagemap, moment, descriptions)?,
    })
}

/// Returns the layout that the map of a process shows, as long as the first mapping still lies at
/// the base of placement.
fn inferred_layout(
    asked: &Asked,
    machine: &Machine,
    config: &Config,
    map: &Map,
    numbers: &ProgramLayout,
) -> Layout {
    /// The least distance between the base of placement and the end of user space.
    const LEAST_ROOM: u64 = 128 << 20;
    let personality = asked.personality.unwrap_or(0);
    let mut layout = Layout {
        bottom_up: machine.legacy_layout || personality & ADDR_COMPAT_LAYOUT != 0,
        ..Layout::default()
    };
    if !config.is_wide() {
        layout.mmap_base = (config.task_size - LEAST_ROOM).next_multiple_of(PAGE);
        layout.legacy_base = (config.task_size / 3).next_multiple_of(PAGE);
    }
    let first = match base_is_hidden(asked, config.kernel) {
        true => nearest_to_the_base(map, layout.bottom_up, numbers.start_stack),
        false => first_placed(asked, map),
    };
    if layout.bottom_up {
        layout.legacy_base = first.map_or(layout.legacy_base, |(start, _)| start);
    } else {
        let mmap_base = first.map_or(layout.mmap_base, |(_, end)| end);
        // Both bases are moved by the same random number.
        let legacy_base = layout
            .legacy_base
            .wrapping_add(layout.mmap_base.wrapping_sub(mmap_base));
        // A guess from an unusual first mapping may be no valid address.
        if legacy_base <= config.task_size {
            layout.legacy_base = legacy_base;
        }
        layout.mmap_base = mmap_base;
    }
    layout.start_brk = numbers.start_brk;
    layout.brk = numbers.start_brk;
    layout.data_size = numbers.data_size;
    layout.stack_top = numbers.start_stack;
    layout
}

/// Reads the areas of a stopped process, with their flags, files and written pages.
fn areas(
    tid: Tid,
    map: &Map,
    pagemap: &mut Pagemap,
    moment: Moment,
    descriptions: &mut u64,
) -> io::Result<Vec<SeedVma>> {
    let flags: HashMap<u64, VmFlags> = vm_flags(tid)?.into_iter().collect();
    // A new program has few pages, so one pass finds them all. Later that may take long, and each
    // area is examined by itself.
    let mut runs = Vec::new();
    if let (Moment::Exec, Some(first), Some(last)) =
        (moment, map.areas().first(), map.areas().last())
    {
        let _ = pagemap.each_written(first.start, last.end, &mut |start, end| {
            runs.push((start, end));
            true
        });
    }
    let mut files = Files::default();
    let mut areas = Vec::with_capacity(map.areas().len());
    for area in map.areas() {
        // At exec the kernel opened each file once. Later the descriptions cannot be known.
        let description = || {
            if !matches!(moment, Moment::Exec) {
                return None;
            }
            *descriptions += 1;
            NonZeroU64::new(*descriptions)
        };
        let written = || match moment {
            Moment::Exec => runs
                .iter()
                .any(|(start, end)| *start < area.end && area.start < *end),
            _ => pagemap.written(area.start, area.end).unwrap_or(false),
        };
        // At exec the files are those of the program and its loader, opened once each.
        let stored = || match moment {
            Moment::Exec => None,
            _ => super::files::kind_of_mapped(tid, area),
        };
        let flags = flags.get(&area.start).copied();
        areas.push(files.area(area, map.name(area), flags, description, written, stored));
    }
    Ok(areas)
}

/// The state that the kernel keeps for each thread, and checks when that thread calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    capabilities: Capabilities,
    read_implies_exec: bool,
    /// Programs with 32-bit addresses have 3 GiB.
    is_3_gib: bool,
}

impl Standing {
    pub(crate) fn of(tid: Tid) -> Self {
        Self::with(tid, proc::personality(tid).unwrap_or(0))
    }

    fn with(tid: Tid, personality: u64) -> Self {
        const READ_IMPLIES_EXEC: u64 = 0x040_0000;
        const ADDR_LIMIT_3GB: u64 = 0x800_0000;
        let capabilities = match proc::capabilities(tid) {
            Ok(bits) if bits != 0 && proc::in_first_user_namespace(tid) => bits,
            _ => 0,
        };
        let has = |bit: u32| capabilities >> bit & 1 == 1;
        Self {
            capabilities: Capabilities {
                ipc_lock: has(14),
                sys_admin: has(21),
                sys_nice: has(23),
                sys_rawio: has(17),
                sys_resource: has(24),
            },
            read_implies_exec: personality & READ_IMPLIES_EXEC != 0,
            is_3_gib: personality & ADDR_LIMIT_3GB != 0,
        }
    }

    /// Returns the first address above user space.
    fn task_size(&self, config: &Config) -> u64 {
        match (config.is_wide(), self.is_3_gib) {
            (true, _) => config.task_size,
            (false, true) => 0xc000_0000,
            (false, false) => END_32,
        }
    }

    /// Returns `true` if `config` has the same values.
    pub(crate) fn is_in(&self, config: &Config) -> bool {
        (
            config.capabilities,
            config.read_implies_exec,
            config.task_size,
        ) == (
            self.capabilities,
            self.read_implies_exec,
            self.task_size(config),
        )
    }

    /// Returns the settings with those of this thread.
    pub(crate) fn applied_to(&self, config: &Config) -> Config {
        Config {
            capabilities: self.capabilities,
            read_implies_exec: self.read_implies_exec,
            task_size: self.task_size(config),
            ..config.clone()
        }
    }
}

/// Returns the settings for one process.
fn config(asked: &Asked, machine: &Machine) -> Config {
    let mut config = machine.config.clone();
    if asked.narrow {
        config.task_size = END_32;
    }
    let mut config = asked.standing.applied_to(&config);
    config.merge_any = asked.merges_any == Some(true);
    config
}

/// Returns the limits of a process in the engine's form.
pub(crate) fn limits(tid: Tid) -> io::Result<Limits> {
    let raw = proc::limits(tid)?;
    Ok(Limits {
        address_space: raw.address_space,
        data: raw.data,
        stack: raw.stack,
        memlock: raw.memlock,
    })
}

const AT_BASE: u64 = 7;

/// Returns `true` if no area of every program lies where placement begins. Without a loader that is
/// the vdso, which Linux 6.12 was the first to place there.
pub(crate) fn base_is_hidden(asked: &Asked, kernel: KernelVersion) -> bool {
    asked.auxiliary(AT_BASE).unwrap_or(0) == 0 && kernel < KernelVersion::new(6, 12)
}

/// Returns start and end of the kernel's own first mapping, where placement begins: the dynamic
/// loader or, without one, the vdso and the areas that belong to it.
fn first_placed(asked: &Asked, map: &Map) -> Option<(u64, u64)> {
    const AT_SYSINFO_EHDR: u64 = 33;
    let loader = asked.auxiliary(AT_BASE).unwrap_or(0);
    let index = |address: u64| {
        map.areas()
            .iter()
            .position(|area| (area.start..area.end).contains(&address))
    };
    if loader != 0 {
        let first = index(loader)?;
        let inode = map.areas()[first].inode;
        let start = map.areas()[first].start;
        let mut last = &map.areas()[first];
        for area in &map.areas()[first + 1..] {
            if area.start != last.end || !belongs(area, map, inode) {
                break;
            }
            last = area;
        }
        return Some((start, last.end));
    }
    let vdso = asked.auxiliary(AT_SYSINFO_EHDR)?;
    let vdso = index(vdso)?;
    let areas = map.areas();
    let mut first = &areas[vdso];
    for area in areas[..vdso].iter().rev() {
        if area.end != first.start || !map.name(area).starts_with(b"[vvar") {
            break;
        }
        first = area;
    }
    Some((first.start, areas[vdso].end))
}

/// Returns the area nearest to the base of placement: below the stack, or at a third of the
/// addresses.
fn nearest_to_the_base(map: &Map, upwards: bool, stack: u64) -> Option<(u64, u64)> {
    let mut areas = map.areas().iter();
    let area = match upwards {
        true => areas.find(|area| area.start >= stack / 3),
        false => areas.rfind(|area| area.end <= stack && area.start >= stack / 3 * 2),
    };
    area.map(|area| (area.start, area.end))
}

/// Returns the end of the heap in the kernel's map.
pub(crate) fn heap_end(map: &Map, start_brk: u64) -> Option<u64> {
    map.areas()
        .iter()
        .filter(|area| map.name(area) == b"[heap]")
        .map(|area| area.end)
        .max()
        .filter(|end| *end >= start_brk)
}

/// Returns `true` if the area is a part of the file, or of its zeroed data behind it.
fn belongs(area: &Area, map: &Map, inode: u64) -> bool {
    area.inode == inode || area.inode == 0 && map.name(area).is_empty()
}

/// Returns `true` for a program for i386, with 32-bit addresses, by its first bytes.
fn is_narrow(head: &[u8]) -> bool {
    const I386: [u8; 2] = 3u16.to_le_bytes();
    head.get(18..20) == Some(&I386)
}
