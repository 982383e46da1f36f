//! What entries come to, whatever they were read from.

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
