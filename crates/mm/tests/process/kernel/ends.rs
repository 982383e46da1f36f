//! The effects of stores beyond the end of a file.

use std::io::Write;

use samara_mm::abi::{MADV_NORMAL, MADV_SEQUENTIAL, MAP_PRIVATE};
use samara_mm::process::Access;

use super::*;
use crate::world::Disk;

/// Two private mappings of a file of one page, one behind the other, that only differ in advice while `stores` happen in some of them beyond the end of the
/// file: a bit each. How many areas there are when the advice is the same again: in this process, and in the engine.
fn areas(stores: u32, write: bool) -> [usize; 2] {
    let start = reserve(8);
    let machine = machine(64);
    let process = process(&machine);
    let disk = Disk::new(4096, false);
    let file = open(&disk);
    let path = std::env::temp_dir().join(format!("samara-ends-{}", std::process::id()));
    let mut real_file = fs::File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)
        .unwrap();
    fs::remove_file(&path).unwrap();
    real_file.write_all(&[1; 4096]).unwrap();
    map(start, 8, 3, libc::MAP_PRIVATE, real_file.as_raw_fd());
    process
        .perform(&mapping(&file, start, 0, 8, 3, MAP_PRIVATE))
        .unwrap();
    let second = start + 4 * PAGE;
    let advise = |advice: i32| {
        // SAFETY: memory of this test.
        let done = unsafe { libc::madvise(second as *mut _, 4 * PAGE as usize, advice) };
        assert_eq!(done, 0);
        let call = Call::Madvise {
            addr: second,
            len: 4 * PAGE,
            advice,
        };
        process.perform(&call).unwrap();
    };
    advise(MADV_SEQUENTIAL);
    let zero = fs::File::open("/dev/zero").unwrap();
    let mut ends = [0; 2];
    // SAFETY: new descriptors.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    for at in (0..2).filter(|at| stores >> at & 1 != 0) {
        let page = start + at * 4 * PAGE + 2 * PAGE;
        // The kernel's own access fails as the program's would, without a signal.
        // SAFETY: mapped memory of this test, of which the kernel finds no page.
        let done = unsafe {
            if write {
                libc::read(zero.as_raw_fd(), page as *mut _, 1)
            } else {
                libc::write(ends[1], page as *const _, 1)
            }
        };
        assert_eq!(done, -1);
        let access = if write { Access::WRITE } else { Access::READ };
        assert!(process.fault(page, access).is_err());
    }
    // SAFETY: their ends.
    unsafe {
        libc::close(ends[0]);
        libc::close(ends[1]);
    }
    advise(MADV_NORMAL);
    let real = lines("maps", start, start + 8 * PAGE).len();
    [real, process.with_space(|space| space.area_count())]
}

#[test]
fn stores_beyond_the_end_of_a_file_give_areas_an_owner() {
    let _guard = super::without_children();
    for stores in 0..4 {
        for write in [false, true] {
            let [real, engine] = areas(stores, write);
            assert_eq!(engine, real, "stores {stores:#b}, write {write}");
            // Each has an owner of its own then.
            assert_eq!(real == 2, stores == 3 && write);
        }
    }
}
