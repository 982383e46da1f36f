//! Single properties of areas, without reading the rest of smaps.

use std::io;

use crate::{Tid, proc_file};

/// Calls `visit` for each area, ascending, with its first address, the letters of its flags as
/// printed, and its protection key.
///
/// # Errors
/// Those of reading.
pub fn each_flags(tid: Tid, visit: &mut dyn FnMut(u64, &str, u64)) -> io::Result<()> {
    let text = proc_file::read_long(format!("/proc/{tid}/smaps"))?;
    let text_of = |line| std::str::from_utf8(line).unwrap_or_default();
    let (mut start, mut key) = (0, 0);
    for line in text.split(|&byte| byte == b'\n') {
        // Most lines are of no interest, and the first letter tells.
        match line.first() {
            Some(b'V') => {
                if let Some(letters) = line.strip_prefix(b"VmFlags:") {
                    visit(start, text_of(letters), key);
                    key = 0;
                }
            }
            Some(b'P') => {
                if let Some(number) = line.strip_prefix(b"ProtectionKey:") {
                    key = text_of(number).trim().parse().unwrap_or(0);
                }
            }
            Some(b'0'..=b'9' | b'a'..=b'f') => {
                let end = line.iter().position(|&byte| byte == b'-').unwrap_or(0);
                start = u64::from_str_radix(text_of(&line[..end]), 16).unwrap_or(start);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the size in bytes of the pages of the area that begins at `start`.
pub fn page_size(tid: Tid, start: u64) -> Option<u64> {
    let text = proc_file::read_long(format!("/proc/{tid}/smaps")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let first = format!("{start:08x}-");
    let mut lines = text.lines().skip_while(|line| !line.starts_with(&first));
    let size = lines.find_map(|line| line.strip_prefix("KernelPageSize:"))?;
    let kilobytes: u64 = size.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}

/// Returns the ranges of private areas that have pages of their own, present or swapped out,
/// ascending.
///
/// # Errors
/// Those of reading.
pub fn with_own_pages(tid: Tid) -> io::Result<Vec<(u64, u64)>> {
    let text = proc_file::read(format!("/proc/{tid}/smaps"))?;
    let text = String::from_utf8_lossy(&text);
    let hex = |number| u64::from_str_radix(number, 16).ok();
    let mut areas: Vec<(u64, u64)> = Vec::new();
    let (mut current, mut private) = ((0, 0), false);
    for line in text.lines() {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        match first {
            "Anonymous:" | "Swap:" => {
                if rest.trim() != "0 kB" && private && areas.last() != Some(&current) {
                    areas.push(current);
                }
            }
            _ => {
                if let Some((start, end)) = first.split_once('-')
                    && let (Some(start), Some(end)) = (hex(start), hex(end))
                {
                    current = (start, end);
                    private = rest.as_bytes().get(3) == Some(&b'p');
                }
            }
        }
    }
    Ok(areas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_areas_have_flags() {
        let (mut areas, mut last) = (0, 0);
        each_flags(std::process::id() as Tid, &mut |start, letters, key| {
            assert!(start > last || areas == 0);
            assert!(!letters.trim().is_empty());
            assert!(key < 16);
            (areas, last) = (areas + 1, start);
        })
        .unwrap();
        assert!(areas > 5);
    }
}
