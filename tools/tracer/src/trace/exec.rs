//! Starts of programs: the engine builds the address space from the program's files, and the
//! kernel's map is compared with it.
//!
//! The addresses that the kernel chose at random are read from its map, one number for each base.
//! The files, their identities and the strings are those of the stopped process. Everything else
//! must follow.

mod contents;

use std::cell::{OnceCell, RefCell};
use std::io;
use std::num::NonZeroU64;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use samara_conformance::compare::{self, Alike};
use samara_conformance::counted::counted;
use samara_conformance::seed::Seed;
use samara_linux::Tid;
use samara_linux::maps::{Area, Map};
use samara_linux::memory;
use samara_linux::proc;
use samara_mm::exec::{
    Base, Choice, Class, Exec, Personality, Program, Randomize, SetId, Settings, SpecialArea,
    Started,
};
use samara_mm::{
    AddressSpace, Config, Counted, Errno, File, FileId, KernelVersion, Layout, Object, SeedVma,
    VmFlags,
};

use super::seeding::Asked;

use contents::OnDisk;

pub(crate) use contents::{Contents, read_aside};

const PAGE: u64 = 4096;
const AT_EXECFD: u64 = 2;
const AT_BASE: u64 = 7;
const AT_ENTRY: u64 = 9;
const AT_PLATFORM: u64 = 15;
const AT_SECURE: u64 = 23;
const AT_EXECFN: u64 = 31;

/// The machine's part in every exec, looked up once.
#[derive(Debug)]
pub(crate) struct Settled {
    /// `None` on kernels whose rules of exec are not known.
    settings: Option<Settings>,
    /// The settings with the areas that the kernel adds to each process, above all the vdso: those
    /// of the first program with 64-bit addresses …
    of_64: OnceCell<Settings>,
    /// … and those of the first with 32-bit addresses.
    of_32: OnceCell<Settings>,
}

impl Settled {
    /// Looks the settings up. `legacy_layout` is `vm.legacy_va_layout`.
    pub(crate) fn look(kernel: KernelVersion, legacy_layout: bool) -> Self {
        let settings = (kernel >= KernelVersion::OLDEST).then(|| Settings {
            randomize: match proc::sysctl("kernel/randomize_va_space", 2) {
                0 => Randomize::Nothing,
                1 => Randomize::AllButHeap,
                _ => Randomize::Everything,
            },
            legacy_layout,
            random_bits: proc::sysctl("vm/mmap_rnd_bits", 28) as u32,
            ..Settings::default()
        });
        Self {
            settings,
            of_64: OnceCell::new(),
            of_32: OnceCell::new(),
        }
    }

    /// Returns the machine's settings for the program of this process.
    fn of(&self, seed: &Seed, map: &Map) -> Option<&Settings> {
        let settings = self.settings.as_ref()?;
        let special = || special_areas(seed, map);
        Some(if seed.config.is_wide() {
            self.of_64.get_or_init(|| Settings {
                special: special(),
                ..settings.clone()
            })
        } else {
            self.of_32.get_or_init(|| Settings {
                random_bits_32: proc::sysctl("vm/mmap_rnd_compat_bits", 8) as u32,
                special_32: special(),
                ..settings.clone()
            })
        })
    }
}

/// Returns the vdso and the areas that belong to it.
fn special_areas(seed: &Seed, map: &Map) -> Vec<SpecialArea> {
    let shown = map.areas().iter().zip(&seed.areas);
    let special = shown.filter_map(|(area, seed)| {
        let name = std::str::from_utf8(map.name(area)).ok()?;
        name.starts_with("[v").then(|| SpecialArea {
            name: name.into(),
            pages: (area.end - area.start) / PAGE,
            flags: seed.flags.unwrap_or_default(),
            object: Object::none(),
        })
    });
    special.collect()
}

/// Returns the highest candidate address.
fn last_of(choice: &Choice) -> u64 {
    choice.lowest + (choice.count - 1) * choice.step
}

/// The outcome of a prediction.
#[derive(Debug)]
pub(crate) enum Predicted {
    /// The kernel built the same. Placement continues from this layout. If nothing shows its base,
    /// the base is one of these addresses.
    Agrees(Layout, Option<RangeInclusive<u64>>),
    /// The difference, in lines.
    Differs(String),
    /// The files or the strings could not be read, or the rules are not known.
    Unknown,
}

/// Predicts the address space of a process stopped right after exec. `seed` is the state that the
/// kernel shows, `map` its map.
pub(crate) fn predict(
    tid: Tid,
    asked: &Asked,
    settled: &Settled,
    seed: &Seed,
    map: &Map,
) -> Predicted {
    let Some(settings) = settled.of(seed, map) else {
        return Predicted::Unknown;
    };
    match Shown::read(tid, asked, seed, map) {
        Ok(shown) => shown.predict(settings).unwrap_or(Predicted::Unknown),
        Err(_) => Predicted::Unknown,
    }
}

