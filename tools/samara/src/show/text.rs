//! The output for people.

use std::fmt::Write;

use samara_conformance::names::printable;
use samara_linux::maps::Area;
use samara_linux::smaps::Figures;
use samara_mm::VmFlags;
use samara_tracer::quantity::{bytes, grouped, plural};

use super::fork::Fork;
use super::grid::{Column, Field, Grid, Paper};
use super::snapshot::{Border, Gap, Gaps, Snapshot, Sum};
use crate::kind::Kind;

/// Returns a number of bytes, or nothing for none.
fn some(number: u64) -> String {
    if number == 0 {
        "·".to_owned()
    } else {
        bytes(number)
    }
}

/// Returns the line above everything.
pub(crate) fn title(snapshot: &Snapshot) -> String {
    let threads = match snapshot.threads {
        Some(threads) => format!(" ── {}", plural(threads, "thread", "threads")),
        None => String::new(),
    };
    format!("── samara ── {}{threads}\n", printable(&snapshot.title))
}

/// Returns the groups, and the lines about the whole.
pub(crate) fn summary(snapshot: &Snapshot, paper: Paper) -> String {
    let (kinds, all) = snapshot.sums();
    let known = snapshot.known;
    type Row<'a> = (&'a str, &'a Sum);
    let mut fields = vec![
        Field::new(Column::text(""), |(name, _): &Row<'_>| (*name).to_owned()),
        Field::new(Column::number("areas", 1), |(_, sum): &Row<'_>| {
            grouped(sum.areas)
        }),
        Field::new(Column::number("size", 0), |(_, sum): &Row<'_>| {
            bytes(sum.bytes)
        }),
    ];
    if known {
        let figure = |heading, spare, of: fn(&Figures) -> u64| {
            let cell = move |(_, sum): &Row<'_>| some(of(&sum.figures));
            Field::new(Column::number(heading, spare), cell)
        };
        fields.extend([
            figure("resident", 0, |sum| sum.resident + sum.hugetlb),
            figure("dirty", 2, Figures::dirty),
            figure("swapped", 3, |sum| sum.swapped),
            figure("huge", 4, Figures::huge),
        ]);
    }
    let rows = kinds.iter().map(|(kind, sum)| (kind.name(), sum));
    let mut grid = Grid::of(&fields, rows.chain([("all", &all)]));
    grid.summed = true;
    let mut text = grid.text(paper);
    text.push('\n');
    let lines = [
        ("limit   ", Some(limit(snapshot))),
        ("gaps    ", gaps_line(snapshot)),
        ("borders ", borders_line(snapshot)),
        ("fork    ", fork_line(snapshot)),
    ];
    for (label, line) in lines {
        text.extend(line.map(|line| paper.fold(label, &line)));
    }
    text
}

fn limit(snapshot: &Snapshot) -> String {
    let (areas, limit) = (
        snapshot.map.areas().len() as u64,
        u64::from(snapshot.config.max_map_count),
    );
    let share = 100.0 * areas as f64 / limit.max(1) as f64;
    format!(
        "{} of {} areas (vm.max_map_count): {} more until mmap fails, {share:.1} % used",
        grouped(areas),
        grouped(limit),
        grouped(limit.saturating_sub(areas)),
    )
}

fn gaps_line(snapshot: &Snapshot) -> Option<String> {
    let gaps = Gaps::of(snapshot.gaps().into_iter());
    (gaps.count > 0).then(|| {
        format!(
            "{}, {} in all, the largest {}; fragments: {} in {} below 1 GiB",
            grouped(gaps.count),
            bytes(gaps.bytes),
            bytes(gaps.largest),
            bytes(gaps.fragment_bytes),
            plural(gaps.fragments, "gap", "gaps"),
        )
    })
}

