//! The common part of the maps' writes: from values to words, through plan, reserve and apply, and
//! back to values on failure.
//!
//! Here are those to a hole, and to an entry as a whole, what is stored where, and how those write that keep nodes; [`split`] has those to a range, over what is
//! there, which may lie within an entry.

mod split;

use core::ops::RangeInclusive;
use core::ptr::NonNull;

use crate::alloc::{AllocError, Reserve};
use crate::api::{Host, view};
use crate::base::{InsertError, Key, Offset, Ref, Shape, StoreError, Value};
use crate::node::{NULL, RawTree, Word};
use crate::read::{Found, GapRequest, LeafPath};
use crate::write::{Action, Hint, Plan, Quick, Rebalance, Sink, SlotAt};

pub(crate) use split::{Held, erase, not_stored, store, store_splitting};

/// Stores into a hole.
pub(crate) fn insert<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    range: Option<(K, K)>,
    value: V,
) -> Result<(), InsertError<V>> {
    let Some((first, last)) = range else {
        return Err(InsertError::EmptyRange(value));
    };
    let at = host.tree().slot_at(first);
    if match &at {
        Some(at) => !at.is_hole_around(last),
        None => !host.tree().load(first).is_null(),
    } {
        return Err(InsertError::Occupied(value));
    }
    let raw = value.into_raw();
    match at {
        Some(at) if host.fill_hole(at, (first, last), raw) => Ok(()),
        at => insert_at(host, at, (first, last), raw),
    }
    // SAFETY: made just now; a write that fails stores nothing.
    .map_err(|AllocError| InsertError::Alloc(unsafe { V::from_raw(raw) }))
}

/// Stores into the hole that a slot is. A call, which takes nothing from writes that take no node.
#[inline(never)]
fn insert_at<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    at: Option<SlotAt<K, S>>,
    range: (K, K),
    raw: NonNull<()>,
) -> Result<(), AllocError> {
    host.write_at(at, range, raw.as_ptr(), None, |_, _, _| {})
}

/// The range and the word of an entry that is no longer in a tree.
type Removed<K> = (RangeInclusive<K>, NonNull<()>);

/// Removes the whole entry at `key`; gives its range and its word, which the host has not discarded.
pub(crate) fn remove<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    key: K,
) -> Result<Option<Removed<K>>, AllocError> {
    let at = host.tree().slot_at(key);
    // What it was is known here: coming back through memory, in larger pieces than it was stored in, it would wait for all that the write has stored.
    let Found { first, last, word } = at.map_or_else(|| host.tree().lookup(key), |at| at.found);
    let Some(raw) = NonNull::new(word) else {
        return Ok(None);
    };
    if !at.is_some_and(|at| host.vacate(at, false, |_, _, _| {})) {
        host.write_at(at, (first, last), NULL, None, |_, _, _| {})?;
    }
    Ok(Some((first..=last, raw)))
}

/// Exchanges the word of the entry at `key` for that of a value; gives the old one, which the host has not discarded. An error has the value.
pub(crate) fn replace<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    key: K,
    new: NonNull<()>,
) -> Result<NonNull<()>, V> {
    let done = match host.tree().slot_at(key) {
        Some(at) => NonNull::new(at.found.word).inspect(|_| host.exchange(at, new, |_, _, _| {})),
        None => {
            let Found { first, last, word } = host.tree().lookup(key);
            NonNull::new(word).filter(|_| {
                let done = host.write_at(None, (first, last), new.as_ptr(), None, |_, _, _| {});
                done.is_ok()
            })
        }
    };
    // SAFETY: made just now, and not stored.
    done.ok_or_else(|| unsafe { V::from_raw(new) })
}

/// Lets the entry at `key` grow over others. `Ok(false)` if there is none, or it would not grow.
pub(crate) fn grow<K: Key, V: Value, S: Shape, H: Host<K, V, S>>(
    host: &mut H,
    key: K,
    range: Option<(K, K)>,
    mut taken: impl FnMut(K, K, Word),
) -> Result<bool, AllocError> {
    let Some((first, last)) = range else {
        return Ok(false);
    };
    let at = host.tree().slot_at(first);
    // Mostly the leaf in which the range begins holds the entry, too.
    let found = match at {
        Some(at) if first <= key && key <= at.path.place.max => at.path.place.at(key),
        _ => host.tree().lookup(key),
    };
    if found.word.is_null() || found.first < first || last < found.last {
        return Ok(false);
    }
    let (range, words) = ((first, last), (found.word, NULL));
    if let Some(at) = at
        && host.store_here_apart(&Hint::of(&at), range, words, Some(found), true, &mut taken)
    {
        return Ok(true);
    }
    host.write_apart(at, range, found.word, Some(found.first), taken)?;
    Ok(true)
}

/// Returns `true` if a range is free.
pub(crate) fn is_free<K: Key, S: Shape>(tree: &RawTree<K, S>, (first, last): (K, K)) -> bool {
    let found = tree.lookup(first);
    found.word.is_null() && last <= found.last
}

