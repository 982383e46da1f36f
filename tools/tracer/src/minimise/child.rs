//! The kernel's side: a process that performs one step after the other on request, and allocates
//! nothing.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};

use samara_linux::Tid;
use samara_linux::maps::Map;
use samara_mm::{Call, FileArg};

use crate::trace::SYS_SET_MEMPOLICY_HOME_NODE;

use super::both::Files;
use super::history::Action;

const TOUCH: i64 = -1;
const FORK_INTO: i64 = -2;
const FORK_ASIDE: i64 = -3;

/// The space for data that arguments point to: names, masks, the output of `mincore`.
const ROOM: usize = 1 << 20;

/// The memory that both processes share. They take turns: after writing, a process notifies the
/// other through a pipe. All accesses go through raw pointers, because the compiler does not know
/// of the other process.
#[repr(C)]
struct Shared {
    number: i64,
    arguments: [u64; 6],
    result: i64,
    /// The process that performs the steps.
    process: Tid,
    /// A pipe within one process. Reading from it writes to a page without raising a signal.
    scratch: [i32; 2],
    room: [u8; ROOM],
}

pub(super) struct Child {
    shared: *mut Shared,
    first: Tid,
    to: File,
    from: File,
    /// The address below which the history's mappings are placed: a multiple of [`WIDE`].
    pub(super) fence: u64,
}

/// The size of gaps that can take any mapping.
pub(super) const WIDE: u64 = 1 << 30;

fn pipe() -> io::Result<[i32; 2]> {
    let mut ends = [0; 2];
    // SAFETY: there is room for two descriptors.
    match unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } {
        0 => Ok(ends),
        _ => Err(io::Error::last_os_error()),
    }
}

fn close(end: i32) {
    // SAFETY: the descriptor is ours and has no other user.
    unsafe { libc::close(end) };
}

impl Child {
    /// Forks a process that waits for its first step, without a heap.
    pub(super) fn start() -> io::Result<Self> {
        // SAFETY: the call makes a new mapping at a place of the kernel's choice.
        let shared = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Shared>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if shared == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let shared = shared.cast::<Shared>();
        let (down, up, scratch) = (pipe()?, pipe()?, pipe()?);
        // SAFETY: the new mapping has no other user.
        unsafe { (&raw mut (*shared).scratch).write_volatile(scratch) };
        // SAFETY: this process forks with one thread, and the child calls nothing that allocates or
        // locks.
        let first = unsafe { libc::syscall(libc::SYS_fork) } as Tid;
        if first == 0 {
            close(down[1]);
            close(up[0]);
            // SAFETY: both ends and the mapping are open.
            unsafe { serve(shared, down[0], up[1]) }
        }
        for end in [down[0], up[1], scratch[0], scratch[1]] {
            close(end);
        }
        // SAFETY: both are ours alone.
        let (to, from) = unsafe { (File::from_raw_fd(down[1]), File::from_raw_fd(up[0])) };
        let mut child = Self {
            shared,
            first,
            to,
            from,
            fence: 0,
        };
        if first < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping is ours, and the child waits.
        unsafe { (&raw mut (*shared).process).write_volatile(first) };
        // The inherited heap belongs to another program.
        let brk = crate::trace::start_of_heap(first)?;
        child.ask(libc::SYS_brk, [brk, 0, 0, 0, 0, 0])?;
        child.fence = child.put_fence(brk)?;
        Ok(child)
    }

