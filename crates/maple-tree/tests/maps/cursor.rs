//! Cursors: each move against the list of entries and holes, at both ends of the key space too; the states; changes on the way;
//! nodes set aside.

use std::sync::Arc;

use crate::support::{Model, Number, Rng, Run};
use maple_tree::alloc::{Counted, Global, Pool, SharedPool};
use maple_tree::{Fanout, MapleTree, Native, Shape, Status, SyncMapleTree, Waiting};

const MAX: u64 = u64::MAX;

/// The expected position of a cursor: a range and its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    index: u64,
    last: u64,
    status: Status,
}

struct Moves<'a> {
    runs: &'a [Run<u64>],
    /// The tree has nodes.
    nodes: bool,
    at: Place,
}

impl Moves<'_> {
    fn go(&mut self, key: u64) -> Option<Number> {
        let run = self
            .runs
            .iter()
            .find(|r| r.first <= key && key <= r.last)
            .unwrap();
        let status = match run.value {
            _ if self.nodes => Status::Active,
            Some(_) => Status::Root,
            None => Status::None,
        };
        self.at = Place {
            index: run.first,
            last: run.last,
            status,
        };
        run.value
    }

    fn end(&mut self, status: Status) -> Option<Number> {
        self.at.status = status;
        None
    }

    fn onwards(&mut self, max: u64, holes: bool) -> Option<Number> {
        while self.at.last < max {
            let value = self.go(self.at.last + 1);
            if value.is_some() || holes {
                return value;
            }
        }
        self.end(Status::Overflow)
    }

    fn backwards(&mut self, min: u64, holes: bool) -> Option<Number> {
        while self.at.index > min {
            let value = self.go(self.at.index - 1);
            if value.is_some() || holes {
                return value;
            }
        }
        self.end(Status::Underflow)
    }

    fn next(&mut self, max: u64, holes: bool) -> Option<Number> {
        if !matches!(
            self.at.status,
            Status::Active | Status::Overflow | Status::Underflow
        ) {
            self.go(self.at.index);
        }
        self.onwards(max, holes)
    }

    fn prev(&mut self, min: u64, holes: bool) -> Option<Number> {
        if self.at.index <= min {
            return self.end(Status::Underflow);
        }
        if !matches!(
            self.at.status,
            Status::Active | Status::Overflow | Status::Underflow
        ) {
            self.go(self.at.index);
        }
        self.backwards(min, holes)
    }

    fn find(&mut self, max: u64, holes: bool) -> Option<Number> {
        if !matches!(self.at.status, Status::Start | Status::Underflow) {
            if self.at.last >= max {
                return self.end(Status::Overflow);
            }
            self.at.index = self.at.last + 1;
        }
        if self.at.index > max {
            return self.end(Status::Overflow);
        }
        let value = self.go(self.at.index);
        if value.is_some() || holes {
            value
        } else {
            self.onwards(max, holes)
        }
    }

    fn find_rev(&mut self, min: u64, holes: bool) -> Option<Number> {
        if !matches!(self.at.status, Status::Start | Status::Overflow) {
            if self.at.index <= min {
                return self.end(Status::Underflow);
            }
            self.at.index -= 1;
        }
        if self.at.index < min {
            return self.end(Status::Underflow);
        }
        let value = self.go(self.at.index);
        if value.is_some() || holes {
            value
        } else {
            self.backwards(min, holes)
        }
    }
}

