//! The tree of words, for shells in other languages: the same core that [`MapleTree`](crate::MapleTree) is a shell of, with
//! its duties left to the caller. Not part of the crate's stable interface.
//!
//! Whoever uses it brings what the safe faces bring: exclusion of writers, protection of readers, ownership of
//! entries, and the fate of replaced nodes.

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::alloc::{AllocError, NodeAlloc, Reserve};
use crate::base::Native;
use crate::inspect::dump::{Dump, Format};
use crate::node::{Kind, Node, NodeMut, RawTree, Root, Word, is_node};
use crate::read::{Found, Place, Want, descend, descend_ahead};
use crate::write::apply::{bury, dismantle};
use crate::write::duplicate::{CloneError, Verbatim};
use crate::write::plan::Action;
use crate::write::{Plan, Quick, Room, Sink, SlotAt};

/// What the memory of each node is like.
pub const NODE_LAYOUT: Layout = crate::node::LAYOUT;

/// A tree over `usize` whose entries are words: flags, then the root, laid out as in C.
#[repr(transparent)]
pub struct WordTree(RawTree<usize, Native>);

/// A slot that was looked up, and where it is.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// What kind of tree the slot is in.
    pub home: Home,
    /// The range of the slot, ends included.
    pub first: usize,
    /// The last index of the slot.
    pub last: usize,
    /// The entry, or NULL for a hole.
    pub entry: *mut (),
    /// The leaf; NULL unless `home` is [`Home::Leaf`].
    pub leaf: *mut (),
    /// What the leaf covers, ends included.
    pub min: usize,
    /// The last index that the leaf covers.
    pub max: usize,
    /// The slot's place in the leaf.
    pub offset: u8,
    /// The last used slot of the leaf.
    pub end: u8,
}

/// The slot that a write begins in, and the way to it. It holds for as long as the tree is not changed.
#[derive(Clone, Copy)]
pub struct At(SlotAt<usize, Native>);

impl At {
    /// The last index of the slot.
    #[inline(always)]
    pub fn last(&self) -> usize {
        self.0.found.last
    }

    /// The entry, or NULL for a hole.
    #[inline(always)]
    pub fn entry(&self) -> *mut () {
        self.0.found.word
    }
}

/// A slot in its leaf.
#[derive(Clone, Copy, Debug)]
pub struct InLeaf {
    /// The leaf.
    pub leaf: *mut (),
    /// What the leaf covers, ends included.
    pub min: usize,
    /// The last index that the leaf covers.
    pub max: usize,
    /// The slot's place in the leaf.
    pub offset: u8,
}

impl InLeaf {
    #[inline(always)]
    fn new(place: Place<usize, Native>, slot: usize) -> Self {
        Self {
            leaf: place.leaf.word(),
            min: place.min,
            max: place.max,
            // A node has at most 32 slots.
            offset: slot as u8,
        }
    }
}

/// A slot beside one that was looked up before, in the same leaf.
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    /// The first index of the slot.
    pub first: usize,
    /// The last index of the slot.
    pub last: usize,
    /// The entry, or NULL for a hole.
    pub entry: *mut (),
}

impl From<Found<usize>> for Beside {
    #[inline(always)]
    fn from(found: Found<usize>) -> Self {
        let Found { first, last, word } = found;
        Self {
            first,
            last,
            entry: word,
        }
    }
}

/// What kind of tree a slot is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// A tree without entries: one hole.
    Empty,
    /// A tree with a single entry at index 0 in its root word: that slot, and the hole above.
    Root,
    /// A leaf.
    Leaf,
}

/// A planned write. It holds for as long as the tree is not changed.
pub struct Write {
    way: Way,
    nodes: usize,
    moves_leaves: bool,
}

/// How to carry it out.
enum Way {
    Quick(Quick<usize, Native>),
    General(Plan<usize, Native>),
}

