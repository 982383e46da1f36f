//! Several address spaces, and a model of what each program sees: plain maps from pages to values.
//!
//! The world reads and writes real bytes through the tables, and takes the faults that a kernel
//! would take (copy-on-write). The model knows nothing of shared tables or of counts. After each
//! step everything is compared, and `check` recomputes every count. Processors are modelled as
//! well: they cache every translation, and drop only those that are invalidated.
#![allow(dead_code, unreachable_pub)] // Each test uses a part.

mod calls;
mod processors;

use processors::Processors;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use samara_paging::{
    Arena, Attrs, Change, Dump, Entry, Error, Format, FrameAllocator, Grace, Kind, PAGE_SIZE,
    PageSize, PageTables, PhysMem, Physical, Source, WritePolicy, check,
};

pub type Memory<A> = Arc<Physical<A, Grace>>;

pub const RW: Attrs = Attrs::READ
    .union(Attrs::WRITE)
    .union(Attrs::USER)
    .union(Attrs::ACCESSED)
    .union(Attrs::DIRTY);

/// A page as the program sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Private memory with this value, and the protection of its VMA.
    Private(u64, Protection),
    /// The shared page of this number.
    Shared(u64, Protection),
    /// The zero page, mapped privately.
    Zero(Protection),
    Marker(u32),
}

pub struct World<F: Format, A: FrameAllocator + PhysMem> {
    pub memory: Memory<A>,
    /// The kernel above the address spaces, if there is one.
    pub kernel: Option<PageTables<F, Memory<A>>>,
    pub spaces: Vec<PageTables<F, Memory<A>>>,
    pub cells: Vec<BTreeMap<u64, Cell>>,
    /// The frames of shared pages (with the world's reference) and their values.
    pub files: Vec<(u64, u64)>,
    value: u64,
    /// Set while allocations are refused: each failing call must then leave the tables unchanged.
    careful: bool,
    /// The TLB of each address space: address, frame, and write access.
    tlb: Vec<RefCell<BTreeMap<u64, (u64, bool)>>>,
    /// The small pages reported when they became accessible.
    notified: Vec<RefCell<BTreeSet<u64>>>,
    pub base: u64,
}

pub fn heap<F: Format>(frames: usize, spaces: usize) -> World<F, Arena<impl samara_paging::Bytes>> {
    let arena = Arena::on_heap(frames).unwrap();
    World::new(arena, frames as u64, spaces)
}

/// Creates the same with address spaces under a kernel.
pub fn under_kernel<F: Format>(
    frames: usize,
    spaces: usize,
) -> World<F, Arena<impl samara_paging::Bytes>> {
    let mut world = heap(frames, 0);
    let half = F::kernel_start();
    // The first entry of the root, and the last.
    let ranges = [half..half + 1, u64::MAX - 1..u64::MAX];
    let kernel = PageTables::new_kernel(world.memory.clone(), u32::MAX, &ranges).unwrap();
    world.kernel = Some(kernel);
    world.add(spaces);
    world
}

impl<F: Format, S: samara_paging::Bytes> World<F, Arena<S>> {
    pub fn refuse_after(&self, count: Option<u64>) {
        self.memory.backing().refuse_after(count);
    }

    /// Drops everything, and checks that every frame except the zero page was freed.
    pub fn end(mut self) {
        self.spaces.clear();
        self.kernel = None;
        for &(phys, _) in &self.files {
            self.memory.put(phys);
        }
        self.memory.reclaim();
        assert_eq!(self.memory.table_frames(), 0);
        assert_eq!(self.memory.shared_tables(), 0);
        let arena = self.memory.backing();
        assert_eq!(arena.free_frames() + 1, arena.frames(), "frames were lost");
    }

    /// Performs a step with each of its allocations refused in turn, until it succeeds or fails for
    /// another reason. Nothing may have changed after each refusal.
    pub fn refused<T>(&mut self, step: impl Fn(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        self.careful = true;
        for allowed in 0.. {
            self.refuse_after(Some(allowed));
            let result = step(self);
            self.refuse_after(None);
            if !matches!(result, Err(Error::NoMemory)) {
                return result;
            }
            self.check();
        }
        unreachable!()
    }
}

impl<F: Format, A: FrameAllocator + PhysMem> World<F, A> {
    pub fn new(arena: A, frames: u64, spaces: usize) -> Self {
        let base = Arena::<samara_paging::HeapBytes>::BASE;
        Self::over(
            Physical::new(arena, Grace::new(), base, frames).unwrap(),
            spaces,
        )
    }

