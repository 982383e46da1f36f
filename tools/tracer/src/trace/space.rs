//! A traced address space: the engine compared with the kernel's, and the order of calls on it.
//!
//! All threads that share an address space share one of these. Calls on it happen one at a time:
//! while one is under way (`holder`), other threads that stop at the entry of theirs wait in
//! `waiting`, stopped. So the engine performs calls in the kernel's own order.

mod bases;
mod compare;
mod ends;
mod growth;
mod judge;
mod objects;
mod part;
mod restarted;
mod rings;
mod tables;
mod unknown;
mod uring;
mod watched;

use std::collections::VecDeque;
use std::io;

use samara_conformance::checker::Checker;
use samara_conformance::replica::replaced_by;
use samara_linux::Tid;
use samara_linux::maps::MapsFile;
use samara_linux::pagemap::Pagemap;
use samara_mm::{AddressSpace, Call, Config, Limits, Mdwe, VmFlags};

use crate::record::Reason;
use crate::vm_flags::vm_flags;

use self::compare::foretell;
pub(crate) use self::uring::Registering;
use super::decode::{Bounds, NodeMask};
use super::entry::Entry;
use super::samples::Samples;
use super::seeding::{self, Asked, Moment, Standing};
use super::session::Session;
use super::session::Verify;

const MAP_GROWSDOWN: u64 = 0x100;
const MAP_FIXED: u64 = 0x10;

/// After what an address space is compared for the last time.
pub(crate) const BEFORE_EXIT: &str = "the calls before exit";
/// Why an engine starts anew that has answered otherwise than the kernel.
const PARTED: &str = "after a disagreement";

/// No process has this number.
const NOBODY: Tid = 0;

/// The acting thread, by which `/proc` is asked (the first thread of a process may have ended
/// before the others), and its process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Who {
    pub(crate) tid: Tid,
    pub(crate) process: Tid,
}

#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) number: u32,
    checker: Checker,
    maps: MapsFile,
    pagemap: Pagemap,
    /// Threads that run in it.
    pub(crate) users: u32,
    /// The thread whose call is under way.
    pub(crate) holder: Option<Tid>,
    pub(crate) waiting: VecDeque<(Tid, Entry)>,
    samples: Samples,
    /// Areas besides the stack grow by faults, or have.
    growing: bool,
    /// Came by a fork: descriptors of a userfaultfd may be the parent's, and so may owners of areas.
    forked: bool,
    /// The process whose limits the engine has.
    limits_of: Tid,
    calls_since_compare: u64,
    /// With [parts](part) of the map compared in between.
    calls_since_whole: u64,
    /// A thread was killed within a call: whether the kernel completed it, only its map tells.
    interrupted: bool,
    /// The end of the heap if the call was one that sets it.
    ends_at: Option<u64>,
    /// Between the return of a call and its end here: another thread wrote to a page.
    ambiguous: bool,
    /// No other thread runs until the call under way has returned.
    others_held: bool,
    /// Between the return of a call and its end here: the starts to which faults of other threads
    /// have grown areas.
    grown_meanwhile: Vec<u64>,
    /// The addresses at which accesses found nothing while the call is under way.
    nothing_at: Vec<u64>,
    /// The address of the set of nodes that the call under way names, and its bits.
    pub(crate) nodes_at: Option<NodeMask>,
    /// Others could write what the call under way points to.
    racing: bool,
    /// The last such set.
    nodes_before: u64,
    /// Between the return of a call and its end here: what another thread may have made of it.
    nodes_meanwhile: Vec<u64>,
    /// The addresses of the rings of `io_setup`, and their lengths in bytes.
    rings: Vec<(u64, u64)>,
    /// Those of `io_uring`.
    urings: uring::Rings,
    /// The bases of placement for calls of the other table, once they are known.
    own_bases: Option<bases::Hidden>,
    other_table: tables::OtherTable,
    /// A userfaultfd watches areas.
    watched: bool,
    /// The engine must be started anew at the next stop.
    stale: Option<&'static str>,
    /// The address space belongs to the program that was started, not to a child of it.
    pub(crate) main: bool,
    /// The kernel no longer shows it, or the engine could not be built: nothing is compared.
    broken: bool,
}

