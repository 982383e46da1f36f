//! A sign of life on standard error for runs that take long, when a person is watching.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use ratatui::crossterm::cursor::MoveToColumn;
use ratatui::crossterm::execute;
use ratatui::crossterm::style::Print;
use ratatui::crossterm::terminal::{self, Clear, ClearType};
use samara_conformance::tally::Tally;
use samara_tracer::quantity::number_of;
use samara_tracer::tell::say;
use samara_tracer::trace::Progress;

/// Nothing is shown before this.
const PATIENCE: Duration = Duration::from_secs(5);
/// The line is drawn no more often than this.
const PAUSE: Duration = Duration::from_millis(100);
/// The number of events, or of compared areas, between two readings of the clock.
const EVENTS: u64 = 512;
const AREAS: u64 = 1 << 15;

/// A line that is drawn over itself.
pub(super) struct ProgressLine {
    watched: bool,
    /// The program writes to the same terminal.
    shared: bool,
    begun: Instant,
    drawn: Option<Instant>,
    events: u64,
    /// The work that had been done when the clock was read last.
    known: u64,
}

impl ProgressLine {
    pub(super) fn new() -> Self {
        Self {
            watched: io::stderr().is_terminal(),
            shared: io::stdout().is_terminal(),
            begun: Instant::now(),
            drawn: None,
            events: 0,
            known: 0,
        }
    }
}

impl Progress for ProgressLine {
    fn tick(&mut self, tally: &Tally, threads: usize) {
        self.events += 1;
        if !self.watched {
            return;
        }
        let done = self.events + tally.areas_compared / (AREAS / EVENTS);
        if done < self.known + EVENTS {
            return;
        }
        self.known = done;
        let elapsed = self.begun.elapsed();
        // The program's own output would be torn apart by a line that is drawn over: it has lines of its own between, but few.
        let pause = if self.shared { PATIENCE } else { PAUSE };
        if elapsed < PATIENCE || self.drawn.is_some_and(|drawn| drawn.elapsed() < pause) {
            return;
        }
        self.drawn = Some(Instant::now());
        let mut line = format!(
            "{} s: {}, {} compared, {}, {}",
            elapsed.as_secs(),
            number_of(tally.all_calls(), "call"),
            number_of(tally.maps, "map"),
            number_of(threads as u64, "thread"),
            number_of(tally.disagreements(), "disagreement")
        );
        // A line that wraps could not be drawn over.
        let columns = match terminal::size() {
            Ok((columns @ 1.., _)) => columns,
            _ => 80,
        };
        line.truncate(usize::from(columns).saturating_sub(1));
        if self.shared {
            return say(&format!("samara: {line}"));
        }
        redraw(&line);
    }

    fn finish(&self) {
        if self.drawn.is_some() && !self.shared {
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
