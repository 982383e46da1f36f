//! Compares the engine's map with the kernel's, and starts a new engine where they differ.

use std::io;
use std::ops::RangeInclusive;

use samara_conformance::checker::Place;
use samara_conformance::compare::Difference;
use samara_conformance::seed::Seed;
use samara_conformance::tally::{Finding, FindingKind};
use samara_conformance::undecided::Unknown;
use samara_linux::Tid;
use samara_mm::PAGE_SIZE;

use super::{PARTED, Space, Who, growth};
use crate::record::Reason;
use crate::trace::exec::{self, Predicted};
use crate::trace::seeding::{self, Asked, Moment};
use crate::trace::session::Session;

impl Space {
    /// Compares the whole map, if anything has happened since the last time.
    pub(crate) fn compare_changed(&mut self, who: Who, session: &mut Session, when: &str) {
        if self.calls_since_compare > 0 && !self.broken {
            let interrupted = std::mem::take(&mut self.interrupted);
            self.catch_up(who, session);
            if interrupted {
                self.resync(who, session, "after a thread was killed within a call");
            } else {
                self.compare_with(who, session, Some(when.to_owned()));
            }
        }
    }

    /// Compares the whole map. `cause` names the last event.
    pub(super) fn compare_with(&mut self, who: Who, session: &mut Session, cause: Option<String>) {
        if self.broken {
            return;
        }
        if self.maps.read(&mut session.map).is_err() {
            session.tally.ended_unseen += 1;
            return;
        }
        self.compare_found(who, session, cause);
    }

    /// Compares with a map that has been read.
    pub(super) fn compare_found(&mut self, who: Who, session: &mut Session, cause: Option<String>) {
        if session.map.areas().is_empty() {
            // The process was killed at this very moment, and has no map any more.
            session.tally.ended_unseen += 1;
            return;
        }
        self.compare_read(who, session, cause);
    }

    /// Compares with a map that has been read and is not empty.
    pub(super) fn compare_read(&mut self, who: Who, session: &mut Session, cause: Option<String>) {
        self.calls_since_compare = 0;
        self.calls_since_whole = 0;
        session.tally.maps += 1;
        session.tally.areas_compared += session.map.areas().len() as u64;
        let mut compared =
            self.checker
                .compare(&session.map, &mut session.grown, &mut session.tally.renamed);
        // Other threads may have closed a userfaultfd during the call.
        if compared.is_err()
            && self.follow_watchers(who, session)
            && self.maps.read(&mut session.map).is_ok()
        {
            compared =
                self.checker
                    .compare(&session.map, &mut session.grown, &mut session.tally.renamed);
        }
        self.note_grown(session);
        let open = self.is_advice_open();
        match compared {
            Err(_) => {
                self.doubt_ends(who, session);
                self.doubt_growth(session);
                self.doubt_forced((0, u64::MAX), session);
                if open {
                    self.doubt_advice(session);
                }
            }
            Ok(()) => self.advice_decided(),
        }
        if let Some(record) = &mut session.record {
            record.map(self.number, &session.map);
        }
        match compared {
            Err(difference) => self.report_difference(&difference, open, who, session, cause),
            Ok(()) => self.check_engine(who, session, cause),
        }
    }

    /// Counts a difference of the maps as undecided or as a finding, and starts the engine again.
    /// With `open`, advice may or may not have been given.
    fn report_difference(
        &mut self,
        difference: &Difference,
        open: bool,
        who: Who,
        session: &mut Session,
        cause: Option<String>,
    ) {
        let undecided = match open {
            true => Some(Unknown::Advice),
            false => self.checker.undecided(&session.map),
        };
        if let Some(unknown) = undecided {
            session.tally.undecided_maps += 1;
            session.tally.note_undecided(unknown);
            return self.resync(who, session, "after an undecided map");
        }
        let place = Place {
            call_number: session.call_number,
            process: who.process,
        };
        let cause = cause.unwrap_or_else(|| "the start of the program".to_owned());
        let finding = self
            .checker
            .map_finding(&session.map, difference, place, cause);
        session.tally.find(FindingKind::Map, || finding);
        self.resync(who, session, PARTED);
    }

    /// Checks every invariant of the engine, if the session asks for it.
    fn check_engine(&self, who: Who, session: &mut Session, cause: Option<String>) {
        if session.check
            && let Err(broken) = self.checker.engine().check()
        {
            let call_number = session.call_number;
            session.tally.find(FindingKind::Invariant, || Finding {
                kind: FindingKind::Invariant,
                call_number,
                process: who.process,
                call: cause.unwrap_or_default(),
                detail: format!("{broken}\n"),
            });
        }
    }

