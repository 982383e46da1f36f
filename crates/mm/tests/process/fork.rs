//! Parents and children.

use samara_mm::Call;
use samara_mm::abi::{MADV_DONTFORK, MADV_WIPEONFORK, PROT_READ, PROT_WRITE};
use samara_mm::process::{ForkMode, PageStatus, Process};

use crate::world::{BASE, Hosted, PAGE, anonymous, byte, free_frames, machine, process};

const RW: u64 = PROT_READ | PROT_WRITE;
const MODES: [ForkMode; 2] = [ForkMode::Copy, ForkMode::Share];

#[test]
fn each_side_writes_for_itself() {
    for mode in MODES {
        let machine = machine(256);
        let before = free_frames(&machine);
        let parent = process(&machine);
        // Over a boundary of tables.
        let start = BASE - 2 * PAGE;
        parent.perform(&anonymous(start, 4, RW)).unwrap();
        parent.copy_in(start, &[1; 4 * 4096]);
        let child = parent.fork(mode).unwrap();
        machine.check().unwrap();
        for i in 0..4 {
            let status = child.page(start + i * PAGE);
            assert_eq!(
                status & !PageStatus::SOFT_DIRTY,
                PageStatus::PRESENT,
                "{mode:?}"
            );
        }
        assert_eq!(child.copy_in(start, b"c"), 1);
        assert_eq!(parent.copy_in(start + 3 * PAGE, b"p"), 1);
        let grandchild = child.fork(mode).unwrap();
        assert_eq!(grandchild.copy_in(start + PAGE, b"g"), 1);
        let bytes = |process: &Process<Hosted>| {
            [0, 1, 2, 3].map(|i| byte(process, start + i * PAGE).unwrap())
        };
        assert_eq!(bytes(&parent), [1, 1, 1, b'p']);
        assert_eq!(bytes(&child), [b'c', 1, 1, 1]);
        assert_eq!(bytes(&grandchild), [b'c', b'g', 1, 1]);
        machine.check().unwrap();
        drop(child);
        machine.check().unwrap();
        assert_eq!(bytes(&grandchild), [b'c', b'g', 1, 1]);
        drop(parent);
        // Alone now: written where it is.
        assert_eq!(grandchild.copy_in(start + 2 * PAGE, b"h"), 1);
        assert!(
            grandchild
                .page(start + 2 * PAGE)
                .contains(PageStatus::EXCLUSIVE)
        );
        machine.check().unwrap();
        drop(grandchild);
        machine.physical().reclaim();
        assert_eq!(free_frames(&machine), before, "{mode:?}");
    }
}

#[test]
fn some_areas_are_not_inherited() {
    for mode in MODES {
        let machine = machine(64);
        let parent = process(&machine);
        for (i, advice) in [(0, 0), (1, MADV_DONTFORK), (2, MADV_WIPEONFORK)] {
            let addr = BASE + i * 2 * PAGE;
            parent.perform(&anonymous(addr, 1, RW)).unwrap();
            parent.copy_in(addr, b"x");
            let len = PAGE;
            parent
                .perform(&Call::Madvise { addr, len, advice })
                .unwrap();
        }
        let child = parent.fork(mode).unwrap();
        let bytes = [0, 1, 2].map(|i| byte(&child, BASE + i * 2 * PAGE));
        assert_eq!(bytes, [Some(b'x'), None, Some(0)]);
        machine.check().unwrap();
    }
}

/// A child has the parent's zero pages only if their area was written.
#[test]
fn zero_pages_are_inherited_with_an_owner() {
    for mode in MODES {
        let machine = machine(64);
        let parent = process(&machine);
        parent.perform(&anonymous(BASE, 2, RW)).unwrap();
        parent.perform(&anonymous(BASE + 4 * PAGE, 2, RW)).unwrap();
        for addr in [BASE, BASE + 4 * PAGE] {
            assert_eq!(byte(&parent, addr), Some(0));
        }
        parent.copy_in(BASE + PAGE, b"x");
        let child = parent.fork(mode).unwrap();
        assert_eq!(child.page(BASE), PageStatus::PRESENT | PageStatus::ZERO);
        assert_eq!(child.page(BASE + 4 * PAGE), PageStatus::empty());
        machine.check().unwrap();
    }
}
