//! Comparison of a predicted program with the kernel's.

use std::fmt::Write;

use samara_mm::exec::{
    Auxiliary, Base, Choice, Class, Exec, ExecError, Personality, Settings, Started,
};
use samara_mm::{AddressSpace, VmFlags};

use crate::kernel::{self, Area, Outcome, State, Subject};
use crate::machine::{self, Machine};

const AT_EXECFD: u64 = 2;
const AT_PHDR: u64 = 3;
const AT_BASE: u64 = 7;
const AT_ENTRY: u64 = 9;
const AT_PLATFORM: u64 = 15;
const AT_RANDOM: u64 = 25;
const AT_SYSINFO_EHDR: u64 = 33;

/// The number of candidates for the base of mappings.
const RETRIES: u64 = 14;

/// Returns the number that the kernel drew for a choice. `started` is the result of the lowest
/// places. The base of mappings is searched in one way after the other.
fn drawn(state: &State, choice: &Choice, started: &Started, way: u64) -> Option<u64> {
    let last = choice.lowest + (choice.count - 1) * choice.step;
    let within = |at: &u64| (choice.lowest..=last).contains(at);
    let (platform, bottom_up) = match started.class {
        Class::Elf32 => ("i686\0", started.space.layout().bottom_up),
        Class::Elf64 => ("x86_64\0", started.space.layout().bottom_up),
    };
    let is_stack = |area: &&Area| area.flags.contains(VmFlags::GROWSDOWN);
    let others = || state.areas.iter().filter(|area| !is_stack(area));
    match choice.base {
        Base::Stack => state.areas.iter().find(is_stack).map(|area| area.end),
        Base::Vectors => Some(state.auxiliary(AT_PLATFORM) + platform.len() as u64),
        Base::Mmap => {
            let ends = others().map(|area| area.end).filter(within);
            let starts = others().map(|area| area.start).filter(within);
            let special = |area: &&Area| area.line.contains(" [v");
            let special = state.areas.iter().filter(special);
            match (way, bottom_up) {
                (0, _) => None,
                // As far as the program is from where it would be.
                (2, _) => {
                    let entry = state.auxiliary(AT_ENTRY);
                    Some(
                        choice
                            .lowest
                            .wrapping_add(entry.wrapping_sub(started.entry)),
                    )
                }
                // Upwards, with a hole before the area below the special ones that is too small for them.
                (12 | 13, true) => {
                    let first = special.clone().map(|area| area.start).min()?;
                    let len: u64 = special.map(|area| area.end - area.start).sum();
                    let below = others().filter(|area| area.end <= first);
                    let below = below.max_by_key(|area| area.end)?;
                    // Alignment may have put the program below the lowest place.
                    let lowest = if way == 12 {
                        starts.min()?
                    } else {
                        choice.lowest
                    };
                    Some((below.start + 0x1000 - len).max(lowest))
                }
                (1, true) => special.map(|area| area.start).min(),
                (1, false) => special.map(|area| area.end).max(),
                (_, true) => starts.min(),
                (_, false) => ends.max().map(|at| at + (way - 3) * 0x1000),
            }
        }
        Base::Program => {
            let entry = state.auxiliary(AT_ENTRY);
            let at = choice
                .lowest
                .wrapping_add(entry.wrapping_sub(started.entry));
            // The alignment of the program hides where it would have been.
            Some(at.min(last))
        }
        Base::Heap => Some(state.start_brk),
        // Elsewhere if it was to go where the stack is, as in the lowest place.
        Base::Vdso => {
            let special = state.areas.iter().filter(|area| area.line.contains(" [v"));
            special.map(|area| area.start).min().filter(within)
        }
        _ => None,
    }
}

/// Places of the stack that are tried, spread over all, for programs that may have been killed for it.
const STACKS: u64 = 4096;

/// The places of the stack and the vectors if the kernel's are not known: 0 is the lowest,
/// [`STACKS`] the highest one.
#[derive(Clone, Copy)]
struct Unseen {
    stack: u64,
    vectors: u64,
}

impl Unseen {
    /// The usual one: nothing is lowered, which is the highest place for vectors and the lowest one for all else.
    const USUAL: Unseen = Unseen {
        stack: 0,
        vectors: STACKS,
    };

    fn draw(self, choice: &Choice) -> u64 {
        let at = match choice.base {
            Base::Vectors => self.vectors,
            Base::Stack => self.stack,
            _ => 0,
        };
        let number = u128::from(choice.count - 1) * u128::from(at) / u128::from(STACKS);
        number as u64
    }
}

