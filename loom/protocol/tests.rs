//! The protocol holds, and each of its steps is necessary.

use stateright::{Checker, Model};

use crate::{ACTS, FREED, Protocol, What, Without};

const ALL: [What; 6] = [
    What::Unmap,
    What::Split,
    What::Join,
    What::Move,
    What::Map,
    What::Fork,
];
const TAKEN: &str = "a fault is handled during a call";
const MOMENT: &str = "a child is a picture of one moment";
const ENDS: &str = "all end";

fn protocol(without: Without) -> Protocol {
    Protocol {
        writes: vec![vec![0, 1], vec![1], vec![2], vec![3]],
        calls: 2,
        kinds: ALL.to_vec(),
        held: false,
        without,
    }
}

/// Returns the properties that fail in some order of steps, and `true` if a fault was ever handled
/// during a call.
fn broken(protocol: Protocol) -> (Vec<&'static str>, bool) {
    let checker = protocol.checker().spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    let mut names: Vec<&str> = checker.discoveries().into_keys().collect();
    let taken = names.contains(&TAKEN);
    names.retain(|name| *name != TAKEN);
    names.sort();
    (names, taken)
}

#[test]
fn all_of_it_holds() {
    assert_eq!(broken(protocol(Without::Nothing)), (vec![], true));
}

#[test]
fn three_calls() {
    let protocol = Protocol {
        calls: 3,
        ..protocol(Without::Nothing)
    };
    assert_eq!(broken(protocol), (vec![], true));
}

/// A fault in another area never ends, and calls end nevertheless.
#[test]
fn calls_wait_for_faults_in_their_own_areas_alone() {
    let with_others = |without| Protocol {
        kinds: vec![What::Unmap, What::Split, What::Map],
        held: true,
        ..protocol(without)
    };
    assert_eq!(broken(with_others(Without::Nothing)).0, [""; 0]);
    assert_eq!(broken(with_others(Without::AwaitingOnlyItsOwn)).0, [ENDS]);
}

macro_rules! each_is_needed {
    ($($name:ident: $step:ident, $fails:expr;)*) => {
        $(
            #[test]
            fn $name() {
                let (broken, _) = broken(protocol(Without::$step));
                assert!(broken.contains(&$fails), "{broken:?}");
            }
        )*
    };
}

each_is_needed! {
    the_number_is_read_before_the_area_is_found: NumberFirst, ACTS;
    areas_are_found_under_rcu: Section, FREED;
    faults_count_as_holders: Holding, ACTS;
    faults_ask_whether_the_lock_is_closed: Asking, ACTS;
    faults_ask_whether_the_call_is_the_same: AskingAgain, ACTS;
    readers_stay_until_the_lock_was_asked: SectionUntilAsked, FREED;
    calls_close_locks: Closing, ACTS;
    calls_wait_for_holders: Awaiting, ACTS;
    calls_close_the_areas_that_they_join: ClosingNeighbours, ACTS;
    new_areas_are_closed: ClosingNew, "what moves finds its place empty";
    areas_are_freed_after_the_readers: Grace, FREED;
    calls_end_when_all_is_done: EndingLast, ACTS;
    forks_close_all_areas: ClosingAtFork, MOMENT;
    faults_let_go_before_they_wait: LettingGo, ENDS;
    faults_count_as_holders_of_what_is_remembered: HoldingThere, ACTS;
    faults_ask_whether_it_is_remembered_still: AskingThere, ACTS;
    locks_tell_that_they_are_noted: Saying, ACTS;
    what_is_noted_is_open: AskingToNote, ACTS;
    calls_wait_for_who_writes_what_is_remembered: AwaitingWriter, ACTS;
    calls_take_away_what_is_remembered: Clearing, ACTS;
    calls_wait_for_those_who_hold_it: AwaitingThere, ACTS;
}
