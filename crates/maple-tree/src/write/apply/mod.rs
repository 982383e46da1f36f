//! Applying a plan. Nothing here can fail: the plan's nodes have been reserved.

mod retire;
// Only for bindings to other languages, which the model checker does not see.
#[cfg(not(samara_loom))]
mod dismantle;
mod fill;
mod rebuild;
mod removed;

use crate::alloc::Reserve;
use crate::base::{Key, Shape};
use crate::node::{Kind, NULL, RawTree, Root, Word};
use crate::write::apply::fill::Fill;
use crate::write::{Action, Plan, Sink};

#[cfg(not(samara_loom))]
pub(crate) use dismantle::dismantle;
pub(super) use rebuild::{build, root_of, splice};
pub(crate) use removed::Removed;
pub(crate) use retire::retire_subtree;

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Applies a plan, and hands what it removed to `sink`.
    ///
    /// # Safety
    ///
    /// * The caller is the only writer, and the tree has not changed since `plan` was made.
    /// * `reserve` holds at least `plan.nodes` nodes.
    /// * Unless the tree is in RCU mode, nothing reads it during the call.
    /// * `plan`'s word is NULL, or valid in this tree.
    pub(crate) unsafe fn apply(
        &self,
        plan: &Plan<K, S>,
        reserve: &mut Reserve,
        sink: &mut impl Sink<K>,
    ) {
        let before = reserve.count();
        debug_assert!(
            before >= plan.nodes,
            "fewer nodes were reserved than planned"
        );
        #[cfg(feature = "tracing")]
        let watch = crate::write::watch::Watch::new(self, plan);
        let (nodes, gone) = (plan.nodes, (plan.first, plan.last));
        // SAFETY: the caller's promise.
        let unread = unsafe { self.unread() };
        match plan.action {
            Action::Nothing => {}
            Action::RootWord(word) => self.put_root((word, 0), plan.first, sink),
            Action::RootLeaf => {
                let leaf = Fill::<K, S>::root(Kind::Leaf, &plan.items, reserve);
                self.put_root((leaf, 1), plan.first, sink);
            }
            Action::Clear(old) => {
                self.publish_root(NULL, 0);
                retire_subtree(old, K::MIN, K::MAX, gone, sink);
            }
            Action::Leaf(ref span) => {
                let inner = self.inner_kind();
                rebuild::in_place(span, &plan.items, gone, sink, unread, inner);
            }
            Action::Rebuild(span) => {
                rebuild::apply(self, span, &plan.items, gone, reserve, sink, unread);
            }
        }
        assert!(
            before - reserve.count() == nodes,
            "a write used {} nodes, its plan counted {nodes}",
            before - reserve.count(),
        );
        #[cfg(feature = "tracing")]
        watch.made(self);
    }

    /// Stores a word, or NULL, in the root of a tree without nodes, with the matching height. A
    /// write that starts (`first`) at index 0 replaces the existing entry.
    fn put_root(&self, (word, height): (Word, u32), first: K, sink: &mut impl Sink<K>) {
        let old = self.root();
        self.publish_root(word, height);
        if let Root::Single(entry) = old
            && first == K::MIN
        {
            sink.entry(K::MIN, K::MIN, entry);
        }
    }
}
