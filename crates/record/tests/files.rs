//! Files whose `open` the caller does not identify.

#![allow(clippy::unwrap_used, reason = "tests")]

use samara_mm::{
    AddressSpace, Call, Config, Counted, File, FileArg, FileId, KernelVersion, Layout, Limits,
};
use samara_record::{Recorder, kind};

/// Returns the names of the files in a record of these mappings, in order.
fn recorded(files: &[File]) -> Vec<String> {
    let mut written = Vec::new();
    let mut space =
        AddressSpace::new(Config::default(), Limits::default(), Layout::default()).unwrap();
    let mut recorder = Recorder::new(&[b"test"], KernelVersion::NEWEST, |bytes| {
        written.extend_from_slice(bytes);
    });
    recorder.started(1, &space);
    for file in files {
        let call = Call::Mmap {
            addr: 0,
            len: 0x1000,
            prot: 1,
            flags: 2,
            file: FileArg::File(Counted::try_new(file.clone()).unwrap()),
            offset: 0,
        };
        recorder.before_call(1, &space);
        let result = space.perform(&call);
        recorder.call(1, &space, 1, &call, result);
    }
    recorder.end(0, 0);
    // A record of a file: its kind, device, inode, and the length of its name before the name.
    let is_file = |record: &&[u8]| matches!(record, [kind::FILE, 8, 1, _, 7, b'/', b'f', ..]);
    let records = written.windows(12).filter(is_file);
    let name = |record: &[u8]| String::from_utf8_lossy(&record[11..]).into_owned();
    records.map(name).collect()
}

fn file(inode: u64, name: &str) -> File {
    let id = FileId {
        major: 8,
        minor: 1,
        inode,
    };
    File::new(id, name.into())
}

#[test]
fn files_with_unknown_opens_are_distinguished() {
    let files = [
        file(1, "/file-a"),
        file(2, "/file-b"),
        file(1, "/file-a"),
        File {
            writable: false,
            ..file(2, "/file-b")
        },
    ];
    assert_eq!(recorded(&files), ["a", "b", "b"]);
}

#[test]
fn a_newly_sealed_file_is_recorded_again() {
    let before = File::opened(file(1, "").id, "/file-a".into());
    let after = File {
        seals: 0x10,
        ..before.clone()
    };
    let files = [before.clone(), before, after];
    assert_eq!(recorded(&files), ["a", "a"]);
}
