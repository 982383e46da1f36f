//! How faults do without the lock of the address space, as a state machine: to be read, and tried in every order of steps.
//!
//! `crates/mm/src/space/vma_lock.rs` has the protocol for one area, and `samara-mm-loom` its atomics. Here is what it is for: a map of areas whose memory is
//! used again, tables that calls change page by page, and a fork. Each of [`Fault`]'s and [`Call`]'s steps is one action of [`Protocol`]; the letters and
//! numbers are those of `vma_lock.rs`, and P, Q and the small ones those of `vma_cache.rs`. All areas have one place there, and one thread faults. Memory is sequentially consistent.
//!
//! What holds is in [`Protocol::properties`]. The tests take out each step in turn ([`Without`]), and see which of it holds no more.

#![cfg(test)]

mod steps;
mod tests;

use stateright::{Model, Property};

const PAGES: usize = 4;
/// Places in memory for areas: two are used at first.
const AREAS: usize = 3;
/// A set of pages, a bit each.
type Set = u8;

/// An area's place in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
struct Area {
    /// Which area this is: counts up when the memory is used for another. 0: it is free.
    birth: u8,
    writable: bool,
    holders: u8,
    noted: bool,
    closed_in: u8,
}

/// What an entry of the tables allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Entry {
    Empty,
    Read,
    Write,
}

/// What a fault has found in the tree, or what is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Found {
    area: usize,
    birth: u8,
    range: Set,
    /// It is remembered: faults that hold it are counted there.
    there: bool,
}

impl Found {
    fn has(&self, page: usize) -> bool {
        self.range >> page & 1 == 1
    }
}

/// A thread that writes to pages, one after the other. A write to a page that is writable needs nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fault {
    /// Next: the write itself, or a first look at what is remembered.
    Begin,
    /// Next: a, count as a holder of what is remembered.
    HoldThere { found: Found },
    /// Next: b, it must still be remembered.
    AskThere { found: Found },
    /// Next: enter an RCU section; 1, the number of the call under way.
    Number,
    /// Next: 2, find the area.
    Look { number: u8 },
    /// Next: 3, count as a holder.
    Hold { number: u8, found: Found },
    /// Next: 4, the lock must not be closed in this call.
    Ask { number: u8, found: Found },
    /// Next: 5, the call must still be the same; else all begins anew.
    AskAgain { number: u8, found: Found },
    /// Next: 6, leave the RCU section.
    Leave { found: Found },
    /// Next: u, the lock is noted.
    Say { found: Found },
    /// Next: v, write what is remembered, if nobody is there.
    Write { found: Found },
    /// Next: w, is the lock open still?
    AskToNote { found: Found },
    /// Next: x, what is held is remembered, if the lock was open.
    Note { found: Found, open: bool },
    /// Next: read what the area allows, or see that it needs the lock of the address space.
    Decide { found: Found },
    /// Next: set the entry.
    Map { found: Found, entry: Entry },
    /// Next: let go, and then go on with this.
    LetGo { found: Found, then: Then },
    /// Waits for the lock of the address space, and does all at once with it.
    Wait,
    /// All has been written.
    End,
}

/// How a fault goes on that has let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Then {
    /// The page is there.
    Done,
    /// At 1: what was remembered no longer is, or a call has ended since.
    Anew,
    /// It waits.
    Wait,
}

/// A call or a fork, under the lock of the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Call {
    /// No call is under way.
    None,
    /// Next: A for one area of this set of places, and what follows until B.
    Close { what: What, left: Set },
    /// Next: is the lock noted?
    LookWhetherNoted { what: What, left: Set, area: usize },
    /// P: waits until nobody writes what is remembered, and takes that away if it is this area.
    Clear { what: What, left: Set, area: usize },
    /// Q: waits until nobody holds it.
    AwaitThere { what: What, left: Set, area: usize },
    /// B: waits until nobody holds the area.
    Await { what: What, left: Set, area: usize },
    /// Next: C, the tree.
    Change { what: What },
    /// C: the tables, page by page.
    Tables { what: What, page: usize },
    /// Next: D.
    End,
}

