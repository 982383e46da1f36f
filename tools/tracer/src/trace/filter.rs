//! The seccomp filter that stops only calls of interest, and lets everything else run at full
//! speed.
//!
//! It is assembled by hand. Libraries refuse (kill) calls of another instruction set, while a
//! tracer must let them run and name them. The kernel decides calls whose answer does not depend on
//! their arguments from a bitmap, without running the filter. So other calls cost almost nothing.

pub(crate) mod mark;

use super::i386;

/// `io_uring_register` in both tables, and its operations that register rings. They may name a
/// registered ring instead of a descriptor.
const IO_URING_REGISTER: u32 = 427;
const RING_FDS: [u32; 4] = [20, 21, 20 | 1 << 31, 21 | 1 << 31];

const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
const X32_BIT: u32 = 0x4000_0000;

/// Offsets in `seccomp_data`: the number, the instruction set, and the low halves of the arguments.
const NR: u32 = 0;
const ARCH: u32 = 4;
const fn low(argument: u32) -> u32 {
    16 + 8 * argument
}

/// Calls that always stop.
pub(crate) const ALWAYS: &[i64] = &[
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_munmap,
    libc::SYS_brk,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_msync,
    libc::SYS_mincore,
    libc::SYS_shmat,
    libc::SYS_shmdt,
    libc::SYS_mlock,
    libc::SYS_munlock,
    libc::SYS_mlockall,
    libc::SYS_munlockall,
    libc::SYS_mlock2,
    libc::SYS_remap_file_pages,
    libc::SYS_mbind,
    libc::SYS_set_mempolicy,
    SYS_SET_MEMPOLICY_HOME_NODE,
    libc::SYS_pkey_mprotect,
    libc::SYS_pkey_alloc,
    libc::SYS_pkey_free,
    libc::SYS_mseal,
    libc::SYS_process_madvise,
    // The memory that it serves is known best from its creation.
    libc::SYS_userfaultfd,
    SYS_MAP_SHADOW_STACK,
    libc::SYS_io_setup,
    libc::SYS_io_destroy,
    // Rings carry advice, too.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_setrlimit,
    // Privileges decide what may be locked and mapped.
    libc::SYS_capset,
    libc::SYS_setuid,
    libc::SYS_setreuid,
    libc::SYS_setresuid,
    libc::SYS_setfsuid,
    libc::SYS_setns,
    libc::SYS_fork,
    libc::SYS_clone3,
    libc::SYS_execve,
    libc::SYS_execveat,
    // The caller may be asked from then on for each file that is opened or read.
    libc::SYS_fanotify_init,
    libc::SYS_mount,
    libc::SYS_fsmount,
];

pub(crate) const SYS_SET_MEMPOLICY_HOME_NODE: i64 = 450;
pub(crate) const SYS_MAP_SHADOW_STACK: i64 = 453;

pub(crate) const PR_SET_VMA: u32 = 0x5356_4d41;
pub(crate) const PR_SET_MDWE: u32 = 65;
pub(crate) const PR_SET_MEMORY_MERGE: u32 = 67;

/// `prctl` operations that concern the map.
const PRCTL: &[u32] = &[
    PR_SET_VMA,
    libc::PR_SET_MM as u32,
    libc::PR_SET_THP_DISABLE as u32,
    PR_SET_MDWE,
    PR_SET_MEMORY_MERGE,
    libc::PR_SET_SECCOMP as u32,
];

/// `ptrace` requests that give a thread a tracer. A thread that is followed here has one already.
pub(crate) const PTRACE: &[u32] = &[
    libc::PTRACE_TRACEME,
    libc::PTRACE_ATTACH,
    libc::PTRACE_SEIZE,
];

/// `seccomp` operations that do more than query: strict mode, and filters.
const SECCOMP: &[u32] = &[0, 1];

/// `arch_prctl` operations that concern the map: mapping a vdso, shadow stacks.
const ARCH_PRCTL: &[u32] = &[0x2001, 0x2002, 0x2003, 0x5001, 0x5002];

