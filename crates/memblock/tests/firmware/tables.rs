//! Maps in text form: e820 lists and `/proc/iomem`.

use samara_memblock::firmware::{Problem, Use, e820, iomem, uefi};

use crate::{items, take, text};

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
    // The kernel itself removed the first page.
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
fn text_without_a_map() {
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

/// Kernels print an entry without bytes with the byte before its first one as the last, which may
/// be the last of the address space.
#[test]
fn entries_without_bytes() {
    let sound = "BIOS-e820: [mem 0x0000000000100000-0x00000000001fffff] usable";
    for (odd, base) in [
        (
            "BIOS-e820: [mem 0x0000000000000000-0xffffffffffffffff] reserved",
            0,
        ),
        (
            "BIOS-e820: [mem 0x0000000000150000-0x000000000014ffff] ACPI NVS",
            0x15_0000,
        ),
        (
            " BIOS-e820: 0000000000150000 - 0000000000150000 (reserved)",
            0x15_0000,
        ),
        (" BIOS-e820: 00000000 @ 00150000 (reserved)", 0x15_0000),
    ] {
        let log = format!("{odd}\n{sound}\n");
        let taken = take(e820::lines(&log));
        assert_eq!(taken.memory, [(0x10_0000, 0x20_0000, -1)], "{odd}");
        assert!(
            matches!(taken.problems[..], [Problem::Empty(e)] if e.base == base),
            "{odd}: {:?}",
            taken.problems
        );
    }
    let iomem_text = "00000000-ffffffffffffffff : odd\n00100000-001fffff : System RAM\n";
    let taken = take(iomem::lines(iomem_text));
    assert_eq!(taken.total, 0x10_0000);
    assert!(matches!(taken.problems[..], [Problem::Empty(_)]));
    let entry = e820::sysfs_entry("0x0\n", "0xffffffffffffffff\n", "Reserved\n");
    assert!(matches!(entry, Err(Problem::Empty(_))));
}

/// Entries that end beyond the address space, or where no machine has memory.
#[test]
fn entries_too_large() {
    let sound = "BIOS-e820: [mem 0x0000000000100000-0x00000000001fffff] usable";
    let log = format!(
        "BIOS-e820: [mem 0x0000000000001000-0xffffffffffffffff] reserved\n{sound}\n \
         BIOS-e820: 0000000000000000 - 7fffffffffffffff (reserved)\n \
         BIOS-e820: ffffffffffffffff @ 00100000 (reserved)\n"
    );
    let taken = take(e820::lines(&log));
    assert_eq!(taken.memory, [(0x10_0000, 0x20_0000, -1)]);
    assert!(
        matches!(
            taken.problems[..],
            [Problem::Absurd(_), Problem::Absurd(_), Problem::Wraps(_)]
        ),
        "{:?}",
        taken.problems
    );
    let text = "00100000-001fffff : System RAM\n00100000-fffffffffffffffe : odd\n";
    let taken = take(iomem::lines(text));
    assert_eq!(taken.total, 0x10_0000);
    assert!(matches!(taken.problems[..], [Problem::Absurd(_)]));
}
