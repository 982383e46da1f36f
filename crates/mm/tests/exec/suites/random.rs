//! Files at random, and headers that were tampered with.

use samara_mm::exec::{Choice, Exec, Personality, Program, SetId};
use samara_mm::{AddressSpace, Counted, File, FileId, Limits};

use crate::elf::{Elf, GNU_STACK, Header, load};

use super::{LEGACY, NO_RANDOM, Run, number, subject};

/// Numbers at random, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }

    fn headers(&mut self, wide: bool) -> Vec<Header> {
        let mut list = Vec::new();
        let mut next = self.of(&[0u64, 0x1000, 0x1_0000, 0x40_0000, 0x40_0000, 0x1000_0000]);
        for _ in 0..1 + self.below(5) {
            let within = if self.below(2) == 0 {
                0
            } else {
                self.below(0x1000)
            };
            let mut offset = self.below(5) * 0x1000 + within;
            if self.below(30) == 0 {
                offset += self.below(0x1000);
            }
            let in_file = match self.below(6) {
                0 => 0,
                1 => 0x1000 - within,
                2 => self.below(0x800),
                _ => self.below(0x4000),
            };
            let in_memory = match self.below(6) {
                0..=2 => in_file,
                3 => in_file + self.below(0x1000),
                4 => in_file + self.below(0x10_0000),
                _ if self.below(10) == 0 => self.below(0x4000),
                _ => (in_file + 0xfff) & !0xfff,
            };
            let align = match self.below(12) {
                0 => self.of(&[0, 1, 0x10, 0x3000]),
                1 => 0x1_0000,
                2 => 0x20_0000,
                _ => 0x1000,
            };
            let mut address = next + within;
            if self.below(40) == 0 {
                let odd: &[u64] = if wide {
                    &[0x7fff_ffff_d000, 1 << 46, u64::MAX - 0xfff]
                } else {
                    &[0xff00_0000, 0xf000_0000]
                };
                address = self.of(odd) + within;
            }
            list.push(Header {
                align,
                ..load(
                    offset,
                    address,
                    in_file,
                    in_memory,
                    self.of(&[4, 5, 6, 6, 7, 2, 1, 0]),
                )
            });
            let end = (next + within + in_file.max(in_memory) + 0xfff) & !0xfff;
            next = match self.below(8) {
                0 => next.saturating_sub(0x3000),
                1 => next + 0x1000,
                2 => end + 0x20_0000,
                3 => end + self.below(16) * 0x1000,
                _ => end,
            };
        }
        if self.below(2) == 0 {
            list.push(Header {
                kind: GNU_STACK,
                flags: self.of(&[0, 6, 6, 7]),
                ..Header::default()
            });
        }
        list
    }
}

