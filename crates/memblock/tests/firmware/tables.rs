//! Maps as text: e820 lists and `/proc/iomem`.

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
