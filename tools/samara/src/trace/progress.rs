//! A sign of life on standard error for runs that take long, when a person is watching.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::tally::Tally;

/// Nothing is shown before this.
const PATIENCE: Duration = Duration::from_secs(5);
/// The clock is looked at once in so many events.
const EVENTS: u32 = 512;

pub(crate) struct Progress {
    watched: bool,
    begun: Instant,
    bar: Option<ProgressBar>,
    events: u32,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self {
            // The program's own output would be torn apart if it shares the terminal.
            watched: std::io::stderr().is_terminal() && !std::io::stdout().is_terminal(),
            begun: Instant::now(),
            bar: None,
            events: 0,
        }
    }

    pub(crate) fn tick(&mut self, tally: &Tally, threads: usize) {
        self.events += 1;
        if !self.watched || !self.events.is_multiple_of(EVENTS) || self.begun.elapsed() < PATIENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
                bar.set_style(style);
            }
            bar
        });
        bar.set_message(format!(
            "{} calls, {threads} threads, {} disagreements",
            tally.all_calls(),
            tally.disagreements()
        ));
        bar.tick();
    }

    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
