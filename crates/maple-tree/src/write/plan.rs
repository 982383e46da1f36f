//! Planning a write: its kind, and the number of nodes that it needs. Changes nothing.

use crate::base::{Key, Offset, Shape};
use crate::node::{NULL, Node, RawTree, Root, Word, is_node};
use crate::read::descend;
use crate::write::level::Level;
use crate::write::{Item, Items, Span, StoreType};

pub(crate) struct Plan<K, S> {
    pub(crate) kind: StoreType,
    /// The exact number of nodes that [`RawTree::apply`] takes.
    pub(crate) nodes: usize,
    /// The range lies strictly within a stored entry, so that this entry ends up on both sides of it.
    pub(crate) splits: bool,
    /// A node takes part that other trees may share: one of its indices, and its level above the leaves. To be made the tree's own, and
    /// then [planned again](RawTree::plan_again); such a plan is not to be carried out.
    pub(crate) shared: Option<(K, u32)>,
    pub(crate) action: Action<K, S>,
    /// The slots to be, if `action` places any.
    pub(crate) items: Items<K>,
    /// The range as asked for: entries within it are removed.
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

    /// Has a leaf made for an entry that would stand in the root by itself, where it could not be shared.
    pub(crate) fn leave_root_to_nodes(&mut self) {
        if let Action::RootWord(_) = self.action {
            (self.action, self.nodes) = (Action::RootLeaf, 1);
        }
    }
}

pub(crate) enum Action<K, S> {
    Nothing,
    /// The root is empty or a single entry: put this word there.
    RootWord(Word),
    /// The root is empty or a single entry: put a leaf with the items there.
    RootLeaf,
    /// Nothing is left: empty the root, drop all nodes.
    Clear(Node<K, S>),
    /// Replace slots of one leaf in place, or exchange the word in one of them.
    Leaf(Span<K, S>),
    /// Replace nodes, level by level.
    Rebuild(Span<K, S>),
}

impl<K: Key, S: Shape> RawTree<K, S> {
    /// Plans to make `first..=last` hold `word` (NULL erases). `first` is not above `last`.
    pub(crate) fn plan_store(&self, first: K, last: K, word: Word) -> Plan<K, S> {
        debug_assert!(first <= last);
        match self.root() {
            Root::Empty => self.plan_root(NULL, first, last, word),
            Root::Single(entry) => self.plan_root(entry, first, last, word),
            Root::Node(root) => self.plan_nodes(root, first, last, word),
        }
    }

    /// Plans a write into a tree that has no nodes; `entry` is what index 0 holds.
    #[inline(never)]
    fn plan_root(&self, entry: Word, first: K, last: K, word: Word) -> Plan<K, S> {
        let mut plan = Plan::new(StoreType::Root, first, last);
        let mut put = |word: Word, last| {
            // Holes that meet become one.
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
            // In the root by itself an entry must not look like a node.
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
        let mut left = descend(root, first);
        let mut from = left.leaf.search(first);
        let mut right = if last <= left.max {
            left
        } else {
            descend(root, last)
        };
        let mut to = right.leaf.search(last);
        let (mut first, mut last) = (first, last);
        let mut head = left.slot(from);
        let mut tail = right.slot(to);
        if word.is_null() {
            // Take in the holes on both sides, across the edges of leaves too.
            (from, first) = left.hole_to::<false>(from, first);
            if first == left.min && first != K::MIN && !left.leaf.slot(from).is_null() {
                let before = descend(root, first.wrapping_sub(K::ONE));
                let end = before.leaf.end();
                if before.leaf.slot(end).is_null() {
                    (left, from, first) = (before, end, before.slot(end).first);
                }
            }
            (to, last) = right.hole_to::<true>(to, last);
            if last == right.max && last != K::MAX && !right.leaf.slot(to).is_null() {
                let after = descend(root, last.wrapping_add(K::ONE));
                if after.leaf.slot(0).is_null() {
                    (right, to, last) = (after, 0, after.slot(0).last);
                }
            }
            (head, tail) = (left.slot(from), right.slot(to));
            if head == tail && head.word.is_null() {
                return plan;
            }
        }
        let span = Span {
            left: left.leaf,
            from,
            right: right.leaf,
            to,
            min: left.min,
            max: right.max,
        };
        if head == tail && head.first == first && head.last == last {
            // A hole that fills all there is leaves an empty tree.
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

    /// Goes on with a plan that a [shared](Plan::shared) node has stopped, which is the tree's own now.
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
            // Several nodes where the root was need a new root above them.
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