/// Files with segments at random.
pub(super) fn random(run: &mut Run) {
    let mut dice = Dice(number("SAMARA_EXEC_SEED", 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    for _ in 0..number("SAMARA_EXEC_FILES", 400) {
        let wide = !run.narrow || dice.below(3) > 0;
        let make = |dice: &mut Dice| {
            let moves = dice.below(2) == 0;
            let mut elf = Elf::new(moves, &dice.headers(wide));
            elf.wide = wide;
            elf.length = dice.of(&[0x1000, 0x4000, 0x4800, 0x8000]);
            elf
        };
        let mut elf = make(&mut dice);
        let mut other = None;
        if dice.below(2) == 0 {
            let interpreter = make(&mut dice);
            elf = elf.with(&run.write("interpreter", &interpreter.bytes()));
            other = Some(interpreter);
        }
        let path = run.write("made", &elf.bytes());
        for personality in [NO_RANDOM, NO_RANDOM | LEGACY] {
            run.check(&subject(&path, personality), &|| {
                format!("{elf:x?}\ninterpreter {other:x?}")
            });
        }
    }
}

/// Headers of good programs, a few bytes changed.
pub(super) fn mutated(run: &mut Run) {
    let mut dice = Dice(number("SAMARA_EXEC_SEED", 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let interpreter = run.write(
        "interpreter",
        &Elf::new(true, &[load(0, 0, 0x1000, 0x2000, 6)]).bytes(),
    );
    let interpreter_32 = run.write(
        "interpreter32",
        &Elf::new(true, &[load(0, 0, 0x1000, 0x2000, 6)])
            .narrow()
            .bytes(),
    );
    for _ in 0..2 * number("SAMARA_EXEC_FILES", 400) {
        let wide = !run.narrow || dice.below(3) > 0;
        let mut elf = Elf::new(
            dice.below(2) == 0,
            &[
                load(0, 0x40_0000, 0x1000, 0x1000, 5),
                load(0x1000, 0x40_1000, 0x1800, 0x4000, 6),
            ],
        );
        elf.wide = wide;
        if dice.below(2) == 0 {
            elf = elf.with(if wide { &interpreter } else { &interpreter_32 });
        }
        let mut bytes = elf.bytes();
        let mut changes = Vec::new();
        for _ in 0..1 + dice.below(3) {
            let at = dice.below(if wide { 64 + 56 * 3 } else { 52 + 32 * 3 }) as usize;
            let to = match dice.below(4) {
                0 => 0,
                1 => 0xff,
                2 => bytes[at] ^ 1 << dice.below(8),
                _ => dice.below(256) as u8,
            };
            bytes[at] = to;
            changes.push((at, to));
        }
        let path = run.write("made", &bytes);
        run.check(&subject(&path, NO_RANDOM), &|| {
            format!("{elf:x?} with {changes:x?}")
        });
    }
}

/// Headers with numbers that no kernel would like, on the engine alone: an error or a map that holds together, never a panic.
pub(super) fn hostile(run: &mut Run) {
    let mut dice = Dice(number("SAMARA_EXEC_SEED", 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let extreme = [
        0,
        1,
        0xfff,
        0x1000,
        1 << 31,
        1 << 32,
        1 << 47,
        1 << 63,
        u64::MAX - 0xfff,
        u64::MAX,
    ];
    for _ in 0..100 * number("SAMARA_EXEC_FILES", 400) {
        let file = |dice: &mut Dice| {
            let wide = dice.below(2) == 0;
            let mut elf = Elf::new(dice.below(2) == 0, &dice.headers(wide));
            elf.wide = wide;
            if dice.below(2) == 0 {
                elf = elf.with("/interpreter");
            }
            let mut bytes = elf.bytes();
            for _ in 0..dice.below(4) {
                let word = dice.of(&extreme).wrapping_add(dice.below(3));
                let at = dice.below(0x180) as usize & !3;
                bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
            }
            bytes.truncate(dice.of(&[0x10, 0x40, 0x78, 0x1000, 0x4000]));
            bytes
        };
        let (program, interpreter) = (file(&mut dice), file(&mut dice));
        let id = FileId {
            major: 8,
            minor: 1,
            inode: 1,
        };
        let mut files = |path: &[u8]| {
            let name = String::from_utf8_lossy(path).into();
            let image = match path {
                b"/program" => &program[..],
                _ => &interpreter[..],
            };
            let set_id = SetId::No;
            Ok(Program {
                file: Counted::try_new(File::new(id, name)).unwrap(),
                image,
                set_id,
            })
        };
        let exec = Exec {
            path: b"/program",
            arguments: &[b"program"],
            environment: &[],
            config: &run.machine.config,
            limits: Limits {
                stack: dice.of(&extreme),
                ..Limits::default()
            },
            personality: Personality::from_bits_truncate(dice.of(&[
                0,
                NO_RANDOM,
                LEGACY,
                u64::MAX,
            ])),
            settings: &run.machine.settings,
        };
        let drawn = dice.of(&extreme);
        run.compared += 1;
        if let Ok(started) = AddressSpace::exec(&exec, &mut files, &mut |_: &Choice| drawn) {
            run.started += 1;
            started.space.check().unwrap();
        }
    }
}