    /// Handles a wrong answer. If the maps agree nevertheless (both failed, for example), the
    /// engine continues, because a new engine would lose its knowledge of the past.
    pub(super) fn part(&mut self, who: Who, session: &mut Session, reason: &'static str) {
        let same = self.maps.read(&mut session.map).is_ok()
            && self
                .checker
                .compare(&session.map, &mut session.grown, &mut session.tally.renamed)
                .is_ok();
        self.note_grown(session);
        if !same {
            self.resync(who, session, reason);
        }
    }

    /// Starts the engine again from the kernel's map.
    pub(super) fn resync(&mut self, who: Who, session: &mut Session, reason: &'static str) {
        *session.tally.resyncs.entry(reason).or_default() += 1;
        self.interrupted = false;
        self.stale = None;
        self.calls_since_compare = 0;
        let mut layout = self.checker.engine().layout();
        match self.maps.read(&mut session.map) {
            Ok(()) if !session.map.areas().is_empty() => {}
            Err(error) if error.raw_os_error() != Some(libc::ESRCH) => {
                return self.give_up(&error, session);
            }
            // The process was killed at this very moment.
            _ => {
                session.tally.ended_unseen += 1;
                self.broken = true;
                return;
            }
        }
        // The kernel has completed the call if the heap ends there, or if its end differs from the
        // engine's.
        let end = seeding::heap_end(&session.map, layout.start_brk);
        if let Some(at) = self.ends_at.take()
            && at.checked_next_multiple_of(PAGE_SIZE) == end
        {
            layout.brk = at;
        }
        let shows_end = reason == PARTED;
        let seed = seeding::seed(
            who.tid,
            &Asked::of(who.tid),
            &session.machine,
            &session.map,
            &mut self.pagemap,
            Moment::Again { layout, shows_end },
            &mut session.files.descriptions,
        );
        let built = seed.and_then(|mut seed| {
            // The limit may have been read again.
            seed.config.max_map_count = self.checker.engine().config().max_map_count;
            if let Some(record) = &mut session.record {
                record.seed(self.number, Reason::Resync, &seed);
            }
            self.limits_of = who.process;
            seed.build()
                .and_then(|engine| self.checker.start_anew(engine, &mut session.tally))
                .map(|()| seed)
                .map_err(|errno| io::Error::other(format!("the engine refuses the map: {errno}")))
        });
        match built {
            Ok(seed) => {
                self.growing |= growth::grows_beside_stack(self.checker.engine());
                self.doubt_owners(&seed, session);
            }
            Err(error) => self.give_up(&error, session),
        }
    }

    /// Notes that the `anon_vma`s of private areas are not known. The state of a process that came
    /// by an unfollowed fork does not show which areas have one, and which of these were the
    /// parent's. Those do not merge with new neighbours.
    pub(super) fn doubt_owners(&mut self, seed: &Seed, session: &mut Session) {
        if !self.forked {
            return;
        }
        let private = seed.areas.iter().filter(|area| !area.shared);
        for area in private.filter(|area| area.name.is_none()) {
            self.checker.doubt(area.start, area.end);
            if let Some(record) = &mut session.record {
                record.shown_late(self.number, area.start, area.end);
            }
        }
    }

    /// Stops comparing this address space.
    pub(crate) fn give_up(&mut self, error: &io::Error, session: &mut Session) {
        let why = format!("process no longer followed: {error}");
        samara_conformance::tally::count(&mut session.tally.not_followed, &why);
        self.broken = true;
    }
}

/// Compares the map that exec made with the engine's prediction from the same files. Returns the
/// range of the base of placement, if the map does not show the base.
pub(super) fn foretell(
    tid: Tid,
    asked: &Asked,
    seed: &mut Seed,
    session: &mut Session,
) -> Option<RangeInclusive<u64>> {
    match exec::predict(tid, asked, &session.machine.exec, seed, &session.map) {
        Predicted::Agrees(layout, hidden) => {
            session.tally.execs_predicted += 1;
            seed.layout = layout;
            return hidden;
        }
        Predicted::Differs(detail) => {
            session.tally.execs_predicted += 1;
            let call_number = session.call_number;
            session.tally.find(FindingKind::Map, || Finding {
                kind: FindingKind::Map,
                call_number,
                process: tid,
                call: "execve, predicted from the files".to_owned(),
                detail,
            });
        }
        Predicted::Unknown => {}
    }
    None
}
