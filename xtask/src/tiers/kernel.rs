//! The kernel's tests: programs and a shell script must print the same on Linux and in the kernel.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use xshell::{Shell, cmd};

use crate::kernel::Arch;
use crate::panics;
use crate::setup;

mod guest;
mod histories;
mod programs;
mod refusals;
mod statuses;

use guest::Guest;

/// Runs the script in an empty folder, then each program, and prints their statuses.
const ALL: &str = "cd $1 || exit 1
sh $2/script.sh 2>&1; echo \"status $?\"
shift 2
for program in \"$@\"; do echo \"== program $(basename $program)\"; $program 2>&1; echo \"status $?\"; done
";

/// The machines of the kernel, and their numbers of processors.
const MACHINES: [[&str; 4]; 3] = [
    ["--machine", "q35", "--cpus", "1"],
    ["--machine", "q35", "--cpus", "2"],
    ["--machine", "microvm", "--cpus", "4"],
];

/// The numbers of processors on the other architectures.
const OTHER_MACHINES: [[&str; 2]; 2] = [["--cpus", "1"], ["--cpus", "2"]];

/// The folder of the script and the programs.
const SOURCES: &str = "kernel/tests";

/// Lints the kernel for an architecture.
fn lint(shell: &Shell, arch: Arch) -> Result<()> {
    setup::components(shell, None, &["clippy"])?;
    let target = arch.target();
    setup::targets(shell, None, &[target])?;
    let _folder = shell.push_dir("kernel");
    cmd!(
        shell,
        "cargo clippy --release --locked --target {target} -- -D warnings"
    )
    .run()?;
    Ok(())
}

pub(super) fn run(shell: &Shell) -> Result<()> {
    lint(shell, Arch::X86_64)?;
    panics::run(shell)?;
    let guest = Guest::new(shell, Arch::X86_64)?;
    let expected = on_linux(&guest)?;
    for (number, machine) in MACHINES.iter().enumerate() {
        script(&guest, &expected, machine, number == 0)?;
    }
    typed_input(&guest)?;
    out_of_memory(&guest)?;
    storm(&guest, &["--cpus", "4"], "1500", "1")?;
    histories::run(&guest, 1..=1)?;
    refusals::run(&guest, "17")
}

/// Runs the tests that take too long for each change, and those of the other architectures.
pub(super) fn all(shell: &Shell) -> Result<()> {
    let native = Guest::new(shell, Arch::X86_64)?;
    let expected = on_linux(&native)?;
    for arch in [Arch::Aarch64, Arch::Riscv64] {
        lint(shell, arch)?;
        let guest = Guest::new(shell, arch)?;
        for (number, machine) in OTHER_MACHINES.iter().enumerate() {
            script(&guest, &expected, machine, number == 0)?;
        }
        typed_input(&guest)?;
        out_of_memory(&guest)?;
        refusals::run(&guest, "5")?;
        statuses::run(&guest)?;
        hour(&guest)?;
    }
    histories::run(&native, 2..=6)?;
    refusals::run(&native, "1")?;
    statuses::run(&native)?;
    hour(&native)
}

/// Runs the script and the programs. With `replayed`, also replays the trace of their calls.
///
/// A trace does not contain the order in which threads first write to adjacent VMAs, on which later
/// merges depend. So programs with threads that allocate are left out of it.
fn script(guest: &Guest<'_>, expected: &str, machine: &[&str], replayed: bool) -> Result<()> {
    let Guest {
        shell,
        arch,
        root,
        names,
        ..
    } = guest;
    let record = root.with_extension("record");
    let record_option = record.to_string_lossy();
    let mut options = machine.to_vec();
    if replayed {
        options.extend(["--trace", &record_option]);
    }
    let unordered = |name: &str| name == "standard" || name.ends_with("-musl");
    let names = names.iter().filter(|name| !replayed || !unordered(name));
    let names: Vec<&str> = names.map(String::as_str).collect();
    let paths: Vec<String> = names.iter().map(|name| format!("/tests/{name}")).collect();
    let mut program = vec!["sh", "/tests/all.sh", "/tmp", "/tests"];
    program.extend(paths.iter().map(String::as_str));
    let output = guest.run(&options, &program)?;
    let place = format!("on {} with {}", arch.name(), machine.join(" "));
    let expected = only_programs(expected, &names);
    let compared = match arch {
        Arch::X86_64 => compare(&expected, &output),
        _ => compare(&neutral(&expected), &neutral(&output)),
    };
    compared.with_context(|| place.clone())?;
    println!(
        "kernel: {} lines of the script and of {} programs agree {place}",
        expected.lines().count(),
        names.len()
    );
    if replayed {
        cmd!(
            shell,
            "cargo run --locked --quiet -p samara -- replay {record}"
        )
        .run()?;
    }
    Ok(())
}

