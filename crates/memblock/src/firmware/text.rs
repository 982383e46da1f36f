//! Parsing of numbers in lines.

/// Parses a hexadecimal number, with or without `0x`.
pub(super) fn hex(s: &str) -> Option<u64> {
    let s = s.trim();
    let digits = s
        .strip_prefix("0x")
        .or_else(|| s.strip_prefix("0X"))
        .unwrap_or(s);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

/// Parses two numbers around a separator.
pub(super) fn range(s: &str, separator: &str) -> Option<(u64, u64)> {
    let (first, last) = s.split_once(separator)?;
    Some((hex(first)?, hex(last)?))
}

/// Iterates over lines with their numbers, from 1.
pub(super) fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> + Clone {
    text.lines().enumerate().map(|(i, line)| (i + 1, line))
}
