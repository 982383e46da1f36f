//! The picture of the kernel compared with Linux: each operation's share of Linux's instructions.

use std::path::Path;

use plotters::prelude::*;
use samara_pages::Figures;

use crate::Outcome;

/// The left edge of bars, and the pixels of Linux's instructions.
const LEFT: i32 = 270;
const WHOLE: f64 = 440.0;
const LINE: i32 = 20;
const TOP: i32 = 46;

/// A bar for each row that has instructions of both.
pub(crate) fn bars(figures: &Figures, path: &Path) -> Outcome<()> {
    let rows = figures.rows.iter().filter_map(|row| {
        let other = row.samples.get(1)?;
        (row.unit == "instructions").then_some((row.name.as_str(), other.ratio))
    });
    let rows: Vec<_> = rows.collect();
    let height = TOP + rows.len() as i32 * LINE + 10;
    let area = SVGBackend::new(path, (LEFT as u32 + 640, height as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    let text = |size| ("sans-serif", size).into_font();
    let title = "Instructions of each operation, as a part of Linux's in the same machine";
    area.draw(&Text::new(title, (10, 8), text(15)))?;
    let grey = RGBColor(0xb0, 0xb0, 0xb0);
    for (part, name) in [(0.5, "½"), (1.0, "Linux")] {
        let x = LEFT + (part * WHOLE) as i32;
        let line = vec![(x, TOP - 4), (x, height - 10)];
        area.draw(&PathElement::new(line, grey))?;
        area.draw(&Text::new(name, (x - 4, TOP - 18), text(12)))?;
    }
    for ((name, ratio), place) in rows.iter().zip(0..) {
        let y = TOP + place * LINE;
        let end = LEFT + (ratio.min(1.4) * WHOLE) as i32;
        let colour = if *ratio > 1.0 {
            RGBColor(0xff, 0x7f, 0x0e)
        } else {
            RGBColor(0x1f, 0x77, 0xb4)
        };
        area.draw(&Text::new((*name).to_owned(), (10, y), text(13)))?;
        area.draw(&Rectangle::new(
            [(LEFT, y + 1), (end, y + LINE - 5)],
            colour.filled(),
        ))?;
        let figure = if *ratio < 0.1 {
            format!("{ratio:.3}")
        } else {
            format!("{ratio:.2}")
        };
        area.draw(&Text::new(figure, (end + 6, y), text(12)))?;
    }
    area.present()?;
    Ok(())
}
