//! The tiers of tests, from a minute to an hour.

mod kernel;
mod miri;
mod sanitize;
mod unit;

use anyhow::{Context, Result};
use clap::ValueEnum;
use xshell::{Shell, cmd};

use crate::crates_picture;
use crate::excerpts;
use crate::gate;
use crate::package;
use crate::paths;
use crate::prose;
use crate::setup::{self, NIGHTLY};
use crate::site;

/// The targets on which the libraries must build without `std`.
const BARE_TARGETS: [&str; 6] = [
    "x86_64-unknown-none",
    "aarch64-unknown-none",
    "riscv64gc-unknown-none-elf",
    "thumbv7m-none-eabi",
    "thumbv7em-none-eabi",
    "riscv32imac-unknown-none-elf",
];

/// A 32-bit target whose programs run on this machine.
const WIDTH_32: &str = "i686-unknown-linux-gnu";

/// A tier of tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tier {
    /// Formatting, clippy and documentation, with warnings denied.
    Lint,
    /// All tests of the workspace, including documentation examples.
    Unit,
    /// The libraries with each feature alone, and built for bare metal; the C interface and the
    /// maple tree tested on 32 bits.
    Bare,
    /// Model checking of every interleaving of small concurrent programs.
    Loom,
    /// A quick part of tier `miri`: undefined behaviour in the maple tree, with both borrow models,
    /// and in processes.
    Borrows,
    /// Undefined behaviour, with both borrow models, on 32-bit and big-endian machines.
    Miri,
    /// AddressSanitizer and ThreadSanitizer.
    Sanitize,
    /// A short run of each fuzz target on its committed corpus and beyond.
    Fuzz,
    /// All histories of three operations, and of two on a grown tree, with optimisation.
    Exhaustive,
    /// The tests that are too long for continuous integration.
    Proof,
    /// The benchmarks, a workspace of its own, built and run on small data.
    Bench,
    /// The page of a recording and the project's site, in a browser.
    Pages,
    /// The instructions of operations, compared with the committed counts, and the stack depth of
    /// calls.
    Gate,
    /// The kernel: linted, booted, and compared with Linux.
    Kernel,
    /// The same on AArch64 and RISC-V; on all architectures a stress test of an hour, and failing
    /// allocations.
    KernelAll,
    /// The oldest Rust that the manifest names.
    Msrv,
    /// The packages in the form for the registry.
    Package,
    /// Changes of the public interface since the last release.
    Semver,
    /// Licences and sources of everything that is built.
    Deny,
}

impl Tier {
    /// All tiers, in the order in which they run.
    pub(crate) const ALL: [Tier; 19] = [
        Tier::Lint,
        Tier::Unit,
        Tier::Bare,
        Tier::Loom,
        Tier::Borrows,
        Tier::Miri,
        Tier::Sanitize,
        Tier::Fuzz,
        Tier::Exhaustive,
        Tier::Proof,
        Tier::Bench,
        Tier::Pages,
        Tier::Gate,
        Tier::Kernel,
        Tier::KernelAll,
        Tier::Msrv,
        Tier::Package,
        Tier::Semver,
        Tier::Deny,
    ];
    /// The tiers of `cargo xtask test`.
    pub(crate) const ORDINARY: [Tier; 2] = [Tier::Lint, Tier::Unit];

