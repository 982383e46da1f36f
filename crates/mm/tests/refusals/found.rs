//! Failures that were found, each as a named history.

use samara_mm::Errno;
use samara_mm::abi::{
    MADV_DONTFORK, MADV_HUGEPAGE, MREMAP_DONTUNMAP, MREMAP_FIXED, MREMAP_MAYMOVE, PROT_NONE,
    PROT_READ, PROT_WRITE,
};
use samara_mm::process::ForkMode;

use crate::op::{Kind, Op};
use crate::plan::Plan;
use crate::world::{Outcome, STRETCH, World};

const RW: u64 = PROT_READ | PROT_WRITE;

fn attempt(state: &[Op], op: &Op, plan: &Plan) -> Outcome {
    let mut world = World::new(2048);
    for op in state {
        world.perform(0, op, &Plan::NONE).result.unwrap();
    }
    world.step(0, op, plan)
}

/// Frames are refused from each allocation of an operation on.
fn refuse_from_each_on(state: &[Op], op: &Op) {
    for first in 0.. {
        if attempt(state, op, &Plan::frames_from(first)).frames.refused == 0 {
            break;
        }
    }
}

/// Two stretches with a hole in one, all of whose tables a child uses, too. They go as a whole, for which no table is copied.
#[test]
fn a_hole_in_a_table_that_a_child_shares() {
    let state = [
        Op::Map(Kind::Private, 0, 2 * STRETCH, RW, 0),
        Op::Write(STRETCH - 100, 200),
        Op::Unmap(STRETCH + 20, 1),
        Op::Fork(1, ForkMode::Share),
    ];
    for call in [
        Op::Unmap(0, 2 * STRETCH),
        Op::Map(Kind::Shared, 0, 2 * STRETCH, PROT_NONE, 0),
        Op::Map(Kind::Private, STRETCH, STRETCH, RW, 0),
    ] {
        refuse_from_each_on(&state, &call);
    }
    let call = Op::Unmap(0, 2 * STRETCH);
    let none = attempt(&state, &call, &Plan::frames_from(0));
    assert_eq!((none.result, none.frames.asked), (Ok(0), 0));
}

/// The first part of what moves is empty. A table was made for it, and lost again, which the next part needed.
#[test]
fn a_move_that_begins_with_nothing() {
    let state = [
        Op::Map(Kind::Private, 0, 2 * STRETCH, RW, 0),
        Op::Write(16, 1),
        Op::Write(STRETCH + 16, 1),
    ];
    let (pages, to) = (STRETCH / 2, 6 * STRETCH);
    for flags in [
        MREMAP_MAYMOVE | MREMAP_DONTUNMAP,
        MREMAP_MAYMOVE | MREMAP_FIXED,
    ] {
        let call = Op::Remap(STRETCH - 2, pages, pages, flags, to);
        refuse_from_each_on(&state, &call);
    }
}

/// Of two areas that move at once, the first comes into the stretch that the second leaves, which has no page. That needed a table for nothing, which
/// could not be foreseen.
#[test]
fn areas_of_which_one_goes_where_the_other_was() {
    let state = [
        Op::Map(Kind::Private, 0x166, 0x60, RW, 0),
        Op::Write(0x170, 1),
        Op::Map(Kind::Private, 0x561, 5, RW, 0),
    ];
    let call = Op::Remap(0x166, 0x400, 0x400, MREMAP_MAYMOVE | MREMAP_FIXED, 0x566);
    refuse_from_each_on(&state, &call);
}

/// A call that divides an area, and says nothing of its pages, divides a huge page with it.
#[test]
fn an_area_that_is_cut_within_a_huge_page() {
    let state = [
        Op::Map(Kind::Private, 0, STRETCH, RW, 0),
        Op::Advise(0, STRETCH, MADV_HUGEPAGE),
        Op::Write(0, 1),
    ];
    for call in [
        Op::Lock(5, 7),
        Op::Lock(0, 7),
        Op::Advise(5, STRETCH - 5, MADV_DONTFORK),
    ] {
        refuse_from_each_on(&state, &call);
    }
}

/// A call that reaches into sealed memory fails, and has cut its first area and a huge page by then. Without a table for that, it cuts nothing.
#[test]
fn an_area_that_is_cut_though_what_lies_behind_is_sealed() {
    let state = [
        Op::Map(Kind::Private, 0, 2 * STRETCH, RW, 0),
        Op::Advise(0, 2 * STRETCH, MADV_HUGEPAGE),
        Op::Write(0, 1),
        Op::Write(STRETCH, 1),
        Op::Seal(STRETCH, STRETCH),
    ];
    let pages = 2 * STRETCH - 7;
    for call in [
        Op::Unmap(7, pages),
        Op::Map(Kind::Shared, 7, pages, RW, 0),
        Op::Remap(2 * STRETCH, pages, pages, MREMAP_MAYMOVE | MREMAP_FIXED, 7),
    ] {
        let mut state = state.to_vec();
        state.push(Op::Map(Kind::Private, 2 * STRETCH, pages, RW, 0));
        let with = |plan| attempt(&state, &call, &plan).result;
        assert_eq!(with(Plan::NONE), Err(Errno::EPERM), "{call:?}");
        assert_eq!(with(Plan::frames_from(0)), Err(Errno::ENOMEM), "{call:?}");
        refuse_from_each_on(&state, &call);
    }
}
