//! Kinds of values: those that borrow, in every call that takes a closure; those that are stored in place, changed there.

use std::cell::Cell;
use std::fmt::Debug;
use std::num::{NonZeroU16, NonZeroUsize};
use std::pin::Pin;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

use maple_tree::{CowMapleTree, Duplicate, Entry, Fanout, MapleTree, Mut, Ref, Shape, Value};

use crate::support::Index;

/// Text that lives no longer than a test.
fn text() -> Vec<String> {
    (0..40).map(|i| format!("text {i}")).collect()
}

#[test]
fn values_that_borrow() {
    let text = text();
    let boxed = |i: usize| Box::new(text[i].as_str());
    let mut map: MapleTree<u64, Box<&str>> = MapleTree::with_gaps();
    for i in 0..20 {
        map.insert_range(10 * i..10 * i + 10, boxed(i as usize))
            .unwrap();
    }
    map.retain(|range, value| *range.start() != 30 && !value.ends_with(" 4"))
        .unwrap();
    map.store_range_with(50..70, boxed(30), |_, value| {
        assert!(value.contains("text"))
    })
    .unwrap();
    map.store_range_splitting(52..55, boxed(31), |_, value| Some(Box::new(*value)))
        .unwrap();
    map.erase_range_splitting(52..53, |_, value| Some(Box::new(*value)))
        .unwrap();
    map.erase_range_with(100..110, |_, value| assert_eq!(*value, "text 10"))
        .unwrap();
    assert_eq!(
        map.store_range_coalescing(53..56, boxed(30), |a, b| a == b)
            .unwrap(),
        53..=69
    );
    map.insert_range_coalescing(100..105, boxed(9), |a, b| a == b)
        .unwrap();
    map.entry(300)
        .and_modify(|value| *value = "none")
        .or_insert(boxed(1))
        .unwrap();
    map.grow(300, 300..400, |_, _: Box<&str>| ()).unwrap();
    let copy = map
        .try_clone_with(|_, value| Ok(Some(Box::new(*value))))
        .unwrap();
    assert!(map == copy && map.clone() == copy);
    assert_eq!(format!("{map:?}"), format!("{copy:?}"));
    let high = map
        .split_off_splitting(55, |_, value| Some(Box::new(*value)))
        .unwrap();
    let mut low = map;
    let mut high = high;
    low.append_splitting(&mut high, |_, value| Some(Box::new(*value)))
        .unwrap();
    low.check().unwrap();
    assert_eq!(low.len(), copy.len() + 1);
    assert_eq!(low.iter().map(|(_, value)| value.len()).max(), Some(7));

    let mut cow: CowMapleTree<u64, Box<&str>> = CowMapleTree::new();
    cow.try_extend([(0..10, boxed(0)), (10..20, boxed(1))])
        .unwrap();
    let before = cow.snapshot();
    cow.store_range_splitting(3..5, boxed(2), |_, value| Some(Box::new(*value)))
        .unwrap();
    assert_eq!(
        format!("{before:?}"),
        r#"{0..=9: "text 0", 10..=19: "text 1"}"#
    );
    assert_eq!(cow.get(7), Some(&"text 0"));
}

/// References need no box, whatever they live as long as.
#[test]
fn references_of_any_lifetime() {
    let text = text();
    let mut map: MapleTree<u32, &String> = MapleTree::from([(0..10, &text[0])]);
    map.store_range_splitting(3..4, &text[1], |_, value| Some(value))
        .unwrap();
    let first: &String = map.get(0).unwrap();
    drop(map);
    assert_eq!(first, "text 0");
}

/// Entries of `values`, alternately with and without a hole before them.
fn filled<K: Index, V: Value + Copy, S: Shape>(
    values: &[V],
) -> MapleTree<K, V, maple_tree::alloc::Pool, S> {
    let mut map = MapleTree::with_gaps_in(maple_tree::alloc::Pool::new());
    let mut key = K::MIN;
    for (i, &value) in values.iter().enumerate() {
        map.insert_range(key..=key, value).unwrap();
        key = key.wrapping_add(K::ONE);
        if i % 2 == 0 {
            key = key.wrapping_add(K::ONE);
        }
    }
    map
}

