//! Performs the same histories of calls, accesses, forks and exits on real processes and on the
//! engine's. Compares each result, each signal with its code, and every byte that is read. After
//! each step, compares the maps of all processes and every page as `/proc/PID/pagemap` shows it.
//!
//! `SAMARA_PAGES_SEED=n` starts at seed n, `SAMARA_PAGES_STEPS=n` sets the steps in each suite. An argument selects the suites whose names
//! contain it. `SAMARA_PAGES_LOG=1` prints what each step came to in the real processes, and nothing that differs between two machines. Needs root: others are not told frames' numbers, by which the page of zeroes is known.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test with a main function of its own"
)]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod engine;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../common/halves.rs"]
mod halves;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod op;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod real;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../common/repeat.rs"]
mod repeat;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod shrink;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod steady;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {
    println!("pages: skipped, this is not Linux on x86-64");
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() {
    use halves::Half;

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|a| a == "--list") {
        println!("pages: test");
        return;
    }
    // SAFETY: asks only.
    if unsafe { libc::geteuid() } != 0 {
        println!("pages: skipped, needs root");
        return;
    }
    let filter = arguments.iter().find(|a| !a.starts_with('-'));
    let number = |name: &str, or: u64| {
        let value = std::env::var(name).ok();
        value.and_then(|v| v.parse().ok()).unwrap_or(or)
    };
    let first = number("SAMARA_PAGES_SEED", 1);
    let steps = number("SAMARA_PAGES_STEPS", 1_500);
    const LENGTH: usize = 150;
    let logs = std::env::var_os("SAMARA_PAGES_LOG").is_some();
    let chosen = filter.is_some() || std::env::var_os("SAMARA_PAGES_STEPS").is_some();
    let half = Half::of(!chosen);
    real::stay(half.is_second());
    for (index, (name, mix)) in op::suites().into_iter().enumerate() {
        if !half.takes(index) {
            continue;
        }
        if filter.is_some_and(|filter| !name.contains(filter.as_str())) {
            continue;
        }
        let began = std::time::Instant::now();
        op::set_large(mix.unit > 1);
        for seed in first..first + steps.div_ceil(LENGTH as u64) {
            // A log tells of the real processes alone: one mode of the engine is enough.
            for mode in &engine::MODES[..if logs { 1 } else { engine::MODES.len() }] {
                let (mode, history) = (*mode, op::history(seed, &mix, LENGTH));
                let compared = steady::steadily(|| engine::compare(&history, mode));
                if let (true, Ok(log)) = (logs, &compared) {
                    print!("== {name}, seed {seed}\n{log}");
                }
                if let Err((number, first)) = compared {
                    repeat::print(&format!(
                        "SAMARA_PAGES_SEED={seed} SAMARA_PAGES_STEPS={LENGTH} cargo test -p samara-mm --features hosted --test pages -- '{name}'"
                    ));
                    // What differed first, in case that no shorter history does.
                    eprintln!("suite {name}, seed {seed}, {mode:?}, step {number} {first}");
                    if logs {
                        std::process::exit(101);
                    }
                    let (shortest, what) = shrink::shrink(&history, mode);
                    let mut text = String::from("the shortest history that differs:\n");
                    for step in &shortest {
                        text += &format!("  {step:x?}\n");
                    }
                    eprintln!("{text}{what}");
                    std::process::exit(101);
                }
            }
        }
        if !logs {
            println!("{name}: {steps} steps agree ({:.1?})", began.elapsed());
        }
    }
}
