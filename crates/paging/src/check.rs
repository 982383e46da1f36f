//! A check of every invariant of tables and counts, by a scan of all of them.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use crate::entry::{ENTRIES, PAGE_SIZE, PageSize, span, tag};
use crate::format::Format;
use crate::phys::Memory;
use crate::space::PageTables;

/// The counts recomputed from the tables.
struct Count {
    /// The mappings of the frames that were ever given out, starting with the frame `first`.
    mappings: Vec<u32>,
    first: u32,
    /// Last-level tables, and the number of entries that point to each.
    tables: BTreeMap<u64, u32>,
    others: usize,
}

/// Checks these address spaces, and compares the counts of all frames with their tables. `spaces`
/// must contain all address spaces on their memory, including those of the kernel.
///
/// Nothing else may use this memory during the call.
///
/// # Errors
///
/// A description of the first violation. Allocates infallibly from the global allocator: this is a
/// tool for tests.
pub fn check<F: Format, M: Memory>(spaces: &[&PageTables<F, M>]) -> Result<(), String> {
    let Some(first) = spaces.first() else {
        return Ok(());
    };
    let memory = first.physical();
    memory.reclaim();
    let frames = memory.frames();
    let used = frames.given_out();
    let mut count = Count {
        mappings: vec![0; used.len()],
        first: used.start,
        tables: BTreeMap::new(),
        others: 0,
    };
    for space in spaces {
        space.check_kernel(spaces)?;
        table(*space, space.root, PageTables::<F, M>::TOP, &mut count)?;
    }
    let mut shared = 0;
    for (&phys, &users) in &count.tables {
        let counted = memory.table(phys).users();
        if counted != users {
            return Err(format!(
                "the table at {phys:#x} has {users} users and counts {counted}"
            ));
        }
        shared += usize::from(users > 1);
    }
    let tables = count.others + count.tables.len();
    if (tables, shared) != (memory.table_frames(), memory.shared_tables()) {
        return Err(format!(
            "there are {tables} tables, {shared} of them shared; counted are {} and {}",
            memory.table_frames(),
            memory.shared_tables()
        ));
    }
    for (i, &mappings) in count.mappings.iter().enumerate() {
        let phys = frames.phys(used.start + i as u32);
        let counted = frames.info(phys).map_or(0, |info| info.mappings);
        if counted != mappings {
            return Err(format!(
                "the frame at {phys:#x} is mapped {mappings} times and counts {counted}"
            ));
        }
        if let Some(info) = frames.info(phys)
            && info.mappings + info.references == 0
        {
            return Err(format!("the frame at {phys:#x} is neither used nor free"));
        }
    }
    Ok(())
}

fn table<F: Format, M: Memory>(
    space: &PageTables<F, M>,
    phys: u64,
    level: usize,
    count: &mut Count,
) -> Result<(), String> {
    let memory = space.physical();
    if !memory.frames().is_table(phys) {
        return Err(format!(
            "the frame at {phys:#x} is used as a table of level {level}, and is none"
        ));
    }
    if level > 0 {
        count.others += 1;
    }
    let entries = memory.table(phys);
    let mut used = 0;
    let own = if level == PageTables::<F, M>::TOP {
        space.own_entries()
    } else {
        0..ENTRIES
    };
    for i in own {
        let raw = entries.load(i);
        if raw == 0 {
            continue;
        }
        used += 1;
        if level > 0 && F::is_table(raw) {
            let below = F::phys(raw);
            if level > 1 {
                table(space, below, level - 1, count)?;
                continue;
            }
            let users = count.tables.entry(below).or_insert(0);
            *users += 1;
            if *users == 1 {
                table(space, below, 0, count)?;
            }
            let several = memory.table(below).users() > 1;
            if several && !F::is_shared(raw) {
                return Err(format!(
                    "entry {i} at {phys:#x} points to a shared table, and does not say so"
                ));
            }
        } else if tag::is_page(raw) {
            leaf(space, raw, level, count)?;
        } else if level > 0 || tag::marker_payload(raw).is_none() {
            return Err(format!(
                "entry {i} at {phys:#x} is {raw:#x}, which is nothing"
            ));
        }
    }
    let locked = entries.lock();
    let top = PageTables::<F, M>::TOP;
    let empty = used == 0 && level < top - usize::from(space.is_kernel());
    if locked.used() != used || empty {
        return Err(format!(
            "the table at {phys:#x} of level {level} holds {used} and counts {}",
            locked.used()
        ));
    }
    Ok(())
}

fn leaf<F: Format, M: Memory>(
    space: &PageTables<F, M>,
    raw: u64,
    level: usize,
    count: &mut Count,
) -> Result<(), String> {
    let phys = F::phys(raw);
    if level > 2 || !phys.is_multiple_of(span(level)) {
        return Err(format!("a page of level {level} on {phys:#x}"));
    }
    if F::is_special(raw) {
        return Ok(());
    }
    let frames = space.physical().frames();
    for i in 0..PageSize::of(level).frames() {
        let phys = phys + i * PAGE_SIZE;
        let slot = frames.index(phys).wrapping_sub(count.first) as usize;
        let Some(mappings) = count.mappings.get_mut(slot) else {
            return Err(format!("a page on {phys:#x}, where no frame is"));
        };
        *mappings += 1;
        if F::is_writable(raw) && frames.is_anon(phys) && !frames.is_sole(phys) {
            let info = frames.info(phys);
            // A reference does not forbid writing, but a second mapping does.
            if info.is_none_or(|info| info.mappings > 1) {
                return Err(format!(
                    "private memory at {phys:#x} is writable by one of several"
                ));
            }
        }
    }
    Ok(())
}
