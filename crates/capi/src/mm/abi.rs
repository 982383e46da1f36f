//! The structures and constants of `samara/mm.h`, field by field.

use core::ffi::{c_char, c_int, c_uchar, c_uint, c_ulong, c_void};

use crate::mm::file::MmFile;

/// `enum mm_format`, as any number that C code may pass.
pub type MmFormat = c_uint;
/// x86-64 with four levels.
pub const MM_X86_64: MmFormat = 0;
/// x86-64 with five levels.
pub const MM_X86_64_LA57: MmFormat = 1;
/// AArch64, granule of 4 KiB.
pub const MM_AARCH64_4K: MmFormat = 2;
/// RISC-V, three levels.
pub const MM_RISCV_SV39: MmFormat = 3;
/// RISC-V, four levels.
pub const MM_RISCV_SV48: MmFormat = 4;

/// `struct mm_phys_ops`. All three functions are required. They may be called from any thread that
/// calls the library.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MmPhysOps {
    /// Passed to every function.
    pub ctx: *mut c_void,
    /// Allocates 2^order frames of 4 KiB, aligned to their size, with any content. Returns 0 or
    /// `-ENOMEM`.
    pub alloc: Option<unsafe extern "C" fn(*mut c_void, c_uint, *mut u64) -> c_int>,
    /// Frees an allocation, with the same start and order.
    pub free: Option<unsafe extern "C" fn(*mut c_void, u64, c_uint)>,
    /// Returns where the library reads and writes a frame.
    pub to_virt: Option<unsafe extern "C" fn(*mut c_void, u64) -> *mut c_void>,
}

/// `struct mm_phys_stats`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MmPhysStats {
    /// Unused frames of the library's own memory.
    pub free: u64,
    /// Frames of page tables of address spaces.
    pub tables: u64,
    /// Frames of private memory, without the zero page.
    pub anon: u64,
    /// Frames of files and shared memory.
    pub file: u64,
    /// Tables that more than one address space uses.
    pub shared_tables: u64,
}

/// The file is open for reading.
pub const MM_FILE_READ: c_uint = 1;
/// The file is open for writing.
pub const MM_FILE_WRITE: c_uint = 2;
/// The file system is mounted `noexec`.
pub const MM_FILE_NOEXEC: c_uint = 4;
/// The file is open for appending.
pub const MM_FILE_APPEND: c_uint = 8;
/// The file is a memfd, or in tmpfs.
pub const MM_FILE_SHMEM: c_uint = 16;
/// The file system does not align large mappings.
pub const MM_FILE_UNALIGNED: c_uint = 32;
/// The file is in overlayfs.
pub const MM_FILE_STACKED: c_uint = 64;
/// The file is in FUSE.
pub const MM_FILE_FUSE: c_uint = 128;
/// The file is in ramfs.
pub const MM_FILE_PLACED: c_uint = 256;

/// `struct mm_file_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MmFileInfo {
    /// The name in maps. NULL is the empty name.
    pub name: *const c_char,
    /// Major number of the device.
    pub major: u32,
    /// Minor number of the device.
    pub minor: u32,
    /// The inode. Files with the same device and inode share pages on one `mm_phys`.
    pub inode: u64,
    /// `MM_FILE_…`.
    pub flags: c_uint,
}

/// `struct mm_file_ops`. They may be called from any thread that calls the library.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MmFileOps {
    /// Fills 4,096 bytes. Returns 0, or `-EIO`.
    pub read_page: Option<unsafe extern "C" fn(*mut c_void, u64, *mut c_void) -> c_int>,
    /// Receives a dirty page.
    pub write_page: Option<unsafe extern "C" fn(*mut c_void, u64, *const c_void) -> c_int>,
    /// Zeroes a range.
    pub punch: Option<unsafe extern "C" fn(*mut c_void, u64, u64) -> c_int>,
    /// Returns the current size in bytes.
    pub size: Option<unsafe extern "C" fn(*mut c_void) -> u64>,
    /// Called when the last open and mapping are gone.
    pub release: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// `struct mm_config`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MmConfig {
    /// First address above user space (exclusive).
    pub task_size: u64,
    /// Top-down placement starts below this address (exclusive).
    pub mmap_base: u64,
    /// Bottom-up placement starts here when top-down placement has run out.
    pub legacy_base: u64,
    /// Lower hints are raised to this address.
    pub mmap_min_addr: u64,
    /// Lowest address of the heap; 0: none yet.
    pub start_brk: u64,
    /// An address in the area named `[stack]`; 0: none yet.
    pub stack_top: u64,
    /// `RLIMIT_AS` in bytes.
    pub rlim_as: u64,
    /// `RLIMIT_DATA` in bytes.
    pub rlim_data: u64,
    /// `RLIMIT_STACK` in bytes.
    pub rlim_stack: u64,
    /// `RLIMIT_MEMLOCK` in bytes.
    pub rlim_memlock: u64,
    /// `vm.max_map_count`.
    pub max_map_count: u64,
    /// `vm.overcommit_memory`: 0, 1, 2.
    pub overcommit: c_int,
    /// `CAP_IPC_LOCK`.
    pub ipc_lock: bool,
    /// Seed of exec's random choices; 0: nothing is random.
    pub seed: u64,
}

