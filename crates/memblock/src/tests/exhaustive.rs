//! All histories of three calls over eight pages. Every outcome is compared with the model: with
//! spare capacity, in arrays that cannot grow, and with growth forced at each call.

use std::collections::HashSet;

use super::arena::{Arena, check, snapshot, squeeze, storage};
use super::model::{Call, Model, What};
use crate::{Error, Flags, Kind, Memblock, NodeId, PhysMap, Region, Unmapped};

/// Fewer pages under an interpreter.
const PAGES: usize = if cfg!(miri) { 2 } else { 8 };
/// The interpreter tries only some of the states, and sanitizers fewer than all.
const STEP: usize = if cfg!(miri) {
    113
} else if cfg!(sanitized) {
    7
} else {
    1
};
const UNIT: u64 = 0x1000;
const BASE: u64 = 0x1000;

fn every_call(kind: Kind) -> Vec<Call> {
    let (n, f) = (NodeId, Flags::NONE);
    let whats = match kind {
        Kind::Memory => vec![
            What::Add(kind, f, NodeId::NONE),
            What::Add(kind, f, n(0)),
            What::Add(kind, f, n(1)),
            What::Add(kind, Flags::MIRROR, n(0)),
            What::Remove(kind),
            What::SetNode(kind, n(1)),
            What::SetNode(kind, NodeId::NONE),
            What::Mark(kind, Flags::HOTPLUG, true),
            What::Mark(kind, Flags::HOTPLUG, false),
            What::Mark(kind, Flags::NOMAP, true),
        ],
        _ => vec![
            What::Add(kind, f, NodeId::NONE),
            What::Add(kind, f, n(1)),
            What::Remove(kind),
            What::SetNode(kind, n(1)),
            What::Mark(kind, Flags::RSRV_NOINIT, true),
        ],
    };
    let mut calls = Vec::new();
    for what in whats {
        for from in 0..PAGES {
            for to in from + 1..=PAGES {
                calls.push(Call { what, from, to });
            }
        }
    }
    calls
}

pub(super) fn perform<M: PhysMap>(
    m: &mut Memblock<'_, M>,
    call: Call,
    base: u64,
    unit: u64,
) -> Result<(), Error> {
    let (base, size) = (
        base + call.from as u64 * unit,
        (call.to - call.from) as u64 * unit,
    );
    match call.what {
        What::Add(Kind::Memory, flags, nid) => m.add_node(base, size, nid, flags),
        What::Add(_, flags, nid) => m.reserve_node(base, size, nid, flags),
        What::Remove(Kind::Memory) => m.remove(base, size),
        What::Remove(_) => m.free(base, size),
        What::SetNode(kind, nid) => m.set_node(base, size, kind, nid),
        What::Mark(_, Flags::HOTPLUG, true) => m.mark_hotplug(base, size),
        What::Mark(_, Flags::HOTPLUG, false) => m.clear_hotplug(base, size),
        What::Mark(_, Flags::NOMAP, true) => m.mark_nomap(base, size),
        What::Mark(_, Flags::NOMAP, false) => m.clear_nomap(base, size),
        What::Mark(_, Flags::MIRROR, true) => m.mark_mirror(base, size),
        What::Mark(_, Flags::RSRV_NOINIT, true) => m.reserved_mark_noinit(base, size),
        What::Mark(_, Flags::KHO_SCRATCH, true) => m.mark_kho_scratch(base, size),
        What::Mark(_, Flags::KHO_SCRATCH, false) => m.clear_kho_scratch(base, size),
        What::Mark(..) => unreachable!(),
    }
}

/// Returns all states that two calls can lead to.
fn states(kind: Kind, calls: &[Call]) -> HashSet<Model> {
    let mut states = HashSet::from([Model::new(BASE, UNIT, PAGES)]);
    for _ in 0..2 {
        let mut next = states.clone();
        for state in &states {
            for &call in calls {
                let mut after = state.clone();
                after.apply(call);
                next.insert(after);
            }
        }
        states = next;
    }
    assert!(states.iter().all(|s| {
        s.runs(if kind == Kind::Memory {
            Kind::Reserved
        } else {
            Kind::Memory
        })
        .is_empty()
    }));
    states
}

/// Puts an array into a state without the calls under test.
fn load<M: PhysMap>(m: &mut Memblock<'_, M>, kind: Kind, runs: &[Region]) {
    let array = m.array(kind);
    array.clear();
    for &r in runs {
        let n = array.len();
        array.insert_at(n, r);
    }
}

#[test]
fn every_three_calls_with_capacity() {
    for kind in [Kind::Memory, Kind::Reserved] {
        let calls = every_call(kind);
        let mut s = storage::<32>();
        let mut m = Memblock::new(&mut s);
        for state in states(kind, &calls).into_iter().step_by(STEP) {
            let runs = state.runs(kind);
            for &call in &calls {
                load(&mut m, kind, &runs);
                assert_eq!(perform(&mut m, call, BASE, UNIT), Ok(()));
                let mut after = state.clone();
                after.apply(call);
                assert_eq!(
                    **m.regions(kind),
                    *after.runs(kind),
                    "{runs:?} then {call:?}"
                );
                assert_eq!(m.regions(kind).check(), Ok(()), "{runs:?} then {call:?}");
            }
        }
    }
}

