//! From and to the map for one owner.

use core::mem::ManuallyDrop;
use core::ptr;

use crate::alloc::{AllocError, Reserve};
use crate::base::{Duplicate, Key, Shape, Value};
use crate::face::map::MapleTree;
use crate::face::snap::release::release;
use crate::face::snap::{CowMapleTree, SharedAlloc};
use crate::node::{Kind, NULL, Node, NodeMut, RawTree, Root, Word};
use crate::write::apply::Fill;
use crate::write::{Item, Items};

impl<K: Key, V: Value, A: SharedAlloc, S: Shape> CowMapleTree<K, V, A, S> {
    /// Takes over the nodes of a map. O(n), nothing is copied.
    ///
    /// ```
    /// use maple_tree::{CowMapleTree, MapleTree};
    /// use maple_tree::alloc::Global;
    ///
    /// let mut map: MapleTree<u64, u32, Global> = MapleTree::new_in(Global);
    /// map.insert_range(0..10, 1)?;
    /// let shared = CowMapleTree::from_exclusive(map).map_err(|_| "no memory")?;
    /// assert_eq!(shared.snapshot().get(5), Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The map comes back if there is no memory for a node, which is needed in one case only: the map's only entry is just
    /// at index 0.
    pub fn from_exclusive(map: MapleTree<K, V, A, S>) -> Result<Self, MapleTree<K, V, A, S>> {
        let mut reserve = Reserve::new();
        let single = match map.raw().root() {
            Root::Empty => None,
            Root::Single(word) => {
                if reserve.fill(1, map.allocator()).is_err() {
                    return Err(map);
                }
                Some(word)
            }
            Root::Node(root) => {
                count_all(root);
                None
            }
        };
        let (raw, alloc) = map.into_parts();
        if let Some(word) = single {
            raw.publish_root(single_leaf::<K, S>(word, &mut reserve), 1);
        }
        Ok(Self {
            raw,
            alloc,
            marker: core::marker::PhantomData,
        })
    }

    fn into_raw_parts(self) -> (RawTree<K, S>, A) {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used again, nor dropped.
        unsafe {
            (
                ptr::read(&raw const this.raw),
                ptr::read(&raw const this.alloc),
            )
        }
    }
}

impl<K: Key, V: Duplicate, A: SharedAlloc, S: Shape> CowMapleTree<K, V, A, S> {
    /// A map for one owner out of this one: nodes that are its own are taken over, those that it shares are copied. O(n).
    ///
    /// ```
    /// use maple_tree::CowMapleTree;
    ///
    /// let mut map: CowMapleTree<u64, u32> = CowMapleTree::new();
    /// map.insert_range(0..10, 1)?;
    /// let kept = map.snapshot();
    /// let mut own = map.into_exclusive().map_err(|_| "no memory")?;
    /// own.erase_range(0..10)?;
    /// assert_eq!((own.len(), kept.len()), (0, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The map comes back, holding what it held, if there is no memory.
    pub fn into_exclusive(self) -> Result<MapleTree<K, V, A, S>, Self> {
        if let Root::Node(root) = self.raw.root() {
            let put = |copy: Node<K, S>| self.raw.publish_root(copy.word(), self.raw.height());
            let Ok(root) = self.own(root, put) else {
                return Err(self);
            };
            if self.own_below(root).is_err() {
                return Err(self);
            }
            root.set_parent(None);
            link_all(root);
        }
        let (raw, alloc) = self.into_raw_parts();
        Ok(MapleTree::from_parts(raw, alloc))
    }

    /// The node, if it is owned, else a copy, which `put` has put in its place; the parent of the node, if it has one, is owned.
    fn own(
        &self,
        node: Node<K, S>,
        put: impl FnOnce(Node<K, S>),
    ) -> Result<Node<K, S>, AllocError> {
        if node.is_sole() {
            return Ok(node);
        }
        let copy = self.copy(node)?;
        put(copy);
        // SAFETY: this was the count of what leads to the copy now. (The others who led here may have gone meanwhile; giving up
        // the last count drops values, which may panic, so that nothing may lead here any more.)
        unsafe { release::<K, V, S, A>(node, &self.alloc) };
        Ok(copy)
    }

    /// Makes all that is below an owned node owned.
    fn own_below(&self, node: Node<K, S>) -> Result<(), AllocError> {
        if !node.is_leaf() {
            for i in 0..node.used() {
                let child = self.own(node.child(i), |copy| {
                    // SAFETY: the node is owned: nobody else sees it.
                    unsafe { node.write() }.set_slot(i, copy.word());
                })?;
                self.own_below(child)?;
            }
        }
        Ok(())
    }

    /// A copy of one node, led to by nobody yet, that shares what is below.
    fn copy(&self, node: Node<K, S>) -> Result<Node<K, S>, AllocError> {
        let mut reserve = Reserve::new();
        reserve.fill(1, &self.alloc)?;
        let new: NodeMut<K, S> = reserve.take(node.kind());
        new.node().count_one();
        let unfinished = Unfinished(self, new.node());
        for i in 0..node.used() {
            // The end goes along, so that what there is so far can be given up.
            new.set_end(i);
            let word = node.slot(i);
            if !node.is_leaf() {
                node.child(i).raise();
                new.set_slot(i, word);
            } else if let Some(raw) = ptr::NonNull::new(word) {
                // SAFETY: words in leaves are values; the tree owns a count of what leads to this one.
                let value = V::duplicate(unsafe { V::borrow(raw) }).ok_or(AllocError)?;
                new.set_slot(i, value.into_raw().as_ptr());
            }
            if i < node.end() {
                new.set_pivot(i, node.pivot(i));
            }
            if node.kind() == Kind::Gap {
                new.node().set_gap(i, node.gap(i));
            }
        }
        core::mem::forget(unfinished);
        Ok(new.node())
    }
}

/// A copy that is not whole: given up, unless it is forgotten.
struct Unfinished<'a, K: Key, V: Value, A: SharedAlloc, S: Shape>(
    &'a CowMapleTree<K, V, A, S>,
    Node<K, S>,
);

impl<K: Key, V: Value, A: SharedAlloc, S: Shape> Drop for Unfinished<'_, K, V, A, S> {
    fn drop(&mut self) {
        // SAFETY: nobody leads to the node; slots that are not filled are NULL.
        unsafe { release::<K, V, S, A>(self.1, &self.0.alloc) };
    }
}

/// A leaf whose only entry is at index 0.
fn single_leaf<K: Key, S: Shape>(word: Word, reserve: &mut Reserve) -> Word {
    let gap = K::MIN;
    let mut fill = Fill::<K, S, _>::counted(Kind::Leaf, [2, 0, 0], K::MIN, reserve);
    for (word, last) in [(word, K::MIN), (NULL, K::MAX)] {
        fill.push(Item { word, last, gap });
    }
    let leaf: Items<K> = fill.finish();
    leaf.as_slice().first().map_or(NULL, |item| item.word)
}

/// Makes the first word of all nodes a count of 1, where it was the parent.
fn count_all<K: Key, S: Shape>(node: Node<K, S>) {
    node.count_one();
    if !node.is_leaf() {
        for i in 0..node.used() {
            count_all(node.child(i));
        }
    }
}

/// Makes the first word of all nodes below one the parent, where it was a count.
fn link_all<K: Key, S: Shape>(node: Node<K, S>) {
    if !node.is_leaf() {
        for i in 0..node.used() {
            node.child(i).set_parent(Some(node));
            link_all(node.child(i));
        }
    }
}
