//! Settings from outside the address space: the kernel's build and settings, limits, the layout at
//! exec.

use core::ops::Range;

use crate::errno::Errno;
use crate::flags::PAGE_SIZE;
use crate::huge_pool::HugePool;
use crate::kernel::KernelVersion;

/// The lowest hint that security modules accept in distributions' kernels (`CONFIG_LSM_MMAP_MIN_ADDR`).
const MODULE_MINIMUM: u64 = 0x1_0000;

/// Settings of the kernel that the address space imitates, and the privileges of its owner.
///
/// The default is Linux on x86-64 as distributions ship it, for an unprivileged process. Fields may be added: fill in the rest from it.
///
/// ```
/// use samara_mm::Config;
///
/// let config = Config { pkeys: true, ..Config::default() };
/// assert!(config.transparent_huge_pages);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The version whose rules hold.
    pub kernel: KernelVersion,
    /// First address above user space (exclusive): `0x7fff_ffff_f000`, and with page tables of five levels `0xff_ffff_ffff_f000`. Then only hints
    /// above the former are answered by addresses above it ([`window`](Self::window)). Programs with 32-bit addresses have `0xffff_e000`, and `0xc000_0000`
    /// with the personality `ADDR_LIMIT_3GB`.
    pub task_size: u64,
    /// The end (exclusive) of what placement uses unless a hint lies above it: `0x7fff_ffff_f000` on x86-64, `1 << 48` on AArch64, and `1 << 47` on RISC-V.
    pub window: u64,
    /// First address of user space. Nothing is ever mapped below it, whatever the call, its flags and the privileges of the caller: the two minima
    /// below count as no less. It is 0 on Linux; [`within`](Self::within) sets it.
    pub task_base: u64,
    /// The lowest address that the kernel chooses: hints below it are raised to it, and nothing is placed and no stack grows
    /// below it. Fixed mappings may lie lower ([`fixed_min_addr`](Self::fixed_min_addr)). This is **not** the sysctl of that
    /// name, but the larger of it and the build-time minimum of the kernel's security module (65536 in distributions). It
    /// is called as the field of C's `struct mm_config` is. [`with_min_addr`](Self::with_min_addr) sets both.
    pub mmap_min_addr: u64,
    /// The sysctl `vm.mmap_min_addr` itself, the bound of what a program may map: fixed mappings below it need
    /// `CAP_SYS_RAWIO`.
    pub fixed_min_addr: u64,
    /// The table that calls come from.
    pub calls: Calls,
    /// `vm.max_map_count`.
    pub max_map_count: u32,
    /// `vm.overcommit_memory`.
    pub overcommit: Overcommit,
    /// Built with `CONFIG_ANON_VMA_NAME`.
    pub anon_vma_names: bool,
    /// Built with `CONFIG_KSM`.
    pub ksm: bool,
    /// Built with `CONFIG_TRANSPARENT_HUGEPAGE`: large mappings are aligned and the advice is known.
    pub transparent_huge_pages: bool,
    /// `/sys/kernel/mm/transparent_hugepage/shmem_enabled`: whether tmpfs may use huge pages.
    pub shmem_huge: bool,
    /// The pool of huge pages for `MAP_HUGETLB` and hugetlbfs. All address spaces with the same one take from it; an empty one if `None`.
    pub huge_pool: Option<HugePool>,
    /// The processor has protection keys.
    pub pkeys: bool,
    /// `stack_guard_gap`, in bytes.
    pub stack_guard_gap: u64,
    /// Personality `READ_IMPLIES_EXEC`.
    pub read_implies_exec: bool,
    /// Memory may not be both written and executed (`PR_SET_MDWE(2const)`).
    pub mdwe: Mdwe,
    /// Pages of all areas may be merged by their contents (`PR_SET_MEMORY_MERGE`): new areas are marked so.
    pub merge_any: bool,
    /// Pages of memory and swap in the machine: a single larger request fails in the heuristic
    /// overcommit mode. `u64::MAX` when unknown.
    pub total_pages: u64,
    /// Highest NUMA node number that exists, plus one.
    pub numa_nodes: u32,
    /// Privileges of the owner.
    pub capabilities: Capabilities,
}

/// The table that a program's calls come from: each of the two widths of addresses has its own, and a program may use both. Then each has bases of
/// its own from which placement begins.
///
/// ```
/// use samara_mm::{AddressSpace, Call, Calls, Config, FileArg, Layout, Limits};
///
/// // A program with 64-bit addresses, started without randomisation, makes a call by `int 0x80`.
/// let calls = Calls::Other { mmap_base: 0xf7ff_e000, legacy_base: 0x5555_5000, end: 0xffff_e000 };
/// let config = Config { calls, ..Config::default() };
/// let mut space = AddressSpace::new(config, Limits::default(), Layout::default())?;
/// let page = Call::Mmap { addr: 0, len: 4096, prot: 3, flags: 0x22, file: FileArg::None, offset: 0 };
/// assert_eq!(space.perform(&page)?, 0xf7ff_d000);
/// # Ok::<(), samara_mm::Errno>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Calls {
    /// The one that is as wide as the program's addresses: the [`Layout`] says where placement begins.
    #[default]
    Own,
    /// The other one: i386's (`int 0x80`) for programs with 64-bit addresses, or that of x86-64 for programs with 32-bit ones. In the latter placement begins
    /// beyond what these may have: nothing is found but at hints and for `MAP_32BIT`, whatever the numbers say.
    Other {
        /// As [`Layout::mmap_base`].
        mmap_base: u64,
        /// As [`Layout::legacy_base`].
        legacy_base: u64,
        /// Placement ends here (exclusive) when it goes upwards.
        end: u64,
    },
}

