//! Reading input from outside: text of `/proc`, recordings, text of strace. Each input is taken as
//! a whole, or refused with the place of the error. No input causes a panic.
//!
//! The commands read through the same doors. These functions are for tests and fuzz targets.

use std::fmt::Write;
use std::io::BufRead;

use samara_linux::maps::{BadLine, Map};
use samara_linux::smaps::Smaps;
use samara_tracer::record::{self, Reader};
use samara_tracer::replay;
use samara_tracer::vm_flags::of_smaps;

use crate::picture;
pub use samara_tracer::replay::Ended;

/// Reads the text of a `/proc/PID/maps`, and tells what was understood: a line for each area.
///
/// # Errors
///
/// The number of the line that is wrong, from 1.
pub fn maps(text: &[u8]) -> Result<String, usize> {
    let mut map = Map::default();
    match map.refill(|buffer| {
        buffer.extend_from_slice(text);
        Ok::<(), BadLine>(())
    }) {
        Ok(()) => Ok(told(&map, |_| String::new())),
        Err(BadLine(line)) => Err(line),
    }
}

/// Reads the text of a `/proc/PID/smaps` as it comes, and tells what was understood: a line for each area.
///
/// # Errors
///
/// What is wrong, and in which line.
pub fn smaps(text: impl BufRead) -> Result<String, String> {
    let smaps = Smaps::read(text).map_err(|trouble| trouble.to_string())?;
    let of_areas = of_smaps(&smaps);
    Ok(told(&smaps.map, |area| format!("{:?}", of_areas[area])))
}

/// Returns the areas of a map with their names, and what `more` has to say of each.
fn told(map: &Map, more: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for (number, area) in map.areas().iter().enumerate() {
        let name = String::from_utf8_lossy(map.name(area));
        let perms = String::from_utf8_lossy(&area.perms);
        let _ = writeln!(
            text,
            "{:x}-{:x} {perms} {:x} {:x}:{:x} {} {name} {}",
            area.start,
            area.end,
            area.offset,
            area.major,
            area.minor,
            area.inode,
            more(number)
        );
    }
    text
}

/// A recording of a program, by `samara trace --record` or by strace.
pub struct Recording(Reader);

impl Recording {
    /// Reads a recording, or what strace wrote.
    ///
    /// # Errors
    ///
    /// What is wrong, and where: at which byte of a recording, or in which line and column of strace's text.
    pub fn read(bytes: impl BufRead) -> Result<Self, String> {
        Reader::either(bytes).map(Self)
    }

    /// Performs it up to a call, or to its end if it has fewer; tells how many areas there are then.
    ///
    /// # Errors
    ///
    /// How many calls there are.
    pub fn perform(&self, calls: u64) -> Result<usize, u64> {
        replay::after(&self.0, calls).map(|space| space.area_count())
    }

    /// Performs all of it, and gives the address spaces that were there, each as it was when it ended; in the order in which they came to be.
    #[must_use]
    pub fn spaces(&self) -> Vec<Ended> {
        replay::spaces(&self.0)
    }

    /// Performs it, and draws the page and the drawing of it.
    #[must_use]
    pub fn pictures(&self) -> [String; 2] {
        picture::both(&picture::film(&self.0))
    }
}

/// Returns the file of a recording of this version of the format that consists of these bytes, with
/// check sums that are right: what reads records is tried with any of them.
#[must_use]
pub fn recorded(version: u32, records: &[u8]) -> Vec<u8> {
    record::file_of(version, r#"{"program":["a"],"kernel":"6.12.0"}"#, records)
}
