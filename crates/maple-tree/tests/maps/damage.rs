//! Each rule that the check knows, broken once: nodes are overwritten, as by a stray write.

use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::{self, NonNull};

use maple_tree::{Fanout, MapleTree, raw};

use crate::support::blocks::Blocks;

type Map<'a> = MapleTree<u32, u16, &'a Blocks, Fanout<4>>;
type Word = *mut ();

const WORD: usize = size_of::<Word>();
/// Slots of a node, and its bytes: the first word, a pivot fewer than slots, the slots, and the sizes of holes at the end.
const SLOTS: usize = 4;
const BYTES: usize = 256;
/// Flags of the first word. Next to them are the last used slot and the parent.
const DEAD: usize = 0x20;
/// The bit that makes a leaf's word that of an inner node.
const INNER: usize = 0b100;

#[derive(Clone, Copy)]
struct Node(NonNull<u8>);

impl Node {
    fn at<T>(self, byte: usize) -> *mut T {
        self.0.as_ptr().wrapping_add(byte).cast()
    }

    fn first_word(self) -> *mut Word {
        self.at(0)
    }

    fn pivot(self, i: usize) -> *mut u32 {
        self.at(WORD + 4 * i)
    }

    fn slot(self, i: usize) -> *mut Word {
        self.at((WORD + 4 * (SLOTS - 1)).next_multiple_of(WORD) + WORD * i)
    }

    fn gap(self, i: usize) -> *mut u32 {
        self.at(BYTES - 4 * SLOTS + 4 * i)
    }
}

/// A tree of two levels: entries of width 2 with a hole after each, in leaves of two entries and two holes. With its root, and the leaves.
fn filled(blocks: &Blocks, gaps: bool) -> (Map<'_>, Node, [Node; 2]) {
    let mut map = if gaps {
        Map::with_gaps_in(blocks)
    } else {
        Map::new_in(blocks)
    };
    map.try_extend((0..4).map(|i| (u32::from(4 * i)..u32::from(4 * i) + 2, i)))
        .unwrap();
    map.check().unwrap();
    assert_eq!((map.height(), map.stats().nodes()), (2, 3));
    let nodes = blocks.live();
    // SAFETY: they are nodes, and their first words initialised.
    let above = |node: &NonNull<u8>| unsafe { Node(*node).first_word().read() }.addr() & !0xff;
    let root = *nodes.iter().find(|node| above(node) == 0).unwrap();
    let leaf = |i| {
        // SAFETY: as above.
        let word = unsafe { Node(root).slot(i).read() };
        let leaf = nodes
            .iter()
            .find(|node| node.addr().get() == word.addr() & !0xff);
        Node(*leaf.unwrap())
    };
    (map, Node(root), [leaf(0), leaf(1)])
}

/// Breaks a rule, sees it found, and writes back what was there.
fn broken(gaps: bool, what: &str, harm: impl FnOnce(Node, [Node; 2])) {
    type Memory = [MaybeUninit<Word>; BYTES / WORD];
    let blocks = Blocks::default();
    let (map, root, leaves) = filled(&blocks, gaps);
    // A test that fails does not walk through what it has broken.
    let map = ManuallyDrop::new(map);
    let nodes = [root, leaves[0], leaves[1]].map(|node| node.at::<Memory>(0));
    // SAFETY: no other code has the map.
    let before = nodes.map(|node| unsafe { node.read() });
    harm(root, leaves);
    let damage = map.check().unwrap_err();
    assert_eq!((damage.what(), *damage.at()), (what, 0));
    for (node, was) in nodes.into_iter().zip(before) {
        // SAFETY: as above.
        unsafe { node.write(was) };
    }
    map.check().unwrap();
    drop(ManuallyDrop::into_inner(map));
    assert!(blocks.live().is_empty());
}

/// Changes the address of a word.
fn change(word: *mut Word, change: impl FnOnce(usize) -> usize) {
    // SAFETY: it is a word of a node that no other code has.
    unsafe { word.write(word.read().map_addr(change)) };
}

fn set<T>(there: *mut T, value: T) {
    // SAFETY: as above, for any part of a node.
    unsafe { there.write(value) };
}

#[test]
fn heights() {
    let what = "leaves are not all on the lowest level";
    broken(false, what, |root, _| {
        change(root.slot(0), |word| word | INNER)
    });
    let tall = raw::WordTree::new(1 << 2);
    // SAFETY: no other code has it.
    assert!(unsafe { !tall.is_sound() });
}

#[test]
fn parents() {
    let to = |node: Node| move |word| node.0.addr().get() | word & 0xff;
    broken(true, "a child has another parent", |_, [low, high]| {
        change(high.first_word(), to(low));
    });
    broken(
        true,
        "the root is dead or has a parent",
        |root, [low, _]| {
            change(root.first_word(), to(low));
        },
    );
    broken(true, "a dead node is reachable", |_, [_, high]| {
        change(high.first_word(), |word| word | DEAD);
    });
}

#[test]
fn ends() {
    broken(false, "the end is beyond the slots", |_, [low, _]| {
        change(low.first_word(), |word| word | SLOTS);
    });
}

#[test]
fn gaps() {
    broken(true, "the size of the largest hole is wrong", |root, _| {
        set(root.gap(0), 1);
    });
}

#[test]
fn holes() {
    broken(false, "two holes are neighbours", |_, [low, _]| {
        set(low.slot(2), ptr::null_mut());
    });
}

#[test]
fn pivots() {
    broken(false, "pivots are not in order", |_, [low, _]| {
        set(low.pivot(1), 0);
    });
    broken(false, "a pivot after the last slot is in use", |root, _| {
        set(root.pivot(2), 100);
    });
}

#[test]
fn slots() {
    let word = ptr::without_provenance_mut(3);
    broken(false, "a slot after the last one is in use", |root, _| {
        set(root.slot(3), word);
    });
    broken(false, "a slot of an inner node holds no node", |root, _| {
        set(root.slot(1), word);
    });
}
