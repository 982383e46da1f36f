//! The engine's maps and smaps, compared with the kernel's field by field.
//!
//! | fields | compared |
//! |---|---|
//! | maps and first lines of smaps: range, permissions, offset, device, inode, name | exactly, byte by byte |
//! | inodes of shared anonymous memory | one to one: either side numbers it |
//! | names of files | exactly, or the same device and inode: files are renamed and removed while they are mapped |
//! | which lines there are of an area, their order, `Size`, `KernelPageSize`, `MMUPageSize`, `ProtectionKey`, `VmFlags` | exactly |
//! | `THPeligible` | exactly, where huge pages come by advice alone (`transparent_hugepage/enabled` is `madvise`); else not |
//! | `Rss`, `Anonymous`, `Swap`, `SwapPss`, `ShmemPmdMapped`, `FilePmdMapped`, `Shared_Hugetlb`, `Private_Hugetlb`, `KSM` | exactly, the engine being told by `PAGEMAP_SCAN` which pages are there: a trace does not see faults |
//! | of private anonymous areas in a program of one process also `Pss`, `Pss_Dirty`, `Shared_*`, `Private_*`, `Locked` | exactly, where no page is clean: `MADV_FREE` makes pages so, and the engine is told of pages only that they are there |
//! | else `Shared_*` and `Private_*` (who else maps a page of the cache, and what was written back of it) | their sum is `Rss`, on both sides |
//! | else `Pss`, `Pss_Dirty` | not above `Rss` and what is dirty; `Pss` not below what is private |
//! | else `Locked` | `Pss` if the area is locked, 0 if not |
//! | `Referenced` (the kernel clears marks by itself), `AnonHugePages` (which are put together when there is room), `LazyFree` | not above `Rss`, `Anonymous`, `Anonymous` |
//! | pages of the kernel's own areas (`[vdso]`, `[vvar]`) and of drivers | not compared: the engine has none |

use std::collections::HashMap;

use samara_mm::{AddressSpace, VmFlags};

use crate::pages;
use crate::still::Told;

/// Counters of compared fields.
#[derive(Default, Clone, Copy, Debug)]
pub(crate) struct Compared {
    pub(crate) areas: u64,
    pub(crate) exactly: u64,
    pub(crate) by_rule: u64,
    pub(crate) pages: u64,
}

impl std::ops::AddAssign for Compared {
    fn add_assign(&mut self, other: Self) {
        self.areas += other.areas;
        self.exactly += other.exactly;
        self.by_rule += other.by_rule;
        self.pages += other.pages;
    }
}

/// The fields of a line of maps; the name is all that is behind the inode.
fn fields(line: &str) -> Option<[&str; 6]> {
    let mut rest = line;
    let mut next = || {
        let (field, behind) = rest.split_once(' ')?;
        rest = behind;
        Some(field)
    };
    let [range, perms, offset, device, inode] = [next()?, next()?, next()?, next()?, next()?];
    Some([
        range,
        perms,
        offset,
        device,
        inode,
        rest.trim_start_matches(' '),
    ])
}

/// Which of the engine's shared anonymous objects is which of the kernel's.
#[derive(Default)]
struct Objects(HashMap<String, String>, HashMap<String, String>);

impl Objects {
    fn alike(&mut self, engine: &str, kernel: &str) -> bool {
        let one = self.0.entry(engine.into()).or_insert_with(|| kernel.into());
        let other = self.1.entry(kernel.into()).or_insert_with(|| engine.into());
        one == kernel && other == engine
    }
}

