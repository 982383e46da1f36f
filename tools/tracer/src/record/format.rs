//! The kinds of records: their names, their fields, and how each is read.

use samara_conformance::counted::counted;
use samara_conformance::seed::Seed;
use samara_conformance::undecided::Unknown;
use samara_mm::{Call, Config, Counted, File, KernelVersion, Limits};

use samara_record::{Fields, call, config, file, layout, limits, ranges, seed_area};

use super::map::{MapChange, map_change};

/// The reason for which an engine is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A program was started.
    Exec,
    /// Engine and kernel had diverged, or a call was not modelled.
    Resync,
    /// A process appeared whose fork was not traced.
    Adopted,
}

/// One step of a trace.
#[derive(Debug)]
pub enum Record {
    /// An engine is started.
    Seed {
        /// The number of the address space.
        space: u32,
        /// The reason.
        reason: Reason,
        /// The state of the address space.
        seed: Box<Seed>,
    },
    /// A process was forked.
    Fork {
        /// The parent's address space.
        parent: u32,
        /// The child's.
        child: u32,
    },
    /// Pages were found written before the next fork.
    Written {
        /// The number of the address space.
        space: u32,
        /// The first address.
        start: u64,
        /// The address behind the last one.
        end: u64,
    },
    /// A fault grew an area down.
    Grown {
        /// The number of the address space.
        space: u32,
        /// The area's new start.
        start: u64,
    },
    /// Another thread's fault grew an area while the next call was under way.
    GrownMeanwhile {
        /// The number of the address space.
        space: u32,
        /// The area's new start.
        start: u64,
    },
    /// Another thread changed the set of nodes that the next call names.
    NodesMeanwhile {
        /// The number of the address space.
        space: u32,
        /// The set, a bit for each node.
        nodes: u64,
    },
    /// An access found no page behind this address, beyond the end of a file, or no area at it,
    /// below an area that could not grow.
    PerhapsWritten {
        /// The number of the address space.
        space: u32,
        /// The address.
        address: u64,
    },
    /// Pages that were found written. The write may have been pending when the last call was
    /// performed.
    ShownLate {
        /// The number of the address space.
        space: u32,
        /// The first address.
        start: u64,
        /// The address behind the last one.
        end: u64,
    },
    /// Something is not known of these addresses or, if the range is empty, of the next call.
    Unknown {
        /// The number of the address space.
        space: u32,
        /// The first address.
        start: u64,
        /// The address behind the last one.
        end: u64,
        /// The thing that is not known.
        unknown: Unknown,
    },
    /// A userfaultfd has poisoned pages.
    Poisoned {
        /// The number of the address space.
        space: u32,
        /// The first address.
        start: u64,
        /// The address behind the last one.
        end: u64,
    },
    /// A userfaultfd has filled pages that had markers.
    Brought {
        /// The number of the address space.
        space: u32,
        /// The first address.
        start: u64,
        /// The address behind the last one.
        end: u64,
    },
    /// The resource limits have changed.
    Limits {
        /// The number of the address space.
        space: u32,
        /// The new ones.
        limits: Limits,
    },
    /// A call on memory.
    Call {
        /// The number of the address space.
        space: u32,
        /// The thread that made it.
        thread: i32,
        /// The kernel's answer: the value, or minus the error number.
        returned: i64,
        /// Ranges (start, end) of areas that were newly found to hold anonymous pages, ascending:
        /// at entry …
        before: Box<[(u64, u64)]>,
        /// … and at the return, if another thread wrote concurrently.
        after: Option<Box<[(u64, u64)]>>,
        /// The call.
        call: Call,
    },
    /// A call that the engine does not model.
    Unmodelled {
        /// The number of the address space.
        space: u32,
        /// The thread that made it.
        thread: i32,
        /// The kernel's answer: the value, or minus the error number.
        returned: i64,
        /// Its name.
        name: Box<str>,
    },
    /// The kernel's map, as what differs from the one before.
    Map {
        /// The number of the address space.
        space: u32,
        /// The difference.
        change: Box<MapChange>,
    },
    /// The last thread has left the address space.
    Gone {
        /// The number of the address space.
        space: u32,
        /// It was the last of the program that was started.
        main: bool,
    },
    /// The configuration has changed.
    Settings {
        /// The number of the address space.
        space: u32,
        /// The new one.
        config: Box<Config>,
    },
    /// The addresses at which placement begins have changed.
    Bases {
        /// The number of the address space.
        space: u32,
        /// The one of placement from the top down.
        mmap_base: u64,
        /// The one of placement from the bottom up.
        legacy_base: u64,
    },
    /// Counts that no other record contains: threads, and processes that are not followed, have no
    /// records.
    Totals {
        /// Processes of the program.
        processes: u64,
        /// Threads of the program.
        threads: u64,
        /// Processes that were not followed, by reason.
        not_followed: Vec<(Box<str>, u64)>,
    },
    /// The program has ended.
    End {
        /// Its exit code.
        exit_code: i32,
        /// The signal that killed it, or 0.
        signal: i32,
    },
}

