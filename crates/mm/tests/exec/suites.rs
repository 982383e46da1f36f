//! What is executed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use samara_mm::exec::{Choice, Exec, Personality, Program, SetId};
use samara_mm::{AddressSpace, File, FileId, Limits};

use crate::compare::compare;
use crate::elf::{Elf, GNU_STACK, Header, load};
use crate::kernel::{Outcome, Subject};
use crate::machine::Machine;

const NO_RANDOM: u64 = 0x4_0000;
const PAGE_ZERO: u64 = 0x10_0000;
const LEGACY: u64 = 0x20_0000;
const READ_EXEC: u64 = 0x40_0000;
const LIMIT_3GB: u64 = 0x800_0000;

/// A name, and what it stands for.
type Suite = (&'static str, fn(&mut Run));

struct Run {
    machine: Machine,
    folder: PathBuf,
    narrow: bool,
    strict: bool,
    compared: u64,
    started: u64,
    differ: u64,
}

fn number(name: &str, or: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(or)
}

pub(crate) fn run() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|a| a == "--list") {
        println!("exec: test");
        return;
    }
    let filter = arguments.iter().find(|a| !a.starts_with('-'));
    let folder = std::env::temp_dir().join(format!("samara-exec-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let folder = fs::canonicalize(folder).unwrap();
    let mut run = Run {
        machine: Machine::look(),
        folder,
        narrow: false,
        strict: true,
        compared: 0,
        started: 0,
        differ: 0,
    };
    let one = [load(0, 0x40_0000, 0x1000, 0x1000, 5)];
    let plain = run.write("plain", &Elf::new(false, &one).bytes());
    let plain_32 = run.write("plain32", &Elf::new(false, &one).narrow().bytes());
    assert!(run.machine.learn(&plain, false), "no program starts here");
    run.narrow = run.machine.learn(&plain_32, true);
    let suites: [Suite; 7] = [
        ("made", made),
        ("strings", strings),
        ("scripts", scripts),
        ("random", random),
        ("mutated", mutated),
        ("hostile", hostile),
        ("machine", of_machine),
    ];
    let mut differ = 0;
    for (name, suite) in suites {
        if filter.is_some_and(|f| !name.contains(f.as_str())) {
            continue;
        }
        (run.compared, run.started, run.differ) = (0, 0, 0);
        run.strict = !matches!(name, "made" | "random" | "mutated");
        let began = std::time::Instant::now();
        suite(&mut run);
        println!(
            "{name}: {} programs, {} of them started, {} differ ({:.1?})",
            run.compared,
            run.started,
            run.differ,
            began.elapsed()
        );
        differ += run.differ;
    }
    let _ = fs::remove_dir_all(&run.folder);
    if !run.narrow {
        println!("programs with 32-bit addresses: skipped, this kernel does not run them");
    }
    assert!(differ == 0, "{differ} programs differ");
}

fn subject(path: &str, personality: u64) -> Subject {
    Subject {
        path: path.into(),
        arguments: vec![b"program".to_vec()],
        environment: vec![b"A=B".to_vec()],
        personality,
        limits: Vec::new(),
    }
}

impl Run {
    fn write(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.folder.join(name);
        // A new file each time: the old one may still be mapped.
        let _ = fs::remove_file(&path);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().into()
    }

    fn check(&mut self, subject: &Subject, what: &dyn Fn() -> String) {
        self.compared += 1;
        match compare(subject, &self.machine, self.strict) {
            Ok(outcome) => self.started += u64::from(matches!(outcome, Outcome::Started(_))),
            Err(text) => {
                self.differ += 1;
                if self.differ <= 12 {
                    println!(
                        "--- {}, personality {:x}, limits {:x?}\n{text}",
                        what(),
                        subject.personality,
                        subject.limits
                    );
                }
            }
        }
    }

    /// Executes a file in all layouts.
    fn all_ways(&mut self, path: &str, what: &dyn Fn() -> String) {
        for personality in [NO_RANDOM, NO_RANDOM | LEGACY, 0, LEGACY] {
            self.check(&subject(path, personality), what);
        }
    }

    fn elf(&mut self, elf: &Elf) {
        let path = self.write("made", &elf.bytes());
        self.all_ways(&path, &|| format!("{elf:x?}"));
        if self.narrow {
            let narrow = elf.clone().narrow();
            let path = self.write("made32", &narrow.bytes());
            self.all_ways(&path, &|| format!("{narrow:x?}"));
        }
    }
}

/// Files made by hand, one oddity each.
fn made(run: &mut Run) {
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

/// Arguments and environments of all sizes.
fn strings(run: &mut Run) {
    let code = load(0, 0x40_0000, 0x1000, 0x1000, 5);
    let mut paths = vec![run.write("made", &Elf::new(false, &[code]).bytes())];
    if run.narrow {
        paths.push(run.write("made32", &Elf::new(false, &[code]).narrow().bytes()));
    }
    for path in &paths {
        for (count, size) in [
            (0, 0),
            (1, 0),
            (1, 4000),
            (1, 8000),
            (1, 100_000),
            (1, 131_070),
            (1, 131_071),
            (1, 131_072),
            (3, 100_000),
            (20, 100_000),
            (21, 100_000),
            (22, 100_000),
            (63, 100_000),
            (1000, 10),
            (10_000, 0),
            (10_000, 1),
            (14_000, 1),
            (300_000, 0),
            (100_000, 8),
        ] {
            for stack in [
                4096,
                16384,
                65536,
                200_000,
                1 << 20,
                8 << 20,
                64 << 20,
                u64::MAX,
            ] {
                for personality in [NO_RANDOM, 0] {
                    let mut subject = subject(path, personality);
                    let text = vec![b'x'; size];
                    if count % 2 == 1 || count == 0 {
                        subject.arguments = vec![text; count];
                    } else {
                        subject.environment = vec![text; count];
                    }
                    subject.limits = vec![(libc::RLIMIT_STACK, stack)];
                    run.check(&subject, &|| format!("{count} strings of {size} bytes"));
                }
            }
        }
        for size in 0..40 {
            let mut subject = subject(path, NO_RANDOM);
            subject.arguments.push(vec![b'x'; size]);
            run.check(&subject, &|| format!("an argument of {size} bytes"));
        }
    }
}

/// `#!`.
fn scripts(run: &mut Run) {
    let code = load(0, 0x40_0000, 0x1000, 0x1000, 5);
    let program = run.write("made", &Elf::new(false, &[code]).bytes());
    let long = |n: usize| format!("#!{}{program}\n", " ".repeat(n));
    let reach = 256 - 3 - program.len();
    let mut texts: Vec<Vec<u8>> = [
        format!("#!{program}\n"),
        format!("#!{program}"),
        format!("#! {program}\n"),
        format!("#!\t {program} \t\n"),
        format!("#!{program} -x\n"),
        format!("#!{program}  -x  y z \t \n"),
        format!("#!{program} -x"),
        format!("#!{program}\0 -x\n"),
        format!("#!{program} -x\0y\n"),
        format!("#!{program} {}\n", "y".repeat(300)),
        format!("#!{program} {}", "y".repeat(300)),
        format!("#!{program} {}", "y".repeat(100)),
        format!("#!{program}{}", " ".repeat(300)),
        format!("#!{}", "y".repeat(300)),
        format!("#!{}", "y".repeat(100)),
        format!("#!/{}\n", "y".repeat(250)),
        "#!".into(),
        "#!\n".into(),
        "#! \t\n".into(),
        format!("#!\n{program}\n"),
        "#!/nowhere\n".into(),
        "#!/etc/passwd\n".into(),
        "#!/\n".into(),
        format!("#{program}\n"),
        "echo\n".into(),
        String::new(),
        format!("#!{}", " ".repeat(300)),
        "#!\0".into(),
        format!("#!{program}\r\n"),
    ]
    .map(String::into_bytes)
    .into();
    for n in reach - 3..reach + 4 {
        texts.push(long(n).into_bytes());
        texts.push(long(n).trim_end().as_bytes().to_vec());
        texts.push(format!("{} x\n", long(n).trim_end()).into_bytes());
    }
    for text in &texts {
        let path = run.write("script", text);
        for personality in [NO_RANDOM, 0] {
            for count in [0, 1, 3] {
                let mut subject = subject(&path, personality);
                subject.arguments = vec![b"first".to_vec(); count];
                run.check(&subject, &|| format!("{:?}", String::from_utf8_lossy(text)));
            }
        }
    }
    // The first argument goes when the script's name comes.
    let path = run.write("script", format!("#!{program} -x\n").as_bytes());
    for (size, stack) in [
        (100_000, 8 << 20),
        (131_071, 65536),
        (131_071, 1 << 20),
        (5000, 4096),
        (3900, 4096),
        (4050, 4096),
        (4070, 4096),
    ] {
        let mut subject = subject(&path, NO_RANDOM);
        subject.arguments = vec![vec![b'x'; size], b"y".to_vec()];
        subject.limits = vec![(libc::RLIMIT_STACK, stack)];
        run.check(&subject, &|| format!("a first argument of {size} bytes"));
    }
    // Scripts of scripts.
    let mut last = program;
    for depth in 1..8 {
        last = run.write(
            &format!("script{depth}"),
            format!("#!{last} {depth}\n").as_bytes(),
        );
        run.check(&subject(&last, NO_RANDOM), &|| format!("{depth} scripts"));
    }
    let path = run.folder.join("circle").to_str().unwrap().to_owned();
    run.write("circle", format!("#!{path}\n").as_bytes());
    run.check(&subject(&path, NO_RANDOM), &|| "a circle".into());
}

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
fn random(run: &mut Run) {
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
fn mutated(run: &mut Run) {
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
fn hostile(run: &mut Run) {
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
                file: Arc::new(File::new(id, name)),
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

/// Programs of this machine.
fn of_machine(run: &mut Run) {
    let mut names: Vec<_> = fs::read_dir("/usr/bin")
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    names.sort();
    let wanted = number("SAMARA_EXEC_PROGRAMS", 200) as usize;
    // Spread over the alphabet.
    let step = (names.len() / wanted.max(1)).max(1);
    let mut before = 0;
    let mut programs = 0;
    for path in names.iter().step_by(step) {
        let path = path.to_str().unwrap();
        if !fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0) {
            continue;
        }
        run.all_ways(path, &|| path.into());
        programs += usize::from(run.started > before);
        before = run.started;
    }
    println!("{programs} programs of /usr/bin, in four layouts each");
}