/// The state of the new program that the kernel shows.
struct Shown<'a> {
    tid: Tid,
    asked: &'a Asked,
    seed: &'a Seed,
    map: &'a Map,
    path: Vec<u8>,
    arguments: Vec<Vec<u8>>,
    environment: Vec<Vec<u8>>,
    personality: Personality,
    /// The program and its interpreter, if they were opened. Several predictions need them.
    opened: RefCell<Vec<(PathBuf, Opened)>>,
}

impl<'a> Shown<'a> {
    fn read(tid: Tid, asked: &'a Asked, seed: &'a Seed, map: &'a Map) -> io::Result<Self> {
        let personality = asked.personality.ok_or(io::ErrorKind::NotFound)?;
        let path = asked.auxiliary(AT_EXECFN).ok_or(io::ErrorKind::NotFound)?;
        let numbers = asked.numbers()?;
        let stack = map
            .areas()
            .iter()
            .find(|area| area.start <= path && path < area.end);
        let end = stack.ok_or(io::ErrorKind::NotFound)?.end;
        let strings = Strings::read(tid, numbers.arguments.0, path, end)?;
        let mut environment = strings.split(numbers.environment)?;
        if numbers.environment.0 == numbers.environment.1 {
            environment.clear();
        }
        Ok(Shown {
            tid,
            asked,
            seed,
            map,
            path: strings.at(path)?,
            arguments: strings.split(numbers.arguments)?,
            environment,
            personality: Personality::from_bits_truncate(personality),
            opened: RefCell::default(),
        })
    }

    fn auxiliary(&self, kind: u64) -> Option<u64> {
        self.asked.auxiliary(kind)
    }

    /// Compares the prediction with the kernel's map. Returns `None` if something could not be
    /// read.
    fn predict(&self, settings: &Settings) -> Option<Predicted> {
        let descriptor = self.auxiliary(AT_EXECFD).map(|number| number as u32);
        if descriptor.is_none() {
            return self.judge(settings);
        }
        self.judge(&Settings {
            descriptor,
            ..settings.clone()
        })
    }

    fn judge(&self, settings: &Settings) -> Option<Predicted> {
        // The base of mappings does not show where the first mapping was aligned. Several places
        // are possible.
        const WAYS: u64 = 14;
        let lowest = self.exec(settings, &mut |choice: &Choice| match choice.base {
            Base::Vectors => choice.count - 1,
            _ => 0,
        })?;
        let mut first = None;
        for way in 0..WAYS {
            let mut hidden = None;
            let mut drawn = |choice: &Choice| {
                let address = self.drawn(choice, &lowest, way);
                let number = address.and_then(|at| choice.number(at));
                if choice.base == Base::Mmap && number.is_none() && choice.count > 1 {
                    hidden = Some(choice.lowest..=last_of(choice));
                }
                number.unwrap_or(0)
            };
            let started = self.exec(settings, &mut drawn)?;
            match self.difference(&started) {
                None => return Some(Predicted::Agrees(started.space.layout(), hidden)),
                Some(difference) => first = first.or(Some(difference)),
            }
        }
        first.map(Predicted::Differs)
    }

    /// Makes one prediction. Returns `None` if the engine would not have started the program,
    /// although the kernel did.
    fn exec(&self, settings: &Settings, random: &mut dyn FnMut(&Choice) -> u64) -> Option<Started> {
        let arguments: Vec<&[u8]> = self.arguments.iter().map(Vec::as_slice).collect();
        let environment: Vec<&[u8]> = self.environment.iter().map(Vec::as_slice).collect();
        let mut config = self.seed.config.clone();
        config.read_implies_exec = false;
        // The prediction takes the size for 64-bit programs, whatever this program is.
        config.task_size = config.task_size.max(Config::default().task_size);
        let exec = Exec {
            path: &self.path,
            arguments: &arguments,
            environment: &environment,
            config: &config,
            limits: self.seed.limits,
            personality: self.personality,
            settings,
        };
        // The program is open already. Its interpreter is the only other file.
        let mut opened = 0;
        let mut files = |path: &[u8]| {
            opened += 1;
            if opened == 1 {
                self.open(Path::new(&format!("/proc/{}/exe", self.tid)), AT_ENTRY)
            } else {
                self.open(&self.path_of(path), AT_BASE)
            }
        };
        let mut random = |choice: &Choice| random(choice);
        AddressSpace::exec(&exec, &mut files, &mut random).ok()
    }

