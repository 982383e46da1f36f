//! The interface of a map to the calls that write it: who holds the tree, which allocator its nodes
//! come from, and what happens to removed entries. These decide how a write is carried out.

use core::ptr::NonNull;

use crate::alloc::{AllocError, NodeAlloc, Reserve, TakeNodes};
use crate::base::{Key, Shape, Value};
use crate::node::{NULL, RawTree, Unread, Word};
use crate::read::Found;
use crate::write::{Action, Hint, Plan, Quick, Removed, Sink, SlotAt};

/// The kind of change that a write makes in its range.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    /// It stores where nothing is, and refuses if something is.
    Fills,
    /// It stores over what is there.
    Stores,
    /// It makes a hole.
    Erases,
}

impl<K: Key, S> SlotAt<K, S> {
    /// Returns `true` if it is a hole that contains a range which starts in it and ends at `last`.
    #[inline(always)]
    pub(in crate::api) fn is_hole_around(&self, last: K) -> bool {
        self.found.word.is_null() && last <= self.found.last
    }
}

/// A tree of values that its holder alone may write.
///
/// # Safety
///
/// * The tree's words are values of `V`.
/// * The exclusive owner of the host is the tree's only writer, and unless the tree is in RCU mode,
///   no thread reads it during the call.
/// * No other code uses the nodes that [`fill`](Host::fill) gives, and these may be given back to
///   [`nodes`](Host::nodes).
/// * [`OWNS_NODES`](Host::OWNS_NODES) and [`alone`](Host::alone) say so only if it is so.
pub(crate) unsafe trait Host<K: Key, V: Value, S: Shape> {
    /// `true` if all nodes belong to the tree alone, so that a leaf may give slots to its
    /// neighbour. Otherwise only the nodes that a write touches belong to it, which
    /// [`change`](Host::change) ensures, and such writes are planned. It is a constant, so that
    /// code for trees that share nodes takes no stack from the others.
    const OWNS_NODES: bool = true;

    type Alloc: NodeAlloc;

    fn tree(&self) -> &RawTree<K, S>;

    /// Returns the allocator of its nodes.
    fn nodes(&self) -> &Self::Alloc;

    /// Sees to it that at least `count` nodes are in the reserve. If there is no memory, those that could be had are.
    #[inline]
    fn fill(&mut self, reserve: &mut Reserve, count: usize) -> Result<(), AllocError> {
        reserve.provide(count, self.nodes())
    }

    /// Allocates `count` nodes. Inlined, because most writes take none.
    #[inline(always)]
    fn reserved(&mut self, count: usize) -> Result<Reserve, AllocError> {
        let mut reserve = Reserve::new();
        if let Err(error) = self.fill(&mut reserve, count) {
            // SAFETY: what `fill` gives may be given back there.
            unsafe { reserve.release(self.nodes()) };
            return Err(error);
        }
        Ok(reserve)
    }

    /// Returns `true` if there are no concurrent readers.
    fn alone(&self) -> bool;

    /// Returns the right to change nodes in place, if there are no concurrent readers. Called
    /// first, for the sake of writers with concurrent readers.
    #[inline(always)]
    fn unread(&self) -> Option<Unread> {
        // SAFETY: the host's promises, and no thread reads.
        self.alone().then(|| unsafe { Unread::new() })
    }

    /// Lets `make` make a write to a range. Where nodes are not the tree's own, the range is first seen to, as for the `touch`, which may fail.
    #[inline(always)]
    fn change<T>(
        &mut self,
        _range: Option<(K, K)>,
        _touch: Touch,
        make: impl FnOnce(Result<&mut Self, AllocError>) -> T,
    ) -> T {
        make(Ok(self))
    }

    /// Makes the nodes of a plan belong to the tree alone. May panic, because it may duplicate
    /// values. The value to be stored still belongs to the caller then.
    #[inline(always)]
    fn prepare(&mut self, _plan: &mut Plan<K, S>) -> Result<(), AllocError> {
        Ok(())
    }

    /// A write is made from here on: it does not fail any more.
    #[inline(always)]
    fn begins(&mut self) {}

    /// Returns the sink for replaced nodes and removed entries. The words of the entries go to
    /// `taken`, with the duty to drop them if they are [owned](Host::discard). The entry that began
    /// at `kept` is stored over itself, and stays. There is one sink at a time.
    fn sink(&self, kept: Option<K>, taken: impl FnMut(K, K, Word)) -> impl Sink<K>;

    /// As [`sink`](Host::sink), for entries alone, without concurrent readers.
    #[inline(always)]
    fn sink_alone(&self, taken: impl FnMut(K, K, Word)) -> impl Sink<K> {
        self.sink(None, taken)
    }

    /// Disposes of a removed word that the caller does not want: drops the value, or does nothing
    /// if it has been retired.
    fn discard(_first: K, _last: K, word: Word) {
        if let Some(raw) = NonNull::new(word) {
            // SAFETY: the word has been removed from the tree, which owned the value.
            drop(unsafe { V::from_raw(raw) });
        }
    }

