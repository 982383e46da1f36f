//! Writes that change two leaves and their parent. A reader finds both as they were before, or both
//! as they are after.

use super::{Entries, Tree, Write, at, fill, fill_sparse, go_through, look_up, model};

/// Looks up a key in each leaf, the second leaf first. If the first look-up sees the change, so
/// does the second.
fn look_up_both<const LEFT: u32, const RIGHT: u32>(tree: &Tree, before: &Entries, after: &Entries) {
    let reader = tree.read();
    let right = reader.get_range(RIGHT);
    let left = reader.get_range(LEFT);
    assert!(
        right == at(before, RIGHT) || right == at(after, RIGHT),
        "{right:?}"
    );
    assert!(
        left == at(before, LEFT) || left == at(after, LEFT),
        "{left:?}"
    );
    if right == at(after, RIGHT) && right != at(before, RIGHT) {
        assert_eq!(left, at(after, LEFT));
    }
}

/// The previous leaf ends in a gap, which the remaining leaf takes over. Entries 0 and 1 are in the
/// first leaf, 2 and 3 in the second, each before a gap.
#[test]
fn a_hole_that_begins_in_the_leaf_before() {
    let erase = |w: &mut Write<'_>| w.erase_range(8..=9).unwrap();
    for gaps in [false, true] {
        model(gaps, fill_sparse::<6>, erase, look_up::<12>);
        model(gaps, fill_sparse::<6>, erase, look_up_both::<5, 9>);
    }
    model(false, fill_sparse::<6>, erase, go_through);
}

/// The next leaf begins with a gap. Entries 0 to 3 are in the first leaf; 4, which was erased, and
/// 5 in the second.
#[test]
fn a_hole_that_goes_on_in_the_leaf_after() {
    fn setup(w: &mut Write<'_>) {
        fill::<10>(w);
        w.erase_range(8..=9).unwrap();
    }
    let erase = |w: &mut Write<'_>| w.erase_range(6..=7).unwrap();
    for gaps in [false, true] {
        model(gaps, setup, erase, look_up::<5>);
        model(gaps, setup, erase, look_up_both::<7, 10>);
    }
    model(false, setup, erase, go_through);
}

/// One leaf is full, and the next one has only a gap: they share the entries.
#[test]
fn a_full_leaf_and_one_with_room() {
    let store = |w: &mut Write<'_>| w.store_range(1..=2, 9).unwrap();
    for gaps in [false, true] {
        model(gaps, fill::<4>, store, look_up::<3>);
        model(gaps, fill::<4>, store, look_up_both::<1, 7>);
    }
    model(false, fill::<4>, store, go_through);
}

/// A full leaf is split.
#[test]
fn a_full_leaf_is_split() {
    let store = |w: &mut Write<'_>| w.store_range(1..=2, 9).unwrap();
    for gaps in [false, true] {
        model(gaps, fill::<9>, store, look_up::<3>);
        model(gaps, fill::<9>, store, look_up_both::<2, 6>);
    }
    model(false, fill::<9>, store, go_through);
}

/// One slot of a leaf remains. The next leaf is full, and moves some entries over.
#[test]
fn an_empty_leaf_and_a_full_one() {
    let store = |w: &mut Write<'_>| w.store_range(0..=7, 9).unwrap();
    for gaps in [false, true] {
        model(gaps, fill::<10>, store, look_up::<8>);
        model(gaps, fill::<10>, store, look_up_both::<7, 14>);
    }
    model(false, fill::<10>, store, go_through);
}

/// One slot of a leaf remains. The next leaf has space for it, and the two are merged.
#[test]
fn two_leaves_become_one() {
    fn setup(w: &mut Write<'_>) {
        fill::<10>(w);
        w.erase_range(8..=11).unwrap();
    }
    let store = |w: &mut Write<'_>| w.store_range(0..=7, 9).unwrap();
    for gaps in [false, true] {
        model(gaps, setup, store, look_up::<12>);
        model(gaps, setup, store, look_up_both::<0, 15>);
    }
    model(false, setup, store, go_through);
}
