//! New programs: the address space that `execve(2)` makes.
//!
//! [`AddressSpace::exec`] reads the headers of a program and of its interpreter, and makes the map
//! that the program finds at its first instruction. The map has the segments, the zeroed memory,
//! the stack with its strings and its space, the vdso, the start of the heap, and the base of later
//! mappings. Errors are those of the call. Each address that Linux randomises comes from a
//! [`Random`], one number for each [`Base`]. Everything else follows.
//!
//! ```
//! use samara_mm::exec::{Choice, Exec, Personality, Program, SetId, Settings};
//! use samara_mm::{AddressSpace, Config, Counted, Errno, File, FileId, Limits};
//!
//! // The smallest program: an ELF header and one segment, which the header lies in.
//! let mut program = [0; 120];
//! program[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
//! let mut put = |at: usize, bytes: &[u8]| program[at..at + bytes.len()].copy_from_slice(bytes);
//! put(16, &[2, 0, 62, 0, 1]); // ET_EXEC for x86-64
//! put(24, &0x40_0078u64.to_le_bytes()); // where it starts
//! put(32, &64u64.to_le_bytes()); // program headers: where,
//! put(54, &[56, 0, 1]); //           how long each, how many
//! put(64, &[1, 0, 0, 0, 5]); // PT_LOAD, read and execute
//! put(80, &0x40_0000u64.to_le_bytes()); // its address
//! put(96, &120u64.to_le_bytes()); // its length in the file
//! put(104, &120u64.to_le_bytes()); // and in memory
//!
//! let id = FileId { major: 8, minor: 1, inode: 7 };
//! let file = Counted::try_new(File::new(id, "/bin/small".into())).unwrap();
//! let mut files = |path: &[u8]| match path {
//!     b"/bin/small" => Ok(Program { file: file.clone(), image: &program[..], set_id: SetId::No }),
//!     _ => Err(Errno::ENOENT),
//! };
//! // In the middle of everything that is left to chance.
//! let mut random = |choice: &Choice| choice.count / 2;
//!
//! let started = AddressSpace::exec(
//!     &Exec {
//!         path: b"/bin/small",
//!         arguments: &[b"small", b"--help"],
//!         environment: &[b"HOME=/root"],
//!         config: &Config::default(),
//!         limits: Limits::default(),
//!         personality: Personality::empty(),
//!         settings: &Settings::default(),
//!     },
//!     &mut files,
//!     &mut random,
//! )?;
//! assert_eq!(started.entry, 0x40_0078);
//! let names: Vec<String> = started.space.maps().map(|line| line.to_string()).collect();
//! assert!(names[0].starts_with("00400000-00401000 r-xp 00000000 08:01 7"));
//! assert!(names[1].ends_with("[stack]"));
//! # Ok::<(), samara_mm::exec::ExecError>(())
//! ```
//!
//! # How sure the rules are
//!
//! They were learned from Linux 6.18, which the tests ask: some 200 programs of the machine, and files made by hand and at random, each started in a real child.
//! The same files were started on 6.12 and 6.1: what these do otherwise is among [the rules](crate::kernel::RULES).
//!
//! On AArch64 and RISC-V ([`Architecture`]) the rules are x86-64's but for what documents say: the psABIs, `getauxval(3)` and the kernel's description of user
//! space. Ranges from which places are drawn are x86-64's, too, but for [`Settings::random_bits`].
//!
//! # What it does not do
//!
//! The bytes of pages are their owner's: [`Started::write`] tells those that exec writes. Whether the caller may execute a
//! file is for [`Files`] to say. Formats that `binfmt_misc` registers are unknown.
//!
//! | file | concept |
//! |---|---|
//! | `bytes` | strings, vectors and the auxiliary vector, byte by byte |
//! | `headers` | what is read of an ELF file |
//! | `image` | files, as bytes and by path |
//! | `layout` | the bases of placement |
//! | `random` | what is left to chance |
//! | `script` | the first line of a script |
//! | `segments` | what of a file is mapped where |
//! | `settings` | what kernel and process bring |
//! | `special` | the vdso; the page at address 0 |
//! | `stack` | strings, room and vectors |

