//! The core: the address space, its VMAs, and the operations that all calls share. Knows nothing of
//! calls.
//!
//! | file | concept |
//! |---|---|
//! | `areas` | the VMAs by address, with their counts: the only module that changes the tree |
//! | `counts` | pages by kind |
//! | `merge` | the merge rule; the insertion and change of VMAs |
//! | `obstacles` | reasons why two neighbours do not merge |
//! | `address` | the choice of the address of a mapping |
//! | `limits` | limits on mapped, locked and committed memory |
//! | `fault`, `stack` | what a page fault changes in the map; VMAs that grow downwards |
//! | `guards`, `ranges` | markers of pages at which accesses fail; sets of addresses |
//! | `poison` | pages that a userfaultfd has poisoned or filled |
//! | `huge` | mappings of the pool of huge pages |
//! | `fork` | the map of a child |
//! | `take_over` | state that no map shows, taken over from an earlier model |
//! | `inferred` | anon_vmas that were inferred, and what later maps say about them |
//! | `notify` | how the owner of the pages is notified: in which order, and of which ranges |
//! | `journal`, `in_call` | undoing a call that an owner of the pages refuses; the end of a call |
//! | `shared` | look-ups from other threads |
//! | `maps`, `check` | the map as text; its invariants |

pub(crate) mod address;
pub(crate) mod areas;
pub(crate) mod check;
pub(crate) mod counts;
pub(crate) mod fault;
mod fork;
mod guards;
pub(crate) mod huge;
pub(crate) mod in_call;
mod inferred;
pub(crate) mod journal;
mod limits;
pub(crate) mod maps;
pub(crate) mod merge;
pub(crate) mod notify;
pub(crate) mod obstacles;
mod poison;
pub(crate) mod ranges;
pub(crate) mod shared;
mod stack;
mod take_over;

use alloc::boxed::Box;

use crate::config::{Config, Layout, Limits};
use crate::errno::Errno;
use crate::file::File;
use crate::flags::{PAGE_SIZE, VmFlags};
use crate::heap::Counted;
use crate::heap::boxed::try_str;
use crate::object::Object;
use crate::space::areas::{Areas, Span};
use crate::space::counts::PageCounts;
use crate::space::guards::Guards;
use crate::vma::vma_box::VmaBox;
use crate::vma::{AnonVma, Area, Backing, SharedObject, SpecialObject, Vma};

/// The memory map of one process.
///
/// Every change goes through [`perform`](Self::perform), [`fault`](Self::fault) or
/// [`fork`](Self::fork), and leads to the map, the result and the error number that Linux has for
/// the same history.
#[derive(Debug)]
pub struct AddressSpace {
    pub(crate) areas: Areas,
    pub(crate) guards: Guards,
    pub(crate) config: Config,
    pub(crate) limits: Limits,
    pub(crate) layout: Layout,
    /// The flags that `mlockall(MCL_FUTURE)` gives to new VMAs.
    pub(crate) future_locked: VmFlags,
    /// Protection keys in use, one bit each. Key 0 always is.
    pub(crate) pkeys: u16,
    /// The key of VMAs with only execute permission; 0 until there is one.
    pub(crate) execute_only: u8,
    pub(crate) next_anon: u64,
    /// Pages that Linux continues to count as locked although no VMA is: `MREMAP_DONTUNMAP` unlocks
    /// its source without updating the count.
    pub(crate) locked_leak: u64,
    pub(crate) counters: Counters,
}

/// Counts of events since the address space was created.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counters {
    pub(crate) merges: u64,
    pub(crate) splits: u64,
}

/// One line of the map of a program that is already running.
#[derive(Debug, Clone)]
pub struct SeedVma {
    /// First address.
    pub start: u64,
    /// First address beyond.
    pub end: u64,
    /// `PROT_*` bits as the line shows them.
    pub prot: u64,
    /// `true` for `s` instead of `p` in the line.
    pub shared: bool,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// The file, if the line names one.
    pub file: Option<Counted<File>>,
    /// The `VmFlags:` of smaps. With `None` they are inferred from the other fields.
    pub flags: Option<VmFlags>,
    /// A name in brackets that the kernel gave at exec, such as `[vdso]`, or the program by
    /// `PR_SET_VMA_ANON_NAME` (`[anon:…]`). Not `[heap]` and `[stack]`, which are computed.
    pub name: Option<Box<str>>,
    /// The VMA has private pages. It gets an [inferred](AnonVma::is_inferred) anon_vma of its own.
    pub touched: bool,
}