fn borders_line(snapshot: &Snapshot) -> Option<String> {
    let counts = snapshot.border_counts();
    let all: u64 = counts.values().sum();
    let mut sorted: Vec<(Border, u64)> = counts.into_iter().collect();
    sorted.sort_by_key(|&(border, count)| (std::cmp::Reverse(count), border));
    let list: Vec<String> = sorted
        .iter()
        .map(|(border, count)| format!("{} {}", grouped(*count), border.text()))
        .collect();
    (all > 0).then(|| {
        format!(
            "{} between areas that touch: {}",
            grouped(all),
            list.join(" · ")
        )
    })
}

pub(crate) fn microseconds(us: f64) -> String {
    if us < 1_000.0 {
        format!("{us:.0} µs")
    } else {
        format!("{:.1} ms", us / 1_000.0)
    }
}

fn fork_line(snapshot: &Snapshot) -> Option<String> {
    let fork = Fork::of(snapshot)?;
    Some(format!(
        "about {} now, about {} with shared page tables (estimates, see --fork)",
        microseconds(fork.now_us),
        microseconds(fork.shared_us)
    ))
}

/// Describes the work of a fork.
pub(super) fn fork(snapshot: &Snapshot, paper: Paper) -> String {
    let Some(fork) = Fork::of(snapshot) else {
        return "nothing is known of the pages of a recording, so that a fork cannot be estimated\n"
            .to_owned();
    };
    let counts = format!(
        "{} and {} in {} go to the child",
        plural(fork.areas, "area", "areas"),
        plural(fork.entries, "page-table entry", "page-table entries"),
        plural(fork.tables, "table", "tables"),
    );
    let now = format!(
        "about {}: Linux duplicates the areas and copies the entries",
        microseconds(fork.now_us)
    );
    let shared = format!(
        "about {}: the areas as now, and the tables shared one by one; then up to {} more, if everything is written to",
        microseconds(fork.shared_us),
        microseconds(fork.shared_later_us)
    );
    let estimates = "Estimates: counts of this process times medians that docs/benchmarks.md has; another machine takes other times.";
    let lines = [
        ("fork    ", &counts[..]),
        ("  now     ", &now),
        ("  shared  ", &shared),
        ("  ", estimates),
    ];
    lines.map(|(label, line)| paper.fold(label, line)).concat()
}

/// Returns the difference between the area and the adjacent one below it, in a few words.
fn border_text(snapshot: &Snapshot, at: usize, border: Option<Border>) -> String {
    let Some(border) = border else {
        return String::new();
    };
    let areas = snapshot.map.areas();
    let perms = |i: usize| String::from_utf8_lossy(&areas[i].perms).into_owned();
    match border {
        Border::Permissions => format!("{} below", perms(at - 1)),
        Border::Flags => {
            let flags = |i: usize| snapshot.told.get(i).map_or(VmFlags::empty(), |told| told.0);
            let differing = (flags(at - 1) ^ flags(at)) - VmFlags::SOFTDIRTY;
            let names: Vec<_> = differing.smaps_names().collect();
            format!("flags: {}", names.join(" "))
        }
        other => other.text().to_owned(),
    }
}

/// A column of names and paths, which are worth much room.
const NAME: Column = Column {
    least: 24,
    ..Column::text("name")
};

/// Returns the device and the inode of an area's file, or dots without a file.
fn object(area: &Area) -> [String; 2] {
    match (area.major, area.minor, area.inode) {
        (0, 0, 0) => ["·", "·"].map(str::to_owned),
        (major, minor, inode) => [format!("{major:02x}:{minor:02x}"), inode.to_string()],
    }
}

