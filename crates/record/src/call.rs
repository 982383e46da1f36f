//! System calls with their arguments.
//!
//! The macro `calls!` has one table of all calls. It makes both the function that writes a call and
//! the one that reads it, so each field is in both or in neither. Bytes depend on the order of the
//! fields in the table, and on the form of each field's type ([`Argument`]).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use samara_mm::{Call, Counted, File, FileArg, ShmSegment};

use crate::fields::{Fields, put, put_text};

/// Appends a call. `file` returns the number of a file.
pub fn put_call(out: &mut Vec<u8>, call: &Call, file: &mut dyn FnMut(&Counted<File>) -> u64) {
    put_known(out, call, file);
}

/// Reads a call. `files` are the files read so far, by their numbers.
pub fn call(fields: &mut Fields<'_>, files: &[Counted<File>]) -> Option<Call> {
    read_known(fields, files)
}

/// Makes `put_known` and `read_known` from a table of calls. Each line has the number of a call's
/// kind, its name, and all its fields in the order of the file.
macro_rules! calls {
    ($($kind:literal $call:ident { $($field:ident),* })*) => {
        fn put_known(
            out: &mut Vec<u8>,
            call: &Call,
            file: &mut dyn FnMut(&Counted<File>) -> u64,
        ) {
            match call {
                $(Call::$call { $($field),* } => {
                    out.push($kind);
                    $($field.put(out, file);)*
                })*
                // This version of the format cannot express the call. A reader rejects this kind.
                _ => out.push(u8::MAX),
            }
        }

        fn read_known(fields: &mut Fields<'_>, files: &[Counted<File>]) -> Option<Call> {
            Some(match fields.byte()? {
                // Fields are read in the order in which they are written here.
                $($kind => Call::$call { $($field: Argument::read(fields, files)?),* },)*
                _ => return None,
            })
        }
    };
}

calls! {
    1 Mmap { addr, len, prot, flags, file, offset }
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
    15 Shmat { addr, flags, segment }
    16 Shmdt { addr }
    17 SetVmaName { addr, len, name }
    18 Mbind { addr, len, mode, nodes, flags }
    19 PkeyAlloc { flags, rights }
    20 PkeyFree { pkey }
    21 SetMdwe { bits }
    22 SetMemoryMerge { on }
    23 ProcessMadvise { advice, flags, ranges }
    24 UffdRegister { context, asynchronous, addr, len, mode }
    25 UffdUnregister { context, asynchronous, addr, len }
    26 UffdClose { context }
    27 SetMm { start_brk, brk, data_size, stack_top }
    28 SetMempolicyHomeNode { addr, len, home, flags }
}

/// An argument of a call, with its form in a file.
trait Argument: Sized {
    /// Appends the argument. `file` returns the number of a file.
    fn put(&self, out: &mut Vec<u8>, file: &mut dyn FnMut(&Counted<File>) -> u64);

    /// Reads the argument. `files` are the files read so far, by their numbers.
    fn read(fields: &mut Fields<'_>, files: &[Counted<File>]) -> Option<Self>;
}

/// Returns the file with this number.
fn known(files: &[Counted<File>], number: u64) -> Option<Counted<File>> {
    files.get(usize::try_from(number).ok()?).cloned()
}

impl Argument for u64 {
    fn put(&self, out: &mut Vec<u8>, _: &mut dyn FnMut(&Counted<File>) -> u64) {
        put(out, *self);
    }

    fn read(fields: &mut Fields<'_>, _: &[Counted<File>]) -> Option<Self> {
        fields.number()
    }
}

/// The bits of the number, so that a negative one takes five bytes.
impl Argument for i32 {
    fn put(&self, out: &mut Vec<u8>, _: &mut dyn FnMut(&Counted<File>) -> u64) {
        put(out, u64::from(self.cast_unsigned()));
    }

    fn read(fields: &mut Fields<'_>, _: &[Counted<File>]) -> Option<Self> {
        fields.small().map(u32::cast_signed)
    }
}

impl Argument for bool {
    fn put(&self, out: &mut Vec<u8>, _: &mut dyn FnMut(&Counted<File>) -> u64) {
        put(out, u64::from(*self));
    }

    fn read(fields: &mut Fields<'_>, _: &[Counted<File>]) -> Option<Self> {
        fields.number().map(|number| number != 0)
    }
}

impl Argument for NonZeroU32 {
    fn put(&self, out: &mut Vec<u8>, _: &mut dyn FnMut(&Counted<File>) -> u64) {
        put(out, u64::from(self.get()));
    }

    fn read(fields: &mut Fields<'_>, _: &[Counted<File>]) -> Option<Self> {
        NonZeroU32::new(fields.small()?)
    }
}

/// 0 for none, 1 for a bad descriptor, or 2 plus the file's number.
impl Argument for FileArg {
    fn put(&self, out: &mut Vec<u8>, file: &mut dyn FnMut(&Counted<File>) -> u64) {
        let number = match self {
            FileArg::None => 0,
            FileArg::Bad => 1,
            FileArg::File(known) => 2 + file(known),
        };
        put(out, number);
    }

    fn read(fields: &mut Fields<'_>, files: &[Counted<File>]) -> Option<Self> {
        Some(match fields.number()? {
            0 => FileArg::None,
            1 => FileArg::Bad,
            number => FileArg::File(known(files, number - 2)?),
        })
    }
}

/// 0 for none, or 1 plus the number of the segment's file. Then the size.
impl Argument for Option<Counted<ShmSegment>> {
    fn put(&self, out: &mut Vec<u8>, file: &mut dyn FnMut(&Counted<File>) -> u64) {
        let (number, size) = match self {
            Some(segment) => (1 + file(&segment.file), segment.size),
            None => (0, 0),
        };
        put(out, number);
        put(out, size);
    }

    fn read(fields: &mut Fields<'_>, files: &[Counted<File>]) -> Option<Self> {
        let (number, size) = (fields.number()?, fields.number()?);
        Some(match number {
            0 => None,
            number => {
                let file = known(files, number - 1)?;
                Some(Counted::try_new(ShmSegment { file, size }).ok()?)
            }
        })
    }
}

/// 1 for a name, 0 for none. Then the name, which is empty for none.
impl Argument for Option<Box<str>> {
    fn put(&self, out: &mut Vec<u8>, _: &mut dyn FnMut(&Counted<File>) -> u64) {
        put(out, u64::from(self.is_some()));
        put_text(out, self.as_deref().unwrap_or("").as_bytes());
    }

    fn read(fields: &mut Fields<'_>, _: &[Counted<File>]) -> Option<Self> {
        let named = fields.number()?;
        let name = fields.text()?;
        Some((named == 1).then(|| name.into()))
    }
}

/// The number of ranges. Then each range.
impl Argument for Box<[(u64, u64)]> {
    fn put(&self, out: &mut Vec<u8>, _: &mut dyn FnMut(&Counted<File>) -> u64) {
        put(out, self.len() as u64);
        for (addr, len) in self {
            put(out, *addr);
            put(out, *len);
        }
    }

    fn read(fields: &mut Fields<'_>, _: &[Counted<File>]) -> Option<Self> {
        let count = fields.number()?;
        let ranges = (0..count).map(|_| Some((fields.number()?, fields.number()?)));
        ranges.collect()
    }
}
