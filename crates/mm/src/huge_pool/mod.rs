//! The pool of huge pages: the numbers of free, reserved and surplus pages.
//!
//! | file | concept |
//! |---|---|
//! | `mod` | the pool that address spaces share |
//! | `file` | the pages of a file and its reservations: shared mappings |
//! | `slots` | the pages of an address space and its reservations: private mappings |
//! | `lock` | a lock for a few numbers |

pub(crate) mod file;
mod lock;
pub(crate) mod slots;

use core::fmt;

use crate::errno::Errno;
use crate::flags::PMD_SIZE;
use crate::heap::Counted;
use crate::huge_pool::file::HugeFile;
use crate::huge_pool::lock::{Guard, Spin};
use crate::object::Object;

/// Bytes of a huge page of the third level.
const PUD_SIZE: u64 = 1 << 30;

/// The machine's huge pages for hugetlbfs (`MAP_HUGETLB`), of 2 MiB and of 1 GiB. A handle: clones
/// are the same pool, which all address spaces with it in their [`Config`](crate::Config) share.
///
/// The numbers are those of `/proc/meminfo`. A mapping takes free pages when they are touched, but
/// reserves them before, so that touching does not fail: *reserved* pages are free ones that belong
/// to a mapping or a file already. With `MAP_NORESERVE` nothing is reserved. Pages beyond the size
/// of the pool are *surplus*: they are created on demand, up to a limit, and freed before others
/// are returned.
///
/// ```
/// use samara_mm::{AddressSpace, Config, Errno, HugePool, Layout, Limits, PMD_SIZE};
/// use samara_mm::{MapFlags, MmapOptions, Prot};
///
/// let pool = HugePool::new(3)?;
/// let config = Config { huge_pool: Some(pool.clone()), ..Config::default() };
/// let mut space = AddressSpace::new(config, Limits::default(), Layout::default())?;
/// let two = MmapOptions::anonymous(2 * PMD_SIZE)
///     .prot(Prot::READ | Prot::WRITE)
///     .flags(MapFlags::HUGETLB);
/// let start = space.mmap(&two)?;
/// assert_eq!(space.mmap(&two), Err(Errno::ENOMEM));
/// space.fault(start, true)?;
/// let figures = pool.figures(PMD_SIZE).unwrap();
/// assert_eq!((figures.total, figures.free, figures.reserved), (3, 2, 1));
/// # Ok::<(), Errno>(())
/// ```
#[derive(Clone)]
pub struct HugePool(Counted<Pool>);

struct Pool {
    /// The numbers for each of [`SIZES`].
    sizes: [Spin<State>; SIZES.len()],
    /// The caller keeps the numbers: requests succeed or fail as it has said, and nothing is
    /// counted.
    told: bool,
}

/// Bytes of the pages. The first one is the default size.
const SIZES: [u64; 2] = [PMD_SIZE, PUD_SIZE];

/// The numbers of huge pages of one size (`HugePages_Total:` and so on in `proc_meminfo(5)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HugeFigures {
    /// Pages in the pool, surplus ones included.
    pub total: u64,
    /// Pages that no mapping or file has.
    pub free: u64,
    /// Free pages that are reserved.
    pub reserved: u64,
    /// Pages beyond the size of the pool.
    pub surplus: u64,
}

/// The numbers for one size. Reservations fall below 0 where Linux's do.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    total: u64,
    free: u64,
    reserved: i64,
    surplus: u64,
    /// The limit on surplus pages (`nr_overcommit_hugepages`).
    overcommit: u64,
    /// The number of calls under way during which what files release is kept.
    holding: u32,
    /// Pages and reservations that files have released during these calls.
    let_go: (u64, u64),
    /// Requests succeed, if the caller keeps the numbers.
    available: bool,
}

/// An index of [`SIZES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(usize);

impl Size {
    /// Returns the size of pages of `bytes` bytes.
    pub(crate) fn of(bytes: u64) -> Option<Size> {
        SIZES.iter().position(|size| *size == bytes).map(Size)
    }

    /// Returns the size that the bits at `MAP_HUGE_SHIFT` of `mmap` name.
    pub(crate) fn named(log2: u64) -> Option<Size> {
        match log2 {
            0 => Some(Size(0)),
            log2 => Size::of(1u64.checked_shl(log2 as u32)?),
        }
    }

    /// Returns the entry for this size.
    pub(crate) fn of_each(self, told: &[bool; SIZES.len()]) -> bool {
        told.get(self.0).copied().unwrap_or(false)
    }

