//! Enables the checker's atomics in this package only: a flag for all crates would also reach its
//! dependencies.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cfg=samara_loom");
}
