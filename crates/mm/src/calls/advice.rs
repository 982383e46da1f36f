//! The values of `advice`: one table for `madvise(2)` and `process_madvise(2)`.
//!
//! A new value takes three edits: a line in the table of [`abi`](crate::abi), from which [`KnownAdvice`] is generated, a row of
//! [`KnownAdvice::spec`], and an arm of `AddressSpace::applies` in `madvise.rs`, which says on which VMAs it has an effect. Both matches are
//! exhaustive, so a forgotten arm does not compile. If the owner of the pages must be notified of something new, [`PageAdvice`] gets a variant.

use crate::abi::KnownAdvice;
use crate::config::Config;
use crate::flags::VmFlags;
use crate::kernel::Rule;
use crate::pages::PageAdvice;

/// The effect of advice on a part of a VMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Flags of the VMA change.
    Flags {
        sets: VmFlags,
        clears: VmFlags,
        /// The advice of which the owner of the pages is notified if the flags differ afterwards and the VMA has private pages.
        pages: Option<PageAdvice>,
    },
    /// The pages change; the VMA keeps its attributes.
    Pages(PageAdvice),
    /// The pages are faulted in.
    Populate { write: bool },
}

/// A condition for the kernel to accept advice at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    /// Merging of equal pages ([`Config::ksm`]).
    Ksm,
    /// Transparent huge pages ([`Config::transparent_huge_pages`]).
    HugePages,
    /// A version of the kernel.
    Kernel(Rule),
}

impl Needs {
    /// Returns `true` if the configuration has it.
    pub(super) fn are_met(self, config: &Config) -> bool {
        match self {
            Needs::Nothing => true,
            Needs::Ksm => config.ksm,
            Needs::HugePages => config.transparent_huge_pages,
            Needs::Kernel(rule) => config.kernel.has(rule),
        }
    }
}

/// The row of one value in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) effect: Effect,
    /// Contents of pages may be lost: a sealed VMA may refuse the advice.
    pub(super) loses_contents: bool,
    pub(super) needs: Needs,
}

impl Spec {
    const fn new(effect: Effect) -> Self {
        Spec {
            effect,
            loses_contents: false,
            needs: Needs::Nothing,
        }
    }

    const fn flags(sets: VmFlags, clears: VmFlags) -> Self {
        Self::new(Effect::Flags {
            sets,
            clears,
            pages: None,
        })
    }

    const fn pages(advice: PageAdvice) -> Self {
        Self::new(Effect::Pages(advice))
    }

    const fn losing_contents(self) -> Self {
        Spec {
            loses_contents: true,
            ..self
        }
    }

    const fn with(self, needs: Needs) -> Self {
        Spec { needs, ..self }
    }
}

impl KnownAdvice {
    /// Returns the row of this value.
    pub(super) const fn spec(self) -> Spec {
        const NONE: VmFlags = VmFlags::empty();
        const GUARDS: Needs = Needs::Kernel(Rule::GuardMarkers);
        match self {
            Self::Normal => Spec::flags(NONE, VmFlags::SEQ_READ.union(VmFlags::RAND_READ)),
            Self::Random => Spec::flags(VmFlags::RAND_READ, VmFlags::SEQ_READ),
            Self::Sequential => Spec::flags(VmFlags::SEQ_READ, VmFlags::RAND_READ),
            Self::WillNeed => Spec::pages(PageAdvice::WillNeed),
            Self::DontNeed | Self::DontNeedLocked => {
                Spec::pages(PageAdvice::DontNeed).losing_contents()
            }
            Self::Free => Spec::pages(PageAdvice::Free).losing_contents(),
            Self::Remove => Spec::pages(PageAdvice::Remove).losing_contents(),
            Self::DontFork => Spec::flags(VmFlags::DONTCOPY, NONE).losing_contents(),
            Self::DoFork => Spec::flags(NONE, VmFlags::DONTCOPY),
            Self::Mergeable => Spec::flags(VmFlags::MERGEABLE, NONE).with(Needs::Ksm),
            Self::Unmergeable => Spec::new(Effect::Flags {
                sets: NONE,
                clears: VmFlags::MERGEABLE,
                pages: Some(PageAdvice::Unmerge),
            })
            .with(Needs::Ksm),
            Self::HugePage => {
                Spec::flags(VmFlags::HUGEPAGE, VmFlags::NOHUGEPAGE).with(Needs::HugePages)
            }
            Self::NoHugePage => {
                Spec::flags(VmFlags::NOHUGEPAGE, VmFlags::HUGEPAGE).with(Needs::HugePages)
            }
            Self::DontDump => Spec::flags(VmFlags::DONTDUMP, NONE),
            Self::DoDump => Spec::flags(NONE, VmFlags::DONTDUMP),
            Self::WipeOnFork => Spec::flags(VmFlags::WIPEONFORK, NONE).losing_contents(),
            Self::KeepOnFork => Spec::flags(NONE, VmFlags::WIPEONFORK),
            Self::Cold => Spec::pages(PageAdvice::Cold),
            Self::PageOut => Spec::pages(PageAdvice::PageOut),
            Self::PopulateRead => Spec::new(Effect::Populate { write: false }),
            Self::PopulateWrite => Spec::new(Effect::Populate { write: true }),
            Self::Collapse => Spec::pages(PageAdvice::Collapse).with(Needs::HugePages),
            Self::GuardInstall => {
                (Spec::pages(PageAdvice::GuardInstall).losing_contents()).with(GUARDS)
            }
            Self::GuardRemove => Spec::pages(PageAdvice::GuardRemove).with(GUARDS),
        }
    }

    /// Returns `true` if the owner of the pages may be notified of the advice, and may refuse it.
    pub(super) const fn notifies(self) -> bool {
        match self.spec().effect {
            Effect::Flags { pages, .. } => pages.is_some(),
            Effect::Pages(_) => true,
            // Populating is no change that an owner refuses.
            Effect::Populate { .. } => false,
        }
    }
}
