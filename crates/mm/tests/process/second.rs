//! A second owner of the pages.

use samara_mm::abi::{MREMAP_FIXED, MREMAP_MAYMOVE, PROT_READ, PROT_WRITE, SyncFlags};
use samara_mm::{Area, Call, Discard, Errno, Object, Pages, Vma};

use crate::world::{BASE, PAGE, anonymous, byte, machine, process};

/// Writes down what it is told, and refuses to unmap.
#[derive(Default)]
struct Record {
    told: Vec<String>,
    refuses: bool,
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

    fn discard(&mut self, _: u64, _: u64, _: &Vma, _: Discard) -> Result<(), Errno> {
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

/// What is refused has not happened, and pages are as they were.
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
