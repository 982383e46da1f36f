//! `cargo xtask kernel-bench`: runs the same static program as process 1 of this kernel and of
//! Debian's newest 6.12, in the same QEMU.
//!
//! Each kernel runs three times: to count instructions (`-icount shift=0`, with which the
//! processor's clock counts them), to measure time, and with two processors.

mod profile;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use xshell::{Shell, cmd};

use crate::kernel::machines::{self, Arch};
use crate::{guests, kernel, setup};

#[derive(Args)]
pub(crate) struct Options {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Leave out Debian's kernel.
    #[arg(long)]
    alone: bool,
    /// Show the functions in which the instructions of this operation are executed, instead of
    /// measuring all.
    #[arg(long, value_name = "OPERATION")]
    profile: Option<String>,
}

/// The version of Debian's kernel, and the release that has it.
const LINUX: (&str, &str) = ("6.12", "trixie");
const MEMORY: &str = "1G";
/// The most seconds of a run.
const TIMEOUT: u64 = 900;
/// The machine. Debian's kernel does not boot on `-M microvm`.
const MACHINE: &str = "-M q35 -accel tcg -cpu qemu64 -display none -nodefaults -no-reboot -device isa-debug-exit,iobase=0xf4,iosize=4";

/// The most that this kernel may take, as a part of Linux's figure, or as a figure of its own.
const TARGETS: [(&str, f64); 20] = [
    ("boot", 0.25),
    ("fault, anonymous", 0.5),
    ("fault, file, read", 0.5),
    ("fault, file, shared write", 0.5),
    ("fault, file, private copy", 0.5),
    ("fault, copy on write", 0.5),
    ("fault, page reused", 0.5),
    ("mmap + munmap", 0.5),
    ("mmap + write + munmap", 0.5),
    ("mprotect", 0.5),
    ("fork + exit, few areas", 0.5),
    ("fork + exit, 24 areas", 0.5),
    ("fork + exit, 223 areas", 0.5),
    ("fork + exit, 4022 areas", 0.5),
    (LARGE_FORK, 0.1),
    (COPYING_FORK, 0.5),
    ("script of 200 processes", 0.5),
    ("page_fault1, two threads / one", 1.7),
    (IN_USE, 4096.0),
    (IMAGE, 1.5 * 1024.0),
];
const LARGE_FORK: &str = "fork + exit, 256 MiB";
const COPYING_FORK: &str = "fork + exit, 256 MiB, copied tables";
const IN_USE: &str = "memory in use, KiB";
/// Memory that is not for programs: the image, and the metadata of each frame.
const TAKEN: &str = "memory taken before, KiB";
const MEMBLOCK: &str = "memblock's part of the boot, %";
/// The number of times that `bench.c` measures each operation.
const ROUNDS: u64 = 5;
const IMAGE: &str = "stripped image, KiB";

/// The results of a run: name, instructions and nanoseconds of each operation, in order.
type Results = Vec<(String, f64, f64)>;

/// A row: instructions of this kernel and of Linux, and nanoseconds of both.
#[derive(Default)]
struct Row {
    name: String,
    instructions: [Option<f64>; 2],
    nanoseconds: [Option<f64>; 2],
}

pub(crate) fn run(shell: &Shell, options: &Options) -> Result<()> {
    if let Some(operation) = &options.profile {
        tools(shell)?;
        let image = machines::build(shell, Arch::X86_64, "")?;
        return profile::show(shell, &image, &archive(shell)?, operation);
    }
    let (rows, release) = all(shell, options.alone)?;
    if options.json {
        print!("{}", json(&rows, &release));
    } else {
        print!("{}", table(&rows, &release));
    }
    Ok(())
}

/// Measures both kernels for the table in the documentation.
pub(crate) fn figures(shell: &Shell) -> Result<String> {
    let (rows, release) = all(shell, false)?;
    Ok(json(&rows, &release))
}

/// Measures all rows. Returns them with the release of Debian's kernel.
fn all(shell: &Shell, alone: bool) -> Result<(Vec<Row>, String)> {
    tools(shell)?;
    let (archive, program) = archive(shell)?;
    let ours = machines::build(shell, Arch::X86_64, "")?;
    let line = kernel::command_line(&["console=plain"], &["/init".into()]);
    let mut results = measured(&ours, &archive, &line)?;
    let place = results.iter().position(|(name, ..)| name == LARGE_FORK);
    let place = place.map_or(results.len(), |place| place + 1);
    results.splice(place..place, with_copied_tables(&ours, &archive)?);
    let mut rows = rows(&results, 0);
    rows.push(Row {
        name: MEMBLOCK.to_owned(),
        instructions: [
            Some(profile::memblock(shell, &ours, &archive, &program)?),
            None,
        ],
        ..Row::default()
    });
    rows.push(Row {
        name: IMAGE.to_owned(),
        instructions: [Some(stripped(shell, &ours)?), None],
        ..Row::default()
    });
    let mut release = String::new();
    if !alone {
        let place = shell.current_dir().join("target/guests/linux-6.12");
        let place = guests::newest(shell, &place, LINUX.0, LINUX.1)?;
        let image = guests::image_in(shell, &place).context("the package has no kernel")?;
        release = place
            .file_name()
            .map_or(release, |name| name.to_string_lossy().into_owned());
        // This kernel has no mitigations of processor vulnerabilities.
        let line = "console=ttyS0 quiet panic=-1 mitigations=off";
        merge(&mut rows, &measured(&image, &archive, line)?);
    }
    Ok((rows, release))
}