/// Returns a range, and whole entries that touch it, or reach into it from outside, and are the
/// same as `value`: stored there, it makes one entry of all. And the value back.
pub(crate) fn joined<K: Key, V: Value, S: Shape>(
    tree: &RawTree<K, S>,
    range: Option<(K, K)>,
    value: V,
    mut same: impl for<'x> FnMut(Ref<'x, V>, Ref<'x, V>) -> bool,
) -> Result<(RangeInclusive<K>, V), StoreError<V>> {
    let Some((first, last)) = range else {
        return Err(StoreError::EmptyRange(value));
    };
    let held = Held::<V>::new(value);
    let mut same_at = |key: Option<K>| {
        let found = tree.lookup(key?);
        // SAFETY: words in the tree are values, and the tree is not changed during the call.
        let there = unsafe { view::<V>(found.word) }?;
        same(there, held.view()).then_some(found)
    };
    let before = same_at(first.predecessor());
    let after = same_at(last.successor());
    let first = before.map_or(first, |found| found.first);
    let last = after.map_or(last, |found| found.last);
    Ok((first..=last, held.into_value()))
}

/// Returns the gap of `size` indices within `bounds` that `search` finds, as a range, and the value
/// that will be stored there.
pub(crate) fn place<K: Key, V>(
    bounds: Option<(K, K)>,
    size: K::Size,
    value: V,
    search: impl FnOnce(&GapRequest<K>) -> Option<K>,
) -> Result<((K, K), V), InsertError<V>> {
    let Some(want) = bounds.and_then(|bounds| GapRequest::new(bounds, size)) else {
        return Err(InsertError::EmptyRange(value));
    };
    match search(&want) {
        Some(first) => Ok(((first, want.last(first)), value)),
        None => Err(InsertError::Occupied(value)),
    }
}

/// Returns the lowest free index at or after `next` within `bounds`, or else the lowest before it,
/// with a flag that says if the search started over, and the value that will be stored there.
/// `search` finds the lowest.
pub(crate) fn place_cyclic<K: Key, V>(
    bounds: Option<(K, K)>,
    next: K,
    value: V,
    search: impl Fn(&GapRequest<K>) -> Option<K>,
) -> Result<((K, bool), V), InsertError<V>> {
    let Some((lo, hi)) = bounds else {
        return Err(InsertError::EmptyRange(value));
    };
    let free = |lo, hi| search(&GapRequest::new((lo, hi), K::ONE.number())?);
    let from = next.max(lo);
    if let Some(key) = (from <= hi).then(|| free(from, hi)).flatten() {
        return Ok(((key, false), value));
    }
    match free(lo, hi) {
        Some(key) => Ok(((key, true), value)),
        None => Err(InsertError::Occupied(value)),
    }
}

/// A planned write. It holds for as long as the tree is not changed.
pub struct Planned<K, S> {
    pub(crate) way: Way<K, S>,
    /// The number of nodes that it takes.
    pub nodes: usize,
    /// `true` if leaves are added, removed, or get other bounds. Otherwise a remembered leaf is
    /// still in the tree, with the same bounds.
    pub moves_leaves: bool,
}

/// The way to carry it out.
pub(crate) enum Way<K, S> {
    Quick(Quick<K, S>),
    General(Plan<K, S>),
}

impl<K: Key, S: Shape> Planned<K, S> {
    /// Plans to make a range hold `word`; NULL erases. It begins in the slot `at`, if the tree has nodes.
    pub(crate) fn new(
        tree: &RawTree<K, S>,
        at: Option<SlotAt<K, S>>,
        (first, last): (K, K),
        word: Word,
    ) -> Self {
        let quick = at.and_then(|at| {
            if at.is_hole_around(last) && !word.is_null() {
                tree.try_fill_at(at, (first, last), word)
            } else {
                tree.try_store_at(at, (first, last), word)
            }
        });
        if let Some(quick) = quick {
            let rcu = tree.in_rcu();
            return Self {
                nodes: quick.nodes(rcu),
                moves_leaves: !quick.is_exact() && (rcu || quick.rebalance != Rebalance::None),
                way: Way::Quick(quick),
            };
        }
        let plan = tree.plan_store(first, last, word);
        Self {
            nodes: plan.nodes,
            moves_leaves: !matches!(plan.action, Action::Nothing | Action::Leaf(_)),
            way: Way::General(plan),
        }
    }

    /// Returns the slot that the range becomes, or is in, and its leaf, if that is known without
    /// another look.
    #[inline]
    pub(crate) fn stands(&self) -> Option<(LeafPath<K, S>, usize)> {
        match &self.way {
            Way::Quick(quick) if !self.moves_leaves => {
                Some((quick.path, quick.from + usize::from(quick.head)))
            }
            _ => None,
        }
    }

    /// Carries it out.
    ///
    /// # Safety
    ///
    /// As for [`RawTree::apply`]; `reserve` has the nodes.
    #[inline]
    pub(crate) unsafe fn carry_out(
        self,
        tree: &RawTree<K, S>,
        reserve: &mut Reserve,
        sink: &mut impl Sink<K>,
    ) {
        let before = reserve.count();
        // SAFETY: the caller's promise.
        unsafe {
            match self.way {
                Way::Quick(quick) => tree.apply_quick(&quick, NULL, reserve, sink),
                Way::General(plan) => tree.apply(&plan, reserve, sink),
            }
        }
        assert!(
            before - reserve.count() == self.nodes,
            "a write used another number of nodes than was counted"
        );
    }
}
