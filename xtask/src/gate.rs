//! The regression gate. It counts the instructions of the maple tree's operations and of sequences
//! of calls on an address space, with callgrind, and compares them with the committed counts.
//!
//! Time on a shared machine varies by tens of percent, but instruction counts do not. The counted
//! program (`bench/counts`) takes no input from the machine:
//!
//! - The pinned toolchain builds it for one processor model.
//! - It is linked statically against musl, because glibc chooses its `memcpy` by the processor.
//! - It has its own allocator, fixed data, and an empty environment.
//!
//! It is built twice: with optimisation across crates, and with the settings that a client's build
//! has by default. From the second build, a few rows are counted, whose names end in
//! [`AS_CLIENTS`].

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use xshell::{Shell, cmd};

use crate::setup;

/// The only target whose counts are compared.
const TARGET: &str = "x86_64-unknown-linux-musl";
/// The oldest processor model of that target, so that the instructions do not depend on the
/// building machine.
const FLAGS: &str = "-C target-cpu=x86-64";
/// The default settings of `cargo build --release`: no optimisation across crates, and several
/// codegen units.
const CLIENTS_PROFILE: [(&str, &str); 2] = [
    ("CARGO_PROFILE_RELEASE_LTO", "false"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
];
/// The suffix of the operations that are counted in the clients' build.
const AS_CLIENTS: &str = ":default";
/// The prefixes of the operations that are counted in the clients' build.
const CLIENTS_ROWS: [&str; 6] = [
    "cursor-",
    "sync-cursor-",
    "next",
    "sync-next",
    "c-find",
    "mm-",
];
/// The committed counts, one line for each operation.
const COUNTS: &str = "bench/counts/counts.txt";
/// The most by which a count may differ from the committed one, in percent.
const TOLERANCE: f64 = 3.0;
/// The most instructions of some operations in either build, whatever is committed. Many small
/// changes within the tolerance could add up to more.
const LIMITS: [(&str, f64); 21] = [
    ("cursor-find", 85.0),
    ("cursor-next", 85.0),
    ("cursor-prev", 85.0),
    ("cursor-store", 160.0),
    ("cursor-replace", 230.0),
    ("sync-cursor-find", 85.0),
    ("sync-cursor-next", 85.0),
    ("sync-cursor-prev", 85.0),
    ("sync-cursor-store", 160.0),
    ("sync-cursor-replace", 230.0),
    ("mm-mix", 1150.0),
    ("mm-map-24", 1610.0),
    ("mm-map-60000", 2000.0),
    ("mm-protect-24", 2600.0),
    ("mm-protect-60000", 3200.0),
    ("mm-brk", 1700.0),
    ("descend", 800.0),
    ("rcu-pair-reading", 2500.0),
    ("gap-aligned-none", 3500.0),
    ("split-half", 9000.0),
    ("append-one", 5000.0),
];

/// Counts and compares. With `bless`, writes the counts to the committed file.
pub(crate) fn run(shell: &Shell, bless: bool) -> Result<()> {
    setup::debian(shell, "valgrind", "valgrind")?;
    setup::targets(shell, None, &[TARGET])?;
    let program = build(shell, "gate", &[])?;
    let as_clients = build(shell, "gate-default", &CLIENTS_PROFILE)?;
    let names = cmd!(shell, "{program}").quiet().read()?;
    let mut counted = Vec::new();
    for name in names.lines() {
        counted.push((name.to_owned(), count(shell, &program, name)?));
    }
    for name in names.lines() {
        if CLIENTS_ROWS.iter().any(|row| name.starts_with(row)) {
            let count = count(shell, &as_clients, name)?;
            counted.push((format!("{name}{AS_CLIENTS}"), count));
        }
    }
    if bless {
        return write(shell, &counted);
    }
    compare(&counted, &read(shell)?)
}

/// Builds the program in a directory of its own, with these settings in addition to the profile's.
/// Returns its path.
fn build(shell: &Shell, directory: &str, profile: &[(&str, &str)]) -> Result<String> {
    let target_dir = shell
        .var("CARGO_TARGET_DIR")
        .unwrap_or_else(|_| "target".to_owned());
    let target_dir = format!("{target_dir}/{directory}");
    cmd!(
        shell,
        "cargo build --release --locked --manifest-path bench/Cargo.toml -p samara-counts --target {TARGET}"
    )
    .env("RUSTFLAGS", FLAGS)
    .env_remove("CARGO_ENCODED_RUSTFLAGS")
    .env("CARGO_TARGET_DIR", &target_dir)
    .envs(profile.iter().copied())
    .run()?;
    Ok(format!("{target_dir}/{TARGET}/release/samara-counts"))
}

/// Returns the instructions for each call.
fn count(shell: &Shell, program: &str, name: &str) -> Result<f64> {
    let path = shell.var("PATH")?;
    let output = cmd!(
        shell,
        "env -i PATH={path} valgrind --tool=callgrind --toggle-collect=samara_measured --callgrind-out-file=/dev/null {program} {name}"
    )
    .quiet()
    .output()
    .with_context(|| format!("cannot count {name}"))?;
    let calls: f64 = String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .with_context(|| format!("{name} does not report its calls"))?;
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    let instructions: f64 = log
        .lines()
        .find_map(|line| line.split("Collected :").nth(1)?.trim().parse().ok())
        .with_context(|| format!("callgrind gives no count for {name}:\n{log}"))?;
    if instructions < calls {
        bail!("{name}: only {instructions} instructions were counted: is `samara_measured` there?");
    }
    Ok(instructions / calls)
}

/// Returns the number of decimals to keep. Rounding is far below the tolerance.
fn digits(count: f64) -> usize {
    if count < 10.0 { 3 } else { 1 }
}

fn write(shell: &Shell, counted: &[(String, f64)]) -> Result<()> {
    let mut text = "# Instructions a call, by `cargo xtask gate --bless`. A commit that changes a line says why.\n".to_owned();
    for (name, count) in counted {
        let digits = digits(*count);
        text.push_str(&format!("{name} {count:.digits$}\n"));
    }
    shell.write_file(COUNTS, text)?;
    println!("{} counts written to {COUNTS}", counted.len());
    Ok(())
}

fn read(shell: &Shell) -> Result<BTreeMap<String, f64>> {
    let text = shell.read_file(COUNTS)?;
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (name, count) = line
                .split_once(' ')
                .with_context(|| format!("{COUNTS} has a line without a count: {line}"))?;
            Ok((name.to_owned(), count.trim().parse()?))
        })
        .collect()
}

