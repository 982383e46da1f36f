//! The effect of entries, whatever source they came from.

use samara_memblock::NodeId;
use samara_memblock::firmware::{Entry, Problem, Use};

use crate::take_items;

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

/// Entries without bytes, beyond the end of the address space, and where no machine has memory, of
/// each kind.
#[test]
fn invalid_entries_change_nothing() {
    let sound = (0x10_0000, 0x10_0000, Use::Ram);
    let odd = [
        (0, 0),
        (0x18_0000, 0),
        (u64::MAX, 0),
        (0, u64::MAX),
        (0x1000, u64::MAX),
        (u64::MAX - 0xfff, 0x1000),
        (u64::MAX - 0xfff, 0x2000),
        (0x18_0000, 1 << 56),
        (1 << 56, 0x1000),
    ];
    for usage in [Use::Ram, Use::Hotplug, Use::Reserved, Use::NoMap, Use::Hole] {
        for (base, size) in odd {
            let odd = (base, size, usage);
            let taken = take_items(&[odd, sound, odd]);
            assert_eq!(taken.memory, [(0x10_0000, 0x20_0000, -1)], "{odd:x?}");
            assert_eq!((taken.reserved, taken.nomap), (vec![], 0), "{odd:x?}");
            let entry = Entry {
                base,
                size,
                usage,
                nid: NodeId::NONE,
            };
            let end = u128::from(base) + u128::from(size);
            let problem = match size {
                0 => Problem::Empty(entry),
                _ if end > 1 << 64 => Problem::Wraps(entry),
                _ => Problem::Absurd(entry),
            };
            assert_eq!(taken.problems, [problem; 2], "{odd:x?}");
        }
    }
    // All addresses below the limit are valid, to the last byte.
    let last = ((1 << 56) - 0x1000, 0x1000, Use::Ram);
    assert_eq!(take_items(&[last]).total, 0x1000);
    // Less than a page is dropped.
    assert_eq!(take_items(&[(0x1001, 0xffe, Use::Ram)]).memory, []);
}
