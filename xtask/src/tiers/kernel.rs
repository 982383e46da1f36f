//! Programs and a shell script on Linux and in the kernel: both print the same.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use xshell::{Shell, cmd};

use crate::kernel::{self, Arch, Cross};
use crate::setup;

mod histories;

/// What both run, in an empty folder: the script, then each program, with their statuses.
const ALL: &str = "cd $1 || exit 1
sh $2/script.sh 2>&1; echo \"status $?\"
shift 2
for program in \"$@\"; do echo \"== $(basename $program)\"; $program 2>&1; echo \"status $?\"; done
";

/// Machines that the kernel runs on, and how many processors they have.
const MACHINES: [(&str, &str); 3] = [("q35", "1"), ("q35", "2"), ("microvm", "4")];

/// How C programs are compiled for both.
const FLAGS: [&str; 5] = ["-O1", "-Wall", "-Wno-unused-result", "-static", "-pthread"];

/// Where the script and the programs are.
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

/// Runs a program in the kernel, with this command's options. Returns what it prints.
fn in_guest(
    shell: &Shell,
    arch: Arch,
    archive: &Path,
    options: &[&str],
    program: &[&str],
) -> Result<String> {
    let (xtask, name) = (std::env::current_exe()?, arch.name());
    let ran = cmd!(
        shell,
        "{xtask} kernel --arch {name} --initrd {archive} --timeout 600 {options...} -- {program...}"
    )
    .quiet()
    .read();
    ran.with_context(|| {
        format!(
            "{} fails on {name}, {}",
            program.join(" "),
            options.join(" ")
        )
    })
}

/// A compiler of static C programs, given a source and what it is to make.
type Compiler<'a> = &'a dyn Fn(&Path, &Path) -> Result<()>;

/// This machine's own compiler.
fn native(shell: &Shell, source: &Path, to: &Path) -> Result<()> {
    setup::debian(shell, "cc", "gcc")?;
    cmd!(shell, "cc {FLAGS...} {source} -o {to}").run()?;
    Ok(())
}

/// Makes the folder of first files with the script and the programs. Returns it with the programs' names.
fn tests(shell: &Shell, arch: Arch, compile: Compiler<'_>) -> Result<(PathBuf, Vec<String>)> {
    let sources = Path::new(SOURCES);
    let root = kernel::root_folder(shell, arch)?;
    let tests = root.join("tests");
    shell.create_dir(&tests)?;
    shell.copy_file(sources.join("script.sh"), tests.join("script.sh"))?;
    shell.write_file(tests.join("all.sh"), ALL)?;
    let mut names = Vec::new();
    let mut programs = shell.read_dir(sources.join("programs"))?;
    programs.sort();
    for source in programs {
        let name = source.file_stem().context("a program has no name")?;
        let name = name.to_string_lossy().into_owned();
        compile(&source, &tests.join(&name))?;
        names.push(name);
    }
    Ok((root, names))
}

/// The script and the programs on the other architectures, beside this machine's Linux.
pub(super) fn others(shell: &Shell) -> Result<()> {
    let (root, names) = tests(shell, Arch::X86_64, &|source, to| native(shell, source, to))?;
    let expected = neutral(&on_linux(shell, &root, &names)?);
    for arch in [Arch::Aarch64, Arch::Riscv64] {
        lint(shell, arch)?;
        let cross = Cross::new(shell, arch)?;
        let compile = |source: &Path, to: &Path| {
            let files = [source.as_os_str(), OsStr::new("-o"), to.as_os_str()];
            let flags = FLAGS.iter().map(OsStr::new).chain(files);
            cross.compile(shell, &flags.map(OsStr::to_owned).collect::<Vec<_>>())
        };
        let (root, names) = tests(shell, arch, &compile)?;
        let archive = kernel::archive(shell, &root)?;
        let guest: Vec<String> = names.iter().map(|name| format!("/tests/{name}")).collect();
        let guest = &guest;
        let (xtask, name) = (std::env::current_exe()?, arch.name());
        for cpus in ["1", "2"] {
            let output = cmd!(
                shell,
                "{xtask} kernel --arch {name} --cpus {cpus} --initrd {archive} --timeout 900 -- sh /tests/all.sh /tmp /tests {guest...}"
            )
            .read()
            .with_context(|| format!("the kernel fails on {name} with {cpus} processors"))?;
            compare(&expected, &neutral(&output))
                .with_context(|| format!("on {name} with {cpus} processors"))?;
            println!(
                "kernel: {} lines of the script and of {} programs agree on {name} with {cpus} processors",
                expected.lines().count(),
                names.len()
            );
        }
        typed(shell, arch, &archive)?;
    }
    Ok(())
}

