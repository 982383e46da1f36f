//! Calls as a kernel makes them on an address space, and the model of what programs see afterwards.

use std::ops::Range;

use samara_paging::{
    Attrs, Change, Entry, Error, ForkFilter, Format, FrameAllocator, Kind, Mapping, PAGE_SIZE,
    PageSize, PhysMem, Source, UnmapFilter, WritePolicy,
};

use super::processors::Processors;
use super::{Cell, Protection, RW, World};

impl<F: Format, A: FrameAllocator + PhysMem> World<F, A> {
    pub fn map(&mut self, s: usize, page: u64) -> Result<(), Error> {
        self.learn();
        let value = self.value + 1;
        let phys = self.memory.alloc_page(Kind::Anon)?;
        self.store(phys, value);
        let at = self.page(page);
        let tlb = Processors(self);
        let source = Source::Owned(phys);
        let space = &self.spaces[s];
        let result = self.call(|| space.map(at, PageSize::Small, source, RW, &tlb));
        if result.is_err() {
            self.memory.put(phys);
            let taken = self.cells[s].contains_key(&page);
            assert!(taken || result == Err(Error::NoMemory));
            return result;
        }
        self.fresh();
        let before = self.cells[s].insert(page, Cell::Private(value, Protection::Write));
        assert_eq!(before, None, "mapped over something");
        Ok(())
    }

    /// Maps the shared page of this number, which is created at its first use.
    pub fn map_shared(
        &mut self,
        s: usize,
        page: u64,
        file: usize,
        write: bool,
    ) -> Result<(), Error> {
        self.learn();
        while self.files.len() <= file {
            let phys = self.memory.alloc_page(Kind::File)?;
            let value = self.fresh();
            self.store(phys, value);
            self.files.push((phys, value));
        }
        let (attrs, how) = if write {
            (RW, Protection::Write)
        } else {
            (RW - Attrs::WRITE, Protection::Read)
        };
        let at = self.page(page);
        let source = Source::Counted(self.files[file].0);
        let tlb = Processors(self);
        self.call(|| self.spaces[s].map(at, PageSize::Small, source, attrs, &tlb))?;
        self.cells[s].insert(page, Cell::Shared(file as u64, how));
        Ok(())
    }

    pub fn map_zero(&mut self, s: usize, page: u64) -> Result<(), Error> {
        self.learn();
        let at = self.page(page);
        let source = Source::Special(self.memory.zero_page());
        let tlb = Processors(self);
        let attrs = RW - Attrs::WRITE - Attrs::DIRTY;
        self.call(|| self.spaces[s].map(at, PageSize::Small, source, attrs, &tlb))?;
        self.cells[s].insert(page, Cell::Zero(Protection::Write));
        Ok(())
    }

    pub fn mark(&mut self, s: usize, page: u64, marker: u32) -> Result<(), Error> {
        self.learn();
        let tlb = Processors(self);
        self.call(|| self.spaces[s].set_marker(self.page(page), Some(marker), &tlb))?;
        self.cells[s].insert(page, Cell::Marker(marker));
        Ok(())
    }

    /// Maps 512 pages, starting at a multiple of 2 MiB, with one huge page.
    pub fn map_huge(&mut self, s: usize, page: u64) -> Result<(), Error> {
        self.learn();
        let at = self.page(page);
        let phys = self.memory.alloc_block(9, Kind::Anon)?;
        let first = self.value + 1;
        for i in 0..512 {
            self.store(phys + i * PAGE_SIZE, first + i);
        }
        let tlb = Processors(self);
        let source = Source::Owned(phys);
        let space = &self.spaces[s];
        let result = self.call(|| space.map(at, PageSize::Large, source, RW, &tlb));
        if result.is_err() {
            self.memory.put_block(phys, 9);
            return result;
        }
        self.value += 512;
        for i in 0..512 {
            self.cells[s].insert(page + i, Cell::Private(first + i, Protection::Write));
        }
        Ok(())
    }

    pub fn unmap(&mut self, s: usize, pages: Range<u64>) -> Result<(), Error> {
        self.take(s, pages, UnmapFilter::All)
    }

