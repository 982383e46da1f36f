//! The effect of each step: of the thread that faults, and of the one that calls. The letters and
//! numbers are those of `vma_lock.rs`.

use crate::{ACTS, Call, Entry, Fault, Found, PAGES, Protocol, State, Then, What, Without};

impl Protocol {
    /// Performs the next step of the thread that faults.
    pub(crate) fn fault(&self, state: &mut State) {
        let Some(&page) = state.pages.first() else {
            state.fault = Fault::End;
            return;
        };
        state.fault = match state.fault {
            Fault::Begin | Fault::HoldThere { .. } | Fault::AskThere { .. } => {
                self.fault_in_cache(state, page)
            }
            Fault::Number
            | Fault::Look { .. }
            | Fault::Hold { .. }
            | Fault::Ask { .. }
            | Fault::AskAgain { .. }
            | Fault::Leave { .. } => self.fault_in_tree(state, page),
            Fault::Say { .. }
            | Fault::Write { .. }
            | Fault::AskToNote { .. }
            | Fault::Note { .. } => self.fault_fills_cache(state),
            Fault::Decide { .. } | Fault::Map { .. } | Fault::LetGo { .. } | Fault::Wait => {
                self.fault_acts(state, page)
            }
            Fault::End => Fault::End,
        };
    }

    /// The steps that find an area in the VMA cache.
    fn fault_in_cache(&self, state: &mut State, page: usize) -> Fault {
        let without = |what| self.without == what;
        match state.fault {
            Fault::Begin if state.tables[page] == Entry::Write => {
                state.written |= 1 << page;
                next_page(state)
            }
            Fault::Begin => match state.remembered.filter(|found| found.has(page)) {
                Some(found) => Fault::HoldThere { found },
                None => Fault::Number,
            },
            Fault::HoldThere { found } => {
                if !without(Without::HoldingThere) {
                    state.there += 1;
                }
                if state.writer {
                    let then = Then::Anew;
                    Fault::LetGo { found, then }
                } else {
                    Fault::AskThere { found }
                }
            }
            Fault::AskThere { found } => {
                let now = state.remembered.filter(|found| found.has(page));
                match now.or(without(Without::AskingThere).then_some(found)) {
                    Some(found) => Fault::Decide { found },
                    None => {
                        let then = Then::Anew;
                        Fault::LetGo { found, then }
                    }
                }
            }
            other => other,
        }
    }

    /// The steps that find an area in the tree, and hold it.
    fn fault_in_tree(&self, state: &mut State, page: usize) -> Fault {
        let without = |what| self.without == what;
        match state.fault {
            Fault::Number => {
                state.reading = !without(Without::Section);
                let number = state.calls;
                Fault::Look { number }
            }
            Fault::Look { number } => match state.tree[page] {
                None => {
                    state.leave();
                    Fault::Wait
                }
                Some(area) => {
                    let (birth, range) = (state.areas[area].birth, state.range(area));
                    let there = false;
                    let found = Found {
                        area,
                        birth,
                        range,
                        there,
                    };
                    Fault::Hold { number, found }
                }
            },
            Fault::Hold { mut number, found } => {
                if without(Without::NumberFirst) {
                    number = state.calls;
                }
                if !without(Without::Holding) {
                    state.touch(found).holders += 1;
                }
                if without(Without::SectionUntilAsked) {
                    state.leave();
                }
                Fault::Ask { number, found }
            }
            Fault::Ask { number, found } => {
                let closed_in = state.touch(found).closed_in;
                if closed_in == number && !without(Without::Asking) {
                    let then = Then::Wait;
                    Fault::LetGo { found, then }
                } else {
                    Fault::AskAgain { number, found }
                }
            }
            Fault::AskAgain { number, found } => {
                if state.calls != number && !without(Without::AskingAgain) {
                    let then = Then::Anew;
                    Fault::LetGo { found, then }
                } else {
                    Fault::Leave { found }
                }
            }
            Fault::Leave { found } => {
                state.leave();
                Fault::Say { found }
            }
            other => other,
        }
    }