fn tools(shell: &Shell) -> Result<()> {
    setup::debian(shell, "qemu-system-x86_64", "qemu-system-x86")?;
    setup::debian(shell, "cc", "gcc")
}

/// Measures a fork that copies the page tables, as Linux does, instead of sharing them.
fn with_copied_tables(image: &Path, archive: &Path) -> Result<Results> {
    let program = ["/init", "only", LARGE_FORK, "2"].map(Into::into);
    let line = kernel::command_line(&["console=plain", "fork=copy"], &program);
    let clock = ["-smp", "1", "-icount", "shift=0,sleep=off"];
    let mut results = boot(image, archive, &line, &clock)?;
    results.retain(|(name, ..)| name == LARGE_FORK);
    for (name, _, time) in &mut results {
        *name = COPYING_FORK.to_owned();
        *time = 0.0;
    }
    Ok(results)
}

/// Runs the machine three times. Returns the counts of the first run, the times of the second, and
/// the rows for two processors of the third.
fn measured(image: &Path, archive: &Path, line: &str) -> Result<Results> {
    let counted = boot(
        image,
        archive,
        line,
        &["-smp", "1", "-icount", "shift=0,sleep=off"],
    )?;
    let timed = boot(image, archive, line, &["-smp", "1"])?;
    let mut paired = boot(image, archive, line, &["-smp", "2"])?;
    paired.retain(|(name, ..)| is_speed(name));
    let times: BTreeMap<&str, f64> = timed
        .iter()
        .map(|(name, _, time)| (name.as_str(), *time))
        .collect();
    let both = counted.iter().map(|(name, count, _)| {
        let time = times.get(name.as_str()).copied();
        (name.clone(), *count, time.unwrap_or_default())
    });
    Ok(both.chain(paired).collect())
}

/// Runs the machine to its end.
fn boot(image: &Path, archive: &Path, line: &str, clock: &[&str]) -> Result<Results> {
    let mut machine = Command::new("timeout");
    machine.args([&TIMEOUT.to_string(), "qemu-system-x86_64"]);
    machine.args(MACHINE.split(' ')).args(["-m", MEMORY]);
    machine.args(["-serial", "stdio"]).args(clock);
    machine
        .arg("-kernel")
        .arg(image)
        .arg("-initrd")
        .arg(archive);
    machine.args(["-append", line]);
    machine.stdin(Stdio::null()).stdout(Stdio::piped());
    let start = Instant::now();
    let mut guest = machine.spawn().context("QEMU does not start")?;
    let console = guest.stdout.take().context("QEMU has no console")?;
    let mut results = Results::new();
    let mut whole = false;
    for line in BufReader::new(console).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        let mut parts = line.trim_end().split('\t');
        let (Some(name), Some(count), Some(time)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let (Ok(count), Ok(mut time)) = (count.parse(), time.parse()) else {
            continue;
        };
        if name == "end" {
            whole = true;
            break;
        }
        // The boot loader's drawing comes before the first name.
        let name = if name.ends_with("boot") { "boot" } else { name };
        if name == "boot" {
            time = start.elapsed().as_nanos() as f64;
        }
        eprintln!("{name}: {count}, {time} ns");
        results.push((name.to_owned(), count, time));
    }
    // Kills only this process, and none by name.
    let _ = guest.kill();
    guest.wait()?;
    ensure!(whole, "the machine ended early, after {:?}", results.last());
    Ok(results)
}

/// Creates an archive with the program as `/init`, and BusyBox. Returns it with the program that
/// has symbols.
fn archive(shell: &Shell) -> Result<(PathBuf, PathBuf)> {
    let from = kernel::root_folder(shell, Arch::X86_64)?;
    let root = from.with_file_name("bench-root");
    shell.remove_path(&root)?;
    cmd!(shell, "cp -a {from} {root}").run()?;
    for name in ["dev", "proc", "tmp"] {
        shell.create_dir(root.join(name))?;
    }
    let init = root.join("init");
    cmd!(
        shell,
        "cc -O2 -Wall -Wno-unused-result -static -pthread kernel/bench/bench.c -o {init}"
    )
    .run()?;
    let named = from.with_file_name("bench");
    shell.copy_file(&init, &named)?;
    cmd!(shell, "strip {init}").run()?;
    Ok((kernel::archive(shell, &root)?, named))
}

/// Returns the size in KiB of the kernel's image without symbols.
fn stripped(shell: &Shell, image: &Path) -> Result<f64> {
    let to = image.with_extension("stripped");
    cmd!(shell, "strip -o {to} {image}").run()?;
    Ok(to.metadata()?.len() as f64 / 1024.0)
}

