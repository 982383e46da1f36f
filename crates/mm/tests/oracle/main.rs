//! Performs the same histories on the engine and on the running kernel, and compares every result and the whole map
//! after every step.
//!
//! `SAMARA_ORACLE_SEED=n` starts the random suites at seed n; `SAMARA_ORACLE_CALLS=n` sets the calls in each. An argument
//! selects the suites whose names contain it. Such a run prints at its end what it has covered: each call with each of its flags and each
//! error. With `SAMARA_ORACLE_FLAGS=1` the flags of all areas (`VmFlags:` of smaps) are compared after each call, not only in every eighth
//! history and at the end of the others. A difference is told with the shortest history that shows it.
//!
//! Every other history is performed while other threads might look (they do not), and compared through their handle.
//!
//! In the suites called "asked" the engine is not told of page faults. If three areas in a row are
//! written between two calls, the outer two first, it cannot know that order and takes a likelier
//! one. About one history in some hundreds then differs. None of these starts at the usual seed.
//!
//! The suite "holes closed" is no random one: it performs each combination of [`holes`], or, if the number of calls is set, some of them at random.
//!
//! A step of a history is an [`op::Op`]. [`generate`] draws them, [`kernel`] performs them in a child process, `world/engine.rs` on an address
//! space, and [`world`] compares the two. Every difference that was found is kept in [`found`] and
//! [`found_huge`].

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test with a main function of its own"
)]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod coverage;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod found;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod found_huge;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod generate;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../common/halves.rs"]
mod halves;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod holes;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod kernel;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod op;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod pool;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../common/repeat.rs"]
mod repeat;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../common/running.rs"]
mod running;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../../../../tools/tracer/src/shortest.rs"]
mod shortest;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod world;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {
    println!("oracle: skipped, this is not Linux on x86-64");
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() {
    use generate::{history, suites};
    use halves::Half;
    use world::{Way, World};

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|a| a == "--list") {
        println!("oracle: test");
        return;
    }
    let filter = arguments.iter().find(|a| !a.starts_with('-'));
    let number = |name: &str, or: u64| {
        std::env::var(name)
            .ok()
            .and_then(|v| v.parse().ok())
            .unwrap_or(or)
    };
    let seed = number("SAMARA_ORACLE_SEED", 1);
    let flags = number("SAMARA_ORACLE_FLAGS", 0) > 0;
    let chosen = filter.is_some() || std::env::var_os("SAMARA_ORACLE_CALLS").is_some();
    let half = Half::of(!chosen);
    // Histories that go wrong must not take the machine's memory with them.
    let cap = libc::rlimit {
        rlim_cur: 64 << 30,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the structure is ours.
    unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const cap) };
    let mut world = World::new();
    let told = suites::told()
        .into_iter()
        .map(|(name, mix)| (name, Way::Told, mix));
    let asked = suites::asked()
        .into_iter()
        .map(|(name, mix)| (name, Way::Asked, mix));
    let suites = told.chain(asked);
    const LENGTH: usize = 250;
    let older = !world.is_newest();
    if world.is_wide() {
        println!("oracle: there are addresses of 57 bits");
    }
    let found = found::histories(&world.special_areas());
    for (name, ops) in found
        .iter()
        .filter(|_| !older && filter.is_none() && !half.is_second())
    {
        if let Some(difference) = world.compare(ops, Way::Told) {
            kernel::fail(&format!("{name}: {}", difference.what));
        }
    }
    const HOLES: &str = "holes closed";
    if filter.is_none_or(|f| HOLES.contains(f.as_str())) && !half.is_second() {
        holes::compare(
            &mut world,
            HOLES,
            seed,
            number("SAMARA_ORACLE_CALLS", u64::MAX),
        );
    }
    for (index, (name, way, mix)) in suites.enumerate() {
        if !half.takes(index) {
            continue;
        }
        if filter.is_some_and(|f| !name.contains(f.as_str())) {
            continue;
        }
        if older && (mix.modes || mix.special.is_some() || mix.huge) {
            println!("{name}: skipped, compared with the newest kernel only");
            continue;
        }
        let mix = generate::Mix {
            older,
            wide: world.is_wide(),
            ..mix
        };
        if mix.huge
            && let Err(why) = world.take_huge()
        {
            println!("{name}: skipped, the pool of huge pages cannot be had: {why}");
            continue;
        }
        let found_huge = match mix.huge {
            true => found_huge::histories(),
            false => Vec::new(),
        };
        for (what, ops) in &found_huge {
            if let Some(difference) = world.compare(ops, Way::Told) {
                kernel::fail(&format!("{what}: {}", difference.what));
            }
        }
        let usual = if mix.huge { 5_000 } else { 20_000 };
        let calls = number("SAMARA_ORACLE_CALLS", usual);
        let began = std::time::Instant::now();
        let histories = calls.div_ceil(LENGTH as u64);
        for number in 0..histories {
            let seed = seed + number;
            world.shared = number % 2 == 1;
            world.flags_after_each = number % 8 == 0 || flags;
            let ops = history(seed, &mix, Some(world.special), LENGTH);
            if let Some(found) = world.compare(&ops, way) {
                let shrunk = world.shrink(&ops, way);
                // One that does not show again is told whole.
                let (shortest, difference) = shrunk.unwrap_or((ops, found));
                let mut text = format!(
                    "suite {name}, seed {seed}: {} steps suffice:\n",
                    shortest.len()
                );
                for op in &shortest {
                    text += &format!("    Op::{},\n", format!("{op:x?}").replace(": ", ": 0x"));
                }
                repeat::print(&format!(
                    "SAMARA_ORACLE_SEED={seed} SAMARA_ORACLE_CALLS={LENGTH} cargo test -p samara-mm --test oracle -- '{name}'"
                ));
                kernel::fail(&format!("{text}{}", difference.what));
            }
        }
        world.leave_huge();
        let calls = histories * LENGTH as u64;
        println!("{name}: {calls} calls agree ({:.1?})", began.elapsed());
    }
    if number("SAMARA_ORACLE_CALLS", 0) > 0 {
        print!("{}", world.coverage);
    }
}
