//! Single things that an owner is told, step by step.

use samara_mm::{
    AddressSpace, Advice, Area, Call, Errno, LockFlags, MapFlags, MmapOptions, MremapOptions,
    PageAdvice, PrepareOp, Prot, SyncFlags, Vma, Watch,
};

use crate::world::space;

const PAGE: u64 = 4096;
const BASE: u64 = 0x1_0000_0000;

/// Writes down what it is told, in pages from the base.
#[derive(Default)]
struct Diary {
    lines: Vec<String>,
    /// Prepared, too.
    shows_preparation: bool,
}

fn page(address: u64) -> u64 {
    address.wrapping_sub(BASE) / PAGE
}

impl Diary {
    fn write(&mut self, line: String) {
        self.lines.push(line);
    }

    fn read(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }
}

fn prot(vma: &Vma) -> String {
    vma.flags
        .smaps_names()
        .filter(|name| matches!(*name, "rd" | "wr" | "ex"))
        .map(|name| name.chars().next().unwrap())
        .collect()
}

impl Watch for Diary {
    fn prepare(&mut self, op: PrepareOp) {
        if !self.shows_preparation {
            return;
        }
        self.write(match op {
            PrepareOp::Map { start, end } => format!("prepare: map {}-{}", page(start), page(end)),
            PrepareOp::Unmap { start, end } => {
                format!("prepare: unmap {}-{}", page(start), page(end))
            }
            PrepareOp::Protect { start, end } => {
                format!("prepare: protect {}-{}", page(start), page(end))
            }
            PrepareOp::Move { from, to, len } => {
                format!("prepare: {} to {}, {}", page(from), page(to), len / PAGE)
            }
            PrepareOp::Split { at } => format!("prepare: split {}", page(at)),
            _ => unreachable!(),
        });
    }

    fn map(&mut self, start: u64, end: u64, vma: &Vma) {
        self.write(format!("map {}-{} {}", page(start), page(end), prot(vma)));
    }

    fn unmap(&mut self, start: u64, end: u64) {
        self.write(format!("unmap {}-{}", page(start), page(end)));
    }

    fn protect(&mut self, start: u64, end: u64, vma: &Vma) {
        self.write(format!(
            "protect {}-{} {}",
            page(start),
            page(end),
            prot(vma)
        ));
    }

    fn relocate(&mut self, from: u64, to: u64, len: u64) {
        self.write(format!("{} to {}, {}", page(from), page(to), len / PAGE));
    }

    fn advise(&mut self, start: u64, end: u64, _: &Vma, advice: PageAdvice) {
        self.write(format!("{advice:?} {}-{}", page(start), page(end)));
    }

    fn populate(&mut self, start: u64, end: u64, _: &Area<'_>, write: bool) -> Result<(), Errno> {
        self.write(format!("populate {}-{} {write}", page(start), page(end)));
        Ok(())
    }

    fn sync(&mut self, start: u64, end: u64, _: &Vma, flags: SyncFlags) {
        self.write(format!("sync {}-{} {flags:?}", page(start), page(end)));
    }
}

fn at(number: u64) -> u64 {
    BASE + number * PAGE
}

fn memory(first: u64, pages: u64) -> MmapOptions {
    MmapOptions::anonymous(pages * PAGE)
        .prot(Prot::READ | Prot::WRITE)
        .fixed(at(first))
}

/// An address space, performing for a diary.
struct Scene {
    space: AddressSpace,
    diary: Diary,
}

impl Scene {
    fn new() -> Self {
        Scene {
            space: space(),
            diary: Diary::default(),
        }
    }

    fn map(&mut self, options: &MmapOptions) {
        self.space.with(&mut self.diary).mmap(options).unwrap();
    }

    fn tells(&mut self, lines: &[&str]) {
        assert_eq!(self.diary.read(), lines);
    }
}

#[test]
fn munmap_tells_each_stretch_without_a_hole() {
    let mut s = Scene::new();
    s.map(&memory(0, 2));
    s.map(&memory(2, 1).shared());
    s.map(&memory(5, 1));
    s.map(&memory(6, 1).prot(Prot::READ));
    s.map(&memory(9, 4));
    s.diary.read();
    s.diary.shows_preparation = true;
    s.space.with(&mut s.diary).munmap(at(1), 10 * PAGE).unwrap();
    s.tells(&[
        "prepare: unmap 1-11",
        "unmap 1-3",
        "unmap 5-7",
        "unmap 9-11",
    ]);
    s.space.with(&mut s.diary).munmap(at(2), 5 * PAGE).unwrap();
    s.tells(&[]);
}

#[test]
fn mapping_over_others_unmaps_them_first() {
    let mut s = Scene::new();
    s.map(&memory(0, 2));
    s.map(&memory(4, 2));
    s.tells(&["map 0-2 rw", "map 4-6 rw"]);
    s.map(&memory(1, 6).prot(Prot::READ).flags(MapFlags::POPULATE));
    s.tells(&["unmap 1-2", "unmap 4-6", "map 1-7 r", "populate 1-7 false"]);
}

#[test]
fn mprotect_tells_area_by_area() {
    let mut s = Scene::new();
    s.map(&memory(0, 4));
    s.map(&memory(4, 2).prot(Prot::READ));
    s.map(&memory(6, 2));
    s.diary.read();
    s.space
        .with(&mut s.diary)
        .mprotect(at(2), 6 * PAGE, Prot::READ)
        .unwrap();
    s.tells(&["protect 2-4 r", "protect 6-8 r"]);
}

