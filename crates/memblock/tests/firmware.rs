//! Memory maps: real ones, and such as no firmware should write.

#![cfg(all(feature = "fdt", feature = "uefi"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::{Path, PathBuf};

use samara_memblock::firmware::devicetree::DeviceTree;
use samara_memblock::firmware::{Entry, Item, Problem, Source, Use, e820, iomem, load, uefi};
use samara_memblock::{Flags, Kind, Memblock, NodeId, Storage};

fn data(name: &str) -> Vec<u8> {
    std::fs::read(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/data")
            .join(name),
    )
    .unwrap()
}

fn text(name: &str) -> String {
    String::from_utf8(data(name)).unwrap()
}

/// Ranges of memory and reservations, sizes of memory that must not be mapped, and what was odd.
#[derive(Debug, Default)]
struct Taken {
    memory: Vec<(u64, u64, i32)>,
    reserved: Vec<(u64, u64)>,
    nomap: u64,
    total: u64,
    problems: Vec<Problem>,
}

fn take(source: impl Source) -> Taken {
    let mut storage: Box<Storage<1024>> = Box::default();
    let mut m = Memblock::new(&mut *storage);
    let mut taken = Taken::default();
    load(source, &mut m, |p| taken.problems.push(p)).unwrap();
    for kind in [Kind::Memory, Kind::Reserved] {
        assert_eq!(m.regions(kind).check(), Ok(()));
    }
    taken.memory = m
        .memory()
        .iter()
        .map(|r| (r.base, r.end(), r.nid.0))
        .collect();
    taken.reserved = m.reserved().iter().map(|r| (r.base, r.end())).collect();
    taken.nomap = m
        .memory()
        .iter()
        .filter(|r| r.flags.contains(Flags::NOMAP))
        .map(|r| r.size)
        .sum();
    taken.total = m.phys_mem_size();
    taken
}

fn items(entries: &[(u64, u64, Use)]) -> Vec<Item> {
    entries
        .iter()
        .map(|&(base, size, usage)| {
            Ok(Entry {
                base,
                size,
                usage,
                nid: NodeId::NONE,
            })
        })
        .collect()
}

fn take_items(entries: &[(u64, u64, Use)]) -> Taken {
    take(items(entries).into_iter())
}

#[test]
fn e820_of_a_virtual_machine() {
    let log = text("e820-microvm.txt");
    let taken = take(e820::lines(&log));
    assert_eq!(
        taken.memory,
        [
            (0, 0x9_f000, -1),
            (0x10_0000, 0xc000_0000, -1),
            (0x1_0000_0000, 0x6_4000_0000, -1)
        ]
    );
    assert_eq!((taken.reserved, taken.problems), (vec![], vec![]));
}

#[test]
fn e820_of_an_old_pc() {
    let log = text("e820-pc-2001.txt");
    let taken = take(e820::lines(&log));
    assert_eq!(
        taken.memory,
        [(0, 0x9_f000, -1), (0x10_0000, 0xffe_0000, -1)]
    );
    assert_eq!(taken.problems, []);
}

#[test]
fn iomem_agrees_with_e820() {
    let iomem_text = text("iomem-microvm.txt");
    let taken = take(iomem::lines(&iomem_text));
    // The kernel itself took the first page out.
    assert_eq!(
        taken.memory,
        [
            (0x1000, 0x9_f000, -1),
            (0x10_0000, 0xc000_0000, -1),
            (0x1_0000_0000, 0x6_4000_0000, -1)
        ]
    );
    assert_eq!(
        taken.reserved.first(),
        Some(&(0x100_0000, 0x220_bb08)),
        "the kernel's code"
    );
    assert_eq!(taken.problems, []);
}

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

