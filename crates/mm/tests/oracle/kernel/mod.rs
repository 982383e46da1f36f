//! The kernel's side: a process made for this, in which histories are executed, and which records every result and its whole map.
//!
//! A *zygote* is forked once and then never changes; for each history it forks a child. The child allocates nothing: it
//! reads operations from shared memory and writes results and areas there, which it asks of the kernel by
//! `ioctl(PROCMAP_QUERY)` on its own maps. What the child does is in [`child`], how it looks at itself in [`look`].

mod child;
pub(crate) mod look;

use std::fs;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::process::exit;

use crate::op::{HUGE_FILES, NAMES, Objects, Op};
use crate::pool::Figures;
use look::{KArea, Ways};

/// Most operations in one history.
pub(crate) const MAX_OPS: usize = 4096;
pub(crate) const LOG_BYTES: usize = 256 << 20;
/// The bytes of a step's record before its areas: the result, their number, the written pages, the
/// pool.
const HEAD_BYTES: usize = 24 + size_of::<Figures>();

/// The effect of one operation.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// As the raw system call: an address, 0 or the negative error number.
    pub(crate) result: i64,
    pub(crate) areas: Vec<KArea>,
    /// Bit n: page n of the arena holds a private anonymous page afterwards.
    pub(crate) written: u64,
    /// The pool of huge pages, if it was looked at.
    pub(crate) pool: Figures,
}

/// When the flags of areas are read. That takes ten times as long as all else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flags {
    Never,
    Last,
    Each,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Shared {
    pub(crate) count: usize,
    pub(crate) ops: [Op; MAX_OPS],
    /// Bytes of the log in use.
    pub(crate) used: usize,
    /// Operations finished.
    pub(crate) done: usize,
    pub(crate) flags: Flags,
    /// Look at the pages too.
    pub(crate) facts: bool,
    /// There are userfaultfds.
    pub(crate) watched: bool,
    /// Look at the pool of huge pages.
    pub(crate) huge: bool,
    pub(crate) ways: Ways,
    /// The objects to which operations refer by number: here, because the heap may be unmapped.
    pub(crate) start_brk: u64,
    pub(crate) files: [i32; 16],
    pub(crate) segments: [i32; 4],
    pub(crate) names: [[u8; 16]; NAMES.len()],
}

pub(crate) struct Kernel {
    shared: *mut Shared,
    log: *mut u8,
    pub(crate) zygote: i32,
    to: fs::File,
    from: fs::File,
}

fn map_shared(bytes: usize) -> *mut u8 {
    map_new(libc::MAP_SHARED, bytes)
}

/// A new mapping, `MAP_SHARED` or `MAP_PRIVATE`.
pub(crate) fn map_new(kind: i32, bytes: usize) -> *mut u8 {
    // SAFETY: a new mapping at a place of the kernel's choice.
    let p = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            kind | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    assert_ne!(p, libc::MAP_FAILED);
    p.cast()
}

impl Shared {
    /// Returns `true` if flags are read after this step.
    pub(crate) fn reads_flags(&self, step: usize) -> bool {
        match self.flags {
            Flags::Never => false,
            Flags::Last => step + 1 == self.count,
            Flags::Each => true,
        }
    }
}

impl Kernel {
    /// Starts the zygote.
    pub(crate) fn start(objects: &Objects) -> Kernel {
        let shared = map_shared(size_of::<Shared>()).cast::<Shared>();
        let log = map_shared(LOG_BYTES);
        // SAFETY: no other code uses the new mapping yet. Zeroes are valid for all its fields
        // except `ops`, which is written before it is read.
        unsafe {
            (*shared).start_brk = objects.start_brk;
            (*shared).ways = Ways::find();
            (*shared).files = [-1; 16];
            for (n, file) in objects.files.iter().enumerate() {
                (*shared).files[n] = file.0;
            }
            for (n, file) in objects.huge.iter().enumerate() {
                (*shared).files[HUGE_FILES - 1 + n] = file.0;
            }
            for (n, segment) in objects.segments.iter().enumerate() {
                (*shared).segments[n] = segment.0;
            }
            for (n, name) in NAMES.iter().enumerate() {
                let name = name.unwrap_or("").as_bytes();
                (&mut (*shared).names)[n][..name.len()].copy_from_slice(name);
            }
        }
        let mut down = [0; 2];
        let mut up = [0; 2];
        // SAFETY: two arrays of two descriptors; fork of a process with one thread.
        let zygote = unsafe {
            assert_eq!(libc::pipe(down.as_mut_ptr()), 0);
            assert_eq!(libc::pipe(up.as_mut_ptr()), 0);
            libc::fork()
        };
        assert!(zygote >= 0);
        if zygote == 0 {
            // SAFETY: descriptors of our own.
            unsafe {
                libc::close(down[1]);
                libc::close(up[0]);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                // The heap may move once; afterwards nothing here allocates.
                zygote_loop(shared, log, down[0], up[1])
            }
        }
        // SAFETY: the pipe's ends are ours alone.
        let (to, from) = unsafe {
            libc::close(down[0]);
            libc::close(up[1]);
            (fs::File::from_raw_fd(down[1]), fs::File::from_raw_fd(up[0]))
        };
        let mut kernel = Kernel {
            shared,
            log,
            zygote,
            to,
            from,
        };
        // A first, empty history: the zygote's stack is as deep as it will be.
        kernel.run(&[], Flags::Never, false);
        kernel
    }

