//! The height of each address: 128 TiB on a page, in which a page of memory can be seen.
//!
//! Addresses that were ever mapped are cut into *bands*, where the kind and name that an address
//! had first change. A band is as high as its size has digits; within it, addresses are evenly
//! spread. Bands of gaps lie between them, and are low. What is mapped in a band later may have
//! other kinds and names: a band knows all of them.

use std::collections::BTreeMap;

use super::film::{Film, Look, Stay};

/// The end of what a program can map, unless it did beyond.
const TOP: u64 = 0x7fff_ffff_f000;
const PAGE: u64 = 4096;

/// Addresses of one height each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Band {
    /// First address, and the first beyond.
    pub(super) start: u64,
    pub(super) end: u64,
    /// In sixteenths of the height of one page.
    pub(super) height: u32,
    /// A look of each kind and name that was ever mapped in it, the one with the largest share of
    /// its addresses and steps first. A gap has none.
    pub(super) looks: Vec<u32>,
}

/// Returns the bands from address 0 to the end of user addresses, ascending and without holes.
pub(super) fn bands<'a>(film: &Film, stays: impl Iterator<Item = &'a Stay> + Clone) -> Vec<Band> {
    let mut first_alike = Vec::with_capacity(film.looks.len());
    let mut known: BTreeMap<(u8, &str), u32> = BTreeMap::new();
    for (number, Look { kind, name, .. }) in film.looks.iter().enumerate() {
        let first = known.entry((*kind as u8, name)).or_insert(number as u32);
        first_alike.push(*first);
    }
    let mut painted = Painted::default();
    for stay in stays.clone() {
        painted.paint(stay.start, stay.end, first_alike[stay.look as usize]);
    }
    let mut all = Vec::new();
    let mut at = 0;
    for (&start, &(end, _)) in &painted.pieces {
        gap(&mut all, at, start);
        all.push(Band {
            start,
            end,
            height: (16.0 + 16.0 * digits(end - start)) as u32,
            looks: Vec::new(),
        });
        at = end;
    }
    gap(&mut all, at, TOP);
    let alike = |stay: &'a Stay| (stay, first_alike[stay.look as usize]);
    settle(&mut all, stays.map(alike), film.steps.len() as u32);
    all
}

/// Tells each band of the looks that were mapped in it. What is still mapped lasts until step `steps`.
/// O(bands that each stay reaches over · looks of a band).
fn settle<'a>(bands: &mut [Band], stays: impl Iterator<Item = (&'a Stay, u32)>, steps: u32) {
    let mut shares: Vec<Vec<(u32, u128)>> = vec![Vec::new(); bands.len()];
    for (stay, look) in stays {
        let lasted = stay.gone.unwrap_or(steps).saturating_sub(stay.born).max(1);
        let first = bands.partition_point(|band| band.end <= stay.start);
        for (band, shares) in bands.iter().zip(&mut shares).skip(first) {
            if band.start >= stay.end {
                break;
            }
            let bytes = band.end.min(stay.end) - band.start.max(stay.start);
            let share = u128::from(bytes) * u128::from(lasted);
            match shares.iter_mut().find(|(known, _)| *known == look) {
                Some((_, sum)) => *sum += share,
                None => shares.push((look, share)),
            }
        }
    }
    for (band, mut shares) in bands.iter_mut().zip(shares) {
        shares.sort_by_key(|&(look, share)| (std::cmp::Reverse(share), look));
        band.looks = shares.into_iter().map(|(look, _)| look).collect();
    }
}

/// Binary digits of the number of pages, and between two powers of two as far on as the number is.
fn digits(bytes: u64) -> f64 {
    let pages = (bytes / PAGE).max(1);
    let whole = pages.ilog2();
    f64::from(whole) + (pages as f64 / (1u64 << whole) as f64 - 1.0)
}

fn gap(all: &mut Vec<Band>, start: u64, end: u64) {
    if start < end {
        all.push(Band {
            start,
            end,
            height: (8.0 + 2.0 * digits(end - start)) as u32,
            looks: Vec::new(),
        });
    }
}

/// Ranges, each with the first value that was put there. By its start: its end and the value.
#[derive(Default)]
struct Painted {
    pieces: BTreeMap<u64, (u64, u32)>,
}

impl Painted {
    /// Gives what has no value in `start..end` this one. O(pieces in it · log n); pieces of one value that touch are joined.
    fn paint(&mut self, start: u64, end: u64, value: u32) {
        let covered: Vec<(u64, u64)> = self
            .pieces
            .range(..start)
            .next_back()
            .into_iter()
            .chain(self.pieces.range(start..end))
            .map(|(&from, &(until, _))| (from, until))
            .collect();
        let mut at = start;
        for (from, until) in covered {
            if at < from {
                self.put(at, from, value);
            }
            at = at.max(until);
        }
        if at < end {
            self.put(at, end, value);
        }
    }

    /// `start..end` is free.
    fn put(&mut self, mut start: u64, mut end: u64, value: u32) {
        if let Some((&from, &(until, before))) = self.pieces.range(..start).next_back()
            && (until, before) == (start, value)
        {
            start = from;
        }
        if let Some(&(until, behind)) = self.pieces.get(&end)
            && behind == value
        {
            self.pieces.remove(&end);
            end = until;
        }
        self.pieces.insert(start, (end, value));
    }
}

#[cfg(test)]
mod tests {
    use super::super::film::Shown;
    use super::*;
    use crate::kind::Kind;

    /// A band of several names has all of them, the one with the largest share first.
    #[test]
    fn a_band_knows_all_that_was_mapped_in_it() {
        let areas = |names: &[(&str, u64, u64)]| {
            let areas: Vec<_> = names
                .iter()
                .map(|(name, start, end)| Shown {
                    start: *start,
                    end: *end,
                    offset: 0,
                    kind: Kind::File,
                    perms: *b"r--p",
                    name: (*name).to_owned(),
                    flags: samara_mm::VmFlags::empty(),
                    held: None,
                })
                .collect();
            Film::of_moment("", "", areas.into_iter())
        };
        let mut film = areas(&[
            ("/a", 0x1000, 0x5000),
            ("/b", 0x1000, 0x2000),
            ("/c", 0x3000, 0x9000),
        ]);
        // The second and the third came where the first had been, and the second lasted ten times
        // as long as it.
        film.stays[0].gone = Some(1);
        (film.stays[1].born, film.stays[1].gone) = (1, Some(11));
        let all = bands(&film, film.stays.iter());
        let mapped: Vec<_> = all.iter().filter(|band| !band.looks.is_empty()).collect();
        assert_eq!((mapped[0].start, mapped[0].end), (0x1000, 0x5000));
        assert_eq!(mapped[0].looks, [1, 0, 2]);
        assert_eq!(mapped[1].looks, [2]);
    }

    /// Random ranges, compared with an array with a cell for each address.
    #[test]
    fn the_first_value_stays_and_equal_neighbours_join() {
        let mut state = 3_u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..200 {
            let mut painted = Painted::default();
            let mut model = [None; 64];
            for _ in 0..12 {
                let start = random(60);
                let (end, value) = (start + 1 + random(64 - start - 1).min(9), random(3) as u32);
                painted.paint(start, end, value);
                for cell in &mut model[start as usize..end as usize] {
                    cell.get_or_insert(value);
                }
                let mut shown = [None; 64];
                let mut before = None;
                for (&start, &(end, value)) in &painted.pieces {
                    assert!(start < end && before != Some((start, value)));
                    before = Some((end, value));
                    shown[start as usize..end as usize].fill(Some(value));
                }
                assert_eq!(shown, model);
            }
        }
    }
}