impl Write {
    /// How many nodes must be reserved.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Whether a node that the write replaces is known to have [idle words](idle_words), or it replaces none.
    #[inline]
    pub fn leaves_idle_words(&self) -> bool {
        match &self.way {
            Way::Quick(quick) => {
                quick.is_exact()
                    || quick.place.leaf.idle().is_some()
                    || quick.room != Room::Here
                        && quick.parent.is_some_and(|above| above.idle().is_some())
            }
            Way::General(plan) => match &plan.action {
                Action::Nothing | Action::RootWord(_) | Action::RootLeaf | Action::Exact { .. } => {
                    true
                }
                Action::Clear(root) => root.idle().is_some(),
                Action::Leaf(span) | Action::Rebuild(span) => {
                    span.left.idle().is_some() || span.right.idle().is_some()
                }
            },
        }
    }

    /// Whether leaves come, go, or get other bounds. If not, what was remembered of a leaf stays true.
    pub fn moves_leaves(&self) -> bool {
        self.moves_leaves
    }
}

/// More nodes than this are asked for together.
const MANY: usize = 8;

/// Nodes set aside; leaks unless [released](NodeReserve::release) or [turned into](NodeReserve::into_raw) a pointer.
pub struct NodeReserve(Reserve);

impl Default for NodeReserve {
    fn default() -> Self {
        Self(Reserve::new())
    }
}

impl NodeReserve {
    /// The reserve that a pointer stands for.
    ///
    /// # Safety
    ///
    /// `raw` is NULL or came from [`into_raw`](NodeReserve::into_raw), and is not used again.
    #[inline]
    pub unsafe fn from_raw(raw: *mut ()) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { Reserve::from_raw(raw) })
    }

    /// The reserve as a pointer: NULL if it is empty.
    #[inline]
    pub fn into_raw(self) -> *mut () {
        self.0.into_raw()
    }

    /// How many nodes there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.0.count()
    }

    /// Makes sure that there are at least `count`.
    ///
    /// # Errors
    ///
    /// There was no memory; the nodes already had are kept.
    pub fn fill<A: NodeAlloc>(&mut self, count: usize, alloc: &A) -> Result<(), AllocError> {
        // Not worth it for the few nodes of an ordinary write.
        if count > MANY {
            return self.0.fill_many(count, alloc);
        }
        self.0.fill(count, alloc)
    }

    /// Takes one node's memory out, for another purpose.
    #[inline]
    pub fn take(&mut self) -> Option<NonNull<u8>> {
        (self.count() > 0).then(|| self.0.pop())
    }

    /// Gives back what is left.
    pub fn release<A: NodeAlloc>(mut self, alloc: &A) {
        self.0.release(alloc);
    }
}

/// Takes the nodes that a write replaced.
struct Nodes<F>(F);

impl<F: FnMut(NonNull<u8>)> Sink<usize> for Nodes<F> {
    const ENTRIES: bool = false;

    #[inline]
    fn entry(&mut self, _: usize, _: usize, _: Word) {}

    #[inline]
    fn node(&mut self, block: NonNull<u8>) {
        (self.0)(block);
    }
}

impl WordTree {
    /// An empty tree with these modes.
    pub const fn new(flags: u32) -> Self {
        Self(RawTree::new(flags))
    }

    /// The flags: Linux's `ma_flags`. Bits that the core does not know are kept as they are.
    #[inline]
    pub fn flags(&self) -> u32 {
        self.0.flags()
    }

    /// Changes the flags in `mask` to those of `value`. Only for the writer.
    pub fn set_flags(&self, mask: u32, value: u32) {
        self.0.set_flags(mask, value);
    }

    /// Whether nothing is stored.
    #[inline]
    pub fn is_empty(&self) -> bool {
        matches!(self.0.root(), Root::Empty)
    }

    /// Levels of nodes.
    #[inline]
    pub fn height(&self) -> u32 {
        self.0.height()
    }

    /// The entry at `key`, or NULL.
    ///
    /// # Safety
    ///
    /// The caller is the writer, or protects the nodes from being freed.
    #[inline]
    pub unsafe fn load(&self, key: usize) -> *mut () {
        self.0.load(key)
    }

    /// The slot that covers `key`.
    ///
    /// # Safety
    ///
    /// As for [`load`](WordTree::load).
    #[inline]
    pub unsafe fn seek(&self, key: usize) -> Slot {
        self.seek_with(key, |root| slot(descend(root, key), key))
    }

