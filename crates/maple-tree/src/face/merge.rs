//! Two trees made one, and one made two: the entries are gone through in order, and new trees are built from them. The old ones are not
//! changed, so that a failure needs no undoing.

use core::mem;
use core::ops::RangeInclusive;
use std_alloc::vec::Vec;

use crate::alloc::{AllocError, NodeAlloc, Reserve};
use crate::base::{EraseError, Key, Ref, Shape, Value};
use crate::face::look_ups::view;
use crate::face::store::Held;
use crate::node::{RawTree, Word};
use crate::read::Found;
use crate::read::iterate::by_entry::Traverse;
use crate::write::build::{Builder, Refused};

/// Values that were made on the way, dropped again unless the whole succeeds.
pub(crate) struct Made<V: Value>(Vec<Held<V>>);

impl<V: Value> Made<V> {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    /// Takes a value, and gives its word, which is not to be stored unless these are [kept](Made::keep).
    pub(crate) fn take(&mut self, value: V) -> Result<Word, EraseError> {
        self.0.try_reserve(1).map_err(|_| EraseError::Alloc)?;
        let held = Held::new(value);
        let word = held.word();
        self.0.push(held);
        Ok(word)
    }

    /// Takes what `make` makes of the value of a word and a range. Gives its word, which is not to be stored either.
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
        self.take(make(range, value).ok_or(EraseError::Splits)?)
    }

    /// The words have been stored: the tree owns the values.
    pub(crate) fn keep(mut self) {
        self.0.drain(..).for_each(mem::forget);
    }
}

/// The outcome of [`merge`] or [`unite`]: a root and its height, and what is left over.
pub(crate) struct Merged<K> {
    pub(crate) root: Word,
    pub(crate) height: u32,
    /// Entries of the old trees of which nothing is left.
    pub(crate) covered: Vec<Found<K>>,
}

/// What is left of an entry of an old tree.
struct Piece<K> {
    first: K,
    last: K,
    /// The whole entry.
    of: Found<K>,
    /// Some part of it has the value already.
    used: bool,
}

/// The entries of a tree that is merged, in order.
struct Side<'a, K, S> {
    tree: &'a RawTree<K, S>,
    entries: Traverse<K, S>,
    /// The lowest of which something is left.
    piece: Option<Piece<K>>,
}

impl<'a, K: Key, S: Shape> Side<'a, K, S> {
    fn new(tree: &'a RawTree<K, S>) -> Self {
        let mut side = Self {
            tree,
            entries: Traverse::new(Some((K::MIN, K::MAX))),
            piece: None,
        };
        side.go_on();
        side
    }