    /// Returns the tier's name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Tier::Lint => "lint",
            Tier::Unit => "unit",
            Tier::Bare => "bare",
            Tier::Loom => "loom",
            Tier::Borrows => "borrows",
            Tier::Miri => "miri",
            Tier::Sanitize => "sanitize",
            Tier::Fuzz => "fuzz",
            Tier::Exhaustive => "exhaustive",
            Tier::Proof => "proof",
            Tier::Bench => "bench",
            Tier::Pages => "pages",
            Tier::Gate => "gate",
            Tier::Kernel => "kernel",
            Tier::KernelAll => "kernel-all",
            Tier::Msrv => "msrv",
            Tier::Package => "package",
            Tier::Semver => "semver",
            Tier::Deny => "deny",
        }
    }

    /// Returns one line about what the tier does.
    pub(crate) fn summary(self) -> &'static str {
        match self {
            Tier::Lint => "formatting, clippy and documentation, warnings denied",
            Tier::Unit => "every test of the workspace, documentation examples included",
            Tier::Bare => {
                "the libraries with each feature alone, and built for bare metal; the C interface and the maple tree tested on 32 bits"
            }
            Tier::Loom => "every interleaving of small concurrent programs",
            Tier::Borrows => {
                "undefined behaviour: quick tests of the maple tree, both borrow models, and of processes"
            }
            Tier::Miri => "undefined behaviour: both borrow models, 32-bit and big-endian machines",
            Tier::Sanitize => "Address- and ThreadSanitizer over the concurrent and the C tests",
            Tier::Fuzz => "each fuzz target over its committed corpus and some seconds beyond",
            Tier::Exhaustive => {
                "every history of three operations on the maple tree, and of two on a grown one"
            }
            Tier::Proof => {
                "every history of four operations, the longest traced program, and maps and smaps of all live test programs"
            }
            Tier::Bench => "the benchmarks, linted and tried on small data",
            Tier::Pages => {
                "what the page of a recording and the playground draw, in headless Chromium"
            }
            Tier::Gate => {
                "instructions of operations, compared with the committed counts, and the stack depth of calls"
            }
            Tier::Kernel => {
                "programs and a shell script in the kernel, which print what they print on Linux"
            }
            Tier::KernelAll => {
                "the same on AArch64 and RISC-V, a stress test of an hour, each allocation failing once"
            }
            Tier::Msrv => "every package checked with the oldest supported Rust",
            Tier::Package => "each package in the form for the registry, built from its contents",
            Tier::Semver => "the public interfaces, compared with those of the last release",
            Tier::Deny => "licences, duplicates and sources of every dependency",
        }
    }

    /// Installs what the tier needs and runs it.
    pub(crate) fn run(self, shell: &Shell) -> Result<()> {
        match self {
            Tier::Lint => lint(shell),
            Tier::Unit => unit::run(shell),
            Tier::Bare => bare(shell),
            Tier::Loom => loom(shell),
            Tier::Borrows => miri::borrows(shell),
            Tier::Miri => miri::all(shell),
            Tier::Sanitize => sanitize::all(shell),
            Tier::Fuzz => fuzz(shell),
            Tier::Exhaustive => exhaustive(shell),
            Tier::Proof => proof(shell),
            Tier::Bench => bench(shell),
            Tier::Pages => pages(shell),
            Tier::Gate => {
                gate::run(shell, false)?;
                stack(shell)
            }
            Tier::Kernel => kernel::run(shell),
            Tier::KernelAll => kernel::all(shell),
            Tier::Msrv => msrv(shell),
            Tier::Package => package::publish(shell),
            Tier::Semver => package::semver(shell),
            Tier::Deny => package::deny(shell),
        }
    }
}

/// Checks that sources are formatted, that texts show code as the sources have it, and that comments
/// are plain English.
pub(crate) fn formatting(shell: &Shell) -> Result<()> {
    setup::components(shell, None, &["rustfmt"])?;
    cmd!(shell, "cargo fmt --all --check").run()?;
    for apart in [
        "bench/Cargo.toml",
        "fuzz/Cargo.toml",
        "kernel/Cargo.toml",
        "loom/Cargo.toml",
        "tools/site/Cargo.toml",
    ] {
        cmd!(shell, "cargo fmt --all --manifest-path {apart} --check").run()?;
    }
    excerpts::run(shell, false)?;
    crates_picture::run(shell, false)?;
    paths::run(shell)?;
    prose::run(shell, &[])
}

