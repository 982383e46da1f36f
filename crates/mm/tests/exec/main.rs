//! Executes programs in real children, predicts their address spaces, and compares map, properties, written areas, bases and registers.
//!
//! `SAMARA_EXEC_SEED=n` chooses other random files, `SAMARA_EXEC_FILES=n` how many, `SAMARA_EXEC_PROGRAMS=n` how many programs of the machine. An
//! argument selects the suites whose names contain it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test with a main function of its own"
)]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod compare;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod elf;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../common/halves.rs"]
mod halves;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod kernel;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod machine;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../common/repeat.rs"]
mod repeat;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../common/running.rs"]
mod running;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod suites;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {
    println!("exec: skipped, this is not Linux on x86-64");
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() {
    suites::run();
}
