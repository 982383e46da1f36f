//! What others write and this program reads, damaged in every way: it is taken, or refused with the place that is wrong, and nothing panics.
//!
//! Each input of `tests/inputs` is cut at every length, and changed at random places some hundred times. What is taken is used: recordings are performed
//! again and drawn.

use std::fs;
use std::io::BufReader;
use std::path::Path;

use crate::maps::{BadLine, Map};
use crate::picture;
use crate::record::Reader;
use crate::replay;
use crate::show::smaps::Smaps;

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
fn damaged(folder: &str, rounds: usize, mut take: impl FnMut(&[u8])) {
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

fn lines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte == b'\n').count() + 1
}

#[test]
fn maps_are_taken_or_refused_with_the_line() {
    damaged("maps", 3000, |bytes| {
        let mut map = Map::default();
        let read = map.refill(|text| {
            text.extend_from_slice(bytes);
            Ok::<(), BadLine>(())
        });
        match read {
            Ok(()) => map
                .areas()
                .iter()
                .for_each(|area| drop(map.name(area).to_vec())),
            Err(BadLine(line)) => assert!((1..=lines(bytes)).contains(&line)),
        }
    });
}

#[test]
fn smaps_are_taken_or_refused_with_the_line_however_they_come() {
    damaged("smaps", 3000, |bytes| {
        let told = |smaps: Result<Smaps, _>| match smaps {
            Ok(smaps) => Ok((smaps.map.areas().to_vec(), smaps.told)),
            Err(trouble) => Err(crate::show::smaps::Trouble::to_string(&trouble)),
        };
        let whole = told(Smaps::read(bytes));
        for capacity in [7, 64] {
            let piecewise = told(Smaps::read(BufReader::with_capacity(capacity, bytes)));
            match (&whole, &piecewise) {
                (Ok((areas, told)), Ok((others, too))) => {
                    // Where their names are is no matter.
                    let range = |area: &crate::maps::Area| (area.start, area.end, area.perms);
                    assert!(areas.iter().map(range).eq(others.iter().map(range)));
                    assert_eq!(told, too);
                }
                (whole, piecewise) => assert_eq!(whole.as_ref().err(), piecewise.as_ref().err()),
            }
        }
        if let Err(text) = whole {
            let line = text
                .strip_prefix("line ")
                .and_then(|rest| rest.split(' ').next());
            let line: usize = line.unwrap().parse().unwrap();
            assert!((1..=lines(bytes) + 1).contains(&line), "{text}");
        }
    });
}

/// Performs what is taken, and draws an eighth of that.
fn used(read: Result<Reader, String>, place: &str) {
    match read {
        Ok(reader) => {
            let film = replay::film(&reader);
            if reader.length.is_multiple_of(8) {
                let [page, drawing] = picture::both(&film);
                assert!(page.ends_with("</html>\n") && drawing.ends_with("</svg>\n"));
            }
            let _ = replay::after(&reader, 5);
        }
        Err(text) => assert!(text.contains(place), "{text}"),
    }
}

#[test]
fn recordings_are_taken_or_refused_with_the_byte() {
    damaged("record", 1500, |records| {
        // With check sums that are right, so that the records themselves are looked at.
        let description = br#"{"program":["a"],"kernel":"6.12.0"}"#;
        let mut file = b"SAMARATR".to_vec();
        let mut put = |bytes: &[u8], version: Option<u32>| {
            file.extend(version.map(u32::to_le_bytes).into_iter().flatten());
            file.extend((bytes.len() as u32).to_le_bytes());
            let mut hasher = crc32fast::Hasher::new_with_initial(0);
            hasher.update(bytes);
            file.extend(hasher.finalize().to_le_bytes());
            file.extend(bytes);
        };
        put(description, Some(3));
        put(records, None);
        used(Reader::either(&file[..]), ": at byte ");
    });
}

#[test]
fn whole_recordings_are_refused_with_the_byte() {
    damaged("trace", 500, |bytes| {
        used(Reader::either(bytes), ": at byte ");
    });
}

#[test]
fn texts_of_strace_are_taken_or_refused_with_line_and_column() {
    damaged("strace", 1500, |bytes| {
        let read = Reader::either(bytes);
        // What does not look like strace's is taken for a recording, and is none.
        let place = match &read {
            Err(text) if text.contains("strace: line ") => ", column ",
            _ => ": at byte ",
        };
        used(read, place);
    });
}
