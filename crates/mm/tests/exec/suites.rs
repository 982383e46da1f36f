//! The executed files: programs of this machine here, all others in the files of this folder.

mod formats;
mod made;
mod random;
mod strings;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::compare::compare;
use crate::elf::{Elf, load};
use crate::halves::Half;
use crate::kernel::{Outcome, Subject};
use crate::machine::Machine;

const NO_RANDOM: u64 = 0x4_0000;
const PAGE_ZERO: u64 = 0x10_0000;
const LEGACY: u64 = 0x20_0000;
const READ_EXEC: u64 = 0x40_0000;
const LIMIT_3GB: u64 = 0x800_0000;

/// A name, and what it stands for.
type Suite = (&'static str, fn(&mut Run));

/// The machine, and what came of the programs so far.
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
    let chosen = filter.is_some()
        || ["SAMARA_EXEC_FILES", "SAMARA_EXEC_PROGRAMS"]
            .iter()
            .any(|name| std::env::var_os(name).is_some());
    let half = Half::of(!chosen);
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
    let suites: [Suite; 8] = [
        ("made", made::made),
        ("strings", strings::strings),
        ("scripts", strings::scripts),
        ("random", random::random),
        ("mutated", random::mutated),
        ("hostile", random::hostile),
        ("machine", of_machine),
        ("formats", formats::formats),
    ];
    let mut differ = 0;
    for (index, (name, suite)) in suites.into_iter().enumerate() {
        if !half.takes(index) {
            continue;
        }
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
        if run.differ > 0 {
            let seed = number("SAMARA_EXEC_SEED", 1);
            crate::repeat::print(&format!(
                "SAMARA_EXEC_SEED={seed} cargo test -p samara-mm --features exec --test exec -- '{name}'"
            ));
        }
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