/// `ioctl`s that concern the map. `USERFAULTFD_IOC_NEW` of `/dev/userfaultfd` makes a userfaultfd.
/// The others are `UFFDIO_REGISTER`, `UFFDIO_UNREGISTER` and `UFFDIO_MOVE`, and those of
/// [`UFFDIO_FILLING`], which may leave no visible page.
pub(crate) const USERFAULTFD_IOC_NEW: u32 = 0xaa00;
pub(crate) const UFFDIO_REGISTER: u32 = 0xc020_aa00;
pub(crate) const UFFDIO_UNREGISTER: u32 = 0x8010_aa01;
pub(crate) const UFFDIO_MOVE: u32 = 0xc028_aa05;
pub(crate) const UFFDIO_POISON: u32 = 0xc020_aa08;
/// `UFFDIO_COPY`, `UFFDIO_ZEROPAGE`, `UFFDIO_CONTINUE`, `UFFDIO_POISON`.
pub(crate) const UFFDIO_FILLING: [u32; 4] = [0xc028_aa03, 0xc020_aa04, 0xc020_aa07, UFFDIO_POISON];
const IOCTL: &[u32] = &[
    USERFAULTFD_IOC_NEW,
    UFFDIO_REGISTER,
    UFFDIO_UNREGISTER,
    UFFDIO_MOVE,
    UFFDIO_FILLING[0],
    UFFDIO_FILLING[1],
    UFFDIO_FILLING[2],
    UFFDIO_FILLING[3],
];

const fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

