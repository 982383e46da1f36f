//! What each step does: of the thread that faults, and of the one that calls. The letters and numbers are those of `vma_lock.rs`.

use crate::{ACTS, Call, Entry, Fault, Found, Note, PAGES, Protocol, State, Then, What, Without};

impl Protocol {
    pub(crate) fn fault(&self, state: &mut State) {
        let without = |what| self.without == what;
        let Some(&page) = state.pages.first() else {
            state.fault = Fault::End;
            return;
        };
        let next = |state: &mut State| {
            state.pages.remove(0);
            Fault::Begin
        };
        state.fault = match state.fault {
            Fault::Begin if state.tables[page] == Entry::Write => {
                state.written |= 1 << page;
                next(state)
            }
            Fault::Begin => {
                state.reading = !without(Without::Section) && !without(Without::EnteringFirst);
                Fault::Recall
            }
            Fault::Recall => {
                let freed = state.freed;
                let serves = |note: &Note| {
                    note.found.range >> page & 1 == 1
                        && (note.freed == freed || without(Without::Comparing))
                };
                match state.remembered.filter(serves) {
                    Some(note) => Fault::HoldAgain { note },
                    None => Fault::Number { freed },
                }
            }
            Fault::HoldAgain { note } => {
                state.reading = !without(Without::Section);
                if !without(Without::Holding) {
                    state.touch(note.found).holders += 1;
                }
                Fault::AskSince { note }
            }
            Fault::AskSince { note } => {
                let found = note.found;
                let closed_in = state.touch(found).closed_in;
                if closed_in == note.closed_in || without(Without::AskingSince) {
                    Fault::Leave { found }
                } else {
                    let then = Then::Anew { freed: note.freed };
                    Fault::LetGo { found, then }
                }
            }
            Fault::Number { freed } => {
                state.reading = !without(Without::Section);
                let number = state.calls;
                Fault::Look { number, freed }
            }
            Fault::Look { number, freed } => match state.tree[page] {
                None => {
                    state.leave();
                    Fault::Wait
                }
                Some(area) => {
                    let (birth, range) = (state.areas[area].birth, state.range(area));
                    Fault::Hold {
                        number,
                        freed,
                        found: Found { area, birth, range },
                    }
                }
            },
            Fault::Hold {
                mut number,
                freed,
                found,
            } => {
                if without(Without::NumberFirst) {
                    number = state.calls;
                }
                if !without(Without::Holding) {
                    state.touch(found).holders += 1;
                }
                if without(Without::SectionUntilAsked) {
                    state.leave();
                }
                Fault::Ask {
                    number,
                    freed,
                    found,
                }
            }
            Fault::Ask {
                number,
                freed,
                found,
            } => {
                let closed_in = state.touch(found).closed_in;
                if closed_in == number && !without(Without::Asking) {
                    let then = Then::Wait;
                    Fault::LetGo { found, then }
                } else {
                    let note = Note {
                        found,
                        closed_in,
                        freed,
                    };
                    Fault::AskAgain { number, note }
                }
            }
            Fault::AskAgain { number, mut note } => {
                let found = note.found;
                if state.calls != number && !without(Without::AskingAgain) {
                    let then = Then::Anew { freed: note.freed };
                    Fault::LetGo { found, then }
                } else {
                    if without(Without::RememberingInTime) {
                        note.closed_in = state.touch(found).closed_in;
                    }
                    state.remembered = Some(note);
                    Fault::Leave { found }
                }
            }
            Fault::Leave { found } => {
                state.leave();
                Fault::Decide { found }
            }
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
                if !without(Without::Holding) {
                    let area = state.touch(found);
                    area.holders = area.holders.saturating_sub(1);
                }
                if !matches!(then, Then::Anew { .. }) {
                    state.leave();
                }
                match then {
                    // What may only be read raises a signal.
                    Then::Done
                        if state.tables[page] != Entry::Write
                            && !state.areas[found.area].writable =>
                    {
                        next(state)
                    }
                    Then::Done => Fault::Begin,
                    Then::Anew { freed } => Fault::Number { freed },
                    Then::Wait => Fault::Wait,
                }
            }
            Fault::Wait => match state.tree[page] {
                Some(area) if state.areas[area].writable => {
                    state.tables[page] = Entry::Write;
                    Fault::Begin
                }
                _ => next(state),
            },
            Fault::End => Fault::End,
        };
    }

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
                Call::Await { what, left, area }
            }
            Call::Await { what, left, .. } => Call::Close { what, left },
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
