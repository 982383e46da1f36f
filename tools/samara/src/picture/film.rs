//! The history of address spaces: steps, and the areas that stayed between them.

mod stays;

use std::collections::{BTreeMap, HashMap};

use samara_conformance::describe::{Described, Returned};
use samara_conformance::seed::Seed;
use samara_mm::{AddressSpace, Call, VmFlags};
use samara_tracer::record::{Reason, Record};
use samara_tracer::replay::Watcher;

use super::reach::{self, Reach};
use super::texts::{Text, Texts};
use crate::kind::Kind;

/// A property of a step in addition to its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Flag {
    /// The call failed.
    Failed = 1,
    /// Engine and kernel disagreed.
    Differs = 2,
    /// It was no call.
    Happening = 4,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) space: u32,
    /// 0 where it is not known.
    pub(super) thread: i32,
    /// The number of the call, as a replay counts them; 0 for what is none, and for calls that were not performed.
    pub(super) call: u64,
    /// Bits of [`Flag`].
    pub(super) flags: u8,
    pub(super) text: Text,
}

/// The looks of an area: everything except its place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Look {
    pub(super) kind: Kind,
    pub(super) perms: [u8; 4],
    pub(super) name: String,
    pub(super) flags: VmFlags,
}

/// An area from the step that gave it its shape to the one that took it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stay {
    pub(super) space: u32,
    /// First address, and the first beyond.
    pub(super) start: u64,
    pub(super) end: u64,
    /// Offset in the file, in bytes.
    pub(super) offset: u64,
    pub(super) look: u32,
    pub(super) born: u32,
    /// The step that ended it.
    pub(super) gone: Option<u32>,
}

/// Pages of an area were found to have been written for the first time: before a step, that is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    pub(super) space: u32,
    pub(super) step: u32,
    pub(super) start: u64,
    pub(super) end: u64,
}

/// An address space.
#[derive(Debug, Clone, Default)]
pub(super) struct Life {
    /// The step that began it; `None` if it never did.
    pub(super) born: Option<u32>,
    pub(super) gone: Option<u32>,
    pub(super) parent: Option<u32>,
    /// Path of the program's file.
    pub(super) program: String,
    /// The stays that are not ended, by their first addresses.
    now: BTreeMap<u64, u32>,
    /// The end of the heap at the last look.
    brk: u64,
}

/// The resident parts of an area, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) resident: u64,
    pub(crate) dirty: u64,
    pub(crate) swapped: u64,
}

/// An area at one moment.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) start: u64,
    /// First address beyond.
    pub(crate) end: u64,
    /// Offset in the file, in bytes.
    pub(crate) offset: u64,
    pub(crate) kind: Kind,
    pub(crate) perms: [u8; 4],
    pub(crate) name: String,
    pub(crate) flags: VmFlags,
    /// `None` if it is not known.
    pub(crate) held: Option<Held>,
}

/// Everything that a picture shows.
#[derive(Debug, Default)]
pub(crate) struct Film {
    /// The program that was started, and the kernel on which it ran.
    pub(super) title: String,
    pub(super) kernel: String,
    pub(super) steps: Vec<Step>,
    pub(super) texts: Texts,
    pub(super) looks: Vec<Look>,
    by_look: HashMap<Look, u32>,
    pub(super) stays: Vec<Stay>,
    pub(super) lives: Vec<Life>,
    pub(super) written: Vec<Written>,
    /// Of each stay, if it is known of all.
    pub(super) held: Vec<Held>,
    /// Found written, and to be told with the next step of the address space.
    noted: Vec<(u32, u64, u64)>,
}

impl Film {
    /// Returns an empty film of a program.
    pub(crate) fn new(words: &[String], kernel: &str) -> Self {
        Self {
            title: words.join(" "),
            kernel: kernel.to_owned(),
            ..Self::default()
        }
    }

    /// Returns a film of one step: areas, ascending, as they are at a moment.
    pub(crate) fn of_moment(title: &str, kernel: &str, areas: impl Iterator<Item = Shown>) -> Self {
        let mut film = Self::new(&[title.to_owned()], kernel);
        film.step(0, 0, Flag::Happening as u8, "as it is at this moment");
        film.life(0).born = Some(0);
        for area in areas {
            let look = film.number_of(Look {
                kind: area.kind,
                perms: area.perms,
                name: area.name,
                flags: area.flags,
            });
            film.stays.push(Stay {
                space: 0,
                start: area.start,
                end: area.end,
                offset: area.offset,
                look,
                born: 0,
                gone: None,
            });
            film.held.extend(area.held);
        }
        if film.held.len() < film.stays.len() {
            film.held.clear();
        }
        film
    }

