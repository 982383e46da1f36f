//! Tables that fit where they are printed: on a narrow terminal columns are left out and names are shortened; in a pipe everything is there.

use std::io::IsTerminal;

use samara_conformance::names::printable;

/// The destination of a table.
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

    /// Returns paper of this many columns, without colours.
    pub(crate) fn of_width(width: Option<usize>) -> Self {
        Self {
            width,
            colours: false,
        }
    }

    /// Returns a text behind a label as lines that fit: each but the first is indented as far as
    /// the text.
    pub(crate) fn fold(self, label: &str, text: &str) -> String {
        let indent = width(label);
        // So narrow a terminal that nothing fits has to fold lines itself.
        let room = self.width.filter(|room| *room > indent + SHORTEST);
        let mut out = label.to_owned();
        let mut at = indent;
        for word in text.split(' ') {
            let long = width(word);
            if at > indent {
                if room.is_some_and(|room| at + 1 + long > room) {
                    out.push('\n');
                    out.push_str(&" ".repeat(indent));
                    at = indent;
                } else {
                    out.push(' ');
                    at += 1;
                }
            }
            out.push_str(word);
            at += long;
        }
        out.push('\n');
        out
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
    /// A text is not shortened to less than this.
    pub(crate) least: usize,
}

impl Column {
    pub(crate) const fn text(heading: &'static str) -> Self {
        Self {
            heading,
            right: false,
            spare: 0,
            least: SHORTEST,
        }
    }

    pub(crate) const fn number(heading: &'static str, spare: u8) -> Self {
        Self {
            heading,
            right: true,
            spare,
            least: SHORTEST,
        }
    }
}

/// A column together with the cell that it has in a row for `T`, so that headings and cells cannot get
/// out of step.
pub(crate) struct Field<'a, T> {
    column: Column,
    cell: Box<dyn Fn(&T) -> String + 'a>,
}

