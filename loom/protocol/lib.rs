//! Faults without the lock of the address space, as a state machine that is tried in every order of
//! steps.
//!
//! `crates/mm/src/vma/vma_lock.rs` has the protocol for one area, and `samara-mm-loom` its
//! atomics. This model has the surroundings: a map of areas whose memory is reused, tables that
//! calls change page by page, and a fork. Each step of [`Fault`] and [`Call`] is one action of
//! [`Protocol`]. The letters and numbers are those of `vma_lock.rs`, and P, Q and the lower-case
//! ones those of `vma_cache.rs`. All areas share one place there, and one thread faults. Memory is
//! sequentially consistent.
//!
//! [`Protocol::properties`] lists what holds. The tests remove each step in turn ([`Without`]), and
//! check which property then fails.

#![cfg(test)]

mod steps;
mod tests;

use stateright::{Model, Property};

const PAGES: usize = 4;
/// The number of places in memory for areas. Two are used initially.
const AREAS: usize = 3;
/// A set of pages, with one bit for each.
type Set = u8;

/// A place in memory for an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
struct Area {
    /// The number of the area in this place, which rises when the memory is reused. 0 means free.
    birth: u8,
    writable: bool,
    holders: u8,
    noted: bool,
    closed_in: u8,
}

/// The access that an entry of the tables allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Entry {
    Empty,
    Read,
    Write,
}

/// The area that a fault has found in the tree, or that is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Found {
    area: usize,
    birth: u8,
    range: Set,
    /// `true` if it is remembered: faults that hold it are counted there.
    there: bool,
}

impl Found {
    fn has(&self, page: usize) -> bool {
        self.range >> page & 1 == 1
    }
}

/// A thread that writes to pages, one after the other. A write to a writable page needs nothing
/// else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fault {
    /// Next: the write itself, or a first look at the remembered area.
    Begin,
    /// Next: a, count as a holder of the remembered area.
    HoldThere { found: Found },
    /// Next: b, check that it is still remembered.
    AskThere { found: Found },
    /// Next: enter an RCU section; 1, read the number of the current call.
    Number,
    /// Next: 2, find the area.
    Look { number: u8 },
    /// Next: 3, count as a holder.
    Hold { number: u8, found: Found },
    /// Next: 4, check that the lock was not closed in this call.
    Ask { number: u8, found: Found },
    /// Next: 5, check that the call is still the same. Otherwise start again.
    AskAgain { number: u8, found: Found },
    /// Next: 6, leave the RCU section.
    Leave { found: Found },
    /// Next: u, mark the lock as noted.
    Say { found: Found },
    /// Next: v, start to write the remembered area, if no fault is there.
    Write { found: Found },
    /// Next: w, check that the lock is still open.
    AskToNote { found: Found },
    /// Next: x, remember the held area, if the lock was open.
    Note { found: Found, open: bool },
    /// Next: read the access of the area, or find that the fault needs the lock of the address
    /// space.
    Decide { found: Found },
    /// Next: set the entry.
    Map { found: Found, entry: Entry },
    /// Next: release the area, and then continue with this.
    LetGo { found: Found, then: Then },
    /// Wait for the lock of the address space, and do everything at once with it.
    Wait,
    /// Everything has been written.
    End,
}

/// The continuation of a fault that has released its area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Then {
    /// The page is mapped.
    Done,
    /// Continue at 1: the area is no longer remembered, or a call has ended since.
    Anew,
    /// Wait for the lock of the address space.
    Wait,
}

/// A call or a fork, under the lock of the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Call {
    /// No call is under way.
    None,
    /// Next: A for one area of this set of places, and the steps that follow until B.
    Close { what: What, left: Set },
    /// Next: check if the lock is noted.
    LookWhetherNoted { what: What, left: Set, area: usize },
    /// P: wait until no thread writes the remembered area, and remove it if it is this area.
    Clear { what: What, left: Set, area: usize },
    /// Q: wait until no fault holds the remembered area.
    AwaitThere { what: What, left: Set, area: usize },
    /// B: wait until no fault holds the area.
    Await { what: What, left: Set, area: usize },
    /// Next: C, change the tree.
    Change { what: What },
    /// C: change the tables, page by page.
    Tables { what: What, page: usize },
    /// Next: D.
    End,
}

