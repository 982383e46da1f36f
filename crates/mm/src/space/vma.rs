//! One area of an address space, apart from where it lies.

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
use crate::pages::Object;
use crate::space::vma_lock::VmaLock;

/// The attributes of one area. Its range is the key under which the tree holds it and is not stored
/// again here, so that trimming and merging cannot make the two disagree.
///
/// The page offset is stored relative to the address (`page offset = address / 4096 + shift`): cutting an area at any
/// place leaves `shift` as it is, and two adjacent areas continue each other exactly if theirs are equal.
#[derive(Debug, PartialEq, Eq)]
pub struct Vma {
    /// Properties.
    pub flags: VmFlags,
    /// Page offset minus page number, wrapping. Untouched anonymous memory has 0.
    pub shift: u64,
    /// What is mapped.
    pub backing: Backing,
    /// Who owns the private pages, once there are any.
    pub(crate) anon: AnonCell,
    /// Whether guard markers were ever installed in it, or in an area that has become a part of it.
    pub(crate) guarded: Sticky,
    /// Held by faults in the area, closed by calls that change it.
    pub(crate) lock: VmaLock,
    /// Memory policy (`mbind(2)`).
    pub policy: Policy,
    /// Identity of the userfaultfd that watches the area.
    pub uffd: Option<NonZeroU32>,
    /// Name given by `PR_SET_VMA_ANON_NAME`, as maps prints it: `[anon:…]`.
    pub name: Option<Box<str>>,
}

/// What an area maps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backing {
    /// Private memory of its own.
    Anonymous,
    /// A file.
    File(Counted<File>),
    /// Shared anonymous memory: every mapping is an object of its own.
    SharedAnonymous(SharedObject),
    /// An attached System V segment: counted attachments keep its areas from being absorbed by neighbours.
    Shm {
        /// The segment.
        segment: Counted<ShmSegment>,
        /// Number of the attachment: each `shmat(2)` opens the segment anew.
        attachment: u64,
    },
    /// Installed by the kernel at exec: `[vdso]`, `[vvar]` …
    Special(SpecialObject),
}

/// What the kernel has installed: counted, and there as long as an area maps it. Two are equal if their names are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecialObject(Counted<Installed>);

#[derive(Debug, PartialEq, Eq)]
struct Installed {
    name: Box<str>,
    object: Object,
}

impl SpecialObject {
    /// One of this name, with what the owner of the pages keeps with it.
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

    /// Its name in brackets, as `/proc/PID/maps` prints it.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What the owner of the pages keeps with it.
    pub fn object(&self) -> &Object {
        &self.0.object
    }
}

/// A shared anonymous object: counted, and there as long as an area maps it.
#[derive(Clone)]
pub struct SharedObject(Counted<Shared>);

struct Shared {
    id: u64,
    pages: u64,
    object: Object,
}

impl SharedObject {
    /// A new one of so many pages, with what the owner of the pages keeps with it.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn try_new(pages: u64, object: Object) -> Result<Self, Errno> {
        let id = new_object();
        Counted::try_new(Shared { id, pages, object }).map(SharedObject)
    }

    /// Number of the object: children inherit it, and it is unlike any other in this program.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Its size in pages, fixed when it was made: accesses beyond fail.
    pub fn pages(&self) -> u64 {
        self.0.pages
    }

    /// What the owner of the pages keeps with it.
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

/// Identity of an anon_vma: the common ancestor of private pages, by which the kernel finds who maps a page.
/// Only areas with the same one may merge once they have been touched.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AnonVma(u64);

impl AnonVma {
    const INHERITED: u64 = 1 << 63;
    const INFERRED: u64 = 1 << 62;
    const MARKS: u64 = Self::INHERITED | Self::INFERRED;

    /// A new one: the number after the `last` that was given away.
    pub(crate) fn next(last: &mut u64) -> Self {
        *last += 1;
        AnonVma(*last & !Self::INHERITED)
    }

