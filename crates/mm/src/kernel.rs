//! The Linux version that is imitated, and what changed from one version to the next.
//!
//! The rules that are not the same in all versions stand in one table, [`RULES`], which `docs/kernels.md` prints for people. Wherever the
//! engine follows one of them it asks `KernelVersion::has`.
//!
//! A rule holds in one or several ranges of full versions, the stable release included: a correction that was brought to stable branches holds in each
//! of them from another release on, and not in the branches between.

use core::cmp::Ordering;
use core::fmt;

/// A version of Linux: the branch and the stable release in it, since some of the corrections in stable releases change what a program sees.
///
/// Distributions name their kernels in their own way. [`from_uname`](Self::from_uname) finds the full version.
///
/// ```
/// use samara_mm::{Config, KernelVersion};
///
/// let newer: KernelVersion = "6.12.117+deb13-cloud-amd64".parse().unwrap();
/// assert_eq!(newer, KernelVersion::stable(6, 12, 117));
/// // Debian's number behind the dash is its own.
/// let debian: KernelVersion = "6.1.0-50-cloud-amd64".parse().unwrap();
/// assert_eq!(debian, KernelVersion::new(6, 1));
/// assert!(debian < KernelVersion::NEWEST);
/// let config = Config { kernel: debian, ..Config::default() };
/// assert!(config.kernel.is_known());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
// In this order the first two numbers are one load on little-endian machines: calls compare them with those of rules.
#[repr(C)]
pub struct KernelVersion {
    /// The third number; 0 if it is not known.
    pub patch: u16,
    /// The second one.
    pub minor: u16,
    /// The first one.
    pub major: u16,
}

impl PartialOrd for KernelVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for KernelVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        self.packed().cmp(&other.packed())
    }
}

impl KernelVersion {
    /// The oldest with which the engine was compared.
    pub const OLDEST: Self = Self::new(6, 1);
    /// The newest one, and the default. It rises when the oracle's histories, run on a newer kernel,
    /// agree with the engine, and each rule that differs has a row in the table of rules.
    pub const NEWEST: Self = Self::new(6, 18);

    /// Returns the version `major.minor`.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self::stable(major, minor, 0)
    }

    /// Returns the stable release `major.minor.patch`.
    pub const fn stable(major: u16, minor: u16, patch: u16) -> Self {
        KernelVersion {
            major,
            minor,
            patch,
        }
    }

    /// Returns the full version of a kernel from what it says of itself.
    ///
    /// `release` is what `uname -r` prints (`/proc/sys/kernel/osrelease`), and `version` what
    /// `uname -v` prints (`/proc/sys/kernel/version`). Some distributions leave the number of the
    /// stable release out of `release`. They name it in `version` (Debian), or in a file of their
    /// own, whose text may be passed as `version` (Ubuntu's `/proc/version_signature`). The number
    /// is then in the last word of `version` that begins with three numbers of the same branch. A
    /// number other than 0 in `release` takes precedence.
    ///
    /// # Errors
    /// [`NoVersion`] if `release` does not begin with a version.
    ///
    /// ```
    /// use samara_mm::KernelVersion;
    ///
    /// let debian = KernelVersion::from_uname(
    ///     "6.1.0-57-cloud-amd64",
    ///     "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-3 (2026-11-26)",
    /// );
    /// assert_eq!(debian, Ok(KernelVersion::stable(6, 1, 192)));
    /// let ubuntu = KernelVersion::from_uname(
    ///     "5.15.0-91-generic",
    ///     "Ubuntu 5.15.0-91.101-generic 5.15.131",
    /// );
    /// assert_eq!(ubuntu, Ok(KernelVersion::stable(5, 15, 131)));
    /// let fedora = KernelVersion::from_uname(
    ///     "6.12.9-200.fc41.x86_64",
    ///     "#1 SMP PREEMPT_DYNAMIC Thu Jan  9 16:05:40 UTC 2025",
    /// );
    /// assert_eq!(fedora, Ok(KernelVersion::stable(6, 12, 9)));
    /// ```
    pub fn from_uname(release: &str, version: &str) -> Result<Self, NoVersion> {
        let own: Self = release.parse()?;
        if own.patch > 0 {
            return Ok(own);
        }
        let words = version.split_ascii_whitespace();
        let mut named = words
            .filter_map(|word| word.parse::<Self>().ok())
            .filter(|named| named.branch() == own.branch() && named.patch > 0);
        Ok(named.next_back().unwrap_or(own))
    }

    /// Returns `true` if it lies between the oldest and the newest branch with which the engine was compared. For others the rules of the nearest one
    /// are followed.
    pub fn is_known(self) -> bool {
        (Self::OLDEST.branch()..=Self::NEWEST.branch()).contains(&self.branch())
    }

    /// Returns `true` if a rule holds in this version.
    #[inline(always)]
    pub(crate) const fn has(self, rule: Rule) -> bool {
        let ranges = rule.ranges();
        let mut index = 0;
        while index < ranges.len() {
            if ranges[index].contains(self) {
                return true;
            }
            index += 1;
        }
        false
    }

    /// Returns the first two numbers as one, in the order of versions.
    #[inline(always)]
    const fn branch(self) -> u32 {
        (self.major as u32) << 16 | self.minor as u32
    }

    /// Returns all three numbers as one, in the order of versions.
    #[inline(always)]
    const fn packed(self) -> u64 {
        (self.branch() as u64) << 16 | self.patch as u64
    }
}