/// The kind of a call. Initially a writable area has pages 0 and 1, a read-only one has page 2, and
/// page 3 is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    /// `munmap` of page 1: its area becomes shorter.
    Unmap,
    /// `mprotect` of page 1: a new area is created.
    Split,
    /// `mprotect` of page 2: it merges with the area below.
    Join,
    /// `mremap` of page 2 to page 3: a new area is created, and the old one is removed.
    Move,
    /// `mmap` of page 3.
    Map,
    /// The child gets the content of each page.
    Fork,
}

/// A step that is left out, or taken out of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Without {
    Nothing,
    /// 1 comes after 2.
    NumberFirst,
    /// 2 has no RCU section.
    Section,
    /// 3.
    Holding,
    /// 4.
    Asking,
    /// 5.
    AskingAgain,
    /// 6 comes before 4.
    SectionUntilAsked,
    /// A.
    Closing,
    /// B.
    Awaiting,
    /// The areas with which a call merges are not closed.
    ClosingNeighbours,
    /// Areas are created with an open lock.
    ClosingNew,
    /// C frees areas at once.
    Grace,
    /// D comes before C.
    EndingLast,
    /// A fork closes nothing.
    ClosingAtFork,
    /// A fault waits for the address space while it holds an area.
    LettingGo,
    /// a counts no holder.
    HoldingThere,
    /// b.
    AskingThere,
    /// u.
    Saying,
    /// w.
    AskingToNote,
    /// P does not wait for a writer.
    AwaitingWriter,
    /// P removes nothing.
    Clearing,
    /// Q.
    AwaitingThere,
    /// A call waits for the faults of all areas.
    AwaitingOnlyItsOwn,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    areas: [Area; AREAS],
    births: u8,
    tree: [Option<usize>; PAGES],
    tables: [Entry; PAGES],
    /// The areas that have left the tree.
    gone: Set,
    /// Those of them that are freed when the reader has left, if it had entered before.
    dying: Set,
    awaited: bool,
    remembered: Option<Found>,
    /// The number of faults that hold the remembered area, or held it.
    there: u8,
    /// `true` while the remembered area is being written.
    writer: bool,
    written: Set,
    /// The pages that the last fork copied.
    child: Option<Set>,
    calls: u8,
    call: Call,
    calls_left: u8,
    fault: Fault,
    /// The pages that must still be written.
    pages: Vec<usize>,
    /// `true` if the thread is in an RCU section.
    reading: bool,
    /// `true` if a fault was handled during a call.
    taken: bool,
    broken: Option<&'static str>,
}

impl State {
    /// Returns the pages of an area.
    fn range(&self, area: usize) -> Set {
        let of = |page: &usize| self.tree[*page] == Some(area);
        (0..PAGES).filter(of).map(|page| 1 << page).sum()
    }

    fn is(&self, found: Found) -> bool {
        self.areas[found.area].birth == found.birth && self.range(found.area) == found.range
    }

    fn expect(&mut self, holds: bool, what: &'static str) {
        if !holds && self.broken.is_none() {
            self.broken = Some(what);
        }
    }

    /// Returns the fault's area, which must not have been freed, however little is done with it.
    fn touch(&mut self, found: Found) -> &mut Area {
        let birth = self.areas[found.area].birth;
        self.expect(birth == found.birth, FREED);
        &mut self.areas[found.area]
    }

    /// Returns the areas that a call changes, and those with which they merge.
    fn concerned(&self, what: What, without: Without) -> Set {
        let at = |page: usize| self.tree[page].map_or(0, |area| 1 << area);
        match what {
            What::Unmap | What::Split => at(1),
            What::Join if without == Without::ClosingNeighbours => at(2),
            What::Join => at(1) | at(2),
            What::Move => at(2),
            What::Map => 0,
            What::Fork if without == Without::ClosingAtFork => 0,
            What::Fork => (0..PAGES).fold(0, |set, page| set | at(page)),
        }
    }

