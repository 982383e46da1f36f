//! Each call on each state, with each allocation refused from then on, and each pair of refusals.

use samara_mm::abi::{
    MADV_COLLAPSE, MADV_DONTNEED, MADV_GUARD_INSTALL, MADV_GUARD_REMOVE, MADV_HUGEPAGE,
    MADV_NOHUGEPAGE, MADV_REMOVE, MAP_LOCKED, MREMAP_DONTUNMAP, MREMAP_FIXED, MREMAP_MAYMOVE,
    PROT_NONE, PROT_READ, PROT_WRITE,
};
use samara_mm::process::ForkMode;

use crate::op::{Kind, Op};
use crate::plan::Plan;
use crate::world::{MODES, PAGES, STRETCH, World};

const RW: u64 = PROT_READ | PROT_WRITE;
const FIXED: u64 = MREMAP_MAYMOVE | MREMAP_FIXED;
const FRAMES: usize = 3 << 10;
/// A boundary of stretches, around which areas lie.
const EDGE: u64 = STRETCH;

/// The way in which the pages of a state were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pages {
    Small,
    Huge,
    Shared,
    Files,
}

/// The operations of the first process that make a state: areas that reach over the edges of stretches, with holes between them, some pages of each; then
/// forks.
fn state(pages: Pages, forks: &[ForkMode]) -> Vec<Op> {
    let kind = match pages {
        Pages::Small | Pages::Huge => Kind::Private,
        Pages::Shared => Kind::Shared,
        Pages::Files => Kind::FilePrivate,
    };
    let mut ops = vec![Op::Map(kind, 0, PAGES, RW, 0)];
    match pages {
        Pages::Huge => ops.extend([
            Op::Advise(0, PAGES, MADV_HUGEPAGE),
            Op::Write(3, 1),
            Op::Write(EDGE + 7, 1),
            Op::Read(2 * EDGE, 1),
        ]),
        _ => {
            let some = [
                0,
                4,
                60,
                EDGE - 4,
                EDGE + 4,
                EDGE + 100,
                2 * EDGE - 2,
                2 * EDGE + 40,
            ];
            ops.extend(some.map(|page| Op::Write(page, 4)));
            ops.push(Op::Read(EDGE + 200, 4));
            ops.extend([
                // An area of another kind, and holes in the middle of stretches.
                Op::Map(Kind::FileShared, 64, 8, RW, 0),
                Op::Write(66, 2),
                Op::Unmap(80, 3),
                Op::Unmap(EDGE + 50, 2),
                Op::Protect(EDGE + 100, 4, PROT_READ),
            ]);
        }
    }
    let children = forks.iter().zip(1..);
    ops.extend(children.map(|(&mode, child)| Op::Fork(child, mode)));
    ops
}

/// The calls, each of which divides something.
fn calls() -> Vec<Op> {
    let ranges = [
        (EDGE, EDGE),
        (0, PAGES),
        (EDGE - 2, 6),
        (2, EDGE),
        (EDGE / 2, 2 * EDGE),
        (65, 2),
    ];
    let mut calls = Vec::new();
    for (page, pages) in ranges {
        calls.extend([
            Op::Unmap(page, pages),
            Op::Map(Kind::Private, page, pages, RW, 0),
            Op::Map(Kind::Private, page, pages, RW, MAP_LOCKED),
            Op::Map(Kind::Shared, page, pages, PROT_NONE, 0),
            Op::Map(Kind::FileShared, page, pages, PROT_READ, 0),
            Op::Map(Kind::FilePrivate, page, pages, RW, 0),
            Op::Protect(page, pages, PROT_READ),
            Op::Protect(page, pages, PROT_NONE),
            Op::Advise(page, pages, MADV_DONTNEED),
            Op::Advise(page, pages, MADV_REMOVE),
            Op::Advise(page, pages, MADV_NOHUGEPAGE),
            Op::Advise(page, pages, MADV_COLLAPSE),
            Op::Advise(page, pages, MADV_GUARD_INSTALL),
            Op::Advise(page, pages, MADV_GUARD_REMOVE),
            Op::Lock(page, pages.min(16)),
        ]);
    }
    for (from, pages, to) in [
        (0, EDGE, EDGE),
        (EDGE, EDGE, 4 * EDGE),
        (2, 100, EDGE + 2),
        (2, 60, EDGE + 7),
        (EDGE - 3, 20, 2 * EDGE - 9),
        (EDGE + 90, 40, 5),
        (0, EDGE + 80, 4 * EDGE + 3),
    ] {
        calls.extend([
            Op::Remap(from, pages, pages, FIXED, to),
            Op::Remap(from, pages, pages, FIXED | MREMAP_DONTUNMAP, to),
            Op::Remap(from, pages, pages - 1, FIXED, to),
            Op::Remap(from, pages, pages + 5, FIXED, to),
            Op::Remap(from, pages, pages / 2, 0, 0),
            Op::Remap(from, pages, pages + 9, MREMAP_MAYMOVE, 0),
            Op::Remap(from, pages, pages, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0),
        ]);
    }
    calls.extend(MODES.map(|mode| Op::Fork(2, mode)));
    calls
}