    pub fn over(memory: Physical<A, Grace>, spaces: usize) -> Self {
        let memory = Arc::new(memory);
        let mut this = Self {
            kernel: None,
            spaces: Vec::new(),
            cells: Vec::new(),
            files: Vec::new(),
            value: 0,
            careful: false,
            tlb: Vec::new(),
            notified: Vec::new(),
            memory,
            base: 0x4000_0000 - PAGE_SIZE,
        };
        this.add(spaces);
        this
    }

    /// Adds `count` empty address spaces.
    fn add(&mut self, count: usize) {
        for _ in 0..count {
            let asid = self.spaces.len() as u32;
            self.spaces.push(self.empty(asid));
            self.cells.push(BTreeMap::new());
            self.tlb.push(RefCell::default());
            self.notified.push(RefCell::default());
        }
    }

    fn empty(&self, asid: u32) -> PageTables<F, Memory<A>> {
        match &self.kernel {
            Some(kernel) => PageTables::new_process(kernel, asid),
            None => PageTables::new(self.memory.clone(), asid),
        }
        .unwrap()
    }

    fn bytes(&self, phys: u64) -> *mut u64 {
        self.memory.to_virt(phys).as_ptr().cast()
    }

    fn load(&self, phys: u64) -> u64 {
        // SAFETY: a frame of the arena, which one thread uses.
        unsafe { self.bytes(phys).read() }
    }

    fn store(&self, phys: u64, value: u64) {
        // SAFETY: as above.
        unsafe { self.bytes(phys).write(value) };
    }

    fn fresh(&mut self) -> u64 {
        self.value += 1;
        self.value
    }

    /// Performs one call, which must have changed nothing if it fails.
    fn call<T>(&self, call: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        if !self.careful {
            return call();
        }
        let before = self.dump();
        let result = call();
        if result.is_err() {
            assert_eq!(self.dump(), before, "{:?} changed something", result.err());
        }
        result
    }

    pub fn dump(&self) -> String {
        let mut text = String::new();
        for space in &self.spaces {
            writeln!(text, "{}--", Dump(space)).unwrap();
        }
        text
    }

    /// Returns the addresses at which anything can be mapped.
    fn seen(&self) -> Range<u64> {
        let start = self.base & !0x1f_ffff;
        start..start + (16 << 20)
    }

    pub fn page(&self, page: u64) -> u64 {
        self.base + page * PAGE_SIZE
    }

    pub fn range(&self, pages: &Range<u64>) -> Range<u64> {
        self.page(pages.start)..self.page(pages.end)
    }

    /// Writes as a program does, and takes the faults. Returns `false` if the program has no write
    /// access.
    pub fn write(&mut self, s: usize, page: u64) -> Result<bool, Error> {
        self.learn();
        let at = self.page(page);
        let tlb = Processors(self);
        let space = &self.spaces[s];
        let cell = self.cells[s].get(&page).copied();
        let allowed = match cell {
            Some(Cell::Private(_, how) | Cell::Shared(_, how) | Cell::Zero(how)) => {
                how == Protection::Write
            }
            _ => false,
        };
        if !allowed {
            return Ok(false);
        }
        let value = self.value + 1;
        let Entry::Page { phys, attrs, size } = space.entry(at) else {
            panic!("{cell:?} is not mapped at {at:#x}");
        };
        let mut phys = phys + (at & (size.bytes() - 1));
        if !attrs.contains(Attrs::WRITE) {
            if let Some(Cell::Shared(..)) = cell {
                let change = Change::access(Attrs::READ | Attrs::WRITE, WritePolicy::Always);
                self.call(|| space.protect(at..at + PAGE_SIZE, change, &tlb))?;
            } else {
                if size != PageSize::Small {
                    self.call(|| space.split(at, PageSize::Small, &tlb))?;
                }
                if !self.call(|| space.pte(at, &tlb).reuse_exclusive(phys))? {
                    let new = self.memory.alloc_page(Kind::Anon)?;
                    let copy = |_still| self.store(new, self.load(phys));
                    let done = self.call(|| space.pte(at, &tlb).copy_on_write(phys, new, RW, copy));
                    match done {
                        Ok(true) => phys = new,
                        other => {
                            self.memory.put(new);
                            other?;
                        }
                    }
                }
            }
        }
        let (now, attrs) = space.translate(at).unwrap();
        assert_eq!(now, phys);
        // The processor sets the dirty bit by itself.
        assert!(attrs.contains(Attrs::WRITE));
        self.store(phys, value);
        self.fresh();
        match self.cells[s].get_mut(&page) {
            Some(Cell::Shared(file, _)) => self.files[*file as usize].1 = value,
            Some(cell) => *cell = Cell::Private(value, Protection::Write),
            None => {}
        }
        Ok(true)
    }

