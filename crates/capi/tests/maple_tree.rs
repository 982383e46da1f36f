//! Compiles the C tests and examples of the maple tree, links them with the libraries as users do, and runs them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what went wrong by panicking"
)]

use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

use samara::maple_tree::{
    MaState, MapleBulkHooks, MapleHooks, MaplePoolStats, MapleTree, RcuHead, Status,
};

mod programs;

use programs::{C, build, example, library, passes, run};

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
    barrier, dump, refused
);

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

/// Returns the library's values for the lines that `maple_abi.c` prints.
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
    // The flags, followed by the root, which is aligned like a pointer.
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
            // The states and trees of the macros equal those of the functions.
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
    // The file in the build directory has a hash in its name that the program needs.
    assert!(run(&program, &link).ends_with("ok\n"));
}

/// Threads that have read may end after the shared library was closed.
#[test]
fn the_shared_library_may_be_unloaded_before_its_threads_end() {
    let program = build(
        "cc",
        &C,
        "tests/c/maple_unloaded.c",
        Path::new("-lm"),
        "maple_unloaded",
    );
    let ran = Command::new(program)
        .arg(library("libsamara", "so"))
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "ok\n", "{ran:?}");
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
