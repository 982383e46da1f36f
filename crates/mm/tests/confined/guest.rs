//! The calls of a hostile guest.

use std::num::NonZeroU32;
use std::ops::Range;

use samara_mm::{Call, Counted, File, FileArg, FileId, FileKind, ShmSegment, abi};

use crate::PAGE;
use crate::rng::Rng;

/// Bytes of a huge page.
const HUGE: u64 = 2 << 20;

fn file(kind: FileKind, inode: u64) -> Counted<File> {
    let (major, minor) = (8, 1);
    let id = FileId {
        major,
        minor,
        inode,
    };
    let file = File {
        kind,
        ..File::new(id, "/file".into())
    };
    Counted::try_new(file).unwrap()
}

/// The objects that a guest can name.
pub(crate) struct Guest {
    range: Range<u64>,
    pub(crate) random: Rng,
    files: Vec<Counted<File>>,
    segments: Vec<Counted<ShmSegment>>,
}

impl Guest {
    pub(crate) fn new(range: Range<u64>, seed: u64) -> Self {
        let kinds = [
            FileKind::Regular,
            FileKind::Shmem,
            FileKind::DevZero,
            FileKind::Stacked,
            FileKind::WholeDevice,
            FileKind::HugeTlb(HUGE),
        ];
        let sizes = [1, PAGE, 0x5123, range.end - range.start, HUGE, 1 << 40];
        let segment = |size| {
            let kind = match size {
                HUGE => FileKind::HugeTlb(HUGE),
                _ => FileKind::Shmem,
            };
            let file = file(kind, 77 + size);
            Counted::try_new(ShmSegment { file, size }).unwrap()
        };
        Guest {
            range,
            random: Rng::new(seed),
            files: (kinds.into_iter().zip(1..))
                .map(|(kind, inode)| file(kind, inode))
                .collect(),
            segments: sizes.into_iter().map(segment).collect(),
        }
    }

    /// An address: mostly in the range, often at its ends, or where a host has its own things.
    pub(crate) fn address(&mut self) -> u64 {
        let Range { start, end } = self.range;
        let random = &mut self.random;
        let near = random.pick(&[
            start,
            end,
            0,
            0x1_0000,
            0x4000_0000,
            0x8000_0000,
            1 << 32,
            0x5555_5555_9000,
            0x7fff_ffff_f000,
            1 << 47,
            1 << 56,
            1 << 63,
            0u64.wrapping_sub(PAGE),
        ]);
        let address = match random.below(8) {
            0..4 => start + random.below((end - start) / PAGE) * PAGE,
            4 => random
                .pick(&[start, end])
                .wrapping_add(random.below(9).wrapping_sub(4).wrapping_mul(PAGE)),
            5 => near.wrapping_add(random.below(9).wrapping_sub(4).wrapping_mul(PAGE)),
            6 => near,
            _ => random.next() >> random.below(64),
        };
        match random.once_in(12) {
            true => address.wrapping_add(random.next() % PAGE),
            false => address,
        }
    }

    fn len(&mut self) -> u64 {
        let size = self.range.end - self.range.start;
        let random = &mut self.random;
        match random.below(8) {
            0..5 => (1 + random.below(8)) * PAGE,
            5 => random.pick(&[0, 1, size, size - PAGE, size + PAGE, 2 << 20, u64::MAX]),
            6 => random.next() >> random.below(64),
            // From the one to the other, wherever that is.
            _ => {
                let (from, to) = (self.address(), self.address());
                to.wrapping_sub(from)
            }
        }
    }

    /// Any bits, few at once.
    fn bits(&mut self) -> u64 {
        let random = &mut self.random;
        match random.below(6) {
            0 => random.next(),
            1 => 0,
            _ => (0..random.below(4)).fold(0, |bits, _| bits | 1 << random.below(21)),
        }
    }

    fn map_flags(&mut self) -> u64 {
        let random = &mut self.random;
        let kind = random.pick(&[abi::MAP_PRIVATE, abi::MAP_SHARED, abi::MAP_DROPPABLE]);
        let more = random.pick(&[
            0,
            0,
            0,
            0,
            abi::MAP_FIXED,
            abi::MAP_FIXED,
            abi::MAP_FIXED_NOREPLACE,
            abi::MAP_32BIT,
            abi::MAP_32BIT,
            abi::MAP_GROWSDOWN,
            abi::MAP_GROWSDOWN | abi::MAP_FIXED,
            abi::MAP_HUGETLB,
            abi::MAP_HUGETLB | abi::MAP_FIXED,
            abi::MAP_POPULATE,
            abi::MAP_LOCKED,
        ]);
        let file = random.pick(&[abi::MAP_ANONYMOUS, abi::MAP_ANONYMOUS, 0]);
        let odd = if random.once_in(8) { self.bits() } else { 0 };
        (kind | more | file) ^ odd
    }

