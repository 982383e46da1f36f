//! `/proc/PID/smaps` as numbers: the areas, and how much of each is in memory.
//!
//! The kernel needs some microseconds for each area, and reading its lines must cost little compared
//! with that. Lines are parsed where they were read to, and those in fixed columns are not searched for
//! their ends. An area with the same lines as one shortly before is recognised as a whole: where there
//! are many areas, most are like others.

mod scan;

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader};

pub use scan::{each_flags, page_size, with_own_pages};

use crate::Tid;
use crate::maps::{Map, line_feed};

/// The sizes that smaps prints of one area, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// `Rss`.
    pub resident: u64,
    /// `Pss`: each page divided by how many processes map it.
    pub proportional: u64,
    /// `Shared_Clean`.
    pub shared_clean: u64,
    /// `Shared_Dirty`.
    pub shared_dirty: u64,
    /// `Private_Clean`.
    pub private_clean: u64,
    /// `Private_Dirty`.
    pub private_dirty: u64,
    /// `Referenced`.
    pub referenced: u64,
    /// `Anonymous`.
    pub anonymous: u64,
    /// `AnonHugePages`.
    pub huge_anonymous: u64,
    /// `ShmemPmdMapped`.
    pub huge_shared: u64,
    /// `FilePmdMapped`.
    pub huge_file: u64,
    /// `Shared_Hugetlb` and `Private_Hugetlb`, which are not counted as resident.
    pub hugetlb: u64,
    /// `Swap`.
    pub swapped: u64,
    /// `Locked`.
    pub locked: u64,
}

impl Figures {
    /// Returns the size of pages that were changed since they were read or cleared.
    pub fn dirty(&self) -> u64 {
        self.shared_dirty + self.private_dirty
    }

    /// Returns the size of huge pages of all kinds.
    pub fn huge(&self) -> u64 {
        self.huge_anonymous + self.huge_shared + self.huge_file + self.hugetlb
    }

    /// Adds another area's sizes. A sum that is too large stays at the largest number.
    pub fn add(&mut self, other: &Figures) {
        let mut others = *other;
        for (sum, part) in self.numbers().into_iter().zip(others.numbers()) {
            *sum = sum.saturating_add(*part);
        }
    }

    fn numbers(&mut self) -> [&mut u64; 14] {
        [
            &mut self.resident,
            &mut self.proportional,
            &mut self.shared_clean,
            &mut self.shared_dirty,
            &mut self.private_clean,
            &mut self.private_dirty,
            &mut self.referenced,
            &mut self.anonymous,
            &mut self.huge_anonymous,
            &mut self.huge_shared,
            &mut self.huge_file,
            &mut self.hugetlb,
            &mut self.swapped,
            &mut self.locked,
        ]
    }

    /// Returns the number that a line of this label adds to. `None` for those that are not kept.
    #[inline(always)]
    fn place(&mut self, label: &[u8]) -> Option<&mut u64> {
        Some(match label {
            b"Rss" => &mut self.resident,
            b"Pss" => &mut self.proportional,
            b"Shared_Clean" => &mut self.shared_clean,
            b"Shared_Dirty" => &mut self.shared_dirty,
            b"Private_Clean" => &mut self.private_clean,
            b"Private_Dirty" => &mut self.private_dirty,
            b"Referenced" => &mut self.referenced,
            b"Anonymous" => &mut self.anonymous,
            b"AnonHugePages" => &mut self.huge_anonymous,
            b"ShmemPmdMapped" => &mut self.huge_shared,
            b"FilePmdMapped" => &mut self.huge_file,
            b"Shared_Hugetlb" | b"Private_Hugetlb" => &mut self.hugetlb,
            b"Swap" => &mut self.swapped,
            b"Locked" => &mut self.locked,
            _ => return None,
        })
    }
}

/// The flags of one area, as printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags {
    /// The index of the text among those that differ.
    text: u32,
    /// The number of `ProtectionKey`; 0 without that line.
    pub key: u64,
}

/// A whole smaps: for each area of `map` its flags and its sizes.
#[derive(Debug, Default)]
pub struct Smaps {
    /// The areas.
    pub map: Map,
    /// The flags and the sizes of each area, in the same order.
    pub told: Vec<(Flags, Figures)>,
    /// The texts of flags that differ.
    texts: Vec<Box<str>>,
}

/// The error of a smaps that cannot be read.
#[derive(Debug)]
pub enum SmapsError {
    /// The file cannot be read.
    Reading(io::Error),
    /// A line, counted from 1, and what is wrong there.
    Line(u64, &'static str),
}

impl fmt::Display for SmapsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SmapsError::Reading(error) => error.fmt(f),
            SmapsError::Line(number, what) => write!(f, "line {number} of smaps {what}"),
        }
    }
}

