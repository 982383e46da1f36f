//! A history as a program. Its addresses are relative to the results of earlier steps: `r[0]`,
//! `r[1]` …

use std::collections::HashMap;
use std::fmt::Write as _;

use samara_conformance::describe::{Described, Returned};
use samara_mm::{Call, FileArg};

use super::both::{Both, Found, Line, What};
use super::child::{WIDE, raw};
use super::history::{Action, Place, Step, addresses, mapped};

// The parts that do not depend on the history.
const RUST_HEAD: &str = include_str!("parts/head.rs");
const RUST_AREAS: &str = include_str!("parts/areas.rs");
const RUST_FILE: &str = include_str!("parts/file.rs");
const C_HEAD: &str = include_str!("parts/head.c");

/// The steps that were performed, numbered from 0.
struct Names<'a> {
    /// The number of the result, by the number of the step.
    numbers: HashMap<usize, usize>,
    /// The mapped ranges, each with the name of its result.
    ranges: Vec<(String, u64, u64)>,
    found: &'a Found,
}

impl<'a> Names<'a> {
    fn new(steps: &[Step], found: &'a Found) -> Self {
        let mut names = Self {
            numbers: HashMap::new(),
            ranges: vec![("fence".to_owned(), found.fence, found.fence + WIDE)],
            found,
        };
        for step in steps.iter().take(found.step) {
            let number = names.numbers.len();
            names.numbers.insert(step.id, number);
            if let Some((result, action)) = found.results.get(&step.id)
                && let Some((start, end)) = mapped(action, *result)
            {
                names.ranges.push((format!("r[{number}]"), start, end));
            }
        }
        names
    }

    fn place(&self, place: Place, addr: u64) -> String {
        match place {
            Place::Absolute => format!("{addr:#x}"),
            Place::Heap(offset) => behind("start_brk", offset),
            Place::Behind { step, offset } => match self.numbers.get(&step) {
                Some(number) => behind(&format!("r[{number}]"), offset),
                None => format!("{addr:#x}"),
            },
        }
    }

    /// Returns an answered value as text: an address relative to a name, or a small number or an
    /// error unchanged.
    fn value(&self, value: i64) -> String {
        const LOWEST: i64 = 0x1_0000;
        if value < LOWEST {
            return value.to_string();
        }
        let addr = value as u64;
        let distance = |start: u64, end: u64| {
            if (start..=end).contains(&addr) {
                0
            } else {
                addr.abs_diff(start)
            }
        };
        let near = self
            .ranges
            .iter()
            .min_by_key(|(_, start, end)| distance(*start, *end));
        match near {
            Some((name, start, end)) if distance(*start, *end) < 1 << 40 => {
                behind(name, addr.wrapping_sub(*start) as i64)
            }
            _ if addr.abs_diff(self.found.start_brk) < 1 << 40 => {
                behind("start_brk", addr.wrapping_sub(self.found.start_brk) as i64)
            }
            _ => format!("{addr:#x}"),
        }
    }
}

fn behind(base: &str, offset: i64) -> String {
    match offset {
        0 => base.to_owned(),
        1.. => format!("{base} + {offset:#x}"),
        _ => format!("{base} - {:#x}", offset.unsigned_abs()),
    }
}

/// Describes a step in words, with the addresses that it had.
fn described(action: &Action) -> String {
    match action {
        Action::Call(call) => Described(call).to_string(),
        Action::Touch(addr) => format!("a write to {addr:#x}"),
        Action::ForkInto => "fork(); what follows is the child's".to_owned(),
        Action::ForkAside => "fork(); the child stays".to_owned(),
    }
}

/// Returns the call with a marker in place of each address, and the text that belongs there.
fn marked(step: &Step, action: &Action, names: &Names<'_>) -> (Action, Vec<(u64, String)>) {
    // No argument is likely to equal it.
    const MARK: u64 = 0x5a5a_a5a5_1234_0000;
    let mut action = action.clone();
    let mut texts = Vec::new();
    for (index, (addr, place)) in addresses(&mut action)
        .into_iter()
        .zip(step.places)
        .enumerate()
    {
        if let Some(addr) = addr {
            let mark = MARK + index as u64;
            texts.push((mark, names.place(place, *addr)));
            *addr = mark;
        }
    }
    (action, texts)
}

fn outcome(names: &Names<'_>) -> (String, String) {
    match &names.found.what {
        What::Answer { kernel, engine } => (names.value(*kernel), names.value(*engine)),
        What::Map { .. } => (String::new(), String::new()),
    }
}

fn performed<'a>(step: &Step, found: &'a Found) -> Option<&'a (i64, Action)> {
    found.results.get(&step.id)
}

