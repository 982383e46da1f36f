//! Plans: what a write will do, and how many nodes it needs. Planning changes nothing.

use crate::base::{Key, Offset, Shape};
use crate::node::{NULL, Node, RawTree, Root, Word, is_node};
use crate::read::{BoundedLeaf, Found, descend};
use crate::write::level::Level;
use crate::write::{Item, Items, Span, StoreType};

pub(crate) struct Plan<K, S> {
    pub(crate) kind: StoreType,
    /// The exact number of nodes that [`RawTree::apply`] takes.
    pub(crate) nodes: usize,
    /// `true` if the range lies strictly within a stored entry, which will remain on both sides.
    pub(crate) splits: bool,
    /// A participating node that other trees may share: one of its indices, and its level above the
    /// leaves. Make it exclusive, and then [plan again](RawTree::plan_again). A plan with such a
    /// node must not be applied.
    pub(crate) shared: Option<(K, u32)>,
    pub(crate) action: Action<K, S>,
    /// The new slots, if `action` places any.
    pub(crate) items: Items<K>,
    /// The requested range. Entries within it are removed.
    pub(crate) first: K,
    pub(crate) last: K,
}

impl<K: Key, S> Plan<K, S> {
    /// Returns the plan of a write that changes nothing yet.
    fn new(kind: StoreType, first: K, last: K) -> Self {
        Self {
            kind,
            nodes: 0,
            splits: false,
            shared: None,
            action: Action::Nothing,
            items: Items::new(),
            first,
            last,
        }
    }

    /// Plans a leaf instead of a lone entry in the root, where the entry could not be shared.
    pub(crate) fn leave_root_to_nodes(&mut self) {
        if let Action::RootWord(_) = self.action {
            (self.action, self.nodes) = (Action::RootLeaf, 1);
        }
    }
}

pub(crate) enum Action<K, S> {
    Nothing,
    /// The root is empty or a single entry: store this word there.
    RootWord(Word),
    /// The root is empty or a single entry: store a leaf with the items there.
    RootLeaf,
    /// Nothing is left: empty the root, and drop all nodes.
    Clear(Node<K, S>),
    /// Replace slots of one leaf in place, or exchange the word of one of them.
    Leaf(Span<K, S>),
    /// Replace nodes, level by level.
    Rebuild(Span<K, S>),
}

/// The slots that a write to `first..=last` touches: from slot `from` of the leaf `left` to slot
/// `to` of the leaf `right`.
struct Touched<K, S> {
    left: BoundedLeaf<K, S>,
    from: usize,
    right: BoundedLeaf<K, S>,
    to: usize,
    first: K,
    last: K,
}

impl<K: Key, S: Shape> Touched<K, S> {
    #[inline(always)]
    fn new(root: Node<K, S>, first: K, last: K) -> Self {
        let left = descend(root, first);
        let from = left.leaf.search(first);
        let right = if last <= left.max {
            left
        } else {
            descend(root, last)
        };
        Self {
            left,
            from,
            right,
            to: right.leaf.search(last),
            first,
            last,
        }
    }

    /// Extends the range over the holes on both sides, also across the edges of leaves.
    #[inline(always)]
    fn extend_over_holes(&mut self, root: Node<K, S>) {
        let Self { left, right, .. } = *self;
        (self.from, self.first) = left.hole_to::<false>(self.from, self.first);
        if self.first == left.min && self.first != K::MIN && !left.leaf.slot(self.from).is_null() {
            let before = descend(root, self.first.wrapping_sub(K::ONE));
            let end = before.leaf.end();
            if before.leaf.slot(end).is_null() {
                (self.left, self.from, self.first) = (before, end, before.slot(end).first);
            }
        }
        (self.to, self.last) = right.hole_to::<true>(self.to, self.last);
        if self.last == right.max && self.last != K::MAX && !right.leaf.slot(self.to).is_null() {
            let after = descend(root, self.last.wrapping_add(K::ONE));
            if after.leaf.slot(0).is_null() {
                (self.right, self.to, self.last) = (after, 0, after.slot(0).last);
            }
        }
    }

    /// Returns the first touched slot.
    #[inline(always)]
    fn head(&self) -> Found<K> {
        self.left.slot(self.from)
    }

    /// Returns the last touched slot.
    #[inline(always)]
    fn tail(&self) -> Found<K> {
        self.right.slot(self.to)
    }