fn lint(shell: &Shell) -> Result<()> {
    formatting(shell)?;
    setup::components(shell, None, &["clippy"])?;
    cmd!(
        shell,
        "cargo clippy --workspace --all-features --all-targets --locked -- -D warnings"
    )
    .run()?;
    // The build of the README's first command, with the features that the tool selects and no
    // others.
    cmd!(shell, "cargo clippy --locked -- -D warnings").run()?;
    // With the features above, because others would check their dependencies a second time.
    cmd!(
        shell,
        "cargo doc --workspace --all-features --no-deps --locked"
    )
    .env("RUSTDOCFLAGS", "-D warnings")
    .run()?;
    Ok(())
}

/// The libraries, with those features that their other features do not enable.
const FEATURES: [(&str, &[&str]); 11] = [
    ("samara-rcu", &["epoch", "user"]),
    ("samara-slab", &[]),
    ("maple-tree", &["epoch", "rcu", "serde", "tracing"]),
    (
        "samara-memblock",
        &["buddy_system_allocator", "fdt", "uefi"],
    ),
    ("samara-paging", &["hosted"]),
    ("samara-mm", &["exec", "paging", "hosted"]),
    ("samara-record", &[]),
    ("samara-linux", &[]),
    ("samara-conformance", &[]),
    ("samara-tracer", &[]),
    ("samara-capi", &["mm", "rcu"]),
];

/// Lints each library without its features, and with each feature alone. Otherwise, code that only
/// some features use is compiled with all of them.
fn each_feature(shell: &Shell) -> Result<()> {
    for (package, features) in FEATURES {
        for feature in features.iter().chain(&[""]) {
            cmd!(
                shell,
                "cargo clippy --locked -p {package} --no-default-features --features {feature} -- -D warnings"
            )
            .run()?;
        }
    }
    Ok(())
}

fn bare(shell: &Shell) -> Result<()> {
    // A target directory of its own, so that no other tier's builds are waited for.
    let _folder = shell.push_env("CARGO_TARGET_DIR", "target/bare");
    setup::components(shell, None, &["clippy"])?;
    each_feature(shell)?;
    setup::targets(shell, None, &BARE_TARGETS)?;
    // Only compilation counts, since nothing runs.
    let level = shell.push_env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
    for target in BARE_TARGETS {
        cmd!(shell, "cargo build --locked -p samara-rcu -p samara-slab -p maple-tree -p samara-memblock --no-default-features --target {target}")
            .run()?;
        // Page-table entries are 64-bit words that change atomically, which 32-bit machines lack.
        if !target.starts_with("thumb") && !target.starts_with("riscv32") {
            cmd!(
                shell,
                "cargo build --locked -p samara-paging --target {target}"
            )
            .run()?;
        }
        cmd!(
            shell,
            "cargo build --locked -p maple-tree --features serde,tracing --target {target}"
        )
        .run()?;
        cmd!(shell, "cargo build --locked -p samara-mm --target {target}").run()?;
    }
    drop(level);
    // The C interface on a 32-bit machine: layout of the headers, programs, histories.
    setup::targets(shell, None, &[WIDTH_32])?;
    setup::multilib(shell)?;
    cmd!(
        shell,
        "cargo test --locked -p samara-capi --target {WIDTH_32} --test parts --test c --test histories --test maple_tree --test memblock_hooks --test mm"
    )
    .run()?;
    maple_tree_on_32_bits(shell)
}

/// Runs tests of the maple tree, its examples, and tests of grace periods on a 32-bit machine. It
/// takes three minutes on one processor.
fn maple_tree_on_32_bits(shell: &Shell) -> Result<()> {
    const TESTS: [&str; 7] = [
        "maps",
        "histories",
        "snap",
        "snap_hard",
        "grace",
        "refused",
        "pool",
    ];
    let tests = TESTS.iter().flat_map(|test| ["--test", test]);
    cmd!(
        shell,
        "cargo test --locked -p samara-rcu -p samara-slab -p maple-tree --features samara-rcu/user,maple-tree/rcu --target {WIDTH_32} {tests...} --examples"
    )
    .run()?;
    Ok(())
}

