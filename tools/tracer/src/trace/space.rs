//! A traced address space: the engine's copy of the kernel's, and the order of calls on it.
//!
//! All threads that share an address space share one of these. Calls on it happen one at a time.
//! While one is under way (`holder`), other threads stop at the entry of theirs and wait in
//! `waiting`. So the engine performs the calls in the kernel's own order.
//!
//! To *doubt* a range is to note that a write to it may have been missed. A difference that such a
//! write explains is then undecided.

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

/// The event before an address space is compared for the last time.
pub(crate) const BEFORE_EXIT: &str = "the calls before exit";
/// The reason why an engine starts again after it has answered differently from the kernel.
const PARTED: &str = "after a disagreement";

/// A number that no process has.
const NOBODY: Tid = 0;

/// The acting thread and its process. `/proc` is read through the thread, because the first thread
/// of a process may have ended before the others.
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
    /// The number of threads that run in it.
    pub(crate) users: u32,
    /// The thread whose call is under way.
    pub(crate) holder: Option<Tid>,
    pub(crate) waiting: VecDeque<(Tid, Entry)>,
    samples: Samples,
    /// Areas besides the stack grow by faults, or have grown.
    growing: bool,
    /// It came by a fork: userfaultfds and the `anon_vma` of areas may be the parent's.
    forked: bool,
    /// The process whose limits the engine uses.
    limits_of: Tid,
    calls_since_compare: u64,
    /// Also counts calls after which only [parts](part) of the map were compared.
    calls_since_whole: u64,
    /// A thread was killed within a call. Only the map shows if the kernel completed it.
    interrupted: bool,
    /// The end of the heap if the kernel completed such a call to `brk`.
    ends_at: Option<u64>,
    /// Valid between the return of a call and its end here: another thread wrote to a page
    /// concurrently.
    ambiguous: bool,
    /// No other thread runs until the current call has returned.
    others_held: bool,
    /// Valid between the return of a call and its end here: the starts to which other threads'
    /// faults have grown areas concurrently.
    grown_meanwhile: Vec<u64>,
    /// The addresses of accesses that found no page during the current call.
    nothing_at: Vec<u64>,
    /// The address of the node mask that the current call names, and its bits.
    pub(crate) nodes_at: Option<NodeMask>,
    /// Others could write to the memory that the current call points to.
    racing: bool,
    /// The last node mask.
    nodes_before: u64,
    /// Valid between the return of a call and its end here: the values that another thread may have
    /// given to the node mask.
    nodes_meanwhile: Vec<u64>,
    /// The addresses of the rings of `io_setup`, and their lengths in bytes.
    rings: Vec<(u64, u64)>,
    /// The rings of `io_uring`.
    urings: uring::Rings,
    /// The base of placement, while it is not fully known.
    own_bases: Option<bases::Hidden>,
    /// The bases of placement for calls of the other table.
    other_table: tables::OtherTable,
    /// A userfaultfd has registered areas.
    watched: bool,
    /// The reason why the engine must start again at the next stop.
    stale: Option<&'static str>,
    /// The address space belongs to the program that was started, and not to one of its children.
    pub(crate) main: bool,
    /// The kernel no longer shows the map, or the engine could not be built. Nothing is compared.
    broken: bool,
}

impl Space {
    /// Creates an address space without threads and calls. All other fields have their defaults.
    fn new(number: u32, checker: Checker, maps: MapsFile, pagemap: Pagemap) -> Self {
        Self {
            number,
            checker,
            maps,
            pagemap,
            users: 0,
            holder: None,
            waiting: VecDeque::new(),
            samples: Samples::default(),
            growing: false,
            forked: false,
            limits_of: NOBODY,
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
            own_bases: None,
            other_table: tables::OtherTable::default(),
            watched: false,
            stale: None,
            main: false,
            broken: false,
        }
    }