#[test]
fn mremap_tells_of_each_of_its_forms() {
    let mut s = Scene::new();
    s.map(&memory(0, 8));
    s.diary.read();
    let remap = |s: &mut Scene, options: MremapOptions| {
        s.space.with(&mut s.diary).mremap(&options).unwrap();
        s.diary.read()
    };
    // Shorter and longer, in place.
    let shorter = MremapOptions::new(at(0), 8 * PAGE, 4 * PAGE);
    assert_eq!(remap(&mut s, shorter), ["unmap 4-8"]);
    let longer = MremapOptions::new(at(0), 4 * PAGE, 6 * PAGE);
    assert_eq!(remap(&mut s, longer), ["map 4-6 rw"]);
    // Over another, shorter and longer than it was.
    s.map(&memory(20, 4));
    s.diary.read();
    s.diary.shows_preparation = true;
    let over = MremapOptions::new(at(0), 6 * PAGE, 2 * PAGE).to(at(22));
    assert_eq!(
        remap(&mut s, over),
        [
            "prepare: unmap 22-24",
            "prepare: unmap 2-6",
            "prepare: 0 to 22, 2",
            "unmap 22-24",
            "unmap 2-6",
            "0 to 22, 2"
        ]
    );
    s.diary.shows_preparation = false;
    let longer = MremapOptions::new(at(22), 2 * PAGE, 3 * PAGE).to(at(30));
    assert_eq!(remap(&mut s, longer), ["22 to 30, 2", "map 32-33 rw"]);
    // The source stays.
    let copy = MremapOptions::new(at(30), 3 * PAGE, 3 * PAGE)
        .to(at(40))
        .keep_source();
    assert_eq!(remap(&mut s, copy), ["30 to 40, 3", "map 30-33 rw"]);
    // A second mapping of a shared object.
    s.map(&memory(50, 2).shared());
    s.diary.read();
    let twice = MremapOptions::new(at(50), 0, 2 * PAGE).to(at(60));
    assert_eq!(remap(&mut s, twice), ["map 60-62 rw"]);
    // Several areas, with their gap.
    s.map(&memory(70, 1));
    s.map(&memory(72, 1).prot(Prot::READ));
    s.map(&memory(80, 3));
    s.diary.read();
    let several = MremapOptions::new(at(70), 3 * PAGE, 3 * PAGE).to(at(80));
    assert_eq!(
        remap(&mut s, several),
        ["unmap 80-81", "70 to 80, 1", "unmap 82-83", "72 to 82, 1"]
    );
}

#[test]
fn advice_about_pages_is_told_and_other_advice_is_not() {
    let mut s = Scene::new();
    s.map(&memory(0, 4));
    s.map(&memory(4, 2).shared());
    s.diary.read();
    let advise = |s: &mut Scene, first, pages: u64, advice| {
        s.space
            .with(&mut s.diary)
            .madvise(at(first), pages * PAGE, advice)
            .map(|()| s.diary.read())
    };
    let told = |lines: &[&str]| Ok(lines.iter().map(ToString::to_string).collect());
    assert_eq!(
        advise(&mut s, 2, 4, Advice::DONTNEED),
        told(&["DontNeed 2-4", "DontNeed 4-6"])
    );
    assert_eq!(advise(&mut s, 1, 1, Advice::FREE), told(&["Free 1-2"]));
    assert_eq!(advise(&mut s, 4, 1, Advice::REMOVE), told(&["Remove 4-5"]));
    assert_eq!(advise(&mut s, 0, 4, Advice::SEQUENTIAL), told(&[]));
    assert_eq!(advise(&mut s, 0, 4, Advice::WIPEONFORK), told(&[]));
    assert_eq!(
        advise(&mut s, 2, 1, Advice::GUARD_INSTALL),
        told(&["GuardInstall 2-3"])
    );
    // As far as the marker.
    assert_eq!(
        advise(&mut s, 0, 4, Advice::POPULATE_WRITE),
        Err(Errno::EFAULT)
    );
    s.tells(&["populate 0-2 true"]);
    assert_eq!(
        s.space
            .with(&mut s.diary)
            .mlock(at(0), 4 * PAGE, LockFlags::empty()),
        Err(Errno::ENOMEM)
    );
    s.tells(&["populate 0-2 true"]);
    // A shared object that grew has no more pages than before.
    let longer = MremapOptions::new(at(4), 2 * PAGE, 4 * PAGE);
    s.space.with(&mut s.diary).mremap(&longer).unwrap();
    s.diary.read();
    assert_eq!(
        advise(&mut s, 4, 4, Advice::POPULATE_READ),
        Err(Errno::EFAULT)
    );
    s.tells(&["populate 4-6 false"]);
    s.space
        .with(&mut s.diary)
        .msync(at(0), 8 * PAGE, SyncFlags::SYNC)
        .unwrap();
    s.tells(&["sync 4-8 SyncFlags(SYNC)"]);
}

#[test]
fn growth_is_told_as_mapped() {
    let mut s = Scene::new();
    s.map(&memory(1000, 2).flags(MapFlags::GROWSDOWN));
    s.diary.read();
    s.space.with(&mut s.diary).fault(at(997) + 8, true).unwrap();
    s.tells(&["map 997-1000 rw"]);
    let start = s.space.layout().start_brk;
    let call = |addr| Call::Brk { addr };
    let up = s.space.with(&mut s.diary).perform(&call(start + 5000));
    assert_eq!(up, Ok(start + 5000));
    let (low, high) = (page(start), page(start) + 2);
    assert_eq!(s.diary.read(), [format!("map {low}-{high} rw")]);
    s.space
        .with(&mut s.diary)
        .perform(&call(start + 1))
        .unwrap();
    assert_eq!(s.diary.read(), [format!("unmap {}-{high}", low + 1)]);
}
