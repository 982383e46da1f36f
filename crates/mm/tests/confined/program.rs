//! Programs in a range: exec lays all of them out within, or fails.

use std::ops::Range;

use samara_mm::exec::{Choice, Exec, ExecError, Personality, Program, SetId, Settings, Started};
use samara_mm::{AddressSpace, Config, Counted, Errno, File, FileId, Limits};

const INTERPRETER: &[u8] = b"/lib/ld.so\0";

/// An ELF header, and a segment which that lies in: at 0 and position-independent, or at an address.
fn elf(address: u64, interpreter: bool) -> Vec<u8> {
    let mut bytes = vec![0; 0x200];
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    let kind = if address == 0 { 3 } else { 2 };
    put(0, b"\x7fELF\x02\x01\x01\0");
    put(16, &[kind, 0, 62, 0, 1]);
    put(24, &(address + 0x100).to_le_bytes());
    put(32, &64u64.to_le_bytes());
    put(54, &[56, 0, 1 + u8::from(interpreter)]);
    put(64, &[1, 0, 0, 0, 7]);
    put(80, &address.to_le_bytes());
    put(96, &0x200u64.to_le_bytes());
    put(104, &0x3000u64.to_le_bytes());
    put(112, &0x1000u64.to_le_bytes());
    if interpreter {
        put(120, &[3, 0, 0, 0, 4]);
        put(128, &0x180u64.to_le_bytes());
        put(152, &(INTERPRETER.len() as u64).to_le_bytes());
        put(0x180, INTERPRETER);
    }
    bytes
}

fn exec(range: Range<u64>, program: &[u8]) -> Result<Started, ExecError> {
    let (config, _) = Config::default().within(range).unwrap();
    let loader = elf(0, false);
    let mut inode = 0;
    let mut files = |path: &[u8]| {
        inode += 1;
        let (major, minor) = (8, 1);
        let id = FileId {
            major,
            minor,
            inode,
        };
        let file = Counted::try_new(File::new(id, "/program".into())).unwrap();
        let image = match path {
            b"/program" => program,
            _ => &loader[..],
        };
        let set_id = SetId::No;
        Ok(Program {
            file,
            image,
            set_id,
        })
    };
    let exec = Exec {
        path: b"/program",
        arguments: &[b"program"],
        environment: &[b"A=B"],
        config: &config,
        limits: Limits::default(),
        personality: Personality::MMAP_PAGE_ZERO,
        settings: &Settings::default(),
    };
    AddressSpace::exec(&exec, &mut files, &mut |choice: &Choice| choice.count - 1)
}

#[test]
fn programs_are_laid_out_within_their_range() {
    for (start, size) in [
        (0x7f00_0000_0000, 1 << 32),
        (0x7f00_0000_0000, 16 << 20),
        (0x1_0000_0000, 256 << 20),
        (0x6000_0000, 1 << 28),
    ] {
        let range = start..start + size;
        for interpreter in [false, true] {
            let started = exec(range.clone(), &elf(0, interpreter)).unwrap();
            let space = &started.space;
            space.check().unwrap();
            for area in space.areas() {
                assert!(
                    range.start <= area.start && area.end <= range.end,
                    "{area:x?}"
                );
            }
            let layout = space.layout();
            for place in [layout.brk, layout.stack_top, started.start, started.entry] {
                assert!(range.contains(&place), "{place:#x} of {range:x?}");
            }
            let areas = if interpreter { 5 } else { 3 };
            assert_eq!(space.area_count(), areas, "{range:x?}");
        }
        // Nothing moves it.
        let fixed = exec(range, &elf(0x40_0000, false)).map(|_| ());
        assert_eq!(fixed, Err(ExecError::Killed(Errno::EPERM)));
    }
}

#[test]
fn ranges_that_are_too_small_for_a_program_are_refused() {
    for pages in 1..80 {
        let range = 0x7f00_0000_0000..0x7f00_0000_0000 + pages * 4096;
        let Ok(started) = exec(range.clone(), &elf(0, true)) else {
            continue;
        };
        assert!(pages > 8);
        for area in started.space.areas() {
            assert!(
                range.start <= area.start && area.end <= range.end,
                "{area:x?}"
            );
        }
    }
}