/// A line of maps, of both.
fn line(
    engine: &str,
    kernel: &str,
    objects: &mut Objects,
    compared: &mut Compared,
) -> Result<(), String> {
    let differ = || Err(format!("engine {engine}\nkernel {kernel}"));
    if engine == kernel {
        compared.exactly += 6;
        return Ok(());
    }
    let (Some(own), Some(theirs)) = (fields(engine), fields(kernel)) else {
        return differ();
    };
    if own[..4] != theirs[..4] {
        return differ();
    }
    let invented = own[5] == "/dev/zero (deleted)" || own[5].starts_with("[anon_shmem:");
    if invented && own[5] == theirs[5] && objects.alike(own[4], theirs[4]) {
        (compared.exactly, compared.by_rule) = (compared.exactly + 5, compared.by_rule + 1);
        return Ok(());
    }
    if !invented && own[4] == theirs[4] && own[4] != "0" {
        (compared.exactly, compared.by_rule) = (compared.exactly + 5, compared.by_rule + 1);
        return Ok(());
    }
    differ()
}

/// Those of a process, without the page of old system calls that belongs to no address space.
fn of_process(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.ends_with("[vsyscall]"))
}

/// Both maps.
pub(crate) fn maps(space: &AddressSpace, told: &Told) -> Result<Compared, String> {
    let mut compared = Compared::default();
    let mut objects = Objects::default();
    let mut kernel = of_process(&told.maps);
    for area in space.maps() {
        let Some(theirs) = kernel.next() else {
            return Err(format!("engine {area}\nkernel has no more"));
        };
        line(&area.to_string(), theirs, &mut objects, &mut compared)?;
        compared.areas += 1;
    }
    match kernel.next() {
        None => Ok(compared),
        Some(theirs) => Err(format!("engine has no more\nkernel {theirs}")),
    }
}

/// An area in smaps.
struct Block<'a> {
    head: &'a str,
    /// Labels without the colon, and what is behind, without blanks around it.
    lines: Vec<(&'a str, &'a str)>,
}

impl Block<'_> {
    /// A number in KiB.
    fn number(&self, label: &str) -> Result<u64, String> {
        let found = self.lines.iter().find(|(name, _)| *name == label);
        let text = found.map_or("", |(_, text)| text);
        let number = text.trim_end_matches("kB").trim_end().parse();
        number.map_err(|_| format!("{}: no number {label}", self.head))
    }

    fn has(&self, flag: &str) -> bool {
        let flags = self.lines.iter().find(|(name, _)| *name == "VmFlags");
        flags.is_some_and(|(_, flags)| flags.split(' ').any(|name| name == flag))
    }
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    for line in text.lines() {
        match (line.split_once(':'), blocks.last_mut()) {
            (Some((label, rest)), Some(block)) if !label.contains(['-', ' ']) => {
                block.lines.push((label, rest.trim()));
            }
            _ => blocks.push(Block {
                head: line,
                lines: Vec::new(),
            }),
        }
    }
    blocks.retain(|block| !block.head.ends_with("[vsyscall]"));
    blocks
}

const SUMS: [&str; 4] = [
    "Shared_Clean",
    "Shared_Dirty",
    "Private_Clean",
    "Private_Dirty",
];
/// Fields that other processes influence.
const SHARED: [&str; 7] = [
    "Pss",
    "Pss_Dirty",
    "Shared_Clean",
    "Shared_Dirty",
    "Private_Clean",
    "Private_Dirty",
    "Locked",
];
/// Fields that the kernel changes by itself.
const FREE: [&str; 3] = ["Referenced", "AnonHugePages", "LazyFree"];
/// Fields that depend on no page.
const OF_THE_MAP: [&str; 5] = [
    "Size",
    "KernelPageSize",
    "MMUPageSize",
    "ProtectionKey",
    "VmFlags",
];

/// Returns `true` if only areas that have asked for them get huge pages.
fn huge_by_advice() -> bool {
    std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
        .is_ok_and(|text| text.contains("[madvise]"))
}

/// Returns `true` if the field may be compared by a rule.
pub(crate) fn is_open(label: &str) -> bool {
    SHARED.contains(&label) || FREE.contains(&label) || label == "THPeligible" && !huge_by_advice()
}

