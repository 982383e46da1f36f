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
    /// The newest one, and the default.
    pub const NEWEST: Self = Self::new(6, 18);

    /// The version `major.minor`.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self::stable(major, minor, 0)
    }

    /// The stable release `major.minor.patch`.
    pub const fn stable(major: u16, minor: u16, patch: u16) -> Self {
        KernelVersion {
            major,
            minor,
            patch,
        }
    }

    /// Returns the full version of a kernel from what it says of itself.
    ///
    /// `release` is what `uname -r` prints (`/proc/sys/kernel/osrelease`), and `version` what `uname -v` prints (`/proc/sys/kernel/version`). Some
    /// distributions leave the number of the stable release out of `release` and name it in `version` (Debian) or in a file of their own, whose text
    /// may stand in the place of `version` (Ubuntu's `/proc/version_signature`). It is then the last word of `version` that begins with three numbers
    /// of the same branch. A number other than 0 in `release` is taken as it is.
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
    /// All from a branch on.
    const fn since(major: u16, minor: u16) -> Self {
        Versions {
            from: KernelVersion::new(major, minor),
            until: None,
        }
    }

    /// From a stable release on, those of its branch.
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

    /// From a release as `uname -r` prints it: `6.12.94+deb13-amd64`.
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
        /// What is not the same in all versions.
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
        "`MREMAP_DONTUNMAP` unlocks what it copies from and no more, which it cuts out and uncharges, and the copy does not join that; anonymous memory that it has emptied is numbered anew, so that it joins neighbours; seen in these stable releases and their successors, not yet in 6.1.190 and 6.12.113"
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
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::{String, ToString};

    #[test]
    fn releases_are_read() {
        for (release, version) in [
            ("6.18.44-fc-v669", Some((6, 18, 44))),
            ("6.1.0-50-cloud-amd64", Some((6, 1, 0))),
            ("6.12.94+deb13-cloud-amd64", Some((6, 12, 94))),
            ("6.12-amd64", Some((6, 12, 0))),
            ("7.0-rc1", Some((7, 0, 0))),
            ("6", None),
            ("", None),
            ("six.one", None),
            ("6.99999", None),
        ] {
            let expected =
                version.map(|(major, minor, patch)| KernelVersion::stable(major, minor, patch));
            assert_eq!(release.parse().ok(), expected, "{release}");
        }
    }

    #[test]
    fn rules_hold_from_their_version_on() {
        let rule = Rule::Mseal;
        assert!(!KernelVersion::new(6, 9).has(rule) && KernelVersion::new(6, 10).has(rule));
        assert!(KernelVersion::new(7, 0).has(rule) && !KernelVersion::new(5, 19).has(rule));
        assert!(KernelVersion::NEWEST.is_known() && !KernelVersion::new(7, 0).is_known());
        assert!(KernelVersion::stable(6, 18, 44).is_known());
    }

    #[test]
    fn corrections_of_stable_releases_are_theirs_alone() {
        let has = |major, minor, patch| {
            KernelVersion::stable(major, minor, patch).has(Rule::CopyStaysApart)
        };
        assert!(has(6, 12, 115) && has(6, 12, 200) && has(6, 1, 192) && has(6, 1, 193));
        assert!(!has(6, 12, 113) && !has(6, 13, 117) && !has(6, 18, 44));
        assert!(!has(6, 1, 190) && !has(6, 2, 0) && !has(6, 2, 200));
    }

    #[test]
    fn stable_releases_are_found_where_distributions_name_them() {
        for (release, version, expected) in [
            (
                "6.1.0-57-cloud-amd64",
                "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-3 (2026-11-26)",
                (6, 1, 192),
            ),
            (
                "6.12.118+deb13-amd64",
                "#1 SMP Debian 6.12.118-1",
                (6, 12, 118),
            ),
            (
                "6.8.0-31-generic",
                "#31-Ubuntu SMP Sat Apr 20 00:40:06 UTC 2024 Ubuntu 6.8.0-31.31-generic 6.8.1",
                (6, 8, 1),
            ),
            (
                "6.12.9-200.fc41.x86_64",
                "#1 SMP Thu Jan  9 16:05:40 UTC 2025",
                (6, 12, 9),
            ),
            // Another branch, no third number, a date and the release's own 0 tell nothing.
            (
                "6.1.0-57-amd64",
                "Debian 6.12.3-1 6.1 6.1.0 2026.1.9",
                (6, 1, 0),
            ),
            // What the release says itself goes first.
            ("6.18.44", "built from 6.18.43", (6, 18, 44)),
        ] {
            let expected = KernelVersion::stable(expected.0, expected.1, expected.2);
            assert_eq!(KernelVersion::from_uname(release, version), Ok(expected));
        }
        let none = KernelVersion::from_uname("", "Debian 6.1.192-3");
        assert_eq!(none, Err(NoVersion));
    }

    /// As 6.1.176, 6.1.192, 6.12.118, 6.16.12 and 6.18.44 did it: two areas of four pages with a page between them, into which the lower one grows.
    #[test]
    fn what_grows_takes_in_an_untouched_area_since_6_16() {
        use crate::{AddressSpace, Call, Config, FileArg, Layout, Limits};
        let at = |page: u64| 0x1_0000_0000 + (page << 12);
        let joins = |minor, lower_is_written, upper_is_written, in_child| {
            let config = Config {
                kernel: KernelVersion::new(6, minor),
                ..Config::default()
            };
            let mut space =
                AddressSpace::new(config, Limits::default(), Layout::default()).unwrap();
            for page in [0, 5] {
                let mmap = Call::Mmap {
                    addr: at(page),
                    len: 4 << 12,
                    prot: 3,
                    flags: 0x32,
                    file: FileArg::None,
                    offset: 0,
                };
                space.perform(&mmap).unwrap();
            }
            for (page, is_written) in [(0, lower_is_written), (5, upper_is_written)] {
                if is_written {
                    space.fault(at(page), true).unwrap();
                }
            }
            if in_child {
                space = space.fork().unwrap();
            }
            let mremap = Call::Mremap {
                old_addr: at(3),
                old_len: 1 << 12,
                new_len: 2 << 12,
                flags: 0,
                new_addr: 0,
            };
            assert_eq!(space.perform(&mremap), Ok(at(3)));
            space.check().unwrap();
            space.areas().count() == 1
        };
        for in_child in [false, true] {
            for minor in [1, 12, 15] {
                assert!(!joins(minor, true, false, in_child), "6.{minor}");
            }
            assert!(joins(16, true, false, in_child) && joins(18, true, false, in_child));
            for minor in [1, 18] {
                assert!(joins(minor, false, false, in_child), "6.{minor}");
                assert!(!joins(minor, true, true, in_child), "6.{minor}");
                assert_eq!(joins(minor, false, true, in_child), !in_child, "6.{minor}");
            }
        }
    }

    /// As the two releases did it: 16 pages at page 16, of which `from..from + len` are copied to page `to`.
    #[test]
    fn copies_join_what_they_are_of_or_stay_apart() {
        use crate::{AddressSpace, Call, Config, FileArg, Layout, Limits};
        const FIXED: u64 = 0x32;
        const LOCKED: u64 = 0x2000;
        let at = |page: u64| 0x1_0000_0000 + (page << 12);
        let copied = |kernel, flags, from, len: u64, to| {
            let config = Config {
                kernel,
                ..Config::default()
            };
            let mut space =
                AddressSpace::new(config, Limits::default(), Layout::default()).unwrap();
            let mmap = Call::Mmap {
                addr: at(16),
                len: 16 << 12,
                prot: 0,
                flags: FIXED | flags,
                file: FileArg::None,
                offset: 0,
            };
            space.perform(&mmap).unwrap();
            let mremap = Call::Mremap {
                old_addr: at(from),
                old_len: len << 12,
                new_len: len << 12,
                flags: 7,
                new_addr: at(to),
            };
            assert_eq!(space.perform(&mremap), Ok(at(to)));
            space.check().unwrap();
            let pages = |address| (address - at(0)) >> 12;
            let areas: alloc::vec::Vec<_> = space
                .areas()
                .map(|area| (pages(area.start), pages(area.end)))
                .collect();
            (areas, space.stats().pages.locked)
        };
        type Areas = &'static [(u64, u64)];
        let rows: [(u64, u64, u64, u64, Areas, Areas); 10] = [
            (0, 20, 4, 32, &[(16, 36)], &[(16, 32), (32, 36)]),
            (0, 20, 4, 12, &[(12, 32)], &[(12, 16), (16, 32)]),
            (0, 24, 4, 15, &[(15, 32)], &[(15, 19), (19, 32)]),
            (0, 24, 4, 28, &[(16, 32)], &[(16, 28), (28, 32)]),
            (0, 16, 16, 32, &[(16, 48)], &[(16, 32), (32, 48)]),
            (
                0,
                20,
                4,
                100,
                &[(16, 32), (100, 104)],
                &[(16, 32), (100, 104)],
            ),
            (
                LOCKED,
                20,
                4,
                100,
                &[(16, 32), (100, 104)],
                &[(16, 20), (20, 24), (24, 32), (100, 104)],
            ),
            (
                LOCKED,
                20,
                4,
                32,
                &[(16, 36)],
                &[(16, 20), (20, 24), (24, 36)],
            ),
            (
                LOCKED,
                28,
                4,
                32,
                &[(16, 36)],
                &[(16, 28), (28, 32), (32, 36)],
            ),
            (
                LOCKED,
                20,
                4,
                12,
                &[(12, 32)],
                &[(12, 20), (20, 24), (24, 32)],
            ),
        ];
        for (flags, from, len, to, before, after) in rows {
            let row = (flags, from, len, to);
            for (minor, old, new) in [(12, 113, 115), (1, 190, 192)] {
                let [old, new] = [old, new].map(|patch| KernelVersion::stable(6, minor, patch));
                assert_eq!(copied(old, flags, from, len, to).0, before, "{row:?}");
                let (areas, locked) = copied(new, flags, from, len, to);
                assert_eq!(areas, after, "{new}: {row:?}");
                assert_eq!(locked, if flags == 0 { 0 } else { 16 }, "{new}: {row:?}");
            }
        }
    }

    /// As 6.1.192 and 6.12.118 did it: a copy between what it is of and another area that it could join.
    #[test]
    fn copies_beside_what_they_are_of_join_others_or_nothing() {
        use crate::{AddressSpace, Call, Config, FileArg, Layout, Limits};
        let at = |page: u64| 0x1_0000_0000 + (page << 12);
        let copied = |kernel, maps: &[(u64, u64)], from, to| {
            let config = Config {
                kernel,
                ..Config::default()
            };
            let mut space =
                AddressSpace::new(config, Limits::default(), Layout::default()).unwrap();
            for &(page, pages) in maps {
                let mmap = Call::Mmap {
                    addr: at(page),
                    len: pages << 12,
                    prot: 3,
                    flags: 0x32,
                    file: FileArg::None,
                    offset: 0,
                };
                space.perform(&mmap).unwrap();
            }
            let mremap = Call::Mremap {
                old_addr: at(from),
                old_len: 4 << 12,
                new_len: 4 << 12,
                flags: 7,
                new_addr: at(to),
            };
            assert_eq!(space.perform(&mremap), Ok(at(to)));
            space.check().unwrap();
            let pages = |address| (address - at(0)) >> 12;
            space
                .areas()
                .map(|area| (pages(area.start), pages(area.end)))
                .collect::<alloc::vec::Vec<_>>()
        };
        type Areas = &'static [(u64, u64)];
        let rows: [(Areas, u64, u64, Areas, Areas); 6] = [
            (
                &[(16, 32)],
                20,
                24,
                &[(16, 24), (24, 28), (28, 48)],
                &[(16, 24), (24, 48)],
            ),
            (
                &[(16, 32)],
                28,
                24,
                &[(16, 24), (24, 28), (28, 48)],
                &[(16, 28), (28, 48)],
            ),
            (
                &[(16, 8), (28, 4)],
                18,
                24,
                &[(16, 24), (24, 28), (28, 32)],
                &[(16, 24), (24, 32)],
            ),
            (
                &[(16, 8), (8, 4)],
                18,
                12,
                &[(8, 12), (12, 16), (16, 24)],
                &[(8, 16), (16, 24)],
            ),
            (
                &[(16, 8), (100, 4), (108, 4)],
                18,
                104,
                &[(16, 24), (100, 112)],
                &[(16, 24), (100, 112)],
            ),
            (
                &[(16, 8), (108, 4)],
                18,
                104,
                &[(16, 24), (104, 112)],
                &[(16, 24), (104, 112)],
            ),
        ];
        for (maps, from, to, alone, joined) in rows {
            let row = (maps, from, to);
            let older = copied(KernelVersion::stable(6, 1, 192), maps, from, to);
            assert_eq!(older, alone, "{row:?}");
            let newer = copied(KernelVersion::stable(6, 12, 118), maps, from, to);
            assert_eq!(newer, joined, "{row:?}");
        }
    }

    /// As 6.1.192 and 6.12.118 did it, and 6.1.176 and 6.12.94 did not: what was moved and then emptied, with a new mapping beside it.
    #[test]
    fn what_a_copy_has_emptied_is_numbered_anew() {
        use crate::{AddressSpace, Call, Config, FileArg, Layout, Limits};
        let at = |page: u64| 0x1_0000_0000 + (page << 12);
        let areas = |minor, patch, copied: u64, below: bool| {
            let config = Config {
                kernel: KernelVersion::stable(6, minor, patch),
                ..Config::default()
            };
            let mut space =
                AddressSpace::new(config, Limits::default(), Layout::default()).unwrap();
            let mmap = |page, pages: u64| Call::Mmap {
                addr: at(page),
                len: pages << 12,
                prot: 3,
                flags: 0x32,
                file: FileArg::None,
                offset: 0,
            };
            let mremap = |page, pages: u64, flags, to| Call::Mremap {
                old_addr: at(page),
                old_len: pages << 12,
                new_len: pages << 12,
                flags,
                new_addr: at(to),
            };
            space.perform(&mmap(16, 4)).unwrap();
            space.fault(at(16), true).unwrap();
            space.perform(&mremap(16, 4, 3, 40)).unwrap();
            space.perform(&mremap(40, copied, 7, 100)).unwrap();
            space
                .perform(&mmap(if below { 36 } else { 44 }, 4))
                .unwrap();
            space.check().unwrap();
            space.areas().count()
        };
        for below in [false, true] {
            for (minor, patch) in [(1, 192), (12, 118)] {
                assert_eq!(areas(minor, patch, 4, below), 2, "6.{minor}.{patch}");
                // Of which a part was copied has pages that it may have elsewhere.
                assert_eq!(areas(minor, patch, 2, below), 3, "6.{minor}.{patch}");
            }
            for (minor, patch) in [(1, 176), (12, 94), (18, 44)] {
                assert_eq!(areas(minor, patch, 4, below), 3, "6.{minor}.{patch}");
            }
        }
    }

    #[test]
    fn a_mapping_without_a_place_may_have_taken_a_key() {
        use crate::{AddressSpace, Call, Config, FileArg, Layout, Limits};
        for (minor, next) in [(1, 1), (12, 2), (18, 2)] {
            let config = Config {
                kernel: KernelVersion::new(6, minor),
                pkeys: true,
                ..Config::default()
            };
            let mut space =
                AddressSpace::new(config, Limits::default(), Layout::default()).unwrap();
            let amid_a_page = Call::Mmap {
                addr: 0x1_0000_0473,
                len: 0x1000,
                prot: 4,
                flags: 0x32,
                file: FileArg::None,
                offset: 0,
            };
            assert_eq!(space.perform(&amid_a_page), Err(crate::Errno::EINVAL));
            let alloc = Call::PkeyAlloc {
                flags: 0,
                rights: 0,
            };
            assert_eq!(space.perform(&alloc), Ok(next), "6.{minor}");
        }
    }

    #[test]
    fn lengths_beyond_the_end_of_addresses_are_as_the_numbers_wrap() {
        use crate::{AddressSpace, Call, Config, Errno, FileArg, Layout, Limits};
        for (minor, old_len, new_len, expected) in [
            // What is left of 6.1: the range that is unmapped begins below all addresses, or where nothing is.
            (1, u64::MAX << 12, 1 << 63, Err(Errno::EINVAL)),
            (1, u64::MAX << 12, u64::MAX << 13, Ok(0x1_0000_0000)),
            (12, u64::MAX << 12, u64::MAX << 13, Ok(0x1_0000_0000)),
            (18, u64::MAX << 12, u64::MAX << 13, Err(Errno::EINVAL)),
        ] {
            let config = Config {
                kernel: KernelVersion::new(6, minor),
                ..Config::default()
            };
            let mut space =
                AddressSpace::new(config, Limits::default(), Layout::default()).unwrap();
            let mmap = Call::Mmap {
                addr: 0x1_0000_0000,
                len: 0x1000,
                prot: 0,
                flags: 0x32,
                file: FileArg::None,
                offset: 0,
            };
            space.perform(&mmap).unwrap();
            let mremap = Call::Mremap {
                old_addr: 0x1_0000_0000,
                old_len,
                new_len,
                flags: 0,
                new_addr: 0,
            };
            assert_eq!(space.perform(&mremap), expected, "6.{minor} {new_len:x}");
        }
    }

    /// The page for people lists the table, row by row.
    #[test]
    fn the_page_lists_every_rule() {
        let mut table = String::from("| since | rule |\n|---|---|\n");
        for (versions, text) in RULES {
            let since: alloc::vec::Vec<_> = versions.iter().map(ToString::to_string).collect();
            table += &format!("| {} | {text} |\n", since.join(", "));
        }
        let page = include_str!("../docs/kernels.md");
        assert!(
            page.contains(&table),
            "docs/kernels.md should have:\n{table}"
        );
    }
}
