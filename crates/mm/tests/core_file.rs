//! Core files compared with their sources.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;

use samara_mm::observe::core_file::{
    self, CORE, EM_X86_64, Filter, Ids, LINUX, Note, ProcessInfo, Segment, Sink, Source,
    ThreadStatus, dumped,
};
use samara_mm::{
    AddressSpace, Advice, Call, Config, Counted, File, FileArg, FileId, Layout, Limits,
};

const PAGE: u64 = 4096;

/// Pages by address; `broken` ones cannot be read.
#[derive(Default)]
struct Pages {
    pages: BTreeMap<u64, u8>,
    broken: Vec<u64>,
    /// The number of requested reads.
    read: usize,
}

impl Source for Pages {
    fn next(&mut self, addr: u64, end: u64) -> Option<u64> {
        self.pages.range(addr..end).next().map(|(at, _)| *at)
    }

    fn page(&mut self, addr: u64, into: &mut [u8; PAGE as usize]) -> bool {
        self.read += 1;
        into.fill(self.pages[&addr]);
        !self.broken.contains(&addr)
    }
}

fn number(file: &[u8], at: u64, size: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes[..size].copy_from_slice(&file[at as usize..at as usize + size]);
    u64::from_le_bytes(bytes)
}

/// Program headers: kind, flags, offset, address, bytes in the file and in memory.
fn headers(file: &[u8]) -> Vec<[u64; 6]> {
    assert_eq!(&file[..7], b"\x7fELF\x02\x01\x01");
    assert_eq!((number(file, 16, 2), number(file, 18, 2)), (4, 62));
    let (at, mut count) = (number(file, 32, 8), number(file, 56, 2));
    if count == 0xffff {
        let section = number(file, 40, 8);
        assert_eq!((number(file, 58, 2), number(file, 60, 2)), (64, 1));
        count = number(file, section + 44, 4);
    }
    let field = |header: u64, offset, size| number(file, at + header * 56 + offset, size);
    (0..count)
        .map(|i| {
            [
                field(i, 0, 4),
                field(i, 4, 4),
                field(i, 8, 8),
                field(i, 16, 8),
                field(i, 32, 8),
                field(i, 40, 8),
            ]
        })
        .collect()
}

/// Segments and pages at random.
fn world(seed: u64) -> (Vec<Segment>, Pages) {
    let mut state = seed;
    let mut random = |limit: u64| {
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) % limit
    };
    let (mut segments, mut pages) = (Vec::new(), Pages::default());
    let mut at = 0x40_0000;
    for _ in 0..random(12) {
        at += random(4) * PAGE;
        let length = 1 + random(12);
        segments.push(Segment {
            start: at,
            end: at + length * PAGE,
            flags: random(8) as u32,
            dumped: random(length + 3) * PAGE,
        });
        for page in 0..length {
            // Some are there and hold zeroes.
            if random(2) == 0 {
                pages.pages.insert(at + page * PAGE, random(3) as u8);
            }
            if random(9) == 0 {
                pages.broken.push(at + page * PAGE);
            }
        }
        at += length * PAGE;
    }
    (segments, pages)
}