/// Executes the subject on the engine, with the kernel's numbers, or otherwise with those of
/// `unseen`.
fn predict(exec: &Exec<'_>, state: Option<&State>, unseen: Unseen) -> Result<Started, ExecError> {
    let mut without = |choice: &Choice| unseen.draw(choice);
    let first = AddressSpace::exec(exec, &mut machine::open, &mut without);
    let (Ok(started), Some(state)) = (&first, state) else {
        return first;
    };
    let mut own = None;
    // The base of mappings does not show where the first one was aligned.
    for way in (3..RETRIES).chain(0..3) {
        let mut random = |choice: &Choice| {
            let address = drawn(state, choice, started, way);
            address.and_then(|at| choice.number(at)).unwrap_or(0)
        };
        let tried = AddressSpace::exec(exec, &mut machine::open, &mut random);
        let agrees = tried
            .as_ref()
            .is_ok_and(|started| differences(started, state, false).is_ok());
        if agrees || own.is_none() {
            own = Some(tried);
        }
        if agrees || exec.personality.contains(Personality::ADDR_NO_RANDOMIZE) {
            break;
        }
    }
    own.unwrap_or(first)
}

/// Executes the subject on both sides: what differs, if anything. `strict` if no segment lies over another.
pub(crate) fn compare(
    subject: &Subject,
    machine: &Machine,
    strict: bool,
) -> Result<Outcome, String> {
    let outcome = kernel::execute(subject);
    let state = match &outcome {
        Outcome::Started(state) => Some(&**state),
        _ => None,
    };
    let arguments: Vec<&[u8]> = subject.arguments.iter().map(Vec::as_slice).collect();
    let environment: Vec<&[u8]> = subject.environment.iter().map(Vec::as_slice).collect();
    // Which number the kernel chose is not for the engine to know.
    let descriptor = state.and_then(|state| {
        let found = state.auxiliary.iter().find(|(kind, _)| *kind == AT_EXECFD);
        found.map(|&(_, number)| number as u32)
    });
    let settings = Settings {
        descriptor,
        ..machine.settings.clone()
    };
    let exec = Exec {
        path: subject.path.as_bytes(),
        arguments: &arguments,
        environment: &environment,
        config: &machine.config,
        limits: machine.limits(subject),
        personality: Personality::from_bits_truncate(subject.personality),
        settings: &settings,
    };
    let mut own = predict(&exec, state, Unseen::USUAL);
    if state.is_none() && own.is_ok() {
        // It is unknown where the vectors would have been, and where the stack was, which a segment
        // may have to avoid.
        let vectors = [Unseen {
            stack: 0,
            vectors: 0,
        }]
        .into_iter();
        let stacks = (1..=STACKS).map(|stack| Unseen {
            stack,
            ..Unseen::USUAL
        });
        let refused = vectors
            .chain(stacks)
            .map(|unseen| predict(&exec, state, unseen))
            .find(Result::is_err);
        own = refused.unwrap_or(own);
    }
    match (&outcome, own) {
        (Outcome::Refused(theirs), Err(ExecError::Refused(own))) if own.0 == *theirs => {}
        (Outcome::Killed(libc::SIGSEGV), Err(ExecError::Killed(_))) => {}
        (Outcome::Started(state), Ok(started)) => {
            differences(&started, state, strict)?;
            // Segments may lie where the stack was.
            if strict {
                same_stack(&stack(&started, &exec, state), &state.stack)?;
            }
        }
        (outcome, own) => {
            let own = own.map(|started| {
                started
                    .space
                    .maps()
                    .map(|line| format!("\n  {line}"))
                    .collect::<String>()
            });
            let theirs = match outcome {
                Outcome::Started(state) => lines(state),
                other => format!("{other:?}"),
            };
            return Err(match own {
                Ok(map) => format!("engine: started{map}\nkernel: {theirs}"),
                Err(error) => format!("engine: {error:?}\nkernel: {theirs}"),
            });
        }
    }
    Ok(outcome)
}

