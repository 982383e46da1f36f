//! Addresses for a machine monitor's devices: what rust-vmm's `AddressAllocator` does with an interval tree whose nodes are free or taken,
//! over a maple tree instead. Only what is taken is stored; what is free are the gaps, and the tree finds one of a size without looking at each.
//!
//! `main` places the devices of a small machine, and compares a long random history with a bitmap.

use std::ops::RangeInclusive;

use maple_tree::MapleTree;

/// The wanted position of a range.
#[derive(Clone, Copy, Debug)]
enum Policy {
    Lowest,
    Highest,
    At(u64),
}

#[derive(Debug, PartialEq, Eq)]
enum Error {
    /// The space to manage is empty or reaches beyond the last address.
    Space,
    Size,
    /// Not a power of two.
    Alignment,
    /// The address that was asked for is not a multiple of the alignment.
    Unaligned,
    /// There is no such gap, or no such range was allocated.
    Unavailable,
    NoMemory,
}

struct AddressAllocator {
    space: RangeInclusive<u64>,
    taken: MapleTree<u64, ()>,
}

impl AddressAllocator {
    fn new(base: u64, size: u64) -> Result<Self, Error> {
        let above = size.checked_sub(1).ok_or(Error::Space)?;
        let end = base.checked_add(above).ok_or(Error::Space)?;
        Ok(Self {
            space: base..=end,
            // Allocation asks for gaps.
            taken: MapleTree::with_gaps(),
        })
    }

    fn allocate(
        &mut self,
        size: u64,
        align: u64,
        policy: Policy,
    ) -> Result<RangeInclusive<u64>, Error> {
        if size == 0 {
            return Err(Error::Size);
        }
        if !align.is_power_of_two() {
            return Err(Error::Alignment);
        }
        let space = self.space.clone();
        let first = match policy {
            Policy::Lowest => self.taken.gap_up_aligned(space, size, align, 0),
            Policy::Highest => self.taken.gap_down_aligned(space, size, align, 0),
            Policy::At(first) if first % align != 0 => return Err(Error::Unaligned),
            // The lowest gap within the range itself is that range, or none.
            Policy::At(first) => {
                let last = first.checked_add(size - 1).ok_or(Error::Unavailable)?;
                let inside = space.contains(&first) && space.contains(&last);
                inside
                    .then(|| self.taken.gap_up(first..=last, size))
                    .flatten()
            }
        };
        let first = first.ok_or(Error::Unavailable)?;
        let range = first..=first + (size - 1);
        let stored = self.taken.insert_range(range.clone(), ());
        stored.map_err(|_| Error::NoMemory)?;
        Ok(range)
    }

    /// Frees a range that was allocated as just this range.
    fn free(&mut self, range: &RangeInclusive<u64>) -> Result<(), Error> {
        match self.taken.get_range(*range.start()) {
            Some((found, ())) if found == *range => {}
            _ => return Err(Error::Unavailable),
        }
        let freed = self.taken.remove(*range.start());
        freed.map(drop).map_err(|_| Error::NoMemory)
    }
}

fn main() -> Result<(), Error> {
    const PAGE: u64 = 0x1000;
    let mut mmio = AddressAllocator::new(0xd000_0000, 0x3000_0000)?;
    let serial = mmio.allocate(8, 8, Policy::At(0xd000_0000))?;
    let disk = mmio.allocate(PAGE, PAGE, Policy::Lowest)?;
    let card = mmio.allocate(64 << 20, 64 << 20, Policy::Highest)?;
    assert_eq!(serial, 0xd000_0000..=0xd000_0007);
    assert_eq!(disk, 0xd000_1000..=0xd000_1fff);
    assert_eq!(card, 0xfc00_0000..=0xffff_ffff);
    let twice = mmio.allocate(PAGE, PAGE, Policy::At(0xd000_1000));
    assert_eq!(twice, Err(Error::Unavailable));
    mmio.free(&disk)?;
    assert_eq!(mmio.free(&disk), Err(Error::Unavailable));
    assert_eq!(mmio.allocate(PAGE, PAGE, Policy::Lowest)?, disk);

    against_a_bitmap(20_000)
}

/// Runs the same history here and over an array with a flag for each address.
fn against_a_bitmap(steps: u32) -> Result<(), Error> {
    const BASE: u64 = 0x100;
    const SIZE: u64 = 0x400;
    let mut allocator = AddressAllocator::new(BASE, SIZE)?;
    let mut taken = [false; SIZE as usize];
    let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    for _ in 0..steps {
        if random(2) == 0 && !ranges.is_empty() {
            let range = ranges.swap_remove(random(ranges.len() as u64) as usize);
            allocator.free(&range)?;
            range.for_each(|address| taken[(address - BASE) as usize] = false);
            continue;
        }
        let (size, align) = (1 + random(40), 1 << random(6));
        let free = |&first: &u64| {
            (0..size).all(|i| taken.get((first - BASE + i) as usize) == Some(&false))
        };
        let mut aligned = (BASE..BASE + SIZE).filter(|first| first % align == 0);
        let (policy, expected) = match random(3) {
            0 => (Policy::Lowest, aligned.find(free)),
            1 => (Policy::Highest, aligned.rfind(free)),
            _ => {
                let first = (BASE + random(SIZE)) / align * align;
                let here = first >= BASE && free(&first);
                (Policy::At(first), here.then_some(first))
            }
        };
        let found = allocator.allocate(size, align, policy);
        let expected = expected.map(|first| first..=first + size - 1);
        assert_eq!(found, expected.clone().ok_or(Error::Unavailable));
        if let Some(range) = expected {
            for address in range.clone() {
                taken[(address - BASE) as usize] = true;
            }
            ranges.push(range);
        }
    }
    println!(
        "{steps} steps, {} ranges at the end: the same as a bitmap's",
        ranges.len()
    );
    Ok(())
}

#[test]
fn runs() {
    assert_eq!(main(), Ok(()));
}
