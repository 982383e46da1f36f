#![doc = include_str!("../README.md")]
#![warn(missing_docs)]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

pub mod living;
pub mod maps;
pub mod memory;
pub mod pagemap;
pub mod proc;
pub mod proc_file;
// The libc crate declares `PTRACE_GET_SYSCALL_INFO` for glibc alone.
#[cfg(target_env = "gnu")]
pub mod ptrace;
pub mod smaps;

/// A thread, by the kernel's number of it. That of a process is its first thread's.
pub type Tid = libc::pid_t;
