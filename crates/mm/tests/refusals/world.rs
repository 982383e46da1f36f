//! Processes that play a history on a machine whose memory is refused.

use samara_mm::process::{ForkMode, Inode, Machine, PAGE_BYTES, PageSource, Process};
use samara_mm::{Config, Counted, Errno, File, FileArg, FileId, FileKind, Layout, Limits};

use crate::look::Look;
use crate::memory::{Host, machine};
use crate::op::{Op, Promise};
use crate::plan::{Count, Plan, begin_heap, end_heap};

pub(crate) const PAGE: u64 = 4096;
/// Pages of a stretch of 2 MiB.
pub(crate) const STRETCH: u64 = 512;
/// The place of histories: two stretches below a boundary of 1 GiB, and one above.
pub(crate) const BASE: u64 = 0x1000_3fc0_0000;
pub(crate) const PAGES: u64 = 3 * STRETCH;
pub(crate) const SLOTS: usize = 3;
/// Of the file.
const FILE_PAGES: u64 = 4 * STRETCH;

/// A file whose bytes are never checked.
struct Disk;

impl PageSource for Disk {
    fn read_page(&self, page: u64, into: &mut [u8; PAGE_BYTES]) -> Result<(), Errno> {
        into.fill(page.to_le_bytes()[0]);
        Ok(())
    }

    fn write_page(&self, _: u64, _: &[u8; PAGE_BYTES]) -> Result<(), Errno> {
        Ok(())
    }

    fn punch(&self, _: u64, _: u64) -> Result<(), Errno> {
        Ok(())
    }

    fn size(&self) -> u64 {
        FILE_PAGES * PAGE
    }
}

fn file() -> Counted<File> {
    let (major, minor, inode) = (1, 2, 3);
    let id = FileId {
        major,
        minor,
        inode,
    };
    Counted::try_new(File {
        kind: FileKind::Unaligned,
        object: Inode::object(Disk).unwrap(),
        ..File::new(id, "/file".into())
    })
    .unwrap()
}

/// The result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) result: Result<u64, Errno>,
    pub(crate) frames: Count,
    pub(crate) heap: Count,
}

pub(crate) struct World {
    pub(crate) machine: Machine<Host>,
    pub(crate) processes: [Option<Process<Host>>; SLOTS],
    file: Counted<File>,
}

impl World {
    pub(crate) fn new(frames: usize) -> Self {
        let machine = machine(frames);
        let config = Config::default();
        let first = Process::new(&machine, config, Limits::default(), Layout::default()).unwrap();
        World {
            machine,
            processes: [Some(first), None, None],
            file: file(),
        }
    }

    pub(crate) fn looks(&self) -> [Option<Look>; SLOTS] {
        self.processes
            .each_ref()
            .map(|process| process.as_ref().map(Look::at))
    }

    /// Performs an operation, to which memory is refused as planned.
    pub(crate) fn perform(&mut self, who: usize, op: &Op, plan: &Plan) -> Outcome {
        let call = op.call(&FileArg::File(self.file.clone()));
        let backing = self.machine.physical().backing();
        backing.begin(plan);
        begin_heap(plan);
        let mut child = None;
        let process = self.processes[who].as_ref().unwrap();
        let result = match (op, &call) {
            (_, Some(call)) => process.perform(call),
            (Op::Fork(into, mode), _) => process.fork(*mode).map(|made| {
                child = Some((*into, made));
                0
            }),
            (Op::Write(page, pages), _) => {
                let addr = BASE + page * PAGE;
                let mut done = Ok(0);
                for addr in (addr..addr + pages * PAGE).step_by(PAGE as usize) {
                    if process.copy_in(addr, &[page.to_le_bytes()[0] | 1]) == 0 {
                        done = Err(Errno::EFAULT);
                    }
                }
                done
            }
            (Op::Read(page, pages), _) => {
                let addr = BASE + page * PAGE;
                for addr in (addr..addr + pages * PAGE).step_by(PAGE as usize) {
                    process.copy_out(addr, &mut [0]);
                }
                Ok(0)
            }
            _ => Ok(0),
        };
        let heap = end_heap();
        let frames = backing.end();
        if let Some((into, made)) = child {
            self.processes[into] = Some(made);
        }
        if let Op::Exit = op {
            self.processes[who] = None;
        }
        Outcome {
            result,
            frames,
            heap,
        }
    }

    pub(crate) fn is_possible(&self, who: usize, op: &Op) -> bool {
        self.processes[who].is_some()
            && match *op {
                Op::Fork(into, _) => self.processes[into].is_none(),
                Op::Exit => who != 0,
                _ => true,
            }
    }

    /// Performs an operation, and checks what it promises if memory is refused.
    pub(crate) fn step(&mut self, who: usize, op: &Op, plan: &Plan) -> Outcome {
        let before = self.looks();
        let outcome = self.perform(who, op, plan);
        let why = || format!("{who}: {op:x?} refusing {plan:?} gave {outcome:?}");
        if let Err(wrong) = self.machine.check() {
            panic!("{}: {wrong}", why());
        }
        let refused = outcome.frames.refused + outcome.heap.refused > 0;
        if refused && matches!(outcome.result, Err(Errno::ENOMEM | Errno::EAGAIN)) {
            self.compare(who, op, &before, &why);
        }
        outcome
    }

    fn compare(
        &self,
        who: usize,
        op: &Op,
        before: &[Option<Look>; SLOTS],
        why: &dyn Fn() -> String,
    ) {
        for (other, (was, is)) in before.iter().zip(self.looks()).enumerate() {
            let (Some(was), Some(is)) = (was, &is) else {
                assert_eq!(was.is_some(), is.is_some(), "{}: a process", why());
                continue;
            };
            let (was, is) = (&was.without_file(), &is.without_file());
            let wrong = match op.promise() {
                Promise::Nothing => was.differs(is),
                // It may have a page alone now that it had with the process of the call.
                _ if other != who && !op.reaches_others() => {
                    was.without_exclusive().differs(&is.without_exclusive())
                }
                Promise::Parts => None,
                Promise::PagesStay => pages_stay(was, is),
            };
            if let Some(wrong) = wrong {
                panic!("{}: process {other}: {wrong}", why());
            }
        }
    }
}

/// No page has gone.
fn pages_stay(was: &Look, is: &Look) -> Option<String> {
    (was.pages.keys())
        .find(|page| !is.pages.contains_key(page))
        .map(|page| format!("the page at {page:#x} has gone"))
}

/// The ways in which a child gets its pages.
pub(crate) const MODES: [ForkMode; 2] = [ForkMode::Copy, ForkMode::Share];
