//! The structures of `samara/mm.h`, field by field, and its numbers.

use core::ffi::{c_char, c_int, c_uchar, c_uint, c_ulong, c_void};

use crate::mm::file::MmFile;

/// `enum mm_format`, as any number that C code may give.
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

/// `struct mm_phys_ops`. All three functions are needed; they may be called from any thread that calls the library.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MmPhysOps {
    /// Handed to every function.
    pub ctx: *mut c_void,
    /// 2^order frames of 4 KiB, aligned to their size, of any content: 0 or `-ENOMEM`.
    pub alloc: Option<unsafe extern "C" fn(*mut c_void, c_uint, *mut u64) -> c_int>,
    /// As it was allocated: the same start and order.
    pub free: Option<unsafe extern "C" fn(*mut c_void, u64, c_uint)>,
    /// Where the library reads and writes a frame.
    pub to_virt: Option<unsafe extern "C" fn(*mut c_void, u64) -> *mut c_void>,
}

/// `struct mm_phys_stats`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MmPhysStats {
    /// Frames not in use, of the library's own.
    pub free: u64,
    /// Frames that hold page tables of an address space.
    pub tables: u64,
    /// Frames of private memory, without the zero page.
    pub anon: u64,
    /// Frames of files' and shared memory.
    pub file: u64,
    /// Tables that more than one address space uses.
    pub shared_tables: u64,
}

/// Opened for reading.
pub const MM_FILE_READ: c_uint = 1;
/// Opened for writing.
pub const MM_FILE_WRITE: c_uint = 2;
/// On a file system mounted `noexec`.
pub const MM_FILE_NOEXEC: c_uint = 4;
/// Opened for appending.
pub const MM_FILE_APPEND: c_uint = 8;
/// A memfd, or a file of tmpfs.
pub const MM_FILE_SHMEM: c_uint = 16;
/// Of a file system that does not align large mappings.
pub const MM_FILE_UNALIGNED: c_uint = 32;
/// Of overlayfs.
pub const MM_FILE_STACKED: c_uint = 64;
/// Of FUSE.
pub const MM_FILE_FUSE: c_uint = 128;
/// Of ramfs.
pub const MM_FILE_PLACED: c_uint = 256;

/// `struct mm_file_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MmFileInfo {
    /// As maps prints it; NULL is the empty name.
    pub name: *const c_char,
    /// Major number of the device.
    pub major: u32,
    /// Minor number of the device.
    pub minor: u32,
    /// The same device and inode: the same pages, on one `mm_phys`.
    pub inode: u64,
    /// `MM_FILE_…`.
    pub flags: c_uint,
}

/// `struct mm_file_ops`. They may be called from any thread that calls the library.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MmFileOps {
    /// Fills 4,096 bytes; 0, or `-EIO`.
    pub read_page: Option<unsafe extern "C" fn(*mut c_void, u64, *mut c_void) -> c_int>,
    /// Takes a dirty page.
    pub write_page: Option<unsafe extern "C" fn(*mut c_void, u64, *const c_void) -> c_int>,
    /// Makes a range zero.
    pub punch: Option<unsafe extern "C" fn(*mut c_void, u64, u64) -> c_int>,
    /// The size in bytes now.
    pub size: Option<unsafe extern "C" fn(*mut c_void) -> u64>,
    /// The last open and mapping have gone.
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
    /// Bottom-up placement starts here when the other has run out.
    pub legacy_base: u64,
    /// Hints below are raised to it.
    pub mmap_min_addr: u64,
    /// Lowest address of the heap; 0: none yet.
    pub start_brk: u64,
    /// An address in the area that is called `[stack]`; 0: none yet.
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
    /// For what exec draws at random; 0: nothing is random.
    pub seed: u64,
}

/// `struct mm_backend`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MmBackend {
    /// Handed to every function.
    pub ctx: *mut c_void,
    /// `[start, end)` is mapped now.
    pub map: Option<
        unsafe extern "C" fn(*mut c_void, u64, u64, c_int, c_int, *mut MmFile, u64) -> c_int,
    >,
    /// It is mapped no more.
    pub unmap: Option<unsafe extern "C" fn(*mut c_void, u64, u64) -> c_int>,
    /// It has this protection now.
    pub protect: Option<unsafe extern "C" fn(*mut c_void, u64, u64, c_int) -> c_int>,
    /// What was at one place is at another now.
    pub r#move: Option<unsafe extern "C" fn(*mut c_void, u64, u64, u64) -> c_int>,
}