impl Space {
    /// The address space of a process stopped right after exec, or found running (`Reason::Adopted`).
    pub(crate) fn begin(
        tid: Tid,
        asked: &Asked,
        reason: Reason,
        session: &mut Session,
    ) -> io::Result<Self> {
        let mut maps = MapsFile::open(tid)?;
        let mut pagemap = Pagemap::open(tid)?;
        maps.read(&mut session.map)?;
        let moment = match reason {
            Reason::Exec => Moment::Exec,
            Reason::Resync | Reason::Adopted => Moment::Found,
        };
        let mut seed = seeding::seed(
            tid,
            asked,
            &session.machine,
            &session.map,
            &mut pagemap,
            moment,
            &mut session.files.descriptions,
        )?;
        let hidden = match reason {
            Reason::Exec => foretell(tid, asked, &mut seed, session).map(bases::Hidden::within),
            Reason::Resync | Reason::Adopted => bases::Hidden::of_a_running(asked, &seed),
        };
        let engine = seed
            .build()
            .map_err(|errno| io::Error::other(format!("the engine refuses the map: {errno}")))?;
        let number = session.new_space_number();
        if let Some(record) = &mut session.record {
            record.seed(number, reason, &seed);
        }
        let growing = growth::grows_beside_stack(&engine);
        let mut space = Self {
            number,
            checker: match reason {
                Reason::Exec => Checker::new(engine, true),
                Reason::Resync | Reason::Adopted => Checker::found(engine, true),
            },
            maps,
            pagemap,
            users: 0,
            holder: None,
            waiting: VecDeque::new(),
            samples: Samples::default(),
            growing,
            // Possibly: it was not seen.
            forked: reason == Reason::Adopted,
            limits_of: tid,
            calls_since_compare: 0,
            calls_since_whole: 0,
            interrupted: false,
            ends_at: None,
            ambiguous: false,
            others_held: false,
            grown_meanwhile: Vec::new(),
            nothing_at: Vec::new(),
            nodes_at: None,
            racing: false,
            nodes_before: 0,
            nodes_meanwhile: Vec::new(),
            rings: Vec::new(),
            urings: uring::Rings::default(),
            own_bases: hidden,
            other_table: tables::OtherTable::default(),
            watched: false,
            stale: None,
            main: false,
            broken: false,
        };
        space.doubt_owners(&seed, session);
        let who = Who { tid, process: tid };
        // It stands still, and its map is what it was.
        space.compare_found(who, session, None);
        Ok(space)
    }

    /// The child's address space at the fork event, when the child has not run yet.
    pub(crate) fn fork(&mut self, who: Who, child: Tid, session: &mut Session) -> io::Result<Self> {
        let parent = who.tid;
        self.catch_up(who, session);
        self.settle_advice(who, session);
        self.follow_watchers(who, session);
        self.sync_growth(session);
        let maps = MapsFile::open(child)?;
        let mut pagemap = Pagemap::open(child)?;
        // What the child's page tables hold is exactly what the parent's held at the fork.
        let mut runs = Vec::new();
        let top = self.checker.engine().config().task_size;
        pagemap.each_written(0, top, &mut |start, end| {
            runs.push((start, end));
            true
        })?;
        for &(start, end) in runs.iter().rev() {
            self.checker.note_written(start, end);
            if let Some(record) = &mut session.record {
                record.written(self.number, start, end);
            }
        }
        let checker = self
            .checker
            .fork()
            .map_err(|errno| io::Error::other(format!("the engine cannot fork: {errno}")))?;
        let number = session.new_space_number();
        let urings = self.forked_urings();
        if let Some(record) = &mut session.record {
            record.fork(self.number, number);
        }
        let mut space = Self {
            number,
            checker,
            maps,
            pagemap,
            users: 0,
            holder: None,
            waiting: VecDeque::new(),
            samples: Samples::default(),
            growing: self.growing,
            forked: true,
            // Those of its parent, if the engine has these.
            limits_of: if self.limits_of == who.process {
                child
            } else {
                NOBODY
            },
            calls_since_compare: 0,
            calls_since_whole: 0,
            interrupted: false,
            ends_at: None,
            ambiguous: false,
            others_held: false,
            grown_meanwhile: Vec::new(),
            nothing_at: Vec::new(),
            nodes_at: None,
            racing: false,
            nodes_before: 0,
            nodes_meanwhile: Vec::new(),
            rings: Vec::new(),
            urings,
            own_bases: self.own_bases,
            other_table: self.other_table,
            watched: false,
            stale: None,
            main: false,
            broken: self.broken,
        };
        if self.watched
            && vm_flags(child)?
                .iter()
                .any(|(_, flags)| flags.intersects(VmFlags::UFFD))
        {
            let who = Who {
                tid: child,
                process: child,
            };
            space.resync(who, session, "in a child that a userfaultfd watches, too");
        } else if session.verify == Verify::Each {
            let who = Who {
                tid: child,
                process: child,
            };
            space.compare_with(who, session, Some(format!("fork() in thread {parent}")));
        }
        Ok(space)
    }