fn compare(counted: &[(String, f64)], committed: &BTreeMap<String, f64>) -> Result<()> {
    let mut outside = 0;
    println!(
        "{:27} {:>10} {:>10} {:>8}",
        "operation", "committed", "counted", "change"
    );
    for (name, count) in counted {
        let Some(&before) = committed.get(name) else {
            println!("{name:27} {:>10} {count:>10.1}          new", "");
            outside += 1;
            continue;
        };
        let change = (count / before - 1.0) * 100.0;
        let operation = name.strip_suffix(AS_CLIENTS).unwrap_or(name);
        let most = LIMITS.iter().find(|(limited, _)| *limited == operation);
        let mark = if most.is_some_and(|(_, most)| count > most) {
            "  too much"
        } else if change.abs() <= TOLERANCE {
            ""
        } else if change > 0.0 {
            "  slower"
        } else {
            "  faster"
        };
        outside += usize::from(!mark.is_empty());
        let digits = digits(before);
        println!("{name:27} {before:>10.digits$} {count:>10.digits$} {change:>+7.1}%{mark}");
    }
    for name in committed.keys() {
        if !counted.iter().any(|(known, _)| known == name) {
            println!("{name:27} is committed, but no longer counted");
            outside += 1;
        }
    }
    if outside > 0 {
        bail!(
            "{outside} of {} counts differ from {COUNTS} by more than {TOLERANCE} %, or exceed their limits; if that is intended, run `cargo xtask gate --bless` and give the reason in the commit",
            counted.len()
        );
    }
    println!("All {} counts within {TOLERANCE} %.", counted.len());
    Ok(())
}
