//! Links the kernel with its architecture's linker script.

use std::env;

fn main() {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let folder = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let all = format!("{folder}/src/arch");
    println!("cargo::rerun-if-changed={all}/{arch}/link.ld");
    println!("cargo::rerun-if-changed={all}/image.ld");
    println!("cargo::rustc-link-arg-bins=-L{all}");
    println!("cargo::rustc-link-arg-bins=-T{all}/{arch}/link.ld");
}
