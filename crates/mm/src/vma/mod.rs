//! The attributes of one VMA, without its range.
//!
//! | file | concept |
//! |---|---|
//! | `mod` | the attributes |
//! | `vma_box` | the memory of a VMA |
//! | `vma_lock` | the lock of a VMA, which faults hold and calls close |
//! | `vma_cache` | the VMA cache of faults |

pub(crate) mod vma_box;
pub(crate) mod vma_cache;
pub(crate) mod vma_lock;

use alloc::boxed::Box;
use core::fmt;
use core::num::NonZeroU32;
#[cfg(target_has_atomic = "64")]
use core::sync::atomic::AtomicU64;
use core::sync::atomic::{AtomicBool, Ordering};
#[cfg(not(target_has_atomic = "64"))]
use portable_atomic::AtomicU64;

use crate::call::ShmSegment;
use crate::errno::Errno;
use crate::file::{File, FileKind};
use crate::flags::{PAGE_SIZE, PMD_SIZE, VmFlags};
use crate::heap::boxed::try_str;
use crate::heap::counted::Counted;
use crate::object::{Object, new_object};
use crate::vma::vma_lock::VmaLock;

/// The attributes of one VMA. Its range is its key in the tree and is not stored here, so that
/// trimming and merging cannot make the two disagree.
///
/// The page offset is stored relative to the address (`page offset = address / 4096 + shift`).
/// Splitting a VMA at any address leaves `shift` unchanged, and the offsets of two adjacent VMAs
/// are contiguous exactly if their shifts are equal.
#[derive(Debug, PartialEq, Eq)]
pub struct Vma {
    /// Flags.
    pub flags: VmFlags,
    /// Page offset minus page number, wrapping. Untouched anonymous memory has 0.
    pub shift: u64,
    /// The object that is mapped.
    pub backing: Backing,
    /// The anon_vma, once there are private pages.
    pub(crate) anon: AnonCell,
    /// Guard markers were installed in it once, or in a VMA that has merged into it.
    pub(crate) guarded: Sticky,
    /// The per-VMA lock: held by faults, closed by calls that change the VMA.
    pub(crate) lock: VmaLock,
    /// Memory policy (`mbind(2)`).
    pub policy: Policy,
    /// Identity of the userfaultfd that the VMA is registered with.
    pub uffd: Option<NonZeroU32>,
    /// Name given by `PR_SET_VMA_ANON_NAME`, as maps prints it: `[anon:…]`.
    pub name: Option<Box<str>>,
}

/// The object that a VMA maps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backing {
    /// Private memory without an object.
    Anonymous,
    /// A file.
    File(Counted<File>),
    /// Shared anonymous memory: every `mmap` makes a new object.
    SharedAnonymous(SharedObject),
    /// An attached System V segment. Attachments are counted, so that neighbours never absorb their
    /// VMAs.
    Shm {
        /// The segment.
        segment: Counted<ShmSegment>,
        /// Number of the attachment: each `shmat(2)` opens the segment anew.
        attachment: u64,
    },
    /// Memory that the kernel installs at exec: `[vdso]`, `[vvar]` …
    Special(SpecialObject),
}

/// Memory that the kernel has installed. It is reference-counted and lives as long as a VMA maps
/// it. Two are equal if their names are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecialObject(Counted<Installed>);

#[derive(Debug, PartialEq, Eq)]
struct Installed {
    name: Box<str>,
    object: Object,
}

impl SpecialObject {
    /// Returns an object of this name, with what the owner of the pages keeps with it.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn try_new(name: Box<str>, object: Object) -> Result<Self, Errno> {
        Counted::try_new(Installed { name, object }).map(SpecialObject)
    }

    #[cfg(test)]
    pub(crate) fn handles(&self) -> usize {
        self.0.handles()
    }

    /// Returns the name in brackets, as `/proc/PID/maps` prints it.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns what the owner of the pages keeps with it.
    pub fn object(&self) -> &Object {
        &self.0.object
    }
}

/// A shared anonymous object. It is reference-counted and lives as long as a VMA maps it.
#[derive(Clone)]
pub struct SharedObject(Counted<Shared>);

