//! Names that a client gives to what its own traits add to indices: those with which the trees reckon are none of them.

use maple_tree::{Key, MapleTree};

/// A client's trait, for indices and their sizes.
trait Reckons: Sized {
    const ONE: Self;
    fn number(self) -> &'static str;
    fn wrapping_add(self, other: Self) -> &'static str;
    fn checked_add(self, other: Self) -> &'static str;
    fn align_down(self, align: Self) -> &'static str;
    fn span(first: Self, last: Self) -> &'static str;
}

impl Reckons for u64 {
    const ONE: Self = 11;

    fn number(self) -> &'static str {
        "number"
    }

    fn wrapping_add(self, _: Self) -> &'static str {
        "wrapping_add"
    }

    fn checked_add(self, _: Self) -> &'static str {
        "checked_add"
    }

    fn align_down(self, _: Self) -> &'static str {
        "align_down"
    }

    fn span(_: Self, _: Self) -> &'static str {
        "span"
    }
}

fn all<K: Key + Reckons>(map: &mut MapleTree<K, u16>, key: K) -> [&'static str; 5]
where
    K::Size: Reckons,
{
    map.insert(K::ONE, 1).unwrap();
    let size = map.gap_up(.., K::Size::ONE).map_or("none", K::number);
    [
        size,
        key.wrapping_add(key),
        key.checked_add(key),
        key.align_down(key),
        K::span(key, key),
    ]
}

#[test]
fn are_free_where_a_function_is_generic_over_keys() {
    let mut map = MapleTree::new();
    assert_eq!(
        all(&mut map, 5u64),
        [
            "number",
            "wrapping_add",
            "checked_add",
            "align_down",
            "span"
        ]
    );
    assert_eq!(map.get(11), Some(1));
}

/// A client's trait for whatever type: its method is meant where no other has the name.
trait Named: Sized {
    fn span(self) -> &'static str {
        "the client's"
    }

    fn index(self) -> &'static str {
        "the client's"
    }
}

impl<T> Named for T {}

fn by_blanket<K: Key>(key: K, size: K::Size) -> [&'static str; 4] {
    [key.span(), key.index(), size.span(), size.index()]
}

#[test]
fn are_free_for_traits_of_all_types() {
    assert_eq!(by_blanket(1u64, 2), ["the client's"; 4]);
}