/// Performs a call on a state, with these allocations refused.
fn attempt(state: &[Op], who: usize, call: &Op, plan: &Plan) -> [crate::plan::Count; 2] {
    let mut world = World::new(FRAMES);
    for op in state {
        let made = world.perform(0, op, &Plan::NONE);
        assert!(made.result.is_ok(), "{op:?} gave {made:?}");
    }
    let outcome = world.step(who, call, plan);
    [outcome.frames, outcome.heap]
}

/// Each allocation of frames refused from then on, and each pair of them.
fn frames(state: &[Op], who: usize, call: &Op, pairs: bool) {
    for first in 0.. {
        if attempt(state, who, call, &Plan::frames_from(first))[0].refused == 0 {
            break;
        }
        // The second time that the library asks for the same frame it is refused, too: of others, the first time alone.
        for second in first + 2.. {
            let plan = Plan::frames([first..first + 2, second..second + 2]);
            if !pairs || attempt(state, who, call, &plan)[0].second == 0 {
                break;
            }
        }
    }
}

/// Each allocation of the heap refused, and each pair.
fn heap(state: &[Op], who: usize, call: &Op, pairs: bool) {
    for first in 0.. {
        let plan = Plan::heap([first..u64::MAX, 0..0]);
        if attempt(state, who, call, &plan)[1].refused == 0 {
            break;
        }
        for second in first + 1.. {
            let plan = Plan::heap([first..first + 1, second..second + 1]);
            if attempt(state, who, call, &plan)[1].second == 0 || !pairs {
                break;
            }
        }
    }
}

fn states() -> Vec<(Pages, Vec<ForkMode>)> {
    let mut states = Vec::new();
    for pages in [Pages::Small, Pages::Huge, Pages::Shared, Pages::Files] {
        states.extend([
            (pages, vec![]),
            (pages, vec![ForkMode::Copy]),
            (pages, vec![ForkMode::Share]),
        ]);
    }
    states
}

/// Of all combinations, each `one_in`-th.
fn all(one_in: usize, each: impl Fn(&[Op], usize, &Op)) {
    let mut count = 0;
    for (pages, forks) in states() {
        let state = state(pages, &forks);
        // The child, too.
        for who in 0..=forks.len() {
            for call in calls() {
                count += 1;
                if count % one_in == 0 {
                    each(&state, who, &call);
                }
            }
        }
    }
}

/// Of a few combinations, in no order, so that each call and each state is met.
const FEW: usize = 61;

#[test]
#[cfg_attr(miri, ignore = "takes hours")]
fn few_with_frames_refused_from_each_on() {
    all(FEW, |state, who, call| frames(state, who, call, false));
}

#[test]
#[cfg_attr(miri, ignore = "takes hours")]
fn few_with_heap_refused_from_each_on() {
    all(FEW, |state, who, call| heap(state, who, call, false));
}

#[test]
#[ignore = "takes minutes"]
fn all_with_pairs_of_frames_refused() {
    all(1, |state, who, call| frames(state, who, call, true));
}

#[test]
#[ignore = "takes minutes"]
fn all_with_pairs_of_heap_refused() {
    all(1, |state, who, call| heap(state, who, call, true));
}