    fn is_possible(&self, what: What) -> bool {
        let writable = |page: usize| self.tree[page].is_some_and(|area| self.areas[area].writable);
        let room = self.areas.iter().any(|area| area.birth == 0);
        match what {
            What::Unmap => self.tree[1].is_some(),
            What::Split => room && self.tree[0] == self.tree[1] && writable(1),
            What::Join => writable(1) && self.tree[2].is_some() && !writable(2),
            What::Move => room && self.tree[2].is_some() && !writable(2) && self.tree[3].is_none(),
            What::Map => room && self.tree[3].is_none(),
            What::Fork => true,
        }
    }

    /// Creates an area that replaces what was there.
    fn lay(&mut self, pages: Set, writable: bool, without: Without) {
        let free = (0..AREAS).find(|&area| self.areas[area].birth == 0);
        let area = free.expect("there is room");
        self.births += 1;
        let open = without == Without::ClosingNew;
        self.areas[area] = Area {
            birth: self.births,
            writable,
            holders: 0,
            noted: false,
            closed_in: if open { 0 } else { self.calls },
        };
        self.set(pages, Some(area));
    }

    /// x: remembers an area.
    fn note(&mut self, found: Found) {
        self.remembered = Some(Found {
            there: true,
            ..found
        });
    }

    /// The fault leaves its RCU section.
    fn leave(&mut self) {
        self.reading = false;
        self.awaited = false;
    }

    fn set(&mut self, pages: Set, area: Option<usize>) {
        for page in (0..PAGES).filter(|page| pages >> page & 1 == 1) {
            self.tree[page] = area;
        }
    }

    /// C: one store in the tree. Returns the areas that have left it.
    fn change(&mut self, what: What, without: Without) -> Set {
        let before = self.tree;
        match what {
            What::Unmap => self.set(1 << 1, None),
            What::Split => self.lay(1 << 1, false, without),
            What::Join => self.set(1 << 2, before[1]),
            What::Move => {
                self.lay(1 << 3, false, without);
                self.set(1 << 2, None);
            }
            What::Map => self.lay(1 << 3, true, without),
            What::Fork => {}
        }
        let gone = |area: &usize| before.contains(&Some(*area)) && self.range(*area) == 0;
        (0..AREAS).filter(gone).map(|area| 1 << area).sum()
    }

    /// C: changes one page of the tables.
    fn change_table(&mut self, what: What, page: usize) {
        match (what, page) {
            (What::Unmap, 1) => self.tables[1] = Entry::Empty,
            // An access that the entry does not allow takes another fault.
            (What::Split, 1) if self.tables[1] != Entry::Empty => self.tables[1] = Entry::Read,
            (What::Move, 3) => {
                let empty = self.tables[3] == Entry::Empty;
                self.expect(empty, "what moves finds its place empty");
                self.tables[3] = core::mem::replace(&mut self.tables[2], Entry::Empty);
            }
            (What::Fork, _) => {
                let child = self.child.unwrap_or(0) & ((1 << page) - 1);
                self.child = Some(child | self.written & 1 << page);
                if self.tables[page] == Entry::Write {
                    self.tables[page] = Entry::Read;
                }
            }
            _ => {}
        }
    }
}

const ACTS: &str = "no fault acts on an area that is detached, reused or being changed";
const FREED: &str = "no fault touches an area that has been freed";

/// The model: writes to pages, in order, concurrently with a number of calls of these kinds.
#[derive(Clone, Debug)]
struct Protocol {
    writes: Vec<Vec<usize>>,
    calls: u8,
    kinds: Vec<What>,
    /// `true` if another thread holds the area of page 2 for ever.
    held: bool,
    without: Without,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// A step of the faulting thread.
    Fault,
    /// The fault needs the lock of the address space, as when the area has no owner of private
    /// pages.
    NeedsMore,
    /// A step of the calling thread.
    Call,
    Begin(What),
    /// Areas that have left the tree will be freed: wait for the readers that have entered.
    Forget,
    /// Those readers have left.
    Free,
}