struct Shared {
    id: u64,
    pages: u64,
    object: Object,
}

impl SharedObject {
    /// Returns a new object of `pages` pages, with what the owner of the pages keeps with it.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn try_new(pages: u64, object: Object) -> Result<Self, Errno> {
        let id = new_object();
        Counted::try_new(Shared { id, pages, object }).map(SharedObject)
    }

    /// Returns the number of the object, unique in this program. Children inherit the object with
    /// its number.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Returns its size in pages, which never changes. Accesses beyond it fail.
    pub fn pages(&self) -> u64 {
        self.0.pages
    }

    /// Returns what the owner of the pages keeps with it.
    pub fn object(&self) -> &Object {
        &self.0.object
    }
}

impl PartialEq for SharedObject {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for SharedObject {}

impl fmt::Debug for SharedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "object {} of {} pages", self.id(), self.pages())
    }
}

/// Identity of an anon_vma, the object by which the kernel finds all mappings of a private page.
/// Two VMAs that have been written merge only if they have the same one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AnonVma(u64);

impl AnonVma {
    const INHERITED: u64 = 1 << 63;
    const INFERRED: u64 = 1 << 62;
    const MARKS: u64 = Self::INHERITED | Self::INFERRED;

    /// Returns a new anon_vma, with the number after `last`.
    pub(crate) fn next(last: &mut u64) -> Self {
        *last += 1;
        AnonVma(*last & !Self::INHERITED)
    }

    /// Returns a new anon_vma for a VMA that was found with private pages. It may be the same as
    /// that of others.
    pub(crate) fn inferred(last: &mut u64) -> Self {
        AnonVma(Self::next(last).0 | Self::INFERRED)
    }

    /// Returns the anon_vma that a child of a fork adds to those that it inherits.
    pub(crate) const fn forked(number: u64) -> Self {
        AnonVma(number | Self::INHERITED)
    }

    /// Returns this anon_vma marked as inherited, when a child turns out to have it from its
    /// parent.
    pub(crate) const fn inherited(self) -> Self {
        AnonVma(self.0 | Self::INHERITED)
    }

    /// Returns `true` if pages may still be shared with a parent. Such a VMA never merges with one
    /// that has no anon_vma.
    pub const fn is_inherited(self) -> bool {
        self.0 & Self::INHERITED != 0
    }

    /// Returns `true` if the anon_vma was inferred for a VMA that was found with private pages
    /// ([`SeedVma::touched`](crate::SeedVma::touched)). Several inferred ones may stand for one.
    pub const fn is_inferred(self) -> bool {
        self.0 & Self::INFERRED != 0
    }

    /// Returns the same as [`is_inferred`](Self::is_inferred), by its former name.
    #[deprecated(note = "renamed to `is_inferred`")]
    pub const fn is_assumed(self) -> bool {
        self.is_inferred()
    }

    /// Returns a number that is unique to this anon_vma within its address space.
    pub const fn number(self) -> u64 {
        self.0 & !Self::MARKS
    }
}

/// The anon_vma of a VMA: an attribute that changes while readers may look, with one store.
pub(crate) struct AnonCell(AtomicU64);

impl AnonCell {
    #[inline]
    pub(crate) fn get(&self) -> Option<AnonVma> {
        // Relaxed, here and below: no other memory is published with the number.
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            number => Some(AnonVma(number)),
        }
    }

    pub(crate) fn set(&self, anon: Option<AnonVma>) {
        self.0
            .store(anon.map_or(0, |anon| anon.0), Ordering::Relaxed);
    }
}

impl From<Option<AnonVma>> for AnonCell {
    #[inline]
    fn from(anon: Option<AnonVma>) -> Self {
        // Numbers start above 0.
        AnonCell(AtomicU64::new(anon.map_or(0, |anon| anon.0)))
    }
}

