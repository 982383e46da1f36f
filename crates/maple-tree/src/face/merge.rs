//! Two trees made one, and one made two: new trees are built from the entries, in order. The old ones stay as they are: a failure needs no undoing.

use core::mem;
use core::ops::RangeInclusive;
use std_alloc::vec::Vec;

use crate::alloc::NodeAlloc;
use crate::base::{EraseError, Key, Offset, Ref, Shape, Value, each};
use crate::face::host::Host;
use crate::face::look_ups::view;
use crate::face::map::MapleTree;
use crate::face::store::Held;
use crate::node::{RawTree, Root, Word};
use crate::read::Found;
use crate::read::iterate::by_leaf::Scan;
use crate::write::Sink;
use crate::write::apply::bury;
use crate::write::build::{Builder, Refused};

/// A tree that is being built. What is given up of it belongs to an old one.
type Unfinished<'a, K, S, A> = Builder<'a, K, S, A, fn(Word)>;

/// Values that were made on the way, dropped again unless the whole succeeds.
pub(crate) struct Made<V: Value>(Vec<Held<V>>);

impl<V: Value> Made<V> {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    /// Takes what `make` makes of the value of a word and a range. Gives its word, which is not to be stored unless these are [kept](Made::keep).
    ///
    /// # Safety
    ///
    /// The word is that of a value, which nobody removes meanwhile.
    pub(crate) unsafe fn remake<K>(
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
    pub(crate) fn keep(mut self) {
        self.0.drain(..).for_each(mem::forget);
    }
}

/// What is left of an entry of an old tree.
struct Piece<K> {
    first: K,
    /// The whole entry, whose last index is the piece's, too.
    of: Found<K>,
    /// Some part of it has the value already.
    used: bool,
}

/// The entries of a tree that is merged, in order.
struct Side<'a, K, S> {
    tree: &'a RawTree<K, S>,
    entries: Scan<K, S>,
    /// The lowest of which something is left.
    piece: Option<Piece<K>>,
}

impl<'a, K: Key, S: Shape> Side<'a, K, S> {
    /// # Safety
    ///
    /// Nobody writes the tree while this is used.
    unsafe fn new(tree: &'a RawTree<K, S>) -> Self {
        let mut side = Self {
            tree,
            entries: Scan::new(Some((K::MIN, K::MAX))),
            piece: None,
        };
        side.go_on();
        side
    }

    fn go_on(&mut self) {
        // SAFETY: nobody writes the tree (promise of `new`).
        let next = unsafe { self.entries.next::<true>(self.tree) };
        self.piece = next.map(|of| Piece {
            first: of.first,
            of,
            used: false,
        });
    }

    fn first(&self) -> Option<K> {
        self.piece.as_ref().map(|piece| piece.first)
    }

    /// Goes on above `last`, which the piece reaches. An entry of which nothing has been used is `covered`.
    fn pass(&mut self, last: K, covered: &mut Vec<Found<K>>) -> Result<(), EraseError> {
        let Some(piece) = &mut self.piece else {
            return Ok(());
        };
        if last < piece.of.last {
            piece.first = last.wrapping_add(K::ONE);
            return Ok(());
        }
        if !piece.used {
            covered.try_reserve(1).map_err(|_| EraseError::Alloc)?;
            covered.push(piece.of);
        }
        self.go_on();
        Ok(())
    }
}

/// A tree that is made of two.
pub(crate) struct Merged<'a, K: Key, V: Value, S: Shape, A: NodeAlloc> {
    builder: Unfinished<'a, K, S, A>,
    made: Made<V>,
    /// Entries of the old trees of which nothing is left.
    covered: Vec<Found<K>>,
}

impl<'a, K: Key, V: Value, S: Shape, A: NodeAlloc> Merged<'a, K, V, S, A> {
    fn new(tree: &RawTree<K, S>, alloc: &'a A) -> Self {
        Self {
            // What the builder gives up belongs to the old trees, or is `made`.
            builder: Unfinished::new(tree.inner_kind(), alloc, |_| {}),
            made: Made::new(),
            covered: Vec::new(),
        }
    }

