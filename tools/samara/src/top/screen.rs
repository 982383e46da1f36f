//! The list on a terminal.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};
use samara_conformance::names::printable;
use samara_tracer::quantity::{grouped, number_of};

use super::columns::Column;
use super::view::{Mode, View};

/// The length of names that are cut only where the terminal ends.
const NAME: usize = 15;

/// Draws all of it, and tells the view how much room there is.
pub(super) fn draw(frame: &mut Frame<'_>, view: &mut View) {
    let [top, heading, list, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    view.resize(usize::from(list.height));
    frame.render_widget(Paragraph::new(title(view)), top);
    if let Mode::Details(lines, first) = &view.mode {
        let lines: Vec<Line<'_>> = lines
            .iter()
            .skip(*first)
            .map(|line| Line::raw(&line[..]))
            .collect();
        let below = heading.union(list);
        frame.render_widget(Paragraph::new(lines), below);
    } else {
        table(frame, view, heading, list);
    }
    match view.mode {
        Mode::Help => window(frame, list, " Help: any key closes it ", help()),
        Mode::Sorting(place) => window(frame, list, " Sort by ", columns(place)),
        _ => {}
    }
    frame.render_widget(Paragraph::new(keys(view)), foot);
}

fn title(view: &View) -> Line<'_> {
    let sample = view.sample();
    let mut text = number_of(sample.processes.len() as u64, "process");
    let closed = sample.closed();
    if closed > 0 {
        text += &format!(", {} of them may not be looked at", grouped(closed as u64));
    }
    text += &format!(" · vm.max_map_count {}", grouped(sample.limit));
    if !view.filter.is_empty() {
        text += &format!(
            " · {} with `{}`",
            grouped(view.count() as u64),
            printable(&view.filter)
        );
    }
    Line::from(text)
}

fn table(frame: &mut Frame<'_>, view: &View, heading: Rect, list: Rect) {
    let limit = view.sample().limit;
    let rows: Vec<(Vec<String>, bool, u64)> = view
        .seen()
        .map(|(process, chosen)| {
            let cells = Column::ALL.map(|column| column.text(process, limit));
            let areas = process.mapped.map_or(0, |mapped| mapped.areas);
            (cells.to_vec(), chosen, areas)
        })
        .collect();
    let width = |column: usize| {
        let own = Column::ALL[column].heading().len() + 1;
        let cells = rows.iter().map(|(cells, ..)| cells[column].chars().count());
        let least = if Column::ALL[column].is_number() {
            own
        } else {
            NAME
        };
        cells.fold(least, usize::max)
    };
    let mut shown: Vec<(usize, usize)> = (0..Column::ALL.len())
        .map(|column| (column, width(column)))
        .collect();
    let room = usize::from(list.width);
    while shown.iter().map(|(_, width)| width + 1).sum::<usize>() > room + 1 {
        let spare = shown
            .iter()
            .map(|&(column, _)| Column::ALL[column].spare())
            .max();
        match spare {
            Some(spare) if spare > 0 => {
                shown.retain(|&(column, _)| Column::ALL[column].spare() != spare)
            }
            _ => break,
        }
    }
    let line = |text: &dyn Fn(usize) -> String| {
        let mut line = String::new();
        for &(column, width) in &shown {
            let text = text(column);
            line += &if Column::ALL[column].is_number() {
                format!("{text:>width$} ")
            } else {
                format!("{text:<width$} ")
            };
        }
        format!("{line:<room$}")
    };
    let headings = line(&|column| {
        let column = Column::ALL[column];
        let sorted = column == view.order.column;
        let mark = if !sorted {
            ""
        } else if view.order.descending {
            "▽"
        } else {
            "△"
        };
        format!("{}{mark}", column.heading())
    });
    let bold = Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
    frame.render_widget(Paragraph::new(Line::styled(headings, bold)), heading);
    let lines: Vec<Line<'_>> = rows
        .iter()
        .map(|(cells, chosen, areas)| {
            let mut style = Style::new();
            // Near the limit, with a sign in addition to the colour.
            if *areas * 10 >= limit * 9 {
                style = style.add_modifier(Modifier::BOLD);
            }
            if *chosen {
                style = style.add_modifier(Modifier::REVERSED);
            }
            Line::styled(line(&|column| cells[column].clone()), style)
        })
        .collect();
    frame.render_widget(Paragraph::new(lines), list);
}

