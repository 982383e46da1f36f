//! Links the kernel by its architecture's script.

use std::env;

fn main() {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let folder = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let script = format!("{folder}/src/arch/{arch}/link.ld");
    println!("cargo::rerun-if-changed={script}");
    println!("cargo::rustc-link-arg-bins=-T{script}");
}
