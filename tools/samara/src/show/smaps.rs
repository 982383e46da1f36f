//! `/proc/PID/smaps` as numbers: the areas, and what of each is in memory.
//!
//! The kernel needs some microseconds for each area. Reading its lines must cost little beside that, so they are taken where they
//! were read to, the lines that it prints in fixed columns are not searched for their ends, and an area of which it says the same as of one shortly
//! before is recognised as a whole: where there are many areas, most are like others.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufRead};

use samara_mm::VmFlags;

use crate::maps::{Map, line_feed};

/// What smaps says of one area, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Figures {
    pub(crate) resident: u64,
    /// Each page divided by how many map it.
    pub(crate) proportional: u64,
    pub(crate) shared_clean: u64,
    pub(crate) shared_dirty: u64,
    pub(crate) private_clean: u64,
    pub(crate) private_dirty: u64,
    pub(crate) referenced: u64,
    pub(crate) anonymous: u64,
    pub(crate) huge_anonymous: u64,
    pub(crate) huge_shared: u64,
    pub(crate) huge_file: u64,
    /// Pages of hugetlbfs, which are not counted as resident.
    pub(crate) hugetlb: u64,
    pub(crate) swapped: u64,
    pub(crate) locked: u64,
}

impl Figures {
    /// Changed since they were read or cleared.
    pub(crate) fn dirty(&self) -> u64 {
        self.shared_dirty + self.private_dirty
    }

    /// In pages of 2 MiB or more.
    pub(crate) fn huge(&self) -> u64 {
        self.huge_anonymous + self.huge_shared + self.huge_file + self.hugetlb
    }

