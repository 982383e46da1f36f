//! The differences of two address spaces, or of one at two moments.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use samara_conformance::names::printable;
use samara_linux::maps::Area;
use samara_linux::smaps::Figures;
use samara_tracer::quantity::{bytes, grouped};
use serde_json::{Value, json};

use super::ShowOptions;
use super::grid::{Column, Grid, Paper};
use super::snapshot::{Gap, Snapshot, Sum};
use crate::kind::Kind;

/// The number of lines that are shown by default.
const LINES: usize = 30;

/// A change of one area, or of what has one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// Only in the first.
    Gone,
    /// Only in the second.
    New,
    /// In both, with other attributes or other pages in memory.
    Other,
}

impl Change {
    fn mark(self) -> &'static str {
        match self {
            Change::Gone => "-",
            Change::New => "+",
            Change::Other => "~",
        }
    }
}

/// An area of each, or of one of them, that begins at one address.
type Pair<'a> = (Option<Side<'a>>, Option<Side<'a>>);

#[derive(Debug, Clone, Copy)]
struct Side<'a> {
    area: &'a Area,
    name: &'a [u8],
    figures: Option<&'a Figures>,
}

fn sides(snapshot: &Snapshot) -> impl Iterator<Item = Side<'_>> {
    snapshot.areas().map(|(area, _, figures)| Side {
        area,
        name: snapshot.map.name(area),
        figures,
    })
}

/// Returns the areas of both by where they begin: one pass over each.
fn pairs<'a>(first: &'a Snapshot, second: &'a Snapshot) -> Vec<Pair<'a>> {
    let (mut left, mut right) = (sides(first).peekable(), sides(second).peekable());
    let mut pairs = Vec::new();
    loop {
        let starts = (
            left.peek().map(|side| side.area.start),
            right.peek().map(|side| side.area.start),
        );
        pairs.push(match starts {
            (None, None) => return pairs,
            (Some(a), Some(b)) if a == b => (left.next(), right.next()),
            (Some(a), b) if b.is_none_or(|b| a < b) => (left.next(), None),
            _ => (None, right.next()),
        });
    }
}

/// Returns the difference of a pair, if there is one. Pages in memory are compared only between
/// processes.
fn change(pair: &Pair<'_>) -> Option<Change> {
    let (a, b) = match pair {
        (Some(a), Some(b)) => (a, b),
        (Some(_), None) => return Some(Change::Gone),
        (None, _) => return Some(Change::New),
    };
    let attributes = |side: &Side<'_>| {
        let area = side.area;
        (area.end, area.perms, area.offset, area.inode)
    };
    let pages = match (a.figures, b.figures) {
        (Some(a), Some(b)) => a.resident != b.resident || a.swapped != b.swapped,
        _ => false,
    };
    (attributes(a) != attributes(b) || a.name != b.name || pages).then_some(Change::Other)
}

