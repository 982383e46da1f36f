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
