//! The same calls made to the running kernel.

use std::ptr::null_mut;

use crate::world::{FILES, PAGE, System, What};

pub(crate) struct Kernel {
    /// Unlinked files.
    files: [i32; FILES as usize],
    heap: u64,
}

impl Kernel {
    /// Makes files of `bytes` bytes in the folder for temporary files.
    pub(crate) fn new(bytes: u64) -> Self {
        Kernel {
            files: std::array::from_fn(|_| file(bytes)),
            // SAFETY: a system call that changes no memory of this program.
            heap: unsafe { libc::syscall(libc::SYS_brk, 0) as u64 },
        }
    }

    fn file(&self, i: u64) -> i32 {
        self.files[(i % FILES) as usize]
    }
}

fn file(bytes: u64) -> i32 {
    let mut name = *b"/tmp/samara-pages-XXXXXX\0";
    // SAFETY: a template as `mkstemp` wants it.
    unsafe {
        let file = libc::mkstemp(name.as_mut_ptr().cast());
        libc::unlink(name.as_ptr().cast());
        libc::ftruncate(file, bytes as i64);
        file
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        for file in self.files {
            // SAFETY: a descriptor of its own.
            unsafe { libc::close(file) };
        }
    }
}

pub(crate) fn map(len: u64, flags: i32, file: i32) -> u64 {
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let addr = unsafe { libc::mmap(null_mut(), len as usize, prot, flags, file, 0) };
    assert_ne!(
        addr,
        libc::MAP_FAILED,
        "mmap: {}",
        std::io::Error::last_os_error()
    );
    if flags & libc::MAP_ANONYMOUS != 0 && len >= 1 << 21 {
        // SAFETY: the mapping made above.
        unsafe { libc::madvise(addr, len as usize, libc::MADV_NOHUGEPAGE) };
    }
    addr as u64
}

pub(crate) fn unmap(addr: u64, len: u64) {
    // SAFETY: mapped by `map`, and used no more.
    unsafe { libc::munmap(addr as *mut libc::c_void, len as usize) };
}

#[inline]
pub(crate) fn write(addr: u64) {
    // SAFETY: a page that `map` mapped.
    unsafe { (addr as *mut u8).write_volatile(1) };
}

/// A child that exits at once, or when this is dropped.
pub(crate) struct Child {
    pid: i32,
    end: i32,
}

impl Child {
    pub(crate) fn waiting() -> Self {
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors; the child calls nothing but `close`, `read` and `_exit`.
        let pid = unsafe {
            libc::pipe(ends.as_mut_ptr());
            let pid = libc::fork();
            if pid == 0 {
                libc::close(ends[1]);
                let mut byte = 0_u8;
                libc::read(ends[0], (&raw mut byte).cast(), 1);
                libc::_exit(0);
            }
            libc::close(ends[0]);
            pid
        };
        Child { pid, end: ends[1] }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: a descriptor and a child of its own.
        unsafe {
            libc::close(self.end);
            libc::waitpid(self.pid, null_mut(), 0);
        }
    }
}

/// Forks; tells the child's number. The child exits at once.
pub(crate) fn fork() -> i32 {
    // SAFETY: the child calls nothing but `_exit`.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::_exit(0);
        }
        pid
    }
}

pub(crate) fn wait(pid: i32) {
    // SAFETY: a child of this program.
    unsafe { libc::waitpid(pid, null_mut(), 0) };
}

const PRIVATE: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

/// Private memory.
pub(crate) fn private(pages: u64) -> u64 {
    map(pages * PAGE, PRIVATE, -1)
}

/// Maps areas that do not merge. Returns the range to unmap afterwards.
pub(crate) fn areas(count: u64) -> (u64, u64) {
    let len = 2 * count * PAGE;
    // SAFETY: a new mapping, parts of which are changed.
    unsafe {
        let start = libc::mmap(
            null_mut(),
            len as usize,
            libc::PROT_NONE,
            PRIVATE | libc::MAP_NORESERVE,
            -1,
            0,
        );
        // Every second page may be read: as many areas again stay between.
        for i in 0..count / 2 {
            let page = start.byte_add((4 * i * PAGE) as usize);
            libc::mprotect(page, 2 * PAGE as usize, libc::PROT_READ);
        }
        (start as u64, len)
    }
}

impl System for Kernel {
    fn map(&self, what: What, len: u64) -> u64 {
        match what {
            What::Anonymous => map(len, PRIVATE, -1),
            What::PrivateFile(i) => map(len, libc::MAP_PRIVATE, self.file(i)),
            What::SharedFile(i) => map(len, libc::MAP_SHARED, self.file(i)),
        }
    }

    fn unmap(&self, addr: u64, len: u64) {
        unmap(addr, len);
    }

    fn discard(&self, addr: u64, len: u64) {
        // SAFETY: mapped by `map`, and the bytes are not needed.
        unsafe { libc::madvise(addr as *mut libc::c_void, len as usize, libc::MADV_DONTNEED) };
    }

    fn brk(&self, pages: u64) {
        // SAFETY: moves the heap's end up and back, and no allocation happens in between.
        unsafe { libc::syscall(libc::SYS_brk, self.heap + pages * PAGE) };
    }

    fn touch(&self, addr: u64) {
        write(addr);
    }

    fn fork(&self) {
        wait(fork());
    }
}