#[test]
fn what_goes_in_is_found() {
    for seed in 0..300 {
        let (segments, mut pages) = world(seed);
        let notes = [
            Note {
                name: CORE,
                kind: 1,
                bytes: b"hello",
            },
            Note {
                name: LINUX,
                kind: 2,
                bytes: &[],
            },
        ];
        let mut file = Vec::new();
        let given = segments.iter().copied();
        core_file::write(&mut file, EM_X86_64, &notes, given, &mut pages).unwrap();
        let headers = headers(&file);
        let [4, _, at, _, length, 0] = headers[0] else {
            panic!("no notes: {:x?}", headers[0]);
        };
        let expected = b"\x05\0\0\0\x05\0\0\0\x01\0\0\0CORE\0\0\0\0hello\0\0\0\x06\0\0\0\0\0\0\0\x02\0\0\0LINUX\0\0\0";
        assert_eq!(&file[at as usize..(at + length) as usize], expected);
        assert_eq!(headers.len(), segments.len() + 1);
        let mut end = (at + length).next_multiple_of(PAGE);
        for (header, segment) in headers[1..].iter().zip(&segments) {
            let in_file = segment.dumped.min(segment.end - segment.start);
            let in_memory = segment.end - segment.start;
            let flags = u64::from(segment.flags);
            assert_eq!(header, &[1, flags, end, segment.start, in_file, in_memory]);
            for page in 0..in_file / PAGE {
                let addr = segment.start + page * PAGE;
                let byte = pages.pages.get(&addr).copied();
                let byte = byte.filter(|_| !pages.broken.contains(&addr));
                let from = (end + page * PAGE) as usize;
                assert_eq!(
                    file[from..from + PAGE as usize],
                    vec![byte.unwrap_or(0); 4096]
                );
            }
            end += in_file;
        }
        assert_eq!(file.len() as u64, end);
    }
}

/// Stores only bytes other than zero, and fails after a number of operations.
struct Holes {
    left: usize,
    length: u64,
    stored: u64,
}

impl Sink for Holes {
    type Error = &'static str;

    fn write(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        self.left = self.left.checked_sub(1).ok_or("full")?;
        self.length += bytes.len() as u64;
        self.stored += bytes.len() as u64;
        Ok(())
    }

    fn skip(&mut self, zeroes: u64) -> Result<(), &'static str> {
        self.left = self.left.checked_sub(1).ok_or("full")?;
        self.length += zeroes;
        Ok(())
    }
}

#[test]
fn a_sink_may_refuse_at_any_time() {
    let (segments, _) = world(7);
    let write = |left| {
        let mut sink = Holes {
            left,
            length: 0,
            stored: 0,
        };
        let given = segments.iter().copied();
        core_file::write(&mut sink, EM_X86_64, &[], given, &mut world(7).1).map(|()| sink)
    };
    let mut left = 0;
    let done = loop {
        match write(left) {
            Ok(sink) => break sink,
            Err(error) => assert_eq!(error, "full"),
        }
        left += 1;
    };
    assert!(left > 5 && done.left == 0);
}

#[test]
fn zeroes_are_neither_read_nor_stored() {
    let start = 0x10_0000_0000;
    let segment = Segment {
        start,
        end: start + (1 << 40),
        flags: 6,
        dumped: 1 << 40,
    };
    let mut pages = Pages::default();
    for at in [0, 1 << 20, (1 << 40) - PAGE] {
        pages.pages.insert(start + at, 1);
    }
    let mut sink = Holes {
        left: usize::MAX,
        length: 0,
        stored: 0,
    };
    core_file::write(&mut sink, EM_X86_64, &[], [segment].into_iter(), &mut pages).unwrap();
    assert_eq!(pages.read, 3);
    assert_eq!(
        (sink.length, sink.stored),
        ((1 << 40) + PAGE, 3 * PAGE + 64 + 2 * 56)
    );
}

#[test]
fn more_segments_than_a_header_counts() {
    for count in [0xfffd, 0xfffe, 0xffff, 70_000u64] {
        let segments = (0..count).map(|i| Segment {
            start: i * 2 * PAGE,
            end: (i * 2 + 1) * PAGE,
            flags: 4,
            dumped: 0,
        });
        let mut file = Vec::new();
        core_file::write(&mut file, EM_X86_64, &[], segments, &mut Pages::default()).unwrap();
        assert_eq!(headers(&file).len() as u64, count + 1);
        assert_eq!(number(&file, 56, 2), (count + 1).min(0xffff));
    }
}

fn at(space: &AddressSpace, addr: u64, filter: Filter, is_elf: bool) -> u64 {
    dumped(&space.lookup(addr).unwrap(), filter, || is_elf)
}

