//! Visiting a few entries, from a key upwards, within one call: without the state that an iterator
//! keeps between its steps.

use core::ops::ControlFlow;

use crate::base::{Key, Offset, Shape};
use crate::node::RawTree;
use crate::read::{Found, descend};

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Calls `show` with the entry at `key`, if there is one, and those after it, upwards, until
    /// `show` breaks.
    ///
    /// Under a concurrent writer, each leaf is read when the walk comes to it. The next leaf is
    /// above all entries visited before.
    #[inline(always)]
    pub(crate) fn visit_up<B>(
        &self,
        key: K,
        mut show: impl FnMut(Found<K>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let mut key = key;
        loop {
            let Ok(root) = self.root().at(key) else {
                // Through a reference, because `show` is inlined where it has one caller.
                return self.visit_single(key, &mut show);
            };
            let place = descend(root, key);
            let end = place.leaf.end();
            let mut slot = place.leaf.search(key);
            let mut first = place.leaf.first(slot, place.min);
            loop {
                let last = place.leaf.last(slot, place.max);
                let word = place.leaf.slot(slot);
                if !word.is_null() {
                    show(Found { first, last, word })?;
                }
                if slot == end {
                    break;
                }
                first = last.wrapping_add(K::ONE);
                slot += 1;
            }
            match place.max.successor() {
                Some(next) => key = next,
                None => return ControlFlow::Continue(()),
            }
        }
    }

    /// Visits as [`visit_up`](Self::visit_up) does, in a tree without nodes.
    #[cold]
    fn visit_single<B>(
        &self,
        key: K,
        show: &mut dyn FnMut(Found<K>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let found = self.lookup(key);
        if found.word.is_null() {
            ControlFlow::Continue(())
        } else {
            show(found)
        }
    }
}