impl PartialEq for AnonCell {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for AnonCell {}

impl fmt::Debug for AnonCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// A property that is never lost once a VMA has it. It is set while readers may look, with one
/// store.
#[derive(Debug, Default)]
pub(crate) struct Sticky(AtomicBool);

impl Sticky {
    #[inline]
    pub(crate) fn get(&self) -> bool {
        // Relaxed, here and below: no other memory is published with it.
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl From<bool> for Sticky {
    fn from(is: bool) -> Self {
        Sticky(AtomicBool::new(is))
    }
}

impl PartialEq for Sticky {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Sticky {}

impl fmt::Debug for AnonVma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.is_inherited() { "^" } else { "" };
        let guess = if self.is_inferred() { "?" } else { "" };
        write!(f, "anon{}{mark}{guess}", self.number())
    }
}

/// A memory policy, as `mbind(2)` and `set_mempolicy_home_node(2)` set it on an area. Two policies are equal when all fields are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Policy {
    /// Mode and mode flags; 0 (`MPOL_DEFAULT`) is no policy.
    pub mode: u32,
    /// The node that is tried first, or the nodes nearest to it.
    pub home: Option<u16>,
    /// Set of nodes 0 to 63, one bit each. It has those of the given nodes that the machine has
    /// ([`Config::numa_nodes`](crate::Config::numa_nodes)), or all that were given if the mode has
    /// a flag.
    pub nodes: u64,
}

impl Vma {
    /// Returns `true` if dropping it has no effect: all fields but these two are numbers.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.backing, Backing::Anonymous) && self.name.is_none()
    }

    /// Returns a new VMA, without an anon_vma and with default attributes.
    #[inline(always)]
    pub(crate) fn new(flags: VmFlags, shift: u64, backing: Backing) -> Self {
        Self {
            flags,
            shift,
            backing,
            anon: None.into(),
            guarded: false.into(),
            lock: VmaLock::new(),
            policy: Policy::default(),
            uffd: None,
            name: None,
        }
    }

    /// Returns `true` if the kernel has installed it at exec: `[vdso]`, `[vvar]` …
    pub(crate) fn is_special(&self) -> bool {
        matches!(self.backing, Backing::Special(_))
    }

    /// Returns `true` if it must not be split.
    pub(crate) fn is_unsplittable(&self) -> bool {
        match &self.backing {
            Backing::Special(_) => true,
            Backing::File(file) => file.kind == FileKind::WholeDevice,
            _ => false,
        }
    }

    /// Returns `true` if a driver counts such VMAs and is notified of each one that ends. They
    /// never disappear in a merge.
    #[inline]
    pub(crate) fn is_counted(&self) -> bool {
        match &self.backing {
            Backing::Shm { .. } => true,
            Backing::File(file) => file.kind == FileKind::Fuse,
            _ => false,
        }
    }

    /// Returns the alignment in bytes of addresses at which it may be split, and `None` if it must
    /// not be split.
    pub(crate) fn split_alignment(&self) -> Option<u64> {
        match self.file().map(|file| file.kind) {
            _ if self.is_unsplittable() => None,
            Some(FileKind::HugeTlb(size)) => Some(size),
            _ if self.flags.contains(VmFlags::HUGETLB) => Some(PMD_SIZE),
            _ => Some(PAGE_SIZE),
        }
    }

    /// Returns a copy, for a split or for a child.
    ///
    /// # Errors
    /// `ENOMEM` when the name cannot be copied.
    #[inline]
    pub(crate) fn try_clone(&self) -> Result<Vma, Errno> {
        Ok(self.named(self.try_name()?))
    }

    /// Returns a copy of the name.
    ///
    /// # Errors
    /// `ENOMEM`.
    #[inline(always)]
    pub(crate) fn try_name(&self) -> Result<Option<Box<str>>, Errno> {
        match &self.name {
            Some(name) => Ok(Some(try_str(name)?)),
            None => Ok(None),
        }
    }

    /// Returns a copy with another name.
    #[inline(always)]
    pub(crate) fn named(&self, name: Option<Box<str>>) -> Vma {
        Vma {
            flags: self.flags,
            shift: self.shift,
            backing: match &self.backing {
                // The most frequent case first: it needs no reference count.
                Backing::Anonymous => Backing::Anonymous,
                backing => backing.clone(),
            },
            anon: self.anon.get().into(),
            guarded: self.guarded.get().into(),
            lock: self.lock.of_part(),
            policy: self.policy,
            uffd: self.uffd,
            name,
        }
    }

