//! Programs that are executed: what they find at their first instruction.

use std::sync::Arc;

use samara_mm::exec::{
    Auxiliary, Choice, Exec, ExecError, Personality, Program, SetId, Settings, SpecialArea, Started,
};
use samara_mm::process::{Access, Fault, ForkMode, FrameRun, Inode, Machine, PageFrame, Process};
use samara_mm::walkers::PinFlags;
use samara_mm::{Config, Counted, Errno, File, Limits, Object, Prot, VmFlags};
use samara_paging::Kind;

use crate::countdown::LEFT;
use crate::world::{Disk, Hosted, PAGE, free_frames, machine, open};

const CODE: u64 = 0x40_0000;
const DATA: u64 = 0x60_0000;
/// Bytes of data in the file, and zeroes that follow them.
const FILLED: u64 = 0x123;
const ZEROED: u64 = 0x2345;

/// A page of code with the headers, and a page whose bytes are 2, the first of which are data.
fn program() -> Arc<Disk> {
    let disk = Disk::new(3 * PAGE as usize, false);
    let mut bytes = disk.bytes.lock().unwrap();
    bytes[..PAGE as usize].fill(0);
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    put(0, b"\x7fELF\x02\x01\x01\0");
    put(16, &[2, 0, 62, 0, 1]);
    put(24, &(CODE + 0x100).to_le_bytes());
    put(32, &64u64.to_le_bytes());
    put(54, &[56, 0, 2]);
    let mut segment = |at: usize, flags: u8, words: [u64; 5]| {
        put(at, &[1, 0, 0, 0, flags]);
        for (number, word) in words.into_iter().enumerate() {
            put(at + 8 + 8 * number, &word.to_le_bytes());
        }
    };
    segment(64, 5, [0, CODE, 0, PAGE, PAGE]);
    segment(120, 6, [PAGE, DATA, 0, FILLED, FILLED + ZEROED]);
    drop(bytes);
    disk
}

fn script() -> Arc<Disk> {
    let disk = Disk::new(0, false);
    *disk.bytes.lock().unwrap() = b"#! /program one argument \n".to_vec();
    disk
}

/// Two files, opened before anything is refused.
struct Root {
    program: (Counted<File>, Vec<u8>),
    script: (Counted<File>, Vec<u8>),
}

impl Root {
    fn new() -> Self {
        let file = |disk: Arc<Disk>| (open(&disk), disk.bytes.lock().unwrap().clone());
        Root {
            program: file(program()),
            script: file(script()),
        }
    }

    fn exec(
        &self,
        machine: &Machine<Hosted>,
        path: &[u8],
        arguments: &[&[u8]],
    ) -> Result<Started<Process<Hosted>>, ExecError> {
        self.exec_with(machine, path, arguments, &Settings::default())
    }

    fn exec_with(
        &self,
        machine: &Machine<Hosted>,
        path: &[u8],
        arguments: &[&[u8]],
        settings: &Settings,
    ) -> Result<Started<Process<Hosted>>, ExecError> {
        let exec = Exec {
            path,
            arguments,
            environment: &[b"A=B", b""],
            config: &Config::default(),
            limits: Limits::default(),
            personality: Personality::empty(),
            settings,
        };
        let auxiliary = Auxiliary {
            random: *b"sixteen letters!",
            user: (7, 8),
            ..Auxiliary::default()
        };
        let mut files = |path: &[u8]| {
            let (file, image) = match path {
                b"/program" => &self.program,
                b"/script" => &self.script,
                _ => return Err(Errno::ENOENT),
            };
            Ok(Program {
                file: file.clone(),
                image: image.as_slice(),
                set_id: SetId::No,
            })
        };
        let mut random = |choice: &Choice| choice.count / 2;
        Process::exec(machine, &exec, &auxiliary, &mut files, &mut random)
    }
}

fn word(process: &Process<Hosted>, at: u64) -> u64 {
    let mut bytes = [0; 8];
    assert_eq!(process.copy_out(at, &mut bytes), 8);
    u64::from_le_bytes(bytes)
}

fn text(process: &Process<Hosted>, mut at: u64) -> String {
    let mut text = String::new();
    loop {
        let mut byte = [0];
        assert_eq!(process.copy_out(at, &mut byte), 1);
        match byte[0] {
            0 => return text,
            byte => text.push(char::from(byte)),
        }
        at += 1;
    }
}

/// Arguments, environment and the auxiliary vector, found as a program does.
fn found(started: &Started<Process<Hosted>>) -> (Vec<String>, Vec<String>, Vec<(u64, u64)>) {
    let process = &started.space;
    let mut at = started.stack_pointer;
    let count = word(process, at);
    at += 8;
    let mut lists = [Vec::new(), Vec::new()];
    for list in &mut lists {
        loop {
            let pointer = word(process, at);
            at += 8;
            if pointer == 0 {
                break;
            }
            list.push(text(process, pointer));
        }
    }
    let [arguments, environment] = lists;
    assert_eq!(arguments.len() as u64, count);
    let mut vector = Vec::new();
    loop {
        let entry = (word(process, at), word(process, at + 8));
        at += 16;
        if entry == (0, 0) {
            return (arguments, environment, vector);
        }
        vector.push(entry);
    }
}

