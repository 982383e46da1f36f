//! Two trees made one, and one made two: new trees are built from the entries, in order. The old ones stay as they are: a failure needs no undoing.

use core::mem;
use core::ops::{ControlFlow, RangeInclusive};
use std_alloc::vec::Vec;

use crate::alloc::{AllocError, Fork, NodeAlloc};
use crate::api::{Held, Host, MapleTree, store, view};
use crate::base::{EraseError, Key, Offset, Ref, Shape, Value, each};
use crate::node::{NULL, RawTree, Root, Word};
use crate::read::Found;
use crate::read::iterate::by_leaf::Scan;
use crate::write::build::{Builder, Refused};
use crate::write::{Sink, retire_subtree};

/// A tree that is being built. What is given up of it belongs to an old one.
type Unfinished<'a, K, S, A> = Builder<'a, K, S, A, fn(Word)>;

/// Values that were made on the way, dropped again unless the whole succeeds.
pub(super) struct Made<V: Value>(Vec<Held<V>>);

impl<V: Value> Made<V> {
    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    /// Takes what `make` makes of the value of a word and a range. Gives its word, which is not to be stored unless these are [kept](Made::keep).
    ///
    /// # Safety
    ///
    /// The word is that of a value, which no code removes during the call.
    pub(super) unsafe fn remake<K>(
        &mut self,
        word: Word,
        range: RangeInclusive<K>,
        make: impl FnOnce(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
    ) -> Result<Word, EraseError> {
        // SAFETY: the caller's promise.
        let value = unsafe { view::<V>(word) }.ok_or(EraseError::Splits)?;
        let made = make(range, value).ok_or(EraseError::Splits)?;
        self.0.try_reserve(1).map_err(|_| EraseError::Alloc)?;
        let raw = made.into_raw();
        self.0.push(Held::of(raw));
        Ok(raw.as_ptr())
    }

    /// The words have been stored: the tree owns the values.
    pub(super) fn keep(mut self) {
        self.0.drain(..).for_each(mem::forget);
    }
}

/// The rest of an entry of an old tree.
#[derive(Clone, Copy)]
struct Piece<K> {
    first: K,
    /// The whole entry, whose last index is the piece's, too.
    of: Found<K>,
    /// Some part of it has the value already.
    used: bool,
}

/// The merge of two trees into a new one. No thread writes the trees during it, and their words are
/// values of `V`.
struct Merged<'t, 'a, K: Key, V: Value, S: Shape, A: NodeAlloc> {
    of: [&'t RawTree<K, S>; 2],
    entries: [Scan<K, S>; 2],
    /// Of each tree the lowest entry of which something is left.
    pieces: [Option<Piece<K>>; 2],
    builder: Unfinished<'a, K, S, A>,
    made: Made<V>,
    /// Entries of the old trees of which nothing is left.
    covered: Vec<Found<K>>,
}

impl<K: Key, V: Value, S: Shape, A: NodeAlloc> Merged<'_, '_, K, V, S, A> {
    fn go_on(&mut self, side: usize) {
        // SAFETY: no thread writes the tree.
        let next = unsafe { self.entries[side].next::<true>(self.of[side]) };
        self.pieces[side] = next.map(|of| {
            let (first, used) = (of.first, false);
            Piece { first, of, used }
        });
    }

    /// Goes on above `last`, which the piece of a side reaches. An entry of which nothing has been used is covered.
    fn pass(&mut self, side: usize, last: K) -> Result<(), EraseError> {
        let Some(piece) = &mut self.pieces[side] else {
            return Ok(());
        };
        if last < piece.of.last {
            piece.first = last.wrapping_add(K::ONE);
            return Ok(());
        }
        if !piece.used {
            self.covered.try_reserve(1).map_err(|_| EraseError::Alloc)?;
            self.covered.push(piece.of);
        }
        self.go_on(side);
        Ok(())
    }