/// Checks rules that hold in each block alone, the kernel's or the engine's.
fn rules(block: &Block<'_>) -> Result<(), String> {
    let number = |label: &str| block.number(label);
    let (resident, anonymous) = (number("Rss")?, number("Anonymous")?);
    let mut sum = 0;
    for label in SUMS {
        sum += number(label)?;
    }
    let dirty = number("Shared_Dirty")? + number("Private_Dirty")?;
    let private = number("Private_Clean")? + number("Private_Dirty")?;
    let (part, part_dirty) = (number("Pss")?, number("Pss_Dirty")?);
    let locked = if block.has("lo") { part } else { 0 };
    let broken = [
        (
            sum != resident,
            "clean and dirty, shared and private are not Rss",
        ),
        (part > resident || part < private, "Pss"),
        (part_dirty > dirty || part_dirty > part, "Pss_Dirty"),
        (number("Locked")? != locked, "Locked"),
        (number("Referenced")? > resident, "Referenced"),
        (number("AnonHugePages")? > anonymous, "AnonHugePages"),
        (number("LazyFree")? > anonymous, "LazyFree"),
        (anonymous > resident, "Anonymous"),
    ];
    match broken.iter().find(|(broken, _)| *broken) {
        None => Ok(()),
        Some((_, what)) => Err(format!("{}\nthe rule of {what} does not hold", block.head)),
    }
}

/// Compares both smaps. `alone`: no other process has private pages of the program.
pub(crate) fn smaps(space: &AddressSpace, told: &Told, alone: bool) -> Result<Compared, String> {
    let text = pages::smaps(space, told.pages.as_deref().unwrap_or_default())?;
    smaps_as(&text, told, alone)
}

/// The same with what the engine has printed.
pub(crate) fn smaps_as(text: &str, told: &Told, alone: bool) -> Result<Compared, String> {
    let known = told.pages.as_deref();
    let runs = || known.into_iter().flatten();
    let resident = runs().filter(|run| run.is_resident());
    let mut compared = Compared {
        pages: resident
            .map(|run| (run.end - run.start) / samara_mm::PAGE_SIZE)
            .sum(),
        ..Compared::default()
    };
    let swaps = runs().any(|run| run.is_swapped());
    let advised = huge_by_advice();
    let (engine, kernel) = (blocks(text), blocks(&told.smaps));
    if engine.len() != kernel.len() {
        return Err(format!("{} and {} areas", engine.len(), kernel.len()));
    }
    let mut objects = Objects::default();
    for (own, theirs) in engine.iter().zip(&kernel) {
        line(own.head, theirs.head, &mut objects, &mut compared)?;
        let labels = |block: &Block<'_>| block.lines.iter().map(|line| line.0.to_owned()).collect();
        let (ours, others): (Vec<String>, Vec<String>) = (labels(own), labels(theirs));
        if ours != others {
            return Err(format!("{}\nengine {ours:?}\nkernel {others:?}", own.head));
        }
        rules(own)?;
        rules(theirs)?;
        let fields = fields(theirs.head).unwrap_or_default();
        let flags = theirs.lines.iter().find(|line| line.0 == "VmFlags");
        let flags = VmFlags::from_smaps(flags.map_or("", |line| line.1));
        let foreign = pages::is_foreign(flags, fields[5]);
        let own_pages = alone
            && fields[1].ends_with('p')
            && fields[4] == "0"
            && theirs.number("Private_Clean")? == 0
            && theirs.number("Shared_Clean")? == 0
            && !swaps;
        for (&(label, ours), &(_, others)) in own.lines.iter().zip(&theirs.lines) {
            let by_rule = known.is_none()
                || foreign
                || FREE.contains(&label)
                || !own_pages && SHARED.contains(&label)
                // Pages that were swapped out are not put into the engine.
                || swaps && label.starts_with("Swap");
            let exactly = match label {
                "THPeligible" => advised,
                _ => OF_THE_MAP.contains(&label) || !by_rule,
            };
            if !exactly {
                compared.by_rule += 1;
            } else if ours == others {
                compared.exactly += 1;
            } else {
                return Err(format!(
                    "{}\n{label}: engine {ours}, kernel {others}",
                    theirs.head
                ));
            }
        }
        compared.areas += 1;
    }
    Ok(compared)
}