    pub(crate) fn bytes(self) -> u64 {
        SIZES.get(self.0).copied().unwrap_or(PMD_SIZE)
    }
}

impl HugePool {
    /// Returns a pool of `pages` pages of 2 MiB, and none of 1 GiB.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn new(pages: u64) -> Result<Self, Errno> {
        let pool = Self::of(false)?;
        pool.resize(PMD_SIZE, pages);
        Ok(pool)
    }

    /// Returns a pool whose numbers the caller keeps: mappings succeed or fail as it has
    /// [told](Self::tell) last. For following a process elsewhere, while others take from the same
    /// pool.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn told() -> Result<Self, Errno> {
        Self::of(true)
    }

    fn of(told: bool) -> Result<Self, Errno> {
        let state = || {
            Spin::new(State {
                available: true,
                ..State::default()
            })
        };
        let sizes = [state(), state()];
        Counted::try_new(Pool { sizes, told }).map(HugePool)
    }

    /// Says whether pages are available, for a pool whose numbers the [caller](Self::told) keeps.
    /// Has no effect on others.
    pub fn tell(&self, available: bool) {
        for state in &self.0.sizes {
            state.lock().available = available;
        }
    }

    /// Changes the number of pages of a size, as a write to `nr_hugepages` does. Pages that are in
    /// use or reserved stay, as surplus ones.
    pub fn resize(&self, page_size: u64, pages: u64) {
        let Some(size) = Size::of(page_size) else {
            return;
        };
        let mut state = self.state(size);
        let persistent = state.total - state.surplus;
        if pages >= persistent {
            let more = pages - persistent;
            let kept = more.min(state.surplus);
            state.surplus -= kept;
            state.total += more - kept;
            state.free += more - kept;
        } else {
            let unused = state.free.saturating_sub(state.promised());
            let less = (persistent - pages).min(unused);
            state.total -= less;
            state.free -= less;
            state.surplus = state.total.saturating_sub(pages);
        }
    }

    /// Sets the limit on surplus pages of a size, as a write to `nr_overcommit_hugepages` does.
    pub fn set_overcommit(&self, page_size: u64, pages: u64) {
        if let Some(size) = Size::of(page_size) {
            self.state(size).overcommit = pages;
        }
    }

    /// Returns the numbers of pages of a size; `None` if there is no such size.
    pub fn figures(&self, page_size: u64) -> Option<HugeFigures> {
        let state = self.state(Size::of(page_size)?);
        Some(HugeFigures {
            total: state.total,
            free: state.free,
            // As Linux shows a number below 0.
            reserved: state.reserved as u64,
            surplus: state.surplus,
        })
    }

    /// Returns the [`File::object`](crate::File::object) for a file of hugetlbfs, or a memfd with
    /// `MFD_HUGETLB`, of `bytes` bytes and pages of `page_size`. It holds the pages of the file and
    /// its reservations, as long as the file exists.
    ///
    /// # Errors
    /// `EINVAL` for an unknown size, `ENOMEM`.
    pub fn file(&self, page_size: u64, bytes: u64) -> Result<Object, Errno> {
        let size = Size::of(page_size).ok_or(Errno::EINVAL)?;
        Object::try_new(HugeFile::new(self.clone(), size, bytes))
    }

    /// Returns the [`File::object`](crate::File::object) for a segment of huge pages
    /// (`SHM_HUGETLB`) of `bytes` bytes. All of its pages are reserved from now on if `promised`,
    /// which is not the case with `SHM_NORESERVE`. Attaching it reserves nothing (observed on
    /// 6.18).
    ///
    /// # Errors
    /// `EINVAL` for an unknown size, `ENOMEM`: `shmget` fails with it.
    pub fn segment(&self, page_size: u64, bytes: u64, promised: bool) -> Result<Object, Errno> {
        let size = Size::of(page_size).ok_or(Errno::EINVAL)?;
        let pages = bytes.div_ceil(page_size);
        let whole = pages.checked_mul(page_size).ok_or(Errno::EINVAL)?;
        let file = HugeFile::new(self.clone(), size, whole);
        if promised {
            file.reserve(0, pages)?;
        }
        Object::try_new(file)
    }

    fn state(&self, Size(size): Size) -> Guard<'_, State> {
        self.0.sizes[size % SIZES.len()].lock()
    }

    /// Returns `true` if the caller keeps the numbers.
    pub(crate) fn is_told(&self) -> bool {
        self.0.told
    }

    /// Reserves `pages` pages: all of them or none.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn reserve(&self, size: Size, pages: u64) -> Result<(), Errno> {
        let mut state = self.state(size);
        if self.0.told {
            return match pages == 0 || state.available {
                true => Ok(()),
                false => Err(Errno::ENOMEM),
            };
        }
        let promised = i64::try_from(pages).map_err(|_| Errno::ENOMEM)?;
        let missing = promised.saturating_sub(state.unreserved());
        let missing = u64::try_from(missing).unwrap_or(0);
        // Never more than the free pages, although reservations may have fallen below 0.
        let allowed = missing <= state.overcommit.saturating_sub(state.surplus)
            && pages <= state.free + missing;
        if !allowed {
            return Err(Errno::ENOMEM);
        }
        state.surplus += missing;
        state.total += missing;
        state.free += missing;
        state.reserved += promised;
        Ok(())
    }

    /// Takes back reservations that were not used. Surplus pages go with them.
    pub(crate) fn unreserve(&self, size: Size, pages: u64) {
        if self.0.told {
            return;
        }
        let mut state = self.state(size);
        state.reserved -= pages as i64;
        let gone = pages.min(state.surplus).min(state.free);
        state.surplus -= gone;
        state.total -= gone;
        state.free -= gone;
    }

    /// Corrects `reserved` after a call that had changed it was undone.
    pub(crate) fn correct(&self, size: Size, by: i64) {
        if !self.0.told {
            self.state(size).reserved += by;
        }
    }

    /// Takes a page: one that was reserved if `promised`, or another.
    ///
    /// # Errors
    /// `ENOMEM` if there is none. Reserved pages are missing only while a child has some that its
    /// parent has released.
    pub(crate) fn take(&self, size: Size, promised: bool) -> Result<(), Errno> {
        if self.0.told {
            return Ok(());
        }
        let mut state = self.state(size);
        if state.free > 0 && (promised || state.unreserved() > 0) {
            state.free -= 1;
        } else if state.surplus < state.overcommit {
            state.surplus += 1;
            state.total += 1;
        } else {
            return Err(Errno::ENOMEM);
        }
        state.reserved -= i64::from(promised);
        Ok(())
    }

    /// Returns a page, which is reserved again if `promised`.
    pub(crate) fn give(&self, size: Size, promised: bool) {
        if self.0.told {
            return;
        }
        let mut state = self.state(size);
        state.give(1);
        state.reserved += i64::from(promised);
    }

    /// Returns, for each size, whether there are surplus pages.
    pub(crate) fn surplus(&self) -> [bool; SIZES.len()] {
        [0, 1].map(|index| self.state(Size(index)).surplus > 0)
    }

    /// Keeps what files release from now on until [`let_go`](Self::let_go): the last mapping of an
    /// object is dropped only at the end of a call.
    pub(crate) fn hold(&self) {
        for state in &self.0.sizes {
            state.lock().holding += 1;
        }
    }

    pub(crate) fn let_go(&self) {
        for (index, state) in self.0.sizes.iter().enumerate() {
            let mut state = state.lock();
            state.holding -= 1;
            if state.holding == 0 {
                let (pages, promises) = core::mem::take(&mut state.let_go);
                state.give(pages);
                drop(state);
                self.unreserve(Size(index), promises);
            }
        }
    }

    /// Returns the pages and the reservations of a file that is gone.
    pub(crate) fn give_all(&self, size: Size, pages: u64, promises: u64) {
        if self.0.told {
            return;
        }
        let mut state = self.state(size);
        if state.holding > 0 {
            state.let_go.0 += pages;
            state.let_go.1 += promises;
            return;
        }
        state.give(pages);
        drop(state);
        self.unreserve(size, promises);
    }
}

impl State {
    /// Returns the number of free pages that are not reserved.
    fn unreserved(&self) -> i64 {
        (self.free as i64).saturating_sub(self.reserved)
    }

    fn promised(&self) -> u64 {
        u64::try_from(self.reserved).unwrap_or(0)
    }

    fn give(&mut self, pages: u64) {
        let surplus = pages.min(self.surplus);
        self.surplus -= surplus;
        self.total -= surplus;
        self.free += pages - surplus;
    }
}

impl PartialEq for HugePool {
    fn eq(&self, other: &Self) -> bool {
        // Pools whose numbers the caller keeps are equal.
        Counted::ptr_eq(&self.0, &other.0) || self.0.told && other.0.told
    }
}

impl Eq for HugePool {}

impl fmt::Debug for HugePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = SIZES.map(|size| self.figures(size));
        f.debug_tuple("HugePool").field(&figures).finish()
    }
}
