//! The pictures, as SVG.

use std::collections::BTreeMap;
use std::path::Path;

use plotters::coord::ranged1d::{KeyPointHint, Ranged};
use plotters::prelude::*;
use samara_bench::{Report, Row};

use crate::{Outcome, short};

/// The same colour for a subject in all pictures.
fn colour(subject: &str) -> RGBColor {
    const COLOURS: [(&str, RGBColor); 13] = [
        ("BTreeMap", RGBColor(0x1f, 0x77, 0xb4)),
        ("RwLock<BTreeMap>", RGBColor(0x1f, 0x77, 0xb4)),
        ("sorted Vec", RGBColor(0x7f, 0x7f, 0x7f)),
        ("rangemap", RGBColor(0x2c, 0xa0, 0x2c)),
        ("nodit", RGBColor(0x94, 0x67, 0xbd)),
        ("iset", RGBColor(0xff, 0x7f, 0x0e)),
        ("im", RGBColor(0x8c, 0x56, 0x4b)),
        ("arc-swap over im", RGBColor(0x8c, 0x56, 0x4b)),
        ("crossbeam-skiplist", RGBColor(0xff, 0x7f, 0x0e)),
        ("scc", RGBColor(0x2c, 0xa0, 0x2c)),
        ("maple-tree, snapshots", RGBColor(0xd6, 0x27, 0x28)),
        ("maple-tree, RCU", RGBColor(0xe3, 0x77, 0xc2)),
        (short::LINUX, RGBColor(0xff, 0x7f, 0x0e)),
    ];
    COLOURS
        .iter()
        .find(|(name, _)| *name == subject)
        .map_or(RGBColor(0xd6, 0x27, 0x28), |(_, colour)| *colour)
}

/// One small picture for each operation: entries across, nanoseconds up, both by powers of ten.
pub(crate) fn growth(report: &Report, path: &Path) -> Outcome<()> {
    const COLUMNS: usize = 3;
    let mut names: Vec<&str> = Vec::new();
    for row in &report.rows {
        if !names.contains(&row.name.as_str()) {
            names.push(&row.name);
        }
    }
    let lines = names.len().div_ceil(COLUMNS);
    let area = SVGBackend::new(path, (1080, 40 + lines as u32 * 240)).into_drawing_area();
    area.fill(&WHITE)?;
    let (top, rest) = area.split_vertically(40);
    let mut subjects: Vec<&str> = Vec::new();
    for sample in report.rows.iter().flat_map(|row| &row.samples) {
        if !subjects.contains(&sample.subject.as_str()) {
            subjects.push(&sample.subject);
        }
    }
    draw_key(&top, &subjects)?;
    for (panel, name) in rest.split_evenly((lines, COLUMNS)).iter().zip(&names) {
        draw_operation(panel, name, report)?;
    }
    area.present()?;
    Ok(())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw_key(area: &Area<'_>, subjects: &[&str]) -> Outcome<()> {
    let mut x = 20;
    for subject in subjects {
        area.draw(&Rectangle::new(
            [(x, 14), (x + 14, 26)],
            colour(subject).filled(),
        ))?;
        area.draw(&Text::new(
            (*subject).to_owned(),
            (x + 20, 13),
            ("sans-serif", 14),
        ))?;
        x += 40 + 8 * subject.len() as i32;
    }
    Ok(())
}

fn draw_operation(panel: &Area<'_>, name: &str, report: &Report) -> Outcome<()> {
    /// The value at which operations without measurable time are drawn.
    const LEAST: f64 = 0.001;
    let mut lines: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    let mut across = (f64::MAX, f64::MIN);
    let mut up = (f64::MAX, f64::MIN);
    for row in report.rows.iter().filter(|row| row.name == name) {
        let Some(entries) = row.entries else { continue };
        for sample in &row.samples {
            let point = ((entries as f64).log10(), sample.min.max(LEAST).log10());
            across = (across.0.min(point.0), across.1.max(point.0));
            up = (up.0.min(point.1), up.1.max(point.1));
            lines.entry(&sample.subject).or_default().push(point);
        }
    }
    if lines.is_empty() {
        return Ok(());
    }
    let across = Powers(across.0, across.1.max(across.0 + 1.0));
    let up = Powers(up.0 - 0.1, up.1.max(up.0 + 1.0) + 0.1);
    let mut chart = ChartBuilder::on(panel)
        .caption(format!("{name} ({})", report.unit), ("sans-serif", 15))
        .margin(8)
        .margin_right(22)
        .x_label_area_size(22)
        .y_label_area_size(44)
        .build_cartesian_2d(across, up)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(0xe4, 0xe4, 0xe4))
        .label_style(("sans-serif", 12))
        .x_label_formatter(&|power| entries_label(*power))
        .y_label_formatter(&|power| figure_label(*power))
        .draw()?;
    // Ours last, on top.
    let mut order: Vec<_> = lines.into_iter().collect();
    order.sort_by_key(|(subject, _)| subject.starts_with("maple-tree"));
    for (subject, points) in order {
        let width = if subject.starts_with("maple-tree") {
            3
        } else {
            1
        };
        let style = colour(subject).stroke_width(width);
        chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
        chart.draw_series(
            points
                .iter()
                .map(|&point| Circle::new(point, width + 1, colour(subject).filled())),
        )?;
    }
    Ok(())
}

/// A range of powers of ten, marked at each whole one.
struct Powers(f64, f64);

