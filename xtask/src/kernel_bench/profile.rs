//! Profiles of operations: `kernel/bench/count.c` counts instructions in QEMU, and this module sums
//! them by function.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use xshell::{Shell, cmd};

use super::{MACHINE, MEMORY, ROUNDS};
use crate::kernel;

/// The number of functions that are shown.
const MOST: usize = 50;

/// Instructions by function, and their sum.
pub(super) struct Profile {
    functions: Vec<(String, u64)>,
    total: u64,
}

/// Counts the instructions of the kernel and its programs between two addresses, each time that
/// they are passed.
fn counted(
    shell: &Shell,
    image: &Path,
    archive: &Path,
    program: &[&str],
    (begin, end): (u64, u64),
) -> Result<Profile> {
    let folder = shell.current_dir().join("target/kernel");
    let (plugin, out) = (folder.join("count.so"), folder.join("counts"));
    cmd!(
        shell,
        "cc -O2 -Wall -shared -fPIC kernel/bench/count.c -o {plugin}"
    )
    .run()?;
    let words: Vec<_> = program.iter().map(Into::into).collect();
    let line = kernel::command_line(&["console=plain"], &words);
    let machine = MACHINE.split(' ');
    let plugin = format!(
        "{},begin={begin:x},end={end:x},out={}",
        plugin.display(),
        out.display()
    );
    shell.remove_path(&out)?;
    // The machine's own status has no meaning here.
    cmd!(
        shell,
        "timeout 600 qemu-system-x86_64 {machine...} -m {MEMORY} -serial null -serial null -smp 1 -icount shift=0,sleep=off -kernel {image} -initrd {archive} -append {line} -plugin {plugin}"
    )
    .ignore_status()
    .quiet()
    .run()?;
    let counts = shell.read_file(&out).context("QEMU has counted nothing")?;
    let symbols = symbols(shell, image)?;
    let mut functions = BTreeMap::<&str, u64>::new();
    let mut total = 0;
    for line in counts.lines() {
        let (at, count) = line
            .split_once(' ')
            .context("a count that makes no sense")?;
        let (at, count) = (u64::from_str_radix(at, 16)?, count.parse::<u64>()?);
        let function = symbols.range(..=at).next_back();
        let name = function.map_or("(the program)", |(_, name)| name);
        *functions.entry(name).or_default() += count;
        total += count;
    }
    let functions = functions.into_iter();
    let mut functions: Vec<_> = functions
        .map(|(name, count)| (name.to_owned(), count))
        .collect();
    functions.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    Ok(Profile { functions, total })
}

/// Returns the functions of a program, by address.
fn symbols(shell: &Shell, program: &Path) -> Result<BTreeMap<u64, String>> {
    let names = cmd!(shell, "nm -C --defined-only {program}").read()?;
    let functions = names.lines().filter_map(|line| {
        let (at, rest) = line.split_once(' ')?;
        let (kind, name) = rest.split_once(' ')?;
        let at = u64::from_str_radix(at, 16).ok()?;
        matches!(kind, "t" | "T" | "w" | "W").then(|| (at, name.to_owned()))
    });
    Ok(functions.collect())
}

fn address(shell: &Shell, program: &Path, name: &str) -> Result<u64> {
    let symbols = symbols(shell, program)?;
    let found = symbols.iter().find(|(_, other)| *other == name);
    let (&at, _) = found.with_context(|| format!("{}: no {name}", program.display()))?;
    Ok(at)
}

/// Prints the functions in which an operation's instructions are executed.
pub(super) fn show(
    shell: &Shell,
    image: &Path,
    (archive, program): &(PathBuf, PathBuf),
    operation: &str,
) -> Result<()> {
    let times = 100;
    let between = (
        address(shell, program, "begin")?,
        address(shell, program, "end")?,
    );
    let words = ["/init", "only", operation, &times.to_string()];
    let profile = counted(shell, image, archive, &words, between)?;
    ensure!(
        profile.total > 0,
        "there is no operation {operation:?}: their names are those of the table"
    );
    print!("{}", text(&profile, (times * ROUNDS) as f64));
    Ok(())
}

fn text(profile: &Profile, times: f64) -> String {
    let mut text = format!("{:12.1}         all\n", profile.total as f64 / times);
    for (name, count) in profile.functions.iter().take(MOST) {
        let part = 100.0 * *count as f64 / profile.total as f64;
        let count = *count as f64 / times;
        let _ = writeln!(text, "{count:12.1} {part:5.1} %  {name}");
    }
    text
}

/// Returns memblock's share of the instructions up to the first process, in percent.
pub(super) fn memblock(shell: &Shell, image: &Path, archive: &Path, program: &Path) -> Result<f64> {
    let begin = address(shell, image, "kernel_main")?;
    let main = address(shell, program, "main")?;
    let profile = counted(shell, image, archive, &["/init", "exit"], (begin, main))?;
    let of_memblock = profile.functions.iter();
    let of_memblock = of_memblock.filter(|(name, _)| name.contains("samara_memblock"));
    let sum: u64 = of_memblock.map(|(_, count)| count).sum();
    Ok(100.0 * sum as f64 / profile.total as f64)
}
