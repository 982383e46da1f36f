//! `/proc/PID/maps` as numbers: a whole map, and the open file that it is read from.
//!
//! The text is read into one reused buffer and parsed by hand, because a tracer may read a map after
//! every call of its program. Names stay where they were read; nothing is allocated for a line.

mod file;

use std::fmt;
use std::io;
use std::ops::Range;

pub use file::{AreaInfo, MapsFile};

/// One line of `/proc/PID/maps`. Addresses and the offset are in bytes, `end` is exclusive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Area {
    /// The first address.
    pub start: u64,
    /// The address behind the last one.
    pub end: u64,
    /// `rwxp` as printed.
    pub perms: [u8; 4],
    /// The offset in its file at which the area begins.
    pub offset: u64,
    /// The file's device: the major number.
    pub major: u32,
    /// The file's device: the minor number.
    pub minor: u32,
    /// The file's inode; 0 without a file.
    pub inode: u64,
    /// The range of the name in the text that the area was read from.
    name: Range<u32>,
}

/// A whole map in ascending order, with the text that it came from.
///
/// The `[vsyscall]` page is left out of what [`refill`](Map::refill) reads: it is the same in every process.
#[derive(Debug, Default, Clone)]
pub struct Map {
    text: Vec<u8>,
    areas: Vec<Area>,
}

/// The error of a line that is not one of `/proc/PID/maps`: its number, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadLine(
    /// The line's number.
    pub usize,
);

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} is not a line of /proc/PID/maps", self.0)
    }
}

impl std::error::Error for BadLine {}

impl From<BadLine> for io::Error {
    fn from(line: BadLine) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, line.to_string())
    }
}

impl Map {
    /// Reads a map anew from what `fill` appends to the emptied buffer.
    ///
    /// # Errors
    /// Returns what `fill` returns, and [`BadLine`] for a text that is not a map.
    pub fn refill<E: From<BadLine>>(
        &mut self,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.clear();
        fill(&mut self.text)?;
        let mut at = 0;
        let mut number = 1;
        while at < self.text.len() {
            let rest = &self.text[at..];
            let length = line_feed(rest).unwrap_or(rest.len());
            let area = parse(&rest[..length], at as u32).ok_or(BadLine(number))?;
            // The page of old system calls belongs to no address space: it is the same in every process.
            if area.start < VSYSCALL {
                self.areas.push(area);
            }
            at += length + 1;
            number += 1;
        }
        Ok(())
    }

    /// Parses the text of a `/proc/PID/maps`.
    ///
    /// # Errors
    /// [`BadLine`] for a text that is not a map.
    pub fn parse(text: &[u8]) -> Result<Self, BadLine> {
        let mut map = Self::default();
        map.refill(|buffer| {
            buffer.extend_from_slice(text);
            Ok::<(), BadLine>(())
        })?;
        Ok(map)
    }

    /// Removes all areas.
    pub fn clear(&mut self) {
        self.text.clear();
        self.areas.clear();
    }

    /// Appends one area with its name.
    pub fn push(&mut self, mut area: Area, name: &[u8]) {
        let from = self.text.len() as u32;
        self.text.extend_from_slice(name);
        area.name = from..self.text.len() as u32;
        self.areas.push(area);
    }

    /// Appends the area of one line. Returns `None` if it is not a line of maps.
    pub fn push_line(&mut self, line: &[u8]) -> Option<()> {
        let area = parse(line, 0)?;
        let name = line.get(area.name.start as usize..area.name.end as usize)?;
        self.push(area, name);
        Some(())
    }

    /// Removes the last area if it is the `[vsyscall]` page. Returns `true` if it was.
    pub(crate) fn drop_vsyscall(&mut self) -> bool {
        self.areas.pop_if(|area| area.start >= VSYSCALL).is_some()
    }

