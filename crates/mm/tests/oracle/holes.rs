//! Every way to close a hole between two areas, with every combination of who owns the private pages of what lies below, in and above it, in
//! processes of every descent.

use std::time::Instant;

use crate::generate::{ARENA, PAGE, Rng};
use crate::kernel::fail;
use crate::op::Op;
use crate::world::{self, World};

/// Private anonymous memory at a fixed place.
const ANONYMOUS: u64 = 0x32;
/// The place of a page before it is moved into the hole.
const FROM: u64 = 32;
/// The areas are `LOWER..HOLE` and `HOLE + 1..END`.
const LOWER: u64 = 8;
const HOLE: u64 = 12;
const END: u64 = 17;

/// The origin of the two areas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// One area, of which these pages are written before the hole is cut.
    One(&'static [u64]),
    /// Two mappings with the hole between them from the start.
    Two,
    /// One area whose middle had another protection when its ends were written: three owners, or one that all have.
    Lent,
    /// The lower area reached to the upper one, which had another protection until the hole was cut.
    LowerReached,
    /// As it was, the other way round.
    UpperReached,
}

/// The forks of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fork {
    Never,
    Child,
    Grandchild,
    ParentOfDead,
    ParentOfLiving,
}

/// An enumeration, and a constant with all of it.
macro_rules! all {
    ($all:ident of $name:ident: $($(#[$doc:meta])* $one:ident,)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        enum $name { $($(#[$doc])* $one,)* }
        const $all: &[$name] = &[$($name::$one,)*];
    };
}

// What closes the hole.
all! { CLOSINGS of Closing:
    /// The last page of the lower area grows in place.
    GrowLast,
    /// All of the lower area grows in place.
    GrowAll,
    MapFixed,
    MapHinted,
    /// A page that was never written is moved in.
    MoveUntouched,
    /// One that was written in this process.
    MoveTouched,
    /// One that was written before the fork.
    MoveInherited,
    /// One that was moved out of the hole.
    MoveBack,
    /// As the last four, and the source stays.
    CopyUntouched,
    CopyTouched,
    CopyInherited,
    CopyBack,
    /// There is no hole, but a page with another protection, which becomes that of its neighbours.
    Protect,
}

/// A combination, and the steps that make it.
struct Case {
    name: String,
    ops: Vec<Op>,
}

/// The areas that were written, and when.
#[derive(Debug, Clone, Copy)]
struct Way {
    /// The number of the file, or 0.
    file: usize,
    origin: Origin,
    /// Pages that are written before the fork.
    before: &'static [u64],
    fork: Fork,
    /// The hole is cut after the fork.
    cut_late: bool,
    /// Pages that are written after the fork.
    after: &'static [u64],
    closing: Closing,
}

fn at(page: u64) -> u64 {
    ARENA + page * PAGE
}

fn write(page: &u64) -> Op {
    Op::Write { addr: at(*page) }
}

fn protect(page: u64, pages: u64, prot: u64) -> Op {
    Op::Mprotect {
        addr: at(page),
        len: pages * PAGE,
        prot,
    }
}

fn unmap(page: u64, pages: u64) -> Op {
    Op::Munmap {
        addr: at(page),
        len: pages * PAGE,
    }
}

fn remap(page: u64, pages: u64, to: u64, new: u64, flags: u64) -> Op {
    Op::Mremap {
        old: at(page),
        old_len: pages * PAGE,
        new_len: new * PAGE,
        flags,
        new: at(to),
    }
}

/// Compares all combinations, or at random as many as take this many calls.
pub(crate) fn compare(world: &mut World, suite: &str, seed: u64, calls: u64) {
    let began = Instant::now();
    let mut cases = cases();
    let all: usize = cases.iter().map(|case| case.ops.len()).sum();
    if calls < all as u64 {
        let mut rng = Rng::new(seed);
        let mean = all.div_ceil(cases.len()) as u64;
        for place in 0..(calls / mean) as usize {
            let other = place + rng.below((cases.len() - place) as u64) as usize;
            cases.swap(place, other);
        }
        cases.truncate((calls / mean) as usize);
    }
    world.shared = false;
    world.flags_after_each = false;
    for case in &cases {
        if let Some(found) = world.compare(&case.ops, world::Way::Told) {
            fail(&format!("{suite}: {}: {}", case.name, found.what));
        }
    }
    let (count, took) = (cases.len(), began.elapsed());
    println!("{suite}: {count} combinations agree ({took:.1?})");
}

/// All combinations.
fn cases() -> Vec<Case> {
    let origins = [
        Origin::One(&[]),
        Origin::One(&[LOWER]),
        Origin::One(&[HOLE]),
        Origin::Two,
        Origin::Lent,
        Origin::LowerReached,
        Origin::UpperReached,
    ];
    const WRITES: [&[u64]; 4] = [&[], &[LOWER], &[END - 1], &[END - 1, LOWER]];
    let forks = [
        Fork::Never,
        Fork::Child,
        Fork::Grandchild,
        Fork::ParentOfDead,
        Fork::ParentOfLiving,
    ];
    let mut all = Vec::new();
    for file in [0, 1] {
        for origin in origins {
            for before in WRITES {
                for fork in forks {
                    for cut_late in [false, true] {
                        for after in WRITES {
                            for &closing in CLOSINGS {
                                let way = Way {
                                    file,
                                    origin,
                                    before,
                                    fork,
                                    cut_late,
                                    after,
                                    closing,
                                };
                                if way.is_of_its_own() {
                                    all.push(way.case());
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    all
}

impl Way {
    /// Returns `false` if another combination is the same, or a file as its private memory makes no difference.
    fn is_of_its_own(&self) -> bool {
        let never = self.fork == Fork::Never;
        let file = self.file == 0 || self.fork == Fork::Child && !self.cut_late;
        file && !(never && (self.cut_late || !self.after.is_empty()))
            && !(self.origin == Origin::Two && (self.cut_late || self.closing == Closing::Protect))
    }

    fn map(&self, page: u64, end: u64, prot: u64) -> Op {
        Op::Mmap {
            addr: at(page),
            len: (end - page) * PAGE,
            prot,
            flags: if self.file == 0 { ANONYMOUS } else { 0x12 },
            file: self.file,
            offset: if self.file == 0 { 0 } else { page * PAGE },
        }
    }

    /// A page to be moved into the hole. In a file, it is the hole's.
    fn source(&self) -> Op {
        Op::Mmap {
            addr: at(FROM),
            len: PAGE,
            prot: 3,
            flags: if self.file == 0 { ANONYMOUS } else { 0x12 },
            file: self.file,
            offset: if self.file == 0 { 0 } else { HOLE * PAGE },
        }
    }

    /// Makes the hole.
    fn cut(&self, ops: &mut Vec<Op>) {
        ops.push(match self.closing {
            Closing::MoveBack | Closing::CopyBack => remap(HOLE, 1, FROM, 1, 3),
            Closing::Protect => protect(HOLE, 1, 1),
            _ => unmap(HOLE, 1),
        });
        match self.origin {
            Origin::LowerReached => ops.push(protect(HOLE + 1, END - HOLE - 1, 3)),
            Origin::UpperReached => ops.push(protect(LOWER, HOLE - LOWER, 3)),
            _ => {}
        }
    }

    fn case(self) -> Case {
        use Closing::*;
        let mut ops = Vec::new();
        match self.origin {
            Origin::One(written) => {
                ops.push(self.map(LOWER, END, 3));
                ops.extend(written.iter().map(write));
            }
            Origin::Two => {
                ops.push(self.map(LOWER, HOLE, 3));
                ops.push(self.map(HOLE + 1, END, 3));
                if matches!(self.closing, MoveBack | CopyBack) {
                    ops.push(self.source());
                }
            }
            Origin::Lent => {
                ops.push(self.map(LOWER, END, 3));
                ops.push(protect(HOLE, 1, 1));
                ops.extend([LOWER, HOLE + 1].iter().map(write));
            }
            Origin::LowerReached => {
                ops.push(self.map(LOWER, HOLE + 1, 3));
                ops.push(write(&HOLE));
                ops.push(self.map(HOLE + 1, END, 1));
            }
            Origin::UpperReached => {
                ops.push(self.map(HOLE, END, 3));
                ops.push(write(&HOLE));
                ops.push(self.map(LOWER, HOLE, 1));
            }
        }
        if self.origin != Origin::Two && !self.cut_late {
            self.cut(&mut ops);
        }
        ops.extend(self.before.iter().map(write));
        if matches!(self.closing, MoveInherited | CopyInherited) {
            ops.extend([self.source(), write(&FROM)]);
        }
        match self.fork {
            Fork::Never => {}
            Fork::Child => ops.push(Op::ForkInto),
            Fork::Grandchild => ops.extend([Op::ForkInto, Op::ForkInto]),
            Fork::ParentOfDead => ops.push(Op::ForkAside),
            Fork::ParentOfLiving => ops.push(Op::ForkKeep),
        }
        if self.cut_late {
            self.cut(&mut ops);
        }
        ops.extend(self.after.iter().map(write));
        let moved = remap(FROM, 1, HOLE, 1, 3);
        let copied = remap(FROM, 1, HOLE, 1, 7);
        match self.closing {
            GrowLast => ops.push(remap(HOLE - 1, 1, 0, 2, 0)),
            GrowAll => ops.push(remap(LOWER, HOLE - LOWER, 0, HOLE + 1 - LOWER, 0)),
            MapFixed => ops.push(self.map(HOLE, HOLE + 1, 3)),
            MapHinted => ops.push(Op::Mmap {
                addr: at(HOLE),
                len: PAGE,
                prot: 3,
                flags: if self.file == 0 { 0x22 } else { 2 },
                file: self.file,
                offset: if self.file == 0 { 0 } else { HOLE * PAGE },
            }),
            MoveUntouched => ops.extend([self.source(), moved]),
            MoveTouched => ops.extend([self.source(), write(&FROM), moved]),
            MoveInherited | MoveBack => ops.push(moved),
            CopyUntouched => ops.extend([self.source(), copied]),
            CopyTouched => ops.extend([self.source(), write(&FROM), copied]),
            CopyInherited | CopyBack => ops.push(copied),
            Protect => ops.push(protect(HOLE, 1, 3)),
        }
        // Whose the pages are now shows when each part is cut, written and whole again.
        ops.extend([HOLE - 2, HOLE + 2].map(|page| protect(page, 1, 1)));
        ops.push(write(&HOLE));
        ops.extend([HOLE - 2, HOLE + 2].map(|page| protect(page, 1, 3)));
        Case {
            name: format!("{self:?}"),
            ops,
        }
    }
}
