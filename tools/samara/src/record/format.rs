//! The records: their names, what each holds, and the reading of one.

use samara_conformance::counted::counted;
use samara_conformance::seed::Seed;
use samara_conformance::undecided::Unknown;
use samara_mm::{Call, Config, Counted, File, KernelVersion, Limits};

use samara_record::{Fields, call, config, file, layout, limits, ranges, seed_area};

use super::map::{MapChange, map_change};

/// Why an engine is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    Exec,
    /// Engine and kernel had parted, or a call was not modelled.
    Resync,
    /// A process appeared of which no fork had been seen.
    Adopted,
}

/// One step of a trace.
#[derive(Debug)]
pub(crate) enum Record {
    Seed {
        space: u32,
        reason: Reason,
        seed: Box<Seed>,
    },
    Fork {
        parent: u32,
        child: u32,
    },
    Written {
        space: u32,
        start: u64,
        end: u64,
    },
    Grown {
        space: u32,
        start: u64,
    },
    /// Another thread's fault grew an area while the next call was under way.
    GrownMeanwhile {
        space: u32,
        start: u64,
    },
    /// Another thread changed the set of nodes that the next call names.
    NodesMeanwhile {
        space: u32,
        nodes: u64,
    },
    /// An access found nothing behind this address, beyond the end of a file, or nothing at it, below an area that could not grow.
    PerhapsWritten {
        space: u32,
        address: u64,
    },
    /// What was found written there may have been about to be when the last call was performed.
    ShownLate {
        space: u32,
        start: u64,
        end: u64,
    },
    /// Something is not known of these addresses, or, if there are none, of the next call.
    Unknown {
        space: u32,
        start: u64,
        end: u64,
        unknown: Unknown,
    },
    /// A userfaultfd has poisoned pages.
    Poisoned {
        space: u32,
        start: u64,
        end: u64,
    },
    /// A userfaultfd has brought pages where markers were.
    Brought {
        space: u32,
        start: u64,
        end: u64,
    },
    Limits {
        space: u32,
        limits: Limits,
    },
    Call {
        space: u32,
        thread: i32,
        returned: i64,
        /// Ranges (start, end) of areas that were newly found to hold anonymous pages, ascending: at entry …
        before: Box<[(u64, u64)]>,
        /// … and at the return, if another thread wrote meanwhile.
        after: Option<Box<[(u64, u64)]>>,
        call: Call,
    },
    Unmodelled {
        space: u32,
        thread: i32,
        returned: i64,
        name: Box<str>,
    },
    /// The kernel's map, as what differs from the one before.
    Map {
        space: u32,
        change: Box<MapChange>,
    },
    Gone {
        space: u32,
        /// It was the last of the program that was started.
        main: bool,
    },
    Settings {
        space: u32,
        config: Box<Config>,
    },
    Bases {
        space: u32,
        mmap_base: u64,
        legacy_base: u64,
    },
    /// What no other record tells, since those who share an address space, or are not followed, have none of their own.
    Totals {
        processes: u64,
        threads: u64,
        not_followed: Vec<(Box<str>, u64)>,
    },
    End {
        exit_code: i32,
        signal: i32,
    },
}

impl Record {
    /// The address space that it tells of; of a fork, the child's.
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

/// What a reader must remember from one record to the next.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) files: Vec<Counted<File>>,
    /// Of the whole trace.
    pub(super) kernel: KernelVersion,
    /// The format that it has.
    pub(super) version: u32,
    /// How many areas the last map of each space has. Spaces are numbered from 0 in order.
    pub(super) lengths: Vec<usize>,
}