/// Returns `true` if the two are one address space at two moments, or a process and its child: most
/// areas have the same start.
fn related(pairs: &[Pair<'_>]) -> bool {
    let both = pairs
        .iter()
        .filter(|(a, b)| a.is_some() && b.is_some())
        .count();
    both * 2 > pairs.len()
}

/// The areas of one name, in one of the two.
type Named<'a> = BTreeMap<&'a [u8], (Sum, Sum)>;

fn by_name<'a>(first: &'a Snapshot, second: &'a Snapshot) -> Named<'a> {
    let mut named = Named::new();
    for side in sides(first) {
        named
            .entry(side.name)
            .or_default()
            .0
            .add(side.area, side.figures);
    }
    for side in sides(second) {
        named
            .entry(side.name)
            .or_default()
            .1
            .add(side.area, side.figures);
    }
    named
}

/// Returns a change of a number of bytes, with its sign.
fn signed(from: u64, to: u64) -> String {
    match to.cmp(&from) {
        std::cmp::Ordering::Equal => "=".to_owned(),
        std::cmp::Ordering::Greater => format!("+{}", bytes(to - from)),
        std::cmp::Ordering::Less => format!("-{}", bytes(from - to)),
    }
}

fn counted(from: u64, to: u64) -> String {
    match to.cmp(&from) {
        std::cmp::Ordering::Equal => "=".to_owned(),
        std::cmp::Ordering::Greater => format!("+{}", grouped(to - from)),
        std::cmp::Ordering::Less => format!("-{}", grouped(from - to)),
    }
}

fn resident(sum: &Sum) -> u64 {
    sum.figures.resident + sum.figures.hugetlb
}

/// For people.
pub(super) fn text(
    first: &Snapshot,
    second: &Snapshot,
    options: &ShowOptions,
    paper: Paper,
) -> String {
    let mut text = format!(
        "── samara ── {} → {}\n",
        printable(&first.title),
        printable(&second.title)
    );
    let known = first.known && second.known;
    let pairs = pairs(first, second);
    if options.gaps {
        return text + &gaps(first, second, paper);
    }
    if !(options.maps || options.smaps) {
        text += &kinds(first, second, known, paper);
        text.push('\n');
    }
    let limit = if options.maps || options.smaps {
        usize::MAX
    } else {
        LINES
    };
    let (list, left) = if related(&pairs) {
        areas(&pairs, known, limit, paper)
    } else {
        names(&by_name(first, second), known, limit, paper)
    };
    text += &list;
    if left > 0 {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "… and {} more: --maps lists all",
            grouped(left as u64)
        );
    }
    text
}

fn kinds(first: &Snapshot, second: &Snapshot, known: bool, paper: Paper) -> String {
    let mut columns = vec![
        Column::text(""),
        Column::number("areas", 2),
        Column::number("", 2),
        Column::number("size", 1),
        Column::number("", 0),
    ];
    if known {
        columns.extend([Column::number("resident", 3), Column::number("", 3)]);
    }
    let mut grid = Grid::new(&columns);
    let ((left, left_all), (right, right_all)) = (first.sums(), second.sums());
    let row = |name: &str, a: &Sum, b: &Sum| {
        let mut row = vec![
            name.to_owned(),
            grouped(b.areas),
            counted(a.areas, b.areas),
            bytes(b.bytes),
            signed(a.bytes, b.bytes),
        ];
        if known {
            row.extend([bytes(resident(b)), signed(resident(a), resident(b))]);
        }
        row
    };
    let nothing = Sum::default();
    for kind in Kind::ALL {
        let (a, b) = (left.get(&kind), right.get(&kind));
        if a.is_some() || b.is_some() {
            let (a, b) = (a.unwrap_or(&nothing), b.unwrap_or(&nothing));
            grid.row(row(kind.name(), a, b));
        }
    }
    grid.row(row("all", &left_all, &right_all));
    grid.summed = true;
    grid.text(paper)
}

