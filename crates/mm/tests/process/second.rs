//! A second owner of the pages.

use samara_mm::abi::{PROT_READ, PROT_WRITE};
use samara_mm::{Call, Errno, Pages, Vma};

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