impl Config {
    /// Returns `true` if the program has 64-bit addresses.
    #[must_use]
    pub fn is_wide(&self) -> bool {
        const END_OF_32BIT: u64 = 1 << 32;
        self.task_size > END_OF_32BIT
    }

    /// Returns these settings with the sysctl `vm.mmap_min_addr`, in bytes, as a distribution's kernel takes it: fixed
    /// mappings are bounded by it ([`fixed_min_addr`](Self::fixed_min_addr)), hints and placement by it or by 65536, the
    /// minimum of the security module, whichever is larger ([`mmap_min_addr`](Self::mmap_min_addr)).
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, Errno, Layout, Limits, MmapOptions};
    ///
    /// let config = Config::default().with_min_addr(0x1000);
    /// let mut space = AddressSpace::new(config, Limits::default(), Layout::default())?;
    /// let page = MmapOptions::anonymous(0x1000);
    /// assert_eq!(space.mmap(&page.clone().hint(0x2000))?, 0x1_0000); // raised
    /// assert_eq!(space.mmap(&page.clone().fixed(0x2000))?, 0x2000);
    /// assert_eq!(space.mmap(&page.fixed(0)), Err(Errno::EPERM));
    /// # Ok::<(), Errno>(())
    /// ```
    #[must_use]
    pub fn with_min_addr(self, sysctl: u64) -> Self {
        Config {
            mmap_min_addr: sysctl.max(MODULE_MINIMUM),
            fixed_min_addr: sysctl,
            ..self
        }
    }

    /// Confines an address space to a range: returns the settings and the layout of a guest that lives in a part of its host.
    ///
    /// All of the range belongs to the guest. No call returns an address outside, and the owner of
    /// the pages is notified of none, whatever the guest asks for and whatever
    /// [`capabilities`](Self::capabilities) it has. This holds for fixed addresses, hints,
    /// `MAP_32BIT`, the program break, targets of `mremap`, and stacks that grow. (An address that
    /// the host itself passes, to `perform_at` and `seed`, is not checked.) The heap begins at the
    /// start of the range, and mappings are placed downwards from its end. There is no `[stack]`.
    /// An embedder that puts a program there moves [`start_brk`](Layout::start_brk),
    /// [`brk`](Layout::brk) and [`stack_top`](Layout::stack_top).
    ///
    /// The other settings stay as they are. A range that ends at 4 GiB or below makes a program with 32-bit addresses ([`is_wide`](Self::is_wide)).
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Call, Config, Errno, Limits, MmapOptions};
    ///
    /// let (config, layout) = Config::default().within(0x7f00_0000_0000..0x7f00_0004_0000)?;
    /// let mut space = AddressSpace::new(config, Limits::default(), layout)?;
    /// let page = MmapOptions::anonymous(0x1000);
    /// assert_eq!(space.mmap(&page)?, 0x7f00_0003_f000);
    /// assert_eq!(space.mmap(&page.fixed(0x5555_0000_0000)), Err(Errno::EPERM));
    /// assert_eq!(space.perform(&Call::Brk { addr: 0x7f00_0000_1000 })?, 0x7f00_0000_1000);
    /// # Ok::<(), Errno>(())
    /// ```
    ///
    /// # Errors
    /// `EINVAL` if the range is empty or does not begin and end with a page, `ENOMEM` if it ends above [`task_size`](Self::task_size).
    pub fn within(self, range: Range<u64>) -> Result<(Self, Layout), Errno> {
        let Range { start, end } = range;
        if start >= end || !start.is_multiple_of(PAGE_SIZE) || !end.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        if end > self.task_size {
            return Err(Errno::ENOMEM);
        }
        let config = Config {
            task_size: end,
            task_base: start,
            mmap_min_addr: start,
            fixed_min_addr: start,
            calls: Calls::Own,
            ..self
        };
        let layout = Layout {
            mmap_base: end,
            legacy_base: start,
            bottom_up: false,
            start_brk: start,
            brk: start,
            data_size: 0,
            stack_top: 0,
        };
        Ok((config, layout))
    }

    /// Returns the settings with no minimum below [`task_base`](Self::task_base).
    pub(crate) fn raised(self) -> Self {
        Config {
            mmap_min_addr: self.mmap_min_addr.max(self.task_base),
            fixed_min_addr: self.fixed_min_addr.max(self.task_base),
            ..self
        }
    }

    /// Returns `true` if its calls come from the table of x86-64, and not from i386's.
    #[must_use]
    pub fn calls_are_wide(&self) -> bool {
        self.is_wide() == (self.calls == Calls::Own)
    }
}

