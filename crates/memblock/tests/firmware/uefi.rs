//! UEFI's maps: as its shell and Linux's log print them, and as descriptors.

use samara_memblock::NodeId;
use samara_memblock::firmware::{Entry, Problem, Use, uefi};

use crate::{take, text};

#[test]
fn uefi_of_ovmf() {
    let map = text("uefi-ovmf-q35.txt");
    let taken = take(uefi::lines(&map));
    // All entries except the uncached window of the bus.
    assert_eq!(taken.total, cached(&map));
    assert_eq!(taken.problems, []);
    assert_eq!(taken.reserved, [(0x1f76_d000, 0x1f77_f000)], "ACPI tables");
    assert_eq!(taken.nomap, (65_664 - 65_536 + 256 + 481 + 513) * 4096);
}

/// Returns the total size of all entries that can be cached.
fn cached(map: &str) -> u64 {
    let pages = |l: &str| u64::from_str_radix(l.split_whitespace().nth(2).unwrap(), 16).unwrap();
    map.lines()
        .filter(|l| l.ends_with("000F"))
        .map(|l| pages(l) * 4096)
        .sum()
}

/// The same map as descriptors, as the firmware's call returns it.
#[test]
fn uefi_descriptors() {
    let map = text("uefi-ovmf-q35.txt");
    let kinds = [
        "Reserved",
        "LoaderCode",
        "LoaderData",
        "BS_Code",
        "BS_Data",
        "RT_Code",
        "RT_Data",
        "Available",
        "Unusable",
        "ACPI_Recl",
        "ACPI_NVS",
    ];
    for stride in [40, 48] {
        let mut raw = Vec::new();
        for line in map.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let Some(kind) = kinds.iter().position(|k| words.first() == Some(k)) else {
                continue;
            };
            let Some((first, _)) = words[1].split_once('-') else {
                continue;
            };
            let mut d = vec![0; stride];
            let hex = |s| u64::from_str_radix(s, 16).unwrap();
            d[..4].copy_from_slice(&(kind as u32).to_le_bytes());
            d[8..16].copy_from_slice(&hex(first).to_le_bytes());
            d[24..32].copy_from_slice(&hex(words[2]).to_le_bytes());
            d[32..40].copy_from_slice(&hex(words[3]).to_le_bytes());
            raw.extend(d);
        }
        assert_eq!(uefi::Descriptors::guess_stride(&raw), Some(stride));
        assert!(uefi::Descriptors::new(&raw, stride).eq(uefi::lines(&map)));
        raw.pop();
        assert_eq!(
            take(uefi::Descriptors::new(&raw, stride)).problems,
            [Problem::Malformed]
        );
        assert_eq!(
            take(uefi::Descriptors::new(&raw, 0)).problems,
            [Problem::Malformed]
        );
    }
}

#[test]
fn uefi_boot_log() {
    let log = "\
[    0.000000] efi: mem00: [Boot Code          |   |  |  |  |  |  |  |  |   |WB|WT|WC|UC] range=[0x0000000000000000-0x0000000000000fff] (0MB)
[    0.000000] efi: mem01: [Conventional Memory|   |  |  |  |  |  |  |  |   |WB|WT|WC|UC] range=[0x0000000000001000-0x000000000009ffff] (0MB)
[    0.000000] efi: mem02: [Runtime Data       |RUN|  |  |  |  |  |  |  |   |WB|WT|WC|UC] range=[0x0000000000100000-0x0000000000100fff] (0MB)
[    0.000000] efi: mem03: [Memory Mapped I/O  |RUN|  |  |  |  |  |  |  |   |  |  |  |UC] range=[0x0000000000200000-0x0000000000200fff] (0MB)
[    0.000000] efi: mem04: [Conventional Memory] range";
    let taken = take(uefi::lines(log));
    assert_eq!(
        taken.memory,
        [(0, 0xa_0000, -1), (0x10_0000, 0x10_1000, -1)]
    );
    assert_eq!(taken.nomap, 0x1000);
    assert_eq!(taken.problems, [Problem::Unreadable { line: 5 }]);
}