    /// Returns the path at which the process finds a file.
    fn path_of(&self, path: &[u8]) -> PathBuf {
        let path = Path::new(std::ffi::OsStr::from_bytes(path));
        match path.strip_prefix("/") {
            Ok(below) => PathBuf::from(format!("/proc/{}/root", self.tid)).join(below),
            Err(_) => PathBuf::from(format!("/proc/{}/cwd", self.tid)).join(path),
        }
    }

    /// Opens a program. The map gives its identity, at the address that the auxiliary vector names.
    fn open(&self, path: &Path, kind: u64) -> Result<Program<OnDisk>, Errno> {
        let known = {
            let opened = self.opened.borrow();
            let found = opened.iter().find(|(known, _)| known == path);
            found.map(|(_, opened)| opened.clone())
        };
        let opened = match known {
            Some(opened) => opened,
            None => {
                let opened = self.open_first(path, kind)?;
                self.opened
                    .borrow_mut()
                    .push((path.to_owned(), opened.clone()));
                opened
            }
        };
        // Whatever the file says, the effect on the personality is known.
        let secure = self.auxiliary(AT_SECURE) == Some(1);
        Ok(Program {
            file: opened.file,
            image: OnDisk(opened.image),
            set_id: if secure { SetId::Other } else { SetId::No },
        })
    }

    /// Reads a file of the process. A symbolic link to an absolute path starts at the root of the
    /// process.
    fn contents(&self, path: &Path) -> io::Result<Contents> {
        let root = PathBuf::from(format!("/proc/{}/root", self.tid));
        if let Ok(below) = path.strip_prefix(&root) {
            let below = below.to_owned();
            let read = move || Contents::of(proc::open_below(&root, &below)?);
            match Contents::soon(read) {
                // Other processes may not be able to open it like this.
                Err(error) if error.kind() != io::ErrorKind::TimedOut => {}
                read => return read,
            }
        }
        Contents::open(path)
    }

    fn open_first(&self, path: &Path, kind: u64) -> Result<Opened, Errno> {
        let errno = |error: io::Error| Errno(error.raw_os_error().unwrap_or(libc::EIO));
        let image = match &self.asked.program {
            Some(program) if kind == AT_ENTRY => Rc::clone(program),
            _ => Rc::new(self.contents(path).map_err(errno)?),
        };
        let at = self.auxiliary(kind).ok_or(Errno::ENOENT)?;
        let area = self
            .map
            .areas()
            .iter()
            .find(|area| (area.start..area.end).contains(&at))
            .ok_or(Errno::ENOENT)?;
        let id = FileId {
            major: area.major,
            minor: area.minor,
            inode: area.inode,
        };
        let name = String::from_utf8_lossy(self.map.name(area));
        let described = File {
            // One number for each of the two files.
            description: NonZeroU64::new(kind),
            kind: image.kind,
            ..File::new(id, name.into())
        };
        Ok(Opened {
            file: counted(described),
            image,
        })
    }

    /// Returns the address that the kernel chose at random. `lowest` is the prediction from the
    /// lowest addresses.
    fn drawn(&self, choice: &Choice, lowest: &Started, way: u64) -> Option<u64> {
        let platform = match lowest.class {
            Class::Elf64 => "x86_64\0",
            Class::Elf32 => "i686\0",
        };
        let last = last_of(choice);
        let within = |at: &u64| (choice.lowest..=last).contains(at);
        let stack = lowest_stack(self.seed);
        let others = || {
            let areas = self.map.areas().iter();
            areas.filter(move |area| Some(area.start) != stack.map(|stack| stack.start))
        };
        let special = || others().filter(|area| self.map.name(area).starts_with(b"[v"));
        let start = |area: &Area| area.start;
        let end = |area: &Area| area.end;
        let moved = || {
            let entry = self.auxiliary(AT_ENTRY)?;
            Some(choice.lowest.wrapping_add(entry.wrapping_sub(lowest.entry)))
        };
        match choice.base {
            Base::Stack => stack.map(|stack| stack.end),
            Base::Vectors => self
                .auxiliary(AT_PLATFORM)
                .map(|at| at + platform.len() as u64),
            Base::Program => moved().map(|at| at.min(last)),
            Base::Heap => Some(self.seed.layout.start_brk),
            Base::Mmap => match (way, lowest.space.layout().bottom_up) {
                (9, _) => moved(),
                (10, true) => special().map(start).min(),
                (10, false) => special().map(end).max(),
                (11, _) => None,
                // Upwards, with a hole before the area below the special ones that is too small for
                // them.
                (12 | 13, true) => {
                    let first = special().map(start).min()?;
                    let pages = special().map(|area| area.end - area.start).sum::<u64>() / PAGE;
                    let below = others()
                        .filter(|area| area.end <= first)
                        .max_by_key(|area| area.end)?;
                    // Alignment may have put the program below the lowest address.
                    let lowest = match way {
                        12 => others().map(start).filter(within).min()?,
                        _ => choice.lowest,
                    };
                    Some((below.start - (pages - 1) * PAGE).max(lowest))
                }
                (_, true) => others().map(start).filter(within).min(),
                (_, false) => {
                    let highest = others().map(end).filter(within).max();
                    highest.map(|at| at + way * PAGE)
                }
            },
            // It lies elsewhere if it had to go where the stack is, as in the lowest prediction.
            Base::Vdso => special().map(start).min().filter(within),
            _ => None,
        }
    }

