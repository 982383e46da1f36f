use super::*;
use crate::config::{Config, Layout, Limits};
use crate::flags::PMD_SIZE;
use crate::huge_pool::HugeFigures;
use crate::{Call, FileArg, ShmSegment, abi};

const PAGE: u64 = PMD_SIZE;
const AT: u64 = 0x1_0000_0000;
const PRIVATE: u64 = abi::MAP_PRIVATE;
const SHARED: u64 = abi::MAP_SHARED;

fn space(pool: &HugePool) -> AddressSpace {
    let config = Config {
        huge_pool: Some(pool.clone()),
        ..Config::default()
    };
    AddressSpace::new(config, Limits::default(), Layout::default()).unwrap()
}

fn mmap(space: &mut AddressSpace, page: u64, pages: u64, flags: u64) -> Result<u64, Errno> {
    space.perform(&Call::Mmap {
        addr: AT + page * PAGE,
        len: pages * PAGE,
        prot: abi::PROT_READ | abi::PROT_WRITE,
        flags: flags | abi::MAP_ANONYMOUS | abi::MAP_HUGETLB | abi::MAP_FIXED,
        file: FileArg::None,
        offset: 0,
    })
}

fn munmap(space: &mut AddressSpace, page: u64, pages: u64) {
    let (addr, len) = (AT + page * PAGE, pages * PAGE);
    space.perform(&Call::Munmap { addr, len }).unwrap();
}

fn write(space: &mut AddressSpace, page: u64) -> Result<(), Errno> {
    space.fault(AT + page * PAGE + 17, true)
}

/// Returns the numbers of all, free, reserved and surplus pages.
fn figures(pool: &HugePool) -> [u64; 4] {
    let HugeFigures {
        total,
        free,
        reserved,
        surplus,
    } = pool.figures(PAGE).unwrap();
    [total, free, reserved, surplus]
}

#[test]
fn promises_are_kept_and_come_back() {
    let pool = HugePool::new(4).unwrap();
    let mut space = space(&pool);
    mmap(&mut space, 0, 3, PRIVATE).unwrap();
    assert_eq!(figures(&pool), [4, 4, 3, 0]);
    assert_eq!(mmap(&mut space, 8, 2, PRIVATE), Err(Errno::ENOMEM));
    write(&mut space, 1).unwrap();
    assert_eq!(figures(&pool), [4, 3, 2, 0]);
    let call = Call::Madvise {
        addr: AT,
        len: 3 * PAGE,
        advice: abi::MADV_DONTNEED,
    };
    space.perform(&call).unwrap();
    assert_eq!(figures(&pool), [4, 4, 3, 0]);
    munmap(&mut space, 1, 1);
    assert_eq!(figures(&pool), [4, 4, 2, 0]);
    drop(space);
    assert_eq!(figures(&pool), [4, 4, 0, 0]);
}

#[test]
fn a_child_has_the_pages_and_no_promise() {
    let pool = HugePool::new(3).unwrap();
    let mut parent = space(&pool);
    mmap(&mut parent, 0, 2, PRIVATE).unwrap();
    write(&mut parent, 0).unwrap();
    let mut child = parent.fork().unwrap();
    assert_eq!(figures(&pool), [3, 2, 1, 0]);
    write(&mut child, 0).unwrap();
    assert_eq!(figures(&pool), [3, 1, 1, 0]);
    // The last free page is the parent's.
    assert_eq!(write(&mut child, 1), Err(Errno::EFAULT));
    write(&mut parent, 1).unwrap();
    drop(child);
    drop(parent);
    assert_eq!(figures(&pool), [3, 3, 0, 0]);
}

#[test]
fn whoever_was_promised_a_page_takes_it_from_a_child() {
    let pool = HugePool::new(1).unwrap();
    let mut parent = space(&pool);
    mmap(&mut parent, 0, 1, PRIVATE).unwrap();
    write(&mut parent, 0).unwrap();
    let mut child = parent.fork().unwrap();
    assert_eq!(write(&mut child, 0), Err(Errno::EFAULT));
    child.fault(AT, false).unwrap();
    write(&mut parent, 0).unwrap();
    assert_eq!(child.fault(AT, false), Err(Errno::EFAULT));
    let mut other = parent.fork().unwrap();
    other.fault(AT, false).unwrap();
    drop((parent, child, other));
    assert_eq!(figures(&pool), [1, 1, 0, 0]);
}

#[test]
fn what_was_promised_to_a_file_stays_with_it() {
    let pool = HugePool::new(4).unwrap();
    let mut one = space(&pool);
    mmap(&mut one, 0, 3, SHARED).unwrap();
    let mut other = one.fork().unwrap();
    munmap(&mut one, 0, 3);
    assert_eq!(figures(&pool), [4, 4, 3, 0]);
    write(&mut other, 2).unwrap();
    assert_eq!(figures(&pool), [4, 3, 2, 0]);
    munmap(&mut other, 0, 3);
    assert_eq!(figures(&pool), [4, 4, 0, 0]);
}

