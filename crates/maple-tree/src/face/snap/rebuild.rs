//! A write that replaces nodes, level by level.
//!
//! The leaves that take part are replaced by new ones, which are the items of the same step one level up, until a node that is owned has
//! room for them, or a new root is there. Where a node that takes part is owned, what stays of it *moves* (its old slot becomes NULL);
//! where it is shared, it is *copied*: values are made once more, counts of children raised.
//!
//! Replaced nodes are not taken apart one by one: they hang on to what they always hung on, which is in the end one node changed in place, or
//! the old root. What is taken out there is [released](super::release), and with it all below that nobody else leads to; slots
//! whose contents have moved are empty by then.

use core::ptr::NonNull;

use crate::alloc::{AllocError, NodeAlloc, Reserve};
use crate::base::{Duplicate, Key, Shape};
use crate::face::snap::level::{Kept, Level, count_nodes, tell_ancestors};
use crate::face::snap::new::{Failure, New};
use crate::face::snap::path::{Path, Step};
use crate::face::snap::prepare::Ready;
use crate::face::snap::release::Removed;
use crate::face::snap::rewrite::{Edit, Rewrite};
use crate::node::{Kind, NULL, Root, Word, prefetch};
use crate::write::apply::{Counts, Fill, splice};
use crate::write::holes::largest_below;
use crate::write::{Item, Items};

/// A write that replaces nodes, as it has been planned.
struct Plan<'p, K, S> {
    left: &'p mut Path<K, S>,
    right: &'p mut Path<K, S>,
    edit: &'p Edit<K>,
    /// The leaves.
    level: Level<K, S>,
    /// The value of the first slot stays; that of the last slot does.
    keeps: (bool, bool),
    /// The slot of an entry whose value is handed out.
    taken: Option<Step<K, S>>,
}

impl<K: Key, S: Shape, A: NodeAlloc> Rewrite<'_, K, S, A> {
    /// Replaces the nodes from where `left` leads to where `right` does.
    ///
    /// # Safety
    ///
    /// As [`put`](Self::put).
    pub(super) unsafe fn rebuild<V: Duplicate, N: New<V>>(
        &self,
        left: &mut Path<K, S>,
        right: &mut Path<K, S>,
        edit: &Edit<K>,
        new: N,
        twin: Option<V>,
        taken: Option<Step<K, S>>,
    ) -> Result<Option<V>, (Failure, N)> {
        let plan = Plan {
            level: Level::of(0, left, right, edit.count()),
            keeps: (edit.head.is_some(), edit.tail.is_some() && twin.is_none()),
            left,
            right,
            edit,
            taken,
        };
        let mut ready = Ready::new(self.alloc);
        // SAFETY: the caller's promise.
        match unsafe { self.prepare(&plan, &mut ready) } {
            Ok(()) => {
                let word = new.into_word();
                // SAFETY: the caller's promise; nothing has changed since.
                Ok(unsafe { self.carry_out(plan, ready, word, twin) })
            }
            Err(AllocError) => {
                // Here, and not on return: if it panics, what is to be given back is dropped.
                drop((ready, twin));
                Err((Failure::Alloc, new))
            }
        }
    }

    /// Nodes, and the values that stay in shared leaves once more, in the order in which they are used.
    ///
    /// # Safety
    ///
    /// As [`put`](Self::put).
    unsafe fn prepare<V: Duplicate>(
        &self,
        plan: &Plan<'_, K, S>,
        ready: &mut Ready<'_, V, A>,
    ) -> Result<(), AllocError> {
        let level = &plan.level;
        let (l, r) = (&level.left, &level.right);
        let nodes = count_nodes(level, plan.left, plan.right);
        ready.nodes(nodes)?;
        // SAFETY: words in the tree are values, and it is exclusively borrowed.
        unsafe {
            if let Some(step) = plan.taken
                && !step.owned
            {
                ready.duplicate(step.node.slot(step.slot))?;
            }
            if !l.owned && plan.keeps.0 {
                ready.duplicate(l.node.slot(l.slot))?;
            }
            if !r.owned && plan.keeps.1 {
                ready.duplicate(r.node.slot(r.slot))?;
            }
            ready.duplicate_kept(level)
        }
    }

    /// Changes the tree. Nothing fails here.
    ///
    /// # Safety
    ///
    /// As [`put`](Self::put); `ready` is what has been prepared for this plan, and the tree has not changed since.
    unsafe fn carry_out<V: Duplicate>(
        &self,
        plan: Plan<'_, K, S>,
        mut ready: Ready<'_, V, A>,
        word: Word,
        twin: Option<V>,
    ) -> Option<V> {
        let Plan {
            left,
            right,
            edit,
            mut level,
            keeps,
            taken,
        } = plan;
        let mut moved = |step: &Step<K, S>| {
            let word = step.node.slot(step.slot);
            if step.owned {
                // SAFETY: the leaf is owned: nobody else sees it. Its value moves.
                unsafe { step.node.write() }.set_slot(step.slot, NULL);
                word
            } else {
                ready.next(word)
            }
        };
        let out = taken.map_or(NULL, |step| moved(&step));
        let head = if keeps.0 { moved(&level.left) } else { NULL };
        let tail = if keeps.1 { moved(&level.right) } else { NULL };
        let tail = twin.map_or(tail, |value| value.into_raw().as_ptr());
        let mut items = edit.items(head, word, tail);
        let mut removed = Removed::new();
        let mut at = 0;
        loop {
            if level.parts == 0 {
                change_in_place(left, at, level.right.slot, &items, &mut removed);
                break;
            }
            items = build(&level, &items, &mut ready);
            at += 1;
            if level.whole {
                if let Root::Node(old) = self.raw.root() {
                    removed.push(old.word());
                }
                let root = new_root::<K, S>(&items, self.raw.inner_kind(), &mut ready.reserve);
                let height = at + usize::from(items.as_slice().len() > 1);
                self.raw.publish_root(root, height as u32);
                break;
            }
            level = Level::of(at, left, right, items.as_slice().len());
        }
        ready.assert_used_up();
        drop(ready);
        // SAFETY: it is no longer in the tree, or was made for this. It is a value again before anything is dropped, which may panic.
        let out = NonNull::new(out).map(|raw| unsafe { V::from_raw(raw) });
        // SAFETY: counts that the tree owned and that it does not lead to any more; what moved is not in these nodes now.
        unsafe { removed.release::<K, V, S, A>(false, self.alloc) };
        out
    }
}