#[test]
fn a_program_finds_its_arguments_and_zeroes() {
    let (machine, root) = (machine(256), Root::new());
    let started = root
        .exec(&machine, b"/program", &[b"name", b"second"])
        .unwrap();
    let process = &started.space;
    let (arguments, environment, vector) = found(&started);
    assert_eq!(arguments, ["name", "second"]);
    assert_eq!(environment, ["A=B", ""]);
    let value = |kind| vector.iter().find(|entry| entry.0 == kind).unwrap().1;
    assert_eq!(value(9), CODE + 0x100);
    assert_eq!((value(3), value(5)), (CODE + 64, 2));
    assert_eq!((value(11), value(12)), (7, 8));
    assert_eq!(text(process, value(31)), "/program");
    assert_eq!(text(process, value(15)), "x86_64");
    assert!(text(process, value(25)).starts_with("sixteen letters!"));

    assert_eq!(process.fault(started.start, Access::EXEC), Ok(()));
    let mut data = vec![9; 2 * PAGE as usize];
    assert_eq!(process.copy_out(DATA, &mut data), data.len());
    let (filled, zeroed) = data.split_at(FILLED as usize);
    assert!(filled.iter().all(|byte| *byte == 2));
    assert!(zeroed.iter().all(|byte| *byte == 0));
    process.check().unwrap();
}

#[test]
fn a_script_gets_its_interpreter_its_argument_and_its_path() {
    let (machine, root) = (machine(256), Root::new());
    let started = root
        .exec(&machine, b"/script", &[b"name", b"second"])
        .unwrap();
    let (arguments, _, vector) = found(&started);
    assert_eq!(arguments, ["/program", "one argument", "/script", "second"]);
    let path = vector.iter().find(|entry| entry.0 == 31).unwrap().1;
    assert_eq!(text(&started.space, path), "/script");
}

#[test]
fn long_arguments_arrive() {
    let (machine, root) = (machine(256), Root::new());
    let long = vec![b'x'; 100_000];
    let started = root.exec(&machine, b"/program", &[&long]).unwrap();
    let (arguments, ..) = found(&started);
    assert_eq!(arguments[0].len(), long.len());
}

/// One frame of the kernel's for all programs; a debugger that writes there has a copy.
#[test]
fn special_areas_have_frames_of_the_kernel() {
    for counted in [false, true] {
        let (machine, root) = (machine(256), Root::new());
        let phys = machine.physical().alloc_page(Kind::File).unwrap();
        // SAFETY: a new frame.
        unsafe { machine.physical().to_virt(phys).write_bytes(0xc3, 4096) };
        let frame = match counted {
            true => PageFrame::Counted(phys),
            false => PageFrame::Special(phys),
        };
        let settings = Settings {
            special: vec![
                area("[vvar]", SpecialArea::DATA, Object::none()),
                area(
                    "[vdso]",
                    SpecialArea::CODE,
                    Inode::object(FrameRun {
                        first: frame,
                        pages: 1,
                    })
                    .unwrap(),
                ),
                // Programs are told of the vdso alone.
                area("[sigpage]", SpecialArea::CODE, Object::none()),
            ],
            ..Settings::default()
        };
        let exec = || {
            root.exec_with(&machine, b"/program", &[b"name"], &settings)
                .unwrap()
        };
        let (one, two) = (exec(), exec());
        let code = one.vdso.unwrap();
        assert_eq!(two.space.fault(code, Access::EXEC), Ok(()));
        assert_eq!(one.space.fault(code, Access::EXEC), Ok(()));
        assert_eq!(one.space.fault(code, Access::WRITE), Err(Fault::ACCERR));
        assert_eq!(
            one.space.fault(code - PAGE, Access::READ),
            Err(Fault::ADRERR)
        );
        let child = one.space.fork(ForkMode::Share).unwrap();
        assert_eq!(word(&child, code), 0xc3c3_c3c3_c3c3_c3c3);
        for process in [&one.space, &two.space, &child] {
            assert_eq!(
                process.translate(code),
                Some((phys, Prot::READ | Prot::EXEC))
            );
        }
        let breakpoint = child
            .pin(code, 1, PinFlags::WRITE | PinFlags::FORCE)
            .unwrap();
        assert_ne!(breakpoint.frames().next(), Some(phys));
        drop(breakpoint);
        assert_eq!(child.fault(code, Access::EXEC), Ok(()));
        machine.check().unwrap();
        drop((one, two, child, settings));
        machine.physical().reclaim();
        let info = machine.physical().frames().info(phys).unwrap();
        assert_eq!((info.mappings, info.references), (0, 1));
    }
}

fn area(name: &str, flags: VmFlags, object: Object) -> SpecialArea {
    SpecialArea {
        name: name.into(),
        pages: 1,
        flags,
        object,
    }
}

/// Every allocation is refused once, of the heap and of frames.
#[test]
fn refused_programs_leave_nothing() {
    let (machine, root) = (machine(64), Root::new());
    let refusals: [&dyn Fn(Option<u32>); 2] = [&|left| LEFT.set(left), &|left| {
        let arena = machine.physical().backing();
        arena.refuse_after(left.map(u64::from));
    }];
    // The pages of the files stay in memory.
    drop(root.exec(&machine, b"/script", &[b"name"]).unwrap());
    machine.physical().reclaim();
    let before = free_frames(&machine);
    for refuse in refusals {
        for left in 0.. {
            refuse(Some(left));
            let started = root.exec(&machine, b"/script", &[b"name"]);
            refuse(None);
            match started {
                Ok(started) => {
                    let (arguments, ..) = found(&started);
                    assert_eq!(arguments, ["/program", "one argument", "/script"]);
                    assert!(left > 9, "only {left} allocations");
                    break;
                }
                Err(ExecError::Refused(error) | ExecError::Killed(error)) => {
                    assert_eq!(error, Errno::ENOMEM, "after {left}");
                }
            }
            machine.physical().reclaim();
            assert_eq!(free_frames(&machine), before, "after {left}");
            assert!(left < 1000);
        }
        machine.physical().reclaim();
        assert_eq!(free_frames(&machine), before);
    }
}