    /// Reserves what a plan needs and carries it out. For `kept` and `taken` see [`sink`](Host::sink). A call: in line in all ways of a write it would take
    /// tens of kilobytes of stack.
    #[inline(never)]
    fn carry_out(
        &mut self,
        plan: &mut Plan<K, S>,
        kept: Option<K>,
        taken: impl FnMut(K, K, Word),
    ) -> Result<(), AllocError> {
        if !Self::OWNS_NODES && matches!(plan.action, Action::Nothing) {
            return Ok(());
        }
        self.prepare(plan)?;
        let mut reserve = self.reserved(plan.nodes)?;
        self.carry_out_with(plan, &mut reserve, kept, taken);
        Ok(())
    }

    /// As [`carry_out`](Host::carry_out); `reserve` has the nodes.
    #[inline]
    fn carry_out_with(
        &mut self,
        plan: &Plan<K, S>,
        reserve: &mut Reserve,
        kept: Option<K>,
        taken: impl FnMut(K, K, Word),
    ) {
        self.begins();
        let mut sink = self.sink(kept, taken);
        // SAFETY: the host's promises; the plan was just made; its nodes are reserved; its word is a value's or NULL.
        unsafe { self.tree().apply(plan, reserve, &mut sink) };
    }

    /// As [`carry_out_quick`](Host::carry_out_quick). A call, which is there once for all ways of a write.
    #[inline(never)]
    fn carry_out_quick_apart(
        &mut self,
        quick: &Quick<K, S>,
        kept: Option<K>,
        taken: impl FnMut(K, K, Word),
    ) -> Result<(), AllocError> {
        self.carry_out_quick(quick, NULL, kept, taken)
    }

    /// As [`carry_out`](Host::carry_out), for a write that stays within one leaf. If it is within an entry, the part of that above holds `twin` then.
    #[inline(always)]
    fn carry_out_quick(
        &mut self,
        quick: &Quick<K, S>,
        twin: Word,
        kept: Option<K>,
        taken: impl FnMut(K, K, Word),
    ) -> Result<(), AllocError> {
        let mut reserve = self.reserved(quick.nodes(self.tree().in_rcu()))?;
        self.begins();
        let mut sink = self.sink(kept, taken);
        // SAFETY: as in `carry_out_with`, for `quick`; the twin is a value's word, too.
        unsafe {
            self.tree()
                .apply_quick(quick, twin, &mut reserve, &mut sink);
        }
        drop(sink);
        reserve.assert_used_up();
        Ok(())
    }

    /// Makes a range, which starts in a slot, hold a word (NULL erases), by the shortest way that may take nodes; it is not within an entry. For `kept` and
    /// `taken` see [`sink`](Host::sink).
    #[inline(always)]
    fn write_at(
        &mut self,
        at: Option<SlotAt<K, S>>,
        (first, last): (K, K),
        word: Word,
        kept: Option<K>,
        taken: impl FnMut(K, K, Word),
    ) -> Result<(), AllocError> {
        if Self::OWNS_NODES
            && let Some(at) = at
        {
            if at.is_hole_around(last) && !word.is_null() {
                if let Some(quick) = self.tree().try_fill_at(at, (first, last), word) {
                    let Some(unread) = self.unread() else {
                        return self.carry_out_quick_apart(&quick, kept, taken);
                    };
                    let mut reserve = self.reserved(quick.nodes(false))?;
                    self.tree().fill_full(quick, &mut reserve, unread);
                    reserve.assert_used_up();
                    return Ok(());
                }
            } else if let Some(quick) = self.tree().try_store_at(at, (first, last), word) {
                return self.carry_out_quick(&quick, NULL, kept, taken);
            }
        }
        self.write_planned((first, last), word, kept, taken)
    }

    /// As [`write_at`](Host::write_at), for calls that few writes get to: either way has a frame of its own.
    #[inline(always)]
    fn write_apart(
        &mut self,
        at: Option<SlotAt<K, S>>,
        range: (K, K),
        word: Word,
        kept: Option<K>,
        mut taken: impl FnMut(K, K, Word),
    ) -> Result<(), AllocError> {
        if Self::OWNS_NODES
            && let Some(at) = at
            && let Some(done) = self.write_quick(&at, range, word, kept, &mut taken)
        {
            return done;
        }
        self.write_planned(range, word, kept, taken)
    }

    /// As [`write_at`](Host::write_at), if that needs no plan; `None` if it does, and nothing has changed.
    #[inline(never)]
    fn write_quick(
        &mut self,
        at: &SlotAt<K, S>,
        (first, last): (K, K),
        word: Word,
        kept: Option<K>,
        taken: impl FnMut(K, K, Word),
    ) -> Option<Result<(), AllocError>> {
        let quick = if at.is_hole_around(last) && !word.is_null() {
            self.tree().try_fill_at(*at, (first, last), word)
        } else {
            self.tree().try_store_at(*at, (first, last), word)
        }?;
        Some(self.carry_out_quick(&quick, NULL, kept, taken))
    }