/// Checks that what is typed arrives in order, on two processors.
fn typed(shell: &Shell, arch: Arch, archive: &Path) -> Result<()> {
    let numbers: String = (1..20_000).map(|number| format!("{number}\n")).collect();
    let (xtask, name) = (std::env::current_exe()?, arch.name());
    let output = cmd!(
        shell,
        "{xtask} kernel --arch {name} --cpus 2 --initrd {archive} --timeout 300 -- cat"
    )
    .stdin(&numbers)
    .read()
    .with_context(|| format!("the kernel fails on {name}"))?;
    compare(&numbers, &output).context("what was typed")
}

/// What programs print, where processors differ in how they refuse an access: by SIGBUS or by SIGSEGV.
fn neutral(output: &str) -> String {
    let lines = output
        .lines()
        .map(|line| match line.strip_suffix(": signal 7") {
            Some(what) => format!("{what}: signal 11\n"),
            None => format!("{line}\n"),
        });
    lines.collect()
}

pub(super) fn run(shell: &Shell) -> Result<()> {
    lint(shell, Arch::X86_64)?;
    let (root, names) = tests(shell, Arch::X86_64, &|source, to| native(shell, source, to))?;
    let (sources, tests) = (Path::new(SOURCES), root.join("tests"));
    let short = sources.join("out-of-memory");
    let (hog, script) = (short.join("hog.c"), short.join("script.sh"));
    let to = root.join("bin/hog");
    cmd!(shell, "cc -O1 -Wall -static -pthread {hog} -o {to}").run()?;
    shell.copy_file(script, tests.join("out-of-memory.sh"))?;
    let (storm, to) = (sources.join("storm.c"), tests.join("storm"));
    cmd!(
        shell,
        "cc -O1 -Wall -Wno-unused-result -static -pthread {storm} -o {to}"
    )
    .run()?;
    histories::build(shell, &tests.join("pages"))?;
    let archive = kernel::archive(shell, &root)?;
    let expected = on_linux(shell, &root, &names)?;
    let record = root.with_extension("record");
    let mut traced = Some(["--trace".as_ref(), record.as_os_str()]);
    for (machine, cpus) in MACHINES {
        let trace = traced.take().into_iter().flatten();
        let guest: Vec<String> = names.iter().map(|name| format!("/tests/{name}")).collect();
        let xtask = std::env::current_exe()?;
        let output = cmd!(
            shell,
            "{xtask} kernel --machine {machine} --cpus {cpus} --initrd {archive} --timeout 600 {trace...} -- sh /tests/all.sh /tmp /tests {guest...}"
        )
        .read()
        .with_context(|| format!("the kernel fails on {machine} with {cpus} processors"))?;
        compare(&expected, &output)
            .with_context(|| format!("on {machine} with {cpus} processors"))?;
        println!(
            "kernel: {} lines of the script and of {} programs agree on {machine} with {cpus} processors",
            expected.lines().count(),
            names.len()
        );
    }
    cmd!(
        shell,
        "cargo run --locked --quiet -p samara -- replay {record}"
    )
    .run()?;
    typed(shell, Arch::X86_64, &archive)?;
    let out_of_memory = ["sh", "/tests/out-of-memory.sh"];
    let output = in_guest(
        shell,
        Arch::X86_64,
        &archive,
        &["--quiet", "--memory", "128M"],
        &out_of_memory,
    )?;
    let expected = shell.read_file(short.join("expected"))?;
    compare(&expected, &output).context("where memory is short")?;
    println!("kernel: programs that take all memory are killed, and the shell goes on");
    let storm = ["/tests/storm", "4", "1500", "1"];
    let output = in_guest(
        shell,
        Arch::X86_64,
        &archive,
        &["--quiet", "--cpus", "4"],
        &storm,
    )?;
    ensure!(
        output == "storm is over",
        "a storm of calls prints {output:?}"
    );
    println!("kernel: a storm of calls by threads and their children ends on 4 processors");
    histories::run(shell, &root, &archive, 1..=1)
}

/// Runs all of it on this machine, with the same BusyBox.
fn on_linux(shell: &Shell, root: &Path, names: &[String]) -> Result<String> {
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