impl Model for Protocol {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let area = |birth, writable, holders| Area {
            birth,
            writable,
            holders,
            noted: false,
            closed_in: 0,
        };
        let states = self.writes.iter().map(|pages| State {
            areas: [
                area(1, true, 0),
                area(2, false, u8::from(self.held)),
                Area::default(),
            ],
            births: 2,
            tree: [Some(0), Some(0), Some(1), None],
            tables: [Entry::Empty, Entry::Empty, Entry::Read, Entry::Empty],
            gone: 0,
            dying: 0,
            awaited: false,
            remembered: None,
            there: 0,
            writer: false,
            written: 0,
            child: None,
            calls: 1,
            call: Call::None,
            calls_left: self.calls,
            fault: Fault::Begin,
            pages: pages.clone(),
            reading: false,
            taken: false,
            broken: None,
        });
        states.collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Step>) {
        match state.fault {
            Fault::End => {}
            // The lock of the address space is held by the call.
            Fault::Wait if state.call != Call::None => {}
            Fault::Decide { .. } => actions.extend([Step::Fault, Step::NeedsMore]),
            _ => actions.push(Step::Fault),
        }
        match state.call {
            Call::None if state.calls_left == 0 => {}
            Call::None => {
                let possible = self.kinds.iter().filter(|what| state.is_possible(**what));
                actions.extend(possible.map(|what| Step::Begin(*what)));
            }
            Call::Clear { .. } => {
                if !state.writer || self.without == Without::AwaitingWriter {
                    actions.push(Step::Call);
                }
            }
            Call::AwaitThere { .. } => {
                if state.there == 0 || self.without == Without::AwaitingThere {
                    actions.push(Step::Call);
                }
            }
            Call::Await { area, .. } => {
                let all = self.without == Without::AwaitingOnlyItsOwn;
                let waits = |a: usize| (all || a == area) && state.areas[a].holders > 0;
                if self.without == Without::Awaiting || !(0..AREAS).any(waits) {
                    actions.push(Step::Call);
                }
            }
            _ => actions.push(Step::Call),
        }
        if state.gone != 0 && state.dying == 0 {
            actions.push(Step::Forget);
        }
        if state.dying != 0 && (!state.awaited || self.without == Without::Grace) {
            actions.push(Step::Free);
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        match step {
            Step::Fault => self.fault(&mut state),
            Step::NeedsMore => {
                let Fault::Decide { found } = state.fault else {
                    return None;
                };
                state.fault = if self.without == Without::LettingGo {
                    Fault::Wait
                } else {
                    let then = Then::Wait;
                    Fault::LetGo { found, then }
                };
            }
            Step::Begin(what) => {
                state.calls_left -= 1;
                let left = state.concerned(what, self.without);
                state.call = Call::Close { what, left };
            }
            Step::Call => self.call(&mut state),
            Step::Forget => {
                state.awaited = state.reading;
                state.dying = core::mem::take(&mut state.gone);
            }
            Step::Free => {
                for area in (0..AREAS).filter(|area| last.dying >> area & 1 == 1) {
                    state.areas[area].birth = 0;
                }
                state.dying = 0;
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        fn intact(state: &State, what: &'static str) -> bool {
            state.broken != Some(what)
        }
        vec![
            Property::always(ACTS, |_, s: &State| intact(s, ACTS)),
            Property::always(FREED, |_, s: &State| intact(s, FREED)),
            Property::always("what moves finds its place empty", |_, s: &State| {
                intact(s, "what moves finds its place empty")
            }),
            // A fault that holds an area has read its access, and the call came before or comes
            // after.
            Property::always("tables allow what the map allows", |_, s: &State| {
                let right = |page: usize| match (s.tables[page], s.tree[page]) {
                    (Entry::Empty, _) => true,
                    (_, None) => false,
                    (Entry::Read, _) => true,
                    (Entry::Write, Some(area)) => s.areas[area].writable,
                };
                s.call != Call::None || (0..PAGES).all(right)
            }),
            // Pages are written in ascending order: a child with a later page also has the earlier
            // ones.
            Property::always("a child is a picture of one moment", |_, s: &State| {
                let child = s.child.unwrap_or(0);
                let before = child.checked_ilog2().map_or(0, |last| (1 << last) - 1);
                s.call != Call::None || s.written & before & !child == 0
            }),
            // Every thread that can continue does so. Then all have ended: no thread waits for
            // ever.
            Property::eventually("all end", |_, s: &State| {
                s.fault == Fault::End && s.call == Call::None
            }),
            Property::sometimes("a fault is handled during a call", |_, s: &State| s.taken),
        ]
    }
}