    /// Returns `true` if writes of other threads while `call`, which was [prepared](Self::prepare),
    /// begins would be lost.
    pub(crate) fn may_lose_writes(&self, call: &Call) -> bool {
        let brk = self.checker.engine().layout().brk;
        self.users > 1 && !self.watched && self.samples.may_be_lost(call, brk)
    }

    /// Returns `true` if each file that is mapped before `call`, or that it names, is mapped after
    /// it. (Then no held descriptor need be checked.)
    pub(crate) fn leaves_files(&self, call: &Call, returned: i64) -> bool {
        match call {
            Call::Mmap { flags, .. } => returned > 0 && flags & MAP_FIXED == 0,
            // What lies in the heap is unmapped where that becomes smaller.
            Call::Brk { addr } => *addr >= self.checker.engine().layout().brk,
            Call::Mprotect { .. } | Call::Madvise { .. } => true,
            _ => false,
        }
    }

    /// The other threads stand still until the call has returned: what they had written shows now.
    pub(crate) fn look_beside_held(&mut self, call: &Call, session: &mut Session) {
        self.others_held = true;
        if self.near_growth(call) {
            self.sync_growth(session);
        }
        self.samples
            .take(self.checker.engine(), call, &mut self.pagemap);
    }

    /// At the entry of a call: looks at the pages on which its outcome depends.
    pub(crate) fn prepare(
        &mut self,
        call: &Call,
        who: Who,
        (standing, is_i386): (&Standing, bool),
        session: &mut Session,
    ) {
        self.catch_up(who, session);
        self.settle_advice(who, session);
        self.follow_watchers(who, session);
        let known = self.checker.engine().config();
        if !standing.is_in(known) || known.calls_are_wide() == is_i386 {
            let mut config = standing.applied_to(known);
            config.calls = self.calls(is_i386, who.tid, session);
            if self.growing {
                self.sync_growth(session);
            }
            self.set_config(&config, session);
        }
        if self.limits_of != who.process {
            self.limits_changed(who, session);
        }
        if self.near_growth(call) {
            self.sync_growth(session);
        }
        if let Some(range) = ends::opened(call)
            && !self.broken
        {
            self.doubt_forced(range, session);
        }
        self.others_held = false;
        if self.users > 1 && session.verify != Verify::Each {
            self.doubt_late(session);
        }
        self.samples
            .take(self.checker.engine(), call, &mut self.pagemap);
    }

    /// As [`prepare`](Self::prepare), for a call that could not be read at its entry: what it points to lies where the kernel has grown an area.
    pub(crate) fn prepare_late(&mut self, call: &Call, returned: i64, session: &mut Session) {
        self.sync_growth_before(call, returned, session);
        self.samples
            .take(self.checker.engine(), call, &mut self.pagemap);
    }

    pub(crate) fn engine(&self) -> &AddressSpace {
        self.checker.engine()
    }

    /// Reads, when the kernel has performed a call, everything that must be read before the thread
    /// runs on. Returns `true` if the thread may do so before [`finish`](Self::finish): no map must
    /// be read for this call.
    pub(crate) fn look_at_return(
        &mut self,
        call: &mut Call,
        who: Who,
        returned: i64,
        session: &mut Session,
    ) -> bool {
        self.confirm_object(call, who, returned, session);
        self.learn_own_bases(call, returned, session);
        self.learn_bases(call, returned, session);
        let brk = self.checker.engine().layout().brk;
        let held = self.others_held;
        self.ambiguous = self.users > 1
            && self
                .samples
                .look_again(call, returned, brk, held, &mut self.pagemap);
        self.grown_meanwhile.clear();
        if self.users > 1 && self.near_growth(call) {
            self.look_for_growth(call, returned);
        }
        if let (Call::Mbind { nodes, .. }, Some(at)) = (&*call, self.nodes_at.take())
            && self.users > 1
        {
            self.look_at_nodes(*nodes, who.tid, at);
        }
        let due = match session.verify {
            Verify::Each => true,
            Verify::Every(calls) => self.calls_since_compare + 1 >= calls,
            Verify::Exit => false,
        };
        let refused = (-4095..0).contains(&returned) && replaced_by(call).is_some();
        !due && !refused && !self.checker.is_undecided()
    }