    /// Returns the anon_vma, once there are private pages. The first write sets it without
    /// replacing the VMA.
    #[inline]
    pub fn anon(&self) -> Option<AnonVma> {
        self.anon.get()
    }

    /// Returns the flags as smaps shows them.
    pub(crate) fn shown_flags(&self) -> VmFlags {
        let mut flags = self.flags;
        flags.set(VmFlags::GUARDED, self.guarded.get());
        flags
    }

    /// Returns the file behind the VMA.
    pub fn file(&self) -> Option<&Counted<File>> {
        match &self.backing {
            Backing::File(file) => Some(file),
            Backing::Shm { segment, .. } => Some(&segment.file),
            _ => None,
        }
    }

    /// Returns `true` if faults give zeroed private memory. That is memory without a file, and a
    /// mapping of `/dev/zero` that shares nothing: a private one, and a shared one without write
    /// permission.
    pub fn is_anonymous(&self) -> bool {
        match &self.backing {
            Backing::Anonymous => true,
            Backing::File(file) => file.kind == FileKind::DevZero && self.is_private(),
            _ => false,
        }
    }

    /// Returns the page offset of the page at `address`, in pages.
    pub fn page_offset(&self, address: u64) -> u64 {
        (address >> 12).wrapping_add(self.shift)
    }

    /// Returns `true` if the object has the page at `address`. The ends of files are not known
    /// here.
    pub(crate) fn has_page(&self, address: u64) -> bool {
        match &self.backing {
            Backing::SharedAnonymous(object) => self.page_offset(address) < object.pages(),
            Backing::Shm { segment, .. } => self.page_offset(address) < segment.pages(),
            Backing::Anonymous | Backing::File(_) | Backing::Special(_) => true,
        }
    }

    /// Returns the end of what the object has of `[start, end)`. It has the first page.
    pub(crate) fn reach(&self, start: u64, end: u64) -> u64 {
        let pages = match &self.backing {
            Backing::SharedAnonymous(object) => object.pages(),
            Backing::Shm { segment, .. } => segment.pages(),
            _ => return end,
        };
        let left = pages.saturating_sub(self.page_offset(start));
        end.min(start.saturating_add(left.saturating_mul(PAGE_SIZE)))
    }

    /// Returns `true` if writes go to private copies. A write fault then gives the VMA an anon_vma.
    pub(crate) fn is_private(&self) -> bool {
        !self.flags.contains(VmFlags::SHARED)
    }

    /// Returns `true` if a write that was not reported may have given the VMA an anon_vma. Memory
    /// without write permission can be written through `/proc/PID/mem`, by `ptrace(2)` and by a
    /// userfaultfd. Read-only mappings of files are left out, because their clean pages take long
    /// to go through.
    pub(crate) fn may_have_been_written(&self) -> bool {
        self.anon().is_none()
            && self.is_private()
            && (self.flags.contains(VmFlags::WRITE) || self.is_anonymous())
            && !matches!(self.backing, Backing::Special(_))
    }
}

/// A VMA with its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Area<'a> {
    /// First address.
    pub start: u64,
    /// First address beyond it.
    pub end: u64,
    /// Attributes.
    pub vma: &'a Vma,
}

impl Backing {
    /// Returns `true` if two VMAs map the same object through the same open file description.
    pub(crate) fn same(&self, other: &Backing) -> bool {
        match (self, other) {
            (Backing::Anonymous, Backing::Anonymous) => true,
            (Backing::File(a), Backing::File(b)) => {
                Counted::ptr_eq(a, b) || (a.id == b.id && a.description == b.description)
            }
            (Backing::SharedAnonymous(a), Backing::SharedAnonymous(b)) => a == b,
            (Backing::Shm { attachment: a, .. }, Backing::Shm { attachment: b, .. }) => a == b,
            _ => false,
        }
    }
}

impl Area<'_> {
    /// Returns the length in bytes.
    pub const fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Returns `false`: a VMA has at least one page.
    pub const fn is_empty(&self) -> bool {
        self.end == self.start
    }

    /// Returns the page offset of the first page, in pages.
    pub fn page_offset(&self) -> u64 {
        self.vma.page_offset(self.start)
    }
}
