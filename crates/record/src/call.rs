//! System calls with their arguments.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use samara_mm::{Call, Counted, File, FileArg, ShmSegment};

use crate::fields::{Fields, put, put_text};

/// Appends a call. `file` returns the number of a file.
pub fn put_call(out: &mut Vec<u8>, call: &Call, file: &mut dyn FnMut(&Counted<File>) -> u64) {
    let mut numbers = |kind: u8, values: &[u64]| {
        out.push(kind);
        for &value in values {
            put(out, value);
        }
    };
    match call {
        Call::Mmap {
            addr,
            len,
            prot,
            flags,
            file: argument,
            offset,
        } => {
            let descriptor = match argument {
                FileArg::None => 0,
                FileArg::Bad => 1,
                FileArg::File(known) => 2 + file(known),
            };
            numbers(1, &[*addr, *len, *prot, *flags, descriptor, *offset]);
        }
        Call::Munmap { addr, len } => numbers(2, &[*addr, *len]),
        Call::Mprotect {
            addr,
            len,
            prot,
            pkey,
        } => numbers(3, &[*addr, *len, *prot, *pkey as u32 as u64]),
        Call::Mremap {
            old_addr,
            old_len,
            new_len,
            flags,
            new_addr,
        } => numbers(4, &[*old_addr, *old_len, *new_len, *flags, *new_addr]),
        Call::Brk { addr } => numbers(5, &[*addr]),
        Call::Madvise { addr, len, advice } => numbers(6, &[*addr, *len, *advice as u32 as u64]),
        Call::Mlock { addr, len, flags } => numbers(7, &[*addr, *len, *flags]),
        Call::Munlock { addr, len } => numbers(8, &[*addr, *len]),
        Call::Mlockall { flags } => numbers(9, &[*flags]),
        Call::Munlockall => numbers(10, &[]),
        Call::Msync { addr, len, flags } => numbers(11, &[*addr, *len, *flags]),
        Call::Mincore { addr, len } => numbers(12, &[*addr, *len]),
        Call::Mseal { addr, len, flags } => numbers(13, &[*addr, *len, *flags]),
        Call::RemapFilePages {
            addr,
            len,
            prot,
            pgoff,
            flags,
        } => numbers(14, &[*addr, *len, *prot, *pgoff, *flags]),
        Call::Shmat {
            segment,
            addr,
            flags,
        } => {
            let (number, size) = match segment {
                Some(segment) => (1 + file(&segment.file), segment.size),
                None => (0, 0),
            };
            numbers(15, &[*addr, *flags, number, size]);
        }
        Call::Shmdt { addr } => numbers(16, &[*addr]),
        Call::SetVmaName { addr, len, name } => {
            numbers(17, &[*addr, *len, u64::from(name.is_some())]);
            put_text(out, name.as_deref().unwrap_or("").as_bytes());
        }
        Call::Mbind {
            addr,
            len,
            mode,
            nodes,
            flags,
        } => numbers(18, &[*addr, *len, *mode, *nodes, *flags]),
        Call::SetMempolicyHomeNode {
            addr,
            len,
            home,
            flags,
        } => numbers(28, &[*addr, *len, *home, *flags]),
        Call::PkeyAlloc { flags, rights } => numbers(19, &[*flags, *rights]),
        Call::PkeyFree { pkey } => numbers(20, &[*pkey as u32 as u64]),
        Call::SetMdwe { bits } => numbers(21, &[*bits]),
        Call::SetMemoryMerge { on } => numbers(22, &[*on]),
        Call::ProcessMadvise {
            ranges,
            advice,
            flags,
        } => {
            numbers(23, &[*advice as u32 as u64, *flags, ranges.len() as u64]);
            for (addr, len) in ranges {
                put(out, *addr);
                put(out, *len);
            }
        }
        Call::UffdRegister {
            context,
            asynchronous,
            addr,
            len,
            mode,
        } => numbers(
            24,
            &[
                u64::from(context.get()),
                u64::from(*asynchronous),
                *addr,
                *len,
                *mode,
            ],
        ),
        Call::UffdUnregister {
            context,
            asynchronous,
            addr,
            len,
        } => numbers(
            25,
            &[
                u64::from(context.get()),
                u64::from(*asynchronous),
                *addr,
                *len,
            ],
        ),
        Call::UffdClose { context } => numbers(26, &[u64::from(context.get())]),
        Call::SetMm {
            start_brk,
            brk,
            data_size,
            stack_top,
        } => numbers(27, &[*start_brk, *brk, *data_size, *stack_top]),
        // This version of the format cannot express the call. A reader rejects this kind.
        _ => numbers(u8::MAX, &[]),
    }
}

