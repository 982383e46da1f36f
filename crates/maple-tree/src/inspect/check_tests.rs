//! Each rule that the check knows, broken once.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr;

use crate::alloc::Global;
use crate::base::Fanout;
use crate::face::map::MapleTree;
use crate::node::{NODE_BYTES, NULL, Node, NodeMut, Root, Unread, Word};

type Map = MapleTree<u32, u16, Global, Fanout<4>>;
type At = Node<u32, Fanout<4>>;

/// A tree of two levels: entries of width 2 with a hole after each, in leaves of two entries and two holes.
fn filled(gaps: bool) -> ManuallyDrop<Map> {
    let mut map = if gaps {
        Map::with_gaps_in(Global)
    } else {
        Map::new_in(Global)
    };
    map.try_extend((0..4).map(|i| (u32::from(4 * i)..u32::from(4 * i) + 2, i)))
        .unwrap();
    map.check().unwrap();
    assert_eq!(map.height(), 2);
    // A test that fails does not walk through what it has broken.
    ManuallyDrop::new(map)
}

fn root(map: &Map) -> At {
    match map.raw().root() {
        Root::Node(root) => root,
        Root::Empty | Root::Single(_) => panic!("there are nodes"),
    }
}

fn write(node: At) -> NodeMut<u32, Fanout<4>> {
    // SAFETY: nobody else has the map.
    node.write(unsafe { Unread::new() })
}

/// What the memory of a node holds.
type Memory = [MaybeUninit<Word>; NODE_BYTES / size_of::<Word>()];

/// Breaks a rule, sees it found, and writes back what was there.
fn broken(gaps: bool, what: &str, harm: impl FnOnce(&Map, At)) {
    let map = filled(gaps);
    let root = root(&map);
    let nodes = [root, root.child(0), root.child(1)].map(|node| node.block().cast::<Memory>());
    // SAFETY: nobody else has the map.
    let before = nodes.map(|node| unsafe { node.read() });
    harm(&map, root);
    let damage = map.check().unwrap_err();
    assert_eq!((damage.what(), *damage.at()), (what, 0));
    for (node, was) in nodes.into_iter().zip(before) {
        // SAFETY: as above.
        unsafe { node.write(was) };
    }
    map.raw().publish_root(root.word(), 2);
    map.check().unwrap();
    drop(ManuallyDrop::into_inner(map));
}

#[test]
fn heights() {
    broken(
        false,
        "leaves are not all on the lowest level",
        |map, root| {
            map.raw().publish_root(root.word(), 3);
        },
    );
    let map = Map::new_in(Global);
    map.raw().publish_root(NULL, 1);
    let damage = map.check().unwrap_err();
    assert_eq!(damage.what(), "a tree without nodes has a height");
    map.raw().publish_root(NULL, 0);
}

#[test]
fn parents() {
    broken(true, "a child has another parent", |_, root| {
        root.child(1).set_parent(Some(root.child(0)));
    });
    broken(true, "the root is dead or has a parent", |_, root| {
        root.set_parent(Some(root.child(0)));
    });
}

#[test]
fn gaps() {
    broken(true, "the size of the largest hole is wrong", |_, root| {
        root.set_gap(0, 1);
    });
}

#[test]
fn holes() {
    broken(false, "two holes are neighbours", |_, root| {
        root.child(0).publish(2, NULL);
    });
}

#[test]
fn pivots() {
    broken(false, "pivots are not in order", |_, root| {
        write(root.child(0)).set_pivot(1, 0);
    });
    broken(false, "a pivot after the last slot is in use", |_, root| {
        write(root).set_pivot(2, 100);
    });
}

#[test]
fn slots() {
    let word = ptr::without_provenance_mut(3);
    broken(false, "a slot after the last one is in use", |_, root| {
        root.publish(3, word);
    });
    broken(false, "a slot of an inner node holds no node", |_, root| {
        root.publish(1, word);
    });
}
