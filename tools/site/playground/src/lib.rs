//! The maple tree for a page: stores, erases and searches, and what the nodes hold after each.
//!
//! The page calls the functions of [`exports`] and reads the answer, a text (see [`Play::answer`]). They take numbers and leave a text in memory:
//! for so little no binding generator is needed.

mod board;
pub mod exports;
mod notes;

pub use board::{Board, board};

use std::fmt::Write as _;

/// A tree, and what was said last.
pub struct Play {
    board: Box<dyn Board>,
    answer: String,
}

impl Default for Play {
    fn default() -> Self {
        Self::new(4, true)
    }
}

impl Play {
    /// Makes an empty tree whose nodes have at most `slots` slots: 4, 8 or 16 (others count as 16).
    #[must_use]
    pub fn new(slots: u32, gaps: bool) -> Self {
        notes::listen();
        let mut play = Self {
            board: board(slots, gaps),
            answer: String::new(),
        };
        play.answer("an empty tree");
        play
    }

    /// Stores a value in a range, ends included, over whatever is there.
    pub fn store(&mut self, first: u64, last: u64, value: u16) {
        let said = if first > last {
            "the range is empty: its first index is above its last".to_owned()
        } else {
            self.board.store(first, last, value)
        };
        self.answer(&said);
    }

    /// Erases a range, ends included.
    pub fn erase(&mut self, first: u64, last: u64) {
        let said = if first > last {
            "the range is empty: its first index is above its last".to_owned()
        } else {
            self.board.erase(first, last)
        };
        self.answer(&said);
    }

    /// Looks an index up.
    pub fn get(&mut self, key: u64) {
        let said = self.board.get(key);
        self.answer(&said);
    }

    /// Searches for `size` free indices in `low..=high`: the lowest, or the highest.
    pub fn gap(&mut self, low: u64, high: u64, size: u64, highest: bool) {
        let said = if low > high || size == 0 {
            "nothing to search for".to_owned()
        } else {
            self.board.gap(low, high, size, highest)
        };
        self.answer(&said);
    }

    /// Returns the result of the last call, by lines. The first is the outcome. Then come an event
    /// of the write in each line that starts with `event `, `figures ` with entries, nodes, bytes
    /// and filled per cent, and `check ` with its finding. Each entry follows as `entry first last
    /// value`, and then the tree's dump.
    #[must_use]
    pub fn said(&self) -> &str {
        &self.answer
    }

    fn answer(&mut self, said: &str) {
        self.answer.clear();
        // Writing to a string cannot fail.
        let _ = writeln!(self.answer, "{said}");
        for event in notes::take() {
            let _ = writeln!(self.answer, "event {event}");
        }
        self.board.describe(&mut self.answer);
    }
}