impl Record {
    /// Returns the address space of the record. For a fork, that is the child's.
    pub(crate) fn space(&self) -> Option<u32> {
        match self {
            Record::Seed { space, .. }
            | Record::Written { space, .. }
            | Record::Grown { space, .. }
            | Record::GrownMeanwhile { space, .. }
            | Record::NodesMeanwhile { space, .. }
            | Record::PerhapsWritten { space, .. }
            | Record::ShownLate { space, .. }
            | Record::Unknown { space, .. }
            | Record::Poisoned { space, .. }
            | Record::Brought { space, .. }
            | Record::Limits { space, .. }
            | Record::Call { space, .. }
            | Record::Unmodelled { space, .. }
            | Record::Map { space, .. }
            | Record::Gone { space, .. }
            | Record::Settings { space, .. }
            | Record::Bases { space, .. } => Some(*space),
            Record::Fork { child, .. } => Some(*child),
            Record::Totals { .. } | Record::End { .. } => None,
        }
    }
}

/// The state that a reader keeps from one record to the next.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) files: Vec<Counted<File>>,
    /// The version of the kernel on which the trace was recorded.
    pub(super) kernel: KernelVersion,
    /// The version of the trace's format.
    pub(super) version: u32,
    /// The number of areas in the last map of each space. Spaces are numbered from 0 in order.
    pub(super) lengths: Vec<usize>,
}

impl Memory {
    /// Reads the number of a known space, or of the next new one.
    fn new_space(&mut self, fields: &mut Fields<'_>) -> Option<u32> {
        let space = fields.small()?;
        let index = usize::try_from(space).ok()?;
        if index == self.lengths.len() {
            self.lengths.push(0);
        }
        (index < self.lengths.len()).then_some(space)
    }

    fn known_space(&self, fields: &mut Fields<'_>) -> Option<u32> {
        let space = fields.small()?;
        (usize::try_from(space).ok()? < self.lengths.len()).then_some(space)
    }
}

/// Reads one record. `Some(None)` stands for a record that only changes the memory.
pub(super) fn record(fields: &mut Fields<'_>, memory: &mut Memory) -> Option<Option<Record>> {
    Some(Some(match fields.byte()? {
        1 => {
            let file = file(fields, memory.version)?;
            memory.files.push(counted(file));
            return Some(None);
        }
        2 => seed(fields, memory)?,
        3 => fork(fields, memory)?,
        kind @ (4 | 17 | 19 | 20 | 21) => of_range(kind, fields, memory)?,
        kind @ (5 | 14 | 15 | 16) => of_word(kind, fields, memory)?,
        6 => Record::Limits {
            space: memory.known_space(fields)?,
            limits: limits(fields)?,
        },
        7 => performed(fields, memory)?,
        8 => Record::Unmodelled {
            space: memory.known_space(fields)?,
            thread: fields.small()? as i32,
            returned: fields.signed()?,
            name: fields.text()?.into(),
        },
        9 => map(fields, memory)?,
        10 => {
            let space = memory.known_space(fields)?;
            memory.lengths[space as usize] = 0;
            Record::Gone {
                space,
                main: fields.flag()?,
            }
        }
        11 => Record::End {
            exit_code: i32::try_from(fields.signed()?).ok()?,
            signal: i32::try_from(fields.signed()?).ok()?,
        },
        12 => Record::Settings {
            space: memory.known_space(fields)?,
            config: Box::new(config(fields, memory.kernel)?),
        },
        13 => totals(fields)?,
        18 => Record::Bases {
            space: memory.known_space(fields)?,
            mmap_base: fields.number()?,
            legacy_base: fields.number()?,
        },
        _ => return None,
    }))
}