/// Random walks over random trees. The cells are at both ends of the key space in turn, so that moves at 0 and at the
/// largest key are common.
#[test]
fn random_moves() {
    let mut rng = Rng(1);
    for round in 0..if cfg!(miri) { 3 } else { 300 } {
        let cells = 2 + rng.below(30);
        let base = if round % 2 == 0 {
            0
        } else {
            MAX - (cells as u64 - 1)
        };
        let mut model = Model::new(base, cells);
        let mut tree: MapleTree<u64, Number, Pool, Fanout<4>> = MapleTree::new_in(Pool::new());
        // At least three slots: trees without nodes have states of their own, tried below.
        for i in 0..rng.below(12) + 2 {
            let first = if i == 0 { 1 } else { rng.below(cells) };
            let last = (first + rng.below(4)).min(cells - 1);
            let value = i as Number;
            tree.store_range_splitting(model.key(first)..=model.key(last), value, |_, v| Some(v))
                .unwrap();
            model.store(first, last, Some(value));
        }
        let runs = model.runs();
        if tree.height() == 0 {
            continue;
        }
        let mut cursor = tree.cursor(0..=0);
        let at = Place {
            index: 0,
            last: 0,
            status: Status::Start,
        };
        let mut expected = Moves {
            runs: &runs,
            nodes: true,
            at,
        };
        for _ in 0..200 {
            let key = match rng.below(8) {
                0 => 0,
                1 => MAX,
                _ => model.key(rng.below(cells)),
            };
            let holes = rng.below(3) == 0;
            let (found, value) = match rng.below(9) {
                0 => {
                    cursor.set(key);
                    expected.at = Place {
                        index: key,
                        last: key,
                        status: Status::Start,
                    };
                    continue;
                }
                1 => {
                    cursor.pause();
                    expected.at.status = Status::Pause;
                    continue;
                }
                2 => (cursor.walk(), expected.go(expected.at.index)),
                3 | 4 if holes => (cursor.next_range(..=key), expected.next(key, true)),
                3 | 4 => (cursor.next(..=key), expected.next(key, false)),
                5 if holes => (cursor.prev_range(key..), expected.prev(key, true)),
                5 => (cursor.prev(key..), expected.prev(key, false)),
                6 if holes => (cursor.find_range(..=key), expected.find(key, true)),
                6 => (cursor.find(..=key), expected.find(key, false)),
                _ if holes => (cursor.find_range_rev(key..), expected.find_rev(key, true)),
                _ => (cursor.find_rev(key..), expected.find_rev(key, false)),
            };
            let is = Place {
                index: cursor.index(),
                last: cursor.last(),
                status: cursor.status(),
            };
            assert_eq!((found, is), (value, expected.at), "round {round} {tree}");
        }
    }
}

/// A tree with one entry at index 0 has no nodes, and an empty one has not even that.
#[test]
fn states_without_nodes() {
    let mut tree: MapleTree<u64, Number> = MapleTree::new();
    let mut cursor = tree.cursor(7..=7);
    assert_eq!(cursor.walk(), None);
    assert_eq!((cursor.range(), cursor.status()), (0..=MAX, Status::None));
    cursor.set(7);
    assert_eq!(cursor.find(..), None);
    assert_eq!(cursor.status(), Status::None);
    assert_eq!(cursor.find_rev(..), None);

    tree.insert(0, 9).unwrap();
    assert_eq!(tree.height(), 0);
    let mut cursor = tree.cursor(0..=0);
    assert_eq!(cursor.find(..), Some(9));
    assert_eq!((cursor.range(), cursor.status()), (0..=0, Status::Root));
    assert_eq!(cursor.find(..), None);
    assert_eq!((cursor.range(), cursor.status()), (1..=MAX, Status::None));
    assert_eq!(cursor.find(..), None);
    assert_eq!((cursor.range(), cursor.status()), (1..=MAX, Status::None));
    assert_eq!(cursor.find_rev(..), Some(9));
    assert_eq!((cursor.range(), cursor.status()), (0..=0, Status::Root));
    assert_eq!(cursor.find_rev(..), None);
    assert_eq!((cursor.range(), cursor.status()), (0..=0, Status::None));
    cursor.set(10);
    assert_eq!(cursor.prev(..), Some(9));
    assert_eq!((cursor.range(), cursor.status()), (0..=0, Status::Root));
    cursor.set(0);
    assert_eq!(cursor.prev(..), None);
    assert_eq!(cursor.status(), Status::Underflow);
    cursor.set(0);
    assert_eq!(cursor.next(..), None);
    assert_eq!((cursor.range(), cursor.status()), (1..=MAX, Status::None));
    cursor.set(10);
    assert_eq!(cursor.next(..), None);
    assert_eq!((cursor.range(), cursor.status()), (1..=MAX, Status::None));
}