/// `struct mm_contents`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MmContents {
    /// Pages are given up, or treated otherwise: `MADV_…`.
    pub discard: Option<unsafe extern "C" fn(*mut c_void, u64, u64, c_int) -> c_int>,
    /// Writes back what a shared mapping has changed; `flags` are those of `msync` (`MS_…`).
    pub sync: Option<unsafe extern "C" fn(*mut c_void, u64, u64, c_int) -> c_int>,
}

/// Neither set-user-ID nor set-group-ID.
pub const MM_SETID_NO: c_int = 0;
/// For who the process is already.
pub const MM_SETID_SAME: c_int = 1;
/// For somebody else.
pub const MM_SETID_OTHER: c_int = 2;

/// `struct mm_program`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MmProgram {
    /// Opened for this program; the library puts it.
    pub file: *mut MmFile,
    /// Of the file in bytes.
    pub size: u64,
    /// `MM_SETID_…`.
    pub set_id: c_int,
    /// For `read`.
    pub ctx: *mut c_void,
}

/// `struct mm_special`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MmSpecial {
    /// In brackets.
    pub name: *const c_char,
    /// Its length.
    pub pages: u64,
    /// The vdso, as opposed to its data.
    pub code: bool,
}

/// `struct mm_exec`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MmExec {
    /// The file, as the caller names it.
    pub path: *const c_char,
    /// Ended by NULL.
    pub argv: *const *const c_char,
    /// Likewise.
    pub envp: *const *const c_char,
    /// Limits and the rest, but for the layout.
    pub config: *const MmConfig,
    /// `personality(2)` of the process.
    pub personality: c_ulong,
    /// What a kernel maps into each program.
    pub special: *const MmSpecial,
    /// How many there are.
    pub specials: usize,
    /// For `open`.
    pub ctx: *mut c_void,
    /// Opens a program.
    pub open: Option<unsafe extern "C" fn(*mut c_void, *const c_char, *mut MmProgram) -> c_int>,
    /// Reads of one.
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
    /// What `AT_RANDOM` points to.
    pub random: [c_uchar; 16],
    /// `AT_EXECFD`; null: none.
    pub descriptor: *const u32,
}

/// `struct mm_started`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MmStarted {
    /// The first instruction.
    pub start: u64,
    /// The number of arguments is there.
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
    /// 32 or 64.
    pub bits: c_uint,
    /// From now on.
    pub personality: c_ulong,
}

/// Last-level tables are copied.
pub const MM_FORK_COPY: c_uint = 0;
/// They are shared until one side changes them.
pub const MM_FORK_SHARE: c_uint = 1;

/// A load.
pub const MM_READ: c_uint = 1;
/// A store.
pub const MM_WRITE: c_uint = 2;
/// An instruction fetch.
pub const MM_EXEC: c_uint = 4;

/// The page is there.
pub const MM_PAGE_PRESENT: c_uint = 1;
/// It is a file's, or shared memory.
pub const MM_PAGE_FILE: c_uint = 2;
/// One address space maps it.
pub const MM_PAGE_EXCLUSIVE: c_uint = 4;
/// It was written to.
pub const MM_PAGE_SOFT_DIRTY: c_uint = 8;
/// It is the zero page.
pub const MM_PAGE_ZERO: c_uint = 16;
/// It is a part of a huge page.
pub const MM_PAGE_HUGE: c_uint = 32;

/// `struct mm_area`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MmArea {
    /// First address.
    pub start: u64,
    /// First address beyond.
    pub end: u64,
    /// Of `start` in the file, as maps prints it.
    pub offset: u64,
    /// `PROT_…`.
    pub prot: c_int,
    /// Mapped with `MAP_SHARED`.
    pub shared: bool,
    /// Of the file.
    pub inode: u64,
    /// By the kernel's own numbers.
    pub vm_flags: u64,
    /// As maps prints it, cut short.
    pub name: [c_char; 64],
}
