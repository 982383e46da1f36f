//! `cargo xtask ci`: what continuous integration runs.
//!
//! Two tiers run at a time, each in a process of its own, because most of many tiers is one long
//! compilation or one long test. The longest tiers come first, so that no processor is idle near
//! the end. The output of a tier is printed as a whole when the tier has ended.
//!
//! Cargo allows one build at a time in a target directory, so tiers that run at the same time have
//! different ones. Only `unit` and `lint` share one. `unit` has compiled all it needs long before
//! `lint` starts.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use xshell::Shell;

use crate::repeat;
use crate::tiers::{self, Tier};

/// The tiers that fit into the time of continuous integration, in descending order of their
/// processor time.
const TIERS: [Tier; 14] = [
    Tier::Unit,
    Tier::Sanitize,
    Tier::Bare,
    Tier::Borrows,
    Tier::Gate,
    Tier::Lint,
    Tier::Loom,
    Tier::Bench,
    Tier::Package,
    Tier::Kernel,
    Tier::Msrv,
    Tier::Exhaustive,
    Tier::Deny,
    Tier::Semver,
];
/// The number of tiers that run at the same time.
const WORKERS: usize = 2;

/// A tier that has ended.
struct Done {
    tier: Tier,
    succeeded: bool,
    wall: Duration,
    /// The processor time of all its processes.
    cpu: Duration,
    /// The commands that repeat the failed tests.
    repeats: Vec<String>,
}

/// Runs all tiers. After a failure, no further tier starts, and the running ones are waited for.
pub(crate) fn run(shell: &Shell) -> Result<()> {
    let start = Instant::now();
    // It takes seconds, so it comes first.
    tiers::formatting(shell)?;
    let root = shell.current_dir();
    let folder = root.join("target/ci");
    fs::create_dir_all(&folder).context("cannot make the folder target/ci")?;
    // A tier may rebuild this program, so the tiers run a copy.
    let program = folder.join("xtask");
    let _ = fs::remove_file(&program);
    fs::copy(std::env::current_exe()?, &program).context("cannot copy this program")?;

    let mut waiting = TIERS.into_iter();
    let mut running: Vec<Running> = Vec::new();
    let mut done: Vec<Done> = Vec::new();
    loop {
        while running.len() < WORKERS && done.iter().all(|tier| tier.succeeded) {
            let Some(tier) = waiting.next() else { break };
            running.push(Running::start(tier, &program, &folder)?);
        }
        if running.is_empty() {
            break;
        }
        thread::sleep(Duration::from_millis(100));
        let mut still_running = Vec::new();
        for mut tier in running {
            // One process is waited for at a time, so the increase of the children's time is that
            // process's.
            let before = children_cpu();
            match tier.child.try_wait()? {
                None => still_running.push(tier),
                Some(status) => done.push(tier.finish(status, children_cpu() - before)),
            }
        }
        running = still_running;
    }
    summary(&done, start.elapsed());
    for command in done.iter().flat_map(|tier| &tier.repeats) {
        println!("repeat: {command}");
    }
    if let Some(failed) = done.iter().find(|tier| !tier.succeeded) {
        bail!("tier {} failed", failed.tier.name());
    }
    Ok(())
}

/// A running tier.
struct Running {
    tier: Tier,
    child: Child,
    log: PathBuf,
    start: Instant,
}

impl Running {
    fn start(tier: Tier, program: &Path, folder: &Path) -> Result<Self> {
        eprintln!("ci: {} starts", tier.name());
        let log = folder.join(format!("{}.log", tier.name()));
        let file = File::create(&log).context("cannot make a tier's log")?;
        let child = Command::new(program)
            .args(["test", "--tier", tier.name()])
            .stdin(Stdio::null())
            .stderr(file.try_clone().context("cannot share a tier's log")?)
            .stdout(file)
            .spawn()
            .with_context(|| format!("cannot start tier {}", tier.name()))?;
        Ok(Running {
            tier,
            child,
            log,
            start: Instant::now(),
        })
    }

    /// Prints the output, and returns the result.
    fn finish(self, status: ExitStatus, cpu: Duration) -> Done {
        let output = fs::read(&self.log).unwrap_or_default();
        let output = String::from_utf8_lossy(&output);
        print!("{output}");
        let succeeded = status.success();
        let repeats = if succeeded {
            Vec::new()
        } else {
            repeat::commands(&output)
        };
        Done {
            tier: self.tier,
            succeeded,
            wall: self.start.elapsed(),
            cpu,
            repeats,
        }
    }
}

fn summary(done: &[Done], wall: Duration) {
    println!("tier          wall, s  processors, s");
    for tier in done {
        let (name, wall, cpu) = (tier.tier.name(), tier.wall, tier.cpu);
        let mark = if tier.succeeded { "" } else { "  failed" };
        println!(
            "{name:10} {:10.1} {:14.1}{mark}",
            wall.as_secs_f64(),
            cpu.as_secs_f64()
        );
    }
    let cpu: Duration = done.iter().map(|tier| tier.cpu).sum();
    println!(
        "{:10} {:10.1} {:14.1}",
        "all",
        wall.as_secs_f64(),
        cpu.as_secs_f64()
    );
}

/// Returns the processor time of all descendants that were waited for, or zero if `/proc` does not
/// report it.
fn children_cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // `cutime` and `cstime` are fields 16 and 17 of proc_pid_stat(5), in hundredths of a second.
    // The second field is the program's name, in parentheses.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let fields = fields.split_whitespace().skip(13).take(2);
    let ticks: u64 = fields.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}
