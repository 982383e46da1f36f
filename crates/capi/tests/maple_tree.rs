//! Compiles the C tests and examples of the maple tree, links them with the libraries as users do, and runs them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what went wrong by panicking"
)]

use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::Command;

use samara::maple_tree::{
    MaState, MapleBulkHooks, MapleHooks, MaplePoolStats, MapleTree, RcuHead, Status,
};

const C: [&str; 4] = ["-std=gnu11", "-Wall", "-Wextra", "-Werror"];

/// The library that cargo built beside this test's own executable.
fn library(prefix: &str, extension: &str) -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    std::fs::read_dir(exe.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or("");
            path.extension().is_some_and(|e| e == extension)
                && (stem == prefix || stem.starts_with(&format!("{prefix}-")))
        })
        .max_by_key(|path| path.metadata().unwrap().modified().unwrap())
        .unwrap_or_else(|| panic!("{prefix}.{extension} is not beside {}", exe.display()))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Builds a program from a source below the crate's root.
fn build(compiler: &str, flags: &[&str], source: &str, link: &Path, name: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // The library's own width: these tests also run for 32-bit targets.
    let width = if cfg!(target_pointer_width = "32") {
        "-m32"
    } else {
        "-m64"
    };
    let built = Command::new(compiler)
        .args(flags)
        .args([width, "-O1", "-g", "-pthread", "-I"])
        .arg(root().join("include"))
        .arg(root().join(source))
        .arg(link)
        .args(["-ldl", "-lm", "-o"])
        .arg(&program)
        .output()
        .unwrap_or_else(|error| panic!("{compiler} is needed (Debian's gcc, g++): {error}"));
    assert!(
        built.status.success(),
        "{source}: {}",
        String::from_utf8_lossy(&built.stderr)
    );
    program
}

/// Runs a program and gives what it wrote.
fn run(program: &Path, link: &Path) -> String {
    let ran = Command::new(program)
        .env("LD_LIBRARY_PATH", link.parent().unwrap())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(
        ran.status.success(),
        "{}: {}\n{text}{}",
        program.display(),
        ran.status,
        String::from_utf8_lossy(&ran.stderr)
    );
    text
}

/// Builds a test in C against the static library; it must end with `ok`.
fn passes(source: &str) {
    let link = library("libsamara", "a");
    let program = build("cc", &C, &format!("tests/c/{source}.c"), &link, source);
    let text = run(&program, &link);
    assert!(text.ends_with("ok\n"), "{source}: {text}");
}

macro_rules! c_tests {
    ($($name:ident),* $(,)?) => {$(
        #[test]
        fn $name() {
            passes(concat!("maple_", stringify!($name)));
        }
    )*};
}

c_tests!(
    states, places, normal, advanced, corners, documented, gaps, model, threads, own_rcu, pool,
    barrier, dump
);

/// Builds an example and compares what it writes with the file beside it.
fn example(name: &str) {
    let link = library("libsamara", "a");
    let source = format!("examples/c/{name}.c");
    let program = build("cc", &C, &source, &link, &format!("example_{name}"));
    let expected = root().join("examples/c").join(name).with_extension("out");
    assert_eq!(
        run(&program, &link),
        std::fs::read_to_string(expected).unwrap(),
        "{name}"
    );
}

#[test]
fn example_ids() {
    example("maple_ids");
}

#[test]
fn example_areas() {
    example("maple_areas");
}

#[test]
fn example_bus() {
    example("maple_bus");
}

/// What the library has for the lines that `maple_abi.c` prints.
fn layout() -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    macro_rules! of {
        ($type:ty, $c:literal, $($field:ident),*) => {
            all.insert(concat!("sizeof struct ", $c).to_owned(), size_of::<$type>());
            $(all.insert(
                concat!("offsetof struct ", $c, ".", stringify!($field)).to_owned(),
                offset_of!($type, $field),
            );)*
        };
    }
    of!(MapleTree, "maple_tree", ma_lock);
    // The flags, and the root behind them, aligned as a pointer is.
    let words = offset_of!(MapleTree, words);
    all.insert("offsetof struct maple_tree.ma_flags".into(), words);
    all.insert(
        "offsetof struct maple_tree.ma_root".into(),
        words + size_of::<*mut ()>(),
    );
    of!(
        MaState, "ma_state", tree, index, last, node, min, max, alloc, status, depth, offset,
        mas_flags, end, store_type
    );
    of!(RcuHead, "maple_rcu_head",);
    of!(
        MapleHooks,
        "maple_hooks",
        ctx,
        alloc,
        free,
        read_lock,
        read_unlock,
        call_rcu
    );
    of!(
        MapleBulkHooks,
        "maple_bulk_hooks",
        ctx,
        alloc_bulk,
        free_bulk
    );
    of!(MaplePoolStats, "maple_pool_stats", mapped, used, kept);
    let statuses = [
        ("ma_active", Status::ACTIVE),
        ("ma_start", Status::START),
        ("ma_root", Status::ROOT),
        ("ma_none", Status::NONE),
        ("ma_pause", Status::PAUSE),
        ("ma_overflow", Status::OVERFLOW),
        ("ma_underflow", Status::UNDERFLOW),
        ("ma_error", Status::ERROR),
    ];
    for (name, status) in statuses {
        all.insert(format!("value {name}"), status.0 as usize);
    }
    all
}

#[test]
fn the_header_and_the_library_agree_on_the_layout() {
    let link = library("libsamara", "a");
    let program = build("cc", &C, "tests/c/maple_abi.c", &link, "maple_abi");
    let text = run(&program, &link);
    let expected = layout();
    let mut seen = 0;
    for line in text.lines() {
        let (what, number) = line.rsplit_once(' ').unwrap();
        match expected.get(what) {
            Some(&value) => {
                assert_eq!(number.parse::<usize>().unwrap(), value, "{what}");
                seen += 1;
            }
            // The macros' states and trees are those of the functions.
            None => assert_eq!(number, "1", "{what}"),
        }
    }
    assert_eq!(seen, expected.len(), "{text}");
}

#[test]
fn the_shared_library_has_the_same_names() {
    let link = library("libsamara", "so");
    let program = build(
        "cc",
        &C,
        "tests/c/maple_states.c",
        &link,
        "maple_states_shared",
    );
    // The file in the build directory carries a hash that the program asks for.
    assert!(run(&program, &link).ends_with("ok\n"));
}

#[test]
fn the_headers_are_cplusplus_too() {
    let link = library("libsamara", "a");
    let source = "tests/c/maple_cplusplus.cc";
    for standard in ["c++11", "c++17", "gnu++20"] {
        let flag = format!("-std={standard}");
        let flags = [&flag, "-Wall", "-Wextra", "-Werror", "-pedantic"];
        let program = build("c++", &flags, source, &link, &format!("maple_{standard}"));
        assert_eq!(run(&program, &link), "ok\n");
    }
}

#[test]
fn the_headers_are_strict_c_of_any_age() {
    let link = library("libsamara", "a");
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
        let name = format!("maple_{standard}");
        let program = build("cc", &flags, "tests/c/maple_strict.c", &link, &name);
        assert_eq!(run(&program, &link), "ok\n");
    }
}
