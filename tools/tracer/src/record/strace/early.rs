//! Threads whose lines come before the line of the call that made them. With `-z`, strace prints a
//! call only after it has succeeded, and a child may run before its maker returns.

use super::line::Text;

/// The most lines of a thread that wait. A thread that still has no maker by then is one that
/// strace attached to, whose maker the text does not name.
const MOST: usize = 256;
/// The most threads that wait. Each may have made the next one.
const THREADS: usize = 64;

/// The waiting lines of a thread.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) lines: Vec<Text>,
    /// The number of records before the first line.
    pub(super) since: usize,
}

/// The waiting threads, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Early(Vec<(u32, Lines)>);

impl Early {
    fn find(&mut self, number: u32) -> Option<&mut Lines> {
        let mut all = self.0.iter_mut();
        all.find(|(known, _)| *known == number)
            .map(|(_, lines)| lines)
    }

    /// Keeps a line, with `since` records before it. Returns `false` if there are too many.
    pub(super) fn keep(&mut self, number: u32, line: &Text, since: usize) -> bool {
        if let Some(known) = self.find(number) {
            if known.lines.len() < MOST {
                known.lines.push(line.clone());
                return true;
            }
            return false;
        }
        if self.0.len() == THREADS {
            return false;
        }
        let lines = vec![line.clone()];
        self.0.push((number, Lines { lines, since }));
        true
    }

    /// Appends to the last line of a thread, which ends within a call. Returns `false` if the
    /// thread does not wait.
    pub(super) fn go_on(&mut self, number: u32, text: &Text) -> bool {
        let last = self.find(number).and_then(|known| known.lines.last_mut());
        let Some(last) = last else {
            return false;
        };
        if let Some(mut begun) = last.begun() {
            begun.join(text);
            *last = begun;
        }
        true
    }

    /// Returns the thread that came first.
    pub(super) fn first(&self) -> Option<u32> {
        self.0.first().map(|(number, _)| *number)
    }

    pub(super) fn take(&mut self, number: u32) -> Option<Lines> {
        let index = self.0.iter().position(|(known, _)| *known == number)?;
        Some(self.0.remove(index).1)
    }
}