    /// Fills the gaps next to the process's initial mappings with memory that merges with nothing,
    /// so that the history's mappings meet only each other.
    fn put_fence(&mut self, brk: u64) -> io::Result<u64> {
        const FIXED: u64 = libc::MAP_FIXED as u64;
        const SHARED: u64 = (libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as u64;
        let mut map = Map::default();
        crate::trace::read_map(self.first, &mut map)?;
        let placed = map.areas().iter().filter(|area| area.start > brk);
        let placed: Vec<(u64, u64)> = placed.map(|area| (area.start, area.end)).collect();
        let gaps = placed.windows(2).map(|pair| (pair[0].1, pair[1].0));
        let narrow = gaps.filter(|(from, to)| from < to && to - from < WIDE);
        for (from, to) in narrow {
            let room = [from, to - from, 0, SHARED | FIXED, u64::MAX, 0];
            self.ask(libc::SYS_mmap, room)?;
        }
        // The fence ends at a fully aligned address. So every aligned address has the same distance
        // from it in each process.
        let start = self.ask(libc::SYS_mmap, [0, WIDE, 0, SHARED, u64::MAX, 0])? as u64;
        let fence = start & !(WIDE - 1);
        if fence < start {
            let rest = [fence, start - fence, 0, SHARED | FIXED, u64::MAX, 0];
            self.ask(libc::SYS_mmap, rest)?;
        }
        Ok(fence)
    }

    /// Returns the process that performs the steps now.
    pub(super) fn process(&self) -> Tid {
        // SAFETY: the mapping lives as long as this, and the child waits.
        unsafe { (&raw const (*self.shared).process).read_volatile() }
    }

    fn ask(&mut self, number: i64, arguments: [u64; 6]) -> io::Result<i64> {
        // SAFETY: the mapping lives as long as this, and the child waits.
        unsafe {
            (&raw mut (*self.shared).number).write_volatile(number);
            (&raw mut (*self.shared).arguments).write_volatile(arguments);
        }
        self.to.write_all(&[1])?;
        self.from.read_exact(&mut [0])?;
        // SAFETY: the mapping lives as long as this, and the child has answered.
        Ok(unsafe { (&raw const (*self.shared).result).read_volatile() })
    }

    /// Copies an argument's data into the shared room.
    fn put(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= ROOM);
        // SAFETY: there is room for all bytes, and the child waits.
        unsafe {
            let room = (&raw mut (*self.shared).room).cast::<u8>();
            room.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }

    /// Performs a step. Returns `None` if the step cannot be performed here.
    ///
    /// # Errors
    /// The process died of the step.
    pub(super) fn perform(&mut self, action: &Action, files: &Files) -> io::Result<Option<i64>> {
        let room = self.shared as u64 + std::mem::offset_of!(Shared, room) as u64;
        let asked = match action {
            Action::Touch(addr) => Some((TOUCH, [*addr, 0, 0, 0, 0, 0])),
            Action::ForkInto => Some((FORK_INTO, [0; 6])),
            Action::ForkAside => Some((FORK_ASIDE, [0; 6])),
            Action::Call(call) => {
                match call {
                    Call::SetVmaName {
                        name: Some(name), ..
                    } if name.len() < ROOM => {
                        let mut text = name.as_bytes().to_vec();
                        text.push(0);
                        self.put(&text);
                    }
                    Call::Mbind { nodes, .. } => self.put(&nodes.to_ne_bytes()),
                    _ => {}
                }
                raw(call, room, files)
            }
        };
        match asked {
            Some((number, arguments)) => self.ask(number, arguments).map(Some),
            None => Ok(None),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let process = self.process();
        // SAFETY: both are processes of ours, and the first waits for those that it forked. The
        // mapping is ours.
        unsafe {
            if process > 0 {
                libc::kill(process, libc::SIGKILL);
            }
            if self.first > 0 {
                libc::kill(self.first, libc::SIGKILL);
                libc::waitpid(self.first, std::ptr::null_mut(), 0);
            }
            libc::munmap(self.shared.cast(), size_of::<Shared>());
        }
    }
}

/// A system call: its number and its raw arguments.
type Raw = (i64, [u64; 6]);

/// Returns the raw form of a call. `room` is the address that its arguments may point to. `None` if
/// the call cannot be performed here.
pub(super) fn raw(call: &Call, room: u64, files: &Files) -> Option<Raw> {
    match call {
        Call::Mmap { .. } => raw_mmap(call, files),
        _ => raw_on_areas(call)
            .or_else(|| raw_on_pages(call, room))
            .or_else(|| raw_on_locks(call))
            .or_else(|| raw_setting(call, room)),
    }
}

/// Fills up arguments with zeros.
fn six(list: &[u64]) -> [u64; 6] {
    let mut arguments = [0; 6];
    arguments[..list.len()].copy_from_slice(list);
    arguments
}

/// Returns the raw form of `mmap`, with the descriptor of the stand-in for its file.
fn raw_mmap(call: &Call, files: &Files) -> Option<Raw> {
    let &Call::Mmap {
        addr,
        len,
        prot,
        flags,
        ref file,
        offset,
    } = call
    else {
        return None;
    };
    let descriptor = match file {
        FileArg::None | FileArg::Bad => u64::MAX,
        FileArg::File(file) => files.descriptor(file)?.as_raw_fd() as u64,
    };
    Some((libc::SYS_mmap, [addr, len, prot, flags, descriptor, offset]))
}

/// Returns the raw form of calls that change or remove areas.
fn raw_on_areas(call: &Call) -> Option<Raw> {
    Some(match *call {
        Call::Munmap { addr, len } => (libc::SYS_munmap, six(&[addr, len])),
        Call::Mprotect {
            addr,
            len,
            prot,
            pkey: -1,
        } => (libc::SYS_mprotect, six(&[addr, len, prot])),
        Call::Mprotect {
            addr,
            len,
            prot,
            pkey,
        } => (
            libc::SYS_pkey_mprotect,
            six(&[addr, len, prot, i64::from(pkey) as u64]),
        ),
        Call::Mremap {
            old_addr,
            old_len,
            new_len,
            flags,
            new_addr,
        } => (
            libc::SYS_mremap,
            six(&[old_addr, old_len, new_len, flags, new_addr]),
        ),
        Call::Brk { addr } => (libc::SYS_brk, six(&[addr])),
        Call::Mseal { addr, len, flags } => (libc::SYS_mseal, six(&[addr, len, flags])),
        Call::RemapFilePages {
            addr,
            len,
            prot,
            pgoff,
            flags,
        } => (
            libc::SYS_remap_file_pages,
            six(&[addr, len, prot, pgoff, flags]),
        ),
        _ => return None,
    })
}

/// Returns the raw form of calls about the pages of areas.
fn raw_on_pages(call: &Call, room: u64) -> Option<Raw> {
    Some(match *call {
        Call::Madvise { addr, len, advice } => (
            libc::SYS_madvise,
            six(&[addr, len, i64::from(advice) as u64]),
        ),
        Call::Msync { addr, len, flags } => (libc::SYS_msync, six(&[addr, len, flags])),
        Call::Mincore { addr, len } if len < (ROOM as u64) << 12 => {
            (libc::SYS_mincore, six(&[addr, len, room]))
        }
        Call::Mbind {
            addr,
            len,
            mode,
            flags,
            ..
        } => (libc::SYS_mbind, six(&[addr, len, mode, room, 65, flags])),
        Call::SetMempolicyHomeNode {
            addr,
            len,
            home,
            flags,
        } => (SYS_SET_MEMPOLICY_HOME_NODE, six(&[addr, len, home, flags])),
        _ => return None,
    })
}

/// Returns the raw form of calls that lock and unlock memory.
fn raw_on_locks(call: &Call) -> Option<Raw> {
    Some(match *call {
        Call::Mlock { addr, len, flags } => (libc::SYS_mlock2, six(&[addr, len, flags])),
        Call::Munlock { addr, len } => (libc::SYS_munlock, six(&[addr, len])),
        Call::Mlockall { flags } => (libc::SYS_mlockall, six(&[flags])),
        Call::Munlockall => (libc::SYS_munlockall, six(&[])),
        _ => return None,
    })
}

/// Returns the raw form of calls about names, protection keys and settings of the process.
fn raw_setting(call: &Call, room: u64) -> Option<Raw> {
    const PR_SET_VMA: u64 = 0x5356_4d41;
    const PR_SET_MDWE: u64 = 65;
    const PR_SET_MEMORY_MERGE: u64 = 67;
    Some(match *call {
        Call::SetVmaName {
            addr,
            len,
            ref name,
        } => {
            let name = if name.is_some() { room } else { 0 };
            (libc::SYS_prctl, six(&[PR_SET_VMA, 0, addr, len, name]))
        }
        Call::PkeyAlloc { flags, rights } => (libc::SYS_pkey_alloc, six(&[flags, rights])),
        Call::PkeyFree { pkey } => (libc::SYS_pkey_free, six(&[i64::from(pkey) as u64])),
        Call::SetMdwe { bits } => (libc::SYS_prctl, six(&[PR_SET_MDWE, bits])),
        Call::SetMemoryMerge { on } => (libc::SYS_prctl, six(&[PR_SET_MEMORY_MERGE, on])),
        _ => return None,
    })
}

/// Converts a result of libc's `syscall` to the kernel's form: a value, or minus the error number.
fn kernel(result: i64) -> i64 {
    match result {
        // SAFETY: this reads the number of this thread's last error.
        -1 => -i64::from(unsafe { *libc::__errno_location() }),
        result => result,
    }
}

/// Makes this process end with its parent. The parent may have died before the request for the
/// signal, so this checks it afterwards.
fn die_with(parent: Tid) {
    // SAFETY: these calls take only numbers.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != parent {
            libc::_exit(0);
        }
    }
}

