//! Histories of a cursor that moves, stores, erases and preallocates nodes, on a `MapleTree` and
//! under the lock of a `SyncMapleTree`, compared with a position in the list.

use maple_tree::{Fanout, MapleTree, Native, Shape, Status, StoreError, SyncMapleTree, Waiting};

use super::index::Index;
use super::{Bytes, Countdown, Model, Nodes, small};

/// Numbers that are stored in place on machines of any width.
type Number = u16;

type Map<K, S> = MapleTree<K, Number, Nodes, S>;
type Shared<K, S> = SyncMapleTree<K, Number, Waiting, Nodes, spin::Mutex<()>, S>;

/// The expected position of the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place<K> {
    index: K,
    last: K,
    status: Status,
}

/// The list, and a position in it: the documented states.
struct Moves<K> {
    model: Model<K>,
    at: Place<K>,
    middle: K,
    number: Number,
}

impl<K: Index> Moves<K> {
    fn new(middle: K) -> Self {
        Self {
            model: Model::new(),
            at: Place {
                index: K::MIN,
                last: K::MIN,
                status: Status::Start,
            },
            middle,
            number: 0,
        }
    }

    fn stand(&mut self, index: K, last: K, status: Status) {
        self.at = Place {
            index,
            last,
            status,
        };
    }

    fn go(&mut self, key: K) -> Option<u32> {
        let slot = self.model.at(key);
        self.stand(slot.first, slot.last, Status::Active);
        slot.number
    }

    fn end(&mut self, status: Status) -> Option<u32> {
        self.at.status = status;
        None
    }

    fn onwards(&mut self, max: K, holes: bool) -> Option<u32> {
        while self.at.last < max {
            let number = self.go(self.at.last.wrapping_add(K::ONE));
            if number.is_some() || holes {
                return number;
            }
        }
        self.end(Status::Overflow)
    }

    fn backwards(&mut self, min: K, holes: bool) -> Option<u32> {
        while self.at.index > min {
            let number = self.go(self.at.index.wrapping_sub(K::ONE));
            if number.is_some() || holes {
                return number;
            }
        }
        self.end(Status::Underflow)
    }

    fn is_somewhere(&self) -> bool {
        matches!(
            self.at.status,
            Status::Active | Status::Overflow | Status::Underflow
        )
    }

    fn next(&mut self, max: K, holes: bool) -> Option<u32> {
        if !self.is_somewhere() {
            self.go(self.at.index);
        }
        self.onwards(max, holes)
    }

    fn prev(&mut self, min: K, holes: bool) -> Option<u32> {
        if self.at.index <= min {
            return self.end(Status::Underflow);
        }
        if !self.is_somewhere() {
            self.go(self.at.index);
        }
        self.backwards(min, holes)
    }

    fn find(&mut self, max: K, holes: bool) -> Option<u32> {
        if !matches!(self.at.status, Status::Start | Status::Underflow) {
            if self.at.last >= max {
                return self.end(Status::Overflow);
            }
            self.at.index = self.at.last.wrapping_add(K::ONE);
        }
        if self.at.index > max {
            return self.end(Status::Overflow);
        }
        match self.go(self.at.index) {
            None if !holes => self.onwards(max, holes),
            number => number,
        }
    }

    fn find_rev(&mut self, min: K, holes: bool) -> Option<u32> {
        if !matches!(self.at.status, Status::Start | Status::Overflow) {
            if self.at.index <= min {
                return self.end(Status::Underflow);
            }
            self.at.index = self.at.index.wrapping_sub(K::ONE);
        }
        if self.at.index < min {
            return self.end(Status::Underflow);
        }
        match self.go(self.at.index) {
            None if !holes => self.backwards(min, holes),
            number => number,
        }
    }

    fn stored(&mut self, number: Option<u32>) {
        let Place { index, last, .. } = self.at;
        self.model.store(index, last, number);
        self.at.status = Status::Active;
    }

    /// Returns `true` if the tree may have no nodes. Cursors in such a tree have states of their
    /// own.
    fn is_small(&self) -> bool {
        self.model.entries().all(|slot| slot.last == K::MIN)
    }
}

/// Performs a history on the kind of map that has the most nodes for its entries, or on one whose keys have a sign.
///
/// # Panics
///
/// If a move gives something else than the list has, a store damages the structure, or nodes are left at the end.
pub fn play(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    match bytes.byte() % 4 {
        0 => run::<i32, Fanout<4>>(bytes, -3),
        _ => run::<u64, Fanout<4>>(bytes, 1 << 40),
    }
}

/// Performs a history on one of several kinds of maps.
///
/// # Panics
///
/// As [`play`].
pub fn play_any(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    match bytes.byte() % 3 {
        0 => run::<u64, Fanout<4>>(bytes, 1 << 40),
        1 => run::<u64, Native>(bytes, 1 << 40),
        _ => run::<i32, Fanout<4>>(bytes, -3),
    }
}