    /// As [`seek`](WordTree::seek), on the way up through all leaves: the memory of the next ones is asked for.
    ///
    /// # Safety
    ///
    /// As for [`load`](WordTree::load).
    #[inline]
    pub unsafe fn seek_ahead(&self, key: usize) -> Slot {
        self.seek_with(key, |root| {
            let (place, offset) = descend_ahead::<true, _, _>(root, key);
            slot_of(place, offset)
        })
    }

    /// As [`seek_ahead`](WordTree::seek_ahead), on the way down.
    ///
    /// # Safety
    ///
    /// As for [`load`](WordTree::load).
    #[inline]
    pub unsafe fn seek_back(&self, key: usize) -> Slot {
        self.seek_with(key, |root| {
            let (place, offset) = descend_ahead::<false, _, _>(root, key);
            slot_of(place, offset)
        })
    }

    #[inline(always)]
    fn seek_with(&self, key: usize, below: impl FnOnce(Node<usize, Native>) -> Slot) -> Slot {
        let Found { first, last, word } = match self.0.root().at(key) {
            Ok(root) => return below(root),
            Err(found) => found,
        };
        Slot {
            home: if first == 0 && last == usize::MAX {
                Home::Empty
            } else {
                Home::Root
            },
            first,
            last,
            entry: word,
            leaf: core::ptr::null_mut(),
            min: 0,
            max: usize::MAX,
            offset: 0,
            end: 0,
        }
    }

    /// The slot that covers `key` in a leaf that was looked up before, or `None` if that leaf has been replaced.
    ///
    /// # Safety
    ///
    /// As for [`load`](WordTree::load), without a break since `leaf`, `min` and `max` came from a lookup in
    /// this tree; `min..=max` contains `key`.
    #[inline]
    pub unsafe fn seek_in(
        &self,
        leaf: *mut (),
        min: usize,
        max: usize,
        key: usize,
    ) -> Option<Slot> {
        debug_assert!((min..=max).contains(&key));
        // SAFETY: the caller's promise.
        let place = unsafe { place(leaf, min, max) };
        let found = slot(place, key);
        // After the reads: what was read from a leaf that lives now was in the tree then.
        (!place.leaf.is_dead()).then_some(found)
    }

    /// Whether a leaf that was looked up has been replaced.
    ///
    /// # Safety
    ///
    /// As for [`load`](WordTree::load), without a break since `leaf` came from a lookup.
    #[inline]
    pub unsafe fn is_replaced(leaf: *mut ()) -> bool {
        // SAFETY: the caller's promise.
        unsafe { place(leaf, 0, usize::MAX) }.leaf.is_dead()
    }

    /// The slot after the one that was looked up as slot `offset` of a leaf, if that still ends at `last`, is not the leaf's last one, and
    /// the leaf has not been replaced. Of the leaf only its last index, `max`, is needed.
    ///
    /// # Safety
    ///
    /// As for [`seek_in`](WordTree::seek_in).
    #[inline(always)]
    pub unsafe fn after(
        &self,
        leaf: *mut (),
        max: usize,
        offset: u8,
        last: usize,
    ) -> Option<Beside> {
        // SAFETY: the caller's promise.
        let place = unsafe { place(leaf, 0, max) };
        let found = place.beside::<true>(usize::from(offset), last)?;
        // After the reads, as in `seek_in`.
        (!place.leaf.is_dead()).then(|| found.into())
    }

    /// The slot before the one that was looked up as slot `offset` of a leaf, if that still begins at `first`. As [`after`](WordTree::after).
    ///
    /// # Safety
    ///
    /// As for [`seek_in`](WordTree::seek_in).
    #[inline(always)]
    pub unsafe fn before(
        &self,
        leaf: *mut (),
        min: usize,
        offset: u8,
        first: usize,
    ) -> Option<Beside> {
        // SAFETY: the caller's promise.
        let place = unsafe { place(leaf, min, usize::MAX) };
        let found = place.beside::<false>(usize::from(offset), first)?;
        // As above.
        (!place.leaf.is_dead()).then(|| found.into())
    }

