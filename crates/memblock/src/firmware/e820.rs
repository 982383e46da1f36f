//! The memory map of PC firmware.
//!
//! Only "usable" memory is memory. All other types, known or not, are holes, as on Linux.

use super::{Entry, Item, Problem, Use, text};

fn usage(kind: &str) -> Use {
    let kind = kind.trim();
    // `/sys/firmware/memmap` uses "System RAM". A trailing "(…)" is a remark.
    if kind == "usable" || kind == "System RAM" {
        Use::Ram
    } else {
        Use::Hole
    }
}

/// Iterates over the entries of a boot log: lines with `BIOS-e820:`, in the three forms that Linux
/// has used, and lines that begin with `[mem`. Other lines are skipped, including those that log
/// changes by the kernel.
///
/// ```
/// use samara_memblock::firmware::e820;
/// let log = "[    0.000000] BIOS-e820: [mem 0x0000000000001000-0x0000000000001fff] usable
///  BIOS-e820: 0000000000002000 - 0000000000003000 (ACPI data)
/// [    0.000115] e820: update [mem 0x00000000-0x00000fff] usable ==> reserved";
/// assert_eq!(e820::lines(log).flatten().map(|e| (e.base, e.size)).collect::<Vec<_>>(), [(0x1000, 0x1000), (0x2000, 0x1000)]);
/// ```
pub fn lines(log: &str) -> impl Iterator<Item = Item> + Clone {
    text::numbered(log).filter_map(|(line, content)| {
        let entry = match content.split_once("BIOS-e820:") {
            Some((_, entry)) => entry.trim(),
            None if content.trim_start().starts_with("[mem") => content.trim(),
            None => return None,
        };
        Some(parse(entry).unwrap_or(Err(Problem::Unreadable { line })))
    })
}

fn parse(entry: &str) -> Option<Item> {
    if let Some(rest) = entry.strip_prefix("[mem") {
        let (range, kind) = rest.split_once(']')?;
        let (first, last) = text::range(range, "-")?;
        return Some(Entry::inclusive(first, last, usage(kind)));
    }
    let (range, kind) = entry.split_once('(')?;
    let kind = usage(kind.trim_end().strip_suffix(')')?);
    // Linux 2.4 printed the size first.
    if let Some((size, base)) = text::range(range, "@") {
        return Some(Entry::sized(base, size, kind));
    }
    // Until 2012 the end was exclusive.
    let (first, end) = text::range(range, "-")?;
    Some(match end.checked_sub(first) {
        Some(size) => Entry::sized(first, size, kind),
        None => Err(Problem::Backwards { first, last: end }),
    })
}

/// The layout of a binary map's entries. All begin with the base and the size (64 bits each) and
/// the type (32 bits), in little-endian order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Binary {
    /// 20 bytes each, as the BIOS returns them and Linux's boot parameters contain them.
    Bios,
    /// 24 bytes each, the last four reserved, as PVH boot passes them (`hvm_memmap_table_entry`).
    Pvh,
}

impl Binary {
    pub(super) const fn size(self) -> usize {
        match self {
            Binary::Bios => 20,
            Binary::Pvh => 24,
        }
    }
}

/// Iterates over the entries of a binary map. Type 1 is memory. Bytes after the last whole entry
/// are [`Problem::Malformed`].
///
/// ```
/// use samara_memblock::firmware::{Use, e820};
/// let mut map = [0; 20];
/// map[1] = 0x10; // base 0x1000
/// map[9] = 0x20; // size 0x2000
/// map[16] = 1; // memory
/// let entries: Vec<_> = e820::entries(&map, e820::Binary::Bios).flatten().collect();
/// assert_eq!((entries[0].base, entries[0].size, entries[0].usage), (0x1000, 0x2000, Use::Ram));
/// assert!(e820::entries(&map[..19], e820::Binary::Bios).all(|item| item.is_err()));
/// ```
pub fn entries(map: &[u8], layout: Binary) -> impl Iterator<Item = Item> + Clone {
    let whole = map.chunks_exact(layout.size());
    let cut = (!whole.remainder().is_empty()).then_some(Err(Problem::Malformed));
    whole.map(entry).chain(cut)
}

fn entry(bytes: &[u8]) -> Item {
    const RAM: u32 = 1;
    let (base, rest) = bytes.split_first_chunk().ok_or(Problem::Malformed)?;
    let (size, rest) = rest.split_first_chunk().ok_or(Problem::Malformed)?;
    let kind = rest.first_chunk().ok_or(Problem::Malformed)?;
    let usage = if u32::from_le_bytes(*kind) == RAM {
        Use::Ram
    } else {
        Use::Hole
    };
    Entry::sized(u64::from_le_bytes(*base), u64::from_le_bytes(*size), usage)
}

/// Parses an entry of `/sys/firmware/memmap`: the contents of its files `start`, `end` (the last
/// byte) and `type`.
///
/// # Errors
///
/// [`Problem::Unreadable`] if they are not numbers, [`Problem::Backwards`], and the errors of
/// [`Entry::checked`].
pub fn sysfs_entry(start: &str, end: &str, kind: &str) -> Item {
    match (text::hex(start), text::hex(end)) {
        (Some(first), Some(last)) => Entry::inclusive(first, last, usage(kind)),
        _ => Err(Problem::Unreadable { line: 1 }),
    }
}
