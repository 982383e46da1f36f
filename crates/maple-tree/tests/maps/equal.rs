//! Painting, coalescing, and splitting at keys, on every map type, compared with a flat array;
//! holes from both ends.

use std::ops::RangeInclusive;

use crate::support::Rng;
use crate::support::counting::{Alive, Count, Countdown};
use maple_tree::alloc::{Global, NodeAlloc, SharedPool};
use maple_tree::{CowMapleTree, Fanout, MapleTree, Native, Shape, SyncMapleTree, Waiting};

const SPAN: usize = if cfg!(miri) { 40 } else { 300 };

type Entry = (RangeInclusive<u32>, u16);

/// Which entry covers each index, and its value: entries that touch may have the same.
#[derive(Clone)]
struct Cells(Vec<Option<(usize, u16)>>);

impl Cells {
    fn entries(&self) -> Vec<Entry> {
        let mut entries: Vec<(usize, Entry)> = Vec::new();
        for (i, cell) in self.0.iter().enumerate() {
            let Some((id, value)) = *cell else { continue };
            match entries.last_mut() {
                Some((last, (range, _))) if *last == id && *range.end() as usize + 1 == i => {
                    *range = *range.start()..=i as u32;
                }
                _ => entries.push((id, (i as u32..=i as u32, value))),
            }
        }
        entries.into_iter().map(|(_, entry)| entry).collect()
    }

    /// Gives each entry a number of its own.
    fn renumber(&mut self) {
        for (id, (range, value)) in self.entries().into_iter().enumerate() {
            self.0[*range.start() as usize..=*range.end() as usize].fill(Some((id, value)));
        }
    }

    fn paint(&mut self, first: usize, last: usize, value: u16) -> RangeInclusive<u32> {
        let id = usize::MAX;
        let around = [
            first.checked_sub(1),
            Some(last + 1).filter(|&after| after < SPAN),
        ];
        let same: Vec<_> = around
            .into_iter()
            .flatten()
            .filter_map(|i| self.0[i].filter(|cell| cell.1 == value))
            .collect();
        // What an entry around the range leaves on its upper side is another one.
        if let (Some(below), Some(above)) = (around[0], around[1])
            && let Some((old, other)) = self.0[below].filter(|cell| cell.1 != value)
            && self.0[above] == self.0[below]
        {
            let end = (above..SPAN)
                .take_while(|&i| self.0[i] == Some((old, other)))
                .count();
            self.0[above..above + end].fill(Some((usize::MAX - 1, other)));
        }
        for cell in &mut self.0 {
            if same.contains(&cell.unwrap_or((usize::MAX - 2, u16::MAX))) {
                *cell = Some((id, value));
            }
        }
        self.0[first..=last].fill(Some((id, value)));
        // One entry around it, of the same value.
        let whole = |i: &usize| self.0[*i] == Some((id, value));
        let (low, high) = ((0..SPAN).find(whole), (0..SPAN).rfind(whole));
        for i in low.unwrap_or(first)..=high.unwrap_or(last) {
            self.0[i] = Some((id, value));
        }
        self.renumber();
        low.unwrap_or(first) as u32..=high.unwrap_or(last) as u32
    }

    fn coalesce(&mut self, first: usize, last: usize) -> usize {
        let (from, to) = (first.saturating_sub(1), (last + 1).min(SPAN - 1));
        let entries = self.entries();
        let mut gone = 0;
        for pair in entries.windows(2) {
            let [(a, value), (b, other)] = pair else {
                continue;
            };
            let touch = a.end() + 1 == *b.start() && value == other;
            if touch && *a.end() as usize >= from && *b.start() as usize <= to {
                let id = self.0[*a.start() as usize];
                self.0[*b.start() as usize..=*b.end() as usize].fill(id);
                gone += 1;
            }
        }
        self.renumber();
        gone
    }
}

