//! The position of a `struct ma_state`, simulated on the list: each move from each status, as in
//! the documentation and in the table of the library's module `cursor`.

use samara::maple_tree::{MaState, Status};

use super::{MAX, Model, Slot};

/// Index, last and status, and `true` if the tree has nodes: trees without nodes have statuses of
/// their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) index: usize,
    pub(super) last: usize,
    pub(super) status: Status,
    nodes: bool,
}

impl Position {
    pub(super) fn of(mas: &MaState, nodes: bool) -> Self {
        Self {
            index: mas.index,
            last: mas.last,
            status: mas.status,
            nodes,
        }
    }

    /// Moves to the slot at an index.
    pub(super) fn go(&mut self, model: &Model, index: usize) -> Slot {
        let slot = model.at(index);
        self.index = slot.0;
        self.last = slot.1;
        self.status = match slot {
            _ if self.nodes => Status::ACTIVE,
            (0, 0, _) => Status::ROOT,
            _ => Status::NONE,
        };
        slot
    }

    fn end(&mut self, status: Status) -> usize {
        self.status = status;
        0
    }

    fn onwards(&mut self, model: &Model, max: usize, holes: bool) -> usize {
        let mut at = model.at(self.last);
        loop {
            if !self.nodes {
                self.index = usize::from(model.at(0).2 != 0);
                self.last = MAX;
                return self.end(Status::NONE);
            }
            if at.1 >= max {
                return self.end(Status::OVERFLOW);
            }
            at = self.go(model, at.1 + 1);
            if holes || at.2 != 0 {
                return at.2;
            }
        }
    }

    fn backwards(&mut self, model: &Model, min: usize, holes: bool) -> usize {
        let mut at = model.at(self.index);
        loop {
            if !self.nodes && at.0 == 0 {
                self.go(model, 0);
                return self.end(Status::NONE);
            }
            if at.0 <= min {
                return self.end(Status::UNDERFLOW);
            }
            at = self.go(model, at.0 - 1);
            if holes || at.2 != 0 {
                return at.2;
            }
        }
    }

    pub(super) fn next(&mut self, model: &Model, max: usize, holes: bool) -> usize {
        if self.status == Status::ERROR {
            return 0;
        }
        if self.last >= max {
            return self.end(Status::OVERFLOW);
        }
        match self.status {
            Status::ACTIVE | Status::OVERFLOW | Status::ROOT => {}
            // Before its slot, which is the next one.
            Status::UNDERFLOW => {
                let entry = self.go(model, self.index).2;
                if entry != 0 {
                    return entry;
                }
            }
            _ => {
                self.go(model, self.index);
            }
        }
        self.onwards(model, max, holes)
    }

    pub(super) fn prev(&mut self, model: &Model, min: usize, holes: bool) -> usize {
        if self.status == Status::ERROR {
            return 0;
        }
        if self.index <= min {
            return self.end(Status::UNDERFLOW);
        }
        match self.status {
            Status::ACTIVE | Status::UNDERFLOW | Status::ROOT => {}
            Status::OVERFLOW => {
                let entry = self.go(model, self.index).2;
                if entry != 0 {
                    return entry;
                }
            }
            _ => {
                self.go(model, self.index);
            }
        }
        self.backwards(model, min, holes)
    }

    pub(super) fn find(&mut self, model: &Model, max: usize, holes: bool) -> usize {
        let goes_on = matches!(self.status, Status::ACTIVE | Status::OVERFLOW);
        match self.status {
            Status::ERROR => return 0,
            Status::ROOT => {
                self.index = 1;
                self.last = MAX;
                return self.end(Status::NONE);
            }
            Status::UNDERFLOW if self.index > max => return self.end(Status::OVERFLOW),
            Status::UNDERFLOW => {}
            Status::START if self.index > max => return 0,
            Status::START => {}
            _ if self.last >= max => return 0,
            Status::PAUSE => self.index = self.last + 1,
            Status::NONE => self.index = self.last,
            _ => {}
        }
        if !goes_on {
            let entry = self.go(model, self.index).2;
            if entry != 0 {
                return entry;
            }
        }
        let entry = self.onwards(model, max, holes);
        if !holes && self.status == Status::OVERFLOW {
            self.status = Status::ACTIVE;
        }
        entry
    }

    pub(super) fn find_rev(&mut self, model: &Model, min: usize, holes: bool) -> usize {
        let goes_on = matches!(self.status, Status::ACTIVE | Status::UNDERFLOW);
        match self.status {
            Status::ERROR => return 0,
            Status::ROOT => {
                (self.index, self.last) = (0, 0);
                return self.end(Status::NONE);
            }
            Status::OVERFLOW if self.last < min => return self.end(Status::UNDERFLOW),
            Status::OVERFLOW => {}
            Status::START if self.index < min => return 0,
            Status::START => {}
            Status::PAUSE if self.index <= min => return self.end(Status::UNDERFLOW),
            _ if self.index <= min => return 0,
            Status::PAUSE => self.index -= 1,
            _ => {}
        }
        if !goes_on {
            let entry = self.go(model, self.index).2;
            if entry != 0 {
                return entry;
            }
        }
        self.backwards(model, min, holes)
    }
}