/// Versions that follow a rule: from one on, up to another that does not, if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    from: KernelVersion,
    until: Option<KernelVersion>,
}

impl Versions {
    /// Returns all from a branch on.
    const fn since(major: u16, minor: u16) -> Self {
        Versions {
            from: KernelVersion::new(major, minor),
            until: None,
        }
    }

    /// Returns the versions from a stable release on, of its branch.
    const fn stable(major: u16, minor: u16, patch: u16) -> Self {
        Versions {
            from: KernelVersion::stable(major, minor, patch),
            until: Some(KernelVersion::new(major, minor + 1)),
        }
    }

    #[inline(always)]
    const fn contains(&self, version: KernelVersion) -> bool {
        let begun = match self.from.patch {
            // One comparison of what is nearer at hand.
            0 => version.branch() >= self.from.branch(),
            _ => version.packed() >= self.from.packed(),
        };
        begun
            && match self.until {
                Some(until) => version.packed() < until.packed(),
                None => true,
            }
    }
}

/// As `docs/kernels.md` prints them: `6.12`, or `6.12.117` for the later releases of one stable branch.
impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.from)
    }
}

impl Default for KernelVersion {
    fn default() -> Self {
        Self::NEWEST
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        match self.patch {
            0 => Ok(()),
            patch => write!(f, ".{patch}"),
        }
    }
}

/// No version of Linux at the start of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoVersion;

impl fmt::Display for NoVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no version of Linux")
    }
}

impl core::error::Error for NoVersion {}

impl core::str::FromStr for KernelVersion {
    type Err = NoVersion;

    /// Parses a release as `uname -r` prints it: `6.12.94+deb13-amd64`.
    fn from_str(release: &str) -> Result<Self, NoVersion> {
        let mut parts = release.split(|c: char| !c.is_ascii_digit());
        let mut number = || parts.next()?.parse().ok();
        match (number(), number()) {
            (Some(major), Some(minor)) => Ok(Self::stable(major, minor, number().unwrap_or(0))),
            _ => Err(NoVersion),
        }
    }
}

macro_rules! rules {
    ($($name:ident $(($($number:literal),+))+ $text:literal)*) => {
        /// The rules that differ between versions.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[cfg_attr(not(feature = "exec"), allow(dead_code, reason = "some concern only how programs begin"))]
        pub(crate) enum Rule {
            $(#[doc = $text] $name,)*
        }

        impl Rule {
            /// Returns the versions in which the rule holds.
            #[inline(always)]
            const fn ranges(self) -> &'static [Versions] {
                match self {
                    $(Rule::$name => const { &[$(versions!($($number),+)),+] },)*
                }
            }
        }

        /// Each rule that is not the same in all known versions: those that have it, and what it says.
        pub const RULES: &[(&[Versions], &str)] = &[
            $((&[$(versions!($($number),+)),+], $text),)*
        ];
    };
}

/// Two numbers are a branch and all after it, three a stable release and the later ones of its branch alone.
macro_rules! versions {
    ($major:literal, $minor:literal) => {
        Versions::since($major, $minor)
    };
    ($major:literal, $minor:literal, $patch:literal) => {
        Versions::stable($major, $minor, $patch)
    };
}

