//! Threads, their makers, and the address spaces in which they run, as far as the lines say.

use samara_conformance::seed::Seed;
use samara_mm::{Config, Layout, Limits};

use super::line::{Complaint, Text};
use super::{Making, Reason, Record, call, untold};

/// A known address space.
#[derive(Debug, Clone, Copy)]
pub(super) struct Space {
    pub(super) number: u32,
    /// The record that starts it.
    pub(super) seed: usize,
    pub(super) based: bool,
    pub(super) heap: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Thread {
    pub(super) process: u32,
    pub(super) space: usize,
    /// A call that has begun, and the position of its text.
    pub(super) unfinished: Option<Text>,
    /// The call makes threads or processes, and its child has appeared.
    pub(super) child_seen: bool,
    /// Another thread's call on the same memory was under way at the same time.
    pub(super) overlapped: bool,
    /// The number of records before the thread, and `true` if a line belongs to it.
    pub(super) since: usize,
    pub(super) heard: bool,
}

impl Making {
    /// Returns the thread of a line. Strace names threads as soon as there are several.
    pub(super) fn thread(&mut self, told: Option<u32>) -> u32 {
        let number = match (told, self.first) {
            (Some(number), _) => number,
            // A thread that is left after all others have ended.
            (None, Some(first)) if !self.threads.contains_key(&first) => {
                self.threads.keys().min().copied().unwrap_or(first)
            }
            (None, Some(first)) => first,
            (None, None) => 0,
        };
        if self.threads.contains_key(&number) {
            return number;
        }
        // Named for the first time, or made by a call that has not returned yet.
        let announced = self.announced.is_empty() || self.announced.contains(&number);
        let made = announced && self.maker().is_some();
        if told.is_some() && self.first_is_unnamed && !made {
            self.first_is_unnamed = false;
            if let Some(thread) = self.threads.remove(&0) {
                self.threads.insert(number, thread);
                self.first = Some(number);
                return number;
            }
        }
        if let Some(maker) = self.maker() {
            self.made(maker, number);
            return number;
        }
        self.unknown(number, self.records.len());
        if self.first.is_none() {
            self.first = Some(number);
            self.first_is_unnamed = told.is_none();
        }
        number
    }

    /// Returns `true` if the text has not yet shown the start or the end of the call that made the
    /// thread.
    pub(super) fn is_early(&self, number: u32) -> bool {
        let known = self.threads.contains_key(&number) || self.maker().is_some();
        let others = self.first.is_some() && !self.first_is_unnamed;
        !known && (others || self.announced.contains(&number))
    }

    /// Reads the waiting lines of a thread. If its maker is still unknown, it will never be known.
    pub(super) fn let_in(&mut self, number: u32) -> Result<(), Complaint> {
        let Some(early) = self.early.take(number) else {
            return Ok(());
        };
        let space = self.threads.get(&number).map(|thread| thread.space);
        if space.is_none() {
            self.unknown(number, early.since);
        }
        for line in &early.lines {
            self.line(line)?;
        }
        // Other threads may have made their calls concurrently.
        if let Some(space) = space.filter(|space| self.users.get(space) > Some(&1)) {
            let space = self.spaces[space].number;
            untold::mark_each(space, &mut self.records[early.since..]);
        }
        Ok(())
    }

    /// Adds a thread whose memory is unknown.
    fn unknown(&mut self, number: u32, since: usize) {
        if self.first.is_some() {
            // Other threads may share its memory.
            self.untold.everywhere(since);
        }
        let space = self.new_space(Reason::Adopted);
        self.add(number, number, space);
        self.processes += 1;
    }

    /// Returns the thread whose call makes another and has not returned, if its child has not
    /// appeared.
    fn maker(&self) -> Option<u32> {
        let makers = self.threads.iter().filter(|(_, thread)| {
            let begun = thread.unfinished.as_ref();
            !thread.child_seen && begun.is_some_and(|text| call::makes(&text.text))
        });
        makers.map(|(number, _)| *number).min()
    }

    pub(super) fn add(&mut self, number: u32, process: u32, space: usize) {
        *self.users.entry(space).or_default() += 1;
        let thread = Thread {
            process,
            space,
            unfinished: None,
            child_seen: false,
            overlapped: false,
            since: self.records.len(),
            heard: false,
        };
        self.threads.insert(number, thread);
    }

    pub(super) fn new_space(&mut self, reason: Reason) -> usize {
        let number = self.spaces.len() as u32;
        self.spaces.push(Space {
            number,
            seed: self.records.len(),
            based: false,
            heap: false,
        });
        self.records.push(Record::Seed {
            space: number,
            reason,
            seed: Box::new(Seed {
                config: Config {
                    kernel: self.kernel,
                    ..Config::default()
                },
                limits: Limits::default(),
                layout: Layout::default(),
                areas: Vec::new(),
            }),
        });
        self.spaces.len() - 1
    }

    /// Notes that a thread has made another, in a call that has begun or returned.
    fn made(&mut self, maker: u32, child: u32) {
        let Some(thread) = self.threads.get_mut(&maker) else {
            return;
        };
        thread.child_seen = true;
        let begun = thread.unfinished.clone().unwrap_or_default();
        self.make(maker, child, &begun.text);
    }

    pub(super) fn make(&mut self, maker: u32, child: u32, text: &str) {
        let Some(thread) = self.threads.get(&maker).cloned() else {
            return;
        };
        let Some((shares, is_thread)) = call::sharing(text) else {
            return self.unknown(child, self.records.len());
        };
        if is_thread {
            self.further += 1;
        } else {
            self.processes += 1;
        }
        let process = if is_thread { thread.process } else { child };
        let space = if shares {
            // A caller of vfork waits for its child.
            if !call::waits(text) {
                let number = self.spaces[thread.space].number;
                self.of_several.push((number, self.records.len()));
            }
            thread.space
        } else {
            let parent = self.spaces[thread.space];
            let number = self.spaces.len() as u32;
            self.spaces.push(Space { number, ..parent });
            self.records.push(Record::Fork {
                parent: parent.number,
                child: number,
            });
            self.spaces.len() - 1
        };
        self.add(child, process, space);
    }

    pub(super) fn ended(&mut self, thread: u32, how: &str) {
        let main = self.first == Some(thread);
        if main {
            let number = how.split(' ').nth(2).and_then(|word| word.parse().ok());
            self.exit = Some((number.unwrap_or(0), 0));
        }
        self.leave(thread, main);
        self.threads.remove(&thread);
    }

    pub(super) fn leave(&mut self, thread: u32, main: bool) {
        let Some(space) = self.threads.get(&thread).map(|thread| thread.space) else {
            return;
        };
        if let Some(users) = self.users.get_mut(&space) {
            *users = users.saturating_sub(1);
            if *users == 0 {
                self.records.push(Record::Gone {
                    space: self.spaces[space].number,
                    main,
                });
            }
        }
    }
}
