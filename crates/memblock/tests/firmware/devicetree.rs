//! Device trees: of real boards, built for the tests, and damaged.

use std::path::PathBuf;

use samara_memblock::firmware::devicetree::DeviceTree;
use samara_memblock::firmware::{Problem, Use, load};
use samara_memblock::{Error, Memblock, Storage};

use crate::tree::Tree;
use crate::{data, take};

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

#[test]
fn chosen_properties() {
    let with = |inside: &dyn Fn(&mut Tree)| {
        let mut tree = Tree::default();
        tree.node("", |root| {
            root.node("chosen", |chosen| inside(chosen));
        });
        tree.finish()
    };
    let both = |start: &[u32], end: &[u32]| {
        let blob = with(&|chosen| {
            chosen.cells("linux,initrd-start", start);
            chosen.cells("linux,initrd-end", end);
        });
        DeviceTree::new(&blob).unwrap().initrd()
    };
    assert_eq!(both(&[0x1000], &[0x3000]), Some(0x1000..0x3000));
    assert_eq!(
        both(&[1, 0x1000], &[1, 0x1001]),
        Some(0x1_0000_1000..0x1_0000_1001)
    );
    // None, backwards, not a number, where no memory can be.
    assert_eq!(both(&[0x1000], &[0x1000]), None);
    assert_eq!(both(&[0x3000], &[0x1000]), None);
    assert_eq!(both(&[], &[0x1000]), None);
    assert_eq!(both(&[0, 0, 0x1000], &[0, 0, 0x3000]), None);
    assert_eq!(both(&[0x1000], &[0x8000_0000, 0]), None);

    let blob = with(&|chosen| {
        chosen.property("bootargs", b"console=plain -- sh\0");
    });
    let tree = DeviceTree::new(&blob).unwrap();
    assert_eq!(tree.command_line(), Some(&b"console=plain -- sh"[..]));
    assert_eq!(tree.initrd(), None);
    assert_eq!(DeviceTree::size(&blob[..8]), Ok(blob.len()));
    assert_eq!(DeviceTree::size(&blob[..7]), Err(Problem::Malformed));
    assert_eq!(DeviceTree::size(&[0; 8]), Err(Problem::Malformed));

    // QEMU's own tree, started with an empty `-append`.
    let blob = data("riscv64-virt.dtb");
    let tree = DeviceTree::new(&blob).unwrap();
    assert_eq!((tree.command_line(), tree.initrd()), (None, None));
}