    /// Keeps the first `front` areas and the last `behind`, and replaces those between by others.
    pub fn replace(&mut self, front: usize, behind: usize, areas: &Map) {
        let front = front.min(self.areas.len());
        let until = self.areas.len().saturating_sub(behind).max(front);
        let base = self.text.len() as u32;
        self.text.extend_from_slice(&areas.text);
        let moved = areas.areas.iter().map(|area| Area {
            name: area.name.start + base..area.name.end + base,
            ..area.clone()
        });
        self.areas.splice(front..until, moved);
        // Names of areas that are gone stay behind in the text, until they are most of it.
        if self.text.len() > LONGEST_TEXT {
            let mut compact = Map::default();
            for area in &self.areas {
                compact.push(area.clone(), self.name(area));
            }
            *self = compact;
        }
    }

    /// Returns the areas in ascending order.
    pub fn areas(&self) -> &[Area] {
        &self.areas
    }

    /// Returns the area that holds `address`.
    pub fn at(&self, address: u64) -> Option<&Area> {
        let behind = self.areas.partition_point(|area| area.end <= address);
        self.areas.get(behind).filter(|area| area.start <= address)
    }

    /// Returns the name of one of this map's areas, as printed; empty without a name.
    pub fn name(&self, area: &Area) -> &[u8] {
        self.text
            .get(area.name.start as usize..area.name.end as usize)
            .unwrap_or_default()
    }
}

/// A text of more bytes is copied without the names of removed areas.
const LONGEST_TEXT: usize = 1 << 20;

/// The address of the `[vsyscall]` page.
const VSYSCALL: u64 = 0xffff_ffff_ff60_0000;

impl Area {
    /// Parses one line, without allocating. Returns `None` if it is not a line of maps. No map has the
    /// area's name: [`Map::push_line`] keeps it.
    pub fn parse(line: &[u8]) -> Option<Self> {
        parse(line, 0)
    }

    /// Creates an area without a name, for [`Map::push`]. `id` is the file's: major, minor, inode.
    pub fn new(start: u64, end: u64, perms: [u8; 4], offset: u64, id: (u32, u32, u64)) -> Self {
        Self {
            start,
            end,
            perms,
            offset,
            major: id.0,
            minor: id.1,
            inode: id.2,
            name: 0..0,
        }
    }
}

/// Values of hexadecimal digits as the kernel prints them; others have this.
const NO_DIGIT: u8 = 0xff;
const DIGITS: [u8; 256] = {
    let mut values = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < 16 {
        values[b"0123456789abcdef"[digit] as usize] = digit as u8;
        digit += 1;
    }
    values
};

/// Reads hexadecimal digits up to `stop`, and leaves `at` behind it.
fn hex(line: &[u8], at: &mut usize, stop: u8) -> Option<u64> {
    let mut value: u64 = 0;
    let mut zeroes = true;
    let mut significant = 0;
    for (count, &byte) in line.get(*at..)?.iter().enumerate() {
        let digit = DIGITS[usize::from(byte)];
        if digit == NO_DIGIT {
            *at += count + 1;
            return (byte == stop && count > 0 && significant <= 16).then_some(value);
        }
        zeroes &= digit == 0;
        significant += u32::from(!zeroes);
        value = value << 4 | u64::from(digit);
    }
    None
}

