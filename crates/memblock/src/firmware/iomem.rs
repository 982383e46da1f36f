//! `/proc/iomem`: the memory map of a running Linux.

use super::{Entry, Item, Problem, Use, text};

/// Iterates over the entries of `/proc/iomem`. `System RAM` is memory. Entries indented below it
/// (the kernel, a crash kernel, firmware data) are reserved. All other outermost entries are holes.
///
/// ```
/// use samara_memblock::firmware::{Use, iomem};
/// let text = "00001000-0009fbff : System RAM
/// 000f0000-000fffff : System ROM
/// 00100000-3fffffff : System RAM
///   01000000-021fffff : Kernel code";
/// let usages: Vec<_> = iomem::lines(text).flatten().map(|e| e.usage).collect();
/// assert_eq!(usages, [Use::Ram, Use::Hole, Use::Ram, Use::Reserved]);
/// ```
pub fn lines(text: &str) -> impl Iterator<Item = Item> + Clone {
    let hidden = hidden(text);
    let rest = if hidden { "" } else { text };
    let mut in_ram = false;
    let entries = text::numbered(rest).filter_map(move |(line, content)| {
        let depth = content.len() - content.trim_start().len();
        if content.trim().is_empty() || (depth > 0 && !in_ram) {
            return None;
        }
        let Some((range, name)) = content.split_once(" : ") else {
            return Some(Err(Problem::Unreadable { line }));
        };
        if depth == 0 {
            in_ram = name.trim_end() == "System RAM" || name.starts_with("System RAM (");
        }
        let usage = match (depth, in_ram) {
            (0, true) => Use::Ram,
            (0, false) => Use::Hole,
            _ => Use::Reserved,
        };
        Some(match text::range(range, "-") {
            Some((first, last)) => Entry::inclusive(first, last, usage),
            None => Err(Problem::Unreadable { line }),
        })
    });
    hidden
        .then_some(Err(Problem::Hidden))
        .into_iter()
        .chain(entries)
}

/// Returns `true` if every range is `0-0`, which is what unprivileged readers see.
fn hidden(text: &str) -> bool {
    let mut ranges = text
        .lines()
        .filter_map(|l| text::range(l.split_once(" : ")?.0, "-"))
        .peekable();
    ranges.peek().is_some() && ranges.all(|r| r == (0, 0))
}
