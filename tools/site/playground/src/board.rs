//! Trees of several fanouts by one set of calls.

use std::fmt::Write as _;

use maple_tree::alloc::Global;
use maple_tree::{Fanout, Format, MapleTree, Shape};

/// A tree of numbers. Each call says in words what came of it.
pub trait Board {
    /// Stores a value over whatever is there.
    fn store(&mut self, first: u64, last: u64, value: u16) -> String;
    /// Makes a range a hole.
    fn erase(&mut self, first: u64, last: u64) -> String;
    /// Returns the entry at an index.
    fn get(&self, key: u64) -> String;
    /// Returns the lowest or highest gap of `size` indices.
    fn gap(&self, low: u64, high: u64, size: u64, highest: bool) -> String;
    /// Figures, check, entries and nodes.
    fn describe(&self, out: &mut String);
}

/// Returns an empty tree.
#[must_use]
pub fn board(slots: u32, gaps: bool) -> Box<dyn Board> {
    match slots {
        4 => empty::<Fanout<4>>(gaps),
        8 => empty::<Fanout<8>>(gaps),
        _ => empty::<Fanout<16>>(gaps),
    }
}

type Map<S> = MapleTree<u64, u16, Global, S>;

fn empty<S: Shape>(gaps: bool) -> Box<dyn Board> {
    Box::new(if gaps {
        Map::<S>::with_gaps_in(Global)
    } else {
        Map::<S>::new_in(Global)
    })
}

impl<S: Shape> Board for Map<S> {
    fn store(&mut self, first: u64, last: u64, value: u16) -> String {
        // An entry of which both ends stay has its value twice.
        match self.store_range_splitting(first..=last, value, |_, old| Some(old)) {
            Ok(()) => format!("stored {value} at {first}-{last}"),
            Err(error) => format!("not stored: {error}"),
        }
    }

    fn erase(&mut self, first: u64, last: u64) -> String {
        match self.erase_range_splitting(first..=last, |_, old| Some(old)) {
            Ok(()) => format!("erased {first}-{last}"),
            Err(error) => format!("not erased: {error}"),
        }
    }

    fn get(&self, key: u64) -> String {
        match (self.get_range(key), self.hole_at(key)) {
            (Some((range, value)), _) => {
                format!("found {} at {}-{}", value, range.start(), range.end())
            }
            (None, Some(hole)) => format!("a hole at {}-{}", hole.start(), hole.end()),
            (None, None) => "nothing".to_owned(),
        }
    }

    fn gap(&self, low: u64, high: u64, size: u64, highest: bool) -> String {
        let found = if highest {
            self.gap_down(low..=high, size)
        } else {
            self.gap_up(low..=high, size)
        };
        match found {
            Some(place) => format!("room for {size} at {place}"),
            None => format!("no room for {size}"),
        }
    }

    fn describe(&self, out: &mut String) {
        let stats = self.stats();
        let fill = (stats.leaf_fill() * 100.0).round();
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "figures {} {} {} {fill}",
            stats.entries,
            stats.nodes(),
            stats.bytes()
        );
        let _ = match self.check() {
            Ok(()) => writeln!(out, "check passed"),
            Err(damage) => writeln!(out, "check {damage}"),
        };
        for (range, value) in self.iter() {
            let _ = writeln!(out, "entry {} {} {}", range.start(), range.end(), value);
        }
        let _ = write!(out, "{}", self.dump(Format::Decimal));
    }
}