/// A cursor of either kind, until it is dropped.
macro_rules! moves {
    ($cursor:ident, $bytes:ident, $moves:ident, $nodes:ident) => {{
        let mut cursor = $cursor;
        $moves.stand(K::MIN, K::MIN, Status::Start);
        while !$bytes.is_empty() {
            let code = $bytes.byte();
            if code >= 0xf8 {
                break;
            }
            if code & 0xc0 == 0x40 {
                $nodes.allow(usize::from($bytes.byte() % 6));
            }
            let holes = code & 0x20 != 0;
            let before = $moves.at.status;
            let (is, should) = match code % 20 {
                0 => {
                    let (first, last) = $bytes.range($moves.middle);
                    cursor.set_range(first..=last);
                    $moves.stand(first, last, Status::Start);
                    (None::<u32>, None)
                }
                1 => {
                    cursor.pause();
                    $moves.at.status = Status::Pause;
                    (None::<u32>, None)
                }
                2 => {
                    cursor.reset();
                    $moves.at.status = Status::Start;
                    (None::<u32>, None)
                }
                3 => {
                    let key = $bytes.key($moves.middle);
                    cursor.set(key);
                    $moves.stand(key, key, Status::Start);
                    (cursor.walk().map(u32::from), $moves.go(key))
                }
                4 | 5 => {
                    let max = $bytes.key($moves.middle);
                    let is = if holes {
                        cursor.next_range(..=max)
                    } else {
                        cursor.next(..=max)
                    };
                    (is.map(u32::from), $moves.next(max, holes))
                }
                6 | 7 => {
                    let min = $bytes.key($moves.middle);
                    let is = if holes {
                        cursor.prev_range(min..)
                    } else {
                        cursor.prev(min..)
                    };
                    (is.map(u32::from), $moves.prev(min, holes))
                }
                8 | 9 => {
                    let max = $bytes.key($moves.middle);
                    let is = if holes {
                        cursor.find_range(..=max)
                    } else {
                        cursor.find(..=max)
                    };
                    (is.map(u32::from), $moves.find(max, holes))
                }
                10 | 11 => {
                    let min = $bytes.key($moves.middle);
                    let is = if holes {
                        cursor.find_range_rev(min..)
                    } else {
                        cursor.find_rev(min..)
                    };
                    (is.map(u32::from), $moves.find_rev(min, holes))
                }
                12..=14 => {
                    if code & 0x10 != 0 {
                        let (first, last) = $bytes.range($moves.middle);
                        cursor.set_range(first..=last);
                        $moves.stand(first, last, Status::Start);
                    }
                    $moves.number = $moves.number.wrapping_add(1);
                    let number = $moves.number;
                    match cursor.store(number) {
                        Ok(()) => $moves.stored(Some(u32::from(number))),
                        Err(StoreError::Splits(_)) => {
                            assert!($moves.model.splits($moves.at.index, $moves.at.last));
                        }
                        Err(StoreError::Alloc(_)) => {
                            assert!($nodes.is_dry());
                            // It kept what it could get. Another attempt asks for the rest.
                            $nodes.allow(usize::MAX);
                            cursor.store(number).unwrap();
                            $moves.stored(Some(u32::from(number)));
                        }
                        Err(StoreError::EmptyRange(_)) => panic!("it is not empty"),
                    }
                    (None::<u32>, None)
                }
                15 => {
                    let entry = $moves.model.at($moves.at.index);
                    match cursor.erase() {
                        Ok(Some(range)) => {
                            assert_eq!(range, entry.first..=entry.last);
                            assert!(entry.number.is_some());
                            $moves.stand(entry.first, entry.last, Status::Active);
                            $moves.stored(None);
                        }
                        Ok(None) => assert_eq!(entry.number, None),
                        Err(_) => assert!($nodes.is_dry()),
                    }
                    (None::<u32>, None)
                }
                16 => {
                    $moves.number = $moves.number.wrapping_add(1);
                    let number = $moves.number;
                    let entry = $moves.model.at($moves.at.index);
                    let done = cursor.replace(number);
                    $moves.stand(entry.first, entry.last, Status::Active);
                    match done {
                        Ok(()) => {
                            assert!(entry.number.is_some());
                            $moves.stored(Some(u32::from(number)));
                        }
                        Err(_) => assert!(entry.number.is_none() || $nodes.is_dry()),
                    }
                    (None::<u32>, None)
                }
                17 => {
                    // A store after `preallocate` takes no memory.
                    let (first, last) = $bytes.range($moves.middle);
                    cursor.set_range(first..=last);
                    $moves.stand(first, last, Status::Start);
                    if cursor.preallocate().is_ok() {
                        $nodes.allow(0);
                        $moves.number = $moves.number.wrapping_add(1);
                        let number = $moves.number;
                        match cursor.store(number) {
                            Ok(()) => $moves.stored(Some(u32::from(number))),
                            Err(error) => {
                                assert!(matches!(error, StoreError::Splits(_)));
                                assert!($moves.model.splits(first, last));
                            }
                        }
                    } else {
                        assert!($nodes.is_dry());
                    }
                    (None::<u32>, None)
                }
                18 => {
                    let ((lo, hi), size) = ($bytes.range($moves.middle), $bytes.small::<K>(20));
                    let found = $moves.model.gap((lo, hi), size, K::ONE, K::MIN, !holes);
                    let done = if holes {
                        cursor.empty_area_rev(lo..=hi, size.number())
                    } else {
                        cursor.empty_area(lo..=hi, size.number())
                    };
                    assert_eq!(done.is_ok(), found.is_some());
                    if let Some(first) = found {
                        let last = first.wrapping_add(size.wrapping_sub(K::ONE));
                        $moves.stand(first, last, Status::Start);
                    }
                    (None::<u32>, None)
                }
                _ => {
                    // This many entries in ascending order, behind all existing ones, take no
                    // memory either.
                    let (count, shape) = ($bytes.byte(), $bytes.byte());
                    let behind = $moves
                        .model
                        .entries()
                        .next_back()
                        .map_or(K::MIN, |slot| slot.last);
                    if cursor.expected_entries(usize::from(count)).is_ok() {
                        let allocated = $nodes.allocated();
                        let mut at = behind;
                        for i in 0..count {
                            let room = small::<K>(shape >> (i & 3) & 3);
                            let Some(first) =
                                at.checked_add(room).and_then(|at| at.checked_add(K::ONE))
                            else {
                                break;
                            };
                            let Some(last) = first.checked_add(small::<K>(shape >> 4)) else {
                                break;
                            };
                            cursor.set_range(first..=last);
                            $moves.stand(first, last, Status::Start);
                            $moves.number = $moves.number.wrapping_add(1);
                            cursor.store($moves.number).unwrap();
                            $moves.stored(Some(u32::from($moves.number)));
                            at = last;
                        }
                        assert_eq!(
                            $nodes.allocated(),
                            allocated,
                            "stores in bulk mode took memory"
                        );
                    } else {
                        assert!($nodes.is_dry());
                    }
                    (None::<u32>, None)
                }
            };
            $nodes.allow(usize::MAX);
            let place = Place {
                index: cursor.index(),
                last: cursor.last(),
                status: cursor.status(),
            };
            let without_nodes = [before, place.status]
                .iter()
                .any(|status| matches!(status, Status::None | Status::Root));
            if without_nodes && $moves.is_small() {
                // States of their own: see the test `states_without_nodes`.
                if let Some(number) = is {
                    assert_eq!($moves.model.at(place.index).number, Some(number));
                }
                $moves.at = place;
            } else {
                assert_eq!(
                    (is, place),
                    (should, $moves.at),
                    "after {code:#x} from {before:?}"
                );
            }
        }
    }};
}