fn check<A: NodeAlloc, S: Shape>(map: &MapleTree<u32, u16, A, S>, cells: &Cells, context: &str) {
    if let Err(damage) = map.check() {
        panic!("{damage}: {context}");
    }
    assert_eq!(map.iter().collect::<Vec<_>>(), cells.entries(), "{context}");
}

/// The same calls on each map type.
fn on_every_map<S: Shape>(seed: u64) {
    let mut rng = Rng(seed);
    let mut cells = Cells(vec![None; SPAN]);
    let mut map: MapleTree<u32, u16, _, S> = MapleTree::with_gaps_in(Global);
    let mut snap: CowMapleTree<u32, u16, Global, S> = CowMapleTree::new_in(Global);
    let shared: SyncMapleTree<u32, u16, Waiting, SharedPool, spin::Mutex<()>, S> =
        SyncMapleTree::new_in(Waiting::new(), SharedPool::new());
    let mut before = (snap.snapshot(), cells.entries());
    for step in 0..if cfg!(miri) { 40 } else { 1500 } {
        let first = rng.below(SPAN);
        let last = (first + rng.below(20) * rng.below(4)).min(SPAN - 1);
        let (range, value) = (first as u32..=last as u32, rng.below(3) as u16);
        let context = format!("seed {seed} step {step}: {range:?} {value}");
        match rng.below(8) {
            0..3 => {
                let whole = cells.paint(first, last, value);
                assert_eq!(
                    map.paint(range.clone(), value),
                    Ok(whole.clone()),
                    "{context}"
                );
                assert_eq!(
                    snap.paint(range.clone(), value),
                    Ok(whole.clone()),
                    "{context}"
                );
                assert_eq!(shared.write().paint(range, value), Ok(whole), "{context}");
            }
            // Entries that touch and are the same stay apart.
            3..6 => {
                cells.paint(first, last, 9 + step);
                for cell in cells
                    .0
                    .iter_mut()
                    .flatten()
                    .filter(|cell| cell.1 == 9 + step)
                {
                    cell.1 = value;
                }
                let split = |_, around| Some(around);
                map.store_range_splitting(range.clone(), value, split)
                    .unwrap();
                snap.store_range(range.clone(), value).unwrap();
                shared
                    .write()
                    .store_range_splitting(range, value, split)
                    .unwrap();
            }
            6 => {
                let gone = cells.coalesce(first, last);
                assert_eq!(
                    map.coalesce(range.clone(), |a, b| a == b),
                    Ok(gone),
                    "{context}"
                );
                assert_eq!(
                    snap.coalesce(range.clone(), |a, b| a == b),
                    Ok(gone),
                    "{context}"
                );
                let done = shared.write().coalesce(range, |a, b| a == b);
                assert_eq!(done, Ok(gone), "{context}");
            }
            _ => {
                let key = first as u32;
                let splits =
                    first > 0 && cells.0[first].is_some() && cells.0[first] == cells.0[first - 1];
                if splits {
                    let (id, value) = cells.0[first].unwrap();
                    let rest = cells.0[first..]
                        .iter()
                        .take_while(|&&c| c == Some((id, value)));
                    let end = first + rest.count();
                    cells.0[first..end].fill(Some((usize::MAX, value)));
                    cells.renumber();
                }
                assert_eq!(map.split_at(key), Ok(splits), "{context}");
                assert_eq!(snap.split_at(key), Ok(splits), "{context}");
                assert_eq!(shared.write().split_at(key), Ok(splits), "{context}");
            }
        }
        check(&map, &cells, &context);
        assert_eq!(snap.check(), Ok(()), "{context}");
        assert_eq!(
            snap.iter().collect::<Vec<_>>(),
            cells.entries(),
            "{context}"
        );
        assert!(shared.read().iter().eq(cells.entries()), "{context}");
        assert!(shared.write().check().is_ok(), "{context}");
        if step % 7 == 0 {
            assert_eq!(before.0.iter().collect::<Vec<_>>(), before.1, "{context}");
            before = (snap.snapshot(), cells.entries());
        }
        let holes: Vec<_> = map.holes(first as u32..).collect();
        let mut back: Vec<_> = map.holes(first as u32..).rev().collect();
        back.reverse();
        assert_eq!(holes, back, "{context}");
        let mut both = map.holes(..=last as u32);
        let all: Vec<_> = both.clone().collect();
        let (mut low, mut high) = (Vec::new(), Vec::new());
        while let Some(hole) = if rng.below(2) == 0 { both.next() } else { None } {
            low.push(hole);
            high.extend(both.next_back());
        }
        low.extend(both);
        low.extend(high.into_iter().rev());
        assert_eq!(low, all, "{context}");
    }
}