/// Writes the history as a C program that asks the kernel it runs on. It prints both answers, and
/// exits with 1 if they differ.
pub(super) fn c(steps: &[Step], found: &Found, both: &Both) -> String {
    let names = Names::new(steps, found);
    let last = found.step;
    let mut body = String::new();
    for (number, step) in steps.iter().take(last + 1).enumerate() {
        if let Some((result, action)) = performed(step, found) {
            let (marked, texts) = marked(step, action, &names);
            let told = described(action);
            let _ = writeln!(body, "\t/* {told} = {} */", Returned(*result));
            c_step(&mut body, number, &marked, &texts, both);
        }
    }
    let end = match &found.what {
        What::Answer { .. } => {
            let (_, engine) = outcome(&names);
            format!("\treturn answer(r[{last}], {engine});\n")
        }
        What::Map { engine, .. } => c_map(engine, &names, steps),
    };
    format!(
        "{C_HEAD}int main(void)\n{{\n\tstatic long r[{}];\n\tstart_brk = find_start_brk();\n\tfence = put_fence();\n{body}{end}}}\n",
        last + 1
    )
}

/// Writes a step in C. `texts` are the addresses to put in the place of the markers.
fn c_step(body: &mut String, number: usize, marked: &Action, texts: &[(u64, String)], both: &Both) {
    let _ = match marked {
        Action::Touch(_) => {
            let text = texts.first().map_or("0", |text| &text.1);
            writeln!(body, "\tr[{number}] = touch({text});")
        }
        Action::ForkInto => writeln!(body, "\tr[{number}] = into_child();"),
        Action::ForkAside => writeln!(body, "\tr[{number}] = aside();"),
        Action::Call(call) => {
            let Some((nr, list)) = c_arguments(call, texts, both) else {
                return;
            };
            match call {
                Call::SetVmaName {
                    name: Some(name), ..
                } => {
                    let quoted: String = name.escape_default().collect();
                    let _ = writeln!(body, "\tstrcpy(room, \"{quoted}\");");
                }
                Call::Mbind { nodes, .. } => {
                    let _ = writeln!(body, "\t*(unsigned long *)room = {nodes:#x}UL;");
                }
                _ => {}
            }
            writeln!(body, "\tr[{number}] = call({nr}, {});", list.join(", "))
        }
    };
}

/// Returns the number and the arguments of a call in C. `None` if the kernel cannot perform it here.
fn c_arguments(call: &Call, texts: &[(u64, String)], both: &Both) -> Option<(i64, Vec<String>)> {
    // No argument is likely to equal it.
    const ROOM: u64 = 0x5a5a_a5a5_4321_0000;
    let (nr, arguments) = raw(call, ROOM, &both.files)?;
    let text = |(index, &argument): (usize, &u64)| {
        if let Some((_, text)) = texts.iter().find(|(mark, _)| *mark == argument) {
            return text.clone();
        }
        match call {
            _ if argument == ROOM => "(long)room".to_owned(),
            Call::Mmap {
                file: FileArg::File(file),
                ..
            } if index == 4 => format!(
                "file({}, {})",
                both.files.number(file),
                access(file.readable, file.writable)
            ),
            _ => format!("{argument:#x}UL"),
        }
    };
    Some((nr, arguments.iter().enumerate().map(text).collect()))
}

/// Writes the comparison of the engine's areas with the kernel's map in C.
fn c_map(engine: &[Line], names: &Names<'_>, steps: &[Step]) -> String {
    let mut text = String::from("\tstatic struct area engine[64];\n");
    for (index, line) in engine.iter().enumerate().take(64) {
        let (start, end) = ends(line, names);
        let _ = writeln!(
            text,
            "\tengine[{index}] = (struct area){{ {start}, {end}, \"{}\" }};",
            line.perms
        );
    }
    for (name, length) in windows(names, steps) {
        let _ = writeln!(text, "\twindow({name}, {length:#x});");
    }
    let _ = writeln!(text, "\treturn map(engine, {});", engine.len().min(64));
    text
}

fn access(readable: bool, writable: bool) -> &'static str {
    match (readable, writable) {
        (true, false) => "O_RDONLY",
        (false, true) => "O_WRONLY",
        _ => "O_RDWR",
    }
}

/// Returns the mapped ranges, including that of the last step.
fn windows(names: &Names<'_>, steps: &[Step]) -> Vec<(String, u64)> {
    let mapped_before = names.ranges.iter().skip(1);
    let mut ranges: Vec<(String, u64)> = mapped_before
        .map(|(name, start, end)| (name.clone(), end - start))
        .collect();
    if let Some(step) = steps.get(names.found.step)
        && let Some((result, action)) = performed(step, names.found)
        && let Some((start, end)) = mapped(action, *result)
    {
        ranges.push((format!("r[{}]", names.found.step), end - start));
    }
    ranges
}

fn ends(line: &Line, names: &Names<'_>) -> (String, String) {
    (names.value(line.start as i64), names.value(line.end as i64))
}