/// Stored values come back in every way, and a change through every exclusive view is there
/// afterwards.
fn in_place_shape<V, S: Shape>(values: &[V], other: V)
where
    V: Duplicate + Copy + PartialEq + Debug,
    for<'a> V: maple_tree::View<'a, Ref = V, Mut = &'a mut V>,
{
    let mut map = filled::<u64, V, S>(values);
    let all = |map: &MapleTree<u64, V, _, S>| map.values().collect::<Vec<_>>();
    assert_eq!(all(&map), values);
    let n = values.len();
    // Each by itself.
    for i in 0..n {
        let range = map.ranges().nth(i).unwrap();
        let key = *range.start();
        let mut expected = values.to_vec();
        expected[i] = other;
        for way in 0..8 {
            let mut map = map.clone();
            match way {
                0 => *map.get_mut(key).unwrap() = other,
                1 => *map.get_range_mut(key).unwrap().1 = other,
                2 => *map.find_mut(key..).unwrap().1 = other,
                3 => *map.find_rev_mut(..=key).unwrap().1 = other,
                4 => drop(map.entry(key).and_modify(|value| *value = other)),
                5 => *map.entry(key).or_insert(values[i]).unwrap() = other,
                6 => {
                    let Entry::Occupied(mut entry) = map.entry(key) else {
                        panic!("occupied")
                    };
                    let old = entry.insert(values[0]).unwrap();
                    assert_eq!((old, entry.get()), (values[i], values[0]));
                    *entry.get_mut() = other;
                    assert_eq!(entry.get(), other);
                }
                _ => {
                    map.retain(|range, value| {
                        if range.contains(&key) {
                            *value = other;
                        }
                        true
                    })
                    .unwrap();
                }
            }
            map.check().unwrap();
            assert_eq!(all(&map), expected, "{way}");
        }
    }
    // All at once, with all views there at the same time, taken from both ends in every mixture of a few steps.
    for order in 0..64u32 {
        let mut map = map.clone();
        let mut views: Vec<&mut V> = Vec::new();
        let mut iter = map.values_mut();
        for step in 0.. {
            let next = match order >> (step % 6) & 1 {
                0 => iter.next(),
                _ => iter.next_back(),
            };
            let Some(view) = next else { break };
            views.push(view);
        }
        assert_eq!(views.len(), n);
        views.iter_mut().for_each(|view| **view = other);
        drop(views);
        assert_eq!(all(&map), vec![other; n]);
        map.check().unwrap();
    }
    // What a vacant entry gives is the value that is in the map.
    *map.entry(1 << 40).or_insert(other).unwrap() = other;
    assert_eq!(map.pop_last().unwrap().unwrap().1, other);
    assert_eq!(map.into_values().collect::<Vec<_>>(), values);
}

#[test]
fn stored_and_changed_in_place() {
    let values: [u8; 40] = core::array::from_fn(|i| i as u8 * 6);
    in_place_shape::<u8, Fanout<4>>(&values, u8::MAX);
    // Alone in a root word, and nothing at all.
    in_place_shape::<u8, Fanout<4>>(&values[..1], 7);
    in_place_shape::<u8, Fanout<4>>(&[], 7);
}

/// Every kind by itself, without a map: there and back, viewed, and changed in its slot.
#[test]
fn words_in_place() {
    fn word<V>(values: &[V])
    where
        V: Value + Copy + PartialEq + Debug,
        for<'a> V: maple_tree::View<'a, Ref = V, Mut = &'a mut V>,
    {
        for &value in values {
            for &other in values {
                let mut word = value.into_raw();
                let tag = word.addr().get() & 3;
                // SAFETY: the word came from `into_raw`, and no other code uses the slot.
                unsafe {
                    assert_eq!((V::borrow(word), V::from_raw(word)), (value, value));
                    *V::borrow_mut(NonNull::from(&mut word)) = other;
                    assert_eq!(V::from_raw(word), other);
                }
                // No node is ever taken for it.
                assert_eq!((word.addr().get() & 3, word), (tag, other.into_raw()));
                assert_eq!(tag, 1);
            }
        }
    }
    word::<u8>(&[0, 1, u8::MAX]);
    word::<i8>(&[i8::MIN, -1, 0, 1, i8::MAX]);
    word::<u16>(&[0, 1, u16::MAX]);
    word::<i16>(&[i16::MIN, -1, i16::MAX]);
    word::<bool>(&[false, true]);
    word::<NonZeroU16>(&[NonZeroU16::MIN, NonZeroU16::MAX]);
    word::<()>(&[()]);
    #[cfg(target_pointer_width = "64")]
    {
        word::<u32>(&[0, 1, u32::MAX]);
        word::<i32>(&[i32::MIN, -1, 0, i32::MAX]);
        word::<f32>(&[f32::MIN, 0.0, f32::INFINITY]);
        word::<char>(&['a', '\u{10ffff}', '\0']);
    }
}