/// The limits of one search do not stick to the next.
#[test]
fn limits_change_on_the_way() {
    let mut tree: MapleTree<u64, Number> = MapleTree::new();
    tree.insert_range(0x1000..=0x1500, 1).unwrap();
    tree.insert_range(0x2000..=0x2500, 2).unwrap();
    tree.insert_range(0x3000..=0x3500, 3).unwrap();
    let mut c = tree.cursor(0..=0);
    assert_eq!(c.next(..), Some(1));
    assert_eq!(c.next(..=0x2100), Some(2)); // starts within the limit
    assert_eq!(c.next(..=0x2999), None);
    assert_eq!((c.range(), c.status()), (0x2501..=0x2fff, Status::Overflow));
    assert_eq!(c.next(..), Some(3));
    assert_eq!(c.next(..), None);
    assert_eq!((c.range(), c.status()), (0x3501..=MAX, Status::Overflow));
    assert_eq!(c.next(..), None);
    assert_eq!(c.prev(..), Some(3));
    assert_eq!(c.prev(..), Some(2));
    assert_eq!(c.prev(0x1200..), Some(1)); // ends within the limit
    assert_eq!(c.prev(0x1200..), None);
    assert_eq!(
        (c.range(), c.status()),
        (0x1000..=0x1500, Status::Underflow)
    );
    assert_eq!(c.prev(0x100..), None);
    assert_eq!((c.range(), c.status()), (0..=0xfff, Status::Underflow));
    assert_eq!(c.next(..), Some(1));
    assert_eq!(c.prev(0x1000..), None);
    assert_eq!(c.find(..), Some(1));
    // A search that stopped at its limit goes on after what it stands on.
    assert_eq!(c.find(..=0x1500), None);
    assert_eq!((c.range(), c.status()), (0x1000..=0x1500, Status::Overflow));
    assert_eq!(c.find(..), Some(2));
}

/// A loop that erases and stores as it goes misses nothing and sees nothing twice.
#[test]
fn changes_while_iterating() {
    let mut tree: MapleTree<u32, Number, Pool, Fanout<4>> = MapleTree::with_gaps_in(Pool::new());
    for i in 0..40 {
        tree.insert_range(i * 10..i * 10 + 5, i as Number).unwrap();
    }
    let mut cursor = tree.cursor_mut(0..=0);
    let mut seen = Vec::new();
    while let Some(value) = cursor.find(..) {
        seen.push(value);
        match value % 3 {
            0 => drop(cursor.erase().unwrap()),
            1 => {
                // Longer by the hole that follows.
                let range = cursor.range();
                cursor.set_range(*range.start()..=range.end() + 2);
                cursor.store(value + 1000).unwrap();
            }
            _ => assert_eq!(cursor.replace(value + 2000), Ok(())),
        }
    }
    drop(cursor);
    assert_eq!(seen, (0..40).collect::<Vec<_>>());
    tree.check().unwrap();
    let expected: Vec<_> = (0..40u32)
        .filter(|i| i % 3 != 0)
        .map(|i| match i % 3 {
            1 => (i * 10..=i * 10 + 6, i as Number + 1000),
            _ => (i * 10..=i * 10 + 4, i as Number + 2000),
        })
        .collect();
    assert_eq!(tree.iter().collect::<Vec<_>>(), expected);
}

/// Stores after `preallocate` take no memory, and give back what they did not need.
#[test]
fn preallocated_stores_do_not_allocate() {
    let nodes = Arc::new(Counted::new(Global));
    let mut rng = Rng(5);
    {
        let mut tree: MapleTree<u32, Number, _, Fanout<4>> = MapleTree::with_gaps_in(nodes.clone());
        let shared: SyncMapleTree<u32, Number, Waiting, _, spin::Mutex<()>, Fanout<4>> =
            SyncMapleTree::with_gaps_in(Waiting::new(), nodes.clone());
        for i in 0..if cfg!(miri) { 50 } else { 3000 } {
            let first = rng.below(100) as u32;
            let range = first..=first + rng.below(9) as u32;
            let mut cursor = tree.cursor_mut(range.clone());
            cursor.preallocate().unwrap();
            let before = nodes.allocated();
            let _ = cursor.store(i);
            assert_eq!(nodes.allocated(), before);
            drop(cursor);
            let mut writer = shared.write();
            let mut cursor = writer.cursor_mut(range);
            cursor.preallocate().unwrap();
            let before = nodes.allocated();
            let _ = cursor.store(i);
            assert_eq!(nodes.allocated(), before);
            drop(cursor);
            if i % 7 == 0 {
                let _ = tree.erase_range(first..first + 20);
                let _ = writer.erase_range(first..first + 20);
            }
        }
        tree.check().unwrap();
        shared.write().check().unwrap();
    }
    assert_eq!(nodes.live(), 0);
}

