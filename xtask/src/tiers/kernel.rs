//! Programs and a shell script on Linux and in the kernel: both print the same.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use xshell::{Shell, cmd};

use crate::kernel;
use crate::setup;

/// What both run, in an empty folder: the script, then each program, with their statuses.
const ALL: &str = "cd $1 || exit 1
sh $2/script.sh 2>&1; echo \"status $?\"
shift 2
for program in \"$@\"; do echo \"== $(basename $program)\"; $program 2>&1; echo \"status $?\"; done
";

/// Machines that the kernel runs on, and how many processors they have.
const MACHINES: [(&str, &str); 3] = [("q35", "1"), ("q35", "2"), ("microvm", "4")];

pub(super) fn run(shell: &Shell) -> Result<()> {
    setup::debian(shell, "cc", "gcc")?;
    setup::components(shell, None, &["clippy"])?;
    setup::targets(shell, None, &["x86_64-unknown-none"])?;
    {
        let _folder = shell.push_dir("kernel");
        cmd!(shell, "cargo clippy --release --locked -- -D warnings").run()?;
    }
    let sources = Path::new("kernel/tests");
    let root = kernel::root_folder(shell)?;
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
        let to = tests.join(&name);
        cmd!(
            shell,
            "cc -O1 -Wall -Wno-unused-result -static -pthread {source} -o {to}"
        )
        .run()?;
        names.push(name);
    }
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
    let xtask = std::env::current_exe()?;
    let output = cmd!(
        shell,
        "{xtask} kernel --memory 128M --initrd {archive} --timeout 600 -- sh /tests/out-of-memory.sh"
    )
    .read()
    .context("the kernel fails where memory is short")?;
    let expected = shell.read_file(short.join("expected"))?;
    compare(&expected, &output).context("where memory is short")?;
    println!("kernel: programs that take all memory are killed, and the shell goes on");
    let output = cmd!(
        shell,
        "{xtask} kernel --cpus 4 --initrd {archive} --timeout 600 -- /tests/storm 4 1500 1"
    )
    .read()
    .context("the kernel fails in a storm of calls")?;
    ensure!(
        output == "storm is over",
        "a storm of calls prints {output:?}"
    );
    println!("kernel: a storm of calls by threads and their children ends on 4 processors");
    Ok(())
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