fn run<K: Index, S: Shape>(mut bytes: Bytes<'_>, middle: K) {
    let nodes = Countdown::new();
    let mut moves = Moves::new(middle);
    let modes = bytes.byte();
    if modes & 1 == 0 {
        let mut map: Map<K, S> = if modes & 2 == 0 {
            MapleTree::new_in(nodes.clone())
        } else {
            MapleTree::with_gaps_in(nodes.clone())
        };
        while !bytes.is_empty() {
            let cursor = map.cursor_mut(K::MIN..=K::MIN);
            moves!(cursor, bytes, moves, nodes);
            compare(&map, &moves.model, &nodes);
        }
    } else {
        let tree: Shared<K, S> = if modes & 2 == 0 {
            SyncMapleTree::new_in(Waiting::new(), nodes.clone())
        } else {
            SyncMapleTree::with_gaps_in(Waiting::new(), nodes.clone())
        };
        while !bytes.is_empty() {
            let mut writer = tree.write();
            let cursor = writer.cursor_mut(K::MIN..=K::MIN);
            moves!(cursor, bytes, moves, nodes);
            writer.check().unwrap();
        }
        compare(&tree.into_exclusive(), &moves.model, &nodes);
    }
    assert_eq!(nodes.live(), 0, "nodes are left");
}

fn compare<K: Index, S: Shape>(map: &Map<K, S>, model: &Model<K>, nodes: &Nodes) {
    map.check().unwrap();
    let is = map
        .iter()
        .map(|(range, number)| (*range.start(), *range.end(), Some(u32::from(number))));
    assert!(
        is.eq(model
            .entries()
            .map(|slot| (slot.first, slot.last, slot.number)))
    );
    assert_eq!(nodes.live(), map.stats().nodes());
}