    /// Reads the address space of a process stopped right after exec, or found running
    /// (`Reason::Adopted`).
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
        let checker = match reason {
            Reason::Exec => Checker::new(engine, true),
            Reason::Resync | Reason::Adopted => Checker::found(engine, true),
        };
        let mut space = Self {
            growing,
            // Possibly: its creation was not traced.
            forked: reason == Reason::Adopted,
            limits_of: tid,
            own_bases: hidden,
            ..Self::new(number, checker, maps, pagemap)
        };
        space.doubt_owners(&seed, session);
        let who = Who { tid, process: tid };
        // The process stands still, so its map has not changed.
        space.compare_found(who, session, None);
        Ok(space)
    }

    /// Returns the child's address space at the fork event, before the child has run.
    pub(crate) fn fork(&mut self, who: Who, child: Tid, session: &mut Session) -> io::Result<Self> {
        let parent = who.tid;
        self.catch_up(who, session);
        self.settle_advice(who, session);
        self.follow_watchers(who, session);
        self.sync_growth(session);
        let maps = MapsFile::open(child)?;
        let mut pagemap = Pagemap::open(child)?;
        // The child's page tables hold exactly what the parent's held at the fork.
        let mut runs = Vec::new();
        let top = self.checker.engine().config().task_size;
        pagemap.each_written(0, top, &mut |start, end| {
            runs.push((start, end));
            true
        })?;
        self.note_written(&runs, session);
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
            growing: self.growing,
            forked: true,
            // The child has its parent's limits, if the engine uses those.
            limits_of: if self.limits_of == who.process {
                child
            } else {
                NOBODY
            },
            urings,
            own_bases: self.own_bases,
            other_table: self.other_table,
            broken: self.broken,
            ..Self::new(number, checker, maps, pagemap)
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

    /// Informs the engine of ranges that were written, the highest first.
    fn note_written(&mut self, ascending: &[(u64, u64)], session: &mut Session) {
        for &(start, end) in ascending.iter().rev() {
            self.checker.note_written(start, end);
            if let Some(record) = &mut session.record {
                record.written(self.number, start, end);
            }
        }
    }

    /// Returns `true` if other threads' writes while `call` begins would leave no trace. The call
    /// must be [prepared](Self::prepare).
    pub(crate) fn may_lose_writes(&self, call: &Call) -> bool {
        let brk = self.checker.engine().layout().brk;
        self.users > 1 && !self.watched && self.samples.may_be_lost(call, brk)
    }

    /// Returns `true` if every file that `call` names, or that was mapped before it, is mapped
    /// after it. Then no held descriptor needs a check.
    pub(crate) fn leaves_files(&self, call: &Call, returned: i64) -> bool {
        match call {
            Call::Mmap { flags, .. } => returned > 0 && flags & MAP_FIXED == 0,
            // If the heap shrinks, mappings within it are unmapped.
            Call::Brk { addr } => *addr >= self.checker.engine().layout().brk,
            Call::Mprotect { .. } | Call::Madvise { .. } => true,
            _ => false,
        }
    }

    /// Examines the pages again, now that the other threads stand still until the call has
    /// returned.
    pub(crate) fn look_beside_held(&mut self, call: &Call, session: &mut Session) {
        self.others_held = true;
        if self.near_growth(call) {
            self.sync_growth(session);
        }
        self.samples
            .take(self.checker.engine(), call, &mut self.pagemap);
    }

    /// Examines the pages on which the outcome of a call depends, at its entry.
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

    /// Prepares, like [`prepare`](Self::prepare), a call that could not be read at its entry: its
    /// arguments lie where the kernel has grown an area.
    pub(crate) fn prepare_late(&mut self, call: &Call, returned: i64, session: &mut Session) {
        self.sync_growth_before(call, returned, session);
        self.samples
            .take(self.checker.engine(), call, &mut self.pagemap);
    }

    pub(crate) fn engine(&self) -> &AddressSpace {
        self.checker.engine()
    }

    /// Examines the state that must be seen before the thread runs on, after the kernel has
    /// performed a call. Returns `true` if the thread may run on before [`finish`](Self::finish),
    /// because this call needs no map.
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

    /// Notes that the map may have changed without a call of its own. It is compared at the next
    /// call.
    pub(crate) fn look_soon(&mut self, reason: &'static str) {
        self.stale.get_or_insert(reason);
        self.watched = true;
    }

    /// Does the work that had to wait for a stop.
    fn catch_up(&mut self, who: Who, session: &mut Session) {
        // The others continue if that was another process that shared the address space.
        if std::mem::take(&mut self.interrupted) && !self.broken {
            self.part(who, session, "after a thread was killed within a call");
            self.ends_at = None;
        }
        if let Some(reason) = self.stale.take() {
            self.part(who, session, reason);
        }
    }

    /// Ends a call that the engine does not model.
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

    /// Ends a call that sets bounds of heap, data or stack.
    pub(crate) fn bounds_set(&mut self, bounds: Bounds, who: Who, session: &mut Session) {
        self.catch_up(who, session);
        let old = self.checker.engine().layout();
        let known = samara_linux::proc::layout(who.tid);
        // The kernel shows the size of the data.
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

    /// Reads the limits of `who`'s process, because they may have changed or the engine uses
    /// another process's.
    pub(crate) fn limits_changed(&mut self, who: Who, session: &mut Session) {
        let Ok(limits) = seeding::limits(who.tid) else {
            // A thread that has ended shows nothing. The process of the next call is asked.
            self.limits_of = NOBODY;
            return;
        };
        self.limits_of = who.process;
        if limits != self.checker.engine().limits() {
            // Areas that have grown so far might not be allowed to under the new limits.
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

    /// Returns the restriction on executable memory that a program started from here inherits.
    pub(crate) fn mdwe_at_exec(&self) -> Mdwe {
        self.checker.engine().config().mdwe.inherited()
    }

    /// Returns `true` if `PR_SET_MEMORY_MERGE` is on.
    pub(crate) fn merges_any(&self) -> bool {
        self.checker.engine().config().merge_any
    }

    /// Sets the restriction that the former program of the process had set.
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

    /// Notes that a thread was killed within its call, which is `call` if that is known.
    pub(crate) fn interrupt(&mut self, call: Option<&Call>) {
        self.interrupted = true;
        if let Some(Call::Brk { addr }) = call {
            self.ends_at = Some(*addr);
        }
        self.calls_since_compare += 1;
    }

    /// Ends the address space after its last thread has left.
    pub(crate) fn end(&mut self, session: &mut Session) {
        self.checker.retire(self.main, &mut session.tally);
        if let Some(record) = &mut session.record {
            record.gone(self.number, self.main);
        }
    }
}
