//! Bytes an entry, by counting what each map asks of the allocator.

use std::hint::black_box;

use samara_bench::heap::held;
use samara_bench::peers::{
    Btree, Im, Iset, Item, Kind, Maple, Nodit, RangeMap, Rangemap, SortedVec,
};
use samara_bench::{Random, Ranges};

/// Subject by subject, the bytes an entry of a map with `n` entries stored in ascending order, or in random order.
pub(crate) fn bytes(n: u64, random_order: bool) -> Vec<(&'static str, f64)> {
    let mut random = Random::new(n);
    let ranges = Ranges::new(n, &mut random);
    let items = if random_order {
        ranges.shuffled(&mut random)
    } else {
        ranges.items
    };
    let mut found = Vec::new();
    fn consider<M: RangeMap>(items: &[Item], kind: Kind, found: &mut Vec<(&'static str, f64)>) {
        if !M::offers(kind) {
            return;
        }
        let (map, bytes) = held(|| {
            let mut map = M::default();
            items.iter().for_each(|&item| map.insert(item));
            map
        });
        drop(black_box(map));
        found.push((M::NAME, bytes as f64 / items.len() as f64));
    }
    let kind = if random_order {
        Kind::Insert
    } else {
        Kind::Append
    };
    consider::<Maple>(&items, kind, &mut found);
    consider::<Btree>(&items, kind, &mut found);
    consider::<SortedVec>(&items, kind, &mut found);
    consider::<Rangemap>(&items, kind, &mut found);
    consider::<Nodit>(&items, kind, &mut found);
    consider::<Iset>(&items, kind, &mut found);
    consider::<Im>(&items, kind, &mut found);
    found
}
