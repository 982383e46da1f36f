//! Installs what a tier needs: toolchain components, targets, Debian packages, cargo subcommands.
//!
//! Each function first checks that the thing is missing, so a second run asks no registry. Tiers
//! that run at the same time install one after the other.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use xshell::{Cmd, Shell, cmd};

/// The nightly toolchain, which only checkers use (Miri, sanitizers, fuzzing).
pub(crate) const NIGHTLY: &str = "nightly";

/// Adds components to the pinned toolchain, or to another one.
pub(crate) fn components(shell: &Shell, toolchain: Option<&str>, wanted: &[&str]) -> Result<()> {
    let select = &toolchain_arguments(toolchain);
    if let Some(name) = toolchain {
        self::toolchain(shell, name)?;
    }
    let installed = cmd!(shell, "rustup component list --installed {select...}")
        .quiet()
        .read()?;
    for component in wanted {
        // Installed names carry the host triple (`clippy-x86_64-unknown-linux-gnu`) except for
        // `rust-src`.
        if !installed.lines().any(|line| line.starts_with(component)) {
            let add = cmd!(shell, "rustup component add {component} {select...}");
            exclusively(shell, add)?;
        }
    }
    Ok(())
}

/// Installs a toolchain if it is missing.
pub(crate) fn toolchain(shell: &Shell, name: &str) -> Result<()> {
    let is_there = cmd!(shell, "rustup run {name} rustc --version")
        .quiet()
        .ignore_stdout()
        .ignore_stderr()
        .run()
        .is_ok();
    if !is_there {
        let install = cmd!(shell, "rustup toolchain install {name} --profile minimal");
        exclusively(shell, install)?;
    }
    Ok(())
}

/// Adds targets (their precompiled standard or core libraries) to a toolchain.
pub(crate) fn targets(shell: &Shell, toolchain: Option<&str>, wanted: &[&str]) -> Result<()> {
    let select = &toolchain_arguments(toolchain);
    let installed = cmd!(shell, "rustup target list --installed {select...}")
        .quiet()
        .read()?;
    for target in wanted {
        if !installed.lines().any(|line| line == *target) {
            exclusively(shell, cmd!(shell, "rustup target add {target} {select...}"))?;
        }
    }
    Ok(())
}

/// Installs a Debian package if `program` is not on the path.
pub(crate) fn debian(shell: &Shell, program: &str, package: &str) -> Result<()> {
    if on_path(shell, program) {
        return Ok(());
    }
    install(shell, program, &[package])
}

/// Installs a Debian package if C programs cannot include this header.
pub(crate) fn header(shell: &Shell, header: &str, package: &str) -> Result<()> {
    let is_there = cmd!(shell, "cc -fsyntax-only -x c -")
        .stdin(format!("#include <{header}>\n"))
        .quiet()
        .ignore_stderr()
        .run()
        .is_ok();
    if is_there {
        return Ok(());
    }
    install(shell, header, &[package])
}

/// Installs what the C and C++ compilers need for 32-bit programs.
///
/// The check links a whole program in both languages. A machine may have the headers and lack a
/// library, have the C library's headers and lack the kernel's, or have C and lack C++.
pub(crate) fn multilib(shell: &Shell) -> Result<()> {
    let scratch = shell.create_temp_dir()?;
    let program = scratch.path().join("program");
    let mut languages = [("cc", "c"), ("c++", "c++")].into_iter();
    let links = languages.all(|(compiler, language)| {
        cmd!(shell, "{compiler} -m32 -x {language} - -o {program}")
            .stdin("#include <stdio.h>\n#include <sys/syscall.h>\nint main(void) { return 0; }\n")
            .quiet()
            .ignore_stderr()
            .run()
            .is_ok()
    });
    if links {
        return Ok(());
    }
    install(
        shell,
        "a compiler for 32 bits",
        &["gcc-multilib", "g++-multilib"],
    )
}

fn install(shell: &Shell, what: &str, packages: &[&str]) -> Result<()> {
    let names = packages.join(", ");
    if !on_path(shell, "apt-get") {
        bail!("{what} is missing: install it (Debian's {names})");
    }
    let sudo: &[&str] = if cmd!(shell, "id -u").quiet().read()? == "0" {
        &[]
    } else {
        &["sudo"]
    };
    let (first, rest) = match sudo {
        [] => ("apt-get", &[][..]),
        _ => ("sudo", &["apt-get"][..]),
    };
    exclusively(shell, cmd!(shell, "{first} {rest...} update -q"))?;
    exclusively(
        shell,
        cmd!(
            shell,
            "{first} {rest...} install -q -y --no-install-recommends {packages...}"
        )
        .env("DEBIAN_FRONTEND", "noninteractive"),
    )
    .with_context(|| format!("cannot install {names}"))?;
    Ok(())
}

/// Runs a command that installs something while no other tier installs, because neither apt nor
/// rustup waits by itself. Its output goes to standard error, because some commands print results
/// on standard output.
fn exclusively(shell: &Shell, command: Cmd<'_>) -> Result<()> {
    eprintln!("$ {command}");
    let mut command = Command::from(command);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    std::fs::create_dir_all(&folder)?;
    // Debian's essential packages include flock(1).
    if on_path(shell, "flock") {
        let mut waiting = Command::new("flock");
        waiting.arg(folder.join("installing.lock"));
        waiting.arg(command.get_program()).args(command.get_args());
        waiting.current_dir(shell.current_dir());
        let set = command.get_envs();
        waiting.envs(set.filter_map(|(name, value)| Some((name, value?))));
        command = waiting;
    }
    let status = command.stdout(std::io::stderr()).status()?;
    ensure!(status.success(), "the command ended with {status}");
    Ok(())
}

/// Installs a cargo subcommand from the registry if it is missing: this version, or the newest one.
pub(crate) fn cargo_tool(shell: &Shell, name: &str, version: Option<&str>) -> Result<()> {
    if on_path(shell, name) {
        return Ok(());
    }
    // With their own release profiles, such tools take many minutes to link. A check that runs for
    // seconds needs no optimisation.
    let version = version.map_or_else(Vec::new, |it| vec!["--version", it]);
    cmd!(shell, "cargo install --locked {name} {version...}")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .run()
        .with_context(|| format!("cannot install {name}"))
}

fn on_path(shell: &Shell, program: &str) -> bool {
    let script = format!("command -v {program}");
    cmd!(shell, "sh -c {script}")
        .quiet()
        .ignore_stdout()
        .ignore_stderr()
        .run()
        .is_ok()
}

fn toolchain_arguments(toolchain: Option<&str>) -> Vec<String> {
    toolchain.map_or_else(Vec::new, |name| {
        vec!["--toolchain".to_owned(), name.to_owned()]
    })
}