/// The calls under test reach exactly the states of the model: histories run in sequence.
#[test]
fn every_two_calls_from_nothing() {
    for kind in [Kind::Memory, Kind::Reserved] {
        let calls = every_call(kind);
        let mut s = storage::<32>();
        let mut m = Memblock::new(&mut s);
        for &first in calls.iter().step_by(STEP) {
            for &second in &calls {
                m.clear();
                let mut model = Model::new(BASE, UNIT, PAGES);
                for call in [first, second] {
                    assert_eq!(perform(&mut m, call, BASE, UNIT), Ok(()));
                    model.apply(call);
                    assert_eq!(**m.regions(kind), *model.runs(kind), "{first:?} {second:?}");
                }
                check(&m);
            }
        }
    }
}

/// With every capacity that can hold the state, the call either succeeds, or fails and changes
/// nothing. It fails only if the regions that it must insert do not fit.
#[test]
fn every_three_calls_without_growing() {
    for kind in [Kind::Memory, Kind::Reserved] {
        let calls = every_call(kind);
        let mut s = storage::<32>();
        let mut m = Memblock::new(&mut s);
        for state in states(kind, &calls).into_iter().step_by(STEP) {
            let runs = state.runs(kind);
            for &call in &calls {
                let mut after = state.clone();
                after.apply(call);
                let wanted = after.runs(kind);
                for spare in 0..=3 {
                    m.array(kind).set_capacity(32);
                    load(&mut m, kind, &runs);
                    let capacity = (runs.len() + spare).max(1);
                    m.array(kind).set_capacity(capacity);
                    let result = perform(&mut m, call, BASE, UNIT);
                    let expected = if result.is_ok() { &wanted } else { &runs };
                    assert_eq!(
                        **m.regions(kind),
                        **expected,
                        "{runs:?} then {call:?} at {capacity}"
                    );
                    assert_eq!(
                        m.regions(kind).check(),
                        Ok(()),
                        "{runs:?} then {call:?} at {capacity}"
                    );
                    if result.is_err() {
                        let needed = match call.what {
                            What::Add(..) => runs.len() + state.holes(call),
                            What::Remove(_) => wanted.len(),
                            _ => runs.len() + 2,
                        };
                        assert!(
                            needed > capacity,
                            "{runs:?} then {call:?} at {capacity} failed"
                        );
                    }
                }
            }
        }
    }
}

/// Every call finds its array full and must grow it into memory elsewhere.
#[test]
fn every_three_calls_with_growth() {
    let arena = Arena::new(0x10_0000, 0x8000);
    for kind in [Kind::Memory, Kind::Reserved] {
        let calls = every_call(kind);
        let mut s = storage::<32>();
        let mut m = Memblock::with_map(&mut s, arena.clone());
        m.allow_resize();
        let home = Region {
            base: arena.base,
            size: arena.size,
            ..Region::EMPTY
        };
        for state in states(kind, &calls).into_iter().step_by(STEP) {
            let runs = state.runs(kind);
            for &call in &calls {
                m.clear();
                m.array(Kind::Memory).set_capacity(32);
                m.array(Kind::Reserved).set_capacity(32);
                load(&mut m, kind, &runs);
                m.add(home.base, home.size).unwrap();
                squeeze(&mut m);
                m.array(Kind::Reserved).set_capacity(runs.len().max(1));
                assert_eq!(
                    perform(&mut m, call, BASE, UNIT),
                    Ok(()),
                    "{runs:?} then {call:?}"
                );
                check(&m);
                let mut after = state.clone();
                after.apply(call);
                let low: Vec<Region> = m
                    .regions(kind)
                    .iter()
                    .copied()
                    .filter(|r| r.base < arena.base)
                    .collect();
                assert_eq!(low, after.runs(kind), "{runs:?} then {call:?}");
                for other in m.reserved().iter().filter(|r| r.base >= arena.base) {
                    assert!(other.end() <= arena.end() && other.size % 0x1000 == 0);
                }
                let grown = m.regions(kind).as_ptr() != m.first_storage(kind).0;
                assert_eq!(grown, m.is_reserved(arena.end() - 1));
            }
        }
    }
}

/// A failed growth at each call leaves everything unchanged, marks included.
#[test]
fn settings_survive_clear() {
    let mut s = storage::<2>();
    let mut m = Memblock::with_map(&mut s, Unmapped);
    m.set_bottom_up(true);
    m.add(0x1000, 0x1000).unwrap();
    m.add(0x3000, 0x1000).unwrap();
    let before = snapshot(&m);
    m.allow_resize();
    assert_eq!(m.add(0x5000, 0x1000), Err(Error::ArrayFull));
    assert_eq!(snapshot(&m), before);
    m.clear();
    assert!(m.memory().is_empty() && m.bottom_up());
    assert_eq!(m.memory().capacity(), 2);
}
