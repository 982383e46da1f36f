//! Threads that stand still while another's call takes pages away.
//!
//! What they write there between the look at its entry and the kernel's part of it would leave no trace but in the area, where nobody sees it. Only
//! threads that run are stopped: who sleeps in a call writes nothing, and some calls would return early.

use std::collections::VecDeque;
use std::io;

use samara_mm::Call;

use super::{State, Tracer};
use crate::trace::proc;
use crate::trace::ptrace::{self, Pace, Stop, Tid};

/// Who stands still, and for whom.
#[derive(Debug, Default)]
pub(super) struct Hold {
    /// The thread whose call is under way, and its address space.
    by: Option<(Tid, usize)>,
    /// Stopped for it, to be let run when it has returned.
    still: Vec<Tid>,
    /// What others have stopped for by themselves: answered later.
    stops: VecDeque<(Tid, Stop)>,
}

impl Tracer<'_> {
    /// The next stop to be answered.
    pub(super) fn next_stop(&mut self) -> io::Result<Option<(Tid, Stop)>> {
        let Some((by, index)) = self.hold.by else {
            return match self.hold.stops.pop_front() {
                Some(stop) => Ok(Some(stop)),
                None => ptrace::wait(-1, false),
            };
        };
        loop {
            let stop = ptrace::wait(-1, false)?;
            let beside = |tid: &Tid| self.tasks.get(tid).and_then(|task| task.space) == Some(index);
            match stop {
                // Answered now, it would run.
                Some((tid, _)) if tid != by && beside(&tid) => self.hold.stops.extend(stop),
                stop => return Ok(stop),
            }
        }
    }

    /// Stops the threads that run on address space `index` beside `tid`, until its call returns. False if that is not possible.
    pub(super) fn hold_others(&mut self, tid: Tid, index: usize) -> bool {
        if self.hold.by.is_some() || self.pace == Pace::Hold {
            return false;
        }
        self.hold.by = Some((tid, index));
        let beside = |(other, task): (&Tid, &super::Task)| {
            let runs = *other != tid
                && task.space == Some(index)
                && matches!(task.state, State::Running)
                && proc::is_running(*other);
            runs.then_some(*other)
        };
        let others: Vec<Tid> = self.tasks.iter().filter_map(beside).collect();
        for &other in &others {
            // One that is gone reports its end.
            let _ = ptrace::interrupt(other);
        }
        for other in others {
            loop {
                match ptrace::wait(other, false) {
                    Ok(Some((_, Stop::Attached))) => self.hold.still.push(other),
                    Ok(Some(stop)) => self.hold.stops.push_back(stop),
                    Ok(None) => continue,
                    Err(_) => {}
                }
                break;
            }
        }
        true
    }

    /// Looks at the pages once more, which nobody changes now.
    pub(super) fn look_beside_held(&mut self, call: &Call, index: usize) {
        if let Some(space) = &mut self.spaces[index] {
            space.look_beside_held(call, self.session);
        }
    }

    /// Lets those run that stood still for `tid`.
    pub(super) fn let_others_run(&mut self, tid: Tid) {
        if self.hold.by.is_none_or(|(by, _)| by != tid) {
            return;
        }
        self.hold.by = None;
        for other in std::mem::take(&mut self.hold.still) {
            self.resume(other, 0);
        }
    }
}