rules! {
    RestartableSequences (6, 3)
        "the auxiliary vector of a new program tells of restartable sequences"
    Mdwe (6, 3)
        "`PR_SET_MDWE` is known"
    AttachmentsGrow (6, 4)
        "an attached System V segment joins a neighbour of the same attachment, and a file of FUSE one of the same open file, if neither vanishes"
    RingsStaySmall (6, 4)
        "a ring of a packet socket does not grow in place, as it joins nothing"
    MemoryMerge (6, 4)
        "`PR_SET_MEMORY_MERGE` is known"
    WatchedPartsJoin (6, 4)
        "a part that begins amid its area joins the one above when a userfaultfd is told to watch it, or no longer to"
    OneRangeIsCutFirst (6, 4)
        "the only range of a `process_madvise` is cut to what one call advises before its end is looked at"
    ReadOnlyIsUncharged (6, 5)
        "memory of which nothing was written is no longer charged when `mprotect` makes it read-only"
    MdweIsKept (6, 6)
        "`PR_SET_MDWE` knows `PR_MDWE_NO_INHERIT`"
    Above4gIsKnown (6, 6)
        "`MAP_SHARED_VALIDATE` knows `MAP_ABOVE4G`"
    Poison (6, 6)
        "a userfaultfd may poison pages (`UFFDIO_POISON`)"
    HeapIsWithin (6, 7)
        "an area that only borders on the heap is not called `[heap]`"
    StackHasNoHugePages (6, 7)
        "`MAP_STACK` marks an area as not wanting huge pages, so that it joins no plain neighbour"
    AnonymousIsAligned (6, 7)
        "a private anonymous mapping of whole huge pages is aligned to one"
    AsynchronousWp (6, 7)
        "a userfaultfd with `UFFD_FEATURE_WP_ASYNC` may watch any area for writes"
    WeightedInterleave (6, 9)
        "`mbind` knows `MPOL_WEIGHTED_INTERLEAVE`"
    PopulateStopsAtHoles (6, 9)
        "`MADV_POPULATE_READ` and `MADV_POPULATE_WRITE` end at a hole; before, they went on behind it"
    ManyAreBalanced (6, 10)
        "`mbind` knows `MPOL_F_NUMA_BALANCING` with `MPOL_PREFERRED_MANY`, too; before, with `MPOL_BIND` alone"
    Mseal (6, 10)
        "`mseal` is known"
    Droppable (6, 11)
        "`MAP_DROPPABLE` is known"
    ZeroingMustWork (6, 12)
        "a program is not started if the end of a segment's last page cannot be zeroed, as beyond the end of the file"
    SegmentsAreZeroedEach (6, 12)
        "each segment of an interpreter has zeroed memory of its own; before, only what lies above all that is of the file was zeroed, the end of its last page had to be writable, and of a segment without bytes in the file that begins amid a page, the page was mapped"
    NewJoinsBoth (6, 12)
        "a new mapping between areas whose private pages have not the same owner joins the lower one, and both if the lower has none; before, only the upper one if that has some"
    RefusedStaysCut (6, 12)
        "what `MAP_FIXED` was to replace is cut at the ends of the range, though a limit refuses the mapping; before, a limit on sizes changed nothing, and one on commitments came when it was gone"
    ReplacingTellsWhy (6, 12)
        "`MAP_FIXED` that would cut what cannot be cut is `EINVAL`; before, `ENOMEM`"
    PageZeroIsSealed (6, 12)
        "the page at address 0 that `MMAP_PAGE_ZERO` gives to a new program is sealed"
    VdsoIsPlaced (6, 12)
        "the vdso of a new program is placed as any mapping; before, it was put at random above the stack, if it had room there"
    FutureSealIsLookedAtFirst (6, 12)
        "a file sealed by `F_SEAL_FUTURE_WRITE` alone refuses a shared mapping to be written before anything is unmapped for it; before, when that was done"
    KeyBeforePlace (6, 12)
        "a mapping that may only be executed has its protection key set aside before its place is looked for; before, none was for a mapping without a place"
    CopyStaysApart (6, 1, 192) (6, 12, 115)
        "`MREMAP_DONTUNMAP` unlocks what it copies from and no more, which it cuts out and uncharges, and the copy does not join that; anonymous memory that it has emptied is numbered anew, so that it joins neighbours, but no mapping of `/dev/zero`; seen in these stable releases and their successors, not yet in 6.1.190 and 6.12.113"
    CopyBesideStaysAlone (6, 1, 192)
        "the copy of `MREMAP_DONTUNMAP` joins no other neighbour if it could join what it is of; in later branches it does"
    OneselfIsNoOther (6, 12, 43)
        "`process_madvise` of a process for itself needs no `CAP_SYS_NICE`; seen in each release of 6.12 that was asked, from this one on, and since 6.13 together with any advice"
    HugeIsPlacedAsAny (6, 13)
        "a mapping of the pool of huge pages is placed as any, at or above its hint; before, at or below it, and `MAP_32BIT` was ignored"
    GuardMarkers (6, 13)
        "`MADV_GUARD_INSTALL` and `MADV_GUARD_REMOVE` are known"
    AnyAdviceToOneself (6, 13)
        "`process_madvise` of a process for itself takes any advice; before, only what does not change its memory, and with `CAP_SYS_NICE`"
    FileGuardMarkers (6, 15)
        "`MADV_GUARD_INSTALL` works on files, too"
    ZeroIsAligned (6, 15)
        "a private mapping of `/dev/zero` is aligned to huge pages"
    UntouchedTakesTouched (6, 16)
        "an area without private pages takes in a neighbour's piece that has some, and what a neighbour grows by, even if that inherited its pages"
    MarkedBeforeJoining (6, 17)
        "what `PR_SET_MEMORY_MERGE` marks is marked when it looks for neighbours to join; before, when it was mapped, so that it joined none that was marked"
    SealedZeroIsKept (6, 17)
        "advice that would discard pages is refused for sealed private mappings of `/dev/zero`, as for other anonymous memory"
    MremapChecksFirst (6, 17)
        "`mremap` checks its arguments before it looks for the area (where there is none, an overlap is `EINVAL`, not `EFAULT`), and the area before it clears the destination"
    MremapMovesSeveral (6, 17)
        "`mremap` to a fixed place moves several areas where no length changes"
    ShrinkingIsCharged (6, 17)
        "`mremap` to a fixed place is `ENOMEM` if by so much as it makes a charged area shorter no more could be charged"
    LongTables (6, 18)
        "the program headers of a file may have 64 KiB together; before, 4 KiB"
    WatchersLetGo (6, 18)
        "a userfaultfd may not unregister what another one watches"
}

#[cfg(test)]
mod tests;