#[test]
fn the_filter_is_that_of_the_manual_page() {
    const ANON: u64 = 0x10_0000_0000;
    const SHARED: u64 = 0x11_0000_0000;
    const PRIVATE_FILE: u64 = 0x12_0000_0000;
    const SHARED_FILE: u64 = 0x13_0000_0000;
    let (config, limits, layout) = (Config::default(), Limits::default(), Layout::default());
    let mut space = AddressSpace::new(config, limits, layout).unwrap();
    let id = FileId {
        major: 8,
        minor: 1,
        inode: 7,
    };
    let file = Counted::try_new(File::new(id, "/a".into())).unwrap();
    for (addr, flags, file) in [
        (ANON, 0x32, FileArg::None),
        (SHARED, 0x31, FileArg::None),
        (PRIVATE_FILE, 0x12, FileArg::File(file.clone())),
        (SHARED_FILE, 0x11, FileArg::File(file)),
    ] {
        let call = Call::Mmap {
            addr,
            len: 4 * PAGE,
            prot: 3,
            flags,
            file,
            offset: 0,
        };
        space.perform(&call).unwrap();
    }
    for (filter, whole) in [
        (Filter::ANON_PRIVATE, ANON),
        (Filter::ANON_SHARED, SHARED),
        (Filter::FILE_PRIVATE, PRIVATE_FILE),
        (Filter::FILE_SHARED, SHARED_FILE),
    ] {
        for addr in [ANON, SHARED, PRIVATE_FILE, SHARED_FILE] {
            let expected = if addr == whole { 4 * PAGE } else { 0 };
            assert_eq!(
                at(&space, addr, filter, true),
                expected,
                "{filter:?} {addr:x}"
            );
        }
    }
    assert_eq!(at(&space, PRIVATE_FILE, Filter::ELF_HEADERS, true), PAGE);
    assert_eq!(at(&space, PRIVATE_FILE, Filter::ELF_HEADERS, false), 0);
    // What the program has written to is its own, and MADV_DONTDUMP keeps anything out.
    space.note_written(PRIVATE_FILE, PRIVATE_FILE + 4 * PAGE);
    assert_eq!(
        at(&space, PRIVATE_FILE, Filter::ANON_PRIVATE, false),
        4 * PAGE
    );
    space.madvise(ANON, 4 * PAGE, Advice(16)).unwrap();
    assert_eq!(at(&space, ANON, Filter::all(), true), 0);
    let files = core_file::files(&space).unwrap();
    // As Linux 6.18 lists them, shared anonymous memory among them.
    assert_eq!(number(&files, 0, 8), 3);
    assert!(files.ends_with(b"/dev/zero (deleted)\0/a\0/a\0"));
}

#[test]
fn structures_are_those_of_the_header() {
    let ids = Ids {
        pid: 11,
        parent: 12,
        group: 13,
        session: 14,
    };
    let mut registers = [0; 27];
    registers[16] = 0x1234;
    let status = ThreadStatus {
        signal: 9,
        pending: 1,
        blocked: 2,
        ids,
        registers,
        has_fp: true,
    };
    let bytes = status.bytes();
    // siginfo's number, the current signal, the process, rip, whether there are more registers.
    let found = [(0, 4), (12, 2), (32, 4), (112 + 16 * 8, 8), (328, 4)];
    let found = found.map(|(at, size)| number(&bytes, at, size));
    assert_eq!(found, [9, 9, 11, 0x1234, 1]);
    let information = ProcessInfo {
        state: b'S',
        nice: -3,
        flags: 0x40,
        user: (1000, 1001),
        ids,
        name: b"a-name-that-is-too-long",
        arguments: &[b'x'; 200],
    };
    let bytes = information.bytes();
    assert_eq!(&bytes[..4], &[1, b'S', 0, 0xfd]);
    assert_eq!((number(&bytes, 16, 4), number(&bytes, 24, 4)), (1000, 11));
    assert_eq!(&bytes[40..56], b"a-name-that-is-\0");
    assert_eq!((bytes[134], bytes[135]), (b'x', 0));
}