    /// As [`next`](Self::next), for an area of which nobody knows whether others have the same owner.
    pub(crate) fn inferred(last: &mut u64) -> Self {
        AnonVma(Self::next(last).0 | Self::INFERRED)
    }

    /// The child's own, on top of those that it inherits by fork.
    pub(crate) const fn forked(number: u64) -> Self {
        AnonVma(number | Self::INHERITED)
    }

    /// The same, when it has proved to be a child's.
    pub(crate) const fn inherited(self) -> Self {
        AnonVma(self.0 | Self::INHERITED)
    }

    /// Whether pages may still be shared with a parent: such an area never takes in an untouched one.
    pub const fn is_inherited(self) -> bool {
        self.0 & Self::INHERITED != 0
    }

    /// Whether it was made up for an area that was found with private pages ([`SeedVma::touched`](crate::SeedVma::touched)): several of these may stand for one.
    pub const fn is_inferred(self) -> bool {
        self.0 & Self::INFERRED != 0
    }

    /// Returns the same as [`is_inferred`](Self::is_inferred), by its former name.
    #[deprecated(note = "renamed to `is_inferred`")]
    pub const fn is_assumed(self) -> bool {
        self.is_inferred()
    }

    /// A number unique to this anon_vma within its address space.
    pub const fn number(self) -> u64 {
        self.0 & !Self::MARKS
    }
}

/// The owner of an area's private pages: the one attribute that changes while readers may look, with one store.
pub(crate) struct AnonCell(AtomicU64);