impl Ranged for Powers {
    type FormatOption = plotters::coord::ranged1d::NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let part = (value - self.0) / (self.1 - self.0);
        limit.0 + (part * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        let mut points = Vec::new();
        let mut at = self.0.ceil();
        while at <= self.1 {
            points.push(at);
            at += 1.0;
        }
        points
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.0..self.1
    }
}

impl plotters::coord::ranged1d::ValueFormatter<f64> for Powers {}

fn entries_label(power: f64) -> String {
    let count = 10_f64.powf(power).round();
    if count >= 1e6 {
        format!("{}M", count / 1e6)
    } else if count >= 1e3 {
        format!("{}k", count / 1e3)
    } else {
        format!("{count}")
    }
}

fn figure_label(power: f64) -> String {
    let figure = 10_f64.powf(power);
    if figure < 1.0 {
        format!("{figure:.*}", -power.floor() as usize)
    } else if figure >= 1e6 {
        format!("{:.0}M", figure / 1e6)
    } else if figure >= 1e3 {
        format!("{:.0}k", figure / 1e3)
    } else {
        format!("{figure:.0}")
    }
}

/// Bars, a group for each row, from zero.
pub(crate) fn readers(report: &Report, path: &Path) -> Outcome<()> {
    const BAR: i32 = 16;
    const LEFT: i32 = 20;
    const NAMES: i32 = 190;
    const WIDTH: i32 = 900;
    let group = |row: &Row| 40 + BAR * row.samples.len() as i32;
    let height: i32 = 20 + report.rows.iter().map(group).sum::<i32>();
    let area = SVGBackend::new(path, (WIDTH as u32, height as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut y = 10;
    for row in &report.rows {
        let unit = row.unit.as_deref().unwrap_or(&report.unit);
        area.draw(&Text::new(
            format!("{} ({unit})", row.name),
            (LEFT, y),
            ("sans-serif", 15),
        ))?;
        y += 24;
        let most = row
            .samples
            .iter()
            .map(|sample| sample.max)
            .fold(0.001, f64::max);
        for sample in &row.samples {
            let figure = sample.best(row.sense);
            let length = (figure / most * f64::from(WIDTH - NAMES - 80)) as i32;
            area.draw(&Text::new(
                sample.subject.clone(),
                (LEFT, y),
                ("sans-serif", 13),
            ))?;
            area.draw(&Rectangle::new(
                [(NAMES, y), (NAMES + length.max(1), y + BAR - 3)],
                colour(&sample.subject).filled(),
            ))?;
            area.draw(&Text::new(
                format!("{figure:.2}"),
                (NAMES + length + 6, y),
                ("sans-serif", 13),
            ))?;
            y += BAR;
        }
        y += 16;
    }
    area.present()?;
    Ok(())
}

/// A line for each operation of the short table, and on it how long each map takes relative to the standard one, by powers of ten.
pub(crate) fn overview(report: &Report, path: &Path) -> Outcome<()> {
    const LINE: i32 = 26;
    const TOP: i32 = 62;
    const LEFT: i32 = 310;
    const RIGHT: i32 = 880;
    /// The powers of ten at both ends: 0.006, and ten times as long.
    const ENDS: (f64, f64) = (-2.2, 1.0);
    let at = |ratio: f64| {
        let part = (ratio.log10() - ENDS.0) / (ENDS.1 - ENDS.0);
        LEFT + (part.clamp(0.0, 1.0) * f64::from(RIGHT - LEFT)).round() as i32
    };
    let rows = short::rows(report);
    let bottom = TOP + LINE * rows.len() as i32;
    let area = SVGBackend::new(path, (900, bottom as u32 + 44)).into_drawing_area();
    area.fill(&WHITE)?;
    let subjects = ["maple-tree", "rangemap", short::LINUX, "BTreeMap"];
    draw_key(&area, &subjects)?;
    for mark in [0.01, 0.1, 1.0, 10.0] {
        let standard = mark == 1.0;
        let style = if standard {
            colour("BTreeMap").stroke_width(2)
        } else {
            RGBColor(0xe4, 0xe4, 0xe4).stroke_width(1)
        };
        area.draw(&PathElement::new(
            [(at(mark), TOP - 8), (at(mark), bottom)],
            style,
        ))?;
        area.draw(&Text::new(
            format!("{mark}"),
            (at(mark) - 8, bottom + 4),
            ("sans-serif", 13),
        ))?;
    }
    area.draw(&Text::new(
        "relative to BTreeMap; further to the left is better",
        (LEFT + 130, bottom + 22),
        ("sans-serif", 13),
    ))?;
    for (i, row) in rows.iter().enumerate() {
        let y = TOP + LINE * i as i32 + LINE / 2;
        area.draw(&Text::new(row.label, (20, y - 7), ("sans-serif", 14)))?;
        area.draw(&PathElement::new(
            [(LEFT, y), (RIGHT, y)],
            RGBColor(0xf0, 0xf0, 0xf0),
        ))?;
        let points = [(short::LINUX, row.linux), ("rangemap", row.rangemap)]
            .into_iter()
            .filter_map(|(subject, worse)| Some((subject, worse?)))
            // Ours last, on top.
            .chain([("maple-tree", 1.0)]);
        for (subject, worse) in points {
            let size = if subject == "maple-tree" { 6 } else { 5 };
            let place = (at(worse / row.standard), y);
            area.draw(&Circle::new(place, size, colour(subject).filled()))?;
        }
    }
    area.present()?;
    Ok(())
}