    pub(crate) fn call(&mut self) -> Call {
        let (addr, len) = (self.address(), self.len());
        let random = &mut self.random;
        let context = NonZeroU32::MIN.saturating_add(random.below(2) as u32);
        let asynchronous = random.once_in(2);
        let kind = if random.once_in(3) {
            random.below(2)
        } else {
            random.below(32)
        };
        match kind {
            0 | 28 => Call::Mmap {
                addr,
                len,
                prot: self.random.below(16),
                flags: self.map_flags(),
                file: match self.random.below(8) {
                    0 => FileArg::Bad,
                    1..4 => FileArg::None,
                    file => FileArg::File(self.files[file as usize - 2].clone()),
                },
                offset: match self.random.below(4) {
                    0 => self.address(),
                    _ => self.random.below(4) * PAGE,
                },
            },
            1 | 29 => Call::Mremap {
                old_addr: addr,
                old_len: len,
                new_len: if self.random.once_in(2) {
                    len
                } else {
                    self.len()
                },
                flags: match self.random.below(8) {
                    0 => self.bits(),
                    flags => flags,
                },
                new_addr: self.address(),
            },
            2 | 30 => Call::Brk { addr },
            3 => Call::Munmap { addr, len },
            4 => Call::Mprotect {
                addr,
                len,
                prot: if random.once_in(4) {
                    random.next()
                } else {
                    random.below(8)
                },
                pkey: random.below(18) as i32 - 1,
            },
            5 | 31 => Call::Madvise {
                addr,
                len,
                advice: random.pick(&[0, 3, 4, 8, 9, 10, 14, 20, 21, 22, 23, 24, 25, 102, 103, -1]),
            },
            6 => Call::ProcessMadvise {
                ranges: (0..random.below(4))
                    .map(|_| (self.address(), self.len()))
                    .collect(),
                advice: self.random.pick(&[4, 20, 21, 24, 102, 103]),
                flags: self.random.below(2),
            },
            7 => Call::Mlock {
                addr,
                len,
                flags: self.random.below(3),
            },
            8 => Call::Munlock { addr, len },
            9 => Call::Mlockall {
                flags: random.below(8),
            },
            10 => Call::Munlockall,
            11 => Call::Msync {
                addr,
                len,
                flags: random.below(8),
            },
            12 => Call::Mincore { addr, len },
            // What is sealed stays: not often.
            13 if random.once_in(50) => Call::Mseal {
                addr,
                len: PAGE,
                flags: 0,
            },
            13 => Call::Mseal {
                addr,
                len,
                flags: 1,
            },
            14 => Call::RemapFilePages {
                addr,
                len,
                prot: random.below(2),
                pgoff: random.next() >> random.below(64),
                flags: self.bits(),
            },
            15 => Call::Shmat {
                segment: (!random.once_in(9))
                    .then(|| self.segments[random.below(6) as usize].clone()),
                addr: if random.once_in(3) { 0 } else { addr },
                flags: random.below(16) << 12,
            },
            16 => Call::Shmdt { addr },
            17 => Call::SetVmaName {
                addr,
                len,
                name: random.once_in(2).then(|| "name".into()),
            },
            18 => Call::Mbind {
                addr,
                len,
                mode: random.below(7),
                nodes: random.below(4),
                flags: random.below(8),
            },
            19 => Call::SetMempolicyHomeNode {
                addr,
                len,
                home: random.below(2),
                flags: 0,
            },
            20 => Call::PkeyAlloc {
                flags: 0,
                rights: random.below(4),
            },
            21 => Call::PkeyFree {
                pkey: random.below(16) as i32,
            },
            22 if random.once_in(500) => Call::SetMdwe {
                bits: random.below(4),
            },
            22 | 23 => Call::SetMemoryMerge {
                on: random.below(2),
            },
            24 => Call::UffdRegister {
                context,
                asynchronous,
                addr,
                len,
                mode: random.below(8),
            },
            25 => Call::UffdUnregister {
                context,
                asynchronous,
                addr,
                len,
            },
            26 => Call::UffdClose { context },
            _ => Call::SetMm {
                start_brk: addr,
                brk: if random.once_in(2) {
                    addr
                } else {
                    self.address()
                },
                data_size: self.len(),
                stack_top: self.address(),
            },
        }
    }
}
