//! The memory that the map of a live process takes in two forms: as areas in a tree next to the
//! page tables, or as a status for each page in the page tables themselves.
//! `docs/design/why-two-levels.md` discusses the result.
//!
//! `cargo run --release -p samara-mm --example two_levels [PID...]`: without a process, this program.
//!
//! The second form is calculated at its best: a status stands once for the whole span of a table of
//! any level if all of it has the same one. So a table is needed only where an area begins or ends
//! within its span, or where a page is present. Only the tables that exist for statuses alone are
//! counted.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use samara_mm::{AddressSpace, Config, Counted, FileId, Layout, Limits, SeedVma, Vma};

const PAGE: u64 = 4096;
/// Of what one table of each level spans, in address bits; the last has entries for pages.
const LEVELS: [u32; 4] = [48, 39, 30, 21];
/// A status: permissions, kind, and where the bytes come from. A pointer to that, where it is shared.
const STATUS: u64 = 8;

/// One line of `/proc/PID/maps`.
struct Line {
    start: u64,
    end: u64,
    prot: u64,
    shared: bool,
    offset: u64,
    inode: u64,
    name: String,
}

fn line(text: &str) -> Option<Line> {
    let mut fields = text.split_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let flags = fields.next()?.as_bytes();
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let bit = |at: usize, letter, bit| u64::from(flags.get(at) == Some(&letter)) * bit;
    Some(Line {
        start: hex(start)?,
        end: hex(end)?,
        prot: bit(0, b'r', 1) | bit(1, b'w', 2) | bit(2, b'x', 4),
        shared: flags.get(3) == Some(&b's'),
        offset: hex(fields.next()?)?,
        inode: {
            fields.next()?;
            fields.next()?.parse().ok()?
        },
        name: fields.collect::<Vec<_>>().join(" "),
    })
}

/// Returns the map as the engine holds it.
fn engine(lines: &[Line]) -> Result<AddressSpace, Box<dyn Error>> {
    let error = |errno: samara_mm::Errno| errno.to_string();
    let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())
        .map_err(error)?;
    let mut files = BTreeMap::new();
    for line in lines {
        if line.inode != 0 && !files.contains_key(&line.inode) {
            let id = FileId {
                major: 8,
                minor: 1,
                inode: line.inode,
            };
            let file = samara_mm::File::new(id, line.name.as_str().into());
            files.insert(line.inode, Counted::try_new(file).map_err(error)?);
        }
        let seed = SeedVma {
            start: line.start,
            end: line.end,
            prot: line.prot,
            shared: line.shared,
            offset: line.offset,
            file: files.get(&line.inode).cloned(),
            flags: None,
            name: (line.name.starts_with("[v")).then(|| line.name.as_str().into()),
            touched: false,
        };
        space.seed(seed).map_err(error)?;
    }
    Ok(space)
}

/// Tables, each by its level and its place among those of its level.
type Tables = BTreeSet<(u32, u64)>;

/// Returns the tables above a page, or around an address at which the status changes.
fn note(tables: &mut Tables, address: u64, needed: impl Fn(u32) -> bool) {
    for bits in LEVELS {
        if needed(bits) {
            tables.insert((bits, address >> bits));
        }
    }
}

fn tell(pid: &str) -> Result<(), Box<dyn Error>> {
    let text = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let lines: Vec<_> = text.lines().filter_map(line).collect();
    // [vsyscall] lies among the kernel's addresses.
    let lines: Vec<_> = lines.into_iter().filter(|l| l.end <= 1 << 47).collect();
    let pagemap = File::open(format!("/proc/{pid}/pagemap"))?;

    let (mut present, mut pages) = (Tables::new(), 0);
    let mut both = Tables::new();
    let mut entries = Vec::new();
    for line in &lines {
        for address in [line.start, line.end] {
            // Nothing changes within the span of a table that begins there.
            note(&mut both, address, |bits| address % (1 << bits) != 0);
        }
        let mut at = line.start;
        while at < line.end {
            let count = (line.end - at).div_ceil(PAGE).min(1 << 16);
            entries.resize(count as usize * 8, 0);
            let read = pagemap.read_at(&mut entries, at / PAGE * 8)?;
            for (i, entry) in entries[..read].chunks_exact(8).enumerate() {
                // Bit 63: present; 62: swapped out.
                if entry[7] & 0xc0 != 0 {
                    pages += 1;
                    note(&mut present, at + i as u64 * PAGE, |_| true);
                }
            }
            at += count * PAGE;
        }
    }
    both.extend(&present);

    let space = engine(&lines)?;
    let tree = space.stats().tree_bytes as u64;
    let areas = lines.len() as u64 * size_of::<Vma>() as u64;
    let more = both.len() as u64 - present.len() as u64;
    let name = fs::read_to_string(format!("/proc/{pid}/comm"))?;
    println!(
        "| {} | {} | {pages} | {} | {:.1} | {more} | {:.1} | {:.1} |",
        name.trim(),
        lines.len(),
        present.len(),
        (tree + areas) as f64 / 1024.0,
        (more * PAGE) as f64 / 1024.0,
        (both.len() as u64 * 512 * STATUS) as f64 / 1024.0,
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut pids: Vec<_> = std::env::args().skip(1).collect();
    if pids.is_empty() {
        pids.push("self".into());
    }
    println!(
        "| process | areas | pages present | tables for them | tree and areas, KiB | tables for statuses alone | KiB | statuses, KiB |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    for pid in &pids {
        if let Err(error) = tell(pid) {
            eprintln!("{pid}: {error}");
        }
    }
    Ok(())
}
