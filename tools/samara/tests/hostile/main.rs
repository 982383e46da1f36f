//! Input from outside, damaged in every way: it is taken, or refused with the place of the error,
//! and nothing panics.
//!
//! Each input of `tests/inputs` is cut at every length, and changed at random places some hundred times. What is taken is used: recordings are performed
//! again and drawn. What fuzz targets have kept is tried, too.

#![allow(clippy::unwrap_used, reason = "test")]

mod take;

use std::fs;
use std::path::Path;

/// Numbers without an end.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }

    /// A few bytes changed, taken out, doubled or put in.
    fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..1 + self.below(3) {
            let at = self.below(bytes.len());
            let end = (at + 1 + self.below(12)).min(bytes.len());
            match self.below(6) {
                0 => bytes.truncate(at),
                1 => drop(bytes.drain(at..end)),
                2 => {
                    let piece = bytes[at..end].to_vec();
                    let to = self.below(bytes.len());
                    bytes.splice(to..to, piece);
                }
                3 => bytes.insert(at, [0, 0x7f, 0x80, 0xff, b'\n', b' ', b'9'][self.below(7)]),
                _ if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                _ => {}
            }
        }
    }
}

/// Every input of a folder, and what becomes of it by damage.
fn damaged(folder: &str, rounds: usize, take: impl Fn(&[u8])) {
    let inputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inputs");
    // The package may be tested apart from its repository.
    let Ok(entries) = fs::read_dir(inputs.join(folder)) else {
        return;
    };
    for entry in entries {
        let whole = fs::read(entry.unwrap().path()).unwrap();
        take(&whole);
        for length in 0..whole.len() {
            take(&whole[..length]);
        }
        let mut random = Random(1);
        for _ in 0..rounds {
            let mut bytes = whole.clone();
            random.damage(&mut bytes);
            take(&bytes);
        }
    }
}

/// Runs the corpus of a fuzz target.
fn kept(target: &str, take: impl Fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for file in corpus.join(target).read_dir().into_iter().flatten() {
        take(&fs::read(file.unwrap().path()).unwrap());
    }
}

#[test]
fn maps_are_taken_or_refused_with_the_line() {
    damaged("maps", 3000, take::maps);
    kept("cli_maps", take::maps);
}

#[test]
fn smaps_are_taken_or_refused_with_the_line_however_they_come() {
    damaged("smaps", 3000, take::smaps);
    kept("cli_smaps", take::smaps);
}

#[test]
fn recordings_are_taken_or_refused_with_the_byte() {
    damaged("record", 1500, |bytes| take::records(3, bytes));
    kept("cli_records", take::any_records);
}

#[test]
fn whole_recordings_are_refused_with_the_byte() {
    damaged("trace", 500, take::recording);
}

#[test]
fn texts_of_strace_are_taken_or_refused_with_line_and_column() {
    damaged("strace", 1500, take::recording);
    kept("cli_strace", take::recording);
}