    /// Returns the parts of files that could be written to in memory at any time: their names, the
    /// first offset, and the first beyond, in bytes.
    pub(crate) fn writable(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        self.stays.iter().filter_map(|stay| {
            let look = &self.looks[stay.look as usize];
            let writable = look.perms[1] == b'w' && !look.name.is_empty();
            writable.then(|| {
                (
                    &look.name[..],
                    stay.offset,
                    stay.offset + (stay.end - stay.start),
                )
            })
        })
    }

    fn begin(&mut self, space: u32, engine: Option<&AddressSpace>, text: &str) {
        self.step(space, 0, Flag::Happening as u8, text);
        let step = self.last();
        self.life(space).born.get_or_insert(step);
        self.observe(space, engine, Reach::Everywhere);
    }

    /// A call and what it returned.
    #[expect(clippy::too_many_arguments, reason = "a call is told by as much")]
    fn call(
        &mut self,
        space: u32,
        thread: i32,
        call: &Call,
        returned: i64,
        engine: Option<&AddressSpace>,
        differs: bool,
        replaced: bool,
    ) {
        let text = format!("{} = {}", Described(call), Returned(returned));
        let differs = if differs { Flag::Differs as u8 } else { 0 };
        self.step(space, thread, failed(returned) | differs, &text);
        let brk = self.life(space).brk;
        let reach = match engine {
            Some(engine) if !replaced => reach::of(call, returned, engine, brk),
            _ => Reach::Everywhere,
        };
        self.observe(space, engine, reach);
    }

    /// Something else that may have changed areas: it is a step only if it has.
    fn happening(&mut self, space: u32, engine: Option<&AddressSpace>, reach: Reach, text: &str) {
        // What is noted waits for a step that stays.
        let noted = std::mem::take(&mut self.noted);
        self.step(space, 0, Flag::Happening as u8, text);
        if !self.observe(space, engine, reach) {
            self.steps.pop();
        }
        self.noted = noted;
    }

    fn step(&mut self, space: u32, thread: i32, flags: u8, text: &str) {
        let text = self.texts.add(text);
        self.steps.push(Step {
            space,
            thread,
            call: 0,
            flags,
            text,
        });
        let number = self.last();
        let written = &mut self.written;
        self.noted.retain(|&(of, start, end)| {
            if of == space {
                written.push(Written {
                    space,
                    step: number,
                    start,
                    end,
                });
            }
            of != space
        });
    }

    /// Number of the last step.
    fn last(&self) -> u32 {
        (self.steps.len() - 1) as u32
    }

    fn life(&mut self, space: u32) -> &mut Life {
        let index = space as usize;
        if index >= self.lives.len() {
            self.lives.resize_with(index + 1, Life::default);
        }
        &mut self.lives[index]
    }
}

/// The beginnings and ends of address spaces.
impl Film {
    fn seeded(&mut self, space: u32, reason: Reason, seed: &Seed, engine: Option<&AddressSpace>) {
        let life = self.life(space);
        if reason != Reason::Resync || life.program.is_empty() {
            life.program = program(seed);
        }
        let name = life.program.clone();
        let text = match reason {
            Reason::Exec => format!("execve({name:?})"),
            Reason::Adopted => format!("a process appears, which runs {name:?}"),
            Reason::Resync => "the map is read anew from the kernel".to_owned(),
        };
        self.begin(space, engine, &text);
    }

    fn forked(&mut self, parent: u32, child: u32, engine: Option<&AddressSpace>) {
        let program = self.life(parent).program.clone();
        let text = format!("fork() makes process {child}");
        self.step(parent, 0, Flag::Happening as u8, &text);
        let life = self.life(child);
        life.program = program;
        life.parent = Some(parent);
        self.begin(child, engine, &format!("fork() of process {parent}"));
    }

    fn ended(&mut self, space: u32) {
        self.step(space, 0, Flag::Happening as u8, "the address space ends");
        let step = self.last();
        let life = self.life(space);
        life.gone = Some(step);
        for stay in std::mem::take(&mut life.now).into_values() {
            self.stays[stay as usize].gone = Some(step);
        }
    }
}

