//! Two owners of the pages: the tables, and a client's.

use crate::abi::SyncFlags;
use crate::errno::Errno;
use crate::object::Object;
use crate::pages::{Moving, PageAdvice, Pages, PrepareOp};
use crate::process::owner::Owner;
use crate::process::platform::Platform;
use crate::vma::{Area, Vma};

/// The tables and a second owner, which is notified first. It may refuse or panic. So the tables
/// gather their changes until the call can no longer be undone: a removed page does not come back.
pub(in crate::process) struct Tee<'o, 'a, P: Platform> {
    pub(in crate::process) tables: Owner<'a, P>,
    other: &'o mut dyn Pages,
}

impl<'o, 'a, P: Platform> Tee<'o, 'a, P> {
    pub(in crate::process) fn new(mut tables: Owner<'a, P>, other: &'o mut dyn Pages) -> Self {
        tables.gathers = true;
        Tee { tables, other }
    }

    fn then(
        &mut self,
        told: Result<(), Errno>,
        tell: impl FnOnce(&mut Owner<'a, P>) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        told?;
        tell(&mut self.tables)
    }
}

impl<P: Platform> Pages for Tee<'_, '_, P> {
    fn informed(&self) -> bool {
        self.other.informed()
    }

    fn written(&mut self, start: u64, end: u64) -> bool {
        self.other.written(start, end)
    }

    fn strays(&mut self, start: u64, end: u64, nodes: u64, moving: Moving) -> bool {
        self.tables.strays(start, end, nodes, moving)
            || self.other.strays(start, end, nodes, moving)
    }

    fn listens_to_maps(&self) -> bool {
        self.other.listens_to_maps()
    }

    fn refuses(&self) -> bool {
        self.tables.gathers
    }

    fn prepare(&mut self, op: PrepareOp) -> Result<(), Errno> {
        self.tables.prepare(op)?;
        self.other.prepare(op)
    }

    fn map(&mut self, start: u64, end: u64, vma: &Vma) -> Result<(), Errno> {
        let told = self.other.map(start, end, vma);
        self.then(told, |tables| tables.map(start, end, vma))
    }

    fn unmap(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        self.other.unmap(start, end)
    }

    fn vacate(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        let told = self.other.vacate(start, end);
        self.then(told, |tables| tables.vacate(start, end))
    }

    fn protect(&mut self, start: u64, end: u64, vma: &Vma) -> Result<(), Errno> {
        let told = self.other.protect(start, end, vma);
        self.then(told, |tables| tables.protect(start, end, vma))
    }

    fn relocate(&mut self, from: u64, to: u64, len: u64) -> Result<(), Errno> {
        let told = self.other.relocate(from, to, len);
        self.then(told, |tables| tables.relocate(from, to, len))
    }

    fn asks_what_is_left(&self) -> bool {
        self.tables.asks_what_is_left() || self.other.asks_what_is_left()
    }

    fn left_around(&mut self, start: u64, end: u64, below: u64, above: u64) {
        self.other.left_around(start, end, below, above);
        self.tables.left_around(start, end, below, above);
    }

    fn advise(&mut self, start: u64, end: u64, vma: &Vma, advice: PageAdvice) -> Result<(), Errno> {
        let told = self.other.advise(start, end, vma, advice);
        self.then(told, |tables| tables.advise(start, end, vma, advice))
    }

    fn is_owned_by_reading(&mut self, start: u64, end: u64, area: &Area<'_>) -> bool {
        self.tables.is_owned_by_reading(start, end, area)
    }

    fn populate(
        &mut self,
        start: u64,
        end: u64,
        area: &Area<'_>,
        write: bool,
    ) -> Result<(), Errno> {
        let told = self.other.populate(start, end, area, write);
        self.then(told, |tables| tables.populate(start, end, area, write))
    }

    fn sync(&mut self, start: u64, end: u64, vma: &Vma, flags: SyncFlags) -> Result<(), Errno> {
        let told = self.other.sync(start, end, vma, flags);
        self.then(told, |tables| tables.sync(start, end, vma, flags))
    }

    /// Creates an object by the tables, because files belong to them.
    fn object(&mut self, pages: u64) -> Result<Object, Errno> {
        self.tables.object(pages)
    }

    fn undoing(&mut self) {
        self.tables.undoing();
        self.other.undoing();
    }
}