/// Whole words: a stand-alone entry cannot be every one of them in place, so that they are exchanged.
#[test]
fn whole_words() {
    let words: Vec<_> = [1, 2, 3, 4096, 4098, usize::MAX]
        .into_iter()
        .filter_map(NonZeroUsize::new)
        .collect();
    for &word in &words {
        let mut map: MapleTree<u64, NonZeroUsize> = MapleTree::from([(0..=0, word)]);
        assert_eq!(
            (map.get(0), map.get_mut(0).copied()),
            (Some(word), Some(word))
        );
        for &other in &words {
            let Entry::Occupied(mut entry) = map.entry(0) else {
                panic!("occupied")
            };
            entry.insert(other).unwrap();
            assert_eq!((entry.get(), *entry.get_mut()), (other, other));
            map.check().unwrap();
        }
    }
    let mut bytes = [1u8, 2, 3];
    let pointers: Vec<NonNull<u8>> = bytes.iter_mut().map(NonNull::from).collect();
    let map = filled::<u32, _, Fanout<4>>(&pointers);
    assert_eq!(map.values().collect::<Vec<_>>(), pointers);
}

#[test]
fn pointers() {
    let mut shared: MapleTree<u32, Rc<Cell<u32>>> = MapleTree::new();
    let one = Rc::new(Cell::new(1));
    shared.insert_range(0..10, one.clone()).unwrap();
    shared
        .store_range_splitting(3..4, Rc::new(Cell::new(2)), |_, value| {
            Some(Rc::clone(&value))
        })
        .unwrap();
    shared.get(9).unwrap().set(7);
    assert_eq!((one.get(), Rc::strong_count(&one)), (7, 3));
    drop(shared);
    assert_eq!(Rc::strong_count(&one), 1);

    let mut pinned: MapleTree<u32, Pin<Box<String>>> = MapleTree::new();
    pinned.insert_range(0..10, Box::pin("a".into())).unwrap();
    pinned.get_mut(3).unwrap().push('b');
    assert_eq!(pinned.clone().get(0).map(|s| s.len()), Some(2));

    let leaked: &'static mut u32 = Box::leak(Box::new(1));
    let mut unique: MapleTree<u32, &'static mut u32> = MapleTree::new();
    unique.insert(0, leaked).unwrap();
    *unique.get_mut(0).unwrap() += 1;
    assert_eq!(unique.get(0), Some(&2));
    let (_, leaked) = unique.remove(0).unwrap().unwrap();
    // SAFETY: it came from a box, and this is the only reference.
    drop(unsafe { Box::from_raw(leaked) });

    let mut arcs: MapleTree<u32, Arc<str_of::Str>> = MapleTree::new();
    arcs.insert(1, Arc::new(str_of::Str("thin"))).unwrap();
    assert_eq!(arcs.get(1).map(|s| s.0), Some("thin"));
}

mod str_of {
    pub(super) struct Str(pub(super) &'static str);
}

/// Views can be named, and calls be generic over them.
#[test]
fn generic_clients() {
    fn longest<K: Index, V: Value>(map: &MapleTree<K, V>) -> Option<Ref<'_, V>> {
        map.iter()
            .max_by_key(|(range, _)| K::distance(*range.start(), *range.end()))
            .map(|(_, value)| value)
    }
    fn each<K: Index, V: Value>(map: &mut MapleTree<K, V>, change: impl FnMut(Mut<'_, V>)) {
        map.values_mut().for_each(change);
    }
    let mut map: MapleTree<u32, Box<u8>> =
        MapleTree::from([(0..3, Box::new(1)), (5..9, Box::new(2))]);
    each(&mut map, |value| *value += 1);
    assert_eq!(longest(&map), Some(&3));
}

/// In a snapshot's leaf, once it is owned.
#[test]
#[cfg(target_pointer_width = "64")]
fn in_place_in_a_map_that_is_shared() {
    let mut map: CowMapleTree<u64, u32> = CowMapleTree::new();
    map.try_extend((0..100).map(|i| (10 * i..10 * i + 5, i as u32)))
        .unwrap();
    let before = map.snapshot();
    *map.get_mut(503).unwrap().unwrap() += 1000;
    assert_eq!((before.get(503), map.get(503)), (Some(50), Some(1050)));
    map.check().unwrap();
}