/// The map of a ThinkPad W541: a descriptor without pages at 0, in each form that kernels print.
#[test]
fn a_descriptor_without_pages() {
    let empty = |base, usage| {
        Problem::Empty(Entry {
            base,
            size: 0,
            usage,
            nid: NodeId::NONE,
        })
    };
    let all = "|   |  |  |  |  |  |  |  |   |WB|WT|WC|UC]";
    let sound = format!(
        "efi: mem01: [Conventional Memory{all} range=[0x0000000000100000-0x00000000001fffff] (1MB)"
    );
    for (odd, problem) in [
        (
            format!("efi: mem00: [Reserved           {all} range=[0x0000000000000000-0xffffffffffffffff] (0MB)"),
            empty(0, Use::Ram),
        ),
        (
            "efi: mem00: [Reserved           |   |  |  |  |  |  |  |  |   |  |  |  |  ] range=[0x0000000000000000-0xffffffffffffffff] (0MB)".to_owned(),
            empty(0, Use::Hole),
        ),
        (
            format!("efi: mem00: [Boot Data          {all} range=[0x0000000000150000-0x000000000014ffff] (0MB)"),
            empty(0x15_0000, Use::Ram),
        ),
        (
            "EFI: mem00: type=0, attr=0x0, range=[0x0000000000000000-0x0000000000000000) (0MB)".to_owned(),
            empty(0, Use::Hole),
        ),
        (
            "efi: mem00: type=6, attr=0x800000000000000f, range=[0x0000000000150000-0x0000000000150000) (0MB)".to_owned(),
            empty(0x15_0000, Use::Ram),
        ),
        (
            format!("efi:   0x000000150000-0x00000014ffff [Boot Data          {all}*"),
            empty(0x15_0000, Use::Ram),
        ),
    ] {
        let log = format!("[    0.000000] {odd}\n[    0.000000] {sound}\n");
        let taken = take(uefi::lines(&log));
        assert_eq!(taken.memory, [(0x10_0000, 0x20_0000, -1)], "{odd}");
        assert_eq!((taken.reserved, taken.nomap), (vec![], 0), "{odd}");
        assert_eq!(taken.problems, [problem], "{odd}");
    }
}

/// The same three descriptors, as each kernel since 2.6 prints them.
#[test]
fn uefi_boot_logs_of_all_ages() {
    let logs = [
        "[    0.000000] EFI: mem00: type=3, attr=0xf, range=[0x0000000000000000-0x0000000000001000) (0MB)
[    0.000000] EFI: mem01: type=7, attr=0xf, range=[0x0000000000001000-0x00000000000a0000) (0MB)
[    0.000000] EFI: mem02: type=6, attr=0x800000000000000f, range=[0x0000000000100000-0x0000000000101000) (0MB)
",
        "Feb 26 14:26:36 lab kernel: [    0.000000] efi: mem00: type=3, attr=0xf, range=[0x0000000000000000-0x0000000000001000) (0MB)
Feb 26 14:26:36 lab kernel: [    0.000000] efi: mem01: type=7, attr=0xf, range=[0x0000000000001000-0x00000000000a0000) (0MB)
Feb 26 14:26:36 lab kernel: [    0.000000] efi: mem02: type=6, attr=0x800000000000000f, range=[0x0000000000100000-0x0000000000101000) (0MB)
",
        "[    0.000000] efi: mem00: [Boot Code          |   |  |  |  |   |WB|WT|WC|UC] range=[0x0000000000000000-0x0000000000001000) (0MB)
[    0.000000] efi: mem01: [Conventional Memory|   |  |  |  |   |WB|WT|WC|UC] range=[0x0000000000001000-0x00000000000a0000) (0MB)
[    0.000000] efi: mem02: [Runtime Data       |RUN|  |  |  |   |WB|WT|WC|UC] range=[0x0000000000100000-0x0000000000101000) (0MB)
",
        "[    0.000000] efi: mem00: [Boot Code   |   |  |  |  |  |  |  |  |  |   |WB|WT|WC|UC] range=[0x0000000000000000-0x0000000000000fff] (0MB)
[    0.000000] efi: mem01: [Conventional|   |  |  |  |  |  |  |  |  |   |WB|WT|WC|UC] range=[0x0000000000001000-0x000000000009ffff] (0MB)
[    0.000000] efi: mem02: [Runtime Data|RUN|  |  |  |  |  |  |  |  |   |WB|WT|WC|UC] range=[0x0000000000100000-0x0000000000100fff] (0MB)
[    0.000000] efi: memattr: Entry attributes invalid: RO and XP bits both cleared
[    0.000000] efi: Remove mem03: MMIO range=[0xe0000000-0xefffffff] (256MB) from e820 map
",
        "[    0.000000] efi: Getting EFI parameters from FDT:
[    0.000000] efi:   MemMap Address: 0x000000002c1c5040
[    0.000000] efi: Processing EFI memory map:
[    0.000000] efi:   0x000000000000-0x000000000fff [Boot Code   |   |  |  |  |  |  |  |  |  |   |WB|WT|WC|UC]
[    0.000000] efi:   0x000000001000-0x00000009ffff [Conventional|   |  |  |  |  |  |  |  |  |   |WB|WT|WC|UC]
[    0.000000] efi:   0x000000100000-0x000000100fff [Runtime Data|RUN|  |  |  |  |  |  |  |  |   |WB|WT|WC|UC]*
",
    ];
    for log in logs {
        let taken = take(uefi::lines(log));
        assert_eq!(taken.problems, [], "{log}");
        assert_eq!(
            taken.memory,
            [(0, 0xa_0000, -1), (0x10_0000, 0x10_1000, -1)],
            "{log}"
        );
        assert_eq!(taken.nomap, 0x1000, "{log}");
    }
}

