//! Turns the checker's atomics on in the package, and nowhere else: a flag for all crates would reach those below, too.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cfg=samara_loom");
}
