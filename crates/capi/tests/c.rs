//! Compiles the C tests and examples of memblock, links them with the libraries as users do, and
//! runs them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what went wrong by panicking"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

const C: [&str; 4] = ["-std=gnu11", "-Wall", "-Wextra", "-Werror"];

/// Returns the path of a library, which cargo puts next to the test's own executable.
fn library(name: &str) -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let dir = exe.parent().unwrap();
    let stem = name.split_once('.').unwrap();
    let newest = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let file = path.file_name().unwrap().to_str().unwrap_or_default();
            file == name
                || (file.starts_with(&format!("{}-", stem.0))
                    && file.ends_with(&format!(".{}", stem.1)))
        })
        .max_by_key(|path| path.metadata().unwrap().modified().unwrap());
    newest.unwrap_or_else(|| panic!("{name} is not in {}", dir.display()))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Builds a source below the crate's root, runs the program, and returns its output.
fn run(compiler: &str, flags: &[&str], source: &str, library_name: &str, name: &str) -> String {
    let link = library(library_name);
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("memblock-{name}"));
    // The library's own width, since these tests also run for 32-bit targets.
    let width = if cfg!(target_pointer_width = "32") {
        "-m32"
    } else {
        "-m64"
    };
    let built = Command::new(compiler)
        .args(flags)
        .args([width, "-g", "-O1", "-I"])
        .arg(root().join("include"))
        .arg(root().join(source))
        .args(["-x", "none"])
        .arg(&link)
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program)
        .output()
        .unwrap_or_else(|error| panic!("{compiler} is needed (Debian's gcc, g++): {error}"));
    assert!(
        built.status.success(),
        "{source}: {}",
        String::from_utf8_lossy(&built.stderr)
    );
    let ran = Command::new(&program)
        .env("LD_LIBRARY_PATH", link.parent().unwrap())
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(
        ran.status.success(),
        "{source}: {}\n{out}{}",
        ran.status,
        String::from_utf8_lossy(&ran.stderr)
    );
    out
}

/// Runs a C test against the static library, which must print only `ok`.
fn passes(name: &str) {
    let source = format!("tests/c/{name}.c");
    assert_eq!(run("cc", &C, &source, "libsamara.a", name), "ok\n");
}

#[test]
fn boot_with_the_static_library() {
    passes("boot");
}

#[test]
fn boot_with_the_shared_library() {
    let out = run("cc", &C, "tests/c/boot.c", "libsamara.so", "boot-shared");
    assert_eq!(out, "ok\n");
}

#[test]
fn walks_beside_a_model() {
    passes("memblock_walks");
}

#[test]
fn pages_change_hands() {
    passes("memblock_hand_over");
}

#[test]
fn hostile_callers() {
    passes("memblock_hostile");
}

#[test]
fn the_headers_are_strict_c_of_any_age() {
    for standard in ["c99", "c11", "gnu17"] {
        let flag = format!("-std={standard}");
        let flags = [
            &flag,
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic",
            "-Wc++-compat",
        ];
        let source = "tests/c/memblock_strict.c";
        let out = run("cc", &flags, source, "libsamara.a", standard);
        assert_eq!(out, "ok\n");
    }
}

const CPLUSPLUS: [&str; 5] = ["-Wall", "-Wextra", "-Werror", "-xc++", "-pedantic"];

#[test]
fn the_headers_are_cplusplus_too() {
    for standard in ["c++11", "c++17", "gnu++20"] {
        let flag = format!("-std={standard}");
        let flags = [&[flag.as_str()], &CPLUSPLUS[..]].concat();
        let source = "tests/c/memblock_strict.c";
        let out = run("c++", &flags, source, "libsamara.a", standard);
        assert_eq!(out, "ok\n");
    }
}

/// The example is valid C and C++, and its output equals the `.out` file.
#[test]
fn example_boot() {
    let source = "examples/c/memblock_boot.c";
    let expected = std::fs::read_to_string(root().join("examples/c/memblock_boot.out")).unwrap();
    let flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"];
    let out = run("cc", &flags, source, "libsamara.a", "example");
    assert_eq!(out, expected);
    let flags = [&["-std=c++17"], &CPLUSPLUS[..]].concat();
    let out = run("c++", &flags, source, "libsamara.a", "example-c++");
    assert_eq!(out, expected);
}
