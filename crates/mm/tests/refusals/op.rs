//! Operations, and what they promise if memory is refused.

use samara_mm::abi::{
    MADV_COLD, MADV_COLLAPSE, MADV_DOFORK, MADV_DONTFORK, MADV_DONTNEED, MADV_FREE,
    MADV_GUARD_INSTALL, MADV_GUARD_REMOVE, MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_PAGEOUT,
    MADV_POPULATE_WRITE, MADV_REMOVE, MADV_WIPEONFORK, MAP_ANONYMOUS, MAP_FIXED, MAP_LOCKED,
    MAP_POPULATE, MAP_PRIVATE, MAP_SHARED, MREMAP_DONTUNMAP, MREMAP_FIXED, MREMAP_MAYMOVE,
    PROT_NONE, PROT_READ, PROT_WRITE,
};
use samara_mm::process::ForkMode;
use samara_mm::{Call, FileArg};

use crate::rng::Rng;
use crate::world::{BASE, MODES, PAGE, PAGES, SLOTS, STRETCH};

/// The object of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Private,
    Shared,
    FilePrivate,
    FileShared,
}

/// Pages are numbered from [`BASE`] on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// The last: more flags.
    Map(Kind, u64, u64, u64, u64),
    Unmap(u64, u64),
    Protect(u64, u64, u64),
    /// From, old pages, new pages, flags, to.
    Remap(u64, u64, u64, u64, u64),
    Advise(u64, u64, i32),
    Lock(u64, u64),
    Unlock(u64, u64),
    Seal(u64, u64),
    Write(u64, u64),
    Read(u64, u64),
    Fork(usize, ForkMode),
    /// Everything above the pages that histories use goes.
    Clear,
    Exit,
}

/// A call's promise if it fails for lack of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// It has changed nothing.
    Nothing,
    /// Areas may have changed, and pages may have come, or have been copied; where pages were there are pages.
    PagesStay,
    /// A part may be done.
    Parts,
}

fn at(page: u64) -> u64 {
    BASE + page * PAGE
}

impl Op {
    pub(crate) fn call(&self, file: &FileArg) -> Option<Call> {
        Some(match *self {
            Op::Map(kind, page, pages, prot, more) => {
                let (flags, file) = match kind {
                    Kind::Private => (MAP_PRIVATE | MAP_ANONYMOUS, FileArg::None),
                    Kind::Shared => (MAP_SHARED | MAP_ANONYMOUS, FileArg::None),
                    Kind::FilePrivate => (MAP_PRIVATE, file.clone()),
                    Kind::FileShared => (MAP_SHARED, file.clone()),
                };
                Call::Mmap {
                    addr: at(page),
                    len: pages * PAGE,
                    prot,
                    flags: flags | MAP_FIXED | more,
                    file,
                    // The same of the file at the same page, so that maps of it join.
                    offset: match kind {
                        Kind::Private | Kind::Shared => 0,
                        _ => page % STRETCH * PAGE,
                    },
                }
            }
            Op::Unmap(page, pages) => Call::Munmap {
                addr: at(page),
                len: pages * PAGE,
            },
            Op::Clear => Call::Munmap {
                addr: at(2 * PAGES),
                len: (1 << 46) - at(2 * PAGES),
            },
            Op::Protect(page, pages, prot) => Call::Mprotect {
                addr: at(page),
                len: pages * PAGE,
                prot,
                pkey: -1,
            },
            Op::Remap(from, old, new, flags, to) => Call::Mremap {
                old_addr: at(from),
                old_len: old * PAGE,
                new_len: new * PAGE,
                flags,
                new_addr: at(to),
            },
            Op::Advise(page, pages, advice) => Call::Madvise {
                addr: at(page),
                len: pages * PAGE,
                advice,
            },
            Op::Lock(page, pages) => Call::Mlock {
                addr: at(page),
                len: pages * PAGE,
                flags: 0,
            },
            Op::Unlock(page, pages) => Call::Munlock {
                addr: at(page),
                len: pages * PAGE,
            },
            Op::Seal(page, pages) => Call::Mseal {
                addr: at(page),
                len: pages * PAGE,
                flags: 0,
            },
            Op::Write(..) | Op::Read(..) | Op::Fork(..) | Op::Exit => return None,
        })
    }

    /// `munmap` does in fact nothing; its documentation leaves it free to do a part.
    pub(crate) fn promise(&self) -> Promise {
        match self {
            Op::Map(..) | Op::Remap(..) | Op::Fork(..) | Op::Unmap(..) | Op::Clear => {
                Promise::Nothing
            }
            Op::Protect(..) => Promise::PagesStay,
            _ => Promise::Parts,
        }
    }

