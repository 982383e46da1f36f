//! An address space at one moment, with all that is shown of it.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use samara_linux::maps::{Area, Map};
use samara_linux::smaps::Figures;
use samara_mm::{AddressSpace, Config, Layout, Obstacles, VmFlags};

use super::live;
use crate::kind::Kind;

/// An address space at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The subject, in a few words.
    pub(crate) title: String,
    pub(crate) map: Map,
    /// Of each area.
    pub(crate) kinds: Vec<Kind>,
    /// Of each area.
    pub(crate) told: Vec<(VmFlags, Figures)>,
    /// `true` if pages are known: those of a recording are not.
    pub(crate) known: bool,
    /// Of each area but the first that borders on the one below it: why they are two, by the engine's rule. `None` for others.
    pub(crate) borders: Vec<Option<Border>>,
    pub(crate) config: Config,
    pub(crate) layout: Layout,
    /// The same map in the engine, once the tree is needed.
    pub(crate) engine: OnceCell<AddressSpace>,
    pub(crate) threads: Option<u64>,
    /// Bytes in page tables.
    pub(crate) table_bytes: Option<u64>,
}

/// Areas added up.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sum {
    pub(crate) areas: u64,
    pub(crate) bytes: u64,
    pub(crate) figures: Figures,
}

impl Sum {
    pub(crate) fn add(&mut self, area: &Area, figures: Option<&Figures>) {
        self.areas += 1;
        self.bytes += area.end - area.start;
        if let Some(figures) = figures {
            self.figures.add(figures);
        }
    }
}

/// A free range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) start: u64,
    /// The first address beyond.
    pub(crate) end: u64,
}

impl Gap {
    pub(crate) fn bytes(self) -> u64 {
        self.end - self.start
    }
}

/// Returns the free ranges between areas where a program can map something, ascending.
pub(crate) fn gaps(map: &Map, config: &Config) -> impl Iterator<Item = Gap> {
    let mut end = config.mmap_min_addr;
    let areas = map.areas().iter().map(|area| (area.start, area.end));
    let top = std::iter::once((config.task_size, config.task_size));
    areas.chain(top).filter_map(move |(start, next)| {
        let gap = Gap {
            start: end,
            end: start,
        };
        end = end.max(next);
        (gap.start < gap.end).then_some(gap)
    })
}

/// Free ranges added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Gaps {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    pub(crate) largest: u64,
    /// Those below 1 GiB. Larger ones are no fragments: the program, the heap and mappings lie far
    /// from each other.
    pub(crate) fragments: u64,
    pub(crate) fragment_bytes: u64,
}

impl Gaps {
    pub(crate) fn of(gaps: impl Iterator<Item = Gap>) -> Self {
        const SMALL: u64 = 1 << 30;
        gaps.fold(Self::default(), |sum, gap| {
            let (bytes, small) = (gap.bytes(), gap.bytes() < SMALL);
            Self {
                count: sum.count + 1,
                bytes: sum.bytes + bytes,
                largest: sum.largest.max(bytes),
                fragments: sum.fragments + u64::from(small),
                fragment_bytes: sum.fragment_bytes + if small { bytes } else { 0 },
            }
        })
    }
}

/// Why neighbours that touch are two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Border {
    Special,
    Object,
    Permissions,
    Flags,
    Offset,
    Name,
    Policy,
    Watched,
    Owner,
    Nothing,
}

impl Border {
    /// Returns the most telling of what keeps two areas apart.
    pub(crate) fn of(obstacles: Obstacles, differing: VmFlags) -> Self {
        let has = |obstacle| obstacles.contains(obstacle);
        if has(Obstacles::SPECIAL) {
            Border::Special
        } else if has(Obstacles::OBJECT) {
            Border::Object
        } else if has(Obstacles::FLAGS) && differing.intersects(VmFlags::ACCESS) {
            Border::Permissions
        } else if has(Obstacles::FLAGS) {
            Border::Flags
        } else if has(Obstacles::OFFSET) {
            Border::Offset
        } else if has(Obstacles::NAME) {
            Border::Name
        } else if has(Obstacles::POLICY) {
            Border::Policy
        } else if has(Obstacles::UFFD) {
            Border::Watched
        } else if has(Obstacles::OWNER) {
            Border::Owner
        } else {
            Border::Nothing
        }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Border::Special => "a driver's or the kernel's own",
            Border::Object => "another object",
            Border::Permissions => "other permissions",
            Border::Flags => "other flags",
            Border::Offset => "the file does not go on",
            Border::Name => "another name",
            Border::Policy => "another policy",
            Border::Watched => "another userfaultfd",
            Border::Owner => "both have pages of their own",
            Border::Nothing => "nothing that shows",
        }
    }
}

impl Snapshot {
    /// Returns all areas with their kinds and figures.
    pub(crate) fn areas(&self) -> impl Iterator<Item = (&Area, Kind, Option<&Figures>)> {
        self.map.areas().iter().enumerate().map(|(i, area)| {
            let figures = self.told.get(i).map(|(_, figures)| figures);
            (area, self.kinds[i], figures.filter(|_| self.known))
        })
    }

    /// Returns each kind that there is, and all.
    pub(crate) fn sums(&self) -> (BTreeMap<Kind, Sum>, Sum) {
        let (mut kinds, mut all) = (BTreeMap::<Kind, Sum>::new(), Sum::default());
        for (area, kind, figures) in self.areas() {
            kinds.entry(kind).or_default().add(area, figures);
            all.add(area, figures);
        }
        (kinds, all)
    }

    /// Returns the free ranges where a program can map something, ascending.
    pub(crate) fn gaps(&self) -> Vec<Gap> {
        gaps(&self.map, &self.config).collect()
    }

    /// Returns the engine's model of the map, which holds the areas in the tree.
    ///
    /// # Errors
    /// What is wrong, in a line.
    pub(crate) fn engine(&self) -> Result<&AddressSpace, String> {
        if let Some(engine) = self.engine.get() {
            return Ok(engine);
        }
        let (config, layout) = (self.config.clone(), self.layout);
        let engine = live::engine(&self.map, &self.told, config, layout)?;
        Ok(self.engine.get_or_init(|| engine))
    }

    /// Returns the number of borders of each sort.
    pub(crate) fn border_counts(&self) -> BTreeMap<Border, u64> {
        let mut counts = BTreeMap::new();
        for border in self.borders.iter().copied().flatten() {
            *counts.entry(border).or_default() += 1;
        }
        counts
    }
}