/// Ascending stores after `expected_entries` take no memory, whatever the number, in either mode.
#[test]
fn bulk_stores_do_not_allocate() {
    let nodes = Arc::new(Counted::new(Global));
    for n in if cfg!(miri) {
        [1, 2, 5, 10, 20]
    } else {
        [1, 5, 20, 100, 500]
    } {
        for sparse in [1, 2] {
            let mut tree: MapleTree<u32, Number, _, Native> =
                MapleTree::with_gaps_in(nodes.clone());
            let mut small: MapleTree<u32, Number, _, Fanout<4>> = MapleTree::new_in(nodes.clone());
            let mut a = tree.cursor_mut(0..=0);
            let mut b = small.cursor_mut(0..=0);
            a.expected_entries(n).unwrap();
            b.expected_entries(n).unwrap();
            let before = nodes.allocated();
            for i in 0..n as u32 {
                let first = 5 + i * 10;
                let range = first..first + 10 / sparse;
                a.set_range(range.clone());
                b.set_range(range);
                a.store(i as Number).unwrap();
                b.store(i as Number).unwrap();
            }
            assert_eq!(nodes.allocated(), before, "{n}");
            drop((a, b));
            assert_eq!((tree.len(), small.len()), (n, n));
            tree.check().unwrap();
            small.check().unwrap();
        }
    }
    assert_eq!(nodes.live(), 0);
}

/// Stores that leave holes use up the nodes that `expected_entries` has allocated, except those for
/// levels that had space. They never need more, whatever the earlier contents, with and without
/// readers.
#[test]
fn bulk_mode_sets_aside_what_it_takes() {
    fn try_shape<S: Shape>(there: u32, n: u32, gaps: bool, rcu: bool) {
        let nodes = Arc::new(Counted::new(Global));
        let mut map: MapleTree<u32, Number, _, S> = if gaps {
            MapleTree::with_gaps_in(nodes.clone())
        } else {
            MapleTree::new_in(nodes.clone())
        };
        for i in 0..there {
            map.insert(i * 3, i as Number).unwrap();
        }
        let context = format!("{n} behind {there}, gaps {gaps}, readers {rcu}");
        let left;
        if rcu {
            let tree: SyncMapleTree<_, _, Waiting, _, spin::Mutex<()>, S> =
                SyncMapleTree::from_exclusive(map, Waiting::new());
            let mut writer = tree.write();
            let mut cursor = writer.cursor_mut(0..=0);
            cursor.expected_entries(n as usize).unwrap();
            let allocated = nodes.allocated();
            for i in there..there + n {
                cursor.set(i * 3 + 1);
                cursor.store(i as Number).unwrap();
            }
            left = cursor.reserved();
            drop(cursor);
            assert_eq!(nodes.allocated(), allocated, "{context}");
            writer.check().unwrap();
            drop(writer);
            map = tree.into_exclusive();
        } else {
            let mut cursor = map.cursor_mut(0..=0);
            cursor.expected_entries(n as usize).unwrap();
            let allocated = nodes.allocated();
            for i in there..there + n {
                cursor.set(i * 3 + 1);
                cursor.store(i as Number).unwrap();
            }
            left = cursor.reserved();
            drop(cursor);
            assert_eq!(nodes.allocated(), allocated, "{context}");
            map.check().unwrap();
        }
        // One of each level, and a root that was not needed. With readers also the copy above each.
        let levels = (map.height() + 1) * if rcu { 2 } else { 1 };
        assert!(left <= levels, "{context}: {left} of {levels} are left");
    }
    let numbers: &[u32] = if cfg!(miri) {
        &[0, 1, 7]
    } else {
        &[0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 40, 150, 1000]
    };
    for &there in numbers {
        for &n in numbers {
            for modes in 0..4 {
                let (gaps, rcu) = (modes & 1 != 0, modes & 2 != 0);
                try_shape::<Native>(there, n, gaps, rcu);
                try_shape::<Fanout<4>>(there, n, gaps, rcu);
            }
        }
    }
}

