//! One line of strace: the caller, the call, and its result. Every text is either read, or refused
//! with a position in it.

/// The reason why a text is refused, and its position: line and column, counted from 1, the column
/// in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Complaint {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) what: String,
}

/// A text that strace wrote in pieces on several lines. Each piece has its start in the text, and
/// its line and column.
#[derive(Debug, Clone, Default)]
pub(super) struct Text {
    pub(super) text: String,
    pieces: Vec<(usize, usize, usize)>,
}

impl Text {
    /// Creates a text from a piece of line `line` that begins at `column`. Both are counted from 0.
    pub(super) fn new(text: &str, line: usize, column: usize) -> Self {
        Self {
            text: text.to_owned(),
            pieces: vec![(0, line, column)],
        }
    }

    /// Appends another text.
    pub(super) fn join(&mut self, other: &Text) {
        let length = self.text.len();
        let moved = other.pieces.iter();
        self.pieces
            .extend(moved.map(|&(at, line, column)| (at + length, line, column)));
        self.text.push_str(&other.text);
    }

    /// Returns the text from `at` on.
    pub(super) fn from(&self, at: usize) -> Self {
        let text = self.text.get(at..).unwrap_or_default();
        let mut pieces: Vec<(usize, usize, usize)> = Vec::new();
        for &(start, line, column) in &self.pieces {
            if start <= at {
                pieces = vec![(0, line, column + at - start)];
            } else {
                pieces.push((start - at, line, column));
            }
        }
        Self {
            text: text.to_owned(),
            pieces,
        }
    }

    /// Returns the first part of a call that continues on another line, or `None` if the call does
    /// not continue.
    pub(super) fn begun(&self) -> Option<Self> {
        let begun = self.text.strip_suffix("<unfinished ...>")?;
        let mut kept = self.clone();
        kept.text.truncate(begun.len());
        Some(kept)
    }

    /// Returns a complaint about a position in the text.
    pub(super) fn wrong(&self, at: usize, what: impl Into<String>) -> Complaint {
        let piece = self.pieces.iter().rev().find(|piece| piece.0 <= at);
        let &(start, line, column) = piece.unwrap_or(&(0, 0, 0));
        Complaint {
            line: line + 1,
            column: column + at.saturating_sub(start) + 1,
            what: what.into(),
        }
    }
}

/// Skips the caller, the time and the address. Returns the thread's number, if the line has one,
/// and the start of the rest.
pub(super) fn prefix(line: &str) -> (Option<u32>, usize) {
    let rest = |from: usize| line.get(from..).unwrap_or_default();
    let run = |from: usize, of: fn(&u8) -> bool| rest(from).bytes().take_while(of).count();
    let blanks = |from| run(from, |byte| *byte == b' ');
    let digits = |from| run(from, u8::is_ascii_digit);
    // The program's name (`-Y`), up to a `>` and the text behind it.
    let named = |from: usize, behind: &str| {
        let found = rest(from).starts_with('<').then(|| rest(from).find(behind));
        from + found.flatten().map_or(0, |length| length + 1)
    };
    let (start, behind) = match line.starts_with("[pid ") {
        true => (5 + blanks(5), "]"),
        false => (0, " "),
    };
    let to = start + digits(start);
    let end = named(to, if start == 0 { "> " } else { ">]" });
    let (mut thread, mut at) = (None, 0);
    if to > start && rest(end).starts_with(behind) {
        thread = line.get(start..to).and_then(|number| number.parse().ok());
        at = end + 1;
    }
    // A time: of the day, since 1970, or since the line before.
    let from = at + blanks(at);
    let to = from
        + run(from, |byte| {
            byte.is_ascii_digit() || matches!(byte, b':' | b'.')
        });
    at = from;
    if to > from && rest(to).starts_with(' ') {
        at = to + blanks(to);
    }
    // The call's number (`-n`), or the instruction's address (`-i`).
    while rest(at).starts_with('[') {
        let from = at + 1 + blanks(at + 1);
        let to = from + run(from, |byte| byte.is_ascii_hexdigit() || *byte == b'?');
        if to == from || !rest(to).starts_with("] ") {
            break;
        }
        at = to + 1 + blanks(to + 1);
    }
    (thread, at)
}

/// Returns the name of a call, up to its parenthesis.
pub(super) fn name(text: &str) -> Option<&str> {
    let end = text
        .bytes()
        .take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        .count();
    let name = text.get(..end)?;
    (end > 0 && text.as_bytes().get(end) == Some(&b'(')).then_some(name)
}

/// An argument, and its start in the text.
pub(super) type Argument<'a> = (&'a str, usize);

