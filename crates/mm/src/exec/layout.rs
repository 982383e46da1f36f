//! Addresses that are neither in a file nor random.

use crate::config::{Config, Limits};
use crate::flags::{PAGE_SIZE, page_align};

use super::headers::Class;
use super::random::{Base, Choice, Random, place};
use super::settings::{Architecture, Personality, Randomize, Settings};

/// Least and (as a share of user space, in sixths) most room for the stack.
const LEAST_ROOM: u64 = 128 << 20;
const MOST_SIXTHS: u64 = 5;

/// The frame into which a program is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) class: Class,
    pub(super) architecture: Architecture,
    /// First address above what is used of user space unless asked.
    pub(super) task_size: u64,
    /// First address of it.
    task_base: u64,
    /// Bases are drawn by lot.
    pub(super) is_random: bool,
    /// So is the heap.
    moves_heap: bool,
    /// Placement goes upwards.
    pub(super) is_legacy: bool,
    /// The number of possible values of a base.
    places: u64,
}

impl Frame {
    pub(super) fn new(
        class: Class,
        config: &Config,
        settings: &Settings,
        personality: Personality,
    ) -> Self {
        /// The end of user space of programs with 32-bit addresses, and of those with the
        /// personality of 3 GiB.
        const END_32: u64 = 0xffff_e000;
        const END_3GB: u64 = 0xc000_0000;
        let (task_size, bits) = match class {
            // Where there are 57 bits, only who asks by hints gets more than 47.
            Class::Elf64 => (config.task_size.min(config.window), settings.random_bits),
            Class::Elf32 if personality.contains(Personality::ADDR_LIMIT_3GB) => {
                (END_3GB, settings.random_bits_32)
            }
            Class::Elf32 => (END_32, settings.random_bits_32),
        };
        // Numbers drawn by lot are as large as user space is on Linux, and so is what they are added to.
        let is_random = settings.randomize != Randomize::Nothing
            && config.task_base == 0
            && !personality.contains(Personality::ADDR_NO_RANDOMIZE);
        Frame {
            class,
            architecture: settings.architecture,
            task_size: task_size.min(config.task_size),
            task_base: config.task_base,
            is_random,
            moves_heap: is_random && settings.randomize == Randomize::Everything,
            is_legacy: settings.legacy_layout
                || personality.contains(Personality::ADDR_COMPAT_LAYOUT),
            places: 1 << bits.min(40),
        }
    }

    /// Pages by which the end of the stack may be lowered, at most.
    pub(super) const fn stack_pages(self) -> u64 {
        match self.class {
            Class::Elf64 => 0x3f_ffff,
            Class::Elf32 => 0x7ff,
        }
    }

    /// Returns the bases of placement, downwards and upwards: below the stack and the space that
    /// its limit may need, and at a third of user space. One random number moves both.
    pub(super) fn mmap_bases<R: Random + ?Sized>(
        self,
        config: &Config,
        limits: &Limits,
        random: &mut R,
    ) -> (u64, u64) {
        let mut margin = config.stack_guard_gap;
        if self.is_random {
            margin += self.stack_pages() * PAGE_SIZE;
        }
        let size = self.task_size.saturating_sub(self.task_base);
        let most = size / 6 * MOST_SIXTHS;
        let room = (limits.stack.saturating_add(margin)).clamp(LEAST_ROOM.min(most), most);
        let highest = page_align(self.task_size - room);
        let lowest_up = self.task_base + page_align(size / 3);
        if !self.is_random {
            return (highest, lowest_up);
        }
        let count = self.places;
        let span = (count - 1) * PAGE_SIZE;
        let lowest = if self.is_legacy {
            lowest_up
        } else {
            highest.saturating_sub(span)
        };
        let choice = Choice {
            base: Base::Mmap,
            lowest,
            step: PAGE_SIZE,
            count,
        };
        let base = place(random, &choice);
        if self.is_legacy {
            (highest.saturating_sub(base - lowest_up), base)
        } else {
            (base, lowest_up.saturating_add(highest.saturating_sub(base)))
        }
    }

    /// Returns the base of position-independent programs that have an interpreter, and of the heaps
    /// of those that have none: at two thirds of user space. This need not be the start of a page.
    pub(super) const fn program_base(self) -> u64 {
        let size = self.task_size.saturating_sub(self.task_base);
        let distance = match self.class {
            Class::Elf64 => size / 3 * 2,
            // A sixteenth of the space above where placement would go upwards.
            Class::Elf32 => page_align(size / 3) + 0x100_0000,
        };
        self.task_base + distance
    }

    /// Returns the address of the first segment of a position-independent program that has an
    /// interpreter.
    pub(super) fn program_place<R: Random + ?Sized>(self, align: u64, random: &mut R) -> u64 {
        let lowest = self.program_base();
        let base = if self.is_random {
            let choice = Choice {
                base: Base::Program,
                lowest,
                step: PAGE_SIZE,
                count: self.places,
            };
            place(random, &choice)
        } else {
            lowest
        };
        base & !(align - 1)
    }

    /// Returns the start of the heap: `lowest`, or, if it is randomised, an address at least this
    /// many bytes behind it.
    pub(super) fn heap_place<R: Random + ?Sized>(
        self,
        lowest: u64,
        distance: u64,
        random: &mut R,
    ) -> u64 {
        if !self.moves_heap {
            return lowest;
        }
        let range: u64 = match self.class {
            Class::Elf64 => 1 << 30,
            Class::Elf32 => 32 << 20,
        };
        let choice = Choice {
            base: Base::Heap,
            lowest: lowest.saturating_add(distance),
            step: PAGE_SIZE,
            count: range / PAGE_SIZE,
        };
        place(random, &choice)
    }
}
