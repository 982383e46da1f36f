//! A sign of life on standard error for runs that take long, when a person is watching.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use ratatui::crossterm::cursor::MoveToColumn;
use ratatui::crossterm::execute;
use ratatui::crossterm::style::Print;
use ratatui::crossterm::terminal::{self, Clear, ClearType};

use crate::tally::Tally;

/// Nothing is shown before this.
const PATIENCE: Duration = Duration::from_secs(5);
/// The line is drawn no more often than this.
const PAUSE: Duration = Duration::from_millis(100);
/// The clock is looked at once in so many events.
const EVENTS: u32 = 512;

pub(crate) struct Progress {
    watched: bool,
    begun: Instant,
    drawn: Option<Instant>,
    events: u32,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self {
            // The program's own output would be torn apart if it shares the terminal.
            watched: io::stderr().is_terminal() && !io::stdout().is_terminal(),
            begun: Instant::now(),
            drawn: None,
            events: 0,
        }
    }

    pub(crate) fn tick(&mut self, tally: &Tally, threads: usize) {
        self.events += 1;
        if !self.watched || !self.events.is_multiple_of(EVENTS) {
            return;
        }
        let elapsed = self.begun.elapsed();
        if elapsed < PATIENCE || self.drawn.is_some_and(|drawn| drawn.elapsed() < PAUSE) {
            return;
        }
        self.drawn = Some(Instant::now());
        let mut line = format!(
            "{} s: {} calls, {threads} threads, {} disagreements",
            elapsed.as_secs(),
            tally.all_calls(),
            tally.disagreements()
        );
        // A line that wraps could not be drawn over.
        let columns = terminal::size().map_or(80, |(columns, _)| columns);
        line.truncate(usize::from(columns).saturating_sub(1));
        redraw(&line);
    }

    pub(crate) fn finish(&self) {
        if self.drawn.is_some() {
            redraw("");
        }
    }
}

/// Puts `line` in the place of the one that is shown. A terminal that is gone is no reason to stop.
fn redraw(line: &str) {
    let _ = execute!(
        io::stderr(),
        MoveToColumn(0),
        Clear(ClearType::CurrentLine),
        Print(line)
    );
}