    /// Removes a part of a range, and checks that exactly this part is reported.
    pub fn take(&mut self, s: usize, pages: Range<u64>, take: UnmapFilter) -> Result<(), Error> {
        self.learn();
        let tlb = Processors(self);
        let mut told = Vec::new();
        self.call(|| {
            self.spaces[s].unmap_with(self.range(&pages), take, &tlb, |addr, entry| {
                let page = addr.wrapping_sub(self.base) / PAGE_SIZE;
                match entry {
                    Entry::Page { phys, attrs, size } => {
                        assert!(
                            self.memory
                                .frames()
                                .info(phys)
                                .is_some_and(|info| { info.mappings + info.references > 0 })
                                || attrs.contains(Attrs::SPECIAL)
                        );
                        told.extend((0..size.frames()).map(|i| page + i));
                    }
                    Entry::Marker(_) => told.push(page),
                    Entry::Empty => panic!("told of nothing"),
                }
            })
        })?;
        let goes = |cell: &Cell| match take {
            UnmapFilter::All => true,
            UnmapFilter::Pages => !matches!(cell, Cell::Marker(_)),
            UnmapFilter::FilePages => matches!(cell, Cell::Shared(..)),
            UnmapFilter::Marker(marker) => matches!(cell, Cell::Marker(there) if *there == marker),
            UnmapFilter::Reclaimable => {
                unreachable!("cells do not say who is clean: `faults` has that")
            }
        };
        let gone = self.cells[s]
            .range(pages.clone())
            .filter(|(_, cell)| goes(cell));
        assert_eq!(told, gone.map(|(&page, _)| page).collect::<Vec<_>>());
        self.cells[s].retain(|page, cell| !pages.contains(page) || !goes(cell));
        Ok(())
    }

    pub fn protect(&mut self, s: usize, pages: Range<u64>, how: Protection) -> Result<(), Error> {
        self.learn();
        let access = match how {
            Protection::None => Attrs::empty(),
            Protection::Read => Attrs::READ,
            Protection::Write => Attrs::READ | Attrs::WRITE,
        };
        let change = Change::access(access, WritePolicy::Exclusive);
        let tlb = Processors(self);
        self.call(|| self.spaces[s].protect(self.range(&pages), change, &tlb))?;
        for (_, cell) in self.cells[s].range_mut(pages) {
            match cell {
                Cell::Private(_, had) | Cell::Shared(_, had) | Cell::Zero(had) => *had = how,
                Cell::Marker(_) => {}
            }
        }
        Ok(())
    }

    pub fn move_range(&mut self, s: usize, from: u64, to: u64, len: u64) -> Result<(), Error> {
        self.learn();
        let tlb = Processors(self);
        let (at, there) = (self.page(from), self.page(to));
        let space = &self.spaces[s];
        let result = self.call(|| space.move_range(at, there, len * PAGE_SIZE, &tlb));
        let overlap = from < to + len && to < from + len;
        let occupied = self.cells[s].range(to..to + len).next().is_some();
        if overlap || occupied {
            assert_eq!(result, Err(Error::Exists));
        }
        result?;
        for i in 0..len {
            if let Some(cell) = self.cells[s].remove(&(from + i)) {
                self.cells[s].insert(to + i, cell);
            }
        }
        Ok(())
    }

    /// Makes the other address space a child of `s`, with the pages up to `end`.
    pub fn fork(&mut self, s: usize, child: usize, share: bool, end: u64) -> Result<(), Error> {
        self.learn();
        let range = self.base & !0x1f_ffff..self.page(end);
        let tlb = Processors(self);
        let (parent, into) = (&self.spaces[s], &self.spaces[child]);
        if !share && !self.cells[child].is_empty() {
            // Several calls, the first of which would have to be undone.
            return Err(Error::Exists);
        }
        let result = if share {
            self.call(|| parent.share_range(into, range, &tlb))
        } else {
            // Alternating runs of shared and of private pages, as VMAs would have them.
            let mut at = 0;
            let mut result = Ok(());
            while at < end && result.is_ok() {
                let kind = |page: u64| match self.cells[s].get(&page) {
                    Some(Cell::Shared(..)) => Some(Mapping::Shared),
                    Some(_) => Some(Mapping::Private),
                    None => None,
                };
                let mapping = kind(at);
                let mut stop = at + 1;
                while stop < end && kind(stop) == mapping {
                    stop += 1;
                }
                if let Some(mapping) = mapping {
                    let range = self.page(at)..self.page(stop);
                    result = self
                        .call(|| parent.copy_range(into, range, mapping, ForkFilter::All, &tlb));
                }
                at = stop;
            }
            if result == Err(Error::NoMemory) {
                into.unmap(range, &()).unwrap();
            }
            result
        };
        let occupied = self.cells[child]
            .range(..end)
            .any(|(page, _)| self.cells[s].contains_key(page));
        if occupied {
            assert_eq!(result, Err(Error::Exists));
        }
        result?;
        let cells: Vec<_> = self.cells[s].range(..end).map(|(&p, &c)| (p, c)).collect();
        self.cells[child].extend(cells);
        Ok(())
    }
}
