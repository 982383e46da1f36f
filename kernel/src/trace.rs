//! The record that `samara replay` performs again: every memory call of every process with its result, and the maps after it. The format is samara-record's.
//!
//! It is kept if the command line has the word `trace`; else a call costs a look at a flag. What faults have done to areas since the last call, first private
//! pages and grown stacks, is found by comparing the areas before a call with those after the one before. The record goes to the log in lines that begin with
//! byte 3, as hexadecimal digits.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, Ordering};

use samara_mm::{AddressSpace, Call, Counted, Errno, File, Limits, SeedVma};
use samara_paging::Asid;
use samara_record::{
    VERSION, head_of_chunk, head_of_file, kind, put, put_call, put_config, put_file, put_layout,
    put_limits, put_ranges, put_seed_area, put_signed, put_text,
};
use spin::Mutex;

use crate::arch::{Arch, Machine};
use crate::memory::Memory;

static ON: AtomicBool = AtomicBool::new(false);
static TRACE: Mutex<Trace> = Mutex::new(Trace {
    records: Vec::new(),
    chunks: 0,
    files: Vec::new(),
    spaces: BTreeMap::new(),
    numbers: 0,
});

/// Records are sent when they have so many bytes.
const CHUNK: usize = 8 << 10;

struct Trace {
    /// Whole records that are not sent yet.
    records: Vec<u8>,
    chunks: u32,
    /// Descriptions of open files, by the numbers that records name them by.
    files: Vec<u64>,
    spaces: BTreeMap<Asid, Space>,
    /// Address spaces that there have been.
    numbers: u64,
}

struct Space {
    number: u64,
    /// As the last record of the map tells them.
    areas: Vec<Area>,
}

#[derive(Clone)]
struct Area {
    start: u64,
    end: u64,
    has_private_pages: bool,
    /// As a map's record has it.
    line: Vec<u8>,
}

/// Begins the record.
pub fn start(program: &[Vec<u8>]) {
    let words = program.iter().map(|word| {
        let text = String::from_utf8_lossy(word).into_owned();
        let plain = text.replace(|c: char| c.is_control() || c == '"' || c == '\\', "?");
        format!("\"{plain}\"")
    });
    let words: Vec<String> = words.collect();
    let version = samara_mm::Config::default().kernel;
    let description = format!(
        "{{\"format\":\"samara trace\",\"version\":{VERSION},\"kernel\":\"{version}-samara\",\"kernel_version\":\"{version}\",\"program\":[{}],\"page_size\":4096}}",
        words.join(",")
    );
    send(&head_of_file(VERSION, &description));
    ON.store(true, Ordering::Relaxed);
}

fn with(change: impl FnOnce(&mut Trace)) {
    if ON.load(Ordering::Relaxed) {
        let mut trace = TRACE.lock();
        change(&mut trace);
        if trace.records.len() >= CHUNK {
            trace.flush();
        }
    }
}

/// Performs a call of a thread.
///
/// # Errors
/// The call's.
pub fn perform(thread: i32, memory: &Memory, call: &Call) -> Result<u64, Errno> {
    let mut answer = None;
    with(|trace| {
        trace.catch_up(memory);
        let result = memory.perform(call);
        answer = Some(result);
        let returned = result.map_or_else(|error| -i64::from(error.0), |value| value as i64);
        trace.record(memory, kind::CALL, |trace, out| {
            put(out, thread as u64);
            put_signed(out, returned);
            put_ranges(out, &[]);
            out.push(0);
            put_call(out, call, &mut |file| trace.file(file));
        });
        trace.map(memory);
    });
    answer.unwrap_or_else(|| memory.perform(call))
}

/// A program was started in this memory.
pub fn executed(memory: &Memory) {
    with(|trace| {
        trace.enter(memory, Vec::new());
        trace.record(memory, kind::SEED, |trace, out| {
            out.push(0);
            memory.with_space(|space| seed(trace, space, out));
        });
        trace.map(memory);
    });
}

pub fn forked(parent: &Memory, child: &Memory) {
    with(|trace| {
        trace.catch_up(parent);
        trace.map(parent);
        let areas = trace.spaces.get(&parent.asid()).map(|space| space.areas.clone());
        let number = trace.enter(child, areas.unwrap_or_default());
        trace.record(parent, kind::FORK, |_, out| put(out, number));
        trace.map(child);
    });
}

pub fn set_limits(memory: &Memory, limits: Limits) {
    memory.set_limits(limits);
    with(|trace| trace.record(memory, kind::LIMITS, |_, out| put_limits(out, &limits)));
}

/// The memory ends; `main`: it is that of the first process.
pub fn gone(memory: &Memory, main: bool) {
    with(|trace| {
        trace.record(memory, kind::GONE, |_, out| out.push(main.into()));
        trace.spaces.remove(&memory.asid());
    });
}