mod bytes;
mod headers;
mod image;
mod layout;
mod random;
mod script;
mod segments;
mod settings;
mod special;
mod stack;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use crate::config::{Config, Layout, Limits};
use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, page_align};
use crate::heap::boxed::{try_box, try_room};
use crate::space::AddressSpace;
use crate::space::areas::Areas;

pub use bytes::Auxiliary;
pub use headers::Class;
pub use image::{Files, Image, Program, SetId};
pub use random::{Base, Choice, Random};
pub use settings::{Architecture, Personality, Randomize, Settings, SpecialArea};

use bytes::Leading;
use headers::Headers;
use layout::Frame;
use script::Script;
use segments::{Check, Loaded, Place};
use stack::{Strings, Vectors};

/// The arguments of `execve(2)`, and what the kernel knows of the process that calls it.
#[derive(Debug, Clone, Copy)]
pub struct Exec<'a> {
    /// The file, as the caller names it.
    pub path: &'a [u8],
    /// Without zero bytes at their ends.
    pub arguments: &'a [&'a [u8]],
    /// Likewise.
    pub environment: &'a [&'a [u8]],
    /// For the new address space. Its [`task_size`](Config::task_size) is that of programs with 64-bit addresses;
    /// [`read_implies_exec`](Config::read_implies_exec) is decided anew. In a [range](Config::within) nothing is random, and programs that are not
    /// position-independent find no place.
    pub config: &'a Config,
    /// In force when exec is called.
    pub limits: Limits,
    /// Of the process that calls exec.
    pub personality: Personality,
    /// Everything else.
    pub settings: &'a Settings,
}

/// A program at its first instruction.
#[derive(Debug)]
pub struct Started<S = AddressSpace> {
    /// Its address space: the map, or a process with pages.
    pub space: S,
    /// The width of its addresses.
    pub class: Class,
    /// The address of its first instruction: in the interpreter, if there is one.
    pub start: u64,
    /// The address of the program's own entry point (`AT_ENTRY`).
    pub entry: u64,
    /// The difference between addresses in memory and those in the interpreter's file (`AT_BASE`),
    /// or 0 without an interpreter.
    pub interpreter: u64,
    /// The address of its program headers (`AT_PHDR`), if a segment has them.
    pub headers: u64,
    /// Their number (`AT_PHNUM`).
    pub header_count: u16,
    /// The address of the vdso's code (`AT_SYSINFO_EHDR`).
    pub vdso: Option<u64>,
    /// The stack pointer: the number of arguments is there, and above it what `AT_*` tell.
    pub stack_pointer: u64,
    /// The address of the platform's name (`AT_PLATFORM`). The random bytes (`AT_RANDOM`) are below
    /// it.
    pub platform: u64,
    /// End of the stack (exclusive). The last word is zero, below it are the path, the environment and the arguments.
    pub stack_end: u64,
    /// Personality from now on.
    pub personality: Personality,
    /// Ranges in pages of files that are zero, because memory follows there that the file does not have.
    pub zeroed: Vec<(u64, u64)>,
    leading: Leading,
    /// The string for `AT_PLATFORM` with its zero byte. Empty if the architecture has none.
    platform_name: &'static [u8],
    /// `true` if the auxiliary vector has the entries of restartable sequences.
    tells_rseq: bool,
}

impl<S> Started<S> {
    /// Returns the same program with the result of `make` of its address space.
    ///
    /// # Errors
    /// Those of `make`; the program is dropped.
    pub fn try_map<T, E>(self, make: impl FnOnce(S) -> Result<T, E>) -> Result<Started<T>, E> {
        Ok(Started {
            space: make(self.space)?,
            class: self.class,
            start: self.start,
            entry: self.entry,
            interpreter: self.interpreter,
            headers: self.headers,
            header_count: self.header_count,
            vdso: self.vdso,
            stack_pointer: self.stack_pointer,
            platform: self.platform,
            stack_end: self.stack_end,
            personality: self.personality,
            zeroed: self.zeroed,
            leading: self.leading,
            platform_name: self.platform_name,
            tells_rseq: self.tells_rseq,
        })
    }
}

