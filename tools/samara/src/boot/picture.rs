//! The layout as bars of text: one for each stretch of memory without a hole, all of the same width.

use std::fmt::Write;

use samara_memblock::{Filter, Flags, Memblock, NodeId};

use super::numbers::human;

const WIDTH: u64 = 64;

/// Returns the character of a cell, by its free bytes, and whether any of it must not be mapped.
fn mark(free: u64, nomap: u64, size: u64) -> char {
    match (free, nomap) {
        (f, 0) if f == size => '·',
        (0, 0) => '█',
        (0, n) if n == size => '×',
        _ => '▒',
    }
}

pub(super) fn draw(boot: &Memblock<'_>) -> String {
    let mut stretches: Vec<(u64, u64)> = Vec::new();
    for r in boot.memory() {
        match stretches.last_mut() {
            Some(last) if last.1 == r.base => last.1 = r.end(),
            _ => stretches.push((r.base, r.end())),
        }
    }
    let mappable = Filter::ALL.flags.difference(Flags::NOMAP);
    let free: Vec<(u64, u64)> = boot
        .free_ranges(NodeId::NONE, mappable)
        .map(|s| (s.start, s.end))
        .collect();
    let nomap: Vec<(u64, u64)> = boot
        .memory()
        .iter()
        .filter(|r| r.flags.contains(Flags::NOMAP))
        .map(|r| (r.base, r.end()))
        .collect();

    let digits = stretches.last().map_or(0, |s| format!("{:x}", s.1).len());
    let mut text = String::from("\n");
    for (base, end) in stretches {
        let cells = WIDTH.min(end - base);
        // Cell i covers this much; in 128 bits nothing overflows.
        let at =
            |i: u64| base + (u128::from(end - base) * u128::from(i) / u128::from(cells)) as u64;
        let bar: String = (0..cells)
            .map(|i| {
                let (from, to) = (at(i), at(i + 1));
                mark(shared(&free, from, to), shared(&nomap, from, to), to - from)
            })
            .collect();
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{base:#0width$x} {bar} {}",
            human(end - base),
            width = digits + 2
        );
    }
    text.push_str("· free   █ reserved   ▒ partly   × not mapped\n");
    text
}

/// Returns the number of bytes of `from..to` within sorted ranges.
fn shared(ranges: &[(u64, u64)], from: u64, to: u64) -> u64 {
    let first = ranges.partition_point(|r| r.1 <= from);
    ranges[first..]
        .iter()
        .take_while(|r| r.0 < to)
        .map(|r| r.1.min(to) - r.0.max(from))
        .sum()
}
