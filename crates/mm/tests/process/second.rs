//! A second owner of the pages.

use samara_mm::abi::{
    MADV_DONTFORK, MADV_DONTNEED, MADV_GUARD_INSTALL, MADV_HUGEPAGE, MREMAP_FIXED, MREMAP_MAYMOVE,
    PROT_READ, PROT_WRITE, SyncFlags,
};
use samara_mm::{Area, Call, Errno, Object, PMD_SIZE, PageAdvice, Pages, Vma};

use crate::world::{BASE, PAGE, anonymous, byte, machine, process};

/// Writes down what it is told, and refuses to unmap, or what is discarded after so much.
#[derive(Default)]
struct Record {
    told: Vec<String>,
    refuses: bool,
    discards: Option<usize>,
}

impl Pages for Record {
    fn refuses(&self) -> bool {
        self.refuses
    }

    fn map(&mut self, start: u64, end: u64, _: &Vma) -> Result<(), Errno> {
        self.told.push(format!("map {}", (end - start) / PAGE));
        Ok(())
    }

    fn unmap(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        self.told.push(format!("unmap {}", (end - start) / PAGE));
        if self.refuses {
            return Err(Errno::EBUSY);
        }
        Ok(())
    }

    fn protect(&mut self, start: u64, end: u64, _: &Vma) -> Result<(), Errno> {
        self.told.push(format!("protect {}", (end - start) / PAGE));
        Ok(())
    }

    fn relocate(&mut self, _: u64, _: u64, _: u64) -> Result<(), Errno> {
        Ok(())
    }

    fn advise(&mut self, _: u64, _: u64, _: &Vma, _: PageAdvice) -> Result<(), Errno> {
        match &mut self.discards {
            Some(0) => return Err(Errno::EBUSY),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(())
    }

    fn populate(&mut self, _: u64, _: u64, _: &Area<'_>, _: bool) -> Result<(), Errno> {
        Ok(())
    }

    fn sync(&mut self, _: u64, _: u64, _: &Vma, _: SyncFlags) -> Result<(), Errno> {
        Ok(())
    }

    fn object(&mut self, _: u64) -> Result<Object, Errno> {
        Ok(Object::none())
    }
}

#[test]
fn it_is_told_what_the_tables_do() {
    let machine = machine(64);
    let process = process(&machine);
    let mut record = Record::default();
    let map = anonymous(BASE, 4, PROT_READ | PROT_WRITE);
    process.perform_with(&map, &mut record).unwrap();
    process.copy_in(BASE, b"x");
    let protect = Call::Mprotect {
        addr: BASE,
        len: 2 * PAGE,
        prot: PROT_READ,
        pkey: -1,
    };
    process.perform_with(&protect, &mut record).unwrap();
    assert_eq!(process.copy_in(BASE, b"y"), 0);
    let unmap = Call::Munmap {
        addr: BASE + PAGE,
        len: PAGE,
    };
    process.perform_with(&unmap, &mut record).unwrap();
    assert_eq!(record.told, ["map 4", "protect 2", "unmap 1"]);
    assert_eq!(byte(&process, BASE), Some(b'x'));
    machine.check().unwrap();
}

/// A refused operation has not happened, and pages are unchanged.
#[test]
fn a_refusal_keeps_the_pages() {
    let machine = machine(64);
    let process = process(&machine);
    process
        .perform(&anonymous(BASE, 4, PROT_READ | PROT_WRITE))
        .unwrap();
    process.copy_in(BASE, &[b'x'; 4 * 4096]);
    let mut record = Record {
        refuses: true,
        ..Record::default()
    };
    let (addr, len) = (BASE + PAGE, PAGE);
    let calls = [
        Call::Munmap { addr, len },
        anonymous(addr, 1, PROT_READ),
        Call::Mremap {
            old_addr: BASE,
            old_len: 4 * PAGE,
            new_len: 2 * PAGE,
            flags: 0,
            new_addr: 0,
        },
        Call::Mremap {
            old_addr: BASE,
            old_len: PAGE,
            new_len: PAGE,
            flags: MREMAP_MAYMOVE | MREMAP_FIXED,
            new_addr: BASE + 2 * PAGE,
        },
    ];
    for call in calls {
        assert_eq!(process.perform_with(&call, &mut record), Err(Errno::EBUSY));
        machine.check().unwrap();
        for page in 0..4 {
            let addr = BASE + page * PAGE;
            assert_eq!(byte(&process, addr), Some(b'x'), "{call:?}");
            assert_eq!(process.copy_in(addr + 1, b"y"), 1);
        }
        assert_eq!(process.with_space(|space| space.area_count()), 1);
    }
    // What is not refused is done.
    let (prot, pkey) = (PROT_READ, -1);
    let protect = Call::Mprotect {
        addr,
        len,
        prot,
        pkey,
    };
    process.perform_with(&protect, &mut record).unwrap();
    assert_eq!(process.copy_in(addr, b"z"), 0);
    machine.check().unwrap();
}

/// The tables give up nothing before all areas of a call were answered for: what is refused at the third leaves the pages of all, and huge pages whole.
#[test]
fn a_refused_discard_leaves_all_pages() {
    let advise = |addr: u64, len: u64, advice: i32| Call::Madvise { addr, len, advice };
    for advice in [MADV_DONTNEED, MADV_GUARD_INSTALL] {
        for given_up in 0..=3 {
            let machine = machine(4 << 10);
            let process = process(&machine);
            let all = 3 * PMD_SIZE;
            process
                .perform(&anonymous(BASE, all / PAGE, PROT_READ | PROT_WRITE))
                .unwrap();
            process.perform(&advise(BASE, all, MADV_HUGEPAGE)).unwrap();
            let areas = [0, 1, 2].map(|n| BASE + n * PMD_SIZE);
            for addr in areas {
                assert_eq!(process.copy_in(addr + PAGE, b"xxx"), 3);
            }
            // It is an area of its own.
            let middle = advise(areas[1], PMD_SIZE, MADV_DONTFORK);
            process.perform(&middle).unwrap();
            let mut record = Record {
                discards: Some(given_up),
                ..Record::default()
            };
            let call = advise(BASE + PAGE, all - 2 * PAGE, advice);
            let done = process.perform_with(&call, &mut record);
            machine.check().unwrap();
            let refused = given_up < 3;
            assert_eq!(done, if refused { Err(Errno::EBUSY) } else { Ok(0) });
            let mut smaps = String::new();
            process.write_smaps(&mut smaps).unwrap();
            let huge = smaps.matches("AnonHugePages:      2048 kB").count();
            assert_eq!(huge, if refused { 3 } else { 0 }, "{smaps}");
            let left = match advice {
                _ if refused => Some(b'x'),
                MADV_DONTNEED => Some(0),
                _ => None,
            };
            for addr in areas {
                assert_eq!(byte(&process, addr + PAGE), left, "{advice}, {given_up}");
            }
            assert_eq!(process.with_space(|space| space.area_count()), 3);
        }
    }
}