/// No line is so long: a name has at most 4,096 bytes, of which each may be printed as four.
const LONGEST_LINE: usize = 32 << 10;
/// The columns of a label with its colon. The number has the next eight; then come ` kB` and the line
/// feed.
const LABEL: usize = 16;
const LINE: usize = LABEL + 8 + 4;

impl std::error::Error for SmapsError {}

impl Smaps {
    /// Returns the letters of an area's flags as printed, in pairs with blanks between.
    pub fn letters(&self, flags: Flags) -> &str {
        self.texts.get(flags.text as usize).map_or("", |text| text)
    }

    /// Reads the smaps of a thread's address space.
    ///
    /// # Errors
    /// [`SmapsError`], also where the file cannot be opened.
    pub fn of(tid: Tid) -> Result<Self, SmapsError> {
        let file = File::open(format!("/proc/{tid}/smaps")).map_err(SmapsError::Reading)?;
        Self::read(BufReader::new(file))
    }

    /// Reads all of it.
    ///
    /// # Errors
    /// [`SmapsError`] for a text that is not smaps, and for one of a map that changed between two reads.
    pub fn read(mut from: impl BufRead) -> Result<Self, SmapsError> {
        let mut parser = Parser::default();
        // The beginning of a line whose end is still to come.
        let mut kept: Vec<u8> = Vec::new();
        loop {
            let there = match from.fill_buf() {
                Ok(there) => there,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(SmapsError::Reading(error)),
            };
            if there.is_empty() {
                if !kept.is_empty() {
                    return Err(SmapsError::Line(parser.line, "is cut short"));
                }
                return parser.finish();
            }
            let mut taken = 0;
            if !kept.is_empty() {
                let end = line_feed(there).map_or(there.len(), |feed| feed + 1);
                kept.extend_from_slice(&there[..end]);
                taken = end;
                if kept.ends_with(b"\n") {
                    parser.lines(&kept)?;
                    kept.clear();
                }
            }
            if kept.is_empty() {
                taken += parser.lines(&there[taken..])?;
                kept.extend_from_slice(&there[taken..]);
                taken = there.len();
            }
            if kept.len() > LONGEST_LINE {
                return Err(SmapsError::Line(parser.line, "has no end"));
            }
            from.consume(taken);
        }
    }
}

/// The part that has been read, and the state between two lines.
#[derive(Debug)]
struct Parser {
    smaps: Smaps,
    figures: Figures,
    key: u64,
    /// Within an area, whose flags are still to come.
    inside: bool,
    /// Not an area of the process.
    skipped: bool,
    /// The next line.
    line: u64,
    /// Texts of flags that came before: there are few.
    flags: HashMap<Box<[u8]>, u32>,
    /// The lines of areas before, without their first ones; the next one goes to `next`.
    recent: [Body; RECENT],
    next: usize,
}

/// All lines of an area but the first, and what they say.
#[derive(Debug, Default)]
struct Body {
    text: Vec<u8>,
    lines: u64,
    flags: Flags,
    figures: Figures,
}

/// The number of bodies that are remembered.
const RECENT: usize = 4;

impl Default for Parser {
    fn default() -> Self {
        Self {
            smaps: Smaps::default(),
            figures: Figures::default(),
            key: 0,
            inside: false,
            skipped: false,
            line: 1,
            flags: HashMap::new(),
            recent: Default::default(),
            next: 0,
        }
    }
}

impl Parser {
    /// Takes all whole lines; the value is how many bytes they have.
    fn lines(&mut self, text: &[u8]) -> Result<usize, SmapsError> {
        let mut at = 0;
        // Where the body of the area begins, and in which line, if that is in this text.
        let mut body = None;
        loop {
            let rest = &text[at..];
            if let Some(line) = rest.first_chunk::<LINE>()
                && line[LINE - 4..] == *b" kB\n"
                && line[0].is_ascii_uppercase()
                // A line and a half can end so, too.
                && line_feed(&line[..LINE - 4]).is_none()
            {
                self.number(&line[..LINE - 4])?;
                at += LINE;
                self.line += 1;
                continue;
            }
            let Some(length) = line_feed(rest) else {
                return Ok(at);
            };
            let was_inside = self.inside;
            self.other(&rest[..length])?;
            at += length + 1;
            self.line += 1;
            match (was_inside, self.inside) {
                (false, true) => {
                    body = Some((at, self.line));
                    if let Some(length) = self.known(&text[at..]) {
                        at += length;
                        body = None;
                    }
                }
                (true, false) => {
                    if let Some((from, line)) = body.take() {
                        self.remember(&text[from..at], line);
                    }
                }
                _ => {}
            }
        }
    }

