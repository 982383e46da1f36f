//! The guest's programs, compiled for its architecture.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::Result;
use xshell::{Shell, cmd};

use super::SOURCES;
use crate::kernel::{Arch, Cross};
use crate::setup;

/// The flags for C programs.
const FLAGS: [&str; 5] = ["-O1", "-Wall", "-Wno-unused-result", "-static", "-pthread"];

/// Compiles a program without shared libraries.
pub(super) fn compile(
    shell: &Shell,
    cross: Option<&Cross>,
    arch: Arch,
    source: &Path,
    to: &Path,
) -> Result<()> {
    match cross {
        None => native(shell, source, to),
        Some(cross) => foreign(shell, cross, arch, source, to),
    }
}

/// Compiles a program with this machine's own compilers.
fn native(shell: &Shell, source: &Path, to: &Path) -> Result<()> {
    if is_rust(source) {
        return rust(shell, "x86_64-unknown-linux-musl", &[], source, to);
    }
    setup::debian(shell, "cc", "gcc")?;
    cmd!(shell, "cc {FLAGS...} {source} -o {to}").run()?;
    Ok(())
}

/// Compiles a program with cross compilers.
fn foreign(shell: &Shell, cross: &Cross, arch: Arch, source: &Path, to: &Path) -> Result<()> {
    if !is_rust(source) {
        let files = [source.as_os_str(), OsStr::new("-o"), to.as_os_str()];
        let flags = FLAGS.iter().map(OsStr::new).chain(files);
        return cross.compile(shell, &flags.map(OsStr::to_owned).collect::<Vec<_>>());
    }
    match arch {
        Arch::Aarch64 => rust(
            shell,
            "aarch64-unknown-linux-musl",
            &["-Clinker=rust-lld"],
            source,
            to,
        ),
        _ => {
            let (linker, flags) = cross.command();
            let (linker, flags) = (format!("-Clinker={linker}"), format!("-Clink-arg={flags}"));
            let _libraries = shell.push_env("LD_LIBRARY_PATH", cross.libraries());
            let options = [
                &linker,
                &flags,
                "-Ctarget-feature=+crt-static",
                "-Crelocation-model=static",
            ];
            rust(shell, "riscv64gc-unknown-linux-gnu", &options, source, to)
        }
    }
}

fn is_rust(source: &Path) -> bool {
    source.extension() == Some(OsStr::new("rs"))
}

/// Compiles a program of one file that uses Rust's standard library.
fn rust(shell: &Shell, target: &str, options: &[&str], source: &Path, to: &Path) -> Result<()> {
    setup::targets(shell, None, &[target])?;
    cmd!(
        shell,
        "rustc --edition 2024 -O -Cstrip=symbols --target {target} {options...} {source} -o {to}"
    )
    .run()?;
    Ok(())
}

/// The C programs that are also compiled with musl: all except `memory`, whose arena musl would
/// allocate in.
const MUSL: [&str; 4] = ["files", "hostile", "signals", "threads"];

/// Compiles the programs with musl. Returns their names.
pub(super) fn with_musl(shell: &Shell, tests: &Path) -> Result<Vec<String>> {
    setup::debian(shell, "musl-gcc", "musl-tools")?;
    let sources = Path::new(SOURCES).join("programs");
    let mut names = Vec::new();
    for name in MUSL {
        let source = sources.join(name).with_extension("c");
        let name = format!("{name}-musl");
        let to = tests.join(&name);
        cmd!(shell, "musl-gcc {FLAGS...} {source} -o {to}").run()?;
        names.push(name);
    }
    Ok(names)
}

/// Compiles Lua, with its script next to it. Returns its name.
pub(super) fn lua(shell: &Shell, tests: &Path) -> Result<String> {
    setup::header(shell, "lua5.4/lua.h", "liblua5.4-dev")?;
    let sources = Path::new(SOURCES).join("lua");
    let (source, to) = (sources.join("lua.c"), tests.join("lua"));
    shell.copy_file(sources.join("lua.lua"), tests.join("lua.lua"))?;
    cmd!(shell, "cc {FLAGS...} {source} -llua5.4 -lm -o {to}").run()?;
    Ok("lua".to_owned())
}