#[test]
fn reserved_memory_and_node_properties() {
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

/// Builds a tree with 3 GiB at 1 GiB, a firmware at its end, and reservations.
fn with_reservations(reservations: impl FnOnce(&mut Tree)) -> Vec<u8> {
    let mut tree = Tree::default();
    tree.node("", |t| {
        t.cells("#address-cells", &[2]).cells("#size-cells", &[2]);
        t.node("memory@40000000", |t| {
            t.property("device_type", b"memory\0")
                .cells("reg", &[0, 0x4000_0000, 0, 0xc000_0000]);
        });
        t.node("reserved-memory", |t| {
            t.cells("#address-cells", &[2])
                .cells("#size-cells", &[2])
                .property("ranges", &[]);
            t.node("firmware@fff00000", |t| {
                t.cells("reg", &[0, 0xfff0_0000, 0, 0x10_0000])
                    .property("no-map", &[]);
            });
            reservations(t);
        });
    });
    tree.finish()
}

/// A reservation without an address is reported with all its properties, and is placed in its
/// `alloc-ranges`.
#[test]
fn dynamic_reservations_are_placed() {
    let blob = with_reservations(|t| {
        t.node("linux,cma", |t| {
            t.property("compatible", b"shared-dma-pool\0")
                .property("reusable", &[])
                .property("linux,cma-default", &[])
                .cells("size", &[0, 0x400_0000])
                .cells("alignment", &[0, 0x40_0000])
                .cells(
                    "alloc-ranges",
                    &[
                        0,
                        0x5000_0000,
                        0,
                        0x100_0000,
                        0,
                        0x6000_0000,
                        0,
                        0x1000_0000,
                    ],
                );
        });
        t.node("secure", |t| {
            t.cells("size", &[0, 0xf_f001]).property("no-map", &[]);
        });
        t.node("nowhere", |t| {
            t.cells("size", &[0, 0x1000])
                .cells("alloc-ranges", &[1, 0, 0, 0x1000_0000, 0, 0, 0, 1]);
        });
        // If there are `reg` and `size`, `reg` wins.
        t.node("both@70000000", |t| {
            t.cells("size", &[0, 0x1000])
                .cells("reg", &[0, 0x7000_0000, 0, 0x2000]);
        });
        t.node("off", |t| {
            t.cells("size", &[0, 0x1000])
                .property("status", b"disabled\0");
        });
    });
    let tree = DeviceTree::new(&blob).unwrap();
    let mut storage: Storage = Storage::new();
    let mut boot = Memblock::new(&mut storage);
    let mut problems = Vec::new();
    load(tree, &mut boot, |p| problems.push(p)).unwrap();
    let left_out = [0x400_0000, 0xf_f001, 0x1000];
    assert_eq!(problems, left_out.map(|size| Problem::Dynamic { size }));

    let mut found = Vec::new();
    tree.dynamic_reservations(&mut |wanted| {
        let wanted = wanted.unwrap();
        found.push((wanted, wanted.place(&mut boot)));
    });
    let [(cma, cma_at), (secure, secure_at), (nowhere, nowhere_at)] = found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(
        (cma.name, cma.size, cma.alignment),
        ("linux,cma", 0x400_0000, 0x40_0000)
    );
    assert!(cma.reusable && !cma.no_map);
    assert_eq!(cma.property("compatible"), Some(&b"shared-dma-pool\0"[..]));
    assert_eq!(cma.property("linux,cma-default"), Some(&b""[..]));
    assert_eq!(cma.property("linux,dma-default"), None);
    assert!(
        cma.alloc_ranges()
            .eq([(0x5000_0000, 0x100_0000), (0x6000_0000, 0x1000_0000)])
    );
    // The first range is too small. In the second, allocations come down from its end.
    assert_eq!(cma_at, Ok(0x6c00_0000));
    assert!(boot.is_region_reserved(0x6c00_0000, 0x400_0000));
    // Below the firmware, which must not be mapped either.
    assert_eq!((secure.alignment, secure_at), (0x1000, Ok(0xffe0_0000)));
    assert!(secure.no_map && secure.alloc_ranges().count() == 0);
    assert!(boot.is_memory(0xffe0_0000) && !boot.is_map_memory(0xffe0_0000));
    assert!(
        boot.memory()
            .iter()
            .all(|r| r.base % 0x1000 == 0 && r.size % 0x1000 == 0)
    );
    assert!(!boot.is_reserved(0xffe0_0000));
    assert_eq!((nowhere.size, nowhere_at), (0x1000, Err(Error::NoMemory)));
    assert!(boot.is_region_reserved(0x7000_0000, 0x2000));
    // Later allocations go elsewhere, and the limit also holds for reservations.
    assert_eq!(boot.phys_alloc(0x1000, 0x1000), Ok(0xffdf_f000));
    boot.set_current_limit(0x6800_0000);
    assert_eq!(cma.place(&mut boot), Ok(0x6400_0000));
    boot.set_current_limit(0x6000_0000);
    assert_eq!(cma.place(&mut boot), Err(Error::NoMemory));
}

#[test]
fn malformed_dynamic_reservations() {
    let problem = |node: &dyn Fn(&mut Tree)| {
        let blob = with_reservations(|t| {
            t.node("odd", |t| node(t));
        });
        let tree = DeviceTree::new(&blob).unwrap();
        let mut told = Vec::new();
        tree.dynamic_reservations(&mut |wanted| told.push(wanted.unwrap_err()));
        assert_eq!(take(tree).problems, told);
        let [problem] = told[..] else {
            panic!("{told:?}");
        };
        problem
    };
    let empty = problem(&|t| {
        t.cells("size", &[0, 0]);
    });
    assert!(matches!(empty, Problem::Empty(e) if e.usage == Use::Reserved));
    let alignment = problem(&|t| {
        t.cells("size", &[0, 0x1000])
            .cells("alignment", &[0, 0x3000]);
    });
    let (size, multiple) = (0x1000, 0x3000);
    assert_eq!(
        alignment,
        Problem::Alignment {
            size,
            alignment: multiple
        }
    );
    for (name, cells) in [
        ("size", &[0x1000][..]),
        ("size", &[0, 0, 0x1000]),
        ("alignment", &[0x1000]),
        ("alloc-ranges", &[0, 0x5000_0000, 0]),
    ] {
        let odd = problem(&|t| {
            t.cells(name, cells);
            if name != "size" {
                t.cells("size", &[0, 0x1000]);
            }
        });
        assert_eq!(odd, Problem::Malformed, "{name}");
    }
}

/// Ranges without bytes and ranges that overflow, in each place that a tree can have them.
#[test]
fn odd_ranges() {
    let mut tree = Tree::default();
    for number in [0x4100_0000u64, 0, 0x4200_0000, u64::MAX] {
        tree.reservations.extend(number.to_be_bytes());
    }
    tree.node("", |t| {
        t.cells("#address-cells", &[2]).cells("#size-cells", &[2]);
        t.node("memory", |t| {
            let most = u32::MAX;
            t.property("device_type", b"memory\0").cells(
                "reg",
                &[
                    0,
                    0x4000_0000,
                    0,
                    0x1000_0000,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0x1000,
                    most,
                    most,
                ],
            );
        });
        t.node("reserved-memory", |t| {
            t.cells("#address-cells", &[2]).cells("#size-cells", &[2]);
            t.node("odd@0", |t| {
                t.cells("reg", &[0, 0, 0, 0, 0, 0x1000, u32::MAX, u32::MAX])
                    .property("no-map", &[]);
            });
        });
    });
    let blob = tree.finish();
    let taken = take(DeviceTree::new(&blob).unwrap());
    assert_eq!(taken.memory, [(0x4000_0000, 0x5000_0000, -1)]);
    assert_eq!((taken.reserved, taken.nomap), (vec![], 0));
    assert!(
        matches!(
            taken.problems[..],
            [
                Problem::Empty(_),
                Problem::Wraps(_),
                Problem::Empty(_),
                Problem::Wraps(_),
                Problem::Empty(_),
                Problem::Wraps(_)
            ]
        ),
        "{:?}",
        taken.problems
    );
}

/// Cells that cannot hold a number, or none at all; half pairs.
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

/// Every tree, truncated anywhere or with one changed byte of its header, is refused or read
/// without harm.
#[test]
fn damaged_trees() {
    let blob = data("aarch64-virt-numa.dtb");
    for cut in (0..blob.len()).step_by(if cfg!(miri) { 997 } else { 7 }) {
        assert_eq!(
            DeviceTree::new(&blob[..cut]).err(),
            Some(Problem::Malformed)
        );
        // The header agrees with the truncated size.
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

/// Debian's own trees for arm64 boards, if the package is installed.
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
                    // Loaders fill in memory without a size, and kernels place reservations without
                    // an address.
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
