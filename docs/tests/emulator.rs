//! The program of the guide for emulators: a static program with two threads, of which one loads what the other takes away.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../examples/emulator/cpu.rs"]
mod cpu;
#[path = "../examples/emulator/emulator.rs"]
mod emulator;

use emulator::Emulator;

const GUEST: &[u8] = include_bytes!("../examples/emulator/guest.elf");

#[test]
fn no_stale_byte_in_ten_million_steps() {
    let mut steps = 0;
    while steps < 10_000_000 {
        let ending = Emulator::run(GUEST, &["guest", "5000"]).unwrap();
        let output = String::from_utf8_lossy(&ending.output);
        assert_eq!((ending.status, &*output), (0, "no stale byte\n"));
        steps += ending.steps;
    }
}