/// A kernel that finds an entry invalid prints it with an end that it computed itself.
#[test]
fn invalid_entries_of_the_kernel_are_ignored() {
    let log = "\
[    0.000000] efi: [Firmware Bug]: Invalid EFI memory map entries:
[    0.000000] efi: mem03: [type=269370880|attr=0x0e42100e42180e41] range=[0x0486200e41038c18-0x200e898a0eee713ac17] (invalid)
[    0.000000] efi: mem47: [Reserved           |   |  |  |  |  |  |  |  |   |  |  |  |  ] range=[0x0000000000000000-0x0000000000000000] (invalid)
[    0.000000] efi: mem00: [Conventional Memory|   |  |  |  |  |  |  |  |   |WB|WT|WC|UC] range=[0x0000000000000000-0x000000000009ffff] (0MB)";
    let taken = take(uefi::lines(log));
    assert_eq!(taken.memory, [(0, 0xa_0000, -1)]);
    assert_eq!(
        taken.problems,
        [Problem::Invalid { line: 2 }, Problem::Invalid { line: 3 }]
    );
}

/// Binary descriptors that end beyond the address space, one without pages, and one that no machine
/// can have.
#[test]
fn odd_descriptors() {
    let descriptor = |kind: u32, base: u64, pages: u64| {
        let mut d = vec![0u8; 40];
        d[..4].copy_from_slice(&kind.to_le_bytes());
        d[8..16].copy_from_slice(&base.to_le_bytes());
        d[24..32].copy_from_slice(&pages.to_le_bytes());
        d[32..40].copy_from_slice(&0xfu64.to_le_bytes());
        d
    };
    let sound = descriptor(7, 0x10_0000, 0x100);
    for kind in 0..16 {
        for (base, pages) in [
            (0, 0),
            (0, u64::MAX),
            (0, 1 << 52),
            (0, (1 << 52) - 1),
            (0x1000, (1 << 52) - 1),
            (1 << 63, 1 << 51),
            (0, 1 << 51),
            (u64::MAX - 0xfff, 2),
        ] {
            let map = [descriptor(kind, base, pages), sound.clone()].concat();
            let taken = take(uefi::Descriptors::new(&map, 40));
            assert_eq!(
                taken.memory,
                [(0x10_0000, 0x20_0000, -1)],
                "type {kind}, {pages:#x} pages at {base:#x}"
            );
            assert_eq!((taken.reserved, taken.nomap), (vec![], 0));
            let odd = taken.problems[..].to_vec();
            assert!(
                match pages {
                    0 => matches!(odd[..], [Problem::Empty(_)]),
                    _ => matches!(odd[..], [Problem::Wraps(_) | Problem::Absurd(_)]),
                },
                "type {kind}, {pages:#x} pages at {base:#x}: {odd:?}"
            );
        }
    }
}
