//! An owner that panics at what it is told: the call is undone as by a refusal, and the address space goes on.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use samara_mm::{
    AddressSpace, Advice, Area, Errno, MmapOptions, MremapOptions, Object, PageAdvice, Pages,
    PrepareOp, Prot, SyncFlags, Vma,
};

use crate::mirror::Mirror;
use crate::world::space;

const PAGE: u64 = 4096;
const BASE: u64 = 0x1_0000_0000;

/// A mirror that panics instead of taking the n-th thing that it is told.
struct Panicky {
    mirror: Mirror,
    left: u32,
    /// At everything that comes after that, too.
    again: bool,
    panics: u32,
}

impl Panicky {
    fn look(&mut self) {
        if self.left == 0 && (self.panics == 0 || self.again) {
            self.panics += 1;
            // Without a message.
            resume_unwind(Box::new("told"));
        }
        self.left = self.left.saturating_sub(1);
    }
}

impl Pages for Panicky {
    fn refuses(&self) -> bool {
        true
    }

    fn prepare(&mut self, op: PrepareOp) -> Result<(), Errno> {
        self.look();
        self.mirror.prepare(op)
    }

    fn map(&mut self, start: u64, end: u64, vma: &Vma) -> Result<(), Errno> {
        self.look();
        self.mirror.map(start, end, vma)
    }

    fn unmap(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        self.look();
        self.mirror.unmap(start, end)
    }

    fn protect(&mut self, start: u64, end: u64, vma: &Vma) -> Result<(), Errno> {
        self.look();
        self.mirror.protect(start, end, vma)
    }

    fn relocate(&mut self, from: u64, to: u64, len: u64) -> Result<(), Errno> {
        self.look();
        self.mirror.relocate(from, to, len)
    }

    fn advise(&mut self, start: u64, end: u64, vma: &Vma, advice: PageAdvice) -> Result<(), Errno> {
        self.look();
        self.mirror.advise(start, end, vma, advice)
    }

    fn populate(
        &mut self,
        start: u64,
        end: u64,
        area: &Area<'_>,
        write: bool,
    ) -> Result<(), Errno> {
        self.look();
        self.mirror.populate(start, end, area, write)
    }

    fn sync(&mut self, start: u64, end: u64, vma: &Vma, flags: SyncFlags) -> Result<(), Errno> {
        self.look();
        self.mirror.sync(start, end, vma, flags)
    }

    fn object(&mut self, pages: u64) -> Result<Object, Errno> {
        self.look();
        self.mirror.object(pages)
    }

    fn undoing(&mut self) {
        self.mirror.undoing();
    }
}

fn memory(page: u64, pages: u64) -> MmapOptions {
    MmapOptions::anonymous(pages * PAGE)
        .prot(Prot::READ | Prot::WRITE)
        .fixed(BASE + page * PAGE)
}

fn state(space: &AddressSpace) -> String {
    format!("{space:?} {:?}", space.page_counts())
}

type Run = fn(&mut AddressSpace, &mut Panicky) -> Result<(), Errno>;

const CALLS: [(&str, Run); 7] = [
    ("mmap", |s, p| s.with(p).mmap(&memory(20, 2)).map(drop)),
    ("mmap over", |s, p| s.with(p).mmap(&memory(2, 8)).map(drop)),
    ("munmap", |s, p| s.with(p).munmap(BASE + PAGE, 9 * PAGE)),
    ("mprotect", |s, p| {
        s.with(p).mprotect(BASE + PAGE, 9 * PAGE, Prot::READ)
    }),
    ("mremap", |s, p| {
        let options = MremapOptions::new(BASE, 2 * PAGE, 2 * PAGE).to(BASE + 5 * PAGE);
        s.with(p).mremap(&options).map(drop)
    }),
    ("madvise", |s, p| {
        s.with(p).madvise(BASE, 6 * PAGE, Advice::DONTNEED)
    }),
    ("brk", |s, p| {
        let brk = s.layout().brk + 3 * PAGE;
        s.with(p).brk(brk);
        Ok(())
    }),
];

/// Compares the address space with that before the call, and the owner's pages with its areas, for
/// a panic at each notification. Returns the number of panics.
fn panic_at_each(again: bool) -> u32 {
    let mut panics = 0;
    for (name, call) in CALLS {
        for shared in [false, true] {
            for left in 0.. {
                let mut space = space();
                let mut owner = Panicky {
                    mirror: Mirror::default(),
                    left: u32::MAX,
                    again,
                    panics: 0,
                };
                for options in [memory(0, 4), memory(4, 4).prot(Prot::READ), memory(8, 4)] {
                    space.with(&mut owner).mmap(&options).unwrap();
                }
                let map = shared.then(|| space.share());
                let (before, pages) = (state(&space), owner.mirror.pages.clone());
                owner.left = left;
                let run = AssertUnwindSafe(|| call(&mut space, &mut owner));
                let Err(panic) = catch_unwind(run) else {
                    break;
                };
                assert_eq!(panic.downcast_ref(), Some(&"told"), "{name}");
                panics += 1;
                space.check().unwrap();
                assert!(state(&space) == before, "{name} at {left}");
                if !again {
                    assert!(owner.mirror.pages == pages, "{name} at {left}");
                }
                // No thread is locked out.
                if let Some(map) = &map {
                    assert!(map.hold(BASE).is_some(), "{name} at {left}");
                }
                owner.left = u32::MAX;
                owner.mirror.pages = pages;
                call(&mut space, &mut owner).unwrap();
                assert_eq!(owner.mirror.differs(&space), None);
            }
        }
    }
    panics
}

#[test]
fn a_panic_of_the_owner_undoes_the_call() {
    assert!(panic_at_each(false) > 30);
}

/// With `hosted`, a second panic while a call is undone is dropped.
#[test]
#[cfg(feature = "hosted")]
fn an_owner_may_panic_again_while_a_call_is_undone() {
    assert!(panic_at_each(true) > 30);
}