/// Privileges that the calls ask for (`capabilities(7)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// `CAP_IPC_LOCK`: locks any amount of memory.
    pub ipc_lock: bool,
    /// `CAP_SYS_ADMIN`.
    pub sys_admin: bool,
    /// `CAP_SYS_NICE`: moves shared pages between nodes.
    pub sys_nice: bool,
    /// `CAP_SYS_RAWIO`: maps below the minimum address.
    pub sys_rawio: bool,
    /// `CAP_SYS_RESOURCE`.
    pub sys_resource: bool,
}

/// `vm.overcommit_memory` (`proc_sys_vm(5)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overcommit {
    /// 0: only requests larger than all memory are refused.
    #[default]
    Heuristic,
    /// 1: nothing is refused.
    Always,
    /// 2: `MAP_NORESERVE` is ignored, and requests beyond this many pages are refused.
    Never {
        /// Pages that this address space may commit.
        limit_pages: u64,
    },
}

/// The rule for executable memory that is or was writable (`PR_SET_MDWE(2const)`). Once on, it
/// stays on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mdwe {
    /// It may.
    #[default]
    Off,
    /// It may not, nor in children.
    On,
    /// It may not, but in children.
    NotInherited,
}

impl Mdwe {
    /// Returns the setting of a child of a fork, and of a program that is executed.
    #[must_use]
    pub fn inherited(self) -> Self {
        match self {
            Mdwe::NotInherited => Mdwe::Off,
            kept => kept,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            kernel: KernelVersion::NEWEST,
            task_size: 0x7fff_ffff_f000,
            window: 0x7fff_ffff_f000,
            task_base: 0,
            mmap_min_addr: MODULE_MINIMUM,
            fixed_min_addr: 0x1000,
            calls: Calls::Own,
            max_map_count: 65530,
            overcommit: Overcommit::Heuristic,
            anon_vma_names: false,
            ksm: true,
            transparent_huge_pages: true,
            shmem_huge: false,
            huge_pool: None,
            pkeys: false,
            stack_guard_gap: 256 * PAGE_SIZE,
            read_implies_exec: false,
            mdwe: Mdwe::Off,
            merge_any: false,
            total_pages: u64::MAX,
            numa_nodes: 1,
            capabilities: Capabilities::default(),
        }
    }
}

/// Resource limits in bytes (`getrlimit(2)`); `u64::MAX` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// `RLIMIT_AS`.
    pub address_space: u64,
    /// `RLIMIT_DATA`.
    pub data: u64,
    /// `RLIMIT_STACK`.
    pub stack: u64,
    /// `RLIMIT_MEMLOCK`.
    pub memlock: u64,
}

impl Limits {
    /// No limit at all.
    pub const UNLIMITED: Limits = Limits {
        address_space: u64::MAX,
        data: u64::MAX,
        stack: u64::MAX,
        memlock: u64::MAX,
    };
}

impl Default for Limits {
    /// Returns the usual limits of an interactive Linux session: 8 MiB of stack and of locked
    /// memory.
    fn default() -> Self {
        Limits {
            stack: 8 << 20,
            memlock: 8 << 20,
            ..Limits::UNLIMITED
        }
    }
}

/// The addresses that exec has chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Top-down placement starts below this address (exclusive).
    pub mmap_base: u64,
    /// Bottom-up placement starts here: the legacy layout, and the top-down one when it has run out.
    pub legacy_base: u64,
    /// Legacy layout: placement goes upwards.
    pub bottom_up: bool,
    /// Lowest address of the heap.
    pub start_brk: u64,
    /// The program break; not rounded to a page.
    pub brk: u64,
    /// Size of the program's data segment in bytes, which `RLIMIT_DATA` counts against brk.
    pub data_size: u64,
    /// An address inside the area that is called `[stack]`: the stack pointer at exec. 0: there is none.
    pub stack_top: u64,
}

impl Layout {
    /// Returns `true` if an address space with these settings can have this layout. The bases of
    /// placement must be in whole pages. Nothing may lie above the end of user space, nor the heap
    /// below its start or that of user space. A layout without a heap, at 0, is valid.
    pub(crate) fn fits(&self, config: &Config) -> bool {
        let end = config.task_size;
        let heap = self.start_brk >= config.task_base && self.start_brk < end;
        self.mmap_base.is_multiple_of(PAGE_SIZE)
            && self.legacy_base.is_multiple_of(PAGE_SIZE)
            && self.mmap_base <= end
            && self.legacy_base <= end
            && (heap || self.start_brk == 0)
            && self.start_brk <= self.brk
            && self.brk <= end
            && self.data_size <= end
            && self.stack_top <= end
    }
}

impl Default for Layout {
    /// Returns the layout without address randomisation, with 8 MiB of stack.
    fn default() -> Self {
        Layout {
            mmap_base: 0x7fff_f7ff_f000,
            legacy_base: 0x2aaa_aaaa_b000,
            bottom_up: false,
            start_brk: 0x5555_5555_9000,
            brk: 0x5555_5555_9000,
            data_size: 0,
            stack_top: 0x7fff_ffff_e000,
        }
    }
}