#[test]
fn trees_of_qemu() {
    let memory = |name| {
        let blob = data(name);
        let taken = take(DeviceTree::new(&blob).unwrap());
        assert_eq!(taken.problems, [], "{name}");
        taken.memory
    };
    assert_eq!(memory("aarch64-virt.dtb"), [(0x4000_0000, 0xc000_0000, -1)]);
    assert_eq!(
        memory("aarch64-virt-numa.dtb"),
        [
            (0x4000_0000, 0x8000_0000, 0),
            (0x8000_0000, 0x1_4000_0000, 1)
        ]
    );
    assert_eq!(
        memory("riscv64-virt.dtb"),
        [(0x8000_0000, 0x1_0000_0000, -1)]
    );
    assert_eq!(
        memory("riscv64-virt-numa.dtb"),
        [
            (0x8000_0000, 0xc000_0000, 0),
            (0xc000_0000, 0x1_0000_0000, 1)
        ]
    );
}

/// Builds device trees: the format of the Devicetree Specification, version 17.
#[derive(Default)]
struct Tree {
    structs: Vec<u8>,
    strings: Vec<u8>,
    reservations: Vec<u8>,
}

impl Tree {
    fn word(&mut self, word: u32) {
        self.structs.extend(word.to_be_bytes());
    }

    fn pad(&mut self) {
        self.structs
            .resize(self.structs.len().next_multiple_of(4), 0);
    }

    fn node(&mut self, name: &str, inside: impl FnOnce(&mut Self)) -> &mut Self {
        self.word(1);
        self.structs.extend(name.bytes().chain([0]));
        self.pad();
        inside(self);
        self.word(2);
        self
    }

    fn property(&mut self, name: &str, value: &[u8]) -> &mut Self {
        self.word(3);
        self.word(value.len() as u32);
        self.word(self.strings.len() as u32);
        self.strings.extend(name.bytes().chain([0]));
        self.structs.extend(value);
        self.pad();
        self
    }

    fn cells(&mut self, name: &str, cells: &[u32]) -> &mut Self {
        let value: Vec<u8> = cells.iter().flat_map(|c| c.to_be_bytes()).collect();
        self.property(name, &value)
    }

    fn finish(mut self) -> Vec<u8> {
        self.word(9);
        self.reservations.extend([0; 16]);
        let reservations = 40;
        let structs = reservations + self.reservations.len();
        let strings = structs + self.structs.len();
        let total = strings + self.strings.len();
        let header = [
            0xd00d_feed,
            total,
            structs,
            strings,
            reservations,
            17,
            16,
            0,
            self.strings.len(),
            self.structs.len(),
        ];
        let mut blob: Vec<u8> = header
            .iter()
            .flat_map(|&w| (w as u32).to_be_bytes())
            .collect();
        blob.extend(self.reservations);
        blob.extend(self.structs);
        blob.extend(self.strings);
        blob
    }
}

#[test]
fn reserved_memory_and_more() {
    let mut tree = Tree::default();
    tree.reservations.extend(0x9000_0000u64.to_be_bytes());
    tree.reservations.extend(0x1000u64.to_be_bytes());
    tree.node("", |t| {
        t.cells("#address-cells", &[2]).cells("#size-cells", &[1]);
        t.node("memory@80000000", |t| {
            t.property("device_type", b"memory\0")
                .cells("reg", &[0, 0x8000_0000, 0x4000_0000, 1, 0, 0x1000_0000]);
            t.cells("numa-node-id", &[3]);
        });
        t.node("memory@200000000", |t| {
            t.property("device_type", b"memory\0")
                .cells("reg", &[2, 0, 0x1000_0000])
                .property("hotpluggable", &[]);
        });
        t.node("memory@300000000", |t| {
            t.property("device_type", b"memory\0")
                .cells("reg", &[3, 0, 0x1000_0000])
                .property("status", b"disabled\0");
        });
        t.node("memory@400000000", |t| {
            t.property("device_type", b"memory\0")
                .cells("reg", &[4, 0, 0x1000])
                .cells("linux,usable-memory", &[5, 0, 0x1000]);
        });
        t.node("reserved-memory", |t| {
            t.cells("#address-cells", &[1])
                .cells("#size-cells", &[1])
                .property("ranges", &[]);
            t.node("secure@80000000", |t| {
                t.cells("reg", &[0x8000_0000, 0x20_0000])
                    .property("no-map", &[]);
            });
            t.node("framebuffer@a0000000", |t| {
                t.cells("reg", &[0xa000_0000, 0x80_0000]);
            });
            t.node("off@b0000000", |t| {
                t.cells("reg", &[0xb000_0000, 0x80_0000])
                    .property("status", b"disabled\0");
            });
            t.node("linux,cma", |t| {
                t.cells("size", &[0x400_0000]);
            });
        });
    });
    let blob = tree.finish();
    let taken = take(DeviceTree::new(&blob).unwrap());
    assert_eq!(
        taken.memory,
        [
            (0x8000_0000, 0x8020_0000, 3),
            (0x8020_0000, 0xc000_0000, 3),
            (0x1_0000_0000, 0x1_1000_0000, 3),
            (0x2_0000_0000, 0x2_1000_0000, -1),
            (0x5_0000_0000, 0x5_0000_1000, -1),
        ]
    );
    assert_eq!(taken.nomap, 0x20_0000);
    assert_eq!(
        taken.reserved,
        [(0x9000_0000, 0x9000_1000), (0xa000_0000, 0xa080_0000)]
    );
    assert_eq!(taken.problems, [Problem::Dynamic { size: 0x400_0000 }]);
}