    /// The slot that covers `key`, for a write; `None` in a tree without nodes.
    ///
    /// # Safety
    ///
    /// The caller is the only writer.
    #[inline]
    pub unsafe fn at(&self, key: usize) -> Option<At> {
        self.0.slot_at(key).map(At)
    }

    /// As [`at`](WordTree::at), in a leaf that was looked up before.
    ///
    /// # Safety
    ///
    /// The caller is the only writer; since `slot` came from a lookup in this tree no leaf has been moved; its leaf covers `key`.
    #[inline]
    pub unsafe fn at_in(&self, slot: InLeaf, key: usize) -> At {
        let InLeaf {
            leaf,
            min,
            max,
            offset,
        } = slot;
        debug_assert!((min..=max).contains(&key));
        // SAFETY: the leaf is in the tree (the caller's promise).
        At(self
            .0
            .slot_in(unsafe { place(leaf, min, max) }, usize::from(offset), key))
    }

    /// Exchanges the entry in a slot that was looked up before for another, if the slot is an entry at just `first..=last`; gives the one that was
    /// there. `entry` is not NULL.
    ///
    /// # Safety
    ///
    /// As for [`at_in`](WordTree::at_in).
    #[inline(always)]
    pub unsafe fn exchange(
        &self,
        slot: InLeaf,
        (first, last): (usize, usize),
        entry: *mut (),
    ) -> Option<*mut ()> {
        debug_assert!(!entry.is_null());
        // SAFETY: the leaf is in the tree (the caller's promise).
        let place = unsafe { place(slot.leaf, slot.min, slot.max) };
        let offset = usize::from(slot.offset);
        if offset >= place.leaf.capacity() {
            return None;
        }
        // A slot after the leaf's last one seems to cover something at most if that is all that there is; but it is NULL.
        let found = place.slot(offset);
        if found.first != first
            || found.last != last
            || found.word.is_null()
            || place.leaf.is_dead()
        {
            return None;
        }
        place.leaf.publish(offset, entry);
        Some(found.word)
    }

    /// Makes `first..=last`, which begin in `at`, hold `entry` (NULL erases), if that takes no node and moves no leaf; tells which slot it has
    /// become then.
    ///
    /// # Safety
    ///
    /// The caller is the only writer, the tree has not changed since `at` was found, and outside RCU mode there are no readers.
    #[inline]
    pub unsafe fn put(
        &self,
        at: At,
        (first, last): (usize, usize),
        entry: *mut (),
    ) -> Option<InLeaf> {
        let SlotAt { spot, slot, found } = at.0;
        let leaf = spot.place.leaf;
        let slot = if at.0.is_entry(first, last) {
            if entry.is_null() {
                let joins = slot > 0 && leaf.slot(slot - 1).is_null();
                // A hole that goes on in another leaf would move the bound between the two.
                // SAFETY: the caller's promise.
                if !unsafe { self.0.vacate(at.0, true) } {
                    return None;
                }
                slot - usize::from(joins)
            } else {
                leaf.publish(slot, entry);
                slot
            }
        } else {
            let fits = found.word.is_null() && last <= found.last && !entry.is_null();
            // SAFETY: the caller's promise; an entry of a caller's may stand in a tree of words.
            if !fits || !unsafe { self.0.fill_hole(at.0, (first, last), entry) } {
                return None;
            }
            slot + usize::from(found.first < first)
        };
        Some(InLeaf::new(spot.place, slot))
    }

    /// Plans to make `first..=last` hold `entry`; NULL erases. `first` is not above `last`, and in the slot `at`, if the tree has nodes.
    ///
    /// # Safety
    ///
    /// The caller is the only writer, and the tree has not changed since `at` was found.
    pub unsafe fn plan(&self, at: Option<At>, first: usize, last: usize, entry: *mut ()) -> Write {
        let quick = at.and_then(|At(at)| {
            if at.found.word.is_null() && last <= at.found.last && !entry.is_null() {
                self.0.try_fill_at(at, (first, last), entry)
            } else {
                self.0.try_store_at(at, (first, last), entry)
            }
        });
        if let Some(quick) = quick {
            let rcu = self.0.in_rcu();
            return Write {
                nodes: quick.nodes(rcu),
                moves_leaves: !quick.is_exact() && (rcu || quick.room != Room::Here),
                way: Way::Quick(quick),
            };
        }
        let plan = self.0.plan_store(first, last, entry);
        Write {
            nodes: plan.nodes,
            moves_leaves: !matches!(
                plan.action,
                Action::Nothing | Action::Exact { .. } | Action::Leaf(_)
            ),
            way: Way::General(plan),
        }
    }

