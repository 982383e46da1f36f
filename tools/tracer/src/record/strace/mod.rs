//! Reads the text of `strace -f` (also with `-e trace=memory,process`, `-y`, `-t` and similar
//! options) as records.
//!
//! The text lacks the map with which a program starts, its limits and privileges, and the pages
//! that were written. The heap begins where the first `brk(NULL)` says. Placement begins below the
//! first mapping whose address the kernel chose.

mod call;
mod early;
mod line;
mod lives;
mod untold;

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, Read};

use samara_mm::{Call, KernelVersion};

use super::format::{Reason, Record};

use call::{Decoded, Files};
use early::Early;
pub(crate) use line::Complaint;
use line::Text;
use lives::{Space, Thread};
use untold::Untold;

/// The length at which a line is refused.
const LONGEST: u64 = 1 << 20;
/// The length above which a text is refused.
const MOST: usize = 1 << 30;

/// Returns `true` if this can be the start of such a text.
pub(super) fn looks_like(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line.get(..200).unwrap_or(line));
    let (_, at) = line::prefix(&line);
    let rest = line.get(at..).unwrap_or_default();
    let other = ["strace: ", "<... ", "+++ ", "--- "];
    line::name(rest).is_some() || other.iter().any(|start| rest.starts_with(start))
}

/// The contents of a text.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) records: Vec<Record>,
    pub(super) words: Vec<String>,
    pub(super) length: usize,
}

/// Reads a whole text, written for a program that ran on this kernel.
pub(super) fn read(mut from: impl BufRead, kernel: KernelVersion) -> Result<Whole, Complaint> {
    let mut making = Making {
        kernel,
        ..Making::default()
    };
    let mut length = 0;
    let mut open: Option<Text> = None;
    for number in 0.. {
        let Some(text) = read_line(&mut from, number, &mut length)? else {
            break;
        };
        let text = text.trim_end_matches(['\n', '\r']);
        // One of strace's own messages may break a line in two.
        if let Some((before, message)) = text.split_once("strace: Process ")
            && let Some(child) = message.strip_suffix(" attached")
        {
            // A message before everything else belongs to a thread that strace was told to attach
            // to.
            if making.first.is_some() {
                making.announced.extend(child.parse::<u32>());
            }
            if !before.is_empty() {
                let piece = Text::new(before, number, 0);
                match &mut open {
                    Some(open) => open.join(&piece),
                    None => open = Some(piece),
                }
            }
            continue;
        }
        // A table of all calls (`-C`) is the end.
        if open.is_none() && text.starts_with("% time ") {
            break;
        }
        let mut piece = Text::new(text, number, 0);
        if let Some(mut before) = open.take() {
            before.join(&piece);
            piece = before;
        }
        making.line(&piece)?;
    }
    if let Some(open) = open {
        return Err(open.wrong(open.text.len(), "the line ends within the call"));
    }
    while let Some(number) = making.early.first() {
        making.let_in(number)?;
    }
    Ok(making.finish(length))
}

/// Reads line `number`, and adds its size to `length`. Returns `None` at the end of the text.
fn read_line(
    from: &mut impl BufRead,
    number: usize,
    length: &mut usize,
) -> Result<Option<String>, Complaint> {
    let refused = |column: usize, what: &str| Complaint {
        line: number + 1,
        column: column + 1,
        what: what.to_owned(),
    };
    let mut bytes = Vec::new();
    match from.take(LONGEST).read_until(b'\n', &mut bytes) {
        Ok(0) => return Ok(None),
        Ok(_) => {}
        Err(error) => return Err(refused(0, &format!("reading failed: {error}"))),
    }
    *length += bytes.len();
    if bytes.len() as u64 == LONGEST || *length > MOST {
        return Err(refused(bytes.len(), "the line or the text is too long"));
    }
    let text = String::from_utf8(bytes);
    let wrong = |at: usize| refused(at, "this is not UTF-8");
    text.map(Some)
        .map_err(|error| wrong(error.utf8_error().valid_up_to()))
}

