//! Tables that fit where they are printed: on a narrow terminal columns are left out and names are shortened; in a pipe everything is there.

use std::io::IsTerminal;

use comfy_table::{Attribute, Cell, CellAlignment, Table, presets};

/// Where a table goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paper {
    /// Columns of the terminal.
    width: Option<usize>,
    colours: bool,
}

impl Paper {
    /// Standard output, whatever it is.
    pub(crate) fn stdout() -> Self {
        let terminal = std::io::stdout().is_terminal();
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self {
            width: terminal.then(columns).flatten(),
            colours: terminal && !dumb && !set("NO_COLOR"),
        }
    }

    /// Any, without colours.
    pub(crate) fn plain() -> Self {
        Self {
            width: None,
            colours: false,
        }
    }

    #[cfg(test)]
    pub(crate) fn of_width(width: Option<usize>) -> Self {
        Self {
            width,
            colours: false,
        }
    }
}

/// Columns of the terminal that standard output is.
fn columns() -> Option<usize> {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: `size` is a valid place for the answer.
    let result = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    (result == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// A column: its heading, and how it behaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) heading: &'static str,
    pub(crate) right: bool,
    /// Columns with a higher number are left out first; those with 0 never.
    pub(crate) spare: u8,
}

impl Column {
    pub(crate) const fn text(heading: &'static str) -> Self {
        Self {
            heading,
            right: false,
            spare: 0,
        }
    }

    pub(crate) const fn number(heading: &'static str, spare: u8) -> Self {
        Self {
            heading,
            right: true,
            spare,
        }
    }
}

/// Rows of texts.
#[derive(Debug)]
pub(crate) struct Grid {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    /// The last row is a sum.
    pub(crate) summed: bool,
}

/// A text column is never shorter than this, where it has to be.
const SHORTEST: usize = 12;
/// Spaces around a cell.
const PADDING: usize = 2;

impl Grid {
    pub(crate) fn new(columns: &[Column]) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: Vec::new(),
            summed: false,
        }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let row: Vec<String> = cells.into_iter().map(|cell| printable(&cell)).collect();
        debug_assert_eq!(row.len(), self.columns.len(), "a cell for each column");
        self.rows.push(row);
    }

    fn width_of(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        widest.max(self.columns[column].heading.chars().count())
    }

    /// As text, each line with its line feed.
    pub(crate) fn text(&self, paper: Paper) -> String {
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let mut widths: Vec<usize> = shown.iter().map(|&i| self.width_of(i)).collect();
        if let Some(width) = paper.width {
            let needed = |shown: &[usize], widths: &[usize]| -> usize {
                shown.iter().map(|&i| widths[i] + PADDING).sum()
            };
            // Texts are shortened first, then columns go.
            while needed(&shown, &widths) > width {
                let longest = (shown.iter().copied())
                    .filter(|&i| !self.columns[i].right && widths[i] > SHORTEST)
                    .max_by_key(|&i| widths[i]);
                if let Some(longest) = longest {
                    let over = needed(&shown, &widths) - width;
                    widths[longest] = widths[longest].saturating_sub(over).max(SHORTEST);
                    continue;
                }
                let Some(spare) = (shown.iter().copied())
                    .filter(|&i| self.columns[i].spare > 0)
                    .max_by_key(|&i| self.columns[i].spare)
                else {
                    break;
                };
                shown.retain(|&i| i != spare);
            }
        }
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        if paper.colours {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        table.set_header(
            shown
                .iter()
                .map(|&i| Cell::new(self.columns[i].heading).add_attribute(Attribute::Bold)),
        );
        for (number, row) in self.rows.iter().enumerate() {
            let sum = self.summed && number + 1 == self.rows.len();
            table.add_row(shown.iter().map(|&i| {
                let cell = Cell::new(short(&row[i], widths[i]));
                if sum {
                    cell.add_attribute(Attribute::Bold)
                } else {
                    cell
                }
            }));
        }
        for (at, &i) in shown.iter().enumerate() {
            if self.columns[i].right
                && let Some(column) = table.column_mut(at)
            {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let mut text = String::new();
        for line in table.lines() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Shortened in the middle: what is at the ends tells most.
fn short(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width || width == 0 {
        return text.to_owned();
    }
    let front = (width - 1) / 3;
    let back = width - 1 - front;
    let head = text.chars().take(front);
    let tail = text.chars().skip(length - back);
    head.chain(['…']).chain(tail).collect()
}

/// Without what a terminal would take for commands: names are the program's.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let mut grid = Grid::new(&[
            Column::text("name"),
            Column::number("size", 0),
            Column::number("rest", 1),
        ]);
        grid.row(
            [
                "/usr/lib/x86_64-linux-gnu/libc.so.6",
                "12 KiB",
                "1234567890",
            ]
            .map(String::from),
        );
        grid
    }

    #[test]
    fn a_pipe_gets_everything() {
        let text = grid().text(Paper::of_width(None));
        assert!(
            text.contains("/usr/lib/x86_64-linux-gnu/libc.so.6"),
            "{text}"
        );
        assert!(text.contains("1234567890"), "{text}");
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn a_narrow_terminal_gets_what_fits() {
        for width in [24, 30, 40, 60] {
            let text = grid().text(Paper::of_width(Some(width)));
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{width}: {text}");
            }
            assert!(text.contains("so.6"), "{width}: {text}");
            assert!(text.contains("12 KiB"), "{width}: {text}");
        }
    }

    #[test]
    fn names_command_no_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb"), "a\u{fffd}[2Jb");
        assert_eq!(short("abcdefghij", 5), "a…hij");
    }
}
