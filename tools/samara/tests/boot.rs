//! `samara boot` as a user runs it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::process::{Command, Output};

const DATA: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../crates/memblock/tests/data/"
);

fn boot(args: &[&str]) -> Output {
    let args = args.iter().map(|a| a.replace("DATA/", DATA));
    Command::new(env!("CARGO_BIN_EXE_samara"))
        .arg("boot")
        .args(args)
        .output()
        .unwrap()
}

fn json(args: &[&str]) -> serde_json::Value {
    let output = boot(&[args, &["--json"]].concat());
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn real_maps() {
    for (option, file, memory) in [
        ("--e820", "e820-microvm.txt", 25_769_406_464u64),
        ("--e820", "e820-pc-2001.txt", 267_907_072),
        ("--iomem", "iomem-microvm.txt", 25_769_402_368),
        ("--uefi", "uefi-ovmf-q35.txt", 536_477_696),
        ("--dtb", "aarch64-virt.dtb", 1 << 31),
        ("--dtb", "aarch64-virt-numa.dtb", 4 << 30),
        ("--dtb", "riscv64-virt.dtb", 1 << 31),
        ("--dtb", "riscv64-virt-numa.dtb", 2 << 30),
    ] {
        let path = format!("DATA/{file}");
        let layout = json(&[option, &path]);
        assert_eq!(layout["memory_bytes"], memory, "{file}");
        assert_eq!(layout["problems"].as_array().unwrap().len(), 0, "{file}");
        let text = boot(&[option, &path]);
        assert!(text.status.success(), "{file}");
        assert!(
            String::from_utf8(text.stdout).unwrap().contains("· free"),
            "{file}"
        );
    }
}

/// The format is guessed; a flag that says it changes nothing.
#[test]
fn formats_are_guessed() {
    for (option, file) in [
        ("--e820", "e820-microvm.txt"),
        ("--e820", "e820-pc-2001.txt"),
        ("--iomem", "iomem-microvm.txt"),
        ("--uefi", "uefi-ovmf-q35.txt"),
        ("--dtb", "aarch64-virt-numa.dtb"),
        ("--dtb", "riscv64-virt.dtb"),
    ] {
        let path = format!("DATA/{file}");
        assert_eq!(json(&[&path]), json(&[option, &path]), "{file}");
    }
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let descriptor = |kind: u32, base: u64, pages: u64| {
        let fields = [u64::from(kind), base, 0, pages, 0xf];
        fields.map(u64::to_le_bytes).concat()
    };
    let raw = of("raw", &descriptor(7, 0x10_0000, 0x100));
    assert_eq!(json(&[&raw]), json(&["--uefi", &raw]));
    assert_eq!(json(&[&raw])["memory_bytes"], 0x10_0000);
    let memmap = folder.path().join("memmap/0");
    std::fs::create_dir_all(&memmap).unwrap();
    for (name, value) in [
        ("start", "0x100000"),
        ("end", "0x1fffff"),
        ("type", "System RAM"),
    ] {
        std::fs::write(memmap.join(name), value).unwrap();
    }
    let memmap = folder.path().join("memmap");
    assert_eq!(json(&[memmap.to_str().unwrap()])["memory_bytes"], 0x10_0000);
    // The kernel of a log with both used e820.
    let both = of(
        "both",
        b"BIOS-e820: [mem 0x0000000000100000-0x00000000001fffff] usable\n\
          efi: mem00: type=7, attr=0xf, range=[0x0000000000300000-0x0000000000400000) (1MB)\n",
    );
    assert_eq!(json(&[&both])["memory"][0]["base"], "0x100000");
    assert_eq!(json(&["--uefi", &both])["memory"][0]["base"], "0x300000");
    for unknown in [
        of("empty", b""),
        of("prose", b"Of memory: there is some.\n"),
        of("bytes", &[0, 1, 2, 3]),
    ] {
        let output = boot(&[&unknown]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{unknown}");
        assert!(
            text.lines().count() == 1 && text.contains("name it with --e820"),
            "{text}"
        );
    }
}

/// A ThinkPad W541's log, in which a descriptor of no pages at 0 looks like one of all memory; and one that overflows.
#[test]
fn odd_entries_take_no_memory_away() {
    let folder = tempfile::tempdir().unwrap();
    let columns = "|   |  |  |  |  |  |  |  |   |WB|WT|WC|UC]";
    let w541 = folder.path().join("w541");
    let log = format!(
        "efi: mem00: [Reserved           |   |  |  |  |  |  |  |  |   |  |  |  |  ] range=[0x0000000000000000-0xffffffffffffffff] (0MB)\n\
         efi: mem01: [Conventional Memory{columns} range=[0x0000000000100000-0x00000000001fffff] (1MB)\n"
    );
    std::fs::write(&w541, log).unwrap();
    let e820 = folder.path().join("e820");
    let log = "BIOS-e820: [mem 0x0000000000000000-0xffffffffffffffff] reserved\n\
               BIOS-e820: [mem 0x0000000000100000-0x00000000001fffff] usable\n";
    std::fs::write(&e820, log).unwrap();
    let overflows = folder.path().join("overflows");
    let fields = [11, 0, 0, u64::MAX, 1, 7, 0x10_0000, 0, 0x100, 0xf];
    std::fs::write(&overflows, fields.map(u64::to_le_bytes).concat()).unwrap();
    for (option, path) in [("--uefi", w541), ("--e820", e820), ("--uefi", overflows)] {
        let layout = json(&[option, path.to_str().unwrap()]);
        assert_eq!(layout["memory_bytes"], 0x10_0000, "{path:?}");
        let problems = layout["problems"].as_array().unwrap();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].as_str().unwrap().contains("ignored"));
    }
}