    /// Takes the piece of a side, up to below `end`. If its entry has been used, `split` makes another value.
    fn give(
        &mut self,
        side: usize,
        end: Option<K>,
        split: impl FnOnce(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
    ) -> Result<(), EraseError> {
        let Some(piece) = &mut self.pieces[side] else {
            return Ok(());
        };
        let before = end.and_then(K::predecessor).unwrap_or(K::MAX);
        let (first, last) = (piece.first, piece.of.last.min(before));
        let word = if piece.used {
            // SAFETY: words in the trees are values, and no thread writes them.
            unsafe { self.made.remake(piece.of.word, first..=last, split) }?
        } else {
            piece.of.word
        };
        self.builder.push(first, last, word)?;
        piece.used = true;
        self.pass(side, last)
    }
}

/// Moves the entries of another map into a host's tree, with what `resolve` makes of two where they meet, or, if they are to lie `OVER` those that are there,
/// with the other's. An entry that others cut into several parts is given to `split` with the range of each part but the first that is left, for another
/// value. If that fails, both are as they were.
pub(crate) fn merge<const OVER: bool, K: Key, V: Value, S: Shape, A, H>(
    host: &mut H,
    other: &mut MapleTree<K, V, A, S>,
    mut resolve: impl FnMut(RangeInclusive<K>, Ref<'_, V>, Ref<'_, V>) -> Option<V>,
    mut split: impl FnMut(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
) -> Result<(), EraseError>
where
    A: NodeAlloc,
    H: Host<K, V, S, Alloc = A>,
{
    if other.is_empty() {
        return Ok(());
    }
    let tree = host.tree();
    let mut merged = Merged {
        // Both are exclusively borrowed, or by their only writer.
        of: [tree, other.raw()],
        entries: [Scan::new(Some((K::MIN, K::MAX))); 2],
        pieces: [None; 2],
        // What the builder gives up belongs to the old trees, or is `made`: on success all words of both are in the new one or `covered`, on failure in none.
        builder: Unfinished::new(tree.inner_kind(), host.nodes(), |_| {}),
        made: Made::<V>::new(),
        covered: Vec::new(),
    };
    merged.go_on(0);
    merged.go_on(1);
    loop {
        let [ours, theirs] = merged.pieces;
        if OVER
            && let Some(over) = theirs
            && ours.is_none_or(|ours| over.first <= ours.first)
        {
            // It is taken whole, so that nothing is split.
            merged.give(1, None, |_, _| None)?;
            while merged.pieces[0].is_some_and(|ours| ours.first <= over.of.last) {
                merged.pass(0, over.of.last)?;
            }
            continue;
        }
        // The one whose piece begins lower, if they do not begin together.
        match (ours, theirs) {
            (None, None) => break,
            (Some(Piece { first, of, .. }), Some(theirs)) if first == theirs.first => {
                let last = of.last.min(theirs.of.last);
                // SAFETY: words in the trees are values, and no thread writes them.
                let word = unsafe {
                    let theirs = view::<V>(theirs.of.word).ok_or(EraseError::Splits)?;
                    let both = |range, ours: Ref<'_, V>| resolve(range, ours, theirs);
                    merged.made.remake(of.word, first..=last, both)
                }?;
                merged.builder.push(first, last, word)?;
                merged.pass(0, last)?;
                merged.pass(1, last)?;
            }
            (Some(ours), Some(theirs)) if theirs.first < ours.first => {
                merged.give(1, Some(ours.first), &mut split)?;
            }
            (Some(_), end) => merged.give(0, end.map(|theirs| theirs.first), &mut split)?,
            (None, Some(_)) => merged.give(1, None, &mut split)?,
        }
    }
    let (mut builder, made, covered) = (merged.builder, merged.made, merged.covered);
    let (root, height) = builder.root();
    made.keep();
    other.free_nodes();
    let old = tree.root();
    tree.publish_root(root, height);
    let mut sink = host.sink(None, H::discard);
    if let Root::Node(node) = old {
        // No entry is within these bounds: most of them live on in the new tree.
        retire_subtree(node, K::MIN, K::MAX, (K::MAX, K::MIN), &mut sink);
    }
    each(0..covered.len(), |i| {
        let Found { first, last, word } = covered[i];
        sink.entry(first, last, word);
    });
    Ok(())
}

/// Returns `true` if an entry that begins before the key contains it.
fn is_within<K: Key, S: Shape>(tree: &RawTree<K, S>, key: K) -> bool {
    let found = tree.lookup(key);
    found.first < key && !found.word.is_null()
}

impl<K: Key, S: Shape, A: NodeAlloc> Unfinished<'_, K, S, A> {
    /// Adds the entries that begin within a range. The last of them ends within it, too.
    fn take(&mut self, tree: &RawTree<K, S>, (first, last): (K, K)) -> Result<(), Refused> {
        let added = tree.visit_up(first, |found| {
            if found.first > last {
                return ControlFlow::Break(Ok(()));
            }
            match self.push(found.first, found.last, found.word) {
                Ok(()) => ControlFlow::Continue(()),
                refused => ControlFlow::Break(refused),
            }
        });
        added.break_value().unwrap_or(Ok(()))
    }
}

/// Takes a range out of a host's tree, as a map with the same modes and a [fork](Fork) of the allocator. Entries within it `MOVE` there, or are copied as the
/// pieces of others are: these get the values that `copy` makes from the entry and the range of the piece. Of an entry that goes on at both ends it makes also the
/// value for what is above, and first. If that fails, nothing has changed.
pub(crate) fn cut<const MOVE: bool, K: Key, V: Value, S: Shape, A, H>(
    host: &mut H,
    (first, last): (K, K),
    mut copy: impl FnMut(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
) -> Result<MapleTree<K, V, A, S>, EraseError>
where
    A: Fork,
    H: Host<K, V, S, Alloc = A>,
{
    let cut = MapleTree::from_parts(host.tree().empty_like(), host.nodes().fork());
    if MOVE
        && !is_within(host.tree(), first)
        && !last
            .successor()
            .is_some_and(|after| is_within(host.tree(), after))
    {
        // No entry is on both sides of an end: the shortest way to erase them will do.
        let mut part = Unfinished::new(cut.raw().inner_kind(), cut.allocator(), |_| {});
        part.take(host.tree(), (first, last))?;
        store::erase(host, Some((first, last)), |_, _| None, |_, _, _| {})?;
        part.finish(cut.raw());
        return Ok(cut);
    }
    let tree = host.tree();
    let mut made = Made::<V>::new();
    let mut plan = tree.plan_store(first, last, NULL);
    if plan.splits
        && let Some(above) = plan.items.last_mut()
    {
        let range = last.wrapping_add(K::ONE)..=above.last;
        // SAFETY: words in the tree are values, and it is exclusively borrowed, or by its only writer.
        above.word = unsafe { made.remake(above.word, range, &mut copy) }?;
    }
    // If it is dropped, words stay what they were.
    let mut part = Unfinished::new(tree.inner_kind(), cut.allocator(), |_| {});
    let mut entries = Scan::new(Some((first, last)));
    // SAFETY: as above.
    while let Some(found) = unsafe { entries.next::<true>(tree) } {
        let (from, to) = (found.first.max(first), found.last.min(last));
        let word = if MOVE && (from, to) == (found.first, found.last) {
            found.word
        } else {
            // SAFETY: as above.
            unsafe { made.remake(found.word, from..=to, &mut copy) }?
        };
        part.push(from, to, word)?;
    }
    let nodes = host.reserved(plan.nodes);
    let mut nodes = nodes.map_err(|AllocError| EraseError::Alloc)?;
    made.keep();
    part.finish(cut.raw());
    // What has moved is in the other map now.
    host.carry_out_with(&plan, &mut nodes, None, |_, _, _| {});
    Ok(cut)
}

impl From<Refused> for EraseError {
    fn from(refused: Refused) -> Self {
        debug_assert_eq!(refused, Refused::Alloc, "entries of a tree come in order");
        Self::Alloc
    }
}