    #[inline(always)]
    fn span(&self) -> Span<K, S> {
        Span {
            left: self.left.leaf,
            from: self.from,
            right: self.right.leaf,
            to: self.to,
            min: self.left.min,
            max: self.right.max,
        }
    }
}

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Plans to store `word` at `first..=last`. NULL erases. `first` must not be above `last`.
    pub(crate) fn plan_store(&self, first: K, last: K, word: Word) -> Plan<K, S> {
        debug_assert!(first <= last);
        match self.root() {
            Root::Empty => self.plan_root(NULL, first, last, word),
            Root::Single(entry) => self.plan_root(entry, first, last, word),
            Root::Node(root) => self.plan_nodes(root, first, last, word),
        }
    }

    /// Plans a write into a tree without nodes. `entry` is the word at index 0.
    #[inline(never)]
    fn plan_root(&self, entry: Word, first: K, last: K, word: Word) -> Plan<K, S> {
        let mut plan = Plan::new(StoreType::Root, first, last);
        let mut put = |word: Word, last| {
            // Adjacent holes become one.
            if word.is_null()
                && let Some(before) = plan.items.last_mut()
                && before.word.is_null()
            {
                before.last = last;
            } else {
                plan.items.push(Item::of_leaf(word, last));
            }
        };
        if first > K::MIN {
            put(entry, K::MIN);
            if first > K::ONE {
                put(NULL, first.wrapping_sub(K::ONE));
            }
        }
        put(word, last);
        if last < K::MAX {
            put(NULL, K::MAX);
        }
        match *plan.items.as_slice() {
            [one] if one.word.is_null() => {
                if entry.is_null() {
                    plan.kind = StoreType::Nothing;
                } else {
                    plan.action = Action::RootWord(NULL);
                }
            }
            // A lone entry in the root must not look like a node.
            [one, rest] if one.last == K::MIN && rest.word.is_null() && !is_node(one.word) => {
                if first != K::MIN {
                    // A hole over a hole, above the entry.
                    plan.kind = StoreType::Nothing;
                } else {
                    plan.action = Action::RootWord(one.word);
                }
            }
            _ => {
                plan.action = Action::RootLeaf;
                plan.nodes = 1;
            }
        }
        plan
    }

    /// Plans a write into a tree with nodes.
    fn plan_nodes(&self, root: Node<K, S>, first: K, last: K, word: Word) -> Plan<K, S> {
        let mut plan = Plan::new(StoreType::Nothing, first, last);
        let mut touched = Touched::new(root, first, last);
        if word.is_null() {
            touched.extend_over_holes(root);
        }
        let (head, tail) = (touched.head(), touched.tail());
        if word.is_null() && head == tail && head.word.is_null() {
            return plan;
        }
        let span = touched.span();
        let Touched { first, last, .. } = touched;
        if head == tail && head.first == first && head.last == last {
            // A hole over all indices leaves an empty tree instead.
            if !(word.is_null() && first == K::MIN && last == K::MAX) {
                plan.kind = StoreType::ExactFit;
                plan.items.push(Item::of_leaf(word, last));
                plan.action = Action::Leaf(span);
                return plan;
            }
        }
        if head.first < first {
            let last = first.wrapping_sub(K::ONE);
            plan.items.push(Item::of_leaf(head.word, last));
        }
        plan.items.push(Item::of_leaf(word, last));
        if last < tail.last {
            plan.items.push(Item::of_leaf(tail.word, tail.last));
            plan.splits = head == tail && head.first < first && !head.word.is_null();
        }
        self.plan_levels(&mut plan, root, span);
        plan
    }

    /// Continues a plan that a [shared](Plan::shared) node stopped. That node is exclusive now.
    pub(crate) fn plan_again(&self, plan: &mut Plan<K, S>) {
        let (Root::Node(root), Action::Rebuild(span)) = (self.root(), &plan.action) else {
            debug_assert!(false, "only nodes are shared");
            return;
        };
        let span = *span;
        (plan.nodes, plan.shared) = (0, None);
        self.plan_levels(plan, root, span);
    }

    /// Counts the nodes of a change that starts with `span` of the leaves.
    #[inline(never)]
    fn plan_levels(&self, plan: &mut Plan<K, S>, root: Node<K, S>, span: Span<K, S>) {
        let inner = self.inner_kind();
        let cow = self.in_rcu();
        let one = span.left == span.right;
        let mut at = span;
        let mut items = plan.items.as_slice().len();
        let level = Level::of(&at, items, inner, cow);
        if level.whole && level.total == 1 && plan.items.as_slice().iter().all(|i| i.word.is_null())
        {
            plan.kind = if one {
                StoreType::Node
            } else {
                StoreType::Spanning
            };
            plan.action = Action::Clear(root);
            return;
        }
        plan.kind = match level.parts {
            _ if !one => StoreType::Spanning,
            _ if level.has_neighbour() => StoreType::Rebalance,
            2.. => StoreType::Split,
            _ if at.to == at.right.end() => StoreType::Append,
            _ => StoreType::Node,
        };
        if level.is_in_place() {
            plan.action = Action::Leaf(span);
            return;
        }
        plan.action = Action::Rebuild(span);
        let mut level = level;
        let mut height = 0;
        loop {
            if let Some(key) = level.shared {
                plan.shared = Some((key, height));
                return;
            }
            // Several nodes in place of the root need a new root above them.
            plan.nodes += level.parts + usize::from(level.whole && level.parts > 1);
            let Some(above) = level.above(&at, inner) else {
                return;
            };
            items = level.parts;
            at = above;
            height += 1;
            level = Level::of(&at, items, inner, cow);
        }
    }
}
