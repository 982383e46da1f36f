//! Two trees made one, and one made two: the entries are gone through in order, and new trees are built from them. The old ones are not
//! changed, so that a failure needs no undoing.

use core::marker::PhantomData;
use core::mem;
use core::ops::RangeInclusive;
use core::ptr::NonNull;
use std_alloc::vec::Vec;

use crate::alloc::{AllocError, NodeAlloc, Reserve};
use crate::base::{EraseError, Key, Ref, Shape, Value};
use crate::face::look_ups::view;
use crate::node::{RawTree, Word};
use crate::read::Found;
use crate::read::iterate::by_entry::Traverse;
use crate::write::build::{Builder, Refused};

/// Values that were made on the way, dropped again unless the whole succeeds.
pub(crate) struct Made<V: Value>(Vec<Twin<V>>);

/// One of them, as its word.
struct Twin<V: Value> {
    raw: NonNull<()>,
    marker: PhantomData<V>,
}

impl<V: Value> Drop for Twin<V> {
    fn drop(&mut self) {
        // SAFETY: made by `take`, and stored nowhere that is used.
        drop(unsafe { V::from_raw(self.raw) });
    }
}

impl<V: Value> Made<V> {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    /// Takes a value, and gives its word, which is not to be stored unless these are [kept](Made::keep).
    pub(crate) fn take(&mut self, value: V) -> Result<Word, EraseError> {
        self.0.try_reserve(1).map_err(|_| EraseError::Alloc)?;
        let raw = value.into_raw();
        self.0.push(Twin {
            raw,
            marker: PhantomData,
        });
        Ok(raw.as_ptr())
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

impl<K: Key> Piece<K> {
    fn whole(of: Found<K>) -> Self {
        Self {
            first: of.first,
            last: of.last,
            of,
            used: false,
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
    let mut covered = Vec::new();
    let mut made = Made::<V>::new();
    // What the builder gives up belongs to the old trees, or is `made`.
    let mut builder = Builder::<K, S, A, _>::new(lower.inner_kind(), alloc, |_| {});
    let mut below = Traverse::<K, S>::new(Some((K::MIN, K::MAX)));
    let mut above = Traverse::<K, S>::new(Some((K::MIN, K::MAX)));
    let mut piece = below.next(lower).map(Piece::whole);
    loop {
        let over = above.next(upper);
        // What lies below `over`, or all that is left.
        while let Some(at) = &mut piece {
            let last = match over.and_then(|over| over.first.predecessor()) {
                _ if over.is_none() => at.last,
                Some(before) if at.first <= before => at.last.min(before),
                _ => break,
            };
            let word = if at.used {
                // SAFETY: words in the tree are values, and nobody writes it (the caller's promise).
                let value = unsafe { view::<V>(at.of.word) }.ok_or(EraseError::Splits)?;
                made.take(split(at.first..=last, value).ok_or(EraseError::Splits)?)?
            } else {
                at.of.word
            };
            push(&mut builder, at.first, last, word)?;
            at.used = true;
            if last < at.last {
                at.first = last.wrapping_add(K::ONE);
                break;
            }
            piece = below.next(lower).map(Piece::whole);
        }
        let Some(over) = over else { break };
        // What `over` covers.
        while let Some(at) = &mut piece
            && at.first <= over.last
        {
            if over.last < at.last {
                at.first = over.last.wrapping_add(K::ONE);
                break;
            }
            if !at.used {
                covered.try_reserve(1).map_err(|_| EraseError::Alloc)?;
                covered.push(at.of);
            }
            piece = below.next(lower).map(Piece::whole);
        }
        push(&mut builder, over.first, over.last, over.word)?;
    }
    let (root, height) = builder.root();
    made.keep();
    Ok(Merged {
        root,
        height,
        covered,
    })
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
        side.piece = side.entries.next(tree).map(Piece::whole);
        side
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
        self.piece = self.entries.next(self.tree).map(Piece::whole);
        Ok(())
    }
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
    let mut covered = Vec::new();
    let mut made = Made::<V>::new();
    // What the builder gives up belongs to the old trees, or is `made`.
    let mut builder = Builder::<K, S, A, _>::new(one.inner_kind(), alloc, |_| {});
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
                let views = unsafe { (view::<V>(ours.of.word), view::<V>(theirs.of.word)) };
                let value = match views {
                    (Some(ours), Some(theirs)) => resolve(a..=last, ours, theirs),
                    _ => None,
                };
                let word = made.take(value.ok_or(EraseError::Splits)?)?;
                push(&mut builder, a, last, word)?;
                one.pass(last, &mut covered)?;
                two.pass(last, &mut covered)?;
                continue;
            }
            (Some(a), Some(b)) if b < a => (&mut two, a.predecessor()),
            (Some(_), b) => (&mut one, b.and_then(K::predecessor)),
            (None, Some(_)) => (&mut two, None),
        };
        let Some(piece) = &mut side.piece else { break };
        // Up to where the other begins.
        let (first, last) = (
            piece.first,
            other.map_or(piece.last, |end| piece.last.min(end)),
        );
        let word = if piece.used {
            // SAFETY: as above.
            let value = unsafe { view::<V>(piece.of.word) }.ok_or(EraseError::Splits)?;
            made.take(split(first..=last, value).ok_or(EraseError::Splits)?)?
        } else {
            piece.of.word
        };
        push(&mut builder, first, last, word)?;
        piece.used = true;
        side.pass(last, &mut covered)?;
    }
    let (root, height) = builder.root();
    made.keep();
    Ok(Merged {
        root,
        height,
        covered,
    })
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
    (first, last): (K, K),
    alloc: &A,
    made: &mut Made<V>,
    mut split: impl FnMut(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
) -> Result<(Word, u32), EraseError> {
    let mut builder = Builder::<K, S, A, _>::new(tree.inner_kind(), alloc, |_| {});
    let mut entries = Traverse::<K, S>::new(Some((first, last)));
    while let Some(found) = entries.next(tree) {
        let range = (found.first.max(first), found.last.min(last));
        let word = if range == (found.first, found.last) {
            found.word
        } else {
            // SAFETY: words in the tree are values, and nobody writes it (the caller's promise).
            let value = unsafe { view::<V>(found.word) }.ok_or(EraseError::Splits)?;
            made.take(split(range.0..=range.1, value).ok_or(EraseError::Splits)?)?
        };
        push(&mut builder, range.0, range.1, word)?;
    }
    Ok(builder.root())
}

/// A root of the entries of `tree` from `key` on, and its height. An entry that begins before `key` is given to `split`, with the range of its
/// part from `key` on, for another value.
///
/// On success the words of the entries that begin at `key` or later are in both trees.
///
/// # Safety
///
/// Nobody writes the tree meanwhile, and its words are values of `V`.
pub(crate) unsafe fn upper_part<K: Key, V: Value, S: Shape, A: NodeAlloc>(
    tree: &RawTree<K, S>,
    key: K,
    alloc: &A,
    split: impl FnOnce(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
) -> Result<(Word, u32), EraseError> {
    // Only the first entry can begin before `key`.
    let mut split = Some(split);
    // SAFETY: nobody writes the tree, and words in it are values (the caller's promise).
    unsafe {
        part(tree, key, alloc, |found, made: &mut Made<V>| {
            if found.first >= key {
                return Ok(found.word);
            }
            let value = view::<V>(found.word);
            let twin = split
                .take()
                .zip(value)
                .and_then(|(split, value)| split(key..=found.last, value));
            made.take(twin.ok_or(EraseError::Splits)?)
        })
    }
}

/// As [`upper_part`], with values that `copy` makes of all entries, so that no word is in both trees.
///
/// # Safety
///
/// As for [`upper_part`].
pub(crate) unsafe fn upper_copies<K: Key, V: Value, S: Shape, A: NodeAlloc>(
    tree: &RawTree<K, S>,
    key: K,
    alloc: &A,
    mut copy: impl FnMut(RangeInclusive<K>, Ref<'_, V>) -> Option<V>,
) -> Result<(Word, u32), EraseError> {
    // SAFETY: nobody writes the tree, and words in it are values (the caller's promise).
    unsafe {
        part(tree, key, alloc, |found, made: &mut Made<V>| {
            let value = view::<V>(found.word).ok_or(EraseError::Splits)?;
            let range = found.first.max(key)..=found.last;
            made.take(copy(range, value).ok_or(EraseError::Splits)?)
        })
    }
}

/// A root of what `word` makes of the entries from `key` on.
///
/// # Safety
///
/// Nobody writes the tree meanwhile.
unsafe fn part<K: Key, V: Value, S: Shape, A: NodeAlloc>(
    tree: &RawTree<K, S>,
    key: K,
    alloc: &A,
    mut word: impl FnMut(Found<K>, &mut Made<V>) -> Result<Word, EraseError>,
) -> Result<(Word, u32), EraseError> {
    let mut made = Made::<V>::new();
    let mut builder = Builder::<K, S, A, _>::new(tree.inner_kind(), alloc, |_| {});
    let mut entries = Traverse::<K, S>::new(Some((key, K::MAX)));
    while let Some(found) = entries.next(tree) {
        let word = word(found, &mut made)?;
        push(&mut builder, found.first.max(key), found.last, word)?;
    }
    let root = builder.root();
    made.keep();
    Ok(root)
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
        let mut set = Self {
            reserve: Reserve::new(),
            alloc,
        };
        set.reserve.fill(nodes, alloc)?;
        Ok(set)
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
