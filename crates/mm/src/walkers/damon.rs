//! Access sampling (Documentation/mm/damon/design.rst): one page stands for its region, and regions
//! are split and merged so that each is accessed uniformly.

use alloc::vec::Vec;
use core::ops::Range;

use samara_paging::{Attrs, Change, PAGE_SIZE};

use crate::errno::Errno;
use crate::process::{Platform, Process};

/// A range of addresses that counts as accessed uniformly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamonRegion {
    /// The first address.
    pub start: u64,
    /// The first address beyond.
    pub end: u64,
    /// The number of samples since the last aggregation that found its page accessed.
    pub accesses: u32,
    /// The number of aggregations with a similar number of accesses.
    pub age: u32,
    /// The sampled page.
    sample: u64,
    /// The number of accesses at the last aggregation.
    last: u32,
}

impl DamonRegion {
    fn new(start: u64, end: u64) -> Self {
        DamonRegion {
            start,
            end,
            accesses: 0,
            age: 0,
            sample: NEVER,
            last: 0,
        }
    }

    fn len(&self) -> u64 {
        self.end - self.start
    }
}

/// The regions of one process. Memory is reserved for the most regions, whatever the size of the
/// process.
#[derive(Debug)]
pub struct Damon {
    regions: Vec<DamonRegion>,
    most: usize,
    /// The state of the random generator (splitmix64).
    seed: u64,
}

