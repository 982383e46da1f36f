//! UEFI's maps: as its shell and Linux's log print them, and as descriptors.

use samara_memblock::firmware::{Problem, uefi};

use crate::{take, text};

#[test]
fn uefi_of_ovmf() {
    let map = text("uefi-ovmf-q35.txt");
    let taken = take(uefi::lines(&map));
    // All but the uncached window of the bus.
    assert_eq!(taken.total, cached(&map));
    assert_eq!(taken.problems, []);
    assert_eq!(taken.reserved, [(0x1f76_d000, 0x1f77_f000)], "ACPI tables");
    assert_eq!(taken.nomap, (65_664 - 65_536 + 256 + 481 + 513) * 4096);
}

/// The sizes of all entries that can be cached.
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
