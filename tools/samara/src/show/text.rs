//! The output for people.

use std::fmt::Write;

use samara_conformance::names::printable;
use samara_linux::maps::Area;
use samara_linux::smaps::Figures;
use samara_mm::VmFlags;
use samara_tracer::quantity::{bytes, grouped, plural};

use super::fork::Fork;
use super::grid::{Column, Grid, Paper};
use super::snapshot::{Border, Gaps, Snapshot};

/// A number of bytes, or nothing for none.
fn some(number: u64) -> String {
    if number == 0 {
        "·".to_owned()
    } else {
        bytes(number)
    }
}

/// The line above everything.
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
    let mut columns = vec![
        Column::text(""),
        Column::number("areas", 1),
        Column::number("size", 0),
    ];
    if known {
        columns.extend([
            Column::number("resident", 0),
            Column::number("dirty", 2),
            Column::number("swapped", 3),
            Column::number("huge", 4),
        ]);
    }
    let mut grid = Grid::new(&columns);
    let rows = kinds.iter().map(|(kind, sum)| (kind.name(), sum));
    for (name, sum) in rows.chain([("all", &all)]) {
        let mut row = vec![name.to_owned(), grouped(sum.areas), bytes(sum.bytes)];
        if known {
            let figures = &sum.figures;
            row.extend([
                some(figures.resident + figures.hugetlb),
                some(figures.dirty()),
                some(figures.swapped),
                some(figures.huge()),
            ]);
        }
        grid.row(row);
    }
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

/// The device and the number of an area's file in it: nothing where there is none.
fn object(area: &Area) -> [String; 2] {
    match (area.major, area.minor, area.inode) {
        (0, 0, 0) => ["·", "·"].map(str::to_owned),
        (major, minor, inode) => [format!("{major:02x}:{minor:02x}"), inode.to_string()],
    }
}

/// Every area.
pub(super) fn maps(snapshot: &Snapshot, paper: Paper) -> String {
    let mut grid = Grid::new(&[
        Column::text("from"),
        Column::number("to (not in it)", 7),
        Column::number("size", 1),
        Column::text("may"),
        Column::number("offset", 9),
        Column::number("device", 10),
        Column::number("inode", 11),
        Column::number("resident", 3),
        Column::number("PSS", 8),
        Column {
            spare: 4,
            ..Column::text("is")
        },
        Column {
            spare: 6,
            ..Column::text("why apart from the one below")
        },
        NAME,
    ]);
    let borders = &snapshot.borders;
    for (i, (area, kind, figures)) in snapshot.areas().enumerate() {
        let [device, inode] = object(area);
        let of_pages = |figure: fn(&Figures) -> u64| some(figures.map_or(0, figure));
        grid.row([
            format!("{:012x}", area.start),
            format!("{:012x}", area.end),
            bytes(area.end - area.start),
            String::from_utf8_lossy(&area.perms).into_owned(),
            format!("{:x}", area.offset),
            device,
            inode,
            of_pages(|figures| figures.resident + figures.hugetlb),
            of_pages(|figures| figures.proportional),
            kind.name().to_owned(),
            border_text(snapshot, i, borders.get(i).copied().flatten()),
            String::from_utf8_lossy(snapshot.map.name(area)).into_owned(),
        ]);
    }
    grid.text(paper)
}

/// Every area with what is in memory of it.
pub(super) fn smaps(snapshot: &Snapshot, paper: Paper) -> String {
    if !snapshot.known {
        return "nothing is known of the pages of a recording\n".to_owned();
    }
    let mut grid = Grid::new(&[
        Column::text("from"),
        Column::number("to (not in it)", 11),
        Column::number("size", 1),
        Column::number("resident", 0),
        Column::number("PSS", 6),
        Column::number("shared", 5),
        Column::number("private", 4),
        Column::number("dirty", 2),
        Column::number("anonymous", 7),
        Column::number("huge", 9),
        Column::number("swapped", 3),
        Column::number("locked", 10),
        Column {
            spare: 8,
            ..Column::text("is")
        },
        NAME,
    ]);
    let cells = |sum: &Figures| {
        [
            sum.resident + sum.hugetlb,
            sum.proportional,
            sum.shared_clean + sum.shared_dirty,
            sum.private_clean + sum.private_dirty,
            sum.dirty(),
            sum.anonymous,
            sum.huge(),
            sum.swapped,
            sum.locked,
        ]
        .map(some)
    };
    for (area, kind, figures) in snapshot.areas() {
        let figures = figures.copied().unwrap_or_default();
        let mut row = vec![
            format!("{:012x}", area.start),
            format!("{:012x}", area.end),
            bytes(area.end - area.start),
        ];
        row.extend(cells(&figures));
        row.push(kind.name().to_owned());
        row.push(String::from_utf8_lossy(snapshot.map.name(area)).into_owned());
        grid.row(row);
    }
    let (_, all) = snapshot.sums();
    let mut row = vec!["all".to_owned(), String::new(), bytes(all.bytes)];
    row.extend(cells(&all.figures));
    row.extend([String::new(), String::new()]);
    grid.row(row);
    grid.summed = true;
    grid.text(paper)
}

/// Every free range, and what lies at its ends.
pub(super) fn gaps(snapshot: &Snapshot, paper: Paper) -> String {
    let mut grid = Grid::new(&[
        Column::text("from"),
        Column {
            spare: 3,
            ..Column::text("to (not in it)")
        },
        Column::number("free", 0),
        Column {
            spare: 2,
            ..Column::text("after")
        },
        Column {
            spare: 1,
            ..Column::text("before")
        },
    ]);
    let areas = snapshot.map.areas();
    let name = |i: Option<usize>| match i.and_then(|i| areas.get(i).zip(snapshot.kinds.get(i))) {
        None => "the end".to_owned(),
        Some((area, kind)) => match snapshot.map.name(area) {
            b"" => kind.name().to_owned(),
            name => String::from_utf8_lossy(name).into_owned(),
        },
    };
    for gap in snapshot.gaps() {
        let below = areas.partition_point(|area| area.start < gap.start);
        grid.row([
            format!("{:012x}", gap.start),
            format!("{:012x}", gap.end),
            bytes(gap.bytes()),
            name(below.checked_sub(1)),
            name(Some(below)),
        ]);
    }
    grid.text(paper)
}

/// The tree that holds the areas, node by node: each leaf's entries by their names.
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

/// A line about a node, without where the node is.
fn without_pointer(line: &str) -> String {
    match (line.rfind(" 0x"), line.find(", ")) {
        (Some(from), Some(to)) if from < to => format!("{}{}", &line[..from], &line[to..]),
        _ => line.to_owned(),
    }
}