    fn go_on(&mut self) {
        self.piece = self.entries.next(self.tree).map(|of| Piece {
            first: of.first,
            last: of.last,
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
        if last < piece.last {
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

/// Two trees, and the one that is made of them.
struct Merging<'a, K: Key, V: Value, S: Shape, A: NodeAlloc> {
    builder: Builder<'a, K, S, A, fn(Word)>,
    made: Made<V>,
    covered: Vec<Found<K>>,
}

impl<'a, K: Key, V: Value, S: Shape, A: NodeAlloc> Merging<'a, K, V, S, A> {
    fn new(tree: &RawTree<K, S>, alloc: &'a A) -> Self {
        Self {
            // What the builder gives up belongs to the old trees, or is `made`.
            builder: Builder::new(tree.inner_kind(), alloc, |_| {}),
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
        let before = end.and_then(K::predecessor);
        let (first, last) = (
            piece.first,
            before.map_or(piece.last, |end| piece.last.min(end)),
        );
        let word = if piece.used {
            // SAFETY: words in the trees are values, and nobody writes them (the caller's promise).
            unsafe { self.made.remake(piece.of.word, first..=last, split) }?
        } else {
            piece.of.word
        };
        push(&mut self.builder, first, last, word)?;
        piece.used = true;
        side.pass(last, &mut self.covered)
    }

    fn done(mut self) -> Merged<K> {
        let (root, height) = self.builder.root();
        self.made.keep();
        Merged {
            root,
            height,
            covered: self.covered,
        }
    }
}

/// A tree of the entries of `lower` with those of `upper` over them. An entry that ends up on several sides of others is given to `split` with
/// the range of each part but the first, for another value.
///
/// On success all words of both trees are in the new one or in `covered`; on failure in none.
///
/// # Safety
///
/// Nobody writes the trees meanwhile, and their words are values of `V`.
pub(crate) unsafe fn merge<K: Key, V: Value, S: Shape, A: NodeAlloc>(
    lower: &RawTree<K, S>,
    upper: &RawTree<K, S>,
    alloc: &A,
    mut split: impl FnMut(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
) -> Result<Merged<K>, EraseError> {
    let mut merging = Merging::new(lower, alloc);
    let (mut below, mut above) = (Side::new(lower), Side::new(upper));
    loop {
        let over = above.first();
        if below
            .first()
            .is_some_and(|at| over.is_none_or(|over| at < over))
        {
            // SAFETY: the caller's promise.
            unsafe { merging.give(&mut below, over, &mut split) }?;
            continue;
        }
        let Some(over) = above.piece.as_ref().map(|piece| piece.of) else {
            break;
        };
        // SAFETY: the caller's promise. It is taken whole, so that nothing is split.
        unsafe { merging.give(&mut above, None, |_, _| None) }?;
        while below.first().is_some_and(|at| at <= over.last) {
            below.pass(over.last, &mut merging.covered)?;
        }
    }
    Ok(merging.done())
}

/// A tree of the entries of both, with what `resolve` makes of two where they meet. An entry that others cut into several parts is given to `split` with
/// the range of each part but the first that is left, for another value.
///
/// On success all words of both trees are in the new one or in `covered`; on failure in none.
///
/// # Safety
///
/// As for [`merge`].
pub(crate) unsafe fn unite<K: Key, V: Value, S: Shape, A: NodeAlloc>(
    [one, two]: [&RawTree<K, S>; 2],
    alloc: &A,
    mut resolve: impl FnMut(RangeInclusive<K>, Ref<'_, V>, Ref<'_, V>) -> Option<V>,
    mut split: impl FnMut(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
) -> Result<Merged<K>, EraseError> {
    let mut merging = Merging::new(one, alloc);
    let (mut one, mut two) = (Side::new(one), Side::new(two));
    loop {
        // The one whose piece begins lower, if they do not begin together.
        let (side, other) = match (one.first(), two.first()) {
            (None, None) => break,
            (Some(a), Some(b)) if a == b => {
                let (Some(ours), Some(theirs)) = (&one.piece, &two.piece) else {
                    break;
                };
                let last = ours.last.min(theirs.last);
                // SAFETY: words in the trees are values, and nobody writes them (the caller's promise).
                let word = unsafe {
                    let theirs = view::<V>(theirs.of.word).ok_or(EraseError::Splits)?;
                    let both = |range, ours: Ref<'_, V>| resolve(range, ours, theirs);
                    merging.made.remake(ours.of.word, a..=last, both)
                }?;
                push(&mut merging.builder, a, last, word)?;
                one.pass(last, &mut merging.covered)?;
                two.pass(last, &mut merging.covered)?;
                continue;
            }
            (Some(a), Some(b)) if b < a => (&mut two, Some(a)),
            (Some(_), b) => (&mut one, b),
            (None, Some(_)) => (&mut two, None),
        };
        // SAFETY: the caller's promise.
        unsafe { merging.give(side, other, &mut split) }?;
    }
    Ok(merging.done())
}

/// A root of what of the entries of `tree` is within `first..=last`, and its height. An entry that reaches beyond is given to `split`, with the range of
/// its part within, for another value, which is `made`.
///
/// On success the words of the entries that are within are in both trees.
///
/// # Safety
///
/// Nobody writes the tree meanwhile, and its words are values of `V`.
pub(crate) unsafe fn part_within<K: Key, V: Value, S: Shape, A: NodeAlloc>(
    tree: &RawTree<K, S>,
    bounds: (K, K),
    alloc: &A,
    made: &mut Made<V>,
    mut split: impl FnMut(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
) -> Result<(Word, u32), EraseError> {
    part(tree, bounds, alloc, |found, range| {
        if range == (found.first..=found.last) {
            return Ok(found.word);
        }
        // SAFETY: words in the tree are values, and nobody writes it (the caller's promise).
        unsafe { made.remake(found.word, range, &mut split) }
    })
}

/// As [`part_within`], from `key` on, with values that `copy` makes of all entries, so that no word is in both trees.
///
/// # Safety
///
/// As for [`part_within`].
pub(crate) unsafe fn upper_copies<K: Key, V: Value, S: Shape, A: NodeAlloc>(
    tree: &RawTree<K, S>,
    key: K,
    alloc: &A,
    mut copy: impl FnMut(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
) -> Result<(Word, u32), EraseError> {
    let mut made = Made::<V>::new();
    let root = part(tree, (key, K::MAX), alloc, |found, range| {
        // SAFETY: as in `part_within`.
        unsafe { made.remake(found.word, range, &mut copy) }
    })?;
    made.keep();
    Ok(root)
}

/// A root of what `word` makes of the entries that intersect bounds, and of their ranges within.
fn part<K: Key, S: Shape, A: NodeAlloc>(
    tree: &RawTree<K, S>,
    (first, last): (K, K),
    alloc: &A,
    mut word: impl FnMut(Found<K>, RangeInclusive<K>) -> Result<Word, EraseError>,
) -> Result<(Word, u32), EraseError> {
    let mut builder = Builder::<K, S, A, _>::new(tree.inner_kind(), alloc, |_| {});
    let mut entries = Traverse::<K, S>::new(Some((first, last)));
    while let Some(found) = entries.next(tree) {
        let (first, last) = (found.first.max(first), found.last.min(last));
        push(&mut builder, first, last, word(found, first..=last)?)?;
    }
    Ok(builder.root())
}

/// Adds an entry, which comes in order.
fn push<K: Key, S: Shape, A: NodeAlloc, D: FnMut(Word)>(
    builder: &mut Builder<'_, K, S, A, D>,
    first: K,
    last: K,
    word: Word,
) -> Result<(), EraseError> {
    builder
        .push(first, last, word)
        .map_err(|refused| match refused {
            Refused::Alloc => EraseError::Alloc,
            Refused::Order => {
                debug_assert!(false, "entries of a tree come in order");
                EraseError::Alloc
            }
        })
}

/// Nodes reserved for a write that comes later, given back if it does not come.
pub(crate) struct Set<'a, A: NodeAlloc> {
    reserve: Reserve,
    alloc: &'a A,
}

impl<'a, A: NodeAlloc> Set<'a, A> {
    /// Reserves `nodes` nodes.
    pub(crate) fn aside(nodes: usize, alloc: &'a A) -> Result<Self, AllocError> {
        let reserve = Reserve::of(nodes, alloc)?;
        Ok(Self { reserve, alloc })
    }

    /// The nodes, for the write.
    pub(crate) fn take(mut self) -> Reserve {
        mem::replace(&mut self.reserve, Reserve::new())
    }
}

impl<A: NodeAlloc> Drop for Set<'_, A> {
    fn drop(&mut self) {
        self.reserve.release(self.alloc);
    }
}
