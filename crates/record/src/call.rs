//! System calls with their arguments.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use samara_mm::{Call, Counted, File, FileArg, ShmSegment};

use crate::fields::{Fields, put, put_text};

/// A field of a call that is written and read as one number.
trait Field: Copy + Sized {
    fn to_number(self) -> u64;
    fn read(fields: &mut Fields<'_>) -> Option<Self>;
}

impl Field for u64 {
    fn to_number(self) -> u64 {
        self
    }

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        fields.number()
    }
}

impl Field for i32 {
    fn to_number(self) -> u64 {
        u64::from(self as u32)
    }

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        fields.small().map(|number| number as i32)
    }
}

impl Field for NonZeroU32 {
    fn to_number(self) -> u64 {
        u64::from(self.get())
    }

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        NonZeroU32::new(fields.small()?)
    }
}

impl Field for bool {
    fn to_number(self) -> u64 {
        u64::from(self)
    }

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        fields.number().map(|number| number != 0)
    }
}

/// Makes `put_plain` and `plain`, which write and read the calls whose fields are all numbers. Both come
/// from one table of the kinds, with the fields in their order in the file, so that none is forgotten in
/// one of them.
macro_rules! plain_calls {
    ($($kind:literal $call:ident { $($field:ident),* })*) => {
        /// Appends a call of numbers. Returns `false`, and has appended nothing, for another one.
        fn put_plain(out: &mut Vec<u8>, call: &Call) -> bool {
            match call {
                $(Call::$call { $($field),* } => {
                    out.push($kind);
                    $(put(out, $field.to_number());)*
                })*
                _ => return false,
            }
            true
        }

        /// Reads the fields of a call of numbers.
        fn plain(kind: u8, fields: &mut Fields<'_>) -> Option<Call> {
            Some(match kind {
                $($kind => Call::$call { $($field: Field::read(fields)?),* },)*
                _ => return None,
            })
        }
    };
}

plain_calls! {
    2 Munmap { addr, len }
    3 Mprotect { addr, len, prot, pkey }
    4 Mremap { old_addr, old_len, new_len, flags, new_addr }
    5 Brk { addr }
    6 Madvise { addr, len, advice }
    7 Mlock { addr, len, flags }
    8 Munlock { addr, len }
    9 Mlockall { flags }
    10 Munlockall {}
    11 Msync { addr, len, flags }
    12 Mincore { addr, len }
    13 Mseal { addr, len, flags }
    14 RemapFilePages { addr, len, prot, pgoff, flags }
    16 Shmdt { addr }
    18 Mbind { addr, len, mode, nodes, flags }
    19 PkeyAlloc { flags, rights }
    20 PkeyFree { pkey }
    21 SetMdwe { bits }
    22 SetMemoryMerge { on }
    24 UffdRegister { context, asynchronous, addr, len, mode }
    25 UffdUnregister { context, asynchronous, addr, len }
    26 UffdClose { context }
    27 SetMm { start_brk, brk, data_size, stack_top }
    28 SetMempolicyHomeNode { addr, len, home, flags }
}

/// Appends a call. `file` returns the number of a file.
pub fn put_call(out: &mut Vec<u8>, call: &Call, file: &mut dyn FnMut(&Counted<File>) -> u64) {
    if put_plain(out, call) {
        return;
    }
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
        Call::SetVmaName { addr, len, name } => {
            numbers(17, &[*addr, *len, u64::from(name.is_some())]);
            put_text(out, name.as_deref().unwrap_or("").as_bytes());
        }
        Call::ProcessMadvise {
            ranges,
            advice,
            flags,
        } => {
            numbers(23, &[advice.to_number(), *flags, ranges.len() as u64]);
            for (addr, len) in ranges {
                put(out, *addr);
                put(out, *len);
            }
        }
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
        17 => {
            let (addr, len, named) = (f.number()?, f.number()?, f.number()?);
            let name = f.text()?;
            Call::SetVmaName {
                addr,
                len,
                name: (named == 1).then(|| name.into()),
            }
        }
        23 => {
            let (advice, flags, count) = (f.small()? as i32, f.number()?, f.number()?);
            let ranges = (0..count).map(|_| Some((f.number()?, f.number()?)));
            Call::ProcessMadvise {
                ranges: ranges.collect::<Option<_>>()?,
                advice,
                flags,
            }
        }
        kind => return plain(kind, f),
    })
}