#[derive(Default)]
struct Making {
    /// The kernel whose rules are followed. The text does not name it.
    kernel: KernelVersion,
    records: Vec<Record>,
    words: Vec<String>,
    threads: HashMap<u32, Thread>,
    spaces: Vec<Space>,
    users: HashMap<usize, u32>,
    files: Files,
    /// Threads for which strace has reported that it attached to them when they were made.
    announced: HashSet<u32>,
    /// The first thread of all. Its number is 0 until the text names it.
    first: Option<u32>,
    first_is_unnamed: bool,
    processes: u64,
    further: u64,
    exit: Option<(i32, i32)>,
    untold: Untold,
    /// The text contains calls that make threads and processes, or that start programs.
    tells_of_lives: bool,
    /// The thread of the last line, if that begins a call. With `-z` the next line may continue it
    /// without a thread's number.
    just_begun: Option<u32>,
    early: Early,
    /// A call was interrupted for another thread's line. A text without threads never needs that.
    /// With threads, only `-z` never does it, and then the text does not show in which order their
    /// calls began.
    breaks_off: bool,
    /// Address spaces of several threads, each with the number of records before the second thread.
    of_several: Vec<(u32, usize)>,
}

impl Making {
    fn line(&mut self, whole: &Text) -> Result<(), Complaint> {
        let (told, at) = line::prefix(&whole.text);
        let text = whole.from(at);
        let rest = text.text.as_str();
        if rest.trim().is_empty() || rest.starts_with("strace: ") || rest.starts_with("--- ") {
            return Ok(());
        }
        // A line of a call's stack (`-k`).
        if told.is_none() && rest.starts_with("> ") {
            return Ok(());
        }
        let just_begun = self.just_begun.take();
        if told.is_none()
            && line::name(rest).is_none()
            && !["+++ ", "<... "]
                .iter()
                .any(|start| rest.starts_with(start))
            && let Some(thread) = just_begun
        {
            return self.go_on(thread, &text);
        }
        if let Some(number) = told.filter(|number| self.is_early(*number)) {
            if self.early.keep(number, whole, self.records.len()) {
                self.just_begun = text.begun().map(|_| number);
                return Ok(());
            }
            self.let_in(number)?;
        }
        self.tells_of_lives |= call::makes(rest) || call::starts(rest);
        let thread = self.thread(told);
        if let Some(known) = self.threads.get_mut(&thread) {
            known.heard = true;
        }
        if let Some(end) = rest.strip_prefix("+++ ") {
            self.ended(thread, end);
            return Ok(());
        }
        if let Some(resumed) = rest.strip_prefix("<... ") {
            return match resumed.find(" resumed>") {
                Some(found) => self.resume(thread, &text.from(5 + found + 9)),
                None => Err(text.wrong(5, "`resumed>` is missing")),
            };
        }
        if let Some(kept) = text.begun() {
            self.overlap(thread, &kept);
            if let Some(thread) = self.threads.get_mut(&thread) {
                thread.unfinished = Some(kept);
                thread.child_seen = false;
            }
            self.just_begun = Some(thread);
            return Ok(());
        }
        if line::name(rest).is_none() {
            return Err(text.wrong(0, "neither a call nor a signal nor an end"));
        }
        self.overlap(thread, &text);
        self.call(thread, &text)
    }

    /// Continues the call with which a thread's last line ended (`-z`).
    fn go_on(&mut self, thread: u32, text: &Text) -> Result<(), Complaint> {
        if self.early.go_on(thread, text) {
            return Ok(());
        }
        let known = self.threads.get_mut(&thread);
        let Some(mut begun) = known.and_then(|thread| thread.unfinished.take()) else {
            return Err(text.wrong(0, "neither a call nor a signal nor an end"));
        };
        begun.join(text);
        self.call(thread, &begun)
    }

    /// Resumes a thread's call that another thread's line had interrupted. `rest` is the text behind
    /// the call's name.
    fn resume(&mut self, thread: u32, rest: &Text) -> Result<(), Complaint> {
        let known = self.threads.get_mut(&thread);
        // A call that had begun before strace attached is not known.
        let Some(mut begun) = known.and_then(|thread| thread.unfinished.take()) else {
            return Ok(());
        };
        begun.join(rest);
        self.breaks_off = true;
        self.overlap(thread, &begun);
        self.call(thread, &begun)
    }