/// Figures of an address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// VMAs now.
    pub areas: usize,
    /// The largest number of VMAs so far.
    pub areas_peak: usize,
    /// Merges of two VMAs.
    pub merges: u64,
    /// Splits of one VMA into two.
    pub splits: u64,
    /// Free ranges between VMAs, above the minimum address and below the end of user space.
    pub gaps: usize,
    /// Levels of the tree.
    pub tree_height: usize,
    /// Bytes in nodes of the tree.
    pub tree_bytes: usize,
    /// Pages by kind.
    pub pages: PageCounts,
}

/// Returns the name that the program gave to a VMA, from the name in a line of its map.
fn given_name(shown: &str) -> Option<&str> {
    let name = shown
        .strip_prefix("[anon:")
        .or_else(|| shown.strip_prefix("[anon_shmem:"))?;
    name.strip_suffix(']')
}

impl SeedVma {
    /// Returns the attributes. `stack_top` identifies the stack, whose flags are inferred. `anon`
    /// is the anon_vma.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn vma(self, stack_top: u64, anon: Option<AnonVma>) -> Result<Vma, Errno> {
        let SeedVma { start, end, .. } = self;
        let flags = self.flags.unwrap_or_else(|| {
            let mut flags = VmFlags::from_prot(self.prot) | VmFlags::MAY_ALL;
            if self.shared {
                flags |= VmFlags::SHARED | VmFlags::MAYSHARE;
            } else if flags.is_accountable() {
                flags |= VmFlags::ACCOUNT;
            }
            if start <= stack_top && stack_top <= end {
                flags |= VmFlags::GROWSDOWN;
            }
            flags
        });
        let anonymous_object = self.file.is_none() && flags.contains(VmFlags::MAYSHARE);
        let shift = if self.file.is_none() && self.offset == 0 && !anonymous_object {
            // The page number itself, as for any untouched anonymous VMA. A stack is moved after
            // its first page was written and keeps its old offset. That is invisible, because a
            // stack never merges.
            0
        } else {
            (self.offset >> 12).wrapping_sub(start >> 12)
        };
        let given = self.name.as_deref().and_then(given_name);
        let name = given.map(try_str).transpose()?;
        let backing = match (self.name, self.file) {
            (Some(special), _) if name.is_none() => {
                Backing::Special(SpecialObject::try_new(special, Object::none())?)
            }
            (_, Some(file)) => Backing::File(file),
            (_, None) if anonymous_object => {
                Backing::SharedAnonymous(SharedObject::try_new(u64::MAX, Object::none())?)
            }
            (_, None) => Backing::Anonymous,
        };
        Ok(Vma {
            anon: anon.into(),
            guarded: flags.contains(VmFlags::GUARDED).into(),
            name,
            ..Vma::new(flags - VmFlags::GUARDED, shift, backing)
        })
    }
}

impl AddressSpace {
    /// Returns an empty address space.
    ///
    /// # Errors
    /// `EINVAL` if the configuration is inconsistent. Bounds and bases must be multiples of a page. The
    /// minimum must be below the maximum, and bases, heap and stack must not be above the end of user
    /// space. The program break must not be below the heap.
    ///
    /// `ENOMEM` when an allocation fails.
    pub fn new(config: Config, limits: Limits, layout: Layout) -> Result<Self, Errno> {
        Self::with_areas(config, limits, layout, Areas::new)
    }

    /// As [`new`](Self::new), with these VMAs.
    #[inline(always)]
    pub(crate) fn with_areas(
        config: Config,
        limits: Limits,
        layout: Layout,
        areas: impl FnOnce() -> Result<Areas, Errno>,
    ) -> Result<Self, Errno> {
        let config = config.raised();
        if !config.task_size.is_multiple_of(PAGE_SIZE)
            || !config.task_base.is_multiple_of(PAGE_SIZE)
            || config.mmap_min_addr >= config.task_size
            || !layout.fits(&config)
        {
            return Err(Errno::EINVAL);
        }
        Ok(AddressSpace {
            areas: areas()?,
            guards: Guards::new(),
            // Key 0 is that of all memory, if there are keys.
            pkeys: u16::from(config.pkeys),
            config,
            limits,
            layout,
            future_locked: VmFlags::empty(),
            execute_only: 0,
            next_anon: 1,
            locked_leak: 0,
            counters: Counters::default(),
        })
    }