/// Area by area, and how many are left out.
fn areas(pairs: &[Pair<'_>], known: bool, limit: usize, paper: Paper) -> (String, usize) {
    let changed: Vec<(Change, &Pair<'_>)> = pairs
        .iter()
        .filter_map(|pair| Some((change(pair)?, pair)))
        .collect();
    if changed.is_empty() {
        return ("no area differs\n".to_owned(), 0);
    }
    let mut columns = vec![
        Column::text(""),
        Column::text("from"),
        Column::number("size", 0),
        Column::number("was", 2),
        Column::text("may"),
    ];
    if known {
        columns.push(Column::number("resident", 1));
    }
    columns.push(Column::text("name"));
    let mut grid = Grid::new(&columns);
    for (change, (a, b)) in changed.iter().take(limit) {
        let Some(side) = b.or(*a) else { continue };
        let size = |side: &Side<'_>| side.area.end - side.area.start;
        let perms = |side: &Side<'_>| String::from_utf8_lossy(&side.area.perms).into_owned();
        let was = a
            .as_ref()
            .zip(b.as_ref())
            .filter(|(a, b)| size(a) != size(b));
        let may = match (a, b) {
            (Some(a), Some(b)) if a.area.perms != b.area.perms => {
                format!("{} → {}", perms(a), perms(b))
            }
            _ => perms(&side),
        };
        let mut row = vec![
            change.mark().to_owned(),
            format!("{:012x}", side.area.start),
            bytes(size(&side)),
            was.map_or_else(String::new, |(a, _)| bytes(size(a))),
            may,
        ];
        if known {
            let of = |side: &Option<Side<'_>>| {
                side.and_then(|side| side.figures)
                    .map_or(0, |figures| figures.resident)
            };
            row.push(signed(of(a), of(b)));
        }
        row.push(String::from_utf8_lossy(side.name).into_owned());
        grid.row(row);
    }
    (grid.text(paper), changed.len().saturating_sub(limit))
}

/// Lists the differences by name, where addresses say nothing, with the number of those that are
/// left out.
fn names(named: &Named<'_>, known: bool, limit: usize, paper: Paper) -> (String, usize) {
    let differs = |(a, b): &(Sum, Sum)| {
        a.areas != b.areas || a.bytes != b.bytes || resident(a) != resident(b)
    };
    let mut changed: Vec<_> = named.iter().filter(|(_, sums)| differs(sums)).collect();
    if changed.is_empty() {
        return (
            "what is mapped has the same names and sizes\n".to_owned(),
            0,
        );
    }
    changed.sort_by_key(|(_, (a, b))| std::cmp::Reverse(a.bytes.abs_diff(b.bytes)));
    let mut columns = vec![
        Column::text(""),
        Column::number("areas", 1),
        Column::number("size", 0),
    ];
    if known {
        columns.push(Column::number("resident", 2));
    }
    columns.push(Column::text("name"));
    let mut grid = Grid::new(&columns);
    for (name, (a, b)) in changed.iter().take(limit) {
        let change = match (a.areas, b.areas) {
            (_, 0) => Change::Gone,
            (0, _) => Change::New,
            _ => Change::Other,
        };
        let mut row = vec![
            change.mark().to_owned(),
            counted(a.areas, b.areas),
            signed(a.bytes, b.bytes),
        ];
        if known {
            row.push(signed(resident(a), resident(b)));
        }
        row.push(match name.is_empty() {
            true => "(no name)".to_owned(),
            false => String::from_utf8_lossy(name).into_owned(),
        });
        grid.row(row);
    }
    (grid.text(paper), changed.len().saturating_sub(limit))
}

/// Free ranges that only one of the two has.
fn gaps(first: &Snapshot, second: &Snapshot, paper: Paper) -> String {
    let key = |gap: &Gap| (gap.start, gap.end);
    let (a, b): (BTreeSet<_>, BTreeSet<_>) = (
        first.gaps().iter().map(key).collect(),
        second.gaps().iter().map(key).collect(),
    );
    let mut grid = Grid::new(&[
        Column::text(""),
        Column::text("from"),
        Column::text("to (not in it)"),
        Column::number("free", 0),
    ]);
    for gap in a.symmetric_difference(&b) {
        let change = if a.contains(gap) {
            Change::Gone
        } else {
            Change::New
        };
        grid.row([
            change.mark().to_owned(),
            format!("{:012x}", gap.0),
            format!("{:012x}", gap.1),
            bytes(gap.1 - gap.0),
        ]);
    }
    grid.text(paper)
}

/// For programs.
pub(super) fn json(first: &Snapshot, second: &Snapshot) -> Result<Value, String> {
    let pairs = pairs(first, second);
    let side = |side: &Option<Side<'_>>| {
        side.map(|side| {
            json!({
                "start": format!("{:#x}", side.area.start),
                "end": format!("{:#x}", side.area.end),
                "permissions": String::from_utf8_lossy(&side.area.perms),
                "offset": side.area.offset,
                "inode": side.area.inode,
                "name": String::from_utf8_lossy(side.name),
                "resident": side.figures.map(|figures| figures.resident),
                "swapped": side.figures.map(|figures| figures.swapped),
            })
        })
    };
    let changed: Vec<Value> = pairs
        .iter()
        .filter(|pair| change(pair).is_some())
        .map(|(a, b)| json!({ "first": side(a), "second": side(b) }))
        .collect();
    Ok(json!({
        "first": super::json::snapshot(first)?,
        "second": super::json::snapshot(second)?,
        "related": related(&pairs),
        "differences": changed,
    }))
}