#[test]
fn what_is_replaced_comes_back_in_time_if_it_was_private() {
    let pool = HugePool::new(4).unwrap();
    let mut space = space(&pool);
    mmap(&mut space, 0, 4, PRIVATE).unwrap();
    mmap(&mut space, 0, 4, SHARED).unwrap();
    // An object is freed only at the end of the call, and what was to be replaced is gone.
    assert_eq!(mmap(&mut space, 0, 4, PRIVATE), Err(Errno::ENOMEM));
    assert_eq!(space.area_count(), 0);
    mmap(&mut space, 0, 4, PRIVATE).unwrap();
}

#[test]
fn surplus_pages_are_made_and_unmade() {
    let pool = HugePool::new(1).unwrap();
    pool.set_overcommit(PAGE, 2);
    let mut space = space(&pool);
    mmap(&mut space, 0, 2, PRIVATE).unwrap();
    assert_eq!(figures(&pool), [2, 2, 2, 1]);
    mmap(&mut space, 4, 2, PRIVATE | abi::MAP_NORESERVE).unwrap();
    write(&mut space, 4).unwrap();
    assert_eq!(figures(&pool), [3, 2, 2, 2]);
    assert_eq!(write(&mut space, 5), Err(Errno::EFAULT));
    munmap(&mut space, 0, 8);
    assert_eq!(figures(&pool), [1, 1, 0, 0]);
}

#[test]
fn the_rest_of_what_is_moved_in_part_is_forgotten() {
    let pool = HugePool::new(4).unwrap();
    let mut space = space(&pool);
    mmap(&mut space, 0, 4, PRIVATE).unwrap();
    let call = Call::Mremap {
        old_addr: AT + PAGE,
        old_len: 2 * PAGE,
        new_len: 2 * PAGE,
        flags: abi::MREMAP_FIXED | abi::MREMAP_MAYMOVE,
        new_addr: AT + 10 * PAGE,
    };
    space.perform(&call).unwrap();
    munmap(&mut space, 0, 12);
    // As in Linux 6.18: reserved pages that no mapping has.
    assert_eq!(figures(&pool), [4, 4, 2, 0]);
}

#[test]
fn a_pool_of_which_others_keep_the_books_answers_as_told() {
    let pool = HugePool::told().unwrap();
    let mut space = space(&pool);
    mmap(&mut space, 0, 1 << 20, PRIVATE).unwrap();
    write(&mut space, 5).unwrap();
    pool.tell(false);
    assert_eq!(mmap(&mut space, 0, 4, PRIVATE), Err(Errno::ENOMEM));
    mmap(&mut space, 0, 4, PRIVATE | abi::MAP_NORESERVE).unwrap();
}

#[test]
fn a_pool_changes_its_size() {
    let pool = HugePool::new(4).unwrap();
    let mut space = space(&pool);
    mmap(&mut space, 0, 3, PRIVATE).unwrap();
    pool.resize(PAGE, 0);
    assert_eq!(figures(&pool), [3, 3, 3, 3]);
    pool.resize(PAGE, 8);
    assert_eq!(figures(&pool), [8, 8, 3, 0]);
    assert_eq!(pool.figures(4096), None);
}

/// The numbers of `HugePages_*` are those of Linux 6.18 for the same history.
#[test]
fn segments_are_promised_their_pages_when_they_are_made() {
    let pool = HugePool::new(16).unwrap();
    let mut space = space(&pool);
    let made = |promised| {
        let id = FileId {
            major: 0,
            minor: 0x11,
            inode: 4,
        };
        let size = PAGE + 4096;
        let object = pool.segment(PAGE, size, promised).unwrap();
        let file = File {
            kind: FileKind::HugeTlb(PAGE),
            object,
            ..File::new(id, "/SYSV00000000 (deleted)".into())
        };
        let file = Counted::try_new(file).unwrap();
        Counted::try_new(ShmSegment { file, size }).unwrap()
    };
    assert_eq!(pool.segment(PAGE, 17 * PAGE, true), Err(Errno::ENOMEM));
    for (promised, before, after) in [
        (true, [16, 16, 2, 0], [16, 15, 1, 0]),
        (false, [16, 16, 0, 0], [16, 15, 0, 0]),
    ] {
        let segment = made(promised);
        assert_eq!(figures(&pool), before);
        let attach = |space: &mut AddressSpace, addr, flags| {
            let segment = Some(segment.clone());
            space.perform(&Call::Shmat {
                segment,
                addr,
                flags,
            })
        };
        let at = attach(&mut space, 0, 0).unwrap();
        assert_eq!(figures(&pool), before);
        let area = space.lookup(at).unwrap();
        assert_eq!((at % PAGE, area.len()), (0, 2 * PAGE));
        assert!(area.vma.flags.contains(VmFlags::HUGETLB));
        space.fault(at + PAGE + 4096 * 3, true).unwrap();
        assert_eq!(figures(&pool), after);
        for addr in [at + 4096, at + 2 * PAGE + 4096] {
            assert_eq!(attach(&mut space, addr, abi::SHM_REMAP), Err(Errno::EINVAL));
        }
        assert_eq!(attach(&mut space, at, 0), Err(Errno::EINVAL));
        space.perform(&Call::Shmdt { addr: at }).unwrap();
        assert!(space.lookup(at + PAGE).is_none());
        drop(segment);
        assert_eq!(figures(&pool), [16, 16, 0, 0]);
    }
}