    pub(crate) fn add(&mut self, other: &Figures) {
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

    /// The number that a line of this label adds to. `None` for those that are not kept.
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

/// A whole smaps: for each area of `map` its flags and its figures.
#[derive(Debug, Default)]
pub(crate) struct Smaps {
    pub(crate) map: Map,
    pub(crate) told: Vec<(VmFlags, Figures)>,
}

/// Why a text is not taken for smaps.
#[derive(Debug)]
pub(crate) enum Trouble {
    Reading(io::Error),
    /// A line, counted from 1, and what is wrong there.
    Line(u64, &'static str),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Reading(error) => error.fmt(f),
            Trouble::Line(number, what) => write!(f, "line {number} of smaps {what}"),
        }
    }
}

/// No line is so long: a name has at most 4,096 bytes, of which each may be printed as four.
const LONGEST_LINE: usize = 32 << 10;
/// A label and its colon take so many columns, and the number the next eight; then come ` kB` and the line feed.
const LABEL: usize = 16;
const LINE: usize = LABEL + 8 + 4;

impl Smaps {
    /// Reads all of it.
    pub(crate) fn read(mut from: impl BufRead) -> Result<Self, Trouble> {
        let mut parser = Parser::default();
        // The beginning of a line whose end is still to come.
        let mut kept: Vec<u8> = Vec::new();
        loop {
            let there = match from.fill_buf() {
                Ok(there) => there,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Trouble::Reading(error)),
            };
            if there.is_empty() {
                if !kept.is_empty() {
                    return Err(Trouble::Line(parser.line, "is cut short"));
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
                return Err(Trouble::Line(parser.line, "has no end"));
            }
            from.consume(taken);
        }
    }
}

/// What has been read so far.
#[derive(Debug)]
struct Parser {
    smaps: Smaps,
    figures: Figures,
    key: VmFlags,
    /// Within an area, whose flags are still to come.
    inside: bool,
    /// Not an area of the process.
    skipped: bool,
    /// The next line.
    line: u64,
    /// Texts of flags that came before: there are few.
    flags: HashMap<Box<[u8]>, VmFlags>,
    /// What was said of areas before, without their first lines; the next one goes to this place.
    recent: [Body; RECENT],
    next: usize,
}

/// All lines of an area but the first, and what they say.
#[derive(Debug, Default)]
struct Body {
    text: Vec<u8>,
    lines: u64,
    flags: VmFlags,
    figures: Figures,
}

/// So many bodies are remembered.
const RECENT: usize = 4;

impl Default for Parser {
    fn default() -> Self {
        Self {
            smaps: Smaps::default(),
            figures: Figures::default(),
            key: VmFlags::empty(),
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
    fn lines(&mut self, text: &[u8]) -> Result<usize, Trouble> {
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

    /// Whether a body that is remembered comes next: then the area is complete, and this is how long it was.
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

    fn wrong<T>(&self, what: &'static str) -> Result<T, Trouble> {
        Err(Trouble::Line(self.line, what))
    }

    /// A label, and a number of KiB behind it.
    #[inline(always)]
    fn number(&mut self, line: &[u8]) -> Result<(), Trouble> {
        // Nothing to add, as in most lines.
        if line.ends_with(b"       0") && self.inside {
            return Ok(());
        }
        self.nonzero(line)
    }

    fn nonzero(&mut self, line: &[u8]) -> Result<(), Trouble> {
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

    /// A line that is not in those columns.
    fn other(&mut self, line: &[u8]) -> Result<(), Trouble> {
        if let Some(list) = line.strip_prefix(b"VmFlags:") {
            if !self.inside {
                return self.wrong("belongs to no area");
            }
            let flags = self.flags(list) | self.key;
            if !self.skipped {
                self.smaps.told.push((flags, self.figures));
            }
            self.inside = false;
            return Ok(());
        }
        if line.first().is_some_and(u8::is_ascii_uppercase) {
            if let Some(number) = line.strip_prefix(b"ProtectionKey:") {
                let shift = VmFlags::PKEY.bits().trailing_zeros();
                let Some(number) = decimal(number) else {
                    return self.wrong("has no number where one belongs");
                };
                self.key = VmFlags::from_bits_retain(number << shift) & VmFlags::PKEY;
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
        (self.figures, self.key) = (Figures::default(), VmFlags::empty());
        self.inside = true;
        Ok(())
    }

    fn flags(&mut self, list: &[u8]) -> VmFlags {
        if let Some(flags) = self.flags.get(list) {
            return *flags;
        }
        let flags = VmFlags::from_smaps(&String::from_utf8_lossy(list));
        self.flags.insert(list.into(), flags);
        flags
    }

    fn finish(self) -> Result<Smaps, Trouble> {
        if self.inside {
            return self.wrong("is missing: the last area has no flags");
        }
        Ok(self.smaps)
    }
}

/// A number with spaces before it.
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
mod tests {
    use super::*;

    const ONE: &str = "\
1000-3000 rw-p 00000000 00:00 0                          [anon: a b]
Size:                  8 kB
Rss:                   8 kB
Private_Dirty:         4 kB
Anonymous:             4 kB
Shared_Hugetlb:     2048 kB
Swap:          123456789 kB
ProtectionKey:         3
VmFlags: rd wr mr mw me ac 
";

    fn fails(text: &str) -> String {
        Smaps::read(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn an_area_is_read() {
        let smaps = Smaps::read(ONE.as_bytes()).unwrap();
        assert_eq!(smaps.map.name(&smaps.map.areas()[0]), b"[anon: a b]");
        let (flags, figures) = smaps.told[0];
        assert_eq!(flags.pkey(), 3);
        assert!(flags.contains(VmFlags::WRITE | VmFlags::ACCOUNT));
        assert_eq!((figures.resident, figures.dirty()), (8 << 10, 4 << 10));
        assert_eq!(figures.swapped, 123_456_789 << 10);
        assert_eq!(figures.huge(), 2 << 20);
    }

    /// Gives so many bytes at a time.
    fn slowly(text: &str, bytes: usize) -> impl BufRead {
        io::BufReader::with_capacity(bytes, text.as_bytes())
    }

    #[test]
    fn every_cut_is_told_with_its_line() {
        let twice = format!("{ONE}{}", ONE.replace("1000-3000", "4000-6000"));
        for bytes in 1..100 {
            let smaps = Smaps::read(slowly(&twice, bytes)).unwrap();
            assert_eq!(smaps.told.len(), 2, "{bytes} bytes at a time");
            assert_eq!(smaps.told[0], smaps.told[1]);
        }
        for length in 1..ONE.len() {
            let text = &ONE[..length];
            let told = fails(text);
            // A cut behind a line is told of the line that is missing.
            let line = text.matches('\n').count() + 1;
            assert!(
                told.starts_with(&format!("line {line} of smaps ")),
                "{told}"
            );
        }
    }

    #[test]
    fn what_makes_no_sense_is_told_with_its_line() {
        assert_eq!(
            fails("Rss:                   8 kB\n"),
            "line 1 of smaps belongs to no area"
        );
        assert_eq!(
            fails("Rss:                   0 kB\n"),
            "line 1 of smaps belongs to no area"
        );
        assert_eq!(fails("VmFlags: rd\n"), "line 1 of smaps belongs to no area");
        assert_eq!(fails("nonsense\n"), "line 1 of smaps is no line of smaps");
        let bad = ONE.replace("       4 kB", "       x kB");
        assert_eq!(
            fails(&bad),
            "line 4 of smaps has no number where one belongs"
        );
        let bad = ONE.replace("123456789", "99999999999999999999");
        assert_eq!(
            fails(&bad),
            "line 7 of smaps has no number where one belongs"
        );
        let bad = ONE.replace("123456789", "18446744073709551615");
        assert_eq!(
            fails(&bad),
            "line 7 of smaps has a number that is too large"
        );
        let twice = format!("{ONE}{ONE}");
        assert!(fails(&twice).starts_with("line 10 of smaps begins an area within"));
        let endless = "1".repeat(2 * LONGEST_LINE);
        assert_eq!(fails(&endless), "line 1 of smaps has no end");
    }

    #[test]
    fn a_line_that_ends_where_another_should_is_none_of_it() {
        let short = ONE.replace(
            "Rss:                   8 kB\n",
            "Rss: 1\nSize:           8 kB\n",
        );
        assert_eq!(Smaps::read(short.as_bytes()).unwrap().told[0].1.resident, 0);
        let cut = ONE.replace(
            "VmFlags: rd wr mr mw me ac \n",
            "VmFlags: rd\nRss:    8 kB\n",
        );
        assert_eq!(fails(&cut), "line 10 of smaps belongs to no area");
    }

    #[test]
    fn an_area_like_others_says_the_same() {
        let mut text = String::new();
        let (mut expected, mut state) = (Vec::new(), 1u64);
        for i in 0..500u64 {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let (kind, start) = ((state >> 33) % 7, 0x10000 + i * 0x1000);
            let body = ONE.split_once('\n').unwrap().1;
            let body = body.replace("       8 kB", &format!("{:>8} kB", kind * 4));
            text += &format!(
                "{start:x}-{:x} rw-p 00000000 00:00 0\n{body}",
                start + 0x1000
            );
            expected.push(kind * 4096);
        }
        let smaps = Smaps::read(text.as_bytes()).unwrap();
        let resident: Vec<u64> = smaps.told.iter().map(|(_, f)| f.resident).collect();
        assert_eq!(resident, expected);
        assert_eq!(Smaps::read(slowly(&text, 1)).unwrap().told, smaps.told);
        let told = fails(&format!("{text}nonsense\n"));
        assert_eq!(told, "line 4501 of smaps is no line of smaps");
    }

    #[test]
    fn random_damage_never_panics() {
        let whole = std::fs::read("/proc/self/smaps").unwrap();
        let mut state = 1u64;
        let mut random = |limit: usize| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 33) as usize % limit
        };
        for _ in 0..2_000 {
            let mut text = whole.clone();
            for _ in 0..random(4) + 1 {
                let at = random(text.len());
                text[at] = random(256) as u8;
            }
            text.truncate(random(text.len()) + 1);
            let _ = Smaps::read(&text[..]);
        }
    }

    #[test]
    fn the_own_one_has_the_areas_of_maps() {
        let smaps = Smaps::read(io::BufReader::new(
            std::fs::File::open("/proc/self/smaps").unwrap(),
        ))
        .unwrap();
        assert_eq!(smaps.map.areas().len(), smaps.told.len());
        assert!(smaps.told.iter().any(|(_, figures)| figures.resident > 0));
    }
}