    /// Returns `true` if it changes what other processes map.
    pub(crate) fn reaches_others(&self) -> bool {
        matches!(
            self,
            Op::Advise(_, _, MADV_REMOVE | MADV_PAGEOUT) | Op::Write(..)
        )
    }
}

/// Draws operations.
pub(crate) struct Random(Rng);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(Rng::new(seed))
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }

    /// A page: an edge of a stretch, one near it, or any.
    fn page(&mut self) -> u64 {
        let edge = self.below(PAGES / STRETCH) * STRETCH;
        match self.below(4) {
            0 => edge,
            1 => (edge + STRETCH - 8 + self.below(16)).min(PAGES - 1),
            _ => self.below(PAGES),
        }
    }

    /// A range of pages: few, up to an edge, whole stretches, or any.
    fn range(&mut self) -> (u64, u64) {
        let from = self.page();
        let left = PAGES - from;
        let pages = match self.below(4) {
            0 => 1 + self.below(16),
            1 => STRETCH - from % STRETCH,
            2 => STRETCH * (1 + self.below(3)),
            _ => 1 + self.below(left),
        };
        (from, pages.min(left))
    }

    pub(crate) fn op(&mut self) -> Op {
        let (page, pages) = self.range();
        let prot = self.0.pick(&[
            PROT_READ | PROT_WRITE,
            PROT_READ | PROT_WRITE,
            PROT_READ,
            PROT_NONE,
        ]);
        match self.below(32) {
            0..6 => {
                let kind = self.0.pick(&[
                    Kind::Private,
                    Kind::Private,
                    Kind::Private,
                    Kind::Shared,
                    Kind::FilePrivate,
                    Kind::FileShared,
                ]);
                let more = self.0.pick(&[0, 0, 0, MAP_POPULATE, MAP_LOCKED]);
                Op::Map(kind, page, pages, prot, more)
            }
            6..9 => Op::Unmap(page, pages),
            9..12 => Op::Protect(page, pages, prot),
            12..16 => self.remap(page, pages),
            16..20 => {
                let advice = self.0.pick(&[
                    MADV_DONTNEED,
                    MADV_DONTNEED,
                    MADV_REMOVE,
                    MADV_FREE,
                    MADV_HUGEPAGE,
                    MADV_HUGEPAGE,
                    MADV_NOHUGEPAGE,
                    MADV_DONTFORK,
                    MADV_DOFORK,
                    MADV_WIPEONFORK,
                    MADV_COLLAPSE,
                    MADV_COLD,
                    MADV_PAGEOUT,
                    MADV_POPULATE_WRITE,
                    MADV_GUARD_INSTALL,
                    MADV_GUARD_REMOVE,
                ]);
                Op::Advise(page, pages, advice)
            }
            20 => Op::Lock(page, pages.min(64)),
            21 => Op::Unlock(page, pages),
            22..24 => {
                let into = self.below(SLOTS as u64) as usize;
                Op::Fork(into, self.0.pick(&MODES))
            }
            24 => Op::Fork(1, ForkMode::Share),
            25 => {
                [Op::Exit, Op::Clear, Op::Read(page, pages.min(8))][self.below(3) as usize].clone()
            }
            26 => Op::Read(page, pages.min(32)),
            _ => Op::Write(page, (1 + self.below(32)).min(PAGES - page)),
        }
    }

    fn remap(&mut self, page: u64, pages: u64) -> Op {
        let to = self.page();
        let other = 1 + self.below(pages + 8);
        let fixed = MREMAP_MAYMOVE | MREMAP_FIXED;
        match self.below(8) {
            0 => Op::Remap(page, pages, other.min(pages), 0, 0),
            1 => Op::Remap(page, pages, pages + self.below(8), 0, 0),
            2 => Op::Remap(page, pages, pages + self.below(600), MREMAP_MAYMOVE, 0),
            3 => Op::Remap(page, pages, other, fixed, to),
            4 => Op::Remap(
                page,
                pages,
                pages,
                MREMAP_MAYMOVE | MREMAP_DONTUNMAP,
                2 * PAGES,
            ),
            5 => Op::Remap(page, pages, pages, fixed | MREMAP_DONTUNMAP, to),
            // As it lies, a multiple of stretches away: whole tables move.
            6 => {
                let to = page % STRETCH + self.below(2 * PAGES / STRETCH) * STRETCH;
                Op::Remap(page, pages, pages, fixed, to)
            }
            _ => Op::Remap(page, pages, pages, fixed, to),
        }
    }
}