/// A gap found by a cursor is ready to store at, and a failed search leaves the cursor alone.
#[test]
fn gaps() {
    let mut tree: MapleTree<u32, Number> = MapleTree::with_gaps();
    tree.insert_range(0..100, 0).unwrap();
    tree.insert_range(110..200, 1).unwrap();
    let mut cursor = tree.cursor_mut(..);
    cursor.empty_area(0..300, 10).unwrap();
    assert_eq!(
        (cursor.range(), cursor.status()),
        (100..=109, Status::Start)
    );
    cursor.store(2).unwrap();
    assert!(cursor.empty_area(0..200, 1).is_err());
    assert_eq!(cursor.range(), 100..=109);
    cursor.empty_area_rev(0..300, 10).unwrap();
    assert_eq!(cursor.range(), 290..=299);
    // The bounds of the search do not limit what comes next.
    assert_eq!(cursor.find_rev(..), Some(1));
    assert_eq!(cursor.prev(..), Some(2));
}

/// A cursor of a reader shows what the writer has left.
#[test]
fn a_readers_cursor() {
    let tree: SyncMapleTree<u32, Number, Waiting, SharedPool, spin::Mutex<()>, Fanout<4>> =
        SyncMapleTree::new_in(Waiting::new(), SharedPool::new());
    for i in 0..20 {
        tree.write()
            .insert_range(i * 10..i * 10 + 10, i as Number)
            .unwrap();
    }
    let reader = tree.read();
    let mut cursor = reader.cursor(0..=0);
    assert_eq!(cursor.find(..), Some(0));
    cursor.pause();
    drop(reader);
    tree.write().store_range(5..45, 77).unwrap();
    let reader = tree.read();
    let mut cursor = reader.cursor(0..=0);
    let seen: Vec<_> = std::iter::from_fn(|| cursor.find(..)).collect();
    assert_eq!(seen[..3], [0, 77, 4]);
}

/// An entry that is stored behind the only entry, on which a reader stands, comes next.
#[test]
fn a_readers_cursor_leaves_the_only_entry() {
    type Tree = SyncMapleTree<u32, Number, Waiting, SharedPool, spin::Mutex<()>, Fanout<4>>;
    for find in [false, true] {
        let tree = Tree::new_in(Waiting::new(), SharedPool::new());
        tree.write().insert_range(0..1, 5).unwrap();
        let reader = tree.read();
        let mut cursor = reader.cursor(0..=0);
        assert_eq!(cursor.find(..), Some(5));
        assert_eq!(cursor.status(), Status::Root);
        tree.write().insert_range(1..2, 7).unwrap();
        tree.write().insert_range(8..9, 9).unwrap();
        let mut on = |max| {
            if find {
                cursor.find(..=max)
            } else {
                cursor.next(..=max)
            }
        };
        assert_eq!(on(0), None);
        assert_eq!([1, 8, 8].map(&mut on), [Some(7), Some(9), None]);
    }
}

#[test]
fn clones_move_by_themselves() {
    let mut map: MapleTree<u64, Number, _, Fanout<4>> = MapleTree::new_in(Pool::<Global>::new());
    for i in 0..60 {
        map.insert_range(i * 10..i * 10 + 10 - i % 3, i as Number)
            .unwrap();
    }
    let mut rng = Rng(3);
    let mut cursor = map.cursor(300..=300);
    for _ in 0..400 {
        let mut twin = cursor.clone();
        let way = rng.below(6);
        let [one, other] = [&mut twin, &mut cursor].map(|cursor| {
            let found = match way {
                0 => cursor.next(..),
                1 => cursor.prev(..),
                2 => cursor.next_range(..),
                3 => cursor.prev_range(..),
                4 => cursor.find(..),
                _ => cursor.find_rev(..),
            };
            (found, cursor.range(), cursor.status())
        });
        assert_eq!(one, other);
        // One that is left behind stays where it is.
        let mut ahead = twin.clone();
        ahead.next(..);
        ahead.set(7);
        assert_eq!(
            (twin.range(), twin.status()),
            (cursor.range(), cursor.status())
        );
    }
}
