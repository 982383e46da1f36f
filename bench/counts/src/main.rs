//! Performs one operation of the maple tree or of the boot allocator, or one sequence of system
//! calls on an address space, many times, always in the same way, within the function [`measured`].
//! The instructions that callgrind counts below it, divided by the printed number of calls, are the
//! operation's cost.
//!
//! `samara-counts` lists the operations (those of [`rival`] are not among them); `samara-counts NAME [REPEATS]` performs one. Nothing here depends on time, on
//! addresses, on the environment or on random state. `cargo xtask gate` compares the counts with the committed ones.

#[cfg(not(feature = "system-alloc"))]
mod arena;
mod c;
mod cursor;
mod entries;
mod halves;
mod memblock;
mod mm;
mod operations;
mod process;
mod rival;
mod snap;

use std::process::ExitCode;

#[cfg(not(feature = "system-alloc"))]
#[global_allocator]
static ARENA: arena::Arena = arena::Arena::new();

/// The function in which callgrind counts (`--toggle-collect=samara_measured`).
#[inline(never)]
#[unsafe(no_mangle)]
fn samara_measured(work: &mut dyn FnMut()) {
    work();
}

/// Counts what `work` does.
fn measured(mut work: impl FnMut()) {
    samara_measured(&mut work);
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let Some(name) = words.next() else {
        for (name, _) in operations::ALL
            .iter()
            .chain(entries::ALL)
            .chain(halves::ALL)
            .chain(cursor::ALL)
            .chain(snap::ALL)
            .chain(c::ALL)
            .chain(mm::ALL)
            .chain(memblock::ALL)
            .chain(process::ALL)
        {
            println!("{name}");
        }
        return ExitCode::SUCCESS;
    };
    let repeats = words
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(1_u32);
    let Some((_, perform)) = operations::ALL
        .iter()
        .chain(entries::ALL)
        .chain(halves::ALL)
        .chain(cursor::ALL)
        .chain(snap::ALL)
        .chain(c::ALL)
        .chain(mm::ALL)
        .chain(memblock::ALL)
        .chain(process::ALL)
        .chain(rival::ALL)
        .chain(halves::RIVALS)
        .find(|(known, _)| *known == name)
    else {
        eprintln!("samara-counts: there is no operation {name}");
        return ExitCode::FAILURE;
    };
    let mut calls = 0;
    for _ in 0..repeats {
        calls += perform();
    }
    println!("{calls}");
    ExitCode::SUCCESS
}
