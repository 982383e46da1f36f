//! Pages by kind, kept up with every change at the cost of one addition.
//!
//! The kinds that limits check (data, locked, …) overlap: a page may count for several. So pages
//! are counted by [`Class`], of which each VMA has exactly one, and kinds are added up on demand.

use crate::flags::VmFlags;

/// Pages by kind, as `/proc/PID/status` counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageCounts {
    /// All pages (`VmSize`).
    pub total: u64,
    /// Private writable pages that are no stack (`VmData`).
    pub data: u64,
    /// Executable pages that are not writable (`VmExe` and `VmLib`).
    pub exec: u64,
    /// Pages of areas that grow downwards (`VmStk`).
    pub stack: u64,
    /// Locked pages (`VmLck`).
    pub locked: u64,
    /// Pages counted against the commit limit.
    pub accounted: u64,
}

/// The flags that decide which kinds the pages of a VMA count for, as a small number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Class(u8);

/// The flags of a class from bit 0, and how many bits down each moves from its place in
/// [`VmFlags`].
const FLAGS: [(VmFlags, u32); 6] = [
    (VmFlags::WRITE, 1),
    (VmFlags::EXEC, 1),
    (VmFlags::SHARED, 1),
    (VmFlags::GROWSDOWN, 5),
    (VmFlags::LOCKED, 9),
    (VmFlags::ACCOUNT, 15),
];
const CLASSES: usize = 1 << FLAGS.len();

impl Class {
    #[inline(always)]
    pub(crate) const fn of(flags: VmFlags) -> Self {
        let bits = flags.bits();
        let mut class = 0;
        let mut i = 0;
        while i < FLAGS.len() {
            let (flag, down) = FLAGS[i];
            class |= ((bits & flag.bits()) >> down) as u8;
            i += 1;
        }
        Class(class)
    }

    /// Returns the flags that all VMAs of this class have.
    fn flags(self) -> VmFlags {
        let has = |i: usize| self.0 & 1 << i != 0;
        FLAGS
            .iter()
            .enumerate()
            .filter(|&(i, _)| has(i))
            .map(|(_, &(flag, _))| flag)
            .collect()
    }
}

/// The number of pages of all VMAs, by class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    total: u64,
    by_class: [u64; CLASSES],
}

impl Counts {
    pub(crate) const fn new() -> Self {
        Counts {
            total: 0,
            by_class: [0; CLASSES],
        }
    }

    /// Returns the number of all pages.
    #[inline]
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    #[inline(always)]
    pub(crate) fn add(&mut self, Class(class): Class, pages: u64) {
        self.total += pages;
        self.by_class[usize::from(class) % CLASSES] += pages;
    }

    #[inline(always)]
    pub(crate) fn sub(&mut self, Class(class): Class, pages: u64) {
        self.total -= pages;
        self.by_class[usize::from(class) % CLASSES] -= pages;
    }

    /// Returns the numbers by kind.
    pub(crate) fn kinds(&self) -> PageCounts {
        let mut kinds = PageCounts {
            total: self.total,
            ..PageCounts::default()
        };
        for (class, &pages) in (0..).zip(&self.by_class).filter(|(_, pages)| **pages > 0) {
            let flags = Class(class).flags();
            for (counts, kind) in [
                (flags.is_data(), &mut kinds.data),
                (flags.is_exec(), &mut kinds.exec),
                (flags.is_stack(), &mut kinds.stack),
                (flags.contains(VmFlags::LOCKED), &mut kinds.locked),
                (flags.contains(VmFlags::ACCOUNT), &mut kinds.accounted),
            ] {
                if counts {
                    *kind += pages;
                }
            }
        }
        kinds
    }
}

/// The pages of a few VMAs of at most two classes. Rarely there are more, and then only their total
/// is known.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    total: u64,
    /// Pages of two classes. Pages of others count in `total` only.
    first: u64,
    second: u64,
    first_class: Class,
    second_class: Class,
}

impl Tally {
    /// Returns the number of all pages.
    #[inline]
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    #[inline(always)]
    pub(crate) fn add(&mut self, class: Class, pages: u64) {
        self.total += pages;
        if self.first == 0 || self.first_class == class {
            self.first += pages;
            self.first_class = class;
        } else if self.second == 0 || self.second_class == class {
            self.second += pages;
            self.second_class = class;
        }
    }

    /// Calls `show` with the pages of each class. Returns `false`, without a call, if there are
    /// more than two classes.
    #[inline(always)]
    pub(crate) fn classes(&self, mut show: impl FnMut(Class, u64)) -> bool {
        if self.first + self.second != self.total {
            return false;
        }
        show(self.first_class, self.first);
        if self.second > 0 {
            show(self.second_class, self.second);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_has_its_flags() {
        for class in 0..CLASSES as u8 {
            assert_eq!(Class::of(Class(class).flags()), Class(class));
            let others = VmFlags::all() - FLAGS.iter().map(|&(flag, _)| flag).collect();
            assert_eq!(Class::of(Class(class).flags() | others), Class(class));
        }
    }

    #[test]
    fn kinds_are_those_of_the_flags() {
        for class in 0..CLASSES as u8 {
            let mut counts = Counts::new();
            counts.add(Class(class), 5);
            counts.add(Class(0), 1);
            let flags = Class(class).flags();
            let pages = |condition: bool| if condition { 5 } else { 0 };
            let kinds = PageCounts {
                total: 6,
                data: pages(flags.is_data()),
                exec: pages(flags.is_exec()),
                stack: pages(flags.is_stack()),
                locked: pages(flags.contains(VmFlags::LOCKED)),
                accounted: pages(flags.contains(VmFlags::ACCOUNT)),
            };
            assert_eq!(counts.kinds(), kinds);
            counts.sub(Class(class), 5);
            counts.sub(Class(0), 1);
            assert_eq!(counts, Counts::new());
        }
    }

    #[test]
    fn a_tally_knows_two_classes() {
        let mut tally = Tally::default();
        let mut shown = alloc::vec::Vec::new();
        assert!(tally.classes(|class, pages| shown.push((class, pages))));
        tally.add(Class(3), 1);
        tally.add(Class(5), 2);
        tally.add(Class(3), 4);
        shown.clear();
        assert!(tally.classes(|class, pages| shown.push((class, pages))));
        assert_eq!(shown, [(Class(3), 5), (Class(5), 2)]);
        tally.add(Class(0), 1);
        assert_eq!(tally.total(), 8);
        assert!(!tally.classes(|_, _| unreachable!()));
    }
}
