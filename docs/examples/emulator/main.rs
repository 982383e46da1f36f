//! The program of the emulator guide: runs a static RISC-V program with two threads, for the number of rounds in its argument.

mod cpu;
mod emulator;

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = std::env::args().nth(1).unwrap_or_else(|| "20000".into());
    let ending = emulator::Emulator::run(include_bytes!("guest.elf"), &["guest", &rounds])?;
    print!("{}", String::from_utf8_lossy(&ending.output));
    println!(
        "status {} after {} instructions",
        ending.status, ending.steps
    );
    Ok(())
}