    pub fn exit(&mut self, s: usize) {
        self.learn();
        let asid = self.spaces[s].asid();
        // The new tables first, so that this cannot fail halfway.
        let new = self.empty(asid);
        self.spaces[s] = new;
        self.cells[s].clear();
        self.tlb[s].borrow_mut().clear();
        self.notified[s].borrow_mut().clear();
    }

    /// Lets the kernel, if there is one, map an unmapped page or unmap a mapped one.
    pub fn kernel_step(&self, random: &mut Random) {
        let Some(kernel) = &self.kernel else {
            return;
        };
        let last = PAGE_SIZE.wrapping_neg() - (4 << 20);
        let start = [F::kernel_start(), last][random.below(2) as usize];
        let at = start + random.below(1024) * PAGE_SIZE;
        if kernel.entry(at) == Entry::Empty {
            let page = Source::Owned(self.memory.alloc_page(Kind::File).unwrap());
            let attrs = Attrs::READ | Attrs::WRITE | Attrs::GLOBAL;
            kernel.map(at, PageSize::Small, page, attrs, &()).unwrap();
        } else {
            kernel.unmap(at..at + PAGE_SIZE, &()).unwrap();
        }
    }

    /// Compares everything with the model.
    pub fn check(&self) {
        let spaces: Vec<_> = self.kernel.iter().chain(&self.spaces).collect();
        if let Err(why) = check(&spaces) {
            panic!("{why}\n{}", self.dump());
        }
        self.compare_tlb();
        self.compare_notified();
        for (space, cells) in self.spaces.iter().zip(&self.cells) {
            let mut found = BTreeMap::new();
            space.walk(self.seen(), |addr, entry| match entry {
                Entry::Page { phys, attrs, size } => {
                    for i in 0..size.frames() {
                        let at = i * PAGE_SIZE;
                        found.insert(
                            (addr + at).wrapping_sub(self.base) / PAGE_SIZE,
                            Ok((phys + at, attrs)),
                        );
                    }
                }
                Entry::Marker(marker) => {
                    found.insert((addr - self.base) / PAGE_SIZE, Err(marker));
                }
                Entry::Empty => {}
            });
            assert_eq!(
                found.keys().collect::<Vec<_>>(),
                cells.keys().collect::<Vec<_>>(),
                "{}",
                self.dump()
            );
            for ((page, found), cell) in found.iter().zip(cells.values()) {
                self.compare(space, *page, *found, *cell);
            }
        }
    }

    fn compare(
        &self,
        space: &PageTables<F, Memory<A>>,
        page: u64,
        found: Result<(u64, Attrs), u32>,
        cell: Cell,
    ) {
        let at = self.page(page);
        let (phys, attrs) = match (found, cell) {
            (Err(found), Cell::Marker(marker)) => {
                assert_eq!(found, marker);
                assert_eq!(space.entry(at), Entry::Marker(marker));
                return;
            }
            (Ok(found), _) => found,
            other => panic!("{other:?} at {at:#x}"),
        };
        let info = space.page(at).unwrap();
        let (value, how) = match cell {
            Cell::Private(value, how) => (value, how),
            Cell::Shared(file, how) => {
                assert_eq!(phys, self.files[file as usize].0);
                (self.files[file as usize].1, how)
            }
            Cell::Zero(how) => {
                assert_eq!(phys, self.memory.zero_page());
                assert!(info.frame.is_none() && !attrs.contains(Attrs::WRITE));
                (0, how)
            }
            Cell::Marker(_) => panic!("a page for a marker at {at:#x}"),
        };
        assert_eq!(self.load(phys), value, "{at:#x} on {phys:#x}");
        let translated = space.translate(at);
        if how == Protection::None {
            assert_eq!(translated, None);
        } else {
            assert_eq!(translated, Some((phys, attrs)));
        }
        if attrs.contains(Attrs::WRITE) {
            assert!(how == Protection::Write, "{at:#x} became writable");
        }
        if let Cell::Private(..) = cell {
            // One address space maps it, even if tables are shared.
            let mappers = self
                .spaces
                .iter()
                .filter(|other| other.translate(at).is_some_and(|(there, _)| there == phys))
                .count();
            if mappers > 1 {
                assert!(!info.exclusive());
                assert!(!attrs.contains(Attrs::WRITE));
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    None,
    Read,
    Write,
}

/// A small random number generator (xorshift).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}