/// Cells that no number fits in, or none at all; half pairs.
#[test]
fn absurd_cells() {
    for (address, size, reg) in [
        (0, 0, 8),
        (3, 1, 16),
        (1, 0, 8),
        (2, 2, 12),
        (u32::MAX, 1, 8),
        (1, u32::MAX, 8),
    ] {
        let mut tree = Tree::default();
        tree.node("", |t| {
            t.cells("#address-cells", &[address])
                .cells("#size-cells", &[size]);
            t.node("memory", |t| {
                t.property("reg", &vec![0; reg]);
            });
        });
        let blob = tree.finish();
        assert_eq!(
            take(DeviceTree::new(&blob).unwrap()).problems,
            [Problem::Malformed],
            "{address} {size}"
        );
    }
}

/// Every tree cut anywhere, and with any one byte of its header changed, is refused or read without harm.
#[test]
fn damaged_trees() {
    let blob = data("aarch64-virt-numa.dtb");
    for cut in (0..blob.len()).step_by(if cfg!(miri) { 997 } else { 7 }) {
        assert_eq!(
            DeviceTree::new(&blob[..cut]).err(),
            Some(Problem::Malformed)
        );
        // The header believes in the cut.
        let mut short = blob[..cut].to_vec();
        if cut >= 40 {
            short[4..8].copy_from_slice(&(cut as u32).to_be_bytes());
            if let Ok(tree) = DeviceTree::new(&short) {
                take(tree);
            }
        }
    }
    for at in 0..40 {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut damaged = blob.clone();
            damaged[at] = value;
            if let Ok(tree) = DeviceTree::new(&damaged) {
                take(tree);
            }
        }
    }
}

/// Debian's own trees for arm64 boards, if the package is there.
#[test]
fn debian_trees() {
    let given = std::env::var_os("SAMARA_DEBIAN_DTBS").map(PathBuf::from);
    let installed = || {
        let packages = std::fs::read_dir("/usr/lib").ok()?.filter_map(Result::ok);
        packages.map(|e| e.path()).find(|p| {
            p.file_name()
                .is_some_and(|n| n.to_string_lossy().starts_with("linux-image-"))
        })
    };
    let Some(root) = given.or_else(installed) else {
        eprintln!(
            "skipped: no device trees (unpack linux-image-*-arm64 and set SAMARA_DEBIAN_DTBS)"
        );
        return;
    };
    let (mut read, mut with_memory, mut with_reserved) = (0, 0, 0);
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().path())
        {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "dtb") {
                let blob = std::fs::read(&path).unwrap();
                let taken = take(DeviceTree::new(&blob).unwrap());
                read += 1;
                with_memory += usize::from(taken.total > 0);
                with_reserved += usize::from(!taken.reserved.is_empty() || taken.nomap > 0);
                for problem in taken.problems {
                    // Loaders fill in memory of no size, and kernels place what has no address.
                    let known = matches!(problem, Problem::Empty(e) if e.usage == Use::Ram)
                        || matches!(problem, Problem::Dynamic { .. } | Problem::Repeated(_));
                    assert!(known, "{}: {problem}", path.display());
                }
            }
        }
    }
    eprintln!("{read} trees, {with_memory} with memory, {with_reserved} with reservations");
    assert!(read > 0 && with_memory > 0 && with_reserved > 0);
}