    /// Adds a VMA that already exists, without merging: for taking over the map of a program at
    /// exec.
    ///
    /// # Errors
    /// `EINVAL` for an empty or unaligned range, `EEXIST` if something is mapped there, `ENOMEM`
    /// when an allocation fails.
    pub fn seed(&mut self, seed: SeedVma) -> Result<(), Errno> {
        let SeedVma { start, end, .. } = seed;
        if start >= end || !start.is_multiple_of(PAGE_SIZE) || !end.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        let mut span = Span::new(start, end);
        self.areas.overlap(&mut span);
        if span.over.areas > 0 {
            return Err(Errno::EEXIST);
        }
        let anon = seed.touched.then(|| AnonVma::inferred(&mut self.next_anon));
        let vma = seed.vma(self.layout.stack_top, anon)?;
        let put = self.areas.insert(&span, VmaBox::try_new(vma)?);
        self.areas.open_locks();
        put
    }

    /// Returns the limits in force.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Changes the limits, as `setrlimit(2)` does. Existing mappings stay.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Returns the settings in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Changes the settings, as a write to `/proc/sys/vm` or a change of privileges does. Start
    /// from [`config`](Self::config), so that a [confined](Config::within) guest stays confined.
    pub fn set_config(&mut self, config: Config) {
        self.config = config.raised();
    }

    /// Changes the addresses where top-down and bottom-up placement begin. For following a process
    /// that reveals them only by its first mapping.
    pub fn set_bases(&mut self, mmap_base: u64, legacy_base: u64) {
        self.layout.mmap_base = mmap_base;
        self.layout.legacy_base = legacy_base;
    }

    /// Returns the layout in force, with the current program break.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the number of VMAs. O(1).
    pub fn area_count(&self) -> usize {
        self.areas.count()
    }

    /// Returns the numbers of pages by kind. O(1).
    pub fn page_counts(&self) -> PageCounts {
        PageCounts {
            locked: self.locked_pages(),
            ..self.areas.pages().kinds()
        }
    }

    /// Returns the VMA that holds `address` or the first one above it (Linux's `find_vma`). O(log
    /// n).
    pub fn find(&self, address: u64) -> Option<Area<'_>> {
        self.areas.find(address)
    }

    /// Returns the VMA that holds `address` (Linux's `vma_lookup`). O(log n).
    pub fn lookup(&self, address: u64) -> Option<Area<'_>> {
        self.areas.at(address)
    }

    /// Returns the first VMA that intersects `[start, end)` (Linux's `find_vma_intersection`).
    /// O(log n).
    pub fn find_intersection(&self, start: u64, end: u64) -> Option<Area<'_>> {
        self.areas.find_in(start, end)
    }

    /// Returns the VMA with exactly this range (Linux's `find_exact_vma`). O(log n).
    pub fn find_exact(&self, start: u64, end: u64) -> Option<Area<'_>> {
        self.areas
            .at(start)
            .filter(|area| area.start == start && area.end == end)
    }

    /// Returns the VMA before the one that [`find`](Self::find) returns, and that one (Linux's
    /// `find_vma_prev`). O(log n).
    pub fn find_with_previous(&self, address: u64) -> (Option<Area<'_>>, Option<Area<'_>>) {
        let found = self.areas.find(address);
        let before = self
            .areas
            .before(found.map_or(self.config.task_size, |area| area.start));
        (before, found)
    }

    /// Returns all VMAs, upwards and downwards.
    pub fn areas(&self) -> impl DoubleEndedIterator<Item = Area<'_>> {
        self.areas.iter()
    }

    /// Returns the tree of VMAs for display, node by node, with indices in hexadecimal. O(n).
    ///
    /// ```
    /// # use samara_mm::{AddressSpace, Config, Layout, Limits, MmapOptions};
    /// let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
    /// space.mmap(&MmapOptions::anonymous(0x1000))?;
    /// assert!(space.tree().to_string().contains("0x7ffff7ffe000-0x7ffff7ffefff"));
    /// # Ok::<(), samara_mm::Errno>(())
    /// ```
    pub fn tree(&self) -> impl core::fmt::Display {
        self.areas.dump()
    }

    /// Returns figures. O(n), because of the gaps.
    pub fn stats(&self) -> Stats {
        let tree = self.areas.tree_stats();
        let mut gaps = 0;
        let mut end = self.config.mmap_min_addr;
        for area in self.areas.iter() {
            gaps += usize::from(area.start > end);
            end = area.end;
        }
        gaps += usize::from(end < self.config.task_size);
        Stats {
            areas: self.areas.count(),
            areas_peak: self.areas.peak(),
            merges: self.counters.merges,
            splits: self.counters.splits,
            gaps,
            tree_height: tree.height,
            tree_bytes: tree.nodes() * 256,
            pages: self.page_counts(),
        }
    }
}