/// Reservations of a device tree that have a size and no address.
#[test]
fn reservations_without_an_address_are_placed() {
    let tree = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fuzz/corpus/memblock_dtb/dynamic.dtb"
    );
    let layout = json(&[tree, "--alloc", "4K,4K"]);
    assert_eq!(layout["problems"].as_array().unwrap().len(), 0);
    let placed = &layout["placed"];
    assert_eq!(placed[0]["name"], "cma");
    assert_eq!(placed[0]["base"], "0x6c000000");
    assert_eq!(placed[0]["reusable"], true);
    assert_eq!(placed[1]["name"], "secure");
    assert_eq!(placed[1]["base"], "0xfff00000");
    assert_eq!(placed[1]["no_map"], true);
    assert_eq!(layout["allocations"][0]["base"], "0xffeff000");
    let text = String::from_utf8(boot(&[tree]).stdout).unwrap();
    assert!(
        text.contains("placed cma, 64 MiB aligned to 4 MiB, reusable: at 0x6c000000"),
        "{text}"
    );
    // All that the tree allows for the first one is taken.
    let full = boot(&[tree, "--reserve", "60000000-6fffffff"]);
    assert_eq!(full.status.code(), Some(1));
    let text = String::from_utf8(full.stdout).unwrap();
    assert!(text.contains("reusable: no memory"), "{text}");
}

#[test]
fn reserving_and_allocating() {
    let layout = json(&[
        "--dtb",
        "DATA/aarch64-virt-numa.dtb",
        "--reserve",
        "13f000000-13fffffff",
        "--reserve",
        "0x40000000+1M",
        "--alloc",
        "2M,2M",
        "--alloc",
        "64,64",
    ]);
    assert_eq!(layout["allocations"][0]["base"], "0x13ee00000");
    assert_eq!(layout["allocations"][1]["base"], "0x13edfffc0");
    assert_eq!(layout["memory"][1]["node"], 1);
    let sum = |key: &str| layout[key].as_u64().unwrap();
    assert_eq!(
        sum("free_bytes") + sum("reserved_bytes"),
        sum("memory_bytes")
    );

    let tree = ["--dtb", "DATA/aarch64-virt.dtb"];
    let up = json(
        &[
            &tree[..],
            &["--bottom-up", "--limit", "50000000", "--alloc", "4K,4K"],
        ]
        .concat(),
    );
    assert_eq!(up["allocations"][0]["base"], "0x40000000");
    let none = boot(&[&tree[..], &["--alloc", "3G,4K"]].concat());
    assert_eq!(none.status.code(), Some(1));
    assert!(
        String::from_utf8(none.stdout)
            .unwrap()
            .contains("no memory")
    );
}

#[test]
fn misuse_is_told_in_one_line() {
    for args in [
        &["--e820", "/nowhere"][..],
        &["--dtb", "DATA/uefi-ovmf-q35.txt"],
        &["--e820", "DATA/uefi-ovmf-q35.txt"],
        &["--uefi", "DATA/aarch64-virt.dtb"],
        &["--iomem", "/dev/null"],
        &["--e820", "/"],
    ] {
        let output = boot(args);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            text.starts_with("samara: ") && text.lines().count() == 1,
            "{args:?}: {text}"
        );
    }
    // What has no end is read up to where no memory map is.
    for option in ["--e820", "--iomem", "--uefi", "--dtb"] {
        let output = boot(&[option, "/dev/zero"]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{option}: {text}");
        assert!(text.contains("longer than any memory map"), "{text}");
    }
    for args in [
        &["--alloc", "1"][..],
        &["--alloc", "1,3"],
        &["--reserve", "2-1"],
        &["--e820", "a", "--dtb", "b"],
        &["a", "--dtb", "b"],
    ] {
        assert_eq!(boot(args).status.code(), Some(2), "{args:?}");
    }
}

/// Without a map it takes the machine's own, or says what to do.
#[test]
fn this_machine() {
    let output = boot(&[]);
    match output.status.code() {
        Some(0) => assert!(!output.stdout.is_empty()),
        code => {
            assert_eq!(code, Some(2));
            assert!(String::from_utf8(output.stderr).unwrap().contains("root"));
        }
    }
}
