//! Steps, and how they are drawn.

use samara_mm::abi::{
    MADV_COLD, MADV_DONTNEED, MADV_FREE, MADV_MERGEABLE, MADV_PAGEOUT, MADV_UNMERGEABLE, PROT_NONE,
    PROT_READ, PROT_WRITE,
};
use samara_mm::process::ForkMode;

use super::model::{Page, What};
use super::{FILE_PAGES, PAGES, SLOTS, World};

pub(super) struct Bytes<'a>(pub(super) std::slice::Iter<'a, u8>);

impl Bytes<'_> {
    pub(super) fn below(&mut self, n: usize) -> usize {
        usize::from(self.0.next().copied().unwrap_or(0)) % n
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    /// `kind`: private memory, shared memory, the file shared, the file private.
    Map {
        kind: usize,
        file_page: usize,
        prot: u64,
        populate: bool,
    },
    Unmap,
    Protect(u64),
    Advise(i32),
    /// The first page, to there.
    Move(usize),
    Sync,
    Read,
    Write(u8),
    Fork(usize, ForkMode),
    Exit,
    Truncate(usize),
    Punch(usize),
    /// A scan of KSM over this many pages.
    Scan(usize),
    Pin {
        write: bool,
        long: bool,
    },
    /// Releases this many of the oldest pins.
    Unpin(usize),
}

/// The process that performs it, and the pages from and to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) who: usize,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) op: Op,
}

/// The steps, and the refusals of each: printed on failure.
pub(super) struct Steps(pub(super) Vec<(Step, usize)>);

impl Drop for Steps {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (step, refuse) in &self.0 {
                eprintln!("{step:?}, refusing {refuse}");
            }
        }
    }
}

impl World {
    pub(super) fn any_step(&self, bytes: &mut Bytes<'_>) -> Step {
        let who = bytes.below(SLOTS);
        let kind = bytes.below(if self.walkers.is_some() { 32 } else { 24 });
        let from = bytes.below(PAGES);
        let to = from + 1 + bytes.below(PAGES - from);
        let prot = |n: usize| [PROT_READ | PROT_WRITE, PROT_READ, PROT_NONE][n];
        let op = match kind {
            0..4 => {
                let more = bytes.below(16);
                Op::Map {
                    kind: kind % 4,
                    file_page: bytes.below(FILE_PAGES),
                    prot: prot((more % 8).saturating_sub(5)),
                    populate: more >= 12,
                }
            }
            4 => Op::Unmap,
            5 | 6 => Op::Protect(prot(bytes.below(3))),
            7 => Op::Advise(MADV_DONTNEED),
            8 => Op::Advise(MADV_FREE),
            9 => Op::Advise([MADV_PAGEOUT, MADV_COLD][bytes.below(2)]),
            10 | 11 => Op::Move(bytes.below(PAGES)),
            12 => Op::Sync,
            13 => {
                let mode = [ForkMode::Copy, ForkMode::Share][bytes.below(2)];
                Op::Fork(bytes.below(SLOTS), mode)
            }
            14 => {
                let mode = [ForkMode::Share, ForkMode::Copy][bytes.below(2)];
                Op::Fork(bytes.below(SLOTS), mode)
            }
            15 => Op::Exit,
            16 => Op::Truncate(bytes.below(FILE_PAGES + 1)),
            17 => Op::Punch(bytes.below(FILE_PAGES)),
            18..20 => Op::Read,
            24 | 25 => Op::Scan(bytes.below(SLOTS * PAGES)),
            26 => {
                let [write, long] = [bytes.below(2) == 1, bytes.below(2) == 1];
                Op::Pin { write, long }
            }
            27 => Op::Unpin(bytes.below(3)),
            28 | 29 => Op::Advise(MADV_MERGEABLE),
            30 => Op::Advise(MADV_UNMERGEABLE),
            31 => Op::Advise(MADV_PAGEOUT),
            // Few contents, so that some are alike.
            _ if self.walkers.is_some() => Op::Write(1 + bytes.below(3) as u8),
            _ => Op::Write(1 + bytes.below(255) as u8),
        };
        Step { who, from, to, op }
    }

    pub(super) fn is_possible(&self, Step { who, from, to, op }: Step) -> bool {
        let Some(pages) = &self.model[who] else {
            return false;
        };
        let all = |test: fn(&Page) -> bool| {
            (pages[from..to].iter()).all(|page| page.as_ref().is_some_and(test))
        };
        match op {
            // Of a range with a hole, a part is done: `oracle` has that.
            Op::Protect(_) | Op::Sync => all(|_| true),
            Op::Advise(advice) => {
                all(|_| true)
                    && (advice != MADV_FREE || all(|page| matches!(page.what, What::Own(..))))
            }
            Op::Move(there) => from != there && pages[from].is_some(),
            Op::Fork(child, _) => self.model[child].is_none(),
            _ => true,
        }
    }
}