/// The machine ends, and the first process had this status.
pub fn end(code: i32, signal: i32) {
    with(|trace| {
        let out = &mut trace.records;
        out.push(kind::TOTALS);
        [trace.numbers, 0, 0].iter().for_each(|&number| put(out, number));
        out.push(kind::END);
        [code, signal].iter().for_each(|&number| put_signed(out, number.into()));
        trace.flush();
    });
}

impl Trace {
    fn enter(&mut self, memory: &Memory, areas: Vec<Area>) -> u64 {
        let number = self.numbers;
        self.numbers += 1;
        self.spaces.insert(memory.asid(), Space { number, areas });
        number
    }

    /// A record of an address space.
    fn record(&mut self, of: &Memory, kind: u8, fields: impl FnOnce(&mut Self, &mut Vec<u8>)) {
        let Some(space) = self.spaces.get(&of.asid()) else { return };
        let mut out = alloc::vec![kind];
        put(&mut out, space.number);
        // Files that it names come first, as records of their own.
        fields(self, &mut out);
        self.records.append(&mut out);
    }

    fn file(&mut self, file: &Counted<File>) -> u64 {
        let known = self.files.iter().position(|&description| description == file.description);
        let number = known.unwrap_or_else(|| {
            self.records.push(kind::FILE);
            put_file(&mut self.records, file);
            self.files.push(file.description);
            self.files.len() - 1
        });
        number as u64
    }

    /// What faults have done since the last record of the map.
    fn catch_up(&mut self, memory: &Memory) {
        let before = self.spaces.get(&memory.asid()).map(|space| space.areas.clone());
        for (now, before) in areas(memory).iter().zip(before.iter().flatten()) {
            if now.start < before.start {
                self.record(memory, kind::GROWN, |_, out| put(out, now.start));
            }
            if now.has_private_pages && !before.has_private_pages {
                self.record(memory, kind::WRITTEN, |_, out| {
                    put(out, now.start);
                    put(out, now.end - now.start);
                });
            }
        }
    }

    /// The map, as what differs from the last one.
    fn map(&mut self, memory: &Memory) {
        let now = areas(memory);
        let Some(space) = self.spaces.get_mut(&memory.asid()) else { return };
        let before = core::mem::replace(&mut space.areas, now.clone());
        let same = |(a, b): &(&Area, &Area)| a.line == b.line;
        let front = now.iter().zip(&before).take_while(same).count();
        let rest = now[front..].iter().rev().zip(before[front..].iter().rev());
        let behind = rest.take_while(same).count();
        self.record(memory, kind::MAP, |_, out| {
            let new = &now[front..now.len() - behind];
            [front, behind, new.len()].iter().for_each(|&count| put(out, count as u64));
            new.iter().for_each(|area| out.extend_from_slice(&area.line));
        });
    }

    fn flush(&mut self) {
        if !self.records.is_empty() {
            let head = head_of_chunk(self.chunks, &self.records);
            self.chunks += 1;
            send(&[&head, &self.records[..]].concat());
            self.records.clear();
        }
    }
}

/// Settings and areas with which a program starts.
fn seed(trace: &mut Trace, space: &AddressSpace, out: &mut Vec<u8>) {
    put_config(out, space.config());
    put_limits(out, &space.limits());
    put_layout(out, &space.layout());
    put(out, space.area_count() as u64);
    for (area, line) in space.areas().zip(space.maps()) {
        let [read, write, execute, _] = line.perms.map(|letter| u64::from(letter != b'-'));
        let special = line.name.starts_with('[') && !matches!(line.name, "[heap]" | "[stack]");
        let file = area.vma.file().cloned();
        let number = file.as_ref().map_or(0, |file| trace.file(file) + 1);
        let area = SeedVma {
            start: line.start,
            end: line.end,
            prot: read | write << 1 | execute << 2,
            shared: line.perms[3] == b's',
            offset: line.offset,
            file,
            flags: Some(line.flags),
            name: special.then(|| Box::from(line.name)),
            touched: area.vma.anon().is_some(),
        };
        put_seed_area(out, &area, number);
    }
}

fn areas(memory: &Memory) -> Vec<Area> {
    memory.with_space(|space| {
        let areas = space.areas().zip(space.maps()).map(|(area, map)| {
            let mut line = Vec::new();
            put(&mut line, map.start);
            put(&mut line, map.end - map.start);
            line.extend_from_slice(&map.perms);
            put(&mut line, map.offset);
            put(&mut line, map.id.major.into());
            put(&mut line, map.id.minor.into());
            put(&mut line, map.id.inode);
            put_text(&mut line, map.name.as_bytes());
            let has_private_pages = area.vma.anon().is_some();
            Area { start: map.start, end: map.end, has_private_pages, line }
        });
        areas.collect()
    })
}

fn send(bytes: &[u8]) {
    let mut line = String::from("\u{3}");
    for byte in bytes {
        let _ = write!(line, "{byte:02x}");
    }
    line.push('\n');
    Arch::log_write(line.as_bytes());
}