impl AnonCell {
    #[inline]
    pub(crate) fn get(&self) -> Option<AnonVma> {
        // Relaxed, here and below: the number stands for itself, nothing else is published with it.
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

/// What an area is once and then always. Set while readers may look, with one store.
#[derive(Debug, Default)]
pub(crate) struct Sticky(AtomicBool);

impl Sticky {
    #[inline]
    pub(crate) fn get(&self) -> bool {
        // Relaxed, here and below: nothing else is published with it.
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
    /// The node that is tried first, or the ones nearest to it.
    pub home: Option<u16>,
    /// Set of nodes 0..64, bit by bit: those of the given ones that the machine has ([`Config::numa_nodes`](crate::Config::numa_nodes)), or, where
    /// the mode has a flag, all that were given.
    pub nodes: u64,
}

impl Vma {
    /// Returns `true` if it owns nothing that is given up when it is dropped: all but these two fields are numbers.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.backing, Backing::Anonymous) && self.name.is_none()
    }

    /// An area as it is when it is laid down: nobody owns private pages of it, nor has anybody said more of it.
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

    /// Whether the kernel has installed it at exec: `[vdso]`, `[vvar]` …
    pub(crate) fn is_special(&self) -> bool {
        matches!(self.backing, Backing::Special(_))
    }

    /// Whether it may not be cut.
    pub(crate) fn is_unsplittable(&self) -> bool {
        match &self.backing {
            Backing::Special(_) => true,
            Backing::File(file) => file.kind == FileKind::WholeDevice,
            _ => false,
        }
    }

    /// Whether somebody counts such areas, and is told of each one that ends.
    #[inline]
    pub(crate) fn is_counted(&self) -> bool {
        match &self.backing {
            Backing::Shm { .. } => true,
            Backing::File(file) => file.kind == FileKind::Fuse,
            _ => false,
        }
    }

    /// It may be cut at multiples of this; nowhere if there is none.
    pub(crate) fn split_alignment(&self) -> Option<u64> {
        match self.file().map(|file| file.kind) {
            _ if self.is_unsplittable() => None,
            Some(FileKind::HugeTlb(size)) => Some(size),
            _ if self.flags.contains(VmFlags::HUGETLB) => Some(PMD_SIZE),
            _ => Some(PAGE_SIZE),
        }
    }

    /// A copy, for a split or for a child.
    ///
    /// # Errors
    /// `ENOMEM` when the name cannot be copied.
    #[inline]
    pub(crate) fn try_clone(&self) -> Result<Vma, Errno> {
        Ok(self.named(self.try_name()?))
    }

    /// A copy of the name.
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

    /// A copy with this name.
    #[inline(always)]
    pub(crate) fn named(&self, name: Option<Box<str>>) -> Vma {
        Vma {
            flags: self.flags,
            shift: self.shift,
            backing: match &self.backing {
                // Mostly, and known sooner than any of the others.
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

    /// Who owns the private pages, once there are any: the first write sets it, without the area being replaced.
    #[inline]
    pub fn anon(&self) -> Option<AnonVma> {
        self.anon.get()
    }

    /// The properties as smaps shows them.
    pub(crate) fn shown_flags(&self) -> VmFlags {
        let mut flags = self.flags;
        flags.set(VmFlags::GUARDED, self.guarded.get());
        flags
    }

    /// The file behind the area, if any.
    pub fn file(&self) -> Option<&Counted<File>> {
        match &self.backing {
            Backing::File(file) => Some(file),
            Backing::Shm { segment, .. } => Some(&segment.file),
            _ => None,
        }
    }

    /// Faults give zeroed private memory: no file, or a mapping of `/dev/zero` that shares nothing. That is a private one, and one that was asked to be shared
    /// but cannot be written to.
    pub fn is_anonymous(&self) -> bool {
        match &self.backing {
            Backing::Anonymous => true,
            Backing::File(file) => file.kind == FileKind::DevZero && self.is_private(),
            _ => false,
        }
    }

    /// Page offset of the area's page at `address`, in pages.
    pub fn page_offset(&self, address: u64) -> u64 {
        (address >> 12).wrapping_add(self.shift)
    }

    /// The object reaches to the page at `address`. Ends of files are not known here.
    pub(crate) fn has_page(&self, address: u64) -> bool {
        match &self.backing {
            Backing::SharedAnonymous(object) => self.page_offset(address) < object.pages(),
            Backing::Shm { segment, .. } => self.page_offset(address) < segment.pages(),
            _ => true,
        }
    }

    /// How much of `[start, end)`, whose first page is there, the object reaches to: the end of that.
    pub(crate) fn reach(&self, start: u64, end: u64) -> u64 {
        let pages = match &self.backing {
            Backing::SharedAnonymous(object) => object.pages(),
            Backing::Shm { segment, .. } => segment.pages(),
            _ => return end,
        };
        let left = pages.saturating_sub(self.page_offset(start));
        end.min(start.saturating_add(left.saturating_mul(PAGE_SIZE)))
    }

    /// Writes go to private copies, so that a write fault gives the area an anon_vma.
    pub(crate) fn is_private(&self) -> bool {
        !self.flags.contains(VmFlags::SHARED)
    }

    /// A write since the last look may have given the area an anon_vma that is not recorded yet. Through `/proc/PID/mem`, by `ptrace(2)` and by a
    /// userfaultfd that is written, too, which the program itself may not write. Of files that is not looked for: their clean pages take long to go through.
    pub(crate) fn may_have_been_written(&self) -> bool {
        self.anon().is_none()
            && self.is_private()
            && (self.flags.contains(VmFlags::WRITE) || self.is_anonymous())
            && !matches!(self.backing, Backing::Special(_))
    }
}

/// An area with its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Area<'a> {
    /// First address.
    pub start: u64,
    /// First address beyond the area.
    pub end: u64,
    /// Attributes.
    pub vma: &'a Vma,
}

/// A number for a new shared anonymous object, unlike any other in this program: children inherit objects, so
/// that a count in each address space would not do.
pub(crate) fn new_object() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: only the uniqueness of the number matters.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Backing {
    /// Whether two areas map the same object through the same open file description.
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
    /// Length in bytes.
    pub const fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Never true: areas have at least one page.
    pub const fn is_empty(&self) -> bool {
        self.end == self.start
    }

    /// Page offset of the first page, in pages.
    pub fn page_offset(&self) -> u64 {
        self.vma.page_offset(self.start)
    }
}
