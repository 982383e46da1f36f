//! Pages beyond the end of a file.

use super::*;

fn file() -> FileArg {
    let id = samara_mm::FileId {
        major: 8,
        minor: 1,
        inode: 77,
    };
    let file = samara_mm::File::new(id, "short".into());
    FileArg::File(samara_mm::Counted::try_new(file).unwrap())
}

/// Anonymous memory, a file behind it, and once more anonymous memory.
fn around_a_file() -> Checker {
    let file = Call::Mmap {
        addr: 0x40_2000,
        len: 0x2000,
        prot: 3,
        flags: 0x12,
        file: file(),
        offset: 0x2000,
    };
    follow(&[
        (mmap(0x40_0000, 0x2000, FIXED), 0x40_0000, &[], None),
        (file, 0x40_2000, &[], None),
        (mmap(0x40_4000, 0x2000, FIXED), 0x40_4000, &[], None),
    ])
}

fn owned(replica: &Replica) -> Vec<bool> {
    let areas = replica.engine.areas();
    areas.map(|area| area.vma.anon().is_some()).collect()
}

#[test]
fn an_access_beyond_the_end_of_a_file_was_a_write_or_a_read() {
    let mut checker = around_a_file();
    checker.may_have_written(0x50_0000);
    assert!(checker.alternatives.is_empty(), "nothing is there");
    checker.may_have_written(0x40_2000);
    let replicas: Vec<Vec<bool>> = checker.replicas().map(|replica| owned(replica)).collect();
    assert_eq!(replicas, [[false; 3], [false, true, false]]);
}

#[test]
fn a_call_that_fills_in_comes_as_far_as_the_end_of_a_file() {
    let none = Evidence {
        before: &[],
        after: None,
    };
    let lock = Call::Mlock {
        addr: 0x40_0000,
        len: 0x6000,
        flags: 0,
    };
    let fill = Call::Madvise {
        addr: 0x40_0000,
        len: 0x6000,
        advice: 23,
    };
    for (call, errno) in [(lock, 12), (fill, 14)] {
        let mut checker = around_a_file();
        let (verdict, _) = checker.perform(&call, -errno, none, &mut Listed(&[]));
        assert_eq!(verdict, Verdict::Outside);
        let replicas: Vec<Vec<bool>> = checker.replicas().map(|replica| owned(replica)).collect();
        assert_eq!(replicas, [[true, true, false]], "{call:?}");
        // What fails for a reason of its own needs no end of a file.
        checker.perform(&unmap(0x40_4000, 0x1000), 0, none, &mut Listed(&[]));
        let (verdict, _) = checker.perform(&call, -12, none, &mut Listed(&[]));
        assert_eq!(verdict, Verdict::Agrees);
    }
}

#[test]
fn a_call_may_come_to_the_end_of_a_file_or_to_what_cannot_be_filled_in() {
    // Behind the file, what is written to comes before what has no access.
    let none = Evidence {
        before: &[],
        after: None,
    };
    let mut checker = around_a_file();
    checker.perform(&protect(0x40_5000, 0x1000, 0), 0, none, &mut Listed(&[]));
    let lock = Call::Mlock {
        addr: 0x40_0000,
        len: 0x6000,
        flags: 0,
    };
    let (verdict, _) = checker.perform(&lock, -12, none, &mut Listed(&[]));
    assert_eq!(verdict, Verdict::Agrees);
    let mut replicas: Vec<bool> = checker
        .replicas()
        .map(|replica| owned(replica)[2])
        .collect();
    replicas.sort_unstable();
    assert_eq!(replicas, [false, true]);
}

#[test]
fn what_the_kernel_writes_beyond_the_end_of_a_file_is_never_seen() {
    let mut checker = around_a_file();
    let inside = |checker: &Checker| {
        let area = checker
            .engine()
            .areas()
            .find(|area| area.vma.file().is_some());
        area.map(|area| (area.start, area.end)).unwrap()
    };
    let file = inside(&checker);
    checker.may_have_written(0x1_0000_0000);
    assert!(checker.doubts.is_empty(), "nothing is there");
    checker.may_have_written(file.1 - 1);
    assert!(checker.doubts.touch(file));
    assert!(!checker.doubts.touch((file.1, u64::MAX)) && !checker.doubts.touch((0, file.0)));
}
