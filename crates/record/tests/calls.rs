//! The bytes of each kind of call.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::num::NonZeroU32;

use samara_mm::{Call, Counted, File, FileArg, FileId, ShmSegment};
use samara_record::{Fields, call, put_call};

/// Returns a file in memory. It is number 2 of its record.
fn file() -> Counted<File> {
    let id = FileId {
        major: 0,
        minor: 1,
        inode: 5,
    };
    Counted::try_new(File::new(id, "file".into())).unwrap()
}

/// Returns one call of each kind, and more where an argument has several forms, with their bytes.
fn calls() -> Vec<(Call, &'static [u8])> {
    let (addr, len, flags) = (0x1000, 0x2000, 3);
    let context = NonZeroU32::new(300).unwrap();
    let segment = ShmSegment {
        file: file(),
        size: 0x4000,
    };
    let mmap = |file| Call::Mmap {
        addr,
        len,
        prot: 7,
        flags,
        file,
        offset: 0x3000,
    };
    vec![
        (
            mmap(FileArg::None),
            &[1, 128, 32, 128, 64, 7, 3, 0, 128, 96],
        ),
        (mmap(FileArg::Bad), &[1, 128, 32, 128, 64, 7, 3, 1, 128, 96]),
        (
            mmap(FileArg::File(file())),
            &[1, 128, 32, 128, 64, 7, 3, 4, 128, 96],
        ),
        (Call::Munmap { addr, len }, &[2, 128, 32, 128, 64]),
        (
            Call::Mprotect {
                addr,
                len,
                prot: 5,
                pkey: -1,
            },
            &[3, 128, 32, 128, 64, 5, 255, 255, 255, 255, 15],
        ),
        (
            Call::Mremap {
                old_addr: addr,
                old_len: len,
                new_len: 0x5000,
                flags,
                new_addr: 0x6000,
            },
            &[4, 128, 32, 128, 64, 128, 160, 1, 3, 128, 192, 1],
        ),
        (
            Call::Brk { addr: u64::MAX },
            &[5, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1],
        ),
        (
            Call::Madvise {
                addr,
                len,
                advice: -2,
            },
            &[6, 128, 32, 128, 64, 254, 255, 255, 255, 15],
        ),
        (Call::Mlock { addr, len, flags }, &[7, 128, 32, 128, 64, 3]),
        (Call::Munlock { addr, len }, &[8, 128, 32, 128, 64]),
        (Call::Mlockall { flags }, &[9, 3]),
        (Call::Munlockall, &[10]),
        (Call::Msync { addr, len, flags }, &[11, 128, 32, 128, 64, 3]),
        (Call::Mincore { addr, len }, &[12, 128, 32, 128, 64]),
        (Call::Mseal { addr, len, flags }, &[13, 128, 32, 128, 64, 3]),
        (
            Call::RemapFilePages {
                addr,
                len,
                prot: 1,
                pgoff: 9,
                flags,
            },
            &[14, 128, 32, 128, 64, 1, 9, 3],
        ),
        (
            Call::Shmat {
                segment: None,
                addr,
                flags,
            },
            &[15, 128, 32, 3, 0, 0],
        ),
        (
            Call::Shmat {
                segment: Some(Counted::try_new(segment).unwrap()),
                addr,
                flags,
            },
            &[15, 128, 32, 3, 3, 128, 128, 1],
        ),
        (Call::Shmdt { addr }, &[16, 128, 32]),
        (
            Call::SetVmaName {
                addr,
                len,
                name: None,
            },
            &[17, 128, 32, 128, 64, 0, 0],
        ),
        (
            Call::SetVmaName {
                addr,
                len,
                name: Some("heap".into()),
            },
            &[17, 128, 32, 128, 64, 1, 4, 104, 101, 97, 112],
        ),
        (
            Call::Mbind {
                addr,
                len,
                mode: 2,
                nodes: 6,
                flags,
            },
            &[18, 128, 32, 128, 64, 2, 6, 3],
        ),
        (Call::PkeyAlloc { flags, rights: 1 }, &[19, 3, 1]),
        (Call::PkeyFree { pkey: -5 }, &[20, 251, 255, 255, 255, 15]),
        (Call::SetMdwe { bits: 1 }, &[21, 1]),
        (Call::SetMemoryMerge { on: 1 }, &[22, 1]),
        (
            Call::ProcessMadvise {
                ranges: [(addr, len), (0x7000, 1)].into(),
                advice: 20,
                flags,
            },
            &[23, 20, 3, 2, 128, 32, 128, 64, 128, 224, 1, 1],
        ),
        (
            Call::UffdRegister {
                context,
                asynchronous: true,
                addr,
                len,
                mode: 4,
            },
            &[24, 172, 2, 1, 128, 32, 128, 64, 4],
        ),
        (
            Call::UffdUnregister {
                context,
                asynchronous: false,
                addr,
                len,
            },
            &[25, 172, 2, 0, 128, 32, 128, 64],
        ),
        (Call::UffdClose { context }, &[26, 172, 2]),
        (
            Call::SetMm {
                start_brk: 1,
                brk: 2,
                data_size: 3,
                stack_top: 4,
            },
            &[27, 1, 2, 3, 4],
        ),
        (
            Call::SetMempolicyHomeNode {
                addr,
                len,
                home: 1,
                flags,
            },
            &[28, 128, 32, 128, 64, 1, 3],
        ),
    ]
}

#[test]
fn each_kind_of_call_has_fixed_bytes() {
    let files = [file(), file(), file()];
    for (known, bytes) in calls() {
        let mut written = Vec::new();
        put_call(&mut written, &known, &mut |_| 2);
        assert_eq!(written, bytes, "{known:?}");
        let mut fields = Fields {
            bytes: &written,
            at: 0,
        };
        assert_eq!(call(&mut fields, &files), Some(known));
        assert_eq!(fields.at, written.len());
        // Without its last byte, no call is whole.
        let cut = &written[..written.len() - 1];
        let mut fields = Fields { bytes: cut, at: 0 };
        assert_eq!(call(&mut fields, &files), None);
    }
}