/// Returns every area.
pub(super) fn maps(snapshot: &Snapshot, paper: Paper) -> String {
    type Row<'a> = (usize, (&'a Area, Kind, Option<&'a Figures>));
    fn figure<'a>(heading: &'static str, spare: u8, of: fn(&Figures) -> u64) -> Field<'a, Row<'a>> {
        let cell = move |(_, (_, _, figures)): &Row<'a>| some(figures.map_or(0, of));
        Field::new(Column::number(heading, spare), cell)
    }
    fn area<'a>(column: Column, of: impl Fn(&Area) -> String + 'a) -> Field<'a, Row<'a>> {
        Field::new(column, move |(_, (area, ..)): &Row<'a>| of(area))
    }
    let border = |i: usize| border_text(snapshot, i, snapshot.borders.get(i).copied().flatten());
    let name = |area: &Area| String::from_utf8_lossy(snapshot.map.name(area)).into_owned();
    let fields = [
        area(Column::text("from"), |area| format!("{:012x}", area.start)),
        area(Column::number("to (not in it)", 7), |area| {
            format!("{:012x}", area.end)
        }),
        area(Column::number("size", 1), |area| {
            bytes(area.end - area.start)
        }),
        area(Column::text("may"), |area| {
            String::from_utf8_lossy(&area.perms).into_owned()
        }),
        area(Column::number("offset", 9), |area| {
            format!("{:x}", area.offset)
        }),
        area(Column::number("device", 10), |area| object(area)[0].clone()),
        area(Column::number("inode", 11), |area| object(area)[1].clone()),
        figure("resident", 3, |figures| figures.resident + figures.hugetlb),
        figure("PSS", 8, |figures| figures.proportional),
        Field::new(text("is", 4), |(_, (_, kind, _)): &Row<'_>| {
            kind.name().to_owned()
        }),
        Field::new(
            text("why apart from the one below", 6),
            |(i, _): &Row<'_>| border(*i),
        ),
        area(NAME, name),
    ];
    Grid::of(&fields, snapshot.areas().enumerate()).text(paper)
}

/// Returns a column of text that is left out as `spare` says.
const fn text(heading: &'static str, spare: u8) -> Column {
    Column {
        spare,
        ..Column::text(heading)
    }
}

/// A line of [`smaps`]: an area, or all of them.
struct Line<'a> {
    area: Option<(&'a Area, Kind)>,
    bytes: u64,
    figures: Figures,
}

/// Returns every area with its pages in memory.
pub(super) fn smaps(snapshot: &Snapshot, paper: Paper) -> String {
    if !snapshot.known {
        return "nothing is known of the pages of a recording\n".to_owned();
    }
    let figure = |heading, spare, of: fn(&Figures) -> u64| {
        let cell = move |line: &Line<'_>| some(of(&line.figures));
        Field::new(Column::number(heading, spare), cell)
    };
    let name = |area: &Area| String::from_utf8_lossy(snapshot.map.name(area)).into_owned();
    let fields = [
        Field::new(Column::text("from"), |line: &Line<'_>| match line.area {
            Some((area, _)) => format!("{:012x}", area.start),
            None => "all".to_owned(),
        }),
        Field::new(
            Column::number("to (not in it)", 11),
            |line: &Line<'_>| match line.area {
                Some((area, _)) => format!("{:012x}", area.end),
                None => String::new(),
            },
        ),
        Field::new(Column::number("size", 1), |line: &Line<'_>| {
            bytes(line.bytes)
        }),
        figure("resident", 0, |sum| sum.resident + sum.hugetlb),
        figure("PSS", 6, |sum| sum.proportional),
        figure("shared", 5, |sum| sum.shared_clean + sum.shared_dirty),
        figure("private", 4, |sum| sum.private_clean + sum.private_dirty),
        figure("dirty", 2, Figures::dirty),
        figure("anonymous", 7, |sum| sum.anonymous),
        figure("huge", 9, Figures::huge),
        figure("swapped", 3, |sum| sum.swapped),
        figure("locked", 10, |sum| sum.locked),
        Field::new(text("is", 8), |line: &Line<'_>| match line.area {
            Some((_, kind)) => kind.name().to_owned(),
            None => String::new(),
        }),
        Field::new(NAME, |line: &Line<'_>| {
            line.area.map_or_else(String::new, |(area, _)| name(area))
        }),
    ];
    let lines = snapshot.areas().map(|(area, kind, figures)| Line {
        area: Some((area, kind)),
        bytes: area.end - area.start,
        figures: figures.copied().unwrap_or_default(),
    });
    let (_, all) = snapshot.sums();
    let all = Line {
        area: None,
        bytes: all.bytes,
        figures: all.figures,
    };
    let mut grid = Grid::of(&fields, lines.chain([all]));
    grid.summed = true;
    grid.text(paper)
}

