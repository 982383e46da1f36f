//! Tests with the compiler's sanitizers, in Rust and in C.

use anyhow::Result;
use xshell::{Shell, cmd};

use crate::setup::{self, NIGHTLY};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Inlining by rustc, and no optimisation by LLVM: optimising a sanitizer's code takes LLVM three
/// times as long as it saves the tests. `samara-mm` is optimised, because its C programs would take
/// ten times as long. Line tables let a sanitizer print lines.
const SETTINGS: [&str; 9] = [
    "-Zprofile-rustflags",
    "--config",
    "profile.dev.opt-level=0",
    "--config",
    "profile.dev.debug=\"line-tables-only\"",
    "--config",
    "profile.dev.rustflags=[\"-Zmir-opt-level=2\",\"-Zinline-mir\",\"-Zinline-mir-threshold=300\",\"-Zinline-mir-hint-threshold=300\"]",
    "--config",
    "profile.dev.package.samara-mm.opt-level=1",
];

/// Builds the standard library with ThreadSanitizer, which reports races in code that it does not
/// instrument. It is optimised, because every test uses it. AddressSanitizer needs no such build:
/// it instruments all generic code where it is used, and the allocator.
const STANDARD: [&str; 7] = [
    "-Zbuild-std",
    "--config",
    "profile.dev.package.core.opt-level=1",
    "--config",
    "profile.dev.package.alloc.opt-level=1",
    "--config",
    "profile.dev.package.std.opt-level=1",
];

/// Returns cargo's arguments for a sanitizer.
fn settings(sanitizer: &str) -> Vec<&'static str> {
    let standard = match sanitizer {
        "thread" => &STANDARD[..],
        _ => &[],
    };
    [&SETTINGS[..], standard, &["--locked", "--target", TARGET]].concat()
}

pub(super) fn all(shell: &Shell) -> Result<()> {
    setup::components(shell, Some(NIGHTLY), &["rust-src"])?;
    for sanitizer in ["address", "thread"] {
        let settings = &settings(sanitizer);
        cmd!(
            shell,
            "cargo +nightly test {settings...} -p samara-rcu -p samara-slab -p maple-tree -p samara-memblock --features samara-rcu/user,maple-tree/rcu --lib --test pool --test grace --test refused --test maps --test waiting --test histories --test snap --test snap_hard"
        )
        .env("RUSTFLAGS", sanitizing(sanitizer))
        .env("CARGO_TARGET_DIR", format!("target/{sanitizer}"))
        .run()?;
        cmd!(
            shell,
            "cargo +nightly test {settings...} -p samara-paging --features samara-paging/hosted --tests"
        )
        .env("RUSTFLAGS", sanitizing(sanitizer))
        .env("CARGO_TARGET_DIR", format!("target/{sanitizer}"))
        .run()?;
        sanitize_c(shell, sanitizer)?;
    }
    let settings = &settings("thread");
    // Concurrent faults, calls, forks, walks and walkers. Tests with one thread that compare the
    // process's own memory with the kernel's are left out, because the sanitizer uses a part of
    // that memory.
    cmd!(
        shell,
        "cargo +nightly test {settings...} -p samara-mm --features samara-mm/hosted --test process --test concurrent -- --skip kernel:: --skip histories"
    )
    .env("RUSTFLAGS", sanitizing("thread"))
    .env("CARGO_TARGET_DIR", "target/thread")
    .run()?;
    // Two virtual processors of the emulator's guide. One accesses memory that the other unmaps.
    cmd!(
        shell,
        "cargo +nightly test {settings...} -p samara-docs --test emulator"
    )
    .env("RUSTFLAGS", sanitizing("thread"))
    .env("CARGO_TARGET_DIR", "target/thread")
    .run()?;
    Ok(())
}

/// Returns the compiler flags for a sanitizer. Tests that leak on purpose check `cfg(sanitized)`.
fn sanitizing(sanitizer: &str) -> String {
    format!("-Zsanitizer={sanitizer} --cfg sanitized")
}

/// Runs the C tests and examples, with library and program under the same sanitizer.
fn sanitize_c(shell: &Shell, sanitizer: &str) -> Result<()> {
    let settings = &settings(sanitizer);
    setup::debian(shell, "cc", "build-essential")?;
    let target_dir = format!("target/{sanitizer}");
    cmd!(shell, "cargo +nightly build {settings...} -p samara-capi")
        .env("RUSTFLAGS", sanitizing(sanitizer))
        .env("CARGO_TARGET_DIR", &target_dir)
        .run()?;
    let library = format!("{target_dir}/{TARGET}/debug/libsamara.a");
    // The C compiler's runtime library is used. The shim has what it lacks compared with rustc's.
    let shim: &[&str] = match sanitizer {
        "thread" => &["-fno-builtin", "crates/capi/tests/c/tsan_shim.c"],
        _ => &[],
    };
    let mut sources = shell.read_dir("crates/capi/tests/c")?;
    sources.extend(shell.read_dir("crates/capi/examples/c")?);
    for source in sources {
        let (Some(name), Some("c")) = (
            source.file_stem().and_then(|name| name.to_str()),
            source.extension().and_then(|extension| extension.to_str()),
        ) else {
            continue;
        };
        // One forks and handles signals, one counts a gigabyte of frames, two have an allocator of
        // their own, and one loads the shared library.
        let left_out = [
            "tsan_shim",
            "mm_diff",
            "mm_phys",
            "mm_hostile",
            "maple_refused",
            "maple_unloaded",
        ];
        // These have one thread, and take minutes with ThreadSanitizer.
        let long = ["mm_faults", "mm_fork", "mm_refused"];
        if left_out.contains(&name) || long.contains(&name) && sanitizer == "thread" {
            continue;
        }
        let program = format!("{target_dir}/{name}");
        cmd!(
            shell,
            "cc -std=gnu11 -fsanitize={sanitizer} -O1 -g -I crates/capi/include {source} {shim...} {library} -pthread -ldl -lm -o {program}"
        )
        .run()?;
        cmd!(shell, "{program}").run()?;
    }
    Ok(())
}