    /// Notes that a call on memory begins or returns. Its order relative to other threads' pending
    /// calls on the same memory is unknown.
    fn overlap(&mut self, number: u32, text: &Text) {
        let Some(space) = self.threads.get(&number).map(|thread| thread.space) else {
            return;
        };
        if !call::on_memory(&text.text) {
            return;
        }
        let mut any = false;
        for (other, thread) in &mut self.threads {
            let begun = thread.unfinished.as_ref();
            if *other != number
                && thread.space == space
                && begun.is_some_and(|text| call::on_memory(&text.text))
            {
                thread.overlapped = true;
                any = true;
            }
        }
        if let Some(thread) = self.threads.get_mut(&number) {
            thread.overlapped |= any;
        }
    }

    /// Performs a call that has returned.
    fn call(&mut self, number: u32, text: &Text) -> Result<(), Complaint> {
        let Some((decoded, returned)) = call::decode(text, &mut self.files)? else {
            return Ok(());
        };
        let Some(known) = self.threads.get_mut(&number) else {
            return Ok(());
        };
        let thread = known.clone();
        known.overlapped = false;
        match decoded {
            Decoded::Call(call) => {
                self.learn(thread.space, &call, returned);
                self.records.push(Record::Call {
                    space: self.spaces[thread.space].number,
                    thread: number as i32,
                    returned,
                    before: Box::new([]),
                    // This is how a record says that another thread was active.
                    after: thread.overlapped.then(Box::default),
                    call,
                });
            }
            Decoded::Unmodelled(name) => self.records.push(Record::Unmodelled {
                space: self.spaces[thread.space].number,
                thread: number as i32,
                returned,
                name: name.into(),
            }),
            Decoded::Makes => {
                let child = u32::try_from(returned).ok().filter(|child| *child > 0);
                if let Some(child) = child.filter(|child| !self.threads.contains_key(child)) {
                    self.make(number, child, &text.text);
                    self.let_in(child)?;
                }
            }
            Decoded::Exec(words) if returned == 0 => self.exec(number, thread.process, words),
            Decoded::Exec(_) => {}
        }
        Ok(())
    }

    /// Replaces the program of a process. Its other threads end.
    fn exec(&mut self, number: u32, process: u32, words: Vec<String>) {
        if self.words.is_empty() {
            self.words = words;
        }
        self.leave(number, self.first == Some(number));
        let others: Vec<u32> = self
            .threads
            .iter()
            .filter(|(other, thread)| thread.process == process && **other != number)
            .map(|(other, _)| *other)
            .collect();
        for other in others {
            self.leave(other, false);
            if let Some(other) = self.threads.remove(&other) {
                self.note_untold(&other);
            }
        }
        let space = self.new_space(Reason::Exec);
        self.add(number, process, space);
    }

    /// Notes that the calls of a thread without any line are unknown.
    fn note_untold(&mut self, thread: &Thread) {
        if !thread.heard {
            let space = self.spaces[thread.space].number;
            self.untold.within(space, thread.since);
        }
    }

    /// Learns from a call's result where the heap and placement begin.
    fn learn(&mut self, index: usize, call: &Call, returned: i64) {
        let space = &mut self.spaces[index];
        let Some(Record::Seed { seed, .. }) = self.records.get_mut(space.seed) else {
            return;
        };
        match call {
            Call::Brk { .. } if !space.heap => {
                space.heap = true;
                seed.layout.start_brk = returned as u64;
                seed.layout.brk = returned as u64;
            }
            Call::Mmap {
                addr: 0,
                len,
                flags,
                ..
            } if !space.based && returned > 0 && flags & 0x50 == 0 => {
                space.based = true;
                let end = (returned as u64).saturating_add(len.saturating_add(0xfff) & !0xfff);
                seed.layout.mmap_base = end;
            }
            _ => {}
        }
    }

    fn finish(mut self, length: usize) -> Whole {
        for (_, thread) in std::mem::take(&mut self.threads) {
            self.note_untold(&thread);
        }
        if !self.tells_of_lives {
            self.untold.everywhere(0);
        }
        for (space, from) in self.of_several.drain(..).filter(|_| !self.breaks_off) {
            self.untold.within(space, from);
        }
        self.untold.mark(&mut self.records);
        self.records.push(Record::Totals {
            processes: self.processes,
            threads: self.further,
            not_followed: Vec::new(),
        });
        let (exit_code, signal) = self.exit.unwrap_or((0, 0));
        self.records.push(Record::End { exit_code, signal });
        Whole {
            records: self.records,
            words: self.words,
            length,
        }
    }
}