/// Returns every free range, and what lies at its ends.
pub(super) fn gaps(snapshot: &Snapshot, paper: Paper) -> String {
    let areas = snapshot.map.areas();
    let name = |i: Option<usize>| match i.and_then(|i| areas.get(i).zip(snapshot.kinds.get(i))) {
        None => "the end".to_owned(),
        Some((area, kind)) => match snapshot.map.name(area) {
            b"" => kind.name().to_owned(),
            name => String::from_utf8_lossy(name).into_owned(),
        },
    };
    let below = |gap: &Gap| areas.partition_point(|area| area.start < gap.start);
    let fields = [
        Field::new(Column::text("from"), |gap: &Gap| {
            format!("{:012x}", gap.start)
        }),
        Field::new(text("to (not in it)", 3), |gap: &Gap| {
            format!("{:012x}", gap.end)
        }),
        Field::new(Column::number("free", 0), |gap: &Gap| bytes(gap.bytes())),
        Field::new(text("after", 2), |gap: &Gap| {
            name(below(gap).checked_sub(1))
        }),
        Field::new(text("before", 1), |gap| name(Some(below(gap)))),
    ];
    Grid::of(&fields, snapshot.gaps()).text(paper)
}

/// Returns the tree that holds the areas, node by node: each leaf's entries by their names.
pub(super) fn tree(snapshot: &Snapshot) -> Result<String, String> {
    let engine = snapshot.engine()?;
    let stats = engine.stats();
    let mut text = format!(
        "tree    {}, {} for {}\n",
        plural(stats.tree_height as u64, "level", "levels"),
        bytes(stats.tree_bytes as u64),
        plural(stats.areas as u64, "area", "areas"),
    );
    let dump = engine.tree().to_string();
    for line in dump.lines().skip(1) {
        // What the words of the entries are means nothing to a person: their names do.
        let entry = line.trim_start().split_once(": ");
        match entry.and_then(|(range, word)| Some((range.split_once('-')?.0, word))) {
            Some((first, word)) if word != "hole" => {
                let indent = &line[..line.len() - line.trim_start().len()];
                let start = first.trim_start_matches("0x");
                let start = u64::from_str_radix(start, 16).unwrap_or(0);
                let name = snapshot.map.at(start).map(|area| {
                    let name = String::from_utf8_lossy(snapshot.map.name(area));
                    let perms = String::from_utf8_lossy(&area.perms);
                    let size = bytes(area.end - area.start);
                    format!("{perms} {size} {}", printable(&name))
                });
                let name = name.unwrap_or_default();
                let _ = writeln!(text, "{indent}{start:012x} {}", name.trim_end());
            }
            Some((first, _)) => {
                let indent = &line[..line.len() - line.trim_start().len()];
                let start = first.trim_start_matches("0x");
                let _ = writeln!(text, "{indent}{start:0>12} hole");
            }
            None => {
                let _ = writeln!(text, "{}", without_pointer(line));
            }
        }
    }
    Ok(text)
}

/// Returns a line about a node, without where the node is.
fn without_pointer(line: &str) -> String {
    match (line.rfind(" 0x"), line.find(", ")) {
        (Some(from), Some(to)) if from < to => format!("{}{}", &line[..from], &line[to..]),
        _ => line.to_owned(),
    }
}