impl Memory {
    /// A space that is known, or the next new one.
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

/// Reads one record; `Ok(None)` for one that only the memory needs.
pub(super) fn record(fields: &mut Fields<'_>, memory: &mut Memory) -> Option<Option<Record>> {
    Some(Some(match fields.byte()? {
        1 => {
            let file = file(fields, memory.version)?;
            memory.files.push(counted(file));
            return Some(None);
        }
        2 => {
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
            Record::Seed {
                space,
                reason,
                seed: Box::new(Seed {
                    config,
                    limits,
                    layout,
                    areas,
                }),
            }
        }
        3 => {
            let parent = memory.known_space(fields)?;
            let child = memory.new_space(fields)?;
            memory.lengths[child as usize] = memory.lengths[parent as usize];
            Record::Fork { parent, child }
        }
        4 => {
            let (space, start) = (memory.known_space(fields)?, fields.number()?);
            Record::Written {
                space,
                start,
                end: start.checked_add(fields.number()?)?,
            }
        }
        5 => Record::Grown {
            space: memory.known_space(fields)?,
            start: fields.number()?,
        },
        14 => Record::GrownMeanwhile {
            space: memory.known_space(fields)?,
            start: fields.number()?,
        },
        15 => Record::NodesMeanwhile {
            space: memory.known_space(fields)?,
            nodes: fields.number()?,
        },
        16 => Record::PerhapsWritten {
            space: memory.known_space(fields)?,
            address: fields.number()?,
        },
        17 => {
            let (space, start) = (memory.known_space(fields)?, fields.number()?);
            Record::ShownLate {
                space,
                start,
                end: start.checked_add(fields.number()?)?,
            }
        }
        21 => {
            let (space, start) = (memory.known_space(fields)?, fields.number()?);
            Record::Unknown {
                space,
                start,
                end: start.checked_add(fields.number()?)?,
                unknown: Unknown::of_number(fields.number()?)?,
            }
        }
        kind @ (19 | 20) => {
            let (space, start) = (memory.known_space(fields)?, fields.number()?);
            let end = start.checked_add(fields.number()?)?;
            match kind {
                19 => Record::Poisoned { space, start, end },
                _ => Record::Brought { space, start, end },
            }
        }
        6 => Record::Limits {
            space: memory.known_space(fields)?,
            limits: limits(fields)?,
        },
        7 => {
            let (space, thread) = (memory.known_space(fields)?, fields.small()? as i32);
            let returned = fields.signed()?;
            let before = ranges(fields)?;
            let after = match fields.flag()? {
                false => None,
                true => Some(ranges(fields)?),
            };
            Record::Call {
                space,
                thread,
                returned,
                before,
                after,
                call: call(fields, &memory.files)?,
            }
        }
        8 => {
            let space = memory.known_space(fields)?;
            Record::Unmodelled {
                space,
                thread: fields.small()? as i32,
                returned: fields.signed()?,
                name: fields.text()?.into(),
            }
        }
        9 => {
            let space = memory.known_space(fields)?;
            let change = map_change(fields)?;
            let length = &mut memory.lengths[space as usize];
            let kept = change.front.checked_add(change.behind)?;
            if kept > *length {
                return None;
            }
            *length = kept + change.areas.areas().len();
            Record::Map {
                space,
                change: Box::new(change),
            }
        }
        10 => {
            let space = memory.known_space(fields)?;
            memory.lengths[space as usize] = 0;
            Record::Gone {
                space,
                main: fields.flag()?,
            }
        }
        18 => Record::Bases {
            space: memory.known_space(fields)?,
            mmap_base: fields.number()?,
            legacy_base: fields.number()?,
        },
        12 => Record::Settings {
            space: memory.known_space(fields)?,
            config: Box::new(config(fields, memory.kernel)?),
        },
        13 => Record::Totals {
            processes: fields.number()?,
            threads: fields.number()?,
            not_followed: (0..fields.count()?)
                .map(|_| Some((fields.text()?.into(), fields.number()?)))
                .collect::<Option<_>>()?,
        },
        11 => Record::End {
            exit_code: i32::try_from(fields.signed()?).ok()?,
            signal: i32::try_from(fields.signed()?).ok()?,
        },
        _ => return None,
    }))
}