    /// Returns the difference from the prediction, if there is one.
    fn difference(&self, started: &Started) -> Option<String> {
        let (mut alike, mut renamed) = (Alike::default(), 0);
        let compared = compare::compare(started.space.maps(), self.map, &mut alike, &mut renamed);
        if let Err(difference) = compared {
            return Some(compare::side_by_side(
                &started.space,
                self.map,
                &alike,
                &difference,
            ));
        }
        let layout = started.space.layout();
        let shown = self.seed.layout;
        for (what, own, kernel) in [
            ("start of the heap", layout.start_brk, shown.start_brk),
            ("stack pointer", layout.stack_top, shown.stack_top),
            ("size of the data", layout.data_size, shown.data_size),
        ] {
            if own != kernel {
                return Some(format!("{what}: engine {own:x}, kernel {kernel:x}\n"));
            }
        }
        let lines = started.space.maps().zip(&self.seed.areas);
        for (line, seed) in lines {
            let ignored = VmFlags::SOFTDIRTY;
            if let Some(flags) = seed.flags
                && line.flags - ignored != flags - ignored
            {
                let names = |flags: VmFlags| flags.smaps_names().collect::<Vec<_>>().join(" ");
                let (own, kernel) = (names(line.flags), names(flags));
                return Some(format!("{line}\nengine: {own}\nkernel: {kernel}\n"));
            }
            let area = started.space.lookup(seed.start);
            if seed.touched && area.is_some_and(|area| area.vma.anon().is_none()) {
                return Some(format!("{line}\nthe kernel shows it as written\n"));
            }
        }
        None
    }
}

/// Returns the area of the stack.
fn lowest_stack(seed: &Seed) -> Option<&SeedVma> {
    let grows = |area: &&SeedVma| {
        area.flags
            .is_some_and(|flags| flags.contains(VmFlags::GROWSDOWN))
    };
    seed.areas.iter().find(grows)
}

/// The strings of a new program, which lie one after the other on its stack: arguments,
/// environment, the name of its file. One call reads them all, while the files of `/proc` take four
/// calls each.
struct Strings {
    start: u64,
    bytes: Vec<u8>,
}

impl Strings {
    /// Reads from the first argument to the end of the file's name, at `path`. The stack ends at
    /// `end`.
    fn read(tid: Tid, start: u64, path: u64, end: u64) -> io::Result<Self> {
        /// No name is farther away, with all the strings before it: the kernel refuses more.
        const MOST: u64 = 1 << 28;
        const LONGEST_NAME: u64 = 4096;
        let end = path.saturating_add(LONGEST_NAME).min(end);
        let length = end.checked_sub(start).filter(|length| *length < MOST);
        let mut bytes = vec![0; length.ok_or(io::ErrorKind::InvalidData)? as usize];
        let read = memory::read(tid, start, &mut bytes)?;
        bytes.truncate(read);
        Ok(Self { start, bytes })
    }

    /// Returns the bytes from an address on.
    fn from(&self, address: u64) -> io::Result<&[u8]> {
        let skipped = address.checked_sub(self.start);
        let rest = skipped.and_then(|skipped| self.bytes.get(skipped as usize..));
        rest.ok_or(io::ErrorKind::UnexpectedEof.into())
    }

    /// Returns the strings between two addresses. Each ends with a zero byte.
    fn split(&self, (start, end): (u64, u64)) -> io::Result<Vec<Vec<u8>>> {
        let length = end.saturating_sub(start) as usize;
        let text = self.from(start)?.get(..length);
        let text = text.ok_or(io::ErrorKind::UnexpectedEof)?;
        let text = text.strip_suffix(&[0]).unwrap_or(text);
        Ok(text.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect())
    }

    /// Returns the string at an address.
    fn at(&self, address: u64) -> io::Result<Vec<u8>> {
        let text = self.from(address)?;
        let end = text.iter().position(|&byte| byte == 0);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(text[..end].to_vec())
    }
}

/// A file as the map shows it, and its contents.
#[derive(Clone)]
struct Opened {
    file: Counted<File>,
    image: Rc<Contents>,
}