/// Writes the history as a Rust test that asks the engine. The test fails if the answer is not the
/// kernel's.
pub(super) fn rust(steps: &[Step], found: &Found, both: &Both) -> String {
    let names = Names::new(steps, found);
    let mut body = String::new();
    for step in steps.iter().take(found.step + 1) {
        if let Some((result, action)) = performed(step, found) {
            let (marked, texts) = marked(step, action, &names);
            let _ = writeln!(body, "    // {} = {}", described(action), Returned(*result));
            rust_step(&mut body, &marked, &texts, both);
        }
    }
    let last = found.step;
    let kernel = both
        .config
        .as_ref()
        .map_or_else(String::new, |config| config.kernel.to_string());
    let end = match &found.what {
        What::Answer { .. } => {
            let (kernel, _) = outcome(&names);
            format!(
                "    assert_eq!(r[{last}], {kernel}, \"the kernel's answer is on the right\");\n"
            )
        }
        What::Map { kernel, .. } => rust_map(kernel, &names, steps),
    };
    let either = |part: &str| body.contains(part) || end.contains(part);
    let start_brk = match either("start_brk") {
        true => "    let start_brk = space.layout().start_brk as i64;\n",
        false => "",
    };
    let fence = if either("fence") { "" } else { "_" };
    let areas = match end.contains("areas(") {
        true => RUST_AREAS,
        false => "",
    };
    let (file, uses) = match body.contains("FileArg::File") {
        true => (
            RUST_FILE,
            "use samara_mm::{\n    AddressSpace, Call, Config, Counted, DriverFlags, File, FileArg, FileId, FileKind, Layout,\n    Limits, Object,\n};\n",
        ),
        false => (
            "",
            "use samara_mm::{AddressSpace, Call, Config, FileArg, Layout, Limits};\n",
        ),
    };
    format!(
        "//! The shortest history in which the engine differs from the kernel, found by `samara replay --minimise`.\n\n\
         #![allow(unused_imports, unused_mut)]\n\n{uses}\n{RUST_HEAD}{areas}{file}\
         #[test]\nfn the_engine_answers_as_the_kernel() {{\n\
         \x20   let config = Config {{\n        kernel: \"{kernel}\".parse().unwrap(),\n        ..Config::default()\n    }};\n\
         \x20   let mut space = AddressSpace::new(config, Limits::default(), Layout::default()).unwrap();\n\
         \x20   let {fence}fence = put_fence(&mut space);\n{start_brk}    let mut r: Vec<i64> = Vec::new();\n{body}{end}}}\n"
    )
}

/// Writes a step in Rust. `texts` are the addresses to put in the place of the markers.
fn rust_step(body: &mut String, marked: &Action, texts: &[(u64, String)], both: &Both) {
    match marked {
        Action::Touch(_) => {
            let addr = texts.first().map_or("0", |text| &text.1);
            let _ = writeln!(
                body,
                "    let _ = space.fault(({addr}) as u64, true);\n    r.push(0);"
            );
        }
        Action::ForkInto => {
            *body += "    space = space.fork().unwrap();\n    r.push(0);\n";
        }
        Action::ForkAside => {
            *body += "    space.fork().unwrap();\n    r.push(0);\n";
        }
        Action::Call(call) => {
            let mut text = call_text(call, both);
            for (mark, name) in texts {
                let place = match name.strip_prefix("0x") {
                    Some(_) => name.clone(),
                    None => format!("({name}) as u64"),
                };
                text = text.replace(&mark.to_string(), &place);
            }
            let _ = writeln!(body, "    r.push(answer(&mut space, Call::{text}));");
        }
    }
}

/// Writes the comparison of the kernel's areas with the engine's map in Rust.
fn rust_map(kernel: &[Line], names: &Names<'_>, steps: &[Step]) -> String {
    let mut text = String::from("    let windows = [\n");
    for (name, length) in windows(names, steps) {
        let _ = writeln!(text, "        ({name}, {name} + {length:#x}),");
    }
    text += "    ];\n    let kernel = [\n";
    for line in kernel {
        let (start, end) = ends(line, names);
        let _ = writeln!(
            text,
            "        ({start}, {end}, \"{}\".to_owned()),",
            line.perms
        );
    }
    text + "    ];\n    assert_eq!(areas(&space, &windows), kernel, \"the kernel's areas are on the right\");\n"
}

/// Returns a call as an expression, without `Call::`.
fn call_text(call: &Call, both: &Both) -> String {
    let mut plain = call.clone();
    let mut argument = "FileArg::None".to_owned();
    if let Call::Mmap { file, .. } = &mut plain {
        argument = match file {
            FileArg::None => argument,
            FileArg::Bad => "FileArg::Bad".to_owned(),
            FileArg::File(file) => format!(
                "FileArg::File(file({}, {}, {}))",
                both.files.number(file),
                file.readable,
                file.writable
            ),
        };
        *file = FileArg::None;
    }
    let text = format!("{plain:?}").replace("file: None", &format!("file: {argument}"));
    match call {
        Call::SetVmaName {
            name: Some(name), ..
        } => text.replace(
            &format!("Some({name:?})"),
            &format!("Some({name:?}.into())"),
        ),
        _ => text,
    }
}