/// Replaces slots of an owned inner node, and notes what was there.
fn change_in_place<K: Key, S: Shape>(
    path: &Path<K, S>,
    level: usize,
    to: usize,
    items: &Items<K>,
    removed: &mut Removed,
) {
    let step = path.at(level);
    let node = step.node;
    for i in step.slot..=to {
        removed.push(node.slot(i));
    }
    // SAFETY: the node is owned: nobody else sees it.
    splice(unsafe { node.write() }, step.slot, to, items.as_slice());
    if node.kind() == Kind::Gap {
        tell_ancestors(path, level, largest_below(node));
    }
}

/// Builds the new nodes of a level.
fn build<K: Key, S: Shape, V: Duplicate, A: NodeAlloc>(
    level: &Level<K, S>,
    items: &Items<K>,
    ready: &mut Ready<'_, V, A>,
) -> Items<K> {
    let (min, max) = level.bounds();
    let kind = level.kind();
    let mut reserve = core::mem::replace(&mut ready.reserve, Reserve::new());
    let mut fill = Fill::<K, S, _>::counted(kind, level.sizes(), min, &mut reserve);
    let mut keep = |fill: &mut Fill<'_, K, S, Counts>, (step, slots): Kept<K, S>| {
        let node = step.node;
        if !step.owned && !kind.is_leaf() {
            // Raising waits for the memory each time, reading does not: let all come at once.
            for i in slots.clone() {
                prefetch::first_line(node.slot(i));
            }
        }
        for i in slots {
            let mut word = node.slot(i);
            if step.owned {
                // SAFETY: the node is owned: nobody else sees it. What the slot holds moves.
                unsafe { node.write() }.set_slot(i, NULL);
            } else if kind.is_leaf() {
                word = ready.next(word);
            } else {
                node.child(i).raise();
            }
            fill.push(Item {
                word,
                last: node.last(i, step.max),
                gap: if kind == Kind::Gap {
                    node.gap(i)
                } else {
                    K::MIN
                },
            });
        }
    };
    level.kept_before().for_each(|kept| keep(&mut fill, kept));
    for &item in items.as_slice() {
        fill.push(item);
    }
    level.kept_after().for_each(|kept| keep(&mut fill, kept));
    let done = fill.finish();
    debug_assert!(done.as_slice().last().is_some_and(|item| item.last == max));
    ready.reserve = reserve;
    done
}

/// The one node that there is, or a new one above several.
fn new_root<K: Key, S: Shape>(items: &Items<K>, inner: Kind, reserve: &mut Reserve) -> Word {
    if let [only] = *items.as_slice() {
        return only.word;
    }
    let sizes = [items.as_slice().len(), 0, 0];
    let mut fill = Fill::<K, S, _>::counted(inner, sizes, K::MIN, reserve);
    for &item in items.as_slice() {
        fill.push(item);
    }
    fill.finish()
        .as_slice()
        .first()
        .map_or(NULL, |item| item.word)
}