impl Damon {
    /// Creates regions from `targets`, which ascend and do not overlap, for example
    /// [`three_regions`](crate::AddressSpace::three_regions).
    ///
    /// Each target is split evenly, so that there are at least `least` regions in all. There are
    /// never more than `most`, or one for each target if there are more targets.
    ///
    /// # Errors
    /// `EINVAL`: targets that are empty, not of whole pages, or out of order; `ENOMEM`.
    ///
    /// ```
    /// # use samara_mm::process::{Machine, Platform, Process};
    /// # use samara_mm::{Config, Errno, Layout, Limits, MmapOptions, Prot};
    /// use samara_mm::walkers::Damon;
    ///
    /// # fn watch<P: Platform>(machine: &Machine<P>) -> Result<(), Errno> {
    /// let process = Process::new(machine, Config::default(), Limits::default(), Layout::default())?;
    /// let start = process.mmap(&MmapOptions::anonymous(64 << 12).prot(Prot::READ | Prot::WRITE))?;
    /// process.copy_in(start, &[0; 64 << 12]);
    /// let mut damon = Damon::new(&[start..start + (64 << 12)], 4, 16, 1)?;
    /// for _ in 0..10 {
    ///     for _ in 0..5 {
    ///         damon.sample(&process)?;
    ///         process.copy_in(start, &[1; 16 << 12]); // a quarter is used
    ///     }
    ///     damon.aggregate(1, |regions| assert!(regions.len() <= 16));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(
        targets: &[Range<u64>],
        least: usize,
        most: usize,
        seed: u64,
    ) -> Result<Self, Errno> {
        let mut damon = Damon {
            regions: Vec::new(),
            most: most.max(targets.len()),
            seed,
        };
        check(targets)?;
        (damon.regions)
            .try_reserve_exact(damon.most)
            .map_err(|_| Errno::ENOMEM)?;
        let all: u64 = targets.iter().map(|target| target.end - target.start).sum();
        for (at, target) in targets.iter().enumerate() {
            let pages = (target.end - target.start) / PAGE_SIZE;
            let part = (all / PAGE_SIZE).div_ceil(least.max(1) as u64).max(1);
            // Each later target needs one.
            let room = damon.most - damon.regions.len() - (targets.len() - at - 1);
            let pieces = pages.div_ceil(part).min(room as u64).max(1);
            let mut start = target.start;
            for piece in 1..=pieces {
                let end = target.start
                    + (u128::from(pages) * u128::from(piece) / u128::from(pieces)) as u64
                        * PAGE_SIZE;
                damon.regions.push(DamonRegion::new(start, end));
                start = end;
            }
        }
        Ok(damon)
    }

    /// Returns the regions, in ascending order.
    pub fn regions(&self) -> &[DamonRegion] {
        &self.regions
    }

    /// Takes one sample: counts the regions whose page was accessed since the last sample, and
    /// marks another random page of each as not accessed.
    ///
    /// Calls of the process wait until it returns, and faults do not. O(log n) for each region.
    ///
    /// # Errors
    /// `ENOMEM`: a table that is shared after a fork could not be split.
    pub fn sample<P: Platform>(&mut self, process: &Process<P>) -> Result<(), Errno> {
        let _space = process.mm.space.read();
        let (tables, tlb) = (&process.mm.tables, process.mm.machine.tlb());
        for at in 0..self.regions.len() {
            let random = self.random();
            let region = &mut self.regions[at];
            if region.sample != NEVER {
                let page = tables.page(region.sample);
                let used = page.is_some_and(|page| page.attrs.contains(Attrs::ACCESSED));
                region.accesses += u32::from(used);
            }
            region.sample = region.start + random % (region.len() / PAGE_SIZE) * PAGE_SIZE;
            let range = region.sample..region.sample + PAGE_SIZE;
            // A huge page is marked as a whole, and is not split for this.
            if let Some(page) = tables.page(region.sample) {
                let start = region.sample & !(page.size.bytes() - 1);
                let range = if page.size == samara_paging::PageSize::Small {
                    range
                } else {
                    start..start + page.size.bytes()
                };
                let change = Change::without(Attrs::ACCESSED);
                tables
                    .protect(range, change, tlb)
                    .map_err(|_| Errno::ENOMEM)?;
            }
        }
        Ok(())
    }

    /// Ends an aggregation. Neighbours whose accesses differ by at most `threshold` are merged.
    /// `report` gets the regions. Then each region is split in two at random, if there are at most
    /// half of the most. O(regions).
    pub fn aggregate(&mut self, threshold: u32, report: impl FnOnce(&[DamonRegion])) {
        for region in &mut self.regions {
            if region.accesses.abs_diff(region.last) > threshold {
                region.age = 0;
            } else {
                region.age += 1;
            }
        }
        self.merge_similar(threshold);
        report(&self.regions);
        for region in &mut self.regions {
            region.last = region.accesses;
            region.accesses = 0;
        }
        self.split_regions();
    }

    /// Changes the targets after a change of the map. Regions are cut to the new targets, regions
    /// outside are dropped, and uncovered parts become regions.
    ///
    /// # Errors
    /// `EINVAL` as for [`new`](Self::new), and for more targets than the most regions; `ENOMEM`.
    /// Nothing has changed then.
    pub fn update(&mut self, targets: &[Range<u64>]) -> Result<(), Errno> {
        check(targets)?;
        let mut regions: Vec<DamonRegion> = Vec::new();
        let most = self.most.max(2 * self.regions.len() + targets.len());
        regions.try_reserve_exact(most).map_err(|_| Errno::ENOMEM)?;
        if targets.len() > self.most {
            return Err(Errno::EINVAL);
        }
        for target in targets {
            let mut start = target.start;
            let over =
                |region: &&DamonRegion| region.end > target.start && region.start < target.end;
            let mut inside = self.regions.iter().filter(over).peekable();
            if inside.peek().is_none() {
                regions.push(DamonRegion::new(start, target.end));
                continue;
            }
            // A hole between regions goes to the region above. The part beyond the last region goes
            // to that.
            while let Some(region) = inside.next() {
                let end = match inside.peek() {
                    Some(_) => region.end.min(target.end),
                    None => target.end,
                };
                regions.push(DamonRegion {
                    start,
                    end,
                    sample: NEVER,
                    ..*region
                });
                start = end;
            }
        }
        self.regions = regions;
        while self.regions.len() > self.most {
            let before = self.regions.len();
            self.merge_similar(u32::MAX);
            if self.regions.len() == before {
                break;
            }
        }
        Ok(())
    }

    fn merge_similar(&mut self, threshold: u32) {
        self.regions.dedup_by(|upper, lower| {
            let alike = upper.accesses.abs_diff(lower.accesses) <= threshold;
            let joined = alike && lower.end == upper.start;
            if joined {
                // Weighted by their sizes.
                let (a, b) = (lower.len() / PAGE_SIZE, upper.len() / PAGE_SIZE);
                let mean = |x: u32, y: u32| {
                    let sum = u128::from(x) * u128::from(a) + u128::from(y) * u128::from(b);
                    (sum / u128::from(a + b)) as u32
                };
                lower.accesses = mean(lower.accesses, upper.accesses);
                lower.last = mean(lower.last, upper.last);
                lower.age = mean(lower.age, upper.age);
                lower.end = upper.end;
                if !(lower.start..lower.end).contains(&lower.sample) {
                    lower.sample = NEVER;
                }
            }
            joined
        });
    }

    fn split_regions(&mut self) {
        if self.regions.len() > self.most / 2 {
            return;
        }
        for at in (0..self.regions.len()).rev() {
            let random = self.random();
            let region = self.regions[at];
            let pages = region.len() / PAGE_SIZE;
            if pages < 2 {
                continue;
            }
            // Between a tenth and nine tenths of it, as DAMON does.
            let part = (u128::from(pages) * (1 + u128::from(random % 9)) / 10) as u64;
            let middle = region.start + part.clamp(1, pages - 1) * PAGE_SIZE;
            let mut lower = region;
            lower.end = middle;
            let mut upper = region;
            upper.start = middle;
            for half in [&mut lower, &mut upper] {
                if !(half.start..half.end).contains(&half.sample) {
                    half.sample = NEVER;
                }
            }
            self.regions[at] = lower;
            // The memory was reserved.
            self.regions.insert(at + 1, upper);
        }
    }

    fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.seed;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// No page was chosen yet.
const NEVER: u64 = u64::MAX;

fn check(targets: &[Range<u64>]) -> Result<(), Errno> {
    let mut last = 0;
    for target in targets {
        let whole = (target.start | target.end).is_multiple_of(PAGE_SIZE);
        if target.start < last || target.is_empty() || !whole {
            return Err(Errno::EINVAL);
        }
        last = target.end;
    }
    Ok(())
}
