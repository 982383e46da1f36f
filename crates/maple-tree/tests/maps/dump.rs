//! Dumps and statistics of a tree of known shape.

use maple_tree::alloc::Global;
use maple_tree::{Fanout, Format, MapleTree};

type Map = MapleTree<u32, u16, Global, Fanout<4>>;

fn filled(mut map: Map) -> Map {
    map.try_extend([(0..16, 1), (32..48, 2), (48..64, 3)])
        .unwrap();
    map
}

/// A value's word, as dumps show it: the value in the upper bytes, next to a tag.
fn word(value: u16) -> String {
    format!("{:#x}", usize::from(value) << (usize::BITS - 16) | 1)
}

/// The dump without the addresses of nodes, which are another each time.
fn shape(dump: &str) -> Vec<String> {
    let without = |line: &str| match line.split_once(", ") {
        Some((node, slots)) if slots.ends_with(" slots") => {
            format!("{}, {slots}", node.rsplit_once(' ').unwrap().0)
        }
        _ => line.to_string(),
    };
    dump.lines().map(without).collect()
}

#[test]
fn decimal() {
    assert_eq!(
        shape(&filled(Map::with_gaps_in(Global)).to_string()),
        [
            "tree: height 2, tracks gaps",
            "0-4294967295 gap, 2 of 4 slots",
            "  largest hole 16",
            "  0-63 leaf, 4 of 4 slots",
            &format!("    0-15: {}", word(1)),
            "    16-31: hole",
            &format!("    32-47: {}", word(2)),
            &format!("    48-63: {}", word(3)),
            "  largest hole 4294967232",
            "  64-4294967295 leaf, 1 of 4 slots",
            "    64-4294967295: hole",
        ]
    );
}

#[test]
fn hexadecimal() {
    let map = filled(Map::new_in(Global));
    assert_eq!(
        shape(&format!("{map:#}")),
        [
            "tree: height 2",
            "0x0-0xffffffff range, 2 of 4 slots",
            "  0x0-0x3f leaf, 4 of 4 slots",
            &format!("    0x0-0xf: {}", word(1)),
            "    0x10-0x1f: hole",
            &format!("    0x20-0x2f: {}", word(2)),
            &format!("    0x30-0x3f: {}", word(3)),
            "  0x40-0xffffffff leaf, 1 of 4 slots",
            "    0x40-0xffffffff: hole",
        ]
    );
    assert_eq!(
        format!("{map:#}"),
        map.dump(Format::Hexadecimal).to_string()
    );
}

#[test]
fn graphviz() {
    let text = filled(Map::with_gaps_in(Global))
        .dump(Format::Graphviz)
        .to_string();
    assert!(text.starts_with("digraph maple_tree {\n") && text.trim_end().ends_with('}'));
    let nodes: Vec<_> = text
        .lines()
        .filter_map(|line| line.trim().split_once(" [label="))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(nodes.len(), 3);
    let edges: Vec<_> = text
        .lines()
        .filter_map(|line| line.trim().split_once(" -> "))
        .collect();
    assert_eq!(edges.len(), 2);
    for (slot, (from, to)) in edges.iter().enumerate() {
        assert_eq!(*from, format!("{}:s{slot}", nodes[0]));
        assert_eq!(to.trim_end_matches(';'), nodes[slot + 1]);
    }
    for range in ["0x0-0xf", "0x20-0x2f", "0x30-0x3f", "0x40-0xffffffff"] {
        assert!(text.contains(range), "{range} in {text}");
    }
}

#[test]
fn without_nodes() {
    assert_eq!(Map::new_in(Global).to_string(), "tree: height 0\nempty\n");
    let mut one = Map::new_in(Global);
    one.insert(0, 1).unwrap();
    assert_eq!(one.to_string(), format!("tree: height 0\n0: {}\n", word(1)));
}

#[test]
fn figures() {
    let stats = filled(Map::with_gaps_in(Global)).stats();
    assert_eq!(
        (
            stats.height,
            stats.leaves,
            stats.gap_nodes,
            stats.range_nodes
        ),
        (2, 2, 1, 0)
    );
    assert_eq!((stats.entries, stats.holes), (3, 2));
    assert_eq!((stats.leaf_slots_used, stats.leaf_slots), (5, 8));
    assert_eq!((stats.inner_slots_used, stats.inner_slots), (2, 4));
    assert_eq!((stats.nodes(), stats.bytes()), (3, 768));
    assert!((stats.leaf_fill() - 0.625).abs() < 1e-9);
    assert!((stats.bytes_per_entry() - 256.0).abs() < 1e-9);
}