#[test]
fn equal_neighbours_are_joined_where_a_call_asks_for_it() {
    for seed in 0..if cfg!(miri) { 1 } else { 3 } {
        on_every_map::<Fanout<4>>(seed);
        on_every_map::<Native>(seed);
    }
}

/// If memory runs out, earlier runs have been joined, and the others are unchanged. No value is
/// lost or dropped twice.
#[test]
fn a_refused_join_keeps_what_it_has_joined() {
    let nodes = Countdown::kept();
    let count = Count::default();
    let mut snap: CowMapleTree<u32, Box<Alive>, _, Fanout<4>> = CowMapleTree::new_in(nodes);
    let total = if cfg!(miri) { 30 } else { 200 };
    for i in 0..total {
        snap.insert_range(3 * i..=3 * i + 2, Alive::boxed((i / 5) as _, &count))
            .unwrap();
    }
    // What is shared is copied first.
    let before = snap.snapshot();
    let mut gone = 0;
    let allocations = nodes.insist(
        || {
            let done = snap.coalesce(.., |a, b| a.number == b.number);
            gone += *done.as_ref().unwrap_or(&0);
            assert_eq!(snap.check(), Ok(()));
            done.is_ok()
        },
        || assert!(before.len() == total as usize),
    );
    assert!(allocations > 0);
    assert_eq!(snap.len(), total as usize / 5);
    assert!(snap.iter().enumerate().all(|(i, (range, value))| {
        let first = 15 * i as u32;
        range == (first..=first + 14) && value.number as usize == i
    }));
    assert_eq!(before.len(), total as usize);
    drop((before, snap));
    assert_eq!((count.get(), nodes.live()), (0, 0));
}

/// Only nodes of the range are copied, and the snapshot's contents stay unchanged.
#[test]
fn a_part_of_a_snapshot_is_changed() {
    let nodes = Countdown::kept();
    let mut map: CowMapleTree<u32, u16, _, Fanout<4>> = CowMapleTree::with_gaps_in(nodes);
    let total = if cfg!(miri) { 40 } else { 400 };
    map.try_extend((0..total).map(|i| (2 * i..=2 * i, i as u16)))
        .unwrap();
    let mut rng = Rng(5);
    for _ in 0..if cfg!(miri) { 5 } else { 100 } {
        let first = rng.below(2 * total as usize) as u32;
        let last = first + rng.below(30) as u32;
        let before = map.snapshot();
        let copy: Vec<_> = map.iter().collect();
        let refused = nodes.insist(
            || match map.range_mut(first..=last) {
                Ok(entries) => {
                    entries.for_each(|(_, value)| *value += 1);
                    true
                }
                Err(_) => false,
            },
            || assert!(before.iter().eq(copy.iter().cloned())),
        );
        assert!(refused < 60, "{refused} nodes were copied");
        assert_eq!(CowMapleTree::check_family(&[&map, &before]), Ok(()));
        assert!(before.iter().eq(copy.iter().cloned()));
        let expected = copy.into_iter().map(|(range, value)| {
            let within = *range.start() >= first && *range.start() <= last;
            (range, value + u16::from(within))
        });
        assert!(map.iter().eq(expected));
    }
    drop(map);
    assert_eq!(nodes.live(), 0);
}