impl<'a, T> Field<'a, T> {
    pub(crate) fn new(column: Column, cell: impl Fn(&T) -> String + 'a) -> Self {
        Self {
            column,
            cell: Box::new(cell),
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

/// A text column is not shorter than this on a terminal, unless it says otherwise.
const SHORTEST: usize = 12;
/// A text column is not wider than this in a pipe: what is longer moves the rest of its row to the
/// right. One long path else makes every row as long.
const WIDEST: usize = 32;
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

    /// Makes a grid with a row for each value.
    pub(crate) fn of<T>(fields: &[Field<'_, T>], values: impl IntoIterator<Item = T>) -> Self {
        let columns: Vec<Column> = fields.iter().map(|field| field.column).collect();
        let mut grid = Self::new(&columns);
        for value in values {
            grid.row(fields.iter().map(|field| (field.cell)(&value)));
        }
        grid
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let printed = |cell: String| printable(&cell).into_owned();
        let row: Vec<String> = cells.into_iter().map(printed).collect();
        debug_assert_eq!(row.len(), self.columns.len(), "a cell for each column");
        self.rows.push(row);
    }

    fn width_of(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| width(cell)).max().unwrap_or(0);
        widest.max(width(self.columns[column].heading))
    }

    /// Returns the columns that are shown, each with its width.
    fn shown(&self, paper: Paper) -> Vec<(usize, usize)> {
        let full: Vec<usize> = (0..self.columns.len()).map(|i| self.width_of(i)).collect();
        let mut shown: Vec<(usize, usize)> = full.iter().copied().enumerate().collect();
        let Some(room) = paper.width else {
            for (column, width) in &mut shown {
                if !self.columns[*column].right {
                    *width = (*width).min(WIDEST);
                }
            }
            return shown;
        };
        // Texts are shortened first, the longest ones first; where that is not enough, a column
        // goes, and they are as they were.
        while !self.shorten(&mut shown, room, false) {
            let spare = |&(column, _): &(usize, usize)| self.columns[column].spare;
            let Some(most) = shown.iter().map(spare).max().filter(|most| *most > 0) else {
                self.shorten(&mut shown, room, true);
                break;
            };
            shown.retain(|column| spare(column) != most);
            for (column, width) in &mut shown {
                *width = full[*column];
            }
        }
        shown
    }

    /// Shortens texts until all columns fit, or none may be shorter: of the `last` columns all may
    /// be as short as any. Returns `false` if they do not fit.
    fn shorten(&self, shown: &mut [(usize, usize)], room: usize, last: bool) -> bool {
        let least = |column: usize| match last {
            true => SHORTEST,
            false => self.columns[column].least,
        };
        loop {
            let needed: usize = shown.iter().map(|(_, width)| width + PADDING).sum();
            let Some(over) = needed.checked_sub(room).filter(|over| *over > 0) else {
                return true;
            };
            let longest = (shown.iter_mut())
                .filter(|(column, width)| !self.columns[*column].right && *width > least(*column))
                .max_by_key(|(_, width)| *width);
            let Some((column, width)) = longest else {
                return false;
            };
            *width = width.saturating_sub(over).max(least(*column));
        }
    }

    /// As text, each line with its line feed.
    pub(crate) fn text(&self, paper: Paper) -> String {
        let shown = self.shown(paper);
        let mut text = String::new();
        let headings = shown
            .iter()
            .map(|&(i, _)| self.columns[i].heading.to_owned());
        self.line(&mut text, &shown, headings, paper.colours);
        for (number, row) in self.rows.iter().enumerate() {
            let sum = self.summed && number + 1 == self.rows.len();
            let cells = shown.iter().map(|&(i, width)| match paper.width {
                Some(_) => short(&row[i], width),
                None => row[i].clone(),
            });
            self.line(&mut text, &shown, cells, paper.colours && sum);
        }
        text
    }

    /// A row, without spaces at its end.
    fn line(
        &self,
        text: &mut String,
        shown: &[(usize, usize)],
        cells: impl Iterator<Item = String>,
        bold: bool,
    ) {
        let mut line = String::new();
        for (&(column, wide), cell) in shown.iter().zip(cells) {
            let blank = " ".repeat(wide.saturating_sub(width(&cell)));
            line.push(' ');
            if self.columns[column].right {
                line.push_str(&blank);
                line.push_str(&cell);
            } else {
                line.push_str(&cell);
                line.push_str(&blank);
            }
            line.push(' ');
        }
        let line = line.trim_end();
        match bold {
            true => text.extend(["\u{1b}[1m", line, "\u{1b}[0m\n"]),
            false => text.extend([line, "\n"]),
        }
    }
}

/// Shortened in the middle: what is at the ends tells most.
fn short(text: &str, most: usize) -> String {
    if width(text) <= most || most == 0 {
        return text.to_owned();
    }
    let front = (most - 1) / 3;
    let head = fitting(text.chars(), front);
    let tail = fitting(text.chars().rev(), most - 1 - front);
    let tail: String = tail.chars().rev().collect();
    format!("{head}…{tail}")
}

/// Returns the first characters that take no more columns than this.
fn fitting(characters: impl Iterator<Item = char>, most: usize) -> String {
    let mut out = String::new();
    for c in characters {
        out.push(c);
        if width(&out) > most {
            out.pop();
            break;
        }
    }
    out
}

/// Returns the columns of a terminal that a printable text takes.
fn width(text: &str) -> usize {
    match text.is_ascii() {
        true => text.len(),
        false => ratatui::text::Span::raw(text).width(),
    }
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
    fn texts_are_shortened_in_the_middle() {
        assert_eq!(short("abcdefghij", 5), "a…hij");
        // Each of these takes two columns.
        assert_eq!(short("日本語日本語", 7), "日…本語");
    }

    /// One long path makes no other line long, wherever its column is.
    #[test]
    fn a_long_text_lengthens_its_own_line_only() {
        for columns in [["one", "name"], ["name", "one"]] {
            let mut grid = Grid::new(&columns.map(Column::text));
            for name in ["a", &"x".repeat(3000), "b"] {
                let cells = columns.map(|column| if column == "name" { name } else { "-" });
                grid.row(cells.map(str::to_owned));
            }
            let text = grid.text(Paper::of_width(None));
            let short = text.lines().filter(|line| line.len() < 100);
            assert_eq!((text.lines().count(), short.count()), (4, 3), "{text}");
        }
    }

    /// If a column is left out, the others get its space.
    #[test]
    fn texts_are_no_shorter_than_they_must_be() {
        let mut grid = Grid::new(&[Column::text("name"), Column::number("rest", 1)]);
        grid.row(["n".repeat(30), "1".repeat(20)]);
        let text = grid.text(Paper::of_width(Some(32)));
        assert!(text.contains(&"n".repeat(30)), "{text}");
    }

    #[test]
    fn lines_are_folded_between_words() {
        let words = "one two three four five six";
        let folded = Paper::of_width(Some(24)).fold("label   ", words);
        assert_eq!(folded, "label   one two three\n        four five six\n");
        let flat = Paper::of_width(None).fold("label   ", words);
        assert_eq!(flat, format!("label   {words}\n"));
    }
}