/// A window in the middle, as large as its lines.
fn window(frame: &mut Frame<'_>, within: Rect, title: &'static str, lines: Vec<Line<'static>>) {
    let width = lines
        .iter()
        .map(Line::width)
        .max()
        .unwrap_or(0)
        .max(title.len()) as u16
        + 4;
    let height = lines.len() as u16 + 2;
    let (width, height) = (width.min(within.width), height.min(within.height));
    let place = Rect {
        x: within.x + (within.width - width) / 2,
        y: within.y + (within.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, place);
    let text = Paragraph::new(lines).block(Block::bordered().title(title));
    frame.render_widget(text, place);
}

fn help() -> Vec<Line<'static>> {
    const KEYS: [(&str, &str); 10] = [
        ("↑ ↓ PgUp PgDn Home End", "choose a process"),
        ("Enter", "show its memory, as `samara show` does"),
        ("F6 < >", "choose the column to sort by"),
        ("I", "turn the order round"),
        ("N M", "sort by number, by what is in memory"),
        ("F3 /", "search a name or a number; F3 again: the next"),
        (
            "F4 \\",
            "list only those with a text in their names; Esc: all",
        ),
        ("F1 h ?", "this help"),
        ("F10 q", "quit"),
        ("", ""),
    ];
    let keys = KEYS
        .iter()
        .map(|(key, what)| Line::raw(format!("{key:<24}{what}")));
    let columns = Column::ALL.iter();
    let columns =
        columns.map(|column| Line::raw(format!("{:<24}{}", column.heading(), column.meaning())));
    keys.chain(columns).collect()
}

fn columns(chosen: usize) -> Vec<Line<'static>> {
    let columns = Column::ALL.iter().enumerate();
    columns
        .map(|(place, column)| {
            let style = if place == chosen {
                Style::new().add_modifier(Modifier::REVERSED)
            } else {
                Style::new()
            };
            Line::styled(
                format!("{:<10} {:<44}", column.heading(), column.meaning()),
                style,
            )
        })
        .collect()
}