/// `struct mm_backend`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MmBackend {
    /// Passed to every function.
    pub ctx: *mut c_void,
    /// Called after `[start, end)` was mapped.
    pub map: Option<
        unsafe extern "C" fn(*mut c_void, u64, u64, c_int, c_int, *mut MmFile, u64) -> c_int,
    >,
    /// Called after the range was unmapped.
    pub unmap: Option<unsafe extern "C" fn(*mut c_void, u64, u64) -> c_int>,
    /// Called after the range got this protection.
    pub protect: Option<unsafe extern "C" fn(*mut c_void, u64, u64, c_int) -> c_int>,
    /// Called after a range was moved to another address.
    pub r#move: Option<unsafe extern "C" fn(*mut c_void, u64, u64, u64) -> c_int>,
}

/// `struct mm_contents`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MmContents {
    /// Called for pages that are discarded, or treated by other advice: `MADV_…`.
    pub discard: Option<unsafe extern "C" fn(*mut c_void, u64, u64, c_int) -> c_int>,
    /// Writes back the changes of a shared mapping. `flags` are those of `msync` (`MS_…`).
    pub sync: Option<unsafe extern "C" fn(*mut c_void, u64, u64, c_int) -> c_int>,
}

/// Neither set-user-ID nor set-group-ID.
pub const MM_SETID_NO: c_int = 0;
/// Set-ID bits for the current IDs of the process.
pub const MM_SETID_SAME: c_int = 1;
/// Set-ID bits for other IDs.
pub const MM_SETID_OTHER: c_int = 2;

/// `struct mm_program`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MmProgram {
    /// The file, opened for this program. The library drops the reference.
    pub file: *mut MmFile,
    /// The size of the file in bytes.
    pub size: u64,
    /// `MM_SETID_…`.
    pub set_id: c_int,
    /// Passed to `read`.
    pub ctx: *mut c_void,
}

/// `struct mm_special`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MmSpecial {
    /// The name, in brackets.
    pub name: *const c_char,
    /// The length in pages.
    pub pages: u64,
    /// `true` for the vdso, `false` for its data.
    pub code: bool,
}

/// `struct mm_exec`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MmExec {
    /// The path of the file, as the caller gives it.
    pub path: *const c_char,
    /// The arguments, terminated by NULL.
    pub argv: *const *const c_char,
    /// The environment, terminated by NULL.
    pub envp: *const *const c_char,
    /// Limits and settings. The layout is ignored.
    pub config: *const MmConfig,
    /// `personality(2)` of the process.
    pub personality: c_ulong,
    /// The areas that a kernel maps into each program.
    pub special: *const MmSpecial,
    /// The number of these areas.
    pub specials: usize,
    /// Passed to `open`.
    pub ctx: *mut c_void,
    /// Opens a program.
    pub open: Option<unsafe extern "C" fn(*mut c_void, *const c_char, *mut MmProgram) -> c_int>,
    /// Reads from a program.
    pub read: Option<unsafe extern "C" fn(*mut c_void, u64, *mut c_void, usize) -> i64>,
    /// `AT_HWCAP`.
    pub hwcap: u64,
    /// `AT_HWCAP2`.
    pub hwcap2: u64,
    /// `AT_CLKTCK`; 0 is 100.
    pub clktck: u64,
    /// `AT_MINSIGSTKSZ`; 0 is 2048.
    pub minsigstksz: u64,
    /// `AT_UID`.
    pub uid: u32,
    /// `AT_EUID`.
    pub euid: u32,
    /// `AT_GID`.
    pub gid: u32,
    /// `AT_EGID`.
    pub egid: u32,
    /// `AT_SECURE`.
    pub secure: bool,
    /// The bytes that `AT_RANDOM` points to.
    pub random: [c_uchar; 16],
    /// `AT_EXECFD`; null: none.
    pub descriptor: *const u32,
}

/// `struct mm_started`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MmStarted {
    /// The address of the first instruction.
    pub start: u64,
    /// The address of the number of arguments.
    pub stack_pointer: u64,
    /// `AT_ENTRY`.
    pub entry: u64,
    /// `AT_BASE`.
    pub interpreter: u64,
    /// `AT_PHDR`.
    pub headers: u64,
    /// `AT_SYSINFO_EHDR`; 0: none.
    pub vdso: u64,
    /// End of the stack (exclusive).
    pub stack_end: u64,
    /// The width of addresses: 32 or 64.
    pub bits: c_uint,
    /// The personality from now on.
    pub personality: c_ulong,
}

/// Copies last-level tables.
pub const MM_FORK_COPY: c_uint = 0;
/// Shares last-level tables until one side changes them.
pub const MM_FORK_SHARE: c_uint = 1;

/// A load.
pub const MM_READ: c_uint = 1;
/// A store.
pub const MM_WRITE: c_uint = 2;
/// An instruction fetch.
pub const MM_EXEC: c_uint = 4;

/// The page is present.
pub const MM_PAGE_PRESENT: c_uint = 1;
/// The page belongs to a file or to shared memory.
pub const MM_PAGE_FILE: c_uint = 2;
/// One address space maps the page.
pub const MM_PAGE_EXCLUSIVE: c_uint = 4;
/// The page was written to.
pub const MM_PAGE_SOFT_DIRTY: c_uint = 8;
/// The page is the zero page.
pub const MM_PAGE_ZERO: c_uint = 16;
/// The page is part of a huge page.
pub const MM_PAGE_HUGE: c_uint = 32;

/// `struct mm_area`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MmArea {
    /// First address.
    pub start: u64,
    /// First address after the area.
    pub end: u64,
    /// Offset of `start` in the file, as in maps.
    pub offset: u64,
    /// `PROT_…`.
    pub prot: c_int,
    /// Mapped with `MAP_SHARED`.
    pub shared: bool,
    /// The inode of the file.
    pub inode: u64,
    /// The flags, by the kernel's own numbers.
    pub vm_flags: u64,
    /// The name in maps, truncated.
    pub name: [c_char; 64],
}
