//! Coverage of histories: each call with each of its flags, and each error that it returned.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use samara_mm::Errno;

use crate::op::Op;

/// Counts by call and flag (or other choice), and by outcome: 0 or an error number.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    counts: BTreeMap<(&'static str, String), BTreeMap<i32, u64>>,
    calls: u64,
}

const PROT: &[(u64, &str)] = &[(1, "READ"), (2, "WRITE"), (4, "EXEC"), (8, "SEM")];
const MAP: &[(u64, &str)] = &[
    (0x10, "FIXED"),
    (0x20, "ANONYMOUS"),
    (0x40, "32BIT"),
    (0x100, "GROWSDOWN"),
    (0x800, "DENYWRITE"),
    (0x2000, "LOCKED"),
    (0x4000, "NORESERVE"),
    (0x8000, "POPULATE"),
    (0x1_0000, "NONBLOCK"),
    (0x2_0000, "STACK"),
    (0x4_0000, "HUGETLB"),
    (0x8_0000, "SYNC"),
    (0x10_0000, "FIXED_NOREPLACE"),
];
const REMAP: &[(u64, &str)] = &[(1, "MAYMOVE"), (2, "FIXED"), (4, "DONTUNMAP")];
const SYNC: &[(u64, &str)] = &[(1, "ASYNC"), (2, "INVALIDATE"), (4, "SYNC")];
const ATTACH: &[(u64, &str)] = &[
    (0o10000, "RDONLY"),
    (0o20000, "RND"),
    (0o40000, "REMAP"),
    (0o100000, "EXEC"),
];

impl Coverage {
    /// A call has returned what both sides agree about.
    pub(crate) fn add(&mut self, op: &Op, result: i64) {
        let error = if (-4095..0).contains(&result) {
            -result as i32
        } else {
            0
        };
        self.calls += 1;
        let (call, choices) = described(op);
        for choice in choices {
            let outcomes = self.counts.entry((call, choice)).or_default();
            *outcomes.entry(error).or_default() += 1;
        }
    }
}

/// The call's name, and what it was asked to do.
fn described(op: &Op) -> (&'static str, Vec<String>) {
    let bits = |value: u64, names: &[(u64, &str)]| -> Vec<String> {
        let named = names.iter().filter(|(bit, _)| value & bit == *bit);
        let mut list: Vec<String> = named.map(|(_, name)| (*name).to_owned()).collect();
        if value & !names.iter().fold(0, |all, (bit, _)| all | bit) != 0 {
            list.push("unknown bits".to_owned());
        }
        if list.is_empty() {
            list.push("0".to_owned());
        }
        list
    };
    let one = |text: String| vec![text];
    match *op {
        Op::Mmap {
            prot, flags, file, ..
        } => {
            let mut all = bits(prot, PROT);
            all.push(
                match flags & 15 {
                    1 => "SHARED",
                    2 => "PRIVATE",
                    3 => "SHARED_VALIDATE",
                    8 => "DROPPABLE",
                    _ => "unknown type",
                }
                .to_owned(),
            );
            all.extend(bits(flags & !15, MAP));
            all.push(format!("file {file}"));
            ("mmap", all)
        }
        Op::Munmap { .. } => ("munmap", one("-".into())),
        Op::Mprotect { prot, .. } => ("mprotect", bits(prot, PROT)),
        Op::PkeyMprotect { prot, pkey, .. } => {
            let mut all = bits(prot, PROT);
            all.push(format!("key {pkey}"));
            ("pkey_mprotect", all)
        }
        Op::Mremap { flags, .. } => ("mremap", bits(flags, REMAP)),
        Op::Brk { delta } => ("brk", one(if delta < 0 { "below" } else { "above" }.into())),
        Op::Madvise { advice, .. } => ("madvise", one(format!("advice {advice}"))),
        Op::ProcessMadvise { advice, .. } => ("process_madvise", one(format!("advice {advice}"))),
        Op::Mlock { flags, .. } => ("mlock2", one(format!("flags {flags}"))),
        Op::Munlock { .. } => ("munlock", one("-".into())),
        Op::Mlockall { flags } => ("mlockall", one(format!("flags {flags}"))),
        Op::Munlockall => ("munlockall", one("-".into())),
        Op::Msync { flags, .. } => ("msync", bits(flags, SYNC)),
        Op::Mincore { .. } => ("mincore", one("-".into())),
        Op::Mseal { flags, .. } => ("mseal", one(format!("flags {flags}"))),
        Op::RemapFilePages { .. } => ("remap_file_pages", one("-".into())),
        Op::Shmat { flags, .. } => ("shmat", bits(flags, ATTACH)),
        Op::Shmdt { .. } => ("shmdt", one("-".into())),
        Op::SetName { name, .. } => ("PR_SET_VMA", one(format!("name {name}"))),
        Op::Mbind { mode, flags, .. } => {
            let mode = format!("mode {mode:#x}");
            ("mbind", vec![mode, format!("flags {flags}")])
        }
        Op::HomeNode { home, flags, .. } => {
            let home = format!("node {home}");
            (
                "set_mempolicy_home_node",
                vec![home, format!("flags {flags}")],
            )
        }
        Op::Write { .. } => ("write fault", one("-".into())),
        Op::Read { .. } => ("read fault", one("-".into())),
        Op::ForkInto => ("fork", one("child".into())),
        Op::ForkAside => ("fork", one("parent".into())),
        Op::ForkKeep => ("fork", one("both".into())),
        Op::Limit { which, .. } => ("setrlimit", one(format!("limit {which}"))),
        Op::DropCaps => ("capset", one("none".into())),
        Op::PkeyAlloc { rights } => ("pkey_alloc", one(format!("rights {rights}"))),
        Op::PkeyFree { pkey } => ("pkey_free", one(format!("key {pkey}"))),
        Op::SetMdwe { bits } => ("PR_SET_MDWE", one(format!("bits {bits}"))),
        Op::UffdRegister { mode, .. } => ("UFFDIO_REGISTER", one(format!("mode {mode}"))),
        Op::UffdUnregister { .. } => ("UFFDIO_UNREGISTER", one("-".into())),
        Op::UffdClose { .. } => ("close", one("userfaultfd".into())),
        Op::ReadImpliesExec { on } => ("personality", one(format!("{on}"))),
        Op::SetMemoryMerge { on } => ("PR_SET_MEMORY_MERGE", one(format!("{on}"))),
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let combinations: usize = self.counts.values().map(BTreeMap::len).sum();
        let calls: BTreeSet<_> = self.counts.keys().map(|(call, _)| call).collect();
        writeln!(
            f,
            "covered: {} calls; {} kinds, {combinations} of call × flag × outcome",
            self.calls,
            calls.len()
        )?;
        for ((call, flag), outcomes) in &self.counts {
            write!(f, "{call:<20} {flag:<16}")?;
            for (error, count) in outcomes {
                match error {
                    0 => write!(f, " ok {count}")?,
                    error => write!(f, " {} {count}", Errno(*error))?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