    /// How many nodes `entries` stores in ascending order, behind all that is there, take at most.
    pub fn bulk_nodes(&self, entries: usize) -> usize {
        self.0.bulk_nodes(entries)
    }

    /// Carries a write out, and hands the nodes that it replaced to `retire`: readers may still be in them. Tells which slot the range has become,
    /// or is in, if that is known without another look.
    ///
    /// # Safety
    ///
    /// The caller is the only writer, the tree has not changed since the plan was made, `reserve` holds
    /// as many nodes as it needs, and outside RCU mode there are no readers.
    pub unsafe fn write(
        &self,
        write: Write,
        reserve: &mut NodeReserve,
        retire: impl FnMut(NonNull<u8>),
    ) -> Option<InLeaf> {
        let before = reserve.count();
        let stands = match write.way {
            Way::Quick(quick) if !write.moves_leaves => {
                let slot = quick.from + usize::from(quick.head);
                Some(InLeaf::new(quick.place, slot))
            }
            _ => None,
        };
        let (reserved, mut retired) = (&mut reserve.0, Nodes(retire));
        // SAFETY: the caller's promise.
        unsafe {
            match write.way {
                Way::Quick(quick) => self.0.apply_quick(quick, reserved, &mut retired),
                Way::General(plan) => self.0.apply(plan, reserved, &mut retired),
            }
        }
        assert!(
            before - reserve.count() == write.nodes,
            "a write used another number of nodes than was counted"
        );
        stands
    }

    /// The first of the lowest `size` free indices within `min..=max`.
    ///
    /// # Safety
    ///
    /// The caller is the only writer.
    pub unsafe fn gap_up(&self, min: usize, max: usize, size: usize) -> Option<usize> {
        self.0.gap_up(&want(min, max, size)?)
    }

    /// The first of the highest `size` free indices within `min..=max`.
    ///
    /// # Safety
    ///
    /// The caller is the only writer.
    pub unsafe fn gap_down(&self, min: usize, max: usize, size: usize) -> Option<usize> {
        self.0.gap_down(&want(min, max, size)?)
    }

    /// Fills `new` with the entries of this tree.
    ///
    /// # Errors
    ///
    /// There was no memory; `new` is empty again.
    ///
    /// # Safety
    ///
    /// Nobody writes this tree; `new` is empty, tracks gaps if this one does, and has no other users.
    pub unsafe fn duplicate<A: NodeAlloc>(&self, new: &Self, alloc: &A) -> Result<(), AllocError> {
        // SAFETY: the caller's promise; the words may stand in this tree, as they do.
        match unsafe { self.0.dup_into(&new.0, &mut &*alloc, &mut Verbatim) } {
            Ok(()) => Ok(()),
            Err(CloneError::Alloc) => Err(AllocError),
            Err(CloneError::Entry(never)) => match never {},
        }
    }

    /// Empties the tree and hands its nodes to `retire`, each after those below it. In RCU mode they are marked as dead; otherwise leaves are
    /// not even looked at, and a node may be freed at once.
    ///
    /// # Safety
    ///
    /// The caller is the only writer, and outside RCU mode there are no readers.
    pub unsafe fn clear(&self, mut retire: impl FnMut(NonNull<u8>)) {
        let root = self.0.root();
        self.0.publish_root(core::ptr::null_mut(), 0);
        let Root::Node(node) = root else { return };
        if self.0.in_rcu() {
            bury(node, 0, usize::MAX, (0, usize::MAX), &mut Nodes(retire));
        } else {
            // SAFETY: nothing leads to the nodes any more, and nobody reads or writes them (the caller's promise).
            unsafe { dismantle(node, &mut retire) };
        }
    }