/// Reads a call. `files` are the files read so far, by their numbers.
pub fn call(fields: &mut Fields<'_>, files: &[Counted<File>]) -> Option<Call> {
    let known =
        |number: u64| -> Option<&Counted<File>> { files.get(usize::try_from(number).ok()?) };
    let kind = fields.byte()?;
    let f = fields;
    Some(match kind {
        1 => Call::Mmap {
            addr: f.number()?,
            len: f.number()?,
            prot: f.number()?,
            flags: f.number()?,
            file: match f.number()? {
                0 => FileArg::None,
                1 => FileArg::Bad,
                number => FileArg::File(known(number - 2)?.clone()),
            },
            offset: f.number()?,
        },
        2 => Call::Munmap {
            addr: f.number()?,
            len: f.number()?,
        },
        3 => Call::Mprotect {
            addr: f.number()?,
            len: f.number()?,
            prot: f.number()?,
            pkey: f.small()? as i32,
        },
        4 => Call::Mremap {
            old_addr: f.number()?,
            old_len: f.number()?,
            new_len: f.number()?,
            flags: f.number()?,
            new_addr: f.number()?,
        },
        5 => Call::Brk { addr: f.number()? },
        6 => Call::Madvise {
            addr: f.number()?,
            len: f.number()?,
            advice: f.small()? as i32,
        },
        7 => Call::Mlock {
            addr: f.number()?,
            len: f.number()?,
            flags: f.number()?,
        },
        8 => Call::Munlock {
            addr: f.number()?,
            len: f.number()?,
        },
        9 => Call::Mlockall { flags: f.number()? },
        10 => Call::Munlockall,
        11 => Call::Msync {
            addr: f.number()?,
            len: f.number()?,
            flags: f.number()?,
        },
        12 => Call::Mincore {
            addr: f.number()?,
            len: f.number()?,
        },
        13 => Call::Mseal {
            addr: f.number()?,
            len: f.number()?,
            flags: f.number()?,
        },
        14 => Call::RemapFilePages {
            addr: f.number()?,
            len: f.number()?,
            prot: f.number()?,
            pgoff: f.number()?,
            flags: f.number()?,
        },
        15 => {
            let (addr, flags, number, size) = (f.number()?, f.number()?, f.number()?, f.number()?);
            let segment = match number {
                0 => None,
                number => {
                    let file = known(number - 1)?.clone();
                    Some(Counted::try_new(ShmSegment { file, size }).ok()?)
                }
            };
            Call::Shmat {
                segment,
                addr,
                flags,
            }
        }
        16 => Call::Shmdt { addr: f.number()? },
        17 => {
            let (addr, len, named) = (f.number()?, f.number()?, f.number()?);
            let name = f.text()?;
            Call::SetVmaName {
                addr,
                len,
                name: (named == 1).then(|| name.into()),
            }
        }
        18 => Call::Mbind {
            addr: f.number()?,
            len: f.number()?,
            mode: f.number()?,
            nodes: f.number()?,
            flags: f.number()?,
        },
        19 => Call::PkeyAlloc {
            flags: f.number()?,
            rights: f.number()?,
        },
        20 => Call::PkeyFree {
            pkey: f.small()? as i32,
        },
        21 => Call::SetMdwe { bits: f.number()? },
        22 => Call::SetMemoryMerge { on: f.number()? },
        23 => {
            let (advice, flags, count) = (f.small()? as i32, f.number()?, f.number()?);
            let ranges = (0..count).map(|_| Some((f.number()?, f.number()?)));
            Call::ProcessMadvise {
                ranges: ranges.collect::<Option<_>>()?,
                advice,
                flags,
            }
        }
        24 => Call::UffdRegister {
            context: NonZeroU32::new(f.small()?)?,
            asynchronous: f.number()? != 0,
            addr: f.number()?,
            len: f.number()?,
            mode: f.number()?,
        },
        25 => Call::UffdUnregister {
            context: NonZeroU32::new(f.small()?)?,
            asynchronous: f.number()? != 0,
            addr: f.number()?,
            len: f.number()?,
        },
        26 => Call::UffdClose {
            context: NonZeroU32::new(f.small()?)?,
        },
        27 => Call::SetMm {
            start_brk: f.number()?,
            brk: f.number()?,
            data_size: f.number()?,
            stack_top: f.number()?,
        },
        28 => Call::SetMempolicyHomeNode {
            addr: f.number()?,
            len: f.number()?,
            home: f.number()?,
            flags: f.number()?,
        },
        _ => return None,
    })
}