/// Measures the stack depth of calls, which depends on optimisation.
fn stack(shell: &Shell) -> Result<()> {
    cmd!(
        shell,
        "cargo test --release --locked -p samara-mm --all-features --test stack"
    )
    .env("CARGO_TARGET_DIR", "target/gate/stack")
    .run()?;
    Ok(())
}

/// Checks the workspace with the toolchain of `rust-version`. (Clippy reports newer functions of
/// the standard library, but neither newer syntax nor dependencies.)
fn msrv(shell: &Shell) -> Result<()> {
    let manifest = shell.read_file("Cargo.toml")?;
    let version = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"'))
        .context("Cargo.toml names no rust-version")?;
    setup::toolchain(shell, version)?;
    let toolchain = format!("+{version}");
    cmd!(
        shell,
        "cargo {toolchain} check --workspace --all-features --locked"
    )
    .env("CARGO_TARGET_DIR", "target/msrv")
    .run()?;
    Ok(())
}

fn loom(shell: &Shell) -> Result<()> {
    cmd!(
        shell,
        "cargo test --locked --release --manifest-path loom/Cargo.toml"
    )
    .env("CARGO_TARGET_DIR", "target/loom")
    .run()?;
    Ok(())
}

/// The time that each fuzz target runs beyond its corpus.
const FUZZ_SECONDS: &str = "-max_total_time=20";

fn fuzz(shell: &Shell) -> Result<()> {
    // libFuzzer's runtime is compiled from C++.
    setup::debian(shell, "g++", "g++")?;
    setup::components(shell, Some(NIGHTLY), &["rust-src"])?;
    setup::cargo_tool(shell, "cargo-fuzz", None)?;
    for target in cmd!(shell, "cargo +nightly fuzz list").read()?.lines() {
        cmd!(shell, "cargo +nightly fuzz run {target} -- {FUZZ_SECONDS}").run()?;
    }
    Ok(())
}

fn exhaustive(shell: &Shell) -> Result<()> {
    cmd!(
        shell,
        "cargo test --locked --release -p maple-tree --test exhaustive -- --ignored two_ three_"
    )
    .run()?;
    Ok(())
}

fn proof(shell: &Shell) -> Result<()> {
    for (package, test) in [
        ("maple-tree", "exhaustive"),
        ("samara", "programs"),
        ("samara", "live"),
    ] {
        cmd!(
            shell,
            "cargo test --locked --release -p {package} --test {test} -- --ignored"
        )
        .run()?;
    }
    Ok(())
}

fn pages(shell: &Shell) -> Result<()> {
    setup::debian(shell, "cc", "gcc")?;
    setup::debian(shell, "chromium", "chromium")?;
    cmd!(
        shell,
        "cargo test --locked -p samara --test pages -- --ignored"
    )
    .run()?;
    site::run(shell, false)?;
    site::test(shell)
}

fn bench(shell: &Shell) -> Result<()> {
    let manifest = ["--locked", "--manifest-path", "bench/Cargo.toml"];
    // The data is small, and optimisation would take most of the time. Clippy and the build share
    // build scripts and macros.
    let _debug = shell.push_env("CARGO_PROFILE_DEV_DEBUG", "false");
    cmd!(
        shell,
        "cargo clippy {manifest...} --workspace --all-targets -- -D warnings"
    )
    .run()?;
    for small in [
        &["--quick", "--runs", "1"][..],
        &["--growth", "--sizes", "100", "--quick", "--runs", "1"],
    ] {
        cmd!(shell, "cargo run {manifest...} --bin tree -- {small...}").run()?;
    }
    Ok(())
}