/// At first an area that can be written has pages 0 and 1, one that cannot has page 2, and page 3 is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    /// `munmap` of page 1: its area becomes shorter.
    Unmap,
    /// `mprotect` of page 1: a new area is laid down.
    Split,
    /// `mprotect` of page 2: it joins the area below.
    Join,
    /// `mremap` of page 2 to page 3: a new area is laid down, the old one goes.
    Move,
    /// `mmap` of page 3.
    Map,
    /// The child gets what each page holds.
    Fork,
}

/// A step that is left out, or taken out of its turn.
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
    /// The areas that a call joins are not closed.
    ClosingNeighbours,
    /// Areas are laid down with an open lock.
    ClosingNew,
    /// C frees areas at once.
    Grace,
    /// D comes before C.
    EndingLast,
    /// A fork closes nothing.
    ClosingAtFork,
    /// A fault waits for the address space while it holds an area.
    LettingGo,
    /// a counts nobody.
    HoldingThere,
    /// b.
    AskingThere,
    /// u.
    Saying,
    /// w.
    AskingToNote,
    /// P waits for no writer.
    AwaitingWriter,
    /// P takes nothing away.
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
    /// Areas that have left the tree.
    gone: Set,
    /// Those of them that are freed when the reader has left, if it had entered before.
    dying: Set,
    awaited: bool,
    remembered: Option<Found>,
    /// Faults that hold what is remembered, or was.
    there: u8,
    /// Whether that is being written.
    writer: bool,
    written: Set,
    /// What the last fork copied.
    child: Option<Set>,
    calls: u8,
    call: Call,
    calls_left: u8,
    fault: Fault,
    /// What is still to be written.
    pages: Vec<usize>,
    /// Whether the thread is in an RCU section.
    reading: bool,
    /// Whether a fault was taken beside a call.
    taken: bool,
    broken: Option<&'static str>,
}

impl State {
    /// The pages of an area.
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

    /// The fault's area: what was found must not have been freed, however little is done with it.
    fn touch(&mut self, found: Found) -> &mut Area {
        let birth = self.areas[found.area].birth;
        self.expect(birth == found.birth, FREED);
        &mut self.areas[found.area]
    }

    /// The areas that a call changes, and those that they join.
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

    /// An area in the place of what was there.
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

    /// x.
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

    /// C: one store in the tree. The areas that have left it.
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

    /// C: one page of the tables.
    fn change_table(&mut self, what: What, page: usize) {
        match (what, page) {
            (What::Unmap, 1) => self.tables[1] = Entry::Empty,
            // A page that allows too little takes another fault.
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

/// Writes to pages, in order, beside so many calls of these kinds.
#[derive(Clone, Debug)]
struct Protocol {
    writes: Vec<Vec<usize>>,
    calls: u8,
    kinds: Vec<What>,
    /// Another thread holds the area of page 2 and never lets go.
    held: bool,
    without: Without,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Of the thread that writes.
    Fault,
    /// It needs the lock of the address space, as when the area has no owner of private pages.
    NeedsMore,
    /// Of the thread that calls.
    Call,
    Begin(What),
    /// Areas that have left the tree are to be freed: those readers are waited for that have entered.
    Forget,
    /// They have left.
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
            // A fault that holds an area has looked at it, and the call was before or comes after.
            Property::always("tables allow what the map allows", |_, s: &State| {
                let right = |page: usize| match (s.tables[page], s.tree[page]) {
                    (Entry::Empty, _) => true,
                    (_, None) => false,
                    (Entry::Read, _) => true,
                    (Entry::Write, Some(area)) => s.areas[area].writable,
                };
                s.call != Call::None || (0..PAGES).all(right)
            }),
            // Pages are written in ascending order: a child that has a later one has those before.
            Property::always("a child is a picture of one moment", |_, s: &State| {
                let child = s.child.unwrap_or(0);
                let before = child.checked_ilog2().map_or(0, |last| (1 << last) - 1);
                s.call != Call::None || s.written & before & !child == 0
            }),
            // Whoever can go on does so, and then all have ended: nobody waits for ever.
            Property::eventually("all end", |_, s: &State| {
                s.fault == Fault::End && s.call == Call::None
            }),
            Property::sometimes("a fault is taken beside a call", |_, s: &State| s.taken),
        ]
    }
}