/// Returns the arguments of a call whose parenthesis opens at `open`, and the position at which it
/// closes.
pub(super) fn arguments(text: &Text, open: usize) -> Result<(Vec<Argument<'_>>, usize), Complaint> {
    let bytes = text.text.as_bytes();
    let mut found = Vec::new();
    let mut closing: Vec<u8> = Vec::new();
    let mut from = open + 1;
    let mut at = from;
    let mut push = |from: usize, to: usize| {
        let whole = text.text.get(from..to).unwrap_or_default();
        let blank = whole.len() - whole.trim_start().len();
        found.push((whole.trim(), from + blank));
    };
    loop {
        let Some(&byte) = bytes.get(at) else {
            return Err(text.wrong(at, "the line ends within the call"));
        };
        match byte {
            b'"' => at = end_of_string(text, at)?,
            // The description of a descriptor (`-y`), not a shift.
            b'<' if bytes.get(at + 1) != Some(&b'<')
                && at > 0
                && (bytes[at - 1].is_ascii_digit() || bytes[at - 1] == b'D') =>
            {
                let rest = &bytes[at..];
                match rest.iter().position(|byte| *byte == b'>') {
                    Some(length) => at += length,
                    None => return Err(text.wrong(at, "`<` is never closed")),
                }
            }
            b'<' if bytes.get(at + 1) == Some(&b'<') => at += 1,
            b'(' => closing.push(b')'),
            b'[' => closing.push(b']'),
            b'{' => closing.push(b'}'),
            b')' if closing.is_empty() => {
                push(from, at);
                if found.len() == 1 && found[0].0.is_empty() {
                    found.clear();
                }
                return Ok((found, at));
            }
            b')' | b']' | b'}' if closing.pop() != Some(byte) => {
                let shown = char::from(byte);
                return Err(text.wrong(at, format!("`{shown}` closes nothing")));
            }
            b',' if closing.is_empty() => {
                push(from, at);
                from = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
}

/// Returns the position of the quote that closes a string, which opens at `open`.
fn end_of_string(text: &Text, open: usize) -> Result<usize, Complaint> {
    let bytes = text.text.as_bytes();
    let mut at = open + 1;
    loop {
        match bytes.get(at) {
            Some(b'\\') => at += 2,
            Some(b'"') => return Ok(at),
            Some(_) => at += 1,
            None => return Err(text.wrong(bytes.len(), "the line ends within a string")),
        }
    }
}

/// Returns the result of a call, behind its closing parenthesis. `None` if the call never returned.
pub(super) fn result(
    text: &Text,
    close: usize,
    errno: impl Fn(&str) -> Option<i32>,
) -> Result<Option<i64>, Complaint> {
    let rest = text.text.get(close + 1..).unwrap_or_default();
    let behind = rest.trim_start();
    let at = close + 1 + (rest.len() - behind.len());
    // For `clone3`, strace also prints the structure that the call has written.
    let equals = if behind.starts_with("=> ") {
        behind.find(") = ").map(|found| found + 2)
    } else {
        behind.starts_with('=').then_some(0)
    };
    let Some(equals) = equals else {
        return Err(text.wrong(at, "`=` and a result are missing behind the call"));
    };
    let value = behind.get(equals + 1..).unwrap_or_default();
    let word = value.trim_start();
    let at = at + equals + 1 + (value.len() - word.len());
    let mut words = word.split([' ', '<']);
    let first = words.next().unwrap_or_default();
    if first == "?" {
        return Ok(None);
    }
    if first == "-1" {
        let name = words.next().unwrap_or_default();
        return match errno(name) {
            Some(number) => Ok(Some(-i64::from(number))),
            None => Err(text.wrong(at + 3, format!("`{name}` is not a known error"))),
        };
    }
    match plain(first) {
        Some(value) => Ok(Some(value as i64)),
        None => Err(text.wrong(at, format!("`{first}` is not a result"))),
    }
}

/// Parses a number as strace writes it: decimal, hexadecimal with `0x`, octal with `0`, `NULL`.
pub(super) fn plain(word: &str) -> Option<u64> {
    if word == "NULL" {
        return Some(0);
    }
    if let Some(digits) = word.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok();
    }
    if let Some(digits) = word.strip_prefix('-') {
        return digits.parse::<i64>().ok().map(|n| n.wrapping_neg() as u64);
    }
    match word.strip_prefix('0') {
        Some(digits) if !digits.is_empty() => u64::from_str_radix(digits, 8).ok(),
        _ => word.parse().ok(),
    }
}

/// Adds up numbers and names, with `|` between them, and shifts such as `1<<21`. Skips comments.
pub(super) fn value(
    text: &Text,
    (word, at): Argument<'_>,
    named: &dyn Fn(&str) -> Option<u64>,
) -> Result<u64, Complaint> {
    let mut sum = 0;
    let mut from = at;
    let clean = match (word.find("/*"), word.rfind("*/")) {
        (Some(start), Some(end)) if start < end && end + 2 == word.len() => {
            word.get(..start).unwrap_or_default()
        }
        _ => word,
    };
    for part in clean.split('|') {
        let single = part.trim();
        let number = |word: &str| plain(word).or_else(|| named(word));
        let found = match single.split_once("<<") {
            Some((value, shift)) => number(value)
                .zip(number(shift))
                .and_then(|(value, shift)| value.checked_shl(u32::try_from(shift).ok()?)),
            None => number(single),
        };
        match found {
            Some(found) => sum |= found,
            None => return Err(text.wrong(from, format!("`{single}` is not known here"))),
        }
        from += part.len() + 1;
    }
    Ok(sum)
}
