//! Threads whose lines come before the one that says who made them: `-z` tells of a call when it has succeeded, and a child may run before its maker returns.

use super::line::Text;

/// The number of lines of one thread that wait. If no call has made it by then, strace attached to
/// it, and the call that made it is not in the text.
const MOST: usize = 256;
/// The number of threads that wait. Each may have made the next.
const THREADS: usize = 64;

/// A thread's lines that wait.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) lines: Vec<Text>,
    /// The number of records before the first.
    pub(super) since: usize,
}

/// The threads that wait, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Early(Vec<(u32, Lines)>);

impl Early {
    fn find(&mut self, number: u32) -> Option<&mut Lines> {
        let mut all = self.0.iter_mut();
        all.find(|(known, _)| *known == number)
            .map(|(_, lines)| lines)
    }

    /// Keeps a line, with `since` records before it. False: there are too many.
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

    /// Goes on with the last line of a thread, which ends within a call. False: it does not wait.
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