impl Watcher for Film {
    fn look(
        &mut self,
        record: &Record,
        engine: Option<&AddressSpace>,
        call_number: u64,
        differs: bool,
        replaced: bool,
    ) {
        match record {
            Record::Seed {
                space,
                reason,
                seed,
            } => {
                self.seeded(*space, *reason, seed, engine);
            }
            Record::Fork { parent, child } => {
                self.forked(*parent, *child, engine);
            }
            Record::Call {
                space,
                thread,
                returned,
                call,
                before,
                after,
            } => {
                for &(start, end) in before.iter().chain(after.iter().flatten()) {
                    self.noted.push((*space, start, end));
                }
                self.call(*space, *thread, call, *returned, engine, differs, replaced);
                if let Some(step) = self.steps.last_mut() {
                    step.call = call_number;
                }
            }
            Record::Unmodelled {
                space,
                name,
                thread,
                returned,
            } => {
                let text = format!("{name}(…) = {}", Returned(*returned));
                let flags = failed(*returned);
                self.step(*space, *thread, flags, &text);
                self.observe(*space, engine, Reach::Everywhere);
            }
            Record::Grown { space, start } => {
                let reach = Reach::Ranges([(*start, start.saturating_add(1)), (0, 0)]);
                let text = format!("a fault grows the area to {start:#x}");
                self.happening(*space, engine, reach, &text);
            }
            Record::Map { space, .. } => {
                let text = "the kernel's map shows growth by a fault";
                self.happening(*space, engine, Reach::Everywhere, text);
            }
            Record::Gone { space, .. } => {
                self.ended(*space);
            }
            Record::Written { space, start, end } => self.noted.push((*space, *start, *end)),
            // Where it is shown, the map after the call shows it.
            Record::GrownMeanwhile { .. }
            | Record::NodesMeanwhile { .. }
            | Record::PerhapsWritten { .. }
            | Record::ShownLate { .. }
            | Record::Unknown { .. }
            | Record::Poisoned { .. }
            | Record::Brought { .. }
            | Record::Limits { .. }
            | Record::Settings { .. }
            | Record::Bases { .. }
            | Record::Totals { .. }
            | Record::End { .. } => {}
        }
    }
}

fn failed(returned: i64) -> u8 {
    if (-4095..0).contains(&returned) {
        Flag::Failed as u8
    } else {
        0
    }
}

/// Returns the path of the program's file: of what is mapped, the nearest below the heap.
fn program(seed: &samara_conformance::seed::Seed) -> String {
    let heap = seed.layout.start_brk;
    seed.areas
        .iter()
        .rev()
        .filter(|area| area.start < heap)
        .find_map(|area| area.file.as_ref())
        .map_or_else(String::new, |file| file.name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use samara_mm::{Config, FileArg, Layout, Limits, NoPages};

    fn mmap(addr: u64, len: u64, prot: u64, fixed: bool) -> Call {
        Call::Mmap {
            addr,
            len,
            prot,
            flags: 0x22 | if fixed { 0x10 } else { 0 },
            file: FileArg::None,
            offset: 0,
        }
    }

    /// Returns the areas at a step, by the stays.
    fn at(film: &Film, step: u32) -> Vec<(u64, u64, [u8; 4])> {
        let mut areas: Vec<_> = film
            .stays
            .iter()
            .filter(|stay| stay.born <= step && stay.gone.is_none_or(|gone| step < gone))
            .map(|stay| (stay.start, stay.end, film.looks[stay.look as usize].perms))
            .collect();
        areas.sort_unstable();
        areas
    }

    /// Random calls: after each, the stays that are shown at its step are the engine's areas.
    #[test]
    fn stays_are_the_engines_areas_at_every_step() {
        let mut engine =
            AddressSpace::new(Config::default(), Limits::default(), Layout::default()).unwrap();
        let mut film = Film::new(&["test".to_owned()], "");
        let mut seen = Vec::new();
        let base = 0x7000_0000_0000;
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for _ in 0..400 {
            let (addr, len) = (base + random(24) * 0x1000, (1 + random(6)) * 0x1000);
            let call = match random(4) {
                0 => mmap(addr, len, random(4), true),
                1 => Call::Munmap { addr, len },
                2 => Call::Mprotect {
                    addr,
                    len,
                    prot: random(4),
                    pkey: -1,
                },
                _ => mmap(0, len, 3, false),
            };
            let returned =
                samara_conformance::describe::returned(engine.perform_with(&call, &mut NoPages));
            film.call(0, 1, &call, returned, Some(&engine), false, false);
            let areas: Vec<_> = engine
                .maps()
                .map(|line| (line.start, line.end, line.perms))
                .collect();
            seen.push(areas);
        }
        for (step, areas) in seen.iter().enumerate() {
            assert_eq!(at(&film, step as u32), *areas, "step {step}");
        }
        assert!(film.stays.len() > 200);
    }

    #[test]
    fn what_changes_nothing_is_no_step() {
        let mut engine =
            AddressSpace::new(Config::default(), Limits::default(), Layout::default()).unwrap();
        let mut film = Film::new(&[], "");
        film.happening(0, Some(&engine), Reach::Everywhere, "nothing");
        assert_eq!(film.steps.len(), 0);
        engine
            .perform_with(&mmap(0, 0x1000, 3, false), &mut NoPages)
            .unwrap();
        film.happening(0, Some(&engine), Reach::Everywhere, "an area");
        assert_eq!((film.steps.len(), film.stays.len()), (1, 1));
    }
}
