//! Processes with pages: the table of operations and the kernel's figures, and the projection to
//! more processors.

use std::fmt::Write as _;
use std::path::Path;

use plotters::prelude::*;
use samara_pages::{Figures, Row};

use crate::{Outcome, digits};

/// All rows: ours, the others and how many times as much ours takes, and what was to be reached.
pub(crate) fn operations(figures: &Figures) -> String {
    let mut text =
        String::from("| operation | Samara | others | target | reached |\n|---|--:|--:|--:|---|\n");
    for row in &figures.rows {
        let Some(ours) = row.samples.first() else {
            continue;
        };
        let others: Vec<_> = row.samples[1..]
            .iter()
            .map(|its| {
                format!(
                    "{} {} ({})",
                    its.subject,
                    digits(its.median),
                    ratio(row, its.ratio)
                )
            })
            .collect();
        let _ = writeln!(
            text,
            "| {} | {} {} | {} | {} | {} |",
            row.name,
            digits(ours.median),
            row.unit,
            others.join("; "),
            target(row),
            row.met().map_or("", |met| if met { "yes" } else { "no" }),
        );
    }
    text
}

/// Bold where ours loses.
fn ratio(row: &Row, ratio: f64) -> String {
    let loses = if row.more { ratio < 1.0 } else { ratio > 1.0 };
    let text = samara_pages::ratio(ratio);
    if loses { format!("**{text}**") } else { text }
}

fn target(row: &Row) -> String {
    let Some(target) = &row.target else {
        return String::new();
    };
    let sense = if row.more { "≥" } else { "≤" };
    match &target.beside {
        None => format!("{sense} {} {}", digits(target.limit), row.unit),
        Some(beside) => format!("{sense} {:.1} of {beside}", target.limit),
    }
}

/// Operations a second on more and more processors, both by powers: the model as lines, what was measured as dots.
pub(crate) fn projection(figures: &Figures, path: &Path) -> Outcome<()> {
    const COLOURS: [RGBColor; 9] = [
        RGBColor(0x1f, 0x77, 0xb4),
        RGBColor(0xff, 0x7f, 0x0e),
        RGBColor(0x2c, 0xa0, 0x2c),
        RGBColor(0xd6, 0x27, 0x28),
        RGBColor(0x94, 0x67, 0xbd),
        RGBColor(0x8c, 0x56, 0x4b),
        RGBColor(0xe3, 0x77, 0xc2),
        RGBColor(0x7f, 0x7f, 0x7f),
        RGBColor(0x17, 0xbe, 0xcf),
    ];
    let all = || {
        figures
            .projections
            .iter()
            .flat_map(|projection| &projection.points)
    };
    let least = all().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let most = all().map(|point| point.1).fold(0.0, f64::max);
    let area = SVGBackend::new(path, (900, 520)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(
            "A projection from a model, not a measurement: millions of operations a second (dots: measured on two processors)",
            ("sans-serif", 15),
        )
        .margin(10)
        .margin_right(130)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d((1_f64..160.0).log_scale(), (least / 2.0..most * 2.0).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc("processors")
        .draw()?;
    for (projection, colour) in figures.projections.iter().zip(COLOURS) {
        let points = || {
            projection
                .points
                .iter()
                .map(|&(n, rate)| (f64::from(n), rate))
        };
        chart.draw_series(LineSeries::new(points(), colour.stroke_width(2)))?;
        let measured = projection.measured.iter();
        chart.draw_series(
            measured.map(|&(n, rate)| Circle::new((f64::from(n), rate), 4, colour.filled())),
        )?;
        if let Some(last) = points().next_back() {
            let name = Text::new(
                projection.name.clone(),
                last,
                ("sans-serif", 13).into_font().color(&colour),
            );
            chart.draw_series([name])?;
        }
    }
    area.present()?;
    Ok(())
}

/// The model's numbers.
pub(crate) fn model(figures: &Figures) -> String {
    let mut text =
        String::from("| operation | alone, ns | one at a time, ns | longer with another, ns |");
    let processors: Vec<u32> = figures.projections.first().map_or(Vec::new(), |first| {
        first.points.iter().map(|point| point.0).collect()
    });
    for n in &processors {
        let _ = write!(text, " {n} |");
    }
    let _ = writeln!(
        text,
        "\n|---|--:|--:|--:|{}",
        "--:|".repeat(processors.len())
    );
    for projection in &figures.projections {
        let _ = write!(
            text,
            "| {} | {} | {} | {} |",
            projection.name,
            digits(projection.alone),
            digits(projection.serial),
            digits(projection.shared),
        );
        for (_, rate) in &projection.points {
            let _ = write!(text, " {} |", digits(*rate));
        }
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "\nLoad of the machine when the run began: {:.1}.",
        figures.load
    );
    text
}