/// Returns the place of the first line feed. Bytes are compared eight at a time: there are many.
pub(crate) fn line_feed(text: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const FEEDS: u64 = ONES * b'\n' as u64;
    let mut at = 0;
    while let Some(eight) = text.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let different = u64::from_le_bytes(*eight) ^ FEEDS;
        // The lowest byte that is zero has its highest bit set here; only bytes above it may have it wrongly.
        let zero = different.wrapping_sub(ONES) & !different & (ONES << 7);
        if zero != 0 {
            return Some(at + zero.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    let rest = text.get(at..)?;
    rest.iter()
        .position(|&byte| byte == b'\n')
        .map(|place| at + place)
}

fn parse(line: &[u8], base: u32) -> Option<Area> {
    let mut at = 0;
    let start = hex(line, &mut at, b'-')?;
    let end = hex(line, &mut at, b' ')?;
    let perms: [u8; 4] = line.get(at..at + 4)?.try_into().ok()?;
    at += 5;
    let offset = hex(line, &mut at, b' ')?;
    let major = u32::try_from(hex(line, &mut at, b':')?).ok()?;
    let minor = u32::try_from(hex(line, &mut at, b' ')?).ok()?;
    let mut inode: u64 = 0;
    while let Some(digit @ b'0'..=b'9') = line.get(at) {
        inode = inode
            .checked_mul(10)?
            .checked_add(u64::from(digit - b'0'))?;
        at += 1;
    }
    let spaces = line.get(at..)?.iter();
    at += spaces.take_while(|&&byte| byte == b' ').count();
    Some(Area {
        start,
        end,
        perms,
        offset,
        major,
        minor,
        inode,
        name: base + at as u32..base + line.len() as u32,
    })
}

/// Writes an area as the kernel prints it, with one blank before the name and no line feed.
pub fn format_line(
    f: &mut impl fmt::Write,
    range: (u64, u64),
    perms: [u8; 4],
    offset: u64,
    id: (u32, u32, u64),
    name: &str,
) -> fmt::Result {
    write!(
        f,
        "{:08x}-{:08x} {} {:08x} {:02x}:{:02x} {}",
        range.0,
        range.1,
        String::from_utf8_lossy(&perms),
        offset,
        id.0,
        id.1,
        id.2
    )?;
    if !name.is_empty() {
        write!(f, " {name}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Map, BadLine> {
        Map::parse(text.as_bytes())
    }

    #[test]
    fn lines_become_numbers_and_names() {
        let map = read(concat!(
            "5577bad58000-5577bad5b000 r--p 00001000 fe:00 247741                     /usr/bin/a b (deleted)\n",
            "7ffc0000-7ffd0000 rw-p 00000000 00:00 0 \n",
            "7ffd5000-7ffd6000 rw-s 00000000 00:00 0                          [stack]\n",
            "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n",
        ))
        .unwrap();
        assert_eq!(map.areas().len(), 3);
        let first = &map.areas()[0];
        assert_eq!(
            (first.start, first.end),
            (0x5577_bad5_8000, 0x5577_bad5_b000)
        );
        assert_eq!((first.major, first.minor, first.inode), (0xfe, 0, 247_741));
        assert_eq!(first.offset, 0x1000);
        assert_eq!(map.name(first), b"/usr/bin/a b (deleted)");
        assert_eq!(map.name(&map.areas()[1]), b"");
        assert_eq!(map.name(&map.areas()[2]), b"[stack]");
        assert_eq!(&map.areas()[2].perms, b"rw-s");
    }

    #[test]
    fn line_feeds_are_found_wherever_they_are() {
        for length in 0..40 {
            for byte in [0, 9, 11, b'a', 0x8a, 0xff] {
                let mut text = vec![byte; length];
                assert_eq!(line_feed(&text), None);
                for place in (0..length).rev() {
                    text[place] = b'\n';
                    assert_eq!(line_feed(&text), Some(place));
                }
            }
        }
    }

    #[test]
    fn a_bad_line_is_told_by_its_number() {
        assert_eq!(
            read("1000-2000 r--p 0 0:0 0\nnonsense\n").unwrap_err(),
            BadLine(2)
        );
        assert_eq!(read("1000-2000 r--").unwrap_err(), BadLine(1));
        assert_eq!(
            read("11112222333344445-2000 r--p 0 0:0 0\n").unwrap_err(),
            BadLine(1)
        );
    }

    #[test]
    fn the_own_map_can_be_read() {
        let text = std::fs::read_to_string("/proc/self/maps").unwrap();
        let map = read(&text).unwrap();
        for (area, line) in map.areas().iter().zip(text.lines()) {
            let mut printed = String::new();
            format_line(
                &mut printed,
                (area.start, area.end),
                area.perms,
                area.offset,
                (area.major, area.minor, area.inode),
                std::str::from_utf8(map.name(area)).unwrap(),
            )
            .unwrap();
            let squeezed: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(printed.split_whitespace().collect::<Vec<_>>(), squeezed);
        }
    }
}
