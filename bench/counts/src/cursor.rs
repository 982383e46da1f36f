//! Cursors of the maps: a step from entry to entry, and what is stored at one.

use std::hint::black_box;

use maple_tree::{MapleTree, SyncMapleTree, Waiting};

use crate::measured;
use crate::operations::{ENTRIES, Operation, ranges};

type Tree = MapleTree<u64, u32>;
type Shared = SyncMapleTree<u64, u32, Waiting>;

/// The operations by name.
pub(crate) const ALL: &[(&str, Operation)] = &[
    ("cursor-find", map::find),
    ("cursor-next", map::next),
    ("cursor-prev", map::prev),
    ("cursor-store", map::store),
    ("cursor-replace", map::replace),
    ("sync-cursor-find", sync::find),
    ("sync-cursor-next", sync::next),
    ("sync-cursor-prev", sync::prev),
    ("sync-cursor-store", sync::store),
    ("sync-cursor-replace", sync::replace),
    ("sync-cursor-reader", reader),
];

/// The operations of one kind of map; `$writer` gives whatever has its cursors.
macro_rules! operations {
    ($name:ident, $new:expr, $map:ident => $writer:expr) => {
        mod $name {
            use super::*;

            /// Performs one call for each entry of a map.
            macro_rules! each {
                ($cursor:ident from $at:expr => $step:expr) => {{
                    let (ranges, _) = ranges(ENTRIES);
                    #[allow(unused_mut, reason = "one of the maps is written by way of another value")]
                    let mut $map = $new;
                    #[allow(unused_mut, reason = "as above")]
                    let mut writer = $writer;
                    for &(first, end, value) in &ranges.items {
                        let _ = writer.insert_range(first..end, value);
                    }
                    measured(|| {
                        let mut $cursor = writer.cursor_mut($at..=$at);
                        for _ in 0..ENTRIES {
                            $step;
                        }
                    });
                    ENTRIES as u32
                }};
            }

            pub(super) fn find() -> u32 {
                each!(cursor from 0 => black_box(cursor.find(..)))
            }

            pub(super) fn next() -> u32 {
                each!(cursor from 0 => black_box(cursor.next(..)))
            }

            pub(super) fn prev() -> u32 {
                each!(cursor from u64::MAX => black_box(cursor.prev(..)))
            }

            /// To the next entry, and another into its range.
            pub(super) fn store() -> u32 {
                each!(cursor from 0 => {
                    let value = cursor.find(..).unwrap_or(0);
                    let _ = black_box(cursor.store(value ^ 1));
                })
            }

            /// To the next entry, and another in its place.
            pub(super) fn replace() -> u32 {
                each!(cursor from 0 => {
                    let value = cursor.find(..).unwrap_or(0);
                    let _ = black_box(cursor.replace(value ^ 1));
                })
            }
        }
    };
}

operations!(map, Tree::with_gaps(), map => &mut map);
operations!(sync, Shared::with_gaps(Waiting::new()), map => map.write());

/// A reader's cursor, concurrent with a possible writer.
fn reader() -> u32 {
    let (ranges, _) = ranges(ENTRIES);
    let map = Shared::with_gaps(Waiting::new());
    for &(first, end, value) in &ranges.items {
        let _ = map.write().insert_range(first..end, value);
    }
    let reader = map.read();
    measured(|| {
        let mut cursor = reader.cursor(0..=0);
        for _ in 0..ENTRIES {
            black_box(cursor.next(..));
        }
    });
    ENTRIES as u32
}