/// Returns the line at the bottom.
fn keys(view: &View) -> Line<'_> {
    let typed =
        |what: &str, text: &str| Line::from(format!("{what}: {}▏  Enter: done", printable(text)));
    let pairs: &[(&str, &str)] = match &view.mode {
        Mode::Searching => return typed("Search", &view.search),
        Mode::Filtering => return typed("Filter", &view.filter),
        Mode::Details(..) => &[("↑↓", "Scroll "), ("Esc", "Back ")],
        Mode::Sorting(_) => &[("↑↓", "Choose "), ("Enter", "Sort "), ("Esc", "Back ")],
        Mode::Help | Mode::List => &[
            ("F1", "Help "),
            ("F3", "Search "),
            ("F4", "Filter "),
            ("F6", "SortBy "),
            ("Enter", "Show "),
            ("F10", "Quit "),
        ],
    };
    let reversed = Style::new().add_modifier(Modifier::REVERSED);
    let spans = pairs
        .iter()
        .flat_map(|(key, what)| [Span::raw(*key), Span::styled(*what, reversed)]);
    Line::from_iter(spans)
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::super::columns::Order;
    use super::super::sample::{Sampler, tests::process};
    use super::*;

    fn view(processes: i32) -> View {
        let folder = tempfile::tempdir().unwrap();
        for pid in 1..=processes {
            process(
                folder.path(),
                pid,
                &format!("name\u{1b}[2J{pid}"),
                4 * pid as u64,
            );
        }
        std::fs::remove_file(folder.path().join("1/maps")).unwrap();
        std::fs::create_dir(folder.path().join("1/maps")).unwrap();
        let mut view = View::new(Order::by(Column::Fork));
        view.refresh(Sampler::default().look(folder.path()).unwrap());
        view
    }

    fn drawn(view: &mut View, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, view)).unwrap();
        let buffer = terminal.backend().buffer();
        (0..height)
            .map(|y| {
                (0..width)
                    .map(|x| buffer[(x, y)].symbol())
                    .collect::<String>()
            })
            .collect()
    }

    fn press(view: &mut View, code: KeyCode) {
        view.press(KeyEvent::new(code, KeyModifiers::NONE));
    }

    #[test]
    fn a_list_with_its_figures() {
        let mut view = view(40);
        let lines = drawn(&mut view, 120, 10);
        assert!(
            lines[0].starts_with("40 processes, 1 of them may not be looked at · vm.max_map_count"),
            "{lines:#?}"
        );
        for heading in [
            "PID",
            "AREAS",
            "USED",
            "LEFT",
            "GAPS",
            "FRAGMENTS",
            "FORK▽",
            "SHARED",
            "NAME",
        ] {
            assert!(lines[1].contains(heading), "{heading}: {lines:#?}");
        }
        // The one with most pages, and what its name does to no terminal.
        assert!(
            lines[2].trim_start().starts_with("40 ") && lines[2].contains("4.0 KiB"),
            "{lines:#?}"
        );
        assert!(lines[2].contains("name\\u{1b}[2J40"), "{lines:#?}");
        assert!(lines[9].starts_with("F1Help F3Search"), "{lines:#?}");
        // What is not known is last.
        press(&mut view, KeyCode::End);
        let lines = drawn(&mut view, 120, 10);
        assert!(
            lines[8].trim_start().starts_with("1 ") && lines[8].contains('–'),
            "{lines:#?}"
        );
    }

    #[test]
    fn a_narrow_terminal_has_the_most_telling_columns() {
        let mut view = view(3);
        for width in [30, 40, 60, 80] {
            let lines = drawn(&mut view, width, 8);
            for heading in ["PID", "AREAS", "NAME"] {
                assert!(lines[1].contains(heading), "{width} {heading}: {lines:#?}");
            }
            assert!(!lines[1].contains("SWAPPED"), "{lines:#?}");
        }
        // Too small for anything: nothing panics.
        for (width, height) in [(1, 1), (5, 2), (0, 0), (200, 3)] {
            for key in [
                KeyCode::F(1),
                KeyCode::Esc,
                KeyCode::F(6),
                KeyCode::Esc,
                KeyCode::Char('/'),
                KeyCode::Esc,
            ] {
                press(&mut view, key);
                drawn(&mut view, width, height);
            }
        }
    }

    #[test]
    fn windows_open_above_the_list() {
        let mut view = view(3);
        press(&mut view, KeyCode::F(1));
        let lines = drawn(&mut view, 100, 30).join("\n");
        assert!(
            lines.contains("Help: any key") && lines.contains("turn the order round"),
            "{lines}"
        );
        press(&mut view, KeyCode::Esc);
        press(&mut view, KeyCode::Char('>'));
        let lines = drawn(&mut view, 100, 30).join("\n");
        assert!(
            lines.contains("Sort by") && lines.contains("bytes in gaps below 1 GiB"),
            "{lines}"
        );
        press(&mut view, KeyCode::Esc);
        press(&mut view, KeyCode::Char('/'));
        press(&mut view, KeyCode::Char('x'));
        assert!(drawn(&mut view, 100, 30).join("\n").contains("Search: x▏"));
        view.mode = Mode::Details(vec!["one".to_owned(), "two".to_owned()], 1);
        let lines = drawn(&mut view, 100, 30);
        assert!(lines[1].starts_with("two"), "{lines:#?}");
    }
}
