//! The kernel's own account of an address space: `/proc/PID/maps` as numbers.
//!
//! The text is read into one reused buffer and parsed by hand, because with `--verify each` this runs after
//! every call of the traced program. Names stay where they were read; nothing is allocated for a line.

use std::fmt;
use std::ops::Range;

/// One line of `/proc/PID/maps`. Addresses and the offset are in bytes, `end` is exclusive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// `rwxp` as printed.
    pub(crate) perms: [u8; 4],
    pub(crate) offset: u64,
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) inode: u64,
    /// Where the name lies in the text that the area was read from.
    name: Range<u32>,
}

/// A whole map, and the text it came from.
#[derive(Debug, Default, Clone)]
pub(crate) struct Map {
    text: Vec<u8>,
    areas: Vec<Area>,
}

/// A line that is not one of `/proc/PID/maps`: its number, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadLine(pub(crate) usize);

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} is not a line of /proc/PID/maps", self.0)
    }
}

impl Map {
    /// Reads a map anew from what `fill` appends to the emptied buffer.
    pub(crate) fn refill<E: From<BadLine>>(
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

    /// Takes all areas away.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.areas.clear();
    }

    /// Appends one area with its name.
    pub(crate) fn push(&mut self, mut area: Area, name: &[u8]) {
        let from = self.text.len() as u32;
        self.text.extend_from_slice(name);
        area.name = from..self.text.len() as u32;
        self.areas.push(area);
    }

    /// Appends the area that a line of the text tells of; `None` if it is no such line.
    pub(crate) fn push_line(&mut self, line: &[u8]) -> Option<()> {
        let area = parse(line, 0)?;
        let name = line.get(area.name.start as usize..area.name.end as usize)?;
        self.push(area, name);
        Some(())
    }

    /// Takes the last area away again if it is the page of old system calls, and tells whether it was.
    pub(crate) fn drop_vsyscall(&mut self) -> bool {
        self.areas.pop_if(|area| area.start >= VSYSCALL).is_some()
    }

    /// Keeps `front` areas in front and `behind` behind, and puts others between them.
    pub(crate) fn replace(&mut self, front: usize, behind: usize, areas: &Map) {
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

    /// The areas in ascending order.
    pub(crate) fn areas(&self) -> &[Area] {
        &self.areas
    }

    /// The area that holds `address`.
    pub(crate) fn at(&self, address: u64) -> Option<&Area> {
        let behind = self.areas.partition_point(|area| area.end <= address);
        self.areas.get(behind).filter(|area| area.start <= address)
    }

    /// The name of one of this map's areas, as printed (empty for none).
    pub(crate) fn name(&self, area: &Area) -> &[u8] {
        self.text
            .get(area.name.start as usize..area.name.end as usize)
            .unwrap_or_default()
    }
}

/// A text of this many bytes is copied without what nobody names any more.
const LONGEST_TEXT: usize = 1 << 20;

/// Where the fixed page of old system calls lies.
const VSYSCALL: u64 = 0xffff_ffff_ff60_0000;

impl Area {
    /// An area without a name yet, for [`Map::push`].
    pub(crate) fn new(
        start: u64,
        end: u64,
        perms: [u8; 4],
        offset: u64,
        id: (u32, u32, u64),
    ) -> Self {
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

/// The place of the first line feed. Most bytes of a map are looked at by eights: there are many.
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

/// Prints an area as the kernel does.
pub(crate) fn format_line(
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
        let mut map = Map::default();
        map.refill(|buffer| {
            buffer.extend_from_slice(text.as_bytes());
            Ok::<(), BadLine>(())
        })?;
        Ok(map)
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