    /// Takes a body that is remembered, if it comes next: the area is then complete. Returns its length.
    fn known(&mut self, rest: &[u8]) -> Option<usize> {
        let body = self.recent.iter().find(|body| {
            let text = &body.text[..];
            !text.is_empty() && rest.starts_with(text)
        })?;
        if !self.skipped {
            self.smaps.told.push((body.flags, body.figures));
        }
        self.line += body.lines;
        self.inside = false;
        Some(body.text.len())
    }

    /// Remembers the body that ends here and began in this line.
    fn remember(&mut self, text: &[u8], line: u64) {
        if self.skipped {
            return;
        }
        let Some(&(flags, figures)) = self.smaps.told.last() else {
            return;
        };
        let body = &mut self.recent[self.next];
        self.next = (self.next + 1) % RECENT;
        body.text.clear();
        body.text.extend_from_slice(text);
        (body.lines, body.flags, body.figures) = (self.line - line, flags, figures);
    }

    fn wrong<T>(&self, what: &'static str) -> Result<T, SmapsError> {
        Err(SmapsError::Line(self.line, what))
    }

    /// Returns a label, and a number of KiB behind it.
    #[inline(always)]
    fn number(&mut self, line: &[u8]) -> Result<(), SmapsError> {
        // Nothing to add, as in most lines.
        if line.ends_with(b"       0") && self.inside {
            return Ok(());
        }
        self.nonzero(line)
    }

    fn nonzero(&mut self, line: &[u8]) -> Result<(), SmapsError> {
        if !self.inside {
            return self.wrong("belongs to no area");
        }
        let Some(colon) = line.iter().position(|&byte| byte == b':') else {
            return self.wrong("has no label");
        };
        let Some(number) = decimal(&line[colon + 1..]) else {
            return self.wrong("has no number where one belongs");
        };
        let Some(bytes) = number.checked_mul(1024) else {
            return self.wrong("has a number that is too large");
        };
        if let Some(place) = self.figures.place(&line[..colon]) {
            *place = place.saturating_add(bytes);
        }
        Ok(())
    }

    /// Returns a line that is not in those columns.
    fn other(&mut self, line: &[u8]) -> Result<(), SmapsError> {
        if let Some(list) = line.strip_prefix(b"VmFlags:") {
            if !self.inside {
                return self.wrong("belongs to no area");
            }
            let flags = Flags {
                text: self.flags(list),
                key: self.key,
            };
            if !self.skipped {
                self.smaps.told.push((flags, self.figures));
            }
            self.inside = false;
            return Ok(());
        }
        if line.first().is_some_and(u8::is_ascii_uppercase) {
            if let Some(number) = line.strip_prefix(b"ProtectionKey:") {
                let Some(number) = decimal(number) else {
                    return self.wrong("has no number where one belongs");
                };
                self.key = number;
            } else if let Some(line) = line.strip_suffix(b" kB") {
                return self.nonzero(line);
            } else if !self.inside {
                return self.wrong("belongs to no area");
            }
            return Ok(());
        }
        if self.inside {
            return self.wrong("begins an area where the one before has no flags yet");
        }
        let before = self.smaps.map.areas().len();
        if self.smaps.map.push_line(line).is_none() {
            return self.wrong("is no line of smaps");
        }
        // The page of old system calls is not the process's.
        self.skipped = self.smaps.map.drop_vsyscall();
        if let [.., lower, upper] = self.smaps.map.areas()
            && self.smaps.map.areas().len() > before
            && lower.end > upper.start
        {
            return self.wrong("begins an area within the one before: the map changed meanwhile");
        }
        (self.figures, self.key) = (Figures::default(), 0);
        self.inside = true;
        Ok(())
    }

    fn flags(&mut self, list: &[u8]) -> u32 {
        if let Some(index) = self.flags.get(list) {
            return *index;
        }
        let index = self.smaps.texts.len() as u32;
        let text = String::from_utf8_lossy(list);
        self.smaps.texts.push(text.into());
        self.flags.insert(list.into(), index);
        index
    }

    fn finish(self) -> Result<Smaps, SmapsError> {
        if self.inside {
            return self.wrong("is missing: the last area has no flags");
        }
        Ok(self.smaps)
    }
}

/// Returns a number with spaces before it.
fn decimal(text: &[u8]) -> Option<u64> {
    let digits = text.trim_ascii();
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| byte - b'0')?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests;