/// Returns the script's output, and that of the named programs.
fn only_programs(printed: &str, names: &[&str]) -> String {
    let mut kept = true;
    let lines = printed.split_inclusive('\n').filter(|line| {
        if let Some(name) = line.strip_prefix("== program ") {
            kept = names.contains(&name.trim_end());
        }
        kept
    });
    lines.collect()
}

/// Checks that console input arrives in order, on two processors.
fn typed_input(guest: &Guest<'_>) -> Result<()> {
    let numbers: String = (1..20_000).map(|number| format!("{number}\n")).collect();
    let output = guest.run_with(&["--cpus", "2"], &["cat"], &numbers)?;
    compare(&numbers, &output).context("what was typed")
}

fn out_of_memory(guest: &Guest<'_>) -> Result<()> {
    let output = guest.run(&["--memory", "128M"], &["sh", "/tests/out-of-memory.sh"])?;
    let expected = guest
        .shell
        .read_file(Path::new(SOURCES).join("out-of-memory/expected"))?;
    compare(&expected, &output).context("where memory is short")?;
    println!(
        "kernel: programs that take all memory are killed on {}, and the shell goes on",
        guest.arch.name()
    );
    Ok(())
}

/// Runs the stress test: four threads and their children make all kinds of calls.
fn storm(guest: &Guest<'_>, machine: &[&str], rounds: &str, seed: &str) -> Result<()> {
    let output = guest.run(machine, &["/tests/storm", "4", rounds, seed])?;
    ensure!(
        output == "storm is over",
        "a storm of calls prints {output:?}"
    );
    println!(
        "kernel: a storm of calls ends on {} with {}, {rounds} rounds, seed {seed}",
        guest.arch.name(),
        machine.join(" ")
    );
    Ok(())
}

/// Runs the stress test for an hour of the guest's time: 3,500 million instructions, and a tick
/// every 9,766.
///
/// QEMU advances the guest's clock by 1,024 ns with each instruction (`-icount`).
fn hour(guest: &Guest<'_>) -> Result<()> {
    // With `-icount`, QEMU before 8.1 runs all processors in one thread and gives the instructions
    // up to the next timer to the first of them. A processor that uses them all while it waits for
    // another one starves that one for ever. On RISC-V with QEMU 7.2, four of six hours on two
    // harts did not end. One hart waited with interrupts off, in three of them in OpenSBI for
    // `fence.i` on the other hart, in one for a run queue's lock. The other hart did not execute an
    // instruction for 20 s of the host's time and thousands of seconds of the guest's. Stopping and
    // continuing QEMU by its monitor woke it, and the storm ended. x86-64 is safe, since QEMU
    // changes to the next processor at `pause`. On AArch64 no call waits for another processor's
    // invalidation, and eight of eight hours ended.
    let cpus = match guest.arch {
        Arch::X86_64 | Arch::Aarch64 => "2",
        Arch::Riscv64 => {
            storm(guest, &["--cpus", "2"], "3000", "1")?;
            "1"
        }
    };
    storm(guest, &["--cpus", cpus, "--icount", "10"], "3600s", "1")
}

/// Replaces SIGBUS by SIGSEGV in the output of programs, because architectures differ in how they
/// refuse an access.
fn neutral(output: &str) -> String {
    let lines = output
        .lines()
        .map(|line| match line.strip_suffix(": signal 7") {
            Some(what) => format!("{what}: signal 11\n"),
            None => format!("{line}\n"),
        });
    lines.collect()
}

/// Runs the script and the programs on this machine, with the same BusyBox.
fn on_linux(guest: &Guest<'_>) -> Result<String> {
    let Guest {
        shell, root, names, ..
    } = guest;
    let scratch = shell.create_temp_dir()?;
    let tests = root.join("tests");
    let programs = names.iter().map(|name| tests.join(name));
    let script = tests.join("all.sh");
    let folder = scratch.path();
    let (bin, busybox) = (root.join("bin"), root.join("bin/busybox"));
    cmd!(
        shell,
        "{busybox} sh {script} {folder} {tests} {programs...}"
    )
    .env("PATH", bin)
    .read()
    .context("the programs fail on Linux")
}

/// Fails with the first line that differs.
fn compare(expected: &str, output: &str) -> Result<()> {
    let mut topic = "";
    let mut lines = output.lines();
    for line in expected.lines() {
        if line.starts_with("== ") {
            topic = line;
        }
        let other = lines.next().unwrap_or("(nothing)");
        ensure!(
            line == other,
            "{topic}\n  Linux:  {line}\n  kernel: {other}"
        );
    }
    ensure!(lines.next().is_none(), "the kernel prints more than Linux");
    Ok(())
}