/// Reads the start of an engine.
fn seed(fields: &mut Fields<'_>, memory: &mut Memory) -> Option<Record> {
    let space = memory.new_space(fields)?;
    let reason = match fields.byte()? {
        0 => Reason::Exec,
        1 => Reason::Resync,
        2 => Reason::Adopted,
        _ => return None,
    };
    let (config, limits, layout) = (
        config(fields, memory.kernel)?,
        limits(fields)?,
        layout(fields)?,
    );
    let areas = (0..fields.count()?)
        .map(|_| seed_area(fields, &memory.files))
        .collect::<Option<Vec<_>>>()?;
    if reason != Reason::Resync {
        memory.lengths[space as usize] = 0;
    }
    Some(Record::Seed {
        space,
        reason,
        seed: Box::new(Seed {
            config,
            limits,
            layout,
            areas,
        }),
    })
}

/// Reads a fork. The child begins with its parent's map.
fn fork(fields: &mut Fields<'_>, memory: &mut Memory) -> Option<Record> {
    let parent = memory.known_space(fields)?;
    let child = memory.new_space(fields)?;
    memory.lengths[child as usize] = memory.lengths[parent as usize];
    Some(Record::Fork { parent, child })
}

/// Reads a record of a range: a space, a start and a length.
fn of_range(kind: u8, fields: &mut Fields<'_>, memory: &Memory) -> Option<Record> {
    let (space, start) = (memory.known_space(fields)?, fields.number()?);
    let end = start.checked_add(fields.number()?)?;
    Some(match kind {
        4 => Record::Written { space, start, end },
        17 => Record::ShownLate { space, start, end },
        19 => Record::Poisoned { space, start, end },
        20 => Record::Brought { space, start, end },
        21 => Record::Unknown {
            space,
            start,
            end,
            unknown: Unknown::of_number(fields.number()?)?,
        },
        _ => return None,
    })
}

/// Reads a record of a space and one word.
fn of_word(kind: u8, fields: &mut Fields<'_>, memory: &Memory) -> Option<Record> {
    let (space, word) = (memory.known_space(fields)?, fields.number()?);
    Some(match kind {
        5 => Record::Grown { space, start: word },
        14 => Record::GrownMeanwhile { space, start: word },
        15 => Record::NodesMeanwhile { space, nodes: word },
        16 => Record::PerhapsWritten {
            space,
            address: word,
        },
        _ => return None,
    })
}

/// Reads a call on memory, and what was found written around it.
fn performed(fields: &mut Fields<'_>, memory: &Memory) -> Option<Record> {
    let (space, thread) = (memory.known_space(fields)?, fields.small()? as i32);
    let returned = fields.signed()?;
    let before = ranges(fields)?;
    let after = match fields.flag()? {
        false => None,
        true => Some(ranges(fields)?),
    };
    Some(Record::Call {
        space,
        thread,
        returned,
        before,
        after,
        call: call(fields, &memory.files)?,
    })
}

/// Reads a map, and checks that the map before it has the areas that are kept.
fn map(fields: &mut Fields<'_>, memory: &mut Memory) -> Option<Record> {
    let space = memory.known_space(fields)?;
    let change = map_change(fields)?;
    let length = &mut memory.lengths[space as usize];
    let kept = change.front.checked_add(change.behind)?;
    if kept > *length {
        return None;
    }
    *length = kept + change.areas.areas().len();
    Some(Record::Map {
        space,
        change: Box::new(change),
    })
}

/// Reads the counts at the end.
fn totals(fields: &mut Fields<'_>) -> Option<Record> {
    Some(Record::Totals {
        processes: fields.number()?,
        threads: fields.number()?,
        not_followed: (0..fields.count()?)
            .map(|_| Some((fields.text()?.into(), fields.number()?)))
            .collect::<Option<_>>()?,
    })
}