#[test]
fn the_stricter_entry_wins_in_any_order() {
    let mut entries = vec![
        (0x10_0000, 0x10_0000, Use::Ram),
        (0x18_0000, 0x10_0000, Use::Ram),
        (0x14_0000, 0x1_0000, Use::Hole),
        (0x16_0000, 0x1_0000, Use::Reserved),
        (0x19_0000, 0x1_0000, Use::NoMap),
    ];
    for _ in 0..entries.len() {
        entries.rotate_left(1);
        let taken = take_items(&entries);
        assert_eq!(taken.total, 0x17_0000);
        assert_eq!(taken.nomap, 0x1_0000);
        assert_eq!(taken.reserved, [(0x16_0000, 0x17_0000)]);
        assert!(taken.problems.contains(&Problem::Contradicts(Entry {
            base: 0x14_0000,
            size: 0x1_0000,
            usage: Use::Hole,
            nid: NodeId::NONE
        })));
    }
}

#[test]
fn nothing_odd_adds_memory() {
    let odd = [
        (0x1000, 0, Use::Ram),
        (u64::MAX - 0xfff, 0x2000, Use::Ram),
        (0, u64::MAX, Use::Ram),
        (1 << 56, 0x1000, Use::Hotplug),
        (0x1001, 0xffe, Use::Ram),
        (u64::MAX - 0xfff, 0x2000, Use::Reserved),
        (0, 0, Use::Hole),
    ];
    let taken = take_items(&odd);
    assert_eq!(taken.memory, []);
    assert_eq!(taken.reserved, [(u64::MAX - 0xfff, u64::MAX)]);
    assert_eq!(taken.problems.len(), 6);
    // A hole over everything takes everything.
    assert_eq!(
        take_items(&[(0x1000, 0x1000, Use::Ram), (0, u64::MAX, Use::Hole)]).total,
        0
    );
}

#[test]
fn text_that_is_no_map() {
    for bad in [
        "BIOS-e820:",
        "BIOS-e820: [mem 0x0-0xfff usable",
        "BIOS-e820: [mem 0x-0xfff] usable",
        "BIOS-e820: [mem 0x0-0x1ffffffffffffffff] usable",
        "BIOS-e820: [mem -5-0xfff] usable",
        "BIOS-e820: 0 - 1000 usable",
        "[mem é-0xfff] usable",
    ] {
        assert_eq!(
            e820::lines(bad).collect::<Vec<_>>(),
            [Err(Problem::Unreadable { line: 1 })],
            "{bad}"
        );
    }
    assert_eq!(
        e820::lines("BIOS-e820: [mem 0x2000-0x1000] usable").next(),
        Some(Err(Problem::Backwards {
            first: 0x2000,
            last: 0x1000
        }))
    );
    assert_eq!(
        e820::lines("\nLinux version\npci 0000: [mem 0x0-0xfff]").count(),
        0
    );
    assert_eq!(
        iomem::lines("00000000-00000000 : System RAM\n00000000-00000000 : Reserved")
            .collect::<Vec<_>>(),
        [Err(Problem::Hidden)]
    );
    assert_eq!(
        iomem::lines("hello").next(),
        Some(Err(Problem::Unreadable { line: 1 }))
    );
    assert_eq!(
        uefi::lines("Available  hello").next(),
        Some(Err(Problem::Unreadable { line: 1 }))
    );
    assert_eq!(
        e820::sysfs_entry("", "0xfff\n", "System RAM\n"),
        Err(Problem::Unreadable { line: 1 })
    );
    assert_eq!(
        e820::sysfs_entry("0x1000\n", "0x1fff\n", "System RAM\n"),
        items(&[(0x1000, 0x1000, Use::Ram)])[0]
    );
}