fn rows(results: &Results, side: usize) -> Vec<Row> {
    let row = |(name, count, time): &(String, f64, f64)| {
        let mut row = Row {
            name: name.clone(),
            ..Row::default()
        };
        row.instructions[side] = Some(*count);
        row.nanoseconds[side] = Some(*time).filter(|&time| time > 0.0);
        row
    };
    results.iter().map(row).collect()
}

/// Adds Linux's results to the rows.
fn merge(ours: &mut [Row], results: &Results) {
    let mut others = rows(results, 1);
    // Linux copies page tables, so one figure serves both rows.
    if let Some(row) = others.iter().find(|row| row.name == LARGE_FORK) {
        others.push(Row {
            name: COPYING_FORK.to_owned(),
            ..*row
        });
    }
    for other in others {
        if let Some(row) = ours.iter_mut().find(|row| row.name == other.name) {
            row.instructions[1] = other.instructions[1];
            row.nanoseconds[1] = other.nanoseconds[1];
        }
    }
}

/// Returns the rows in the schema of `samara_pages::Figures`, from which `cargo xtask figures`
/// fills tables.
fn json(rows: &[Row], release: &str) -> String {
    let linux = format!("Linux {release}");
    let both = rows.iter().flat_map(|row| {
        let all = [
            (row.name.clone(), unit(&row.name), row.instructions),
            (format!("{}, time", row.name), "ns", row.nanoseconds),
        ];
        all.into_iter().filter(|(_, _, [ours, _])| ours.is_some())
    });
    let rows = both.map(|(name, unit, [ours, others])| {
        let ours = ours.unwrap_or_default();
        let sample = |subject: &str, figure: f64| {
            let ratio = ours / figure;
            format!(
                r#"{{"subject":"{subject}","median":{figure},"best":{figure},"ratio":{ratio}}}"#
            )
        };
        let samples: Vec<String> = [
            Some(sample("samara", ours)),
            others.map(|its| sample(&linux, its)),
        ]
        .into_iter()
        .flatten()
        .collect();
        let target =
            TARGETS
                .iter()
                .find(|(of, _)| *of == name)
                .map_or("null".to_owned(), |(of, limit)| {
                    let beside = if is_absolute(of) {
                        "null".to_owned()
                    } else {
                        format!("\"{linux}\"")
                    };
                    format!(r#"{{"limit":{limit},"beside":{beside}}}"#)
                });
        format!(
            r#"    {{"name":"{name}","unit":"{unit}","more":{},"samples":[{}],"target":{target}}}"#,
            is_speed(&name),
            samples.join(",")
        )
    });
    let rows: Vec<String> = rows.collect();
    format!(
        "{{\n  \"rows\": [\n{}\n  ],\n  \"projections\": [],\n  \"load\": 0.0\n}}\n",
        rows.join(",\n")
    )
}

fn unit(name: &str) -> &'static str {
    match name {
        IN_USE | TAKEN | IMAGE => "KiB",
        MEMBLOCK => "%",
        _ if is_speed(name) => "×",
        _ => "instructions",
    }
}

/// Returns `true` if the target is a figure of its own, and not a part of Linux's.
fn is_absolute(name: &str) -> bool {
    [IN_USE, TAKEN, IMAGE, MEMBLOCK].contains(&name) || is_speed(name)
}

/// Returns `true` if more is better.
fn is_speed(name: &str) -> bool {
    name.ends_with("two threads / one")
}

fn table(rows: &[Row], release: &str) -> String {
    let mut text = format!(
        "{:32} {:>14} {:>14} {:>7} {:>8}   time {:>7}\n",
        "", "samara", release, "ratio", "target", "ratio"
    );
    for row in rows {
        let ratio = |[ours, linux]: [Option<f64>; 2]| Some(ours? / linux?);
        let shown = |figure: Option<f64>, digits| {
            figure.map_or(String::new(), |figure| format!("{figure:.digits$}"))
        };
        let digits = match row.name.as_str() {
            MEMBLOCK => 2,
            name => 2 * usize::from(is_speed(name)),
        };
        let target = TARGETS.iter().find(|(name, _)| *name == row.name);
        let (own, target) = match target {
            Some((name, limit)) if is_absolute(name) => (row.instructions[0], Some(*limit)),
            Some((_, limit)) => (ratio(row.instructions), Some(*limit)),
            None => (None, None),
        };
        let missed = own
            .zip(target)
            .is_some_and(|(own, limit)| (own > limit) != is_speed(&row.name));
        text += &format!(
            "{:32} {:>14} {:>14} {:>7} {:>8}{}  {:>12}\n",
            row.name,
            shown(row.instructions[0], digits),
            shown(row.instructions[1], digits),
            shown(ratio(row.instructions), 3),
            shown(target, 2),
            if missed { " missed" } else { "       " },
            shown(ratio(row.nanoseconds), 3),
        );
    }
    text
}