    /// Takes the piece of a side, up to below `end`. If its entry has been used, `split` makes another value.
    ///
    /// # Safety
    ///
    /// As for [`merge`].
    unsafe fn give(
        &mut self,
        side: &mut Side<'_, K, S>,
        end: Option<K>,
        split: impl FnOnce(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
    ) -> Result<(), EraseError> {
        let Some(piece) = &mut side.piece else {
            return Ok(());
        };
        let before = end.and_then(K::predecessor).unwrap_or(K::MAX);
        let (first, last) = (piece.first, piece.of.last.min(before));
        let word = if piece.used {
            // SAFETY: words in the trees are values, and nobody writes them (the caller's promise).
            unsafe { self.made.remake(piece.of.word, first..=last, split) }?
        } else {
            piece.of.word
        };
        self.builder.push(first, last, word)?;
        piece.used = true;
        side.pass(last, &mut self.covered)
    }

    /// Puts it in the place of what a map holds, which was merged with another; that is empty then.
    pub(crate) fn take_over<H: Host<K, V, S, Alloc = A>>(
        mut self,
        host: &H,
        other: &mut MapleTree<K, V, A, S>,
    ) {
        let (root, height) = self.builder.root();
        self.made.keep();
        other.free_nodes();
        let tree = host.tree();
        let old = tree.root();
        tree.publish_root(root, height);
        let mut sink = host.sink(None, H::discard);
        if let Root::Node(node) = old {
            // No entry is within these bounds: most of them live on in the new tree.
            bury(node, K::MIN, K::MAX, (K::MAX, K::MIN), &mut sink);
        }
        each(0..self.covered.len(), |i| {
            let Found { first, last, word } = self.covered[i];
            sink.entry(first, last, word);
        });
    }
}

/// A tree of the entries of both, with what `resolve` makes of two where they meet, or, if they are to lie `OVER` those of the first, with the second's. An
/// entry that others cut into several parts is given to `split` with the range of each part but the first that is left, for another value.
///
/// On success all words of both trees are in the new one or in `covered`; on failure in none.
///
/// # Safety
///
/// Nobody writes the trees meanwhile, and their words are values of `V`.
pub(crate) unsafe fn merge<'a, const OVER: bool, K: Key, V: Value, S: Shape, A: NodeAlloc>(
    [one, two]: [&RawTree<K, S>; 2],
    alloc: &'a A,
    mut resolve: impl FnMut(RangeInclusive<K>, Ref<'_, V>, Ref<'_, V>) -> Option<V>,
    mut split: impl FnMut(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
) -> Result<Merged<'a, K, V, S, A>, EraseError> {
    let mut merged = Merged::new(one, alloc);
    // SAFETY: nobody writes the trees (the caller's promise).
    let (mut one, mut two) = unsafe { (Side::new(one), Side::new(two)) };
    loop {
        if OVER
            && let Some(over) = two.piece.as_ref().map(|piece| piece.of)
            && one.first().is_none_or(|at| over.first <= at)
        {
            // SAFETY: the caller's promise. It is taken whole, so that nothing is split.
            unsafe { merged.give(&mut two, None, |_, _| None) }?;
            while one.first().is_some_and(|at| at <= over.last) {
                one.pass(over.last, &mut merged.covered)?;
            }
            continue;
        }
        // The one whose piece begins lower, if they do not begin together.
        let (side, other) = match (one.first(), two.first()) {
            (None, None) => break,
            (Some(a), Some(b)) if a == b => {
                let (Some(ours), Some(theirs)) = (&one.piece, &two.piece) else {
                    break;
                };
                let last = ours.of.last.min(theirs.of.last);
                // SAFETY: words in the trees are values, and nobody writes them (the caller's promise).
                let word = unsafe {
                    let theirs = view::<V>(theirs.of.word).ok_or(EraseError::Splits)?;
                    let both = |range, ours: Ref<'_, V>| resolve(range, ours, theirs);
                    merged.made.remake(ours.of.word, a..=last, both)
                }?;
                merged.builder.push(a, last, word)?;
                one.pass(last, &mut merged.covered)?;
                two.pass(last, &mut merged.covered)?;
                continue;
            }
            (Some(a), Some(b)) if b < a => (&mut two, Some(a)),
            (Some(_), b) => (&mut one, b),
            (None, Some(_)) => (&mut two, None),
        };
        // SAFETY: the caller's promise.
        unsafe { merged.give(side, other, &mut split) }?;
    }
    Ok(merged)
}

/// A tree, to be finished, of what `word` makes of the entries that intersect bounds, and of their ranges within. If it is dropped, words stay what they were.
///
/// # Safety
///
/// Nobody writes the tree meanwhile.
pub(crate) unsafe fn part<'a, K: Key, S: Shape, A: NodeAlloc>(
    tree: &RawTree<K, S>,
    bounds: (K, K),
    alloc: &'a A,
    mut word: impl FnMut(Found<K>, RangeInclusive<K>) -> Result<Word, EraseError>,
) -> Result<Unfinished<'a, K, S, A>, EraseError> {
    let mut builder = Unfinished::new(tree.inner_kind(), alloc, |_| {});
    let mut entries = Scan::new(Some(bounds));
    // SAFETY: nobody writes the tree meanwhile (the caller's promise).
    while let Some(found) = unsafe { entries.next::<true>(tree) } {
        let (first, last) = (found.first.max(bounds.0), found.last.min(bounds.1));
        let word = word(found, first..=last)?;
        builder.push(first, last, word)?;
    }
    Ok(builder)
}

impl From<Refused> for EraseError {
    fn from(refused: Refused) -> Self {
        debug_assert_eq!(refused, Refused::Alloc, "entries of a tree come in order");
        Self::Alloc
    }
}