    /// As [`write_at`](Host::write_at), by a plan, which takes no stack from the shorter ways.
    #[cold]
    #[inline(never)]
    fn write_planned(
        &mut self,
        (first, last): (K, K),
        word: Word,
        kept: Option<K>,
        taken: impl FnMut(K, K, Word),
    ) -> Result<(), AllocError> {
        let mut plan = self.tree().plan_store(first, last, word);
        self.carry_out(&mut plan, kept, taken)
    }

    /// Puts a word at a range within the hole that a slot is, if that takes no node and no copy of one; tells whether it has.
    #[inline(always)]
    fn fill_hole(&mut self, at: SlotAt<K, S>, range: (K, K), word: NonNull<()>) -> bool {
        let Some(unread) = self.unread() else {
            return false;
        };
        let done = self.tree().fill_hole(at, range, word.as_ptr(), unread);
        if done {
            self.begins();
        }
        done
    }

    /// Makes the entry at a slot a hole, if that takes no copy of a node, and, if it must be
    /// `alone`, changes no other leaf. Returns `true` if it did. The entry's word goes to `taken`,
    /// as for [`carry_out`](Host::carry_out).
    #[inline(always)]
    fn vacate(&mut self, at: SlotAt<K, S>, alone: bool, taken: impl FnMut(K, K, Word)) -> bool {
        let Some(unread) = self.unread() else {
            return false;
        };
        let done = self.tree().vacate(at, alone, unread);
        if done {
            self.begins();
            let Found { first, last, word } = at.found;
            self.sink_alone(taken).entry(first, last, word);
        }
        done
    }

    /// Stores a word (NULL erases) at a range that starts in a slot, or in the one before in the
    /// same leaf. It does so only without concurrent readers, if this takes no node and changes
    /// that leaf alone, or, if it `spans`, that and the next one. Returns `true` if it did.
    /// Otherwise nothing has changed. If an entry goes on at both ends, in one leaf, its upper part
    /// gets `twin`, which is NULL otherwise. The words of the removed entries, except `kept`, go to
    /// `taken`, as for [`carry_out`](Host::carry_out).
    #[inline(always)]
    fn store_here(
        &mut self,
        hint: &Hint<K, S>,
        range: (K, K),
        (word, twin): (Word, Word),
        kept: Option<Found<K>>,
        spans: bool,
        taken: impl FnMut(K, K, Word),
    ) -> bool {
        self.store_hinted(
            hint,
            range,
            word,
            kept,
            spans,
            taken,
            |tree, removed, unread| tree.store_here(hint, range, (word, twin), removed, unread),
        )
    }

    /// As [`store_here`](Host::store_here), in a frame of its own, which is given up before a write goes deeper that needs more.
    #[inline(always)]
    fn store_here_apart(
        &mut self,
        hint: &Hint<K, S>,
        range: (K, K),
        words: (Word, Word),
        kept: Option<Found<K>>,
        spans: bool,
        taken: impl FnMut(K, K, Word),
    ) -> bool {
        self.alone() && self.store_here_called(hint, range, words, kept, spans, taken)
    }

    /// As [`store_here_apart`](Host::store_here_apart), out of line. It makes no further call for most
    /// writes.
    #[inline(never)]
    fn store_here_called(
        &mut self,
        hint: &Hint<K, S>,
        range: (K, K),
        (word, twin): (Word, Word),
        kept: Option<Found<K>>,
        spans: bool,
        taken: impl FnMut(K, K, Word),
    ) -> bool {
        self.store_hinted(
            hint,
            range,
            word,
            kept,
            spans,
            taken,
            |tree, removed, unread| {
                tree.store_here_inline(hint, range, (word, twin), removed, unread)
            },
        )
    }

    /// Does the work of [`store_here`](Host::store_here). `here` stores within the leaf.
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "the two that call it have these")]
    fn store_hinted(
        &mut self,
        hint: &Hint<K, S>,
        range: (K, K),
        word: Word,
        kept: Option<Found<K>>,
        spans: bool,
        taken: impl FnMut(K, K, Word),
        here: impl FnOnce(&RawTree<K, S>, &mut Removed<K>, Unread) -> bool,
    ) -> bool {
        let Some(unread) = self.unread() else {
            return false;
        };
        let tree = self.tree();
        let mut removed = Removed::except(kept);
        let done = if spans && range.1 > hint.place().max {
            tree.store_spanning(hint, range, word, &mut removed, unread)
        } else {
            here(tree, &mut removed, unread)
        };
        if done {
            self.begins();
            if !removed.is_empty() {
                removed.give(&mut self.sink_alone(taken));
            }
        }
        done
    }

    /// Exchanges the word of the entry that a slot is for another, which takes no node. Readers see it at once.
    #[inline(always)]
    fn exchange(&mut self, at: SlotAt<K, S>, word: NonNull<()>, taken: impl FnMut(K, K, Word)) {
        self.begins();
        at.exchange(word.as_ptr());
        let Found { first, last, word } = at.found;
        self.sink(None, taken).entry(first, last, word);
    }
}