const fn jump(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const GO: u32 = libc::BPF_JMP | libc::BPF_JA;
const ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

fn trace(mark: u32) -> libc::sock_filter {
    statement(RETURN, libc::SECCOMP_RET_TRACE | mark::said(mark))
}

fn allow() -> libc::sock_filter {
    statement(RETURN, libc::SECCOMP_RET_ALLOW)
}

/// `argument ∈ values ? stop : allow`
fn only_for(table: &Table, argument: u32, values: &[u32]) -> Vec<libc::sock_filter> {
    let mut program = vec![statement(LOAD, low(argument))];
    for (index, &value) in values.iter().enumerate() {
        let left = (values.len() - index) as u8;
        program.push(jump(EQUAL, value, left, 0));
    }
    program.extend([allow(), trace(table.mark)]);
    program
}

/// The numbers of one table of calls.
struct Table {
    mark: u32,
    /// Calls that always stop.
    always: Vec<u32>,
    prctl: u32,
    arch_prctl: u32,
    ioctl: u32,
    seccomp: u32,
    ptrace: u32,
    unshare: u32,
    clone: u32,
    personality: u32,
    prlimit64: u32,
}

impl Table {
    fn native() -> Self {
        Self {
            mark: mark::NATIVE,
            always: ALWAYS.iter().map(|&number| number as u32).collect(),
            prctl: libc::SYS_prctl as u32,
            arch_prctl: libc::SYS_arch_prctl as u32,
            ioctl: libc::SYS_ioctl as u32,
            seccomp: libc::SYS_seccomp as u32,
            ptrace: libc::SYS_ptrace as u32,
            unshare: libc::SYS_unshare as u32,
            clone: libc::SYS_clone as u32,
            personality: libc::SYS_personality as u32,
            prlimit64: libc::SYS_prlimit64 as u32,
        }
    }

    fn i386() -> Self {
        let always = i386::NUMBERS
            .iter()
            .filter(|(_, native)| ALWAYS.contains(native))
            .map(|(number, _)| *number);
        Self {
            mark: mark::I386,
            always: i386::OF_ITS_OWN.iter().copied().chain(always).collect(),
            prctl: i386::PRCTL,
            arch_prctl: i386::ARCH_PRCTL,
            ioctl: i386::IOCTL,
            seccomp: i386::SECCOMP,
            ptrace: i386::PTRACE,
            unshare: i386::UNSHARE,
            clone: i386::CLONE,
            personality: i386::PERSONALITY,
            prlimit64: i386::PRLIMIT64,
        }
    }
}

/// The filter's program, for a kernel that runs it or for a tracer that stops every call.
#[derive(Debug, Clone)]
pub(crate) struct Filter(Vec<libc::sock_filter>);

impl Filter {
    pub(crate) fn new() -> Self {
        Self(assemble())
    }

    /// Returns the program in the kernel's form. The kernel reads the filter through it.
    pub(crate) fn program(&self) -> libc::sock_fprog {
        libc::sock_fprog {
            len: self.0.len() as u16,
            filter: self.0.as_ptr().cast_mut(),
        }
    }

    /// Returns the kernel's decision about a call: the mark of its stop, or `None` if it runs on.
    pub(crate) fn decide(&self, arch: u32, nr: u32, args: &[u64; 6]) -> Option<u32> {
        let mut data = [0u32; 16];
        data[NR as usize / 4] = nr;
        data[ARCH as usize / 4] = arch;
        for (index, argument) in args.iter().enumerate() {
            data[4 + 2 * index] = *argument as u32;
            data[5 + 2 * index] = (argument >> 32) as u32;
        }
        let (mut at, mut accumulator) = (0usize, 0u32);
        loop {
            let instruction = self.0.get(at)?;
            at += 1;
            let holds = match u32::from(instruction.code) {
                LOAD => {
                    accumulator = data[instruction.k as usize / 4];
                    continue;
                }
                RETURN => {
                    let stops = instruction.k & !libc::SECCOMP_RET_DATA == libc::SECCOMP_RET_TRACE;
                    let data = instruction.k & libc::SECCOMP_RET_DATA;
                    return mark::read(data).filter(|_| stops);
                }
                GO => {
                    at += instruction.k as usize;
                    continue;
                }
                EQUAL => accumulator == instruction.k,
                AT_LEAST => accumulator >= instruction.k,
                _ => accumulator & instruction.k != 0,
            };
            at += usize::from(if holds {
                instruction.jt
            } else {
                instruction.jf
            });
        }
    }
}

/// Assembles the whole program.
fn assemble() -> Vec<libc::sock_filter> {
    let native = of_table(&Table::native());
    let mut program = vec![
        statement(LOAD, ARCH),
        jump(EQUAL, AUDIT_ARCH_X86_64, 1, 0),
        // The distance is too large for a conditional jump.
        statement(GO, 3 + native.len() as u32),
        statement(LOAD, NR),
        jump(AT_LEAST, X32_BIT, 0, 1),
        trace(mark::X32),
    ];
    program.extend(native);
    program.push(statement(LOAD, NR));
    program.extend(of_table(&Table::i386()));
    program
}

/// Returns the part for one table of calls, which expects the loaded number. It is a search for the
/// number, followed by the code that checks arguments.
///
/// The kernel tries every number when the filter is installed. It runs the filter only for calls
/// that it has not marked as allowed then.
fn of_table(table: &Table) -> Vec<libc::sock_filter> {
    let decided = by_arguments(table);
    let numbers = table.always.len() + decided.len();
    let mut at = search_length(numbers);
    let mut targets: Vec<(u32, usize)> = Vec::with_capacity(numbers);
    for (number, body) in &decided {
        targets.push((*number, at));
        at += body.len();
    }
    targets.extend(table.always.iter().map(|number| (*number, at)));
    targets.sort_unstable();
    let mut program = Vec::with_capacity(at + 2);
    search(&mut program, &targets, at + 1);
    for (_, body) in decided {
        program.extend(body);
    }
    program.push(trace(table.mark));
    program.push(allow());
    program
}

/// The number of call numbers compared one by one before switching to binary search.
const FEW: usize = 4;

/// Returns the number of instructions of a search among `numbers` call numbers.
fn search_length(numbers: usize) -> usize {
    if numbers <= FEW {
        return numbers;
    }
    1 + search_length(numbers / 2) + search_length(numbers - numbers / 2)
}

/// Appends a search that jumps to the target of the loaded number. It jumps to `allowed` if the
/// number is not among `targets`, which ascend.
fn search(program: &mut Vec<libc::sock_filter>, targets: &[(u32, usize)], allowed: usize) {
    let here = program.len();
    // Each table's part is shorter than the longest jump.
    let distance = |from: usize, to: usize| (to - from - 1) as u8;
    if targets.len() > FEW {
        let (low, high) = targets.split_at(targets.len() / 2);
        let middle = here + 1 + search_length(low.len());
        program.push(jump(AT_LEAST, high[0].0, distance(here, middle), 0));
        search(program, low, allowed);
        return search(program, high, allowed);
    }
    for (index, &(number, target)) in targets.iter().enumerate() {
        let from = here + index;
        let other = match index + 1 < targets.len() {
            true => 0,
            false => distance(from, allowed),
        };
        program.push(jump(EQUAL, number, distance(from, target), other));
    }
}

/// Returns the calls whose arguments decide, each with its code.
fn by_arguments(table: &Table) -> Vec<(u32, Vec<libc::sock_filter>)> {
    vec![
        (table.prctl, only_for(table, 0, PRCTL)),
        (table.arch_prctl, only_for(table, 0, ARCH_PRCTL)),
        (table.ioctl, only_for(table, 1, IOCTL)),
        (table.seccomp, only_for(table, 0, SECCOMP)),
        (table.ptrace, only_for(table, 0, PTRACE)),
        (IO_URING_REGISTER, only_for(table, 1, &RING_FDS)),
        // A user namespace has its own privileges.
        (
            table.unshare,
            vec![
                statement(LOAD, low(0)),
                jump(ANY_BIT, libc::CLONE_NEWUSER as u32, 0, 1),
                trace(table.mark),
                allow(),
            ],
        ),
        // A thread (CLONE_VM) shares the map and needs no order, because its event reports it. A
        // fork copies the map. A child that asks not to be traced would keep the filter, and get
        // ENOSYS for every call that must stop. So it is traced nevertheless.
        (
            table.clone,
            vec![
                statement(LOAD, low(0)),
                jump(ANY_BIT, libc::CLONE_UNTRACED as u32, 0, 1),
                trace(table.mark),
                jump(ANY_BIT, libc::CLONE_VM as u32, 0, 1),
                allow(),
                trace(table.mark),
            ],
        ),
        // personality(0xffffffff) only queries.
        (
            table.personality,
            vec![
                statement(LOAD, low(0)),
                jump(EQUAL, u32::MAX, 0, 1),
                allow(),
                trace(table.mark),
            ],
        ),
        // prlimit64 without a new limit only queries.
        (
            table.prlimit64,
            vec![
                statement(LOAD, low(2)),
                jump(EQUAL, 0, 0, 3),
                statement(LOAD, low(2) + 4),
                jump(EQUAL, 0, 0, 1),
                allow(),
                trace(table.mark),
            ],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use samara_linux::ptrace::AUDIT_ARCH_I386;

    use super::*;

    fn native(nr: i64, args: [u64; 6]) -> bool {
        match Filter::new().decide(AUDIT_ARCH_X86_64, nr as u32, &args) {
            None => false,
            Some(mark) => {
                assert_eq!(mark, mark::NATIVE);
                true
            }
        }
    }

    #[test]
    fn every_number_is_decided_as_listed() {
        let by_argument = [
            libc::SYS_prctl,
            libc::SYS_arch_prctl,
            libc::SYS_ioctl,
            libc::SYS_clone,
            libc::SYS_personality,
            libc::SYS_prlimit64,
            libc::SYS_seccomp,
            libc::SYS_unshare,
            libc::SYS_io_uring_register,
        ];
        for nr in (0..600).filter(|nr| !by_argument.contains(nr)) {
            assert_eq!(native(nr, [7; 6]), ALWAYS.contains(&nr), "call {nr}");
        }
    }

    #[test]
    fn jumps_stay_within_their_table() {
        for table in [Table::native(), Table::i386()] {
            let program = of_table(&table);
            assert!(program.len() <= 256, "{}", program.len());
            for (at, instruction) in program.iter().enumerate() {
                let farthest = usize::from(instruction.jt.max(instruction.jf));
                assert!(farthest == 0 || at + 1 + farthest < program.len());
            }
        }
    }

    #[test]
    fn arguments_decide_where_they_must() {
        assert!(native(
            libc::SYS_prctl,
            [u64::from(PR_SET_VMA), 0, 0, 0, 0, 0]
        ));
        assert!(!native(libc::SYS_prctl, [15, 0, 0, 0, 0, 0]));
        assert!(native(
            libc::SYS_ioctl,
            [3, u64::from(UFFDIO_REGISTER), 0, 0, 0, 0]
        ));
        assert!(!native(libc::SYS_ioctl, [3, 0x5401, 0, 0, 0, 0]));
        assert!(native(libc::SYS_clone, [17, 0, 0, 0, 0, 0]));
        assert!(!native(libc::SYS_clone, [0x3d0f00, 0, 0, 0, 0, 0]));
        assert!(native(libc::SYS_clone, [0xbd0f00, 0, 0, 0, 0, 0]));
        assert!(native(libc::SYS_prlimit64, [0, 3, 1 << 40, 0, 0, 0]));
        assert!(native(libc::SYS_prlimit64, [0, 3, 0x1000, 0, 0, 0]));
        assert!(!native(libc::SYS_prlimit64, [0, 3, 0, 0x1000, 0, 0]));
        assert!(native(libc::SYS_unshare, [0x1400_0000, 0, 0, 0, 0, 0]));
        assert!(!native(libc::SYS_unshare, [0x0400_0000, 0, 0, 0, 0, 0]));
        assert!(native(libc::SYS_seccomp, [1, 8, 0, 0, 0, 0]));
        assert!(native(libc::SYS_io_uring_register, [3, 20, 0, 0, 0, 0]));
        assert!(!native(libc::SYS_io_uring_register, [3, 0, 0, 0, 0, 0]));
        assert!(!native(libc::SYS_seccomp, [2, 0, 0, 0, 0, 0]));
        assert!(native(libc::SYS_personality, [0x0040000, 0, 0, 0, 0, 0]));
        assert!(!native(libc::SYS_personality, [0xffff_ffff, 0, 0, 0, 0, 0]));
    }

    #[test]
    fn other_tables_are_marked() {
        let of = |nr, arch| Filter::new().decide(arch, nr, &[0; 6]);
        assert_eq!(of(192, AUDIT_ARCH_I386), Some(mark::I386));
        assert_eq!(of(4, AUDIT_ARCH_I386), None);
        assert_eq!(of(120, AUDIT_ARCH_I386), Some(mark::I386));
        assert_eq!(of(136, AUDIT_ARCH_I386), Some(mark::I386));
        assert_eq!(of(340, AUDIT_ARCH_I386), None);
        assert_eq!(of(X32_BIT | 9, AUDIT_ARCH_X86_64), Some(mark::X32));
    }
}