    /// The steps that put the area into the VMA cache.
    fn fault_fills_cache(&self, state: &mut State) -> Fault {
        let without = |what| self.without == what;
        match state.fault {
            Fault::Say { found } => {
                if !without(Without::Saying) {
                    state.touch(found).noted = true;
                }
                Fault::Write { found }
            }
            Fault::Write { found } => {
                if state.there == 0 && !state.writer {
                    state.writer = true;
                    Fault::AskToNote { found }
                } else {
                    Fault::Decide { found }
                }
            }
            Fault::AskToNote { found } => {
                let closed = state.touch(found).closed_in == state.calls;
                let open = !closed || without(Without::AskingToNote);
                Fault::Note { found, open }
            }
            Fault::Note { found, open } => {
                if open {
                    state.note(found);
                }
                state.writer = false;
                Fault::Decide { found }
            }
            other => other,
        }
    }

    /// The steps that decide, map the page, and let go of the area.
    fn fault_acts(&self, state: &mut State, page: usize) -> Fault {
        let without = |what| self.without == what;
        match state.fault {
            Fault::Decide { found } => {
                let is = state.is(found);
                state.expect(is, ACTS);
                let entry = match state.areas[found.area].writable {
                    true => Entry::Write,
                    false => Entry::Read,
                };
                Fault::Map { found, entry }
            }
            Fault::Map { found, entry } => {
                let is = state.is(found);
                state.expect(is, ACTS);
                state.tables[page] = entry;
                state.taken |= state.call != Call::None;
                let then = Then::Done;
                Fault::LetGo { found, then }
            }
            Fault::LetGo { found, then } => {
                if found.there {
                    state.there = state.there.saturating_sub(1);
                } else if !without(Without::Holding) {
                    let area = state.touch(found);
                    area.holders = area.holders.saturating_sub(1);
                }
                state.leave();
                match then {
                    // A write to a read-only page raises a signal.
                    Then::Done
                        if state.tables[page] != Entry::Write
                            && !state.areas[found.area].writable =>
                    {
                        next_page(state)
                    }
                    Then::Done => Fault::Begin,
                    Then::Anew => Fault::Number,
                    Then::Wait => Fault::Wait,
                }
            }
            Fault::Wait => match state.tree[page] {
                Some(area) if state.areas[area].writable => {
                    state.tables[page] = Entry::Write;
                    Fault::Begin
                }
                _ => next_page(state),
            },
            other => other,
        }
    }

    /// Performs the next step of the thread that calls.
    pub(crate) fn call(&self, state: &mut State) {
        let without = |what| self.without == what;
        state.call = match state.call {
            Call::Close { what, left: 0 } => {
                if without(Without::EndingLast) {
                    state.calls += 1;
                }
                Call::Change { what }
            }
            Call::Close { what, left } => {
                let area = left.trailing_zeros() as usize;
                if !without(Without::Closing) {
                    state.areas[area].closed_in = state.calls;
                }
                let left = left & !(1 << area);
                Call::LookWhetherNoted { what, left, area }
            }
            Call::LookWhetherNoted { what, left, area } => match state.areas[area].noted {
                true => Call::Clear { what, left, area },
                false => Call::Await { what, left, area },
            },
            Call::Clear { what, left, area } => match state.remembered {
                Some(found) if found.area == area && !without(Without::Clearing) => {
                    state.remembered = None;
                    state.writer = true;
                    Call::AwaitThere { what, left, area }
                }
                _ => Call::Await { what, left, area },
            },
            Call::AwaitThere { what, left, area } => {
                state.writer = false;
                Call::Await { what, left, area }
            }
            Call::Await { what, left, area } => {
                state.areas[area].noted = false;
                Call::Close { what, left }
            }
            Call::Change { what } => {
                state.gone |= state.change(what, self.without);
                if what == What::Fork {
                    state.child = None;
                }
                Call::Tables { what, page: 0 }
            }
            Call::Tables { what, page } => {
                state.change_table(what, page);
                match page + 1 {
                    PAGES => Call::End,
                    page => Call::Tables { what, page },
                }
            }
            Call::End => {
                if !without(Without::EndingLast) {
                    state.calls += 1;
                }
                Call::None
            }
            Call::None => Call::None,
        };
    }
}

/// Goes on to the next page.
fn next_page(state: &mut State) -> Fault {
    state.pages.remove(0);
    Fault::Begin
}
