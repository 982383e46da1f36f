//! What only the owner of the real pages knows.

/// Facts about real pages, asked while a call is performed.
///
/// An area counts as touched (it has an anon_vma) from the first private page on; whether that has happened
/// decides who may merge. An embedder that takes its own faults reports them through
/// [`AddressSpace::fault`](crate::AddressSpace::fault) and passes [`NoFacts`]; a tracer, which sees no faults, looks at the pages instead.
pub trait Facts {
    /// Does `[start, end)` hold at least one private anonymous page (present or swapped out) now?
    /// The shared zero page does not count. The range lies in one area.
    fn written(&mut self, start: u64, end: u64) -> bool;

    /// Whether [`written`](Self::written) can ever answer true; asking costs a look-up.
    fn informed(&self) -> bool {
        true
    }
}

/// Knows nothing: for embedders that report every fault themselves.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFacts;

impl Facts for NoFacts {
    fn written(&mut self, _start: u64, _end: u64) -> bool {
        false
    }

    fn informed(&self) -> bool {
        false
    }
}
