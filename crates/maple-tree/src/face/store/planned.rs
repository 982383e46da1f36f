//! Writes for whoever keeps nodes: planned, reserved for, and carried out.

use crate::alloc::Reserve;
use crate::base::{Key, Shape};
use crate::node::{RawTree, Word};
use crate::read::Spot;
use crate::write::plan::Action;
use crate::write::{Plan, Quick, Room, Sink, SlotAt};

/// A planned write. It holds for as long as the tree is not changed.
pub(crate) struct Planned<K, S> {
    pub(crate) way: Way<K, S>,
    /// How many nodes it takes.
    pub(crate) nodes: usize,
    /// Whether leaves come, go, or get other bounds. If not, what was remembered of a leaf stays true, and the leaf is still in the tree.
    pub(crate) moves_leaves: bool,
}

/// How to carry it out.
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
                moves_leaves: !quick.is_exact() && (rcu || quick.room != Room::Here),
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

    /// The slot that the range becomes, or is in, and its leaf, if that is known without another look.
    #[inline]
    pub(crate) fn stands(&self) -> Option<(Spot<K, S>, usize)> {
        match &self.way {
            Way::Quick(quick) if !self.moves_leaves => {
                Some((quick.spot, quick.from + usize::from(quick.head)))
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
                Way::Quick(quick) => tree.apply_quick(quick, reserve, sink),
                Way::General(plan) => tree.apply(plan, reserve, sink),
            }
        }
        assert!(
            before - reserve.count() == self.nodes,
            "a write used another number of nodes than was counted"
        );
    }
}
