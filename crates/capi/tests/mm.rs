//! Compiles the C tests and examples of `samara/mm.h`, links them with the libraries as users do, and runs them.

#![cfg(feature = "mm")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what went wrong by panicking"
)]

mod programs;

use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};

use programs::{C, build, example, library, passes, run};
use samara::mm::*;

macro_rules! c_tests {
    ($($name:ident),* $(,)?) => {$(
        #[test]
        fn $name() {
            passes(concat!("mm_", stringify!($name)));
        }
    )*};
}

c_tests!(
    backend, beside, calls, exec, faults, files, fork, hostile, look, pairs, phys, refused, region,
    soft, threads
);

/// Random histories, compared with real processes on the running kernel.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn diff() {
    passes("mm_diff");
}

#[test]
fn example_emulator() {
    example("mm_emulator");
}

/// Returns the library's values for the lines that `mm_abi.c` prints.
fn layout() -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    macro_rules! of {
        ($type:ty, $c:literal, $($field:ident),*) => {
            all.insert(concat!("sizeof struct ", $c).to_owned(), size_of::<$type>());
            $(all.insert(
                format!("offsetof struct {}.{}", $c, stringify!($field).trim_start_matches("r#")),
                offset_of!($type, $field),
            );)*
        };
    }
    macro_rules! values {
        ($($name:ident),*) => {
            $(all.insert(concat!("value ", stringify!($name)).to_owned(), $name as usize);)*
        };
    }
    of!(MmPhysOps, "mm_phys_ops", ctx, alloc, free, to_virt);
    of!(
        MmPhysStats,
        "mm_phys_stats",
        free,
        tables,
        anon,
        file,
        shared_tables
    );
    of!(MmFileInfo, "mm_file_info", name, major, minor, inode, flags);
    of!(
        MmFileOps,
        "mm_file_ops",
        read_page,
        write_page,
        punch,
        size,
        release
    );
    of!(
        MmConfig,
        "mm_config",
        task_size,
        mmap_base,
        legacy_base,
        mmap_min_addr,
        start_brk,
        stack_top,
        rlim_as,
        rlim_data,
        rlim_stack,
        rlim_memlock,
        max_map_count,
        overcommit,
        ipc_lock,
        seed
    );
    of!(MmBackend, "mm_backend", ctx, map, unmap, protect, r#move);
    of!(MmContents, "mm_contents", discard, sync);
    of!(MmProgram, "mm_program", file, size, set_id, ctx);
    of!(MmSpecial, "mm_special", name, pages, code);
    of!(
        MmExec,
        "mm_exec",
        path,
        argv,
        envp,
        config,
        personality,
        special,
        specials,
        ctx,
        open,
        read,
        hwcap,
        hwcap2,
        clktck,
        minsigstksz,
        uid,
        euid,
        gid,
        egid,
        secure,
        random,
        descriptor
    );
    of!(
        MmStarted,
        "mm_started",
        start,
        stack_pointer,
        entry,
        interpreter,
        headers,
        vdso,
        stack_end,
        bits,
        personality
    );
    of!(
        MmArea, "mm_area", start, end, offset, prot, shared, inode, vm_flags, name
    );
    values!(
        MM_X86_64,
        MM_X86_64_LA57,
        MM_AARCH64_4K,
        MM_RISCV_SV39,
        MM_RISCV_SV48
    );
    values!(
        MM_FILE_READ,
        MM_FILE_WRITE,
        MM_FILE_NOEXEC,
        MM_FILE_APPEND,
        MM_FILE_SHMEM,
        MM_FILE_UNALIGNED,
        MM_FILE_STACKED,
        MM_FILE_FUSE,
        MM_FILE_PLACED
    );
    values!(MM_SETID_NO, MM_SETID_SAME, MM_SETID_OTHER);
    values!(MM_FORK_COPY, MM_FORK_SHARE, MM_READ, MM_WRITE, MM_EXEC);
    values!(
        MM_PAGE_PRESENT,
        MM_PAGE_FILE,
        MM_PAGE_EXCLUSIVE,
        MM_PAGE_SOFT_DIRTY,
        MM_PAGE_ZERO,
        MM_PAGE_HUGE
    );
    all
}

#[test]
fn the_header_and_the_library_agree_on_the_layout() {
    let link = library("libsamara", "a");
    let program = build("cc", &C, "tests/c/mm_abi.c", &link, "mm_abi");
    let text = run(&program, &link);
    let expected = layout();
    for line in text.lines() {
        let (what, number) = line.rsplit_once(' ').unwrap();
        assert_eq!(expected.get(what).copied(), number.parse().ok(), "{what}");
    }
    assert_eq!(text.lines().count(), expected.len(), "{text}");
}

#[test]
fn the_shared_library_has_the_same_names() {
    let link = library("libsamara", "so");
    let program = build("cc", &C, "tests/c/mm_strict.c", &link, "mm_strict_shared");
    assert_eq!(run(&program, &link), "ok\n");
}

#[test]
fn the_header_is_strict_c_of_any_age() {
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
        let program = build(
            "cc",
            &flags,
            "tests/c/mm_strict.c",
            &link,
            &format!("mm_{standard}"),
        );
        assert_eq!(run(&program, &link), "ok\n");
    }
}

#[test]
fn the_header_is_cplusplus_too() {
    let link = library("libsamara", "a");
    for standard in ["c++11", "c++17", "gnu++20"] {
        let flag = format!("-std={standard}");
        let flags = [&flag, "-Wall", "-Wextra", "-Werror", "-pedantic", "-xc++"];
        // The arguments after the source are not C++.
        let program = build(
            "c++",
            &flags,
            "tests/c/mm_strict.c",
            &link,
            &format!("mm_{standard}"),
        );
        assert_eq!(run(&program, &link), "ok\n");
    }
}