    /// Executes a history in a new child; the steps that were finished.
    pub(crate) fn run(&mut self, ops: &[Op], flags: Flags, facts: bool) -> Vec<Step> {
        self.look_and_run(ops, flags, facts, false)
    }

    /// As [`run`](Self::run), and with `huge` it looks at the pool of huge pages after each step.
    pub(crate) fn look_and_run(
        &mut self,
        ops: &[Op],
        flags: Flags,
        facts: bool,
        huge: bool,
    ) -> Vec<Step> {
        assert!(ops.len() <= MAX_OPS);
        // SAFETY: no child runs at this time, so the shared memory is ours.
        unsafe {
            let shared = &mut *self.shared;
            shared.count = ops.len();
            shared.ops[..ops.len()].copy_from_slice(ops);
            shared.used = 0;
            shared.done = 0;
            shared.flags = flags;
            shared.facts = facts;
            shared.huge = huge;
            shared.watched = ops.iter().any(|op| {
                matches!(
                    op,
                    Op::UffdRegister { .. } | Op::UffdUnregister { .. } | Op::UffdClose { .. }
                )
            });
        }
        self.to.write_all(&[1]).unwrap();
        let mut answer = [0];
        self.from.read_exact(&mut answer).unwrap();
        // SAFETY: the child has exited.
        let shared = unsafe { &*self.shared };
        let mut steps = Vec::new();
        let mut at = 0;
        for _ in 0..shared.done {
            // SAFETY: the child wrote records in this form, one after the other.
            unsafe {
                let result = self.log.add(at).cast::<i64>().read();
                let count = self.log.add(at + 8).cast::<u64>().read() as usize;
                let written = self.log.add(at + 16).cast::<u64>().read();
                let pool = self.log.add(at + 24).cast::<Figures>().read();
                let areas = self.log.add(at + HEAD_BYTES).cast::<KArea>();
                let areas = std::slice::from_raw_parts(areas, count);
                steps.push(Step {
                    result,
                    areas: areas.to_vec(),
                    written,
                    pool,
                });
                at += HEAD_BYTES + count * size_of::<KArea>();
            }
        }
        steps
    }
}

/// # Safety
/// The pointers are the shared mappings, the descriptors are pipes.
unsafe fn zygote_loop(shared: *mut Shared, log: *mut u8, from: i32, to: i32) -> ! {
    loop {
        let mut byte = 0u8;
        // SAFETY: plain system calls on our own descriptors and memory.
        unsafe {
            if libc::read(from, (&raw mut byte).cast(), 1) != 1 {
                libc::_exit(0);
            }
            let child = libc::fork();
            if child == 0 {
                libc::close(from);
                libc::close(to);
                child::main(&mut *shared, log);
                libc::_exit(0);
            }
            let mut status = 0;
            libc::waitpid(child, &raw mut status, 0);
            byte = status as u8;
            libc::write(to, (&raw const byte).cast(), 1);
        }
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // SAFETY: the zygote is our child.
        unsafe {
            libc::kill(self.zygote, libc::SIGKILL);
            libc::waitpid(self.zygote, std::ptr::null_mut(), 0);
        }
    }
}

/// Ends the test run with a message.
pub(crate) fn fail(message: &str) -> ! {
    eprintln!("{message}");
    exit(101)
}
