//! Files made by hand.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::elf::{Elf, GNU_STACK, Header, load};

use super::{LEGACY, LIMIT_3GB, NO_RANDOM, PAGE_ZERO, READ_EXEC, Run, subject};

/// Files made by hand, one oddity each.
pub(super) fn made(run: &mut Run) {
    let aligned = |align: u64, header: Header| Header { align, ..header };
    let stack = |flags: u32| Header {
        kind: GNU_STACK,
        flags,
        ..Header::default()
    };
    let start = 0x40_0000;
    let code = load(0, start, 0x1000, 0x1000, 5);
    let lists: Vec<Vec<Header>> = vec![
        vec![code],
        vec![code, stack(6)],
        vec![code, stack(7)],
        vec![code, stack(0)],
        vec![code, stack(7), stack(6)],
        vec![load(0, start, 0x1000, 0x3000, 4)],
        vec![load(0, start, 0x1800, 0x3000, 4)],
        vec![load(0, start, 0x1800, 0x3000, 5)],
        vec![load(0, start, 0x1800, 0x3000, 6)],
        vec![load(0, start, 0x1800, 0x1900, 6)],
        vec![load(0, start, 0x1800, 0x3000, 2)],
        vec![load(0, start, 0x1800, 0x3000, 0)],
        vec![load(0, start, 0x1800, 0x3000, 1)],
        vec![load(0, start, 0, 0x3000, 6)],
        vec![load(0, start, 0, 0x3000, 5)],
        vec![load(0, start, 0, 0, 6)],
        vec![load(0, start, 0x1000, 0, 6)],
        vec![load(0, start + 0x800, 0, 0x1800, 6)],
        vec![load(0x800, start + 0x800, 0x100, 0x100, 6)],
        vec![load(0x800, start + 0x800, 0x100, 0x1000, 6)],
        vec![load(0x800, start + 0x900, 0x100, 0x1000, 6)],
        vec![load(0, start + 0x900, 0x100, 0x1000, 6)],
        vec![load(0, start, 0x8000, 0x8000, 5)],
        vec![load(0, start, 0x3800, 0x8000, 6)],
        vec![load(0, start, 0x4800, 0x8000, 6)],
        vec![load(0, start, 0x4800, 0x8000, 4)],
        vec![load(0, start, 0x8000, 0x1000, 6)],
        vec![load(0x10, start, 0x1000, 0x1000, 6)],
        vec![load(0x1_0000, start, 0x1000, 0x1000, 6)],
        vec![load(0, 0, 0x1000, 0x1000, 6)],
        vec![load(0, 0x1000, 0x1000, 0x1000, 6)],
        vec![load(0, 0x1_0000, 0x1000, 0x1000, 6)],
        vec![load(0, 0, 0, 0x1000, 6)],
        vec![load(0, u64::MAX - 0xfff, 0x1000, 0x1000, 6)],
        vec![load(0, 0x7fff_ffff_e000, 0x1000, 0x1000, 6)],
        vec![load(0, 0x7fff_ffff_f000, 0x1000, 0x1000, 6)],
        vec![load(0, 0xffff_d000, 0x1000, 0x1000, 6)],
        vec![load(0, 0xffff_e000, 0x1000, 0x1000, 6)],
        vec![load(0, 1 << 46, 0x1000, 0x1000, 6)],
        vec![load(0, start, 0x1000, 1 << 40, 6)],
        vec![load(0, start, 0x1000, 1 << 47, 6)],
        vec![load(0, start, 0x1000, u64::MAX, 6)],
        vec![load(0, start, u64::MAX, u64::MAX, 6)],
        vec![load(0, start, 1 << 30, 1 << 30, 4)],
        // One over another.
        vec![
            load(0, start, 0x3000, 0x3000, 6),
            load(0, start + 0x1000, 0x1000, 0x1000, 4),
        ],
        vec![
            load(0, start, 0x1800, 0x3000, 6),
            load(0x1000, start + 0x1000, 0x1000, 0x1000, 4),
        ],
        vec![code, load(0x1000, start + 0x1000, 0x1000, 0x1000, 5)],
        vec![code, load(0x2000, start + 0x1000, 0x1000, 0x1000, 5)],
        vec![
            code,
            load(0x1000, start + 0x1000, 0x1000, 0x2000, 6),
            load(0x2000, start + 0x3000, 0, 0x1000, 6),
        ],
        // Downwards.
        vec![code, load(0x1000, start - 0x8000, 0x1000, 0x1000, 6)],
        vec![code, load(0x1000, start - 0x8000, 0x1000, 0x3000, 6)],
        // Far apart.
        vec![code, load(0x1000, start + 0x1000_0000, 0x800, 0x3000, 6)],
        vec![code, load(0x1000, start + 0x2000_0000, 0x800, 0x3000, 6)],
        vec![code, load(0x1000, 0x7000_0000_0000, 0x800, 0x3000, 6)],
        vec![load(0, 0x7fff_ffff_0000, 0x1000, 0x1000, 6)],
        // Alignments.
        vec![aligned(0x1_0000, code)],
        vec![aligned(0x20_0000, code)],
        vec![aligned(0x20_0000, load(0, start, 0x1000, 0x20_0000, 6))],
        vec![aligned(0x20_0000, load(0, start, 0x1000, 0x20_1000, 6))],
        vec![aligned(0x1_0000, load(0, start, 0x1000, 0x20_0000, 6))],
        vec![aligned(
            0x1_0000,
            load(0x1000, start + 0x1000, 0x1000, 0x20_1000, 6),
        )],
        vec![aligned(0x4000_0000, code)],
        vec![aligned(1 << 46, code)],
        vec![aligned(1 << 63, code)],
        vec![aligned(0x3000, code)],
        vec![aligned(0, code)],
        vec![aligned(1, code)],
        vec![
            code,
            aligned(0x1_0000, load(0, start + 0x1_2000, 0x1000, 0x1000, 6)),
        ],
        // Nothing to load.
        vec![stack(6)],
        vec![Header { kind: 4, ..code }],
        vec![stack(6), code],
        // Properties that make no sense.
        vec![
            code,
            Header {
                kind: 0x6474_e553,
                ..load(1 << 60, 0, 8, 8, 4)
            },
        ],
        vec![
            code,
            Header {
                kind: 2,
                ..load(1 << 60, 0, 8, 8, 4)
            },
        ],
    ];
    let interpreters = [
        None,
        Some(Elf::new(true, &[load(0, 0, 0x1000, 0x1000, 5)])),
        Some(Elf::new(true, &[load(0, 0x5000, 0x1800, 0x3000, 6)])),
        Some(Elf::new(
            true,
            &[aligned(0x20_0000, load(0, 0, 0x1000, 0x1000, 5))],
        )),
        Some(Elf::new(false, &[load(0, start, 0x1000, 0x1000, 5)])),
        Some(Elf::new(
            false,
            &[load(0, start + 0x1000, 0x1000, 0x2000, 6)],
        )),
    ];
    for interpreter in &interpreters {
        let path = interpreter.as_ref().map(|elf| {
            (
                run.write("interpreter", &elf.bytes()),
                run.write("interpreter32", &elf.clone().narrow().bytes()),
            )
        });
        for list in &lists {
            for moves in [false, true] {
                let mut elf = Elf::new(moves, list);
                elf.entry = start;
                let (wide, narrow) = match &path {
                    Some((wide, narrow)) => (elf.clone().with(wide), elf.with(narrow).narrow()),
                    None => (elf.clone(), elf.narrow()),
                };
                let file = run.write("made", &wide.bytes());
                run.all_ways(&file, &|| format!("{wide:x?}"));
                if run.narrow {
                    let file = run.write("made32", &narrow.bytes());
                    run.all_ways(&file, &|| format!("{narrow:x?}"));
                }
            }
        }
    }
    // Programs that change the user or the group, or would.
    let elf = Elf::new(true, &[code, stack(6)]);
    let path = run.write("made", &elf.bytes());
    for (mode, group) in [
        (0o4755, 0),
        (0o2755, 0),
        (0o2745, 0),
        (0o2755, 42),
        (0o6755, 42),
    ] {
        std::os::unix::fs::chown(&path, Some(group), Some(group)).unwrap_or(());
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        for personality in [NO_RANDOM | LEGACY, NO_RANDOM | PAGE_ZERO, LIMIT_3GB] {
            for stack in [8 << 20, 1 << 30, u64::MAX] {
                let mut subject = subject(&path, personality);
                subject.limits = vec![(libc::RLIMIT_STACK, stack)];
                run.check(&subject, &|| format!("mode {mode:o}, group {group}"));
            }
        }
    }
    // Personalities and limits of stack.
    for elf in [
        Elf::new(false, &[code, stack(6)]),
        Elf::new(false, &[code]),
        Elf::new(true, &[code]),
        Elf::new(false, &[code]).narrow(),
        Elf::new(true, &[code, stack(6)]).narrow(),
        Elf::new(true, &[load(0, 0, 0x1800, 0x3000, 6), stack(6)]).narrow(),
        Elf::new(true, &[load(0, 0, 0x1800, 0x3000, 6), stack(6)]),
    ] {
        if !elf.wide && !run.narrow {
            continue;
        }
        let path = run.write("made", &elf.bytes());
        for flags in [PAGE_ZERO, READ_EXEC, LIMIT_3GB, PAGE_ZERO | READ_EXEC] {
            for rest in [NO_RANDOM, NO_RANDOM | LEGACY, 0] {
                run.check(&subject(&path, flags | rest), &|| format!("{elf:x?}"));
            }
        }
        for stack in [
            0,
            4096,
            8191,
            16384,
            1 << 20,
            (8 << 20) + 123,
            1 << 30,
            3 << 30,
            1 << 40,
            1 << 45,
            1 << 47,
            u64::MAX,
        ] {
            for rest in [NO_RANDOM, NO_RANDOM | LEGACY, 0, LEGACY] {
                let mut subject = subject(&path, rest);
                subject.limits = vec![(libc::RLIMIT_STACK, stack)];
                run.check(&subject, &|| format!("{elf:x?}"));
            }
        }
        for (limit, values) in [
            (
                libc::RLIMIT_AS,
                [
                    0u64,
                    0x2000,
                    0x2_1000,
                    0x2_2000,
                    0x2_9000,
                    0x2_a000,
                    0x2_b000,
                    1 << 20,
                ],
            ),
            (
                libc::RLIMIT_DATA,
                [
                    0,
                    0x1000,
                    0x2000,
                    0x2_1000,
                    0x2_2000,
                    1 << 20,
                    1 << 30,
                    1 << 40,
                ],
            ),
        ] {
            for value in values {
                let mut subject = subject(&path, NO_RANDOM);
                subject.limits = vec![(limit, value)];
                run.check(&subject, &|| format!("{elf:x?}"));
            }
        }
    }
    // Cut short.
    for moves in [false, true] {
        for wide in [true, false] {
            let mut elf = Elf::new(
                moves,
                &[code, load(0x1000, start + 0x1000, 0x1000, 0x1000, 6)],
            );
            elf.wide = wide;
            if !wide && !run.narrow {
                continue;
            }
            let bytes = elf.bytes();
            for length in [
                0, 1, 3, 4, 5, 16, 18, 20, 51, 52, 53, 63, 64, 65, 84, 100, 119, 120, 175, 176,
                177, 0xfff, 0x1000, 0x1001,
            ] {
                let path = run.write("made", &bytes[..length]);
                run.check(&subject(&path, NO_RANDOM), &|| {
                    format!("{elf:x?} cut to {length:x}")
                });
            }
            // As an interpreter.
            for length in [0, 1, 4, 18, 20, 51, 52, 63, 64, 100, 120, 176, 0x1000] {
                let interpreter = run.write("interpreter", &bytes[..length]);
                let mut program = Elf::new(moves, &[code]).with(&interpreter);
                program.wide = wide;
                let path = run.write("made", &program.bytes());
                run.check(&subject(&path, NO_RANDOM), &|| {
                    format!("{program:x?} cut to {length:x}")
                });
            }
        }
    }
    // Interpreters of another kind, and none.
    for interpreter in [
        "",
        "x",
        "/",
        "/etc/passwd",
        "/nowhere",
        "plain32",
        "interpreter",
    ] {
        let path = match interpreter {
            "plain32" | "interpreter" => run.folder.join(interpreter).to_str().unwrap().to_owned(),
            other => other.into(),
        };
        run.elf(&Elf::new(false, &[code]).with(&path));
    }
}