/// Why there is no new program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecError {
    /// The call fails with this error, and the old program goes on.
    Refused(Errno),
    /// The old program was gone already: the process is killed with `SIGSEGV`. The error is what went wrong.
    Killed(Errno),
}

impl fmt::Display for ExecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExecError::Refused(errno) => write!(f, "{errno}: {}", errno.description()),
            ExecError::Killed(errno) => write!(f, "killed while the program was loaded: {errno}"),
        }
    }
}

impl core::error::Error for ExecError {}

/// The stack limit that programs with another user's privileges get at most. Linux uses its usual
/// limit.
const SAFE_STACK: u64 = 8 << 20;

/// The files that were opened and read before the old program is gone.
struct Found<I> {
    program: Program<I>,
    headers: Headers,
    interpreter: Option<(Program<I>, Headers)>,
    strings: Strings,
    vectors: Vectors,
    leading: Leading,
}

impl AddressSpace {
    /// Returns the address space of a new program.
    ///
    /// It costs some reads of each file, for the headers, and O(log n) for each of the n segments. [The module](crate::exec) has an example.
    ///
    /// # Errors
    /// [`Refused`](ExecError::Refused) with the errors of `execve(2)`: `E2BIG` for arguments and
    /// environment that are too long, those of [`Files::open`] and [`Image::read_at`], `ENOEXEC`
    /// for a file in no known format, and `ELOOP` for scripts of scripts. Also `ELIBBAD` for an
    /// interpreter that is no ELF file of the same kind, `EIO` for a file that ends too early,
    /// `EINVAL` for offsets beyond the largest file, and `ENOMEM` when an allocation fails.
    /// [`Killed`](ExecError::Killed) for errors that show later: segments that overlap or have no
    /// space, and limits.
    pub fn exec<F, R>(exec: &Exec<'_>, files: &mut F, random: &mut R) -> Result<Started, ExecError>
    where
        F: Files + ?Sized,
        R: Random + ?Sized,
    {
        Self::exec_on_heap(exec, files, random)?.try_map(|space| Ok(*space))
    }

    /// As [`exec`](Self::exec), with the address space where it does not move: on the stack each step of its way would have a copy.
    #[inline(never)]
    pub(crate) fn exec_on_heap<F, R>(
        exec: &Exec<'_>,
        files: &mut F,
        random: &mut R,
    ) -> Result<Started<Box<AddressSpace>>, ExecError>
    where
        F: Files + ?Sized,
        R: Random + ?Sized,
    {
        // In its place: what was found lies below all the rest on the stack.
        match &mut find(exec, files) {
            Ok(found) => start(exec, found, random).map_err(ExecError::Killed),
            Err(errno) => Err(ExecError::Refused(*errno)),
        }
    }
}

/// Opens an interpreter. One without a name cannot be executed, say all kernels.
fn open<F: Files + ?Sized>(files: &mut F, path: &[u8]) -> Result<Program<F::Image>, Errno> {
    if path.is_empty() {
        return Err(Errno::EACCES);
    }
    files.open(path)
}

/// Does everything that may fail while the old program is still there.
#[inline(never)]
fn find<F: Files + ?Sized>(exec: &Exec<'_>, files: &mut F) -> Result<Found<F::Image>, Errno> {
    let mut program = files.open(exec.path)?;
    let mut strings = Strings::new(exec.arguments.len(), exec.environment.len(), &exec.limits)?;
    strings.push(exec.path)?;
    for text in exec.environment.iter().rev() {
        strings.push(text)?;
    }
    for text in exec.arguments.iter().rev() {
        strings.push(text)?;
    }
    let mut vectors = Vectors {
        arguments: exec.arguments.len(),
        variables: exec.environment.len(),
        descriptor: exec.settings.descriptor.is_some(),
    };
    let mut leading = Leading::default();
    if exec.arguments.is_empty() {
        // No program starts without a name.
        strings.push(b"")?;
        leading.push(b"")?;
        vectors.arguments = 1;
    }
    resolve_scripts(
        exec,
        files,
        &mut program,
        (&mut strings, &mut vectors, &mut leading),
    )?;
    let (kernel, architecture) = (exec.config.kernel, exec.settings.architecture);
    let headers = Headers::read(&program.image, kernel, architecture)?;
    let interpreter = match headers.interpreter_path(&program.image)? {
        None => None,
        Some(path) => {
            let interpreter = open(files, &path)?;
            let read = headers.read_interpreter(&interpreter.image, kernel, architecture)?;
            Some((interpreter, read))
        }
    };
    Ok(Found {
        program,
        headers,
        interpreter,
        strings,
        vectors,
        leading,
    })
}

/// Replaces a script by its interpreter, and that by its own if it is a script, too. The interpreter,
/// its argument and the script take the place of the first argument.
///
/// # Errors
/// `ELOOP` for too many scripts, and those of the files.
#[inline(never)]
fn resolve_scripts<F: Files + ?Sized>(
    exec: &Exec<'_>,
    files: &mut F,
    program: &mut Program<F::Image>,
    (strings, vectors, leading): (&mut Strings, &mut Vectors, &mut Leading),
) -> Result<(), Errno> {
    let mut head = [0; script::HEAD];
    let mut first = exec.arguments.first().copied().unwrap_or_default().len();
    let mut depth = 0;
    loop {
        let there = program.image.read_at(0, &mut head)?;
        let Some(script) = Script::read(&head[..there])? else {
            return Ok(());
        };
        if depth == script::DEPTH {
            return Err(Errno::ELOOP);
        }
        depth += 1;
        strings.pop(first);
        let replaced = leading.pop();
        let name = match &replaced {
            Some(path) if depth > 1 => path,
            _ => exec.path,
        };
        vectors.arguments -= 1;
        let last_first = [Some(name), script.argument, Some(script.interpreter)];
        for argument in last_first.into_iter().flatten() {
            strings.push(argument)?;
            leading.push(argument)?;
            vectors.arguments += 1;
        }
        first = script.interpreter.len();
        *program = open(files, script.interpreter)?;
    }
}

/// Makes the empty areas of an address space. They are made on the heap, because on the stack there
/// would be a second copy next to the address space to which they are moved.
#[inline(never)]
fn no_areas() -> Result<Box<Areas>, Errno> {
    try_box(Areas::new()?)
}

/// Makes an address space on the heap. A call: while it is moved there, it takes room on the stack.
#[inline(never)]
fn empty(
    exec: &Exec<'_>,
    (task_size, read_implies_exec): (u64, bool),
    layout: Layout,
    areas: Box<Areas>,
) -> Result<Box<AddressSpace>, Errno> {
    let config = Config {
        task_size,
        read_implies_exec,
        ..exec.config.clone()
    };
    let room = try_room()?;
    let space = AddressSpace::with_areas(config, exec.limits, layout, || Ok(*areas))?;
    Ok(Box::write(room, space))
}

/// Makes the new address space. The old one is gone, so a failure here kills the process.
#[inline(never)]
fn start<I: Image, R: Random + ?Sized>(
    exec: &Exec<'_>,
    found: &mut Found<I>,
    random: &mut R,
) -> Result<Started<Box<AddressSpace>>, Errno> {
    let settings = exec.settings;
    let (mut personality, mut limits) = (exec.personality, exec.limits);
    if found.program.set_id != SetId::No {
        personality -= Personality::UNSAFE;
    }
    if found.program.set_id == SetId::Other {
        limits.stack = limits.stack.min(SAFE_STACK);
    }
    let headers = &found.headers;
    let class = headers.class;
    let frame = Frame::new(class, exec.config, settings, personality);
    let old = class == Class::Elf32 && headers.stack.is_none();
    let executable = headers.stack.unwrap_or(old);
    // A program with 64-bit addresses does not inherit it.
    let inherited = personality.contains(Personality::READ_IMPLIES_EXEC);
    let read_implies_exec = old || class == Class::Elf32 && inherited;
    let (mmap_base, legacy_base) = frame.mmap_bases(exec.config, &limits, random);
    let task_size = match class {
        Class::Elf64 => exec.config.task_size,
        Class::Elf32 => frame.task_size,
    };
    let layout = Layout {
        mmap_base,
        legacy_base,
        bottom_up: frame.is_legacy,
        start_brk: 0,
        brk: 0,
        data_size: 0,
        stack_top: 0,
    };
    // Programs that do not say what their stack needs are from before that was told apart.
    let mut space = empty(exec, (task_size, read_implies_exec), layout, no_areas()?)?;
    let stack_end = stack::map(&mut space, frame, &found.strings, executable, random)?;

    let mut zeroed = Vec::new();
    let loaded = load_program(&mut space, found, frame, random, &mut zeroed)?;

    let entry = loaded.bias.wrapping_add(headers.entry);
    let interpreter = load_interpreter(&mut space, found, loaded.bias, &mut zeroed)?;
    let (start, base) = interpreter.unwrap_or((entry, 0));
    if start >= space.config.task_size {
        return Err(Errno::EINVAL);
    }
    let special = match class {
        Class::Elf64 => &settings.special,
        Class::Elf32 => &settings.special_32,
    };
    let strings = found.strings.lowest(stack_end);
    let vdso = special::map(&mut space, special, frame, strings, random)?;
    let (stack_pointer, platform) = stack::lay_vectors(
        &mut space,
        frame,
        stack_end,
        &found.strings,
        &found.vectors,
        random,
    )?;
    space.layout.stack_top = stack_pointer;
    if personality.contains(Personality::MMAP_PAGE_ZERO) {
        special::map_page_zero(&mut space);
    }
    personality.set(Personality::READ_IMPLIES_EXEC, read_implies_exec);
    Ok(Started {
        headers: headers.address(loaded.bias),
        header_count: headers.count,
        tells_rseq: stack::tells_rseq(&space),
        leading: core::mem::take(&mut found.leading),
        platform_name: settings.architecture.platform(class),
        platform,
        space,
        class,
        start,
        entry: class.wrap(entry),
        interpreter: class.wrap(base),
        vdso,
        stack_pointer,
        stack_end,
        personality,
        zeroed,
    })
}

/// Maps the program's segments, and sets the heap and the size of the data.
fn load_program<I: Image, R: Random + ?Sized>(
    space: &mut AddressSpace,
    found: &Found<I>,
    frame: Frame,
    random: &mut R,
    zeroed: &mut Vec<(u64, u64)>,
) -> Result<Loaded, Errno> {
    let headers = &found.headers;
    let alone = headers.moves && found.interpreter.is_none();
    let to = match headers.moves {
        false => Place::At(None),
        true if alone => Place::Anywhere(headers.alignment()),
        true => Place::At(Some(frame.program_place(headers.alignment(), random))),
    };
    let to = (to, Check::InFile);
    let loaded = segments::load(space, &found.program, headers, to, zeroed)?;
    // A program without an interpreter lies among the mappings. Its heap is where the program would be if it had one.
    let heap = if alone {
        frame.heap_place(page_align(frame.program_base()), 0, random)
    } else {
        frame.heap_place(page_align(loaded.end), PAGE_SIZE, random)
    };
    space.layout.start_brk = heap;
    space.layout.brk = heap;
    space.layout.data_size = loaded.data.1.saturating_sub(loaded.data.0);
    Ok(loaded)
}

/// Maps the segments of the interpreter, if there is one. Returns its entry point and its bias. `bias` is that of the program.
fn load_interpreter<I: Image>(
    space: &mut AddressSpace,
    found: &Found<I>,
    bias: u64,
    zeroed: &mut Vec<(u64, u64)>,
) -> Result<Option<(u64, u64)>, Errno> {
    let Some((interpreter, headers)) = &found.interpreter else {
        return Ok(None);
    };
    let to = match headers.moves {
        false => Place::Over,
        // The kernel takes a program with bias 0 for one whose addresses are fixed.
        true if bias == 0 => Place::Hinted,
        true => Place::Anywhere(PAGE_SIZE),
    };
    let loaded = segments::load(space, interpreter, headers, (to, Check::InMemory), zeroed)?;
    Ok(Some((loaded.bias.wrapping_add(headers.entry), loaded.bias)))
}