    /// Its map may have changed without a call of its own: it is compared at its next one.
    pub(crate) fn look_soon(&mut self, reason: &'static str) {
        self.stale.get_or_insert(reason);
        self.watched = true;
    }

    /// Does what had to wait for a stop.
    fn catch_up(&mut self, who: Who, session: &mut Session) {
        // Others go on where that was another process, which shared the address space.
        if std::mem::take(&mut self.interrupted) && !self.broken {
            self.part(who, session, "after a thread was killed within a call");
            self.ends_at = None;
        }
        if let Some(reason) = self.stale.take() {
            self.part(who, session, reason);
        }
    }

    /// After a call that the engine does not know.
    pub(crate) fn finish_unmodelled(
        &mut self,
        name: &str,
        changes_map: bool,
        who: Who,
        returned: i64,
        session: &mut Session,
    ) {
        session.print_event(
            who.tid,
            &format!(
                "{name} = {} (not modelled)",
                samara_conformance::describe::Returned(returned)
            ),
        );
        samara_conformance::tally::count(&mut session.tally.unmodelled, name);
        if let Some(record) = &mut session.record {
            record.unmodelled(self.number, who.tid, returned, name);
        }
        self.catch_up(who, session);
        self.watched |= name.contains("UFFDIO");
        if changes_map && !(-4095..0).contains(&returned) {
            self.resync(who, session, "after a call that is not modelled");
        }
    }

    /// After a call that sets bounds of heap, data or stack.
    pub(crate) fn bounds_set(&mut self, bounds: Bounds, who: Who, session: &mut Session) {
        self.catch_up(who, session);
        let old = self.checker.engine().layout();
        let known = samara_linux::proc::layout(who.tid);
        // The kernel shows how large the data are.
        let data_size = known.map_or(old.data_size, |numbers| numbers.data_size);
        let call = Call::SetMm {
            start_brk: bounds.start_brk.unwrap_or(old.start_brk),
            brk: bounds.brk.unwrap_or(old.brk),
            data_size,
            stack_top: bounds.stack_top.unwrap_or(old.stack_top),
        };
        self.samples
            .take(self.checker.engine(), &call, &mut self.pagemap);
        self.finish(call, who, 0, false, session);
    }

    /// Notes that the limits of `process` may have changed, or that another process's must be used.
    pub(crate) fn limits_changed(&mut self, who: Who, session: &mut Session) {
        let Ok(limits) = seeding::limits(who.tid) else {
            // A thread that has ended tells nothing: whose call comes next is asked.
            self.limits_of = NOBODY;
            return;
        };
        self.limits_of = who.process;
        if limits != self.checker.engine().limits() {
            // What has grown so far may not under the new ones.
            self.sync_growth(session);
            self.set_limits(limits, session);
        }
    }

    fn set_config(&mut self, config: &Config, session: &mut Session) {
        if let Some(record) = &mut session.record {
            record.settings(self.number, config);
        }
        self.checker.set_config(config);
    }

    /// Returns the rule for executable memory in a program that is executed from here.
    pub(crate) fn mdwe_at_exec(&self) -> Mdwe {
        self.checker.engine().config().mdwe.inherited()
    }

    /// Returns `true` if `PR_SET_MEMORY_MERGE` is set.
    pub(crate) fn merges_any(&self) -> bool {
        self.checker.engine().config().merge_any
    }

    /// The former program of the process had set it.
    pub(crate) fn set_mdwe(&mut self, mdwe: Mdwe, session: &mut Session) {
        if mdwe != self.checker.engine().config().mdwe {
            let config = Config {
                mdwe,
                ..self.checker.engine().config().clone()
            };
            self.set_config(&config, session);
        }
    }

    fn set_limits(&mut self, limits: Limits, session: &mut Session) {
        self.checker.set_limits(limits);
        if let Some(record) = &mut session.record {
            record.limits(self.number, &limits);
        }
    }

    /// A thread was killed within its call, which is this one if that is known.
    pub(crate) fn interrupt(&mut self, call: Option<&Call>) {
        self.interrupted = true;
        if let Some(Call::Brk { addr }) = call {
            self.ends_at = Some(*addr);
        }
        self.calls_since_compare += 1;
    }

    /// The last thread has left.
    pub(crate) fn end(&mut self, session: &mut Session) {
        self.checker.retire(self.main, &mut session.tally);
        if let Some(record) = &mut session.record {
            record.gone(self.number, self.main);
        }
    }
}
