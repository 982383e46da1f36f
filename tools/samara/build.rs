//! Links what unwinds the stack into the program.
//!
//! The standard library takes it from `libgcc_s.so.1`. To find, map and initialise that takes the loader a fifth of the time in which
//! `samara --version` is done; the same code as an archive, which every GCC brings along, takes none. Where there is no such archive, the shared
//! library is as good.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |what: &str| env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    if target("OS") != "linux" || target("ENV") != "gnu" || env::var("TARGET") != env::var("HOST") {
        return;
    }
    let linker = env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let asked = Command::new(linker)
        .arg("-print-file-name=libgcc_eh.a")
        .output();
    // The name alone is the answer where there is none.
    if asked.is_ok_and(|answer| {
        let path = String::from_utf8_lossy(&answer.stdout);
        Path::new(path.trim()).is_absolute()
    }) {
        println!("cargo::rustc-link-lib=gcc_eh");
    }
}
