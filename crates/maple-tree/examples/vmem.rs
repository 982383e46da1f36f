//! The areas of a library OS: what LiteBox's `Vmem` does over a `rangemap`, over a maple tree instead. Areas with the same flags that touch
//! are one; protecting, resizing and moving check first and change then; placement is from above.
//!
//! The history in `main` is that of LiteBox's own test, written anew, with the expected contents
//! after each step.

use std::ops::Range;

use maple_tree::{HalfOpen, MapleTree};

const PAGE: usize = 0x1000;
const LOWEST: usize = 0x1_0000;
const HIGHEST: usize = 0x7fff_f000;

/// The permissions of an area, and (eight bits up) the permissions that it may get.
type Flags = u16;
const READ: Flags = 1;
const WRITE: Flags = 2;
const EXEC: Flags = 4;
const MAY_READ: Flags = READ << 8;
const MAY_WRITE: Flags = WRITE << 8;
const ACCESS: Flags = READ | WRITE | EXEC;

#[derive(Debug, PartialEq, Eq)]
enum Error {
    /// Nothing is there, or not everywhere.
    NotMapped,
    /// The range reaches beyond its area.
    Beyond,
    /// Something else is there.
    Occupied,
    /// The area may never be used like this.
    Forbidden,
    NoMemory,
}

struct Vmem {
    areas: MapleTree<usize, Flags>,
}

impl Vmem {
    fn new() -> Self {
        // Placement asks for gaps.
        Self {
            areas: MapleTree::with_gaps(),
        }
    }

    fn areas(&self) -> Vec<Range<usize>> {
        let ranges = self.areas.ranges();
        ranges.filter_map(|range| range.half_open()).collect()
    }

    /// Maps over whatever is there.
    fn insert(&mut self, range: Range<usize>, flags: Flags) -> Result<(), Error> {
        self.areas
            .store_range_coalescing_splitting(range, flags, |a, b| a == b, |_, around| Some(around))
            .map_err(|_| Error::NoMemory)?;
        Ok(())
    }

    fn remove(&mut self, range: Range<usize>) -> Result<(), Error> {
        self.areas
            .erase_range_splitting(range, |_, around| Some(around))
            .map_err(|_| Error::NoMemory)
    }

    /// Maps at a place of the caller's, or at the highest that is free.
    fn create(&mut self, at: Option<usize>, len: usize, flags: Flags) -> Result<usize, Error> {
        let start = match at {
            Some(start) => start,
            None => self
                .areas
                .gap_down(LOWEST..HIGHEST, len)
                .ok_or(Error::NoMemory)?,
        };
        self.insert(start..start + len, flags)?;
        Ok(start)
    }

    /// Other access for a range, all of which is mapped and may have it.
    fn protect(&mut self, range: Range<usize>, access: Flags) -> Result<(), Error> {
        if !self.areas.covers(range.clone()) {
            return Err(Error::NotMapped);
        }
        let pieces: Vec<_> = self.areas.range_clipped(range).collect();
        if pieces.iter().any(|(_, flags)| access & !(flags >> 8) != 0) {
            return Err(Error::Forbidden);
        }
        for (piece, flags) in pieces {
            let piece = piece.half_open().ok_or(Error::Beyond)?;
            self.insert(piece, flags & !ACCESS | access)?;
        }
        Ok(())
    }

    /// Returns the flags of the area that a range is in.
    fn area_of(&self, range: &Range<usize>) -> Result<(usize, Flags), Error> {
        let (area, flags) = self.areas.get_range(range.start).ok_or(Error::NotMapped)?;
        let end = area.half_open().ok_or(Error::Beyond)?.end;
        if end < range.end {
            return Err(Error::Beyond);
        }
        Ok((end, flags))
    }

    /// Makes a range longer, if nothing is behind it, or shorter.
    fn resize(&mut self, range: Range<usize>, len: usize) -> Result<(), Error> {
        let (_, flags) = self.area_of(&range)?;
        let end = range.start + len;
        if end <= range.end {
            return if end == range.end {
                Ok(())
            } else {
                self.remove(end..range.end)
            };
        }
        if self.areas.overlaps(range.end..end) {
            return Err(Error::Occupied);
        }
        self.insert(range.end..end, flags)
    }

    /// Moves a range to a place that is free, and makes it longer there.
    fn relocate(&mut self, range: Range<usize>, to: usize, len: usize) -> Result<usize, Error> {
        let (_, flags) = self.area_of(&range)?;
        if self.areas.overlaps(to..to + len) {
            return Err(Error::Occupied);
        }
        self.create(Some(to), len, flags)?;
        self.remove(range)?;
        Ok(to)
    }
}

fn main() -> Result<(), Error> {
    let at = |page: usize| LOWEST + page * PAGE;
    let pages = |range: Range<usize>| at(range.start)..at(range.end);
    let mut vmem = Vmem::new();

    vmem.insert(pages(0..12), READ | MAY_READ | MAY_WRITE)?;
    assert_eq!(vmem.areas(), [pages(0..12)]);
    vmem.remove(pages(2..4))?;
    assert_eq!(vmem.areas(), [pages(0..2), pages(4..12)]);

    // What cannot be done leaves all as it was.
    assert_eq!(vmem.resize(pages(2..3), 2 * PAGE), Err(Error::NotMapped));
    assert_eq!(vmem.resize(pages(0..3), 4 * PAGE), Err(Error::Beyond));
    assert_eq!(vmem.protect(pages(2..4), READ), Err(Error::NotMapped));
    assert_eq!(vmem.areas(), [pages(0..2), pages(4..12)]);

    // Growing to the next area joins it.
    vmem.resize(pages(0..2), 4 * PAGE)?;
    assert_eq!(vmem.areas(), [pages(0..12)]);

    assert_eq!(
        vmem.protect(pages(0..4), READ | EXEC),
        Err(Error::Forbidden)
    );
    vmem.protect(pages(2..4), READ | WRITE)?;
    assert_eq!(vmem.areas(), [pages(0..2), pages(2..4), pages(4..12)]);

    assert_eq!(vmem.resize(pages(2..4), 4 * PAGE), Err(Error::Occupied));
    assert_eq!(vmem.relocate(pages(2..4), at(12), 4 * PAGE)?, at(12));
    assert_eq!(vmem.areas(), [pages(0..2), pages(4..12), pages(12..16)]);

    // Without a wish: as high as there is room.
    assert_eq!(vmem.create(None, PAGE, READ | MAY_READ)?, HIGHEST - PAGE);
    // At a place, over what is there.
    vmem.create(Some(at(1)), PAGE, READ | MAY_READ)?;
    let high = HIGHEST - PAGE..HIGHEST;
    let low = [pages(0..1), pages(1..2), pages(4..12), pages(12..16)];
    assert_eq!(
        vmem.areas(),
        [&low[..], std::slice::from_ref(&high)].concat()
    );

    // Shrinking a part of an area leaves a hole in it.
    vmem.resize(pages(4..8), 2 * PAGE)?;
    assert_eq!(vmem.areas()[2..4], [pages(4..6), pages(8..12)]);

    // Equal again, and one again.
    vmem.protect(pages(12..16), READ)?;
    assert_eq!(vmem.areas()[3], pages(8..16));
    Ok(())
}

#[test]
fn the_history_is_as_told() {
    assert_eq!(main(), Ok(()));
}
