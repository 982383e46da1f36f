//! Programs for processors that this machine is not: what the psABIs, `getauxval(3)` and the kernel's documents of user space say of them.

#![allow(clippy::unwrap_used, reason = "tests")]

use samara_mm::exec::{
    Architecture, Auxiliary, Choice, Exec, ExecError, Personality, Program, Randomize, SetId,
    Settings, Started,
};
use samara_mm::{
    AddressSpace, Call, Config, Counted, Errno, File, FileArg, FileId, KernelVersion, Limits,
};

const X86_64: u16 = 62;
const I386: u16 = 3;
const AARCH64: u16 = 183;
const RISCV: u16 = 243;

const AT_PLATFORM: u64 = 15;
const AT_RANDOM: u64 = 25;

/// A static program of one segment.
fn program(machine: u16) -> [u8; 120] {
    let mut bytes = [0; 120];
    bytes[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    put(16, &[2, 0]);
    put(18, &machine.to_le_bytes());
    put(24, &0x40_0078u64.to_le_bytes());
    put(32, &64u64.to_le_bytes());
    put(54, &[56, 0, 1]);
    put(64, &[1, 0, 0, 0, 5]);
    put(80, &0x40_0000u64.to_le_bytes());
    put(96, &120u64.to_le_bytes());
    put(104, &120u64.to_le_bytes());
    bytes
}

/// The stack of a started program, and the auxiliary vector on it.
struct Stack {
    start: u64,
    bytes: Vec<u8>,
}

impl Stack {
    fn word(&self, at: u64) -> u64 {
        let at = (at - self.start) as usize;
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().unwrap())
    }

    fn text(&self, at: u64) -> &[u8] {
        let rest = &self.bytes[(at - self.start) as usize..];
        &rest[..rest.iter().position(|&byte| byte == 0).unwrap()]
    }

    /// As the program's start code finds it: behind the pointers to arguments and environment.
    fn auxiliary(&self) -> Vec<(u64, u64)> {
        let mut at = self.start + 8;
        for _ in 0..2 {
            while self.word(at) != 0 {
                at += 8;
            }
            at += 8;
        }
        let pairs = (0..).map(|i| (self.word(at + 16 * i), self.word(at + 16 * i + 8)));
        pairs.take_while(|&(kind, _)| kind != 0).collect()
    }
}

fn start(
    architecture: Architecture,
    end: u64,
    bytes: &[u8],
) -> Result<(Started, Stack), ExecError> {
    let id = FileId {
        major: 8,
        minor: 1,
        inode: 7,
    };
    let file = Counted::try_new(File::new(id, "/program".into())).unwrap();
    let mut files = |_: &[u8]| {
        Ok(Program {
            file: file.clone(),
            image: bytes,
            set_id: SetId::No,
        })
    };
    let config = Config {
        task_size: end,
        window: end,
        kernel: KernelVersion::NEWEST,
        ..Config::default()
    };
    let settings = Settings {
        architecture,
        randomize: Randomize::Nothing,
        ..Settings::default()
    };
    let exec = Exec {
        path: b"/program",
        arguments: &[b"program", b"argument"],
        environment: &[b"A=B"],
        config: &config,
        limits: Limits::default(),
        personality: Personality::empty(),
        settings: &settings,
    };
    let started = AddressSpace::exec(&exec, &mut files, &mut |_: &Choice| 0)?;
    let auxiliary = Auxiliary {
        random: *b"sixteen random b",
        ..Auxiliary::default()
    };
    let first = started.stack_pointer;
    let mut stack = Stack {
        start: first,
        bytes: vec![0; (started.stack_end - first) as usize],
    };
    let written = started.write_stack::<Errno>(&exec, &auxiliary, |at, piece| {
        let at = (at - first) as usize;
        stack.bytes[at..at + piece.len()].copy_from_slice(piece);
        Ok(())
    });
    written.unwrap();
    Ok((started, stack))
}

const AARCH64_END: u64 = 1 << 48;
const RISCV_END: u64 = 1 << 47;

#[test]
fn programs_start_on_their_own_processor_only() {
    for (architecture, end, own) in [
        (Architecture::Aarch64, AARCH64_END, AARCH64),
        (Architecture::Riscv64, RISCV_END, RISCV),
        (Architecture::X86_64, 0x7fff_ffff_f000, X86_64),
    ] {
        for machine in [X86_64, AARCH64, RISCV, I386] {
            let started = start(architecture, end, &program(machine));
            match started {
                Ok((started, _)) => assert_eq!((machine, started.entry), (own, 0x40_0078)),
                Err(error) => {
                    assert_ne!(machine, own);
                    // i386's header is shorter, so that this one makes no sense as such.
                    assert_eq!(
                        error,
                        ExecError::Refused(Errno::ENOEXEC),
                        "{architecture:?} {machine}"
                    );
                }
            }
        }
    }
}

#[test]
fn aarch64_and_riscv_programs_find_their_vectors() {
    for (architecture, end, machine, platform) in [
        (
            Architecture::Aarch64,
            AARCH64_END,
            AARCH64,
            Some(&b"aarch64"[..]),
        ),
        (Architecture::Riscv64, RISCV_END, RISCV, None),
    ] {
        let (started, stack) = start(architecture, end, &program(machine)).unwrap();
        // Both psABIs: the stack pointer is a multiple of 16.
        assert!(started.stack_pointer.is_multiple_of(16));
        assert_eq!(started.stack_end, end);
        assert_eq!(stack.word(started.stack_pointer), 2);
        let vector = stack.auxiliary();
        let value = |wanted| {
            vector
                .iter()
                .find(|&&(kind, _)| kind == wanted)
                .map(|&(_, value)| value)
        };
        assert_eq!(value(AT_PLATFORM).map(|at| stack.text(at)), platform);
        let random = value(AT_RANDOM).unwrap();
        assert_eq!(
            &stack.bytes[(random - stack.start) as usize..][..16],
            b"sixteen random b"
        );
        // The last entry is the pair of zeroes, right below what is not told by pointers.
        let all = started.stack_pointer + 8 * (1 + 3 + 2) + 16 * (vector.len() as u64 + 1);
        assert!((0..16).contains(&(random - all)), "{all:#x} {random:#x}");
        let maps: Vec<String> = started.space.maps().map(|line| line.to_string()).collect();
        assert_eq!(maps.len(), 2, "{maps:?}");
    }
}

#[test]
fn placement_uses_all_of_the_window() {
    let map = |started: &mut Started, addr| {
        let call = Call::Mmap {
            addr,
            len: 4096,
            prot: 3,
            flags: 0x22,
            file: FileArg::None,
            offset: 0,
        };
        started.space.perform(&call).unwrap()
    };
    let (mut started, _) = start(Architecture::Aarch64, AARCH64_END, &program(AARCH64)).unwrap();
    // Below the stack, whose limit is 8 MiB, and what lies between: at least 128 MiB.
    let base = AARCH64_END - (128 << 20);
    assert_eq!(map(&mut started, 0), base - 4096);
    // A hint is taken up to the end.
    assert_eq!(
        map(&mut started, AARCH64_END - (64 << 20)),
        AARCH64_END - (64 << 20)
    );
}
