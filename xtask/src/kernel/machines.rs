//! The machines on which the kernel boots, and QEMU's options for each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use xshell::{Shell, cmd};

use super::Options;
use crate::setup;

/// An architecture of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Arch {
    #[value(name = "x86_64")]
    X86_64,
    Aarch64,
    Riscv64,
}

impl Arch {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64",
            Arch::Aarch64 => "aarch64",
            Arch::Riscv64 => "riscv64",
        }
    }

    /// Returns the compiler's target for the kernel. It has no floating-point registers, which on
    /// x86-64 is implied.
    pub(crate) fn target(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64-unknown-none",
            Arch::Aarch64 => "aarch64-unknown-none-softfloat",
            Arch::Riscv64 => "riscv64imac-unknown-none-elf",
        }
    }

    /// QEMU's machines, the default one first.
    fn machines(self) -> &'static [&'static str] {
        match self {
            Arch::X86_64 => &["q35", "microvm"],
            Arch::Aarch64 | Arch::Riscv64 => &["virt"],
        }
    }

    /// Returns the most processors of a machine.
    fn processors(self) -> u8 {
        match self {
            // The limit of a GICv2.
            Arch::Aarch64 => 8,
            Arch::X86_64 | Arch::Riscv64 => 64,
        }
    }

    /// Returns `true` if firmware writes to the console before the kernel does. Byte 1 ends the
    /// firmware's output.
    pub(super) fn has_talkative_firmware(self) -> bool {
        self == Arch::Riscv64
    }

    /// Returns the options for the processor, and for the device of the kernel's log.
    fn flags(self) -> &'static str {
        match self {
            Arch::X86_64 => {
                "-cpu qemu64 -device isa-serial,chardev=log,iobase=0x2f8,irq=3,index=1 -device isa-debug-exit,iobase=0xf4,iosize=4"
            }
            Arch::Aarch64 => {
                "-cpu cortex-a72 -semihosting-config enable=on,target=native,chardev=log"
            }
            Arch::Riscv64 => "-semihosting-config enable=on,target=native,chardev=log",
        }
    }
}

const COMMON: &str = "-accel tcg -display none -nodefaults -no-reboot -chardev stdio,id=console,signal=off -serial chardev:console -chardev file,id=log,path=/dev/stderr";

/// Returns the command that starts the machine, without the kernel's files.
pub(super) fn command(shell: &Shell, options: &Options) -> Result<Command> {
    let arch = options.arch;
    let machine = match &options.machine {
        None => arch.machines()[0],
        Some(machine) => {
            let all = arch.machines();
            let named = all.iter().find(|known| *known == machine);
            named.with_context(|| {
                format!("--machine takes {} on {}", all.join(" or "), arch.name())
            })?
        }
    };
    let most = arch.processors();
    ensure!(
        options.cpus <= most,
        "--cpus takes at most {most} on {}",
        arch.name()
    );
    let program = format!("qemu-system-{}", arch.name());
    match arch {
        Arch::X86_64 => setup::debian(shell, &program, "qemu-system-x86")?,
        Arch::Aarch64 => setup::debian(shell, &program, "qemu-system-arm")?,
        Arch::Riscv64 => setup::debian(shell, &program, "qemu-system-misc")?,
    }
    let mut command = Command::new(program);
    command.args(COMMON.split(' '));
    command.args(arch.flags().split(' '));
    command.args(["-M", machine, "-m", &options.memory]);
    command.args(["-smp", &options.cpus.to_string()]);
    if let Some(shift) = options.icount {
        command.args(["-icount", &format!("shift={shift},sleep=off")]);
    }
    Ok(command)
}

/// Builds the kernel, a workspace of its own with its own compiler settings. Returns the file that
/// the machine loads.
pub(crate) fn build(shell: &Shell, arch: Arch, features: &str) -> Result<PathBuf> {
    let target = arch.target();
    setup::targets(shell, None, &[target])?;
    let _folder = shell.push_dir("kernel");
    cmd!(
        shell,
        "cargo build --release --locked --quiet --target {target} --features {features}"
    )
    .quiet()
    .run()?;
    let built = format!("target/{target}/release/samara-kernel");
    let built = shell.current_dir().join(built);
    if arch != Arch::Aarch64 {
        return Ok(built);
    }
    let image = built.with_extension("image");
    flat(&built, &image)?;
    Ok(image)
}

/// Writes the segments of an ELF file in their memory layout. QEMU passes initial files only to an
/// image of Linux's boot protocol.
fn flat(elf: &Path, to: &Path) -> Result<()> {
    let bytes = fs::read(elf).with_context(|| format!("cannot read {}", elf.display()))?;
    let part = |at: u64, len: u64| {
        let range = at as usize..(at + len) as usize;
        bytes.get(range).context("the kernel's file is cut off")
    };
    let number = |at: u64, len: u64| {
        let bytes = part(at, len)?.iter().rev();
        Ok::<_, anyhow::Error>(bytes.fold(0u64, |number, &byte| number << 8 | u64::from(byte)))
    };
    let (table, count) = (number(32, 8)?, number(56, 2)?);
    let mut image = Vec::new();
    let mut first = None;
    for at in (0..count).map(|i| table + 56 * i) {
        const LOAD: u64 = 1;
        let (kind, len) = (number(at, 4)?, number(at + 32, 8)?);
        if kind == LOAD && len > 0 {
            let physical = number(at + 24, 8)?;
            let start = physical - *first.get_or_insert(physical);
            image.resize(start as usize, 0);
            image.extend_from_slice(part(number(at + 8, 8)?, len)?);
        }
    }
    fs::write(to, image).with_context(|| format!("cannot write {}", to.display()))
}
