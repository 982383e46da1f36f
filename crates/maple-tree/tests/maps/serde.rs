//! Maps written and read, and what is no map.

use std::fmt::Debug;
use std::sync::Arc;

use crate::support::counting::{Alive, Count, Countdown};
use crate::support::{Index, Model, Number, Rng, compare};
use maple_tree::{Fanout, MapleTree, Native, Shape, SyncMapleTree, Waiting};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

fn round_trips<K: Index + Serialize + DeserializeOwned, S: Shape>(base: K) {
    let mut rng = Rng(3);
    for n in 0..40 {
        let mut model = Model::new(base, 80);
        for i in 0..n {
            let first = rng.below(80);
            let last = (first + rng.below(5)).min(79);
            model.store(first, last, Some(1000 * i as Number));
        }
        // Parts of one entry on both sides of another are two.
        let map: MapleTree<K, Number, maple_tree::alloc::Pool, S> =
            MapleTree::try_from_sorted_in(model.entries(), Default::default()).unwrap();
        let text = serde_json::to_string(&map).unwrap();
        let plain: Vec<(K, K, Number)> = serde_json::from_str(&text).unwrap();
        assert!(
            plain
                .into_iter()
                .map(|(first, last, v)| (first..=last, v))
                .eq(model.entries())
        );
        let read: MapleTree<K, Number, maple_tree::alloc::Pool, S> =
            serde_json::from_str(&text).unwrap();
        compare(&model, &read, &|| text.clone());
        let shared: SyncMapleTree<K, Number, Waiting> = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&shared).unwrap(), text);
        let mut gaps: MapleTree<K, Number, maple_tree::alloc::Pool, S> =
            MapleTree::with_gaps_in(Default::default());
        gaps.insert(K::ONE, 5).unwrap();
        gaps.deserialize_into(&mut serde_json::Deserializer::from_str(&text))
            .unwrap();
        compare(&model, &gaps, &|| text.clone());
        assert!(gaps.tracks_gaps());
    }
}

#[test]
fn every_width() {
    round_trips::<u32, Native>(u32::MAX - 79);
    round_trips::<u64, Fanout<4>>(7);
    round_trips::<usize, Native>(0);
    round_trips::<u128, Native>(u128::MAX - 79);
}

#[test]
fn kinds_of_values() {
    fn of<V>(map: MapleTree<u32, V>, text: &str)
    where
        V: maple_tree::Value + DeserializeOwned,
        for<'a> maple_tree::Ref<'a, V>: Serialize + PartialEq + Debug,
    {
        assert_eq!(serde_json::to_string(&map).unwrap(), text);
        assert_eq!(
            serde_json::from_str::<MapleTree<u32, V>>(text).unwrap(),
            map
        );
    }
    of(MapleTree::from([(0..10, 5u8)]), "[[0,9,5]]");
    of(
        MapleTree::from([(0..10, Box::new("a".to_string()))]),
        r#"[[0,9,"a"]]"#,
    );
    // An `Arc` can be written; reading one back is a feature of `serde`.
    let shared: MapleTree<u32, Arc<u32>> = MapleTree::from([(3..=3, Arc::new(7))]);
    assert_eq!(serde_json::to_string(&shared).unwrap(), "[[3,3,7]]");
}

#[test]
fn what_is_no_map() {
    for (text, error) in [
        (
            "[[0,9,1],[5,12,2]]",
            "begins before the one before it has ended",
        ),
        ("[[10,19,1],[0,5,2]]", "the range 0..=5 begins before"),
        ("[[9,3,1]]", "last index is below its first"),
        ("[[0,9]]", "invalid length"),
        ("[[0,9,\"x\"]]", "invalid type"),
        ("[[-1,9,1]]", "invalid value"),
        ("{\"0\": 1}", "a sequence of (first, last, value)"),
        ("[[0,9,1],", "EOF"),
    ] {
        let read: Result<MapleTree<u32, Number>, _> = serde_json::from_str(text);
        let got = read.err().unwrap().to_string();
        assert!(got.contains(error), "{text}: {got}");
    }
}

thread_local! {
    static COUNT: Count = Count::default();
}

/// A value that counts, from a number; numbers from 100 on are refused.
struct Counted(#[expect(dead_code, reason = "it is dropped")] Box<Alive>);

impl<'de> Deserialize<'de> for Counted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = Number::deserialize(deserializer)?;
        if number >= 100 {
            return Err(serde::de::Error::custom("too large"));
        }
        Ok(Self(COUNT.with(|count| Alive::boxed(number, count))))
    }
}

/// Whatever goes wrong, wherever: values and nodes are gone, and the map is empty.
#[test]
fn failures_leave_nothing() {
    let count = COUNT.with(Clone::clone);
    let nodes = Countdown::new();
    let mut map: MapleTree<u64, Box<Counted>, &Countdown, Fanout<4>> = MapleTree::new_in(&nodes);
    let text = |odd: usize, entry: &str| {
        let entries: Vec<_> = (0..40)
            .map(|i| {
                if i == odd {
                    entry.to_string()
                } else {
                    format!("[{},{},{i}]", 10 * i, 10 * i + 3)
                }
            })
            .collect();
        format!("[{}]", entries.join(","))
    };
    for odd in 0..40 {
        for entry in ["[0,9999,1]", "[3,1,1]", "[0,0,100]", "7"] {
            let text = text(odd, entry);
            let result = map.deserialize_into(&mut serde_json::Deserializer::from_str(&text));
            // A long one at the end is in order.
            if result.is_ok() {
                map.clear();
            }
            assert!(map.is_empty());
            assert_eq!((count.get(), nodes.live()), (0, 0), "{text}");
        }
    }
    let text = text(40, "");
    for allowed in 0.. {
        nodes.allow(allowed);
        let result = map.deserialize_into(&mut serde_json::Deserializer::from_str(&text));
        nodes.allow(usize::MAX);
        if result.is_ok() {
            break;
        }
        assert!(result.err().unwrap().to_string().contains("no memory"));
        assert_eq!((count.get(), nodes.live()), (0, 0));
    }
    assert_eq!((map.len(), count.get()), (40, 40));
    map.check().unwrap();
}