/// The bytes of the stack, the first of which is at the stack pointer. Between them the kernel's are taken if the program is a script: there may be bytes of
/// the argument that was replaced.
fn stack(started: &Started, exec: &Exec<'_>, state: &State) -> Vec<u8> {
    let value = |kind| state.auxiliary(kind);
    let start = started.stack_pointer;
    let mut random = [0; 16];
    let at = value(AT_RANDOM).wrapping_sub(start) as usize;
    if let Some(bytes) = state.stack.get(at..).and_then(|bytes| bytes.get(..16)) {
        random.copy_from_slice(bytes);
    }
    let auxiliary = Auxiliary {
        hwcap: value(16),
        hwcap2: value(26),
        clock_ticks: value(17),
        signal_stack: value(51),
        user: (value(11) as u32, value(12) as u32),
        group: (value(13) as u32, value(14) as u32),
        secure: value(23) != 0,
        random,
        rseq: (value(27), value(28)),
        system_call: value(32),
    };
    let is_script = !started.arguments(exec).eq(exec.arguments.iter().copied());
    let len = (started.stack_end - start) as usize;
    let mut bytes = vec![0; len];
    if is_script && !exec.arguments.is_empty() && state.stack.len() == len {
        bytes.copy_from_slice(&state.stack);
    }
    let put = |at: u64, piece: &[u8]| {
        let at = (at - start) as usize;
        bytes[at..at + piece.len()].copy_from_slice(piece);
        Ok::<(), ()>(())
    };
    let _ = started.write_stack(exec, &auxiliary, put);
    bytes
}

fn same_stack(own: &[u8], theirs: &[u8]) -> Result<(), String> {
    if own == theirs {
        return Ok(());
    }
    let first = own.iter().zip(theirs).position(|(a, b)| a != b);
    let at = first.unwrap_or(own.len().min(theirs.len()));
    let show = |bytes: &[u8]| {
        let bytes = bytes.get(at & !15..).unwrap_or_default();
        format!("{:02x?}", &bytes[..bytes.len().min(64)])
    };
    Err(format!(
        "stack: byte {at} of {} (engine) and {} (kernel)\nengine: {}\nkernel: {}",
        own.len(),
        theirs.len(),
        show(own),
        show(theirs)
    ))
}

fn lines(state: &State) -> String {
    let all = state.areas.iter().map(|area| format!("\n  {}", area.line));
    all.collect()
}

fn differences(started: &Started, state: &State, strict: bool) -> Result<(), String> {
    let mut text = String::new();
    let mut note = |what: &str, own: u64, theirs: u64| {
        if own != theirs {
            let _ = writeln!(text, "{what}: engine {own:x}, kernel {theirs:x}");
        }
    };
    let layout = started.space.layout();
    note("stack pointer", started.stack_pointer, state.stack_pointer);
    note("start of the stack", layout.stack_top, state.start_stack);
    note("start", started.start, state.instruction);
    note("entry", started.entry, state.auxiliary(AT_ENTRY));
    note("interpreter", started.interpreter, state.auxiliary(AT_BASE));
    note("headers", started.headers, state.auxiliary(AT_PHDR));
    note(
        "vdso",
        started.vdso.unwrap_or(0),
        state.auxiliary(AT_SYSINFO_EHDR),
    );
    note("start of the heap", layout.start_brk, state.start_brk);
    note("size of the data", layout.data_size, state.data_size);
    let known = Personality::all().bits();
    note(
        "personality",
        started.personality.bits(),
        state.personality & known,
    );
    let own: Vec<String> = started
        .space
        .maps()
        .map(|line| {
            let text = line.to_string();
            let words: Vec<&str> = text.split_whitespace().collect();
            words.join(" ")
        })
        .collect();
    let agree =
        own.len() == state.areas.len() && own.iter().zip(&state.areas).all(|(a, b)| *a == b.line);
    if !agree {
        let _ = writeln!(
            text,
            "engine:\n  {}\nkernel:{}",
            own.join("\n  "),
            lines(state)
        );
    } else {
        for (line, area) in started.space.maps().zip(&state.areas) {
            let ignored = VmFlags::SOFTDIRTY;
            if line.flags - ignored != area.flags - ignored {
                let names = |flags: VmFlags| flags.smaps_names().collect::<Vec<_>>().join(" ");
                let _ = writeln!(
                    text,
                    "{}: engine {}, kernel {}",
                    area.line,
                    names(line.flags),
                    names(area.flags)
                );
            }
            let owned = started
                .space
                .lookup(area.start)
                .is_some_and(|area| area.vma.anon().is_some());
            // Of areas with one over another, a part may be left without the page that was written.
            if owned != area.written && (strict || area.written) {
                let _ = writeln!(
                    text,
                    "{}: written {}, says the kernel",
                    area.line, area.written
                );
            }
        }
    }
    if let Err(broken) = started.space.check() {
        let _ = writeln!(text, "the map is broken: {broken:?}");
    }
    if text.is_empty() { Ok(()) } else { Err(text) }
}