    /// All nodes and entries as text, indices in decimal or hexadecimal.
    ///
    /// # Safety
    ///
    /// Nobody writes the tree while the text is made.
    pub unsafe fn dump(&self, hexadecimal: bool) -> impl core::fmt::Display + '_ {
        let format = if hexadecimal {
            Format::Hexadecimal
        } else {
            Format::Decimal
        };
        Dump {
            tree: &self.0,
            format,
        }
    }

    /// Whether every rule of the structure holds.
    ///
    /// # Safety
    ///
    /// The caller is the only writer.
    pub unsafe fn is_sound(&self) -> bool {
        self.0.check().is_ok()
    }
}

fn want(min: usize, max: usize, size: usize) -> Option<Want<usize>> {
    (min <= max && size > 0).then_some(Want {
        lo: min,
        hi: max,
        size,
        align: 1,
        offset: 0,
    })
}

/// A leaf that was looked up before.
///
/// # Safety
///
/// As for [`WordTree::seek_in`].
#[inline(always)]
unsafe fn place(leaf: *mut (), min: usize, max: usize) -> Place<usize, Native> {
    debug_assert!(is_node(leaf));
    // SAFETY: the caller's promise.
    let leaf = unsafe { Node::of_kind(leaf, Kind::Leaf) };
    Place { leaf, min, max }
}

#[inline]
fn slot(place: Place<usize, Native>, key: usize) -> Slot {
    slot_of(place, place.leaf.search(key))
}

#[inline]
fn slot_of(place: Place<usize, Native>, offset: usize) -> Slot {
    let found = place.slot(offset);
    // A node has at most 32 slots.
    Slot {
        home: Home::Leaf,
        first: found.first,
        last: found.last,
        entry: found.word,
        leaf: place.leaf.word(),
        min: place.min,
        max: place.max,
        offset: offset as u8,
        end: place.leaf.end() as u8,
    }
}

/// Chains a retired node to another, or to none.
///
/// # Safety
///
/// `block` was handed to a `retire` closure and has not been freed.
pub unsafe fn chain(block: NonNull<u8>, next: Option<NonNull<u8>>) {
    // SAFETY: the caller's promise.
    unsafe { Node::<usize, Native>::from_block(block) }
        .chain(next.map_or(core::ptr::null_mut(), NonNull::as_ptr));
}

/// Two words in a retired node that no reader looks at, if it has them: they may hold what is known of the node until it is freed. Nodes that are full
/// have none, unless they keep the sizes of holes.
///
/// # Safety
///
/// As for [`chain`].
#[inline]
pub unsafe fn idle_words(block: NonNull<u8>) -> Option<NonNull<[*mut (); 2]>> {
    // SAFETY: the caller's promise.
    let node = unsafe { Node::<usize, Native>::from_block(block) };
    node.idle().map(NonNull::cast)
}

/// The retired node with these [idle words](idle_words).
///
/// # Safety
///
/// `idle` came from there, and the node has not been freed.
#[inline]
pub unsafe fn node_with(idle: NonNull<[*mut (); 2]>) -> NonNull<u8> {
    // SAFETY: the words are within the node, which is aligned to its size.
    unsafe {
        idle.cast::<u8>()
            .sub(idle.addr().get() % NODE_LAYOUT.align())
    }
}

/// Makes memory a node like those that are retired, which was in no tree. It has [idle words](idle_words).
///
/// # Safety
///
/// The memory is as [`NODE_LAYOUT`] says, and nobody else uses it.
pub unsafe fn retired(block: NonNull<u8>) {
    // SAFETY: the caller's promise.
    unsafe { NodeMut::<usize, Native>::init(block, Kind::Leaf) }
        .node()
        .mark_dead();
}

/// The node that `block` was chained to.
///
/// # Safety
///
/// As for [`chain`], which was called for `block`.
pub unsafe fn chained(block: NonNull<u8>) -> Option<NonNull<u8>> {
    // SAFETY: the caller's promise.
    NonNull::new(unsafe { Node::<usize, Native>::from_block(block) }.chained())
}
