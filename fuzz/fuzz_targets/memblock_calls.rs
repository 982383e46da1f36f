//! Histories of calls, compared with a model that stores flags and node of each of 64 units. Arrays
//! begin tiny and grow, if they may.

#![no_main]

use std::alloc::{Layout, alloc_zeroed};
use std::sync::OnceLock;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use samara_memblock::{Error, Flags, Identity, Kind, Memblock, NodeId, Region, Storage};

const UNITS: u8 = 64;
const UNIT: u64 = 0x400;
/// The memory into which arrays grow, in bytes, above the model's units.
const ARENA: usize = 64 << 10;

#[derive(Arbitrary, Clone, Copy, Debug)]
enum What {
    Add { nid: u8, hotplug: bool },
    Reserve { nid: u8 },
    Remove,
    Free,
    SetNode { memory: bool, nid: u8 },
    Hotplug(bool),
    Nomap(bool),
    NoInit,
    Alloc { order: u8, nid: u8, exact: bool },
}

#[derive(Arbitrary, Debug)]
struct History {
    may_grow: bool,
    calls: Vec<(What, u8, u8)>,
}

type Cell = Option<(Flags, NodeId)>;

/// Returns the regions that an array must have.
fn runs(cells: &[Cell]) -> Vec<Region> {
    let mut runs: Vec<Region> = Vec::new();
    for (i, cell) in cells.iter().enumerate() {
        let Some((flags, nid)) = *cell else { continue };
        let base = i as u64 * UNIT;
        match runs.last_mut() {
            Some(r) if r.end() == base && (r.flags, r.nid) == (flags, nid) => r.size += UNIT,
            _ => runs.push(Region {
                base,
                size: UNIT,
                flags,
                nid,
            }),
        }
    }
    runs
}

fn node(nid: u8) -> NodeId {
    NodeId(i32::from(nid % 3) - 1)
}

fn arena() -> u64 {
    static ARENA_AT: OnceLock<usize> = OnceLock::new();
    *ARENA_AT.get_or_init(|| {
        let layout = Layout::from_size_align(ARENA, 4096).expect("a sound layout");
        // SAFETY: the layout is not empty. It is never freed.
        unsafe { alloc_zeroed(layout) }.expose_provenance()
    }) as u64
}

fuzz_target!(|history: History| {
    let mut storage: Storage<2> = Storage::new();
    // SAFETY: arrays grow only into the arena, which is the only free memory below their limit.
    let mut m = Memblock::with_map(&mut storage, unsafe { Identity::new() });
    let arena = arena();
    let (mut memory, mut reserved): (Vec<Cell>, Vec<Cell>) =
        (vec![None; UNITS as usize], vec![None; UNITS as usize]);
    if history.may_grow {
        m.add_node(arena, ARENA as u64, NodeId(7), Flags::NONE)
            .expect("room for one");
        m.allow_resize();
    }
    for (what, from, len) in history.calls.into_iter().take(200) {
        let from = from % UNITS;
        let to = (from + 1 + len % 16).min(UNITS);
        let (base, size) = (u64::from(from) * UNIT, u64::from(to - from) * UNIT);
        let before = (m.memory().to_vec(), m.reserved().to_vec());
        let (kind, result) = match what {
            What::Add { nid, hotplug } => {
                let flags = if hotplug { Flags::HOTPLUG } else { Flags::NONE };
                (Kind::Memory, m.add_node(base, size, node(nid), flags))
            }
            What::Reserve { nid } => (
                Kind::Reserved,
                m.reserve_node(base, size, node(nid), Flags::NONE),
            ),
            What::Remove => (Kind::Memory, m.remove(base, size)),
            What::Free => (Kind::Reserved, m.free(base, size)),
            What::SetNode { memory, nid } => {
                let kind = if memory { Kind::Memory } else { Kind::Reserved };
                (kind, m.set_node(base, size, kind, node(nid)))
            }
            What::Hotplug(true) => (Kind::Memory, m.mark_hotplug(base, size)),
            What::Hotplug(false) => (Kind::Memory, m.clear_hotplug(base, size)),
            What::Nomap(true) => (Kind::Memory, m.mark_nomap(base, size)),
            What::Nomap(false) => (Kind::Memory, m.clear_nomap(base, size)),
            What::NoInit => (Kind::Reserved, m.reserved_mark_noinit(base, size)),
            What::Alloc { order, nid, exact } => {
                let align = 1 << (10 + order % 3);
                let found = m.alloc_range_nid(
                    size.min(8 * UNIT),
                    align,
                    0,
                    UNIT * u64::from(UNITS),
                    node(nid),
                    exact,
                );
                let result = found.map(|at| {
                    assert!(at >= 0x1000 && at % align == 0);
                    let first = (at / UNIT) as usize;
                    for i in first..first + (size.min(8 * UNIT) / UNIT) as usize {
                        let (flags, owner) = memory[i].expect("allocated from memory");
                        assert!(!flags.contains(Flags::NOMAP) && reserved[i].is_none());
                        assert!(!exact || !node(nid).is_valid() || owner == node(nid));
                        reserved[i] = Some((Flags::NONE, NodeId::NONE));
                    }
                });
                (
                    Kind::Reserved,
                    if result == Err(Error::NoMemory) {
                        Ok(())
                    } else {
                        result
                    },
                )
            }
        };
        match result {
            Err(error) => {
                assert_eq!(error, Error::ArrayFull);
                assert_eq!((m.memory().to_vec(), m.reserved().to_vec()), before);
            }
            Ok(()) => {
                let cells = if kind == Kind::Memory {
                    &mut memory
                } else {
                    &mut reserved
                };
                for cell in &mut cells[usize::from(from)..usize::from(to)] {
                    match (what, &mut *cell) {
                        (What::Add { nid, hotplug }, None) => {
                            *cell = Some((
                                if hotplug { Flags::HOTPLUG } else { Flags::NONE },
                                node(nid),
                            ));
                        }
                        (What::Reserve { nid }, None) => *cell = Some((Flags::NONE, node(nid))),
                        (What::Remove | What::Free, _) => *cell = None,
                        (What::SetNode { nid, .. }, Some(c)) => c.1 = node(nid),
                        (What::Hotplug(on), Some(c)) => c.0.set(Flags::HOTPLUG, on),
                        (What::Nomap(on), Some(c)) => c.0.set(Flags::NOMAP, on),
                        (What::NoInit, Some(c)) => c.0.insert(Flags::RSRV_NOINIT),
                        _ => {}
                    }
                }
            }
        }
        for (kind, cells) in [(Kind::Memory, &memory), (Kind::Reserved, &reserved)] {
            assert_eq!(m.regions(kind).check(), Ok(()));
            let low: Vec<Region> = m
                .regions(kind)
                .iter()
                .copied()
                .filter(|r| r.base < arena)
                .collect();
            assert_eq!(low, runs(cells), "after {what:?} on {from}..{to}");
        }
    }
});