/// Performs steps until no more arrive.
///
/// # Safety
/// The mapping and the ends of all pipes stay open. The process that asks waits for the answer.
unsafe fn serve(shared: *mut Shared, from: i32, to: i32) -> ! {
    // SAFETY: the caller keeps the mapping and the pipes open. A step changes only memory that
    // steps have mapped, which `Both` ensures.
    unsafe {
        let [a, b] = (&raw const (*shared).scratch).read_volatile();
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        loop {
            let mut byte = 0u8;
            if libc::read(from, (&raw mut byte).cast(), 1) != 1 {
                libc::_exit(0);
            }
            let arguments = (&raw const (*shared).arguments).read_volatile();
            let result = match (&raw const (*shared).number).read_volatile() {
                TOUCH => {
                    libc::write(b, (&raw const byte).cast(), 1);
                    let read = libc::syscall(libc::SYS_read, a, arguments[0], 1);
                    let result = kernel(read);
                    if result < 0 {
                        libc::read(a, (&raw mut byte).cast(), 1);
                    }
                    result.min(0)
                }
                FORK_INTO => {
                    let parent = libc::getpid();
                    let child = libc::syscall(libc::SYS_fork);
                    if child > 0 {
                        libc::waitpid(child as Tid, std::ptr::null_mut(), 0);
                        libc::_exit(0);
                    }
                    if child == 0 {
                        die_with(parent);
                        (&raw mut (*shared).process).write_volatile(libc::getpid());
                    }
                    kernel(child)
                }
                FORK_ASIDE => {
                    let parent = libc::getpid();
                    let child = libc::syscall(libc::SYS_fork);
                    if child == 0 {
                        die_with(parent);
                        libc::pause();
                        libc::_exit(0);
                    }
                    kernel(child).min(0)
                }
                number => {
                    let [a, b, c, d, e, f] = arguments;
                    kernel(libc::syscall(number, a, b, c, d, e, f))
                }
            };
            (&raw mut (*shared).result).write_volatile(result);
            libc::write(to, (&raw const byte).cast(), 1);
        }
    }
}
