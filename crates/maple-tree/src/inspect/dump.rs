//! A tree as text, decimal or hexadecimal, and as a Graphviz graph.

use core::fmt::{self, Write};

use crate::base::{Key, Offset, Shape};
use crate::node::{Kind, Node, RawTree, Root, Word};

/// The format of [`MapleTree::dump`](crate::MapleTree::dump).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Indented text, indices in decimal.
    #[default]
    Decimal,
    /// Indented text, indices in hexadecimal.
    Hexadecimal,
    /// A graph in Graphviz' `dot` language, indices in hexadecimal.
    Graphviz,
}

/// Formats a tree's nodes. Returned by [`MapleTree::dump`](crate::MapleTree::dump).
pub struct Dump<'a, K: Key, S: Shape> {
    pub(crate) tree: &'a RawTree<K, S>,
    pub(crate) format: Format,
}

/// An index, or a number of indices, in the format's base.
struct Index<K>(K, Format);

impl<K: Key> fmt::Display for Index<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Format::Decimal => write!(f, "{}", self.0),
            Format::Hexadecimal | Format::Graphviz => write!(f, "{:#x}", self.0),
        }
    }
}

/// The contents of a leaf's slot: an entry's word, or a hole.
struct Content(Word);

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_null() {
            return f.write_str("hole");
        }
        write!(f, "{:p}", self.0)
    }
}

impl<K: Key, S: Shape> fmt::Display for Dump<'_, K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.format {
            Format::Decimal | Format::Hexadecimal => self.text(f),
            Format::Graphviz => self.graph(f),
        }
    }
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Leaf => "leaf",
        Kind::Range => "range",
        Kind::Gap => "gap",
    }
}

impl<K: Key, S: Shape> Dump<'_, K, S> {
    fn index<N>(&self, number: N) -> Index<N> {
        Index(number, self.format)
    }

    fn text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tree: height {}", self.tree.height())?;
        if self.tree.tracks_gaps() {
            f.write_str(", tracks gaps")?;
        }
        if self.tree.in_rcu() {
            f.write_str(", concurrent readers")?;
        }
        match self.tree.root() {
            Root::Empty => f.write_str("\nempty\n"),
            Root::Single(word) => writeln!(f, "\n{}: {word:p}", self.index(K::MIN)),
            Root::Node(root) => {
                f.write_char('\n')?;
                self.node(f, root, (K::MIN, K::MAX), 0)
            }
        }
    }

    fn node(
        &self,
        f: &mut fmt::Formatter<'_>,
        node: Node<K, S>,
        (min, max): (K, K),
        indent: usize,
    ) -> fmt::Result {
        let (first, last) = (self.index(min), self.index(max));
        let (kind, block) = (name(node.kind()), node.block());
        let (used, slots) = (node.used(), node.capacity());
        writeln!(
            f,
            "{:indent$}{first}-{last} {kind} {block:p}, {used} of {slots} slots",
            ""
        )?;
        let indent = indent + 2;
        for i in 0..used {
            let (min, max) = (node.first(i, min), node.last(i, max));
            if node.is_leaf() {
                let (first, last) = (self.index(min), self.index(max));
                writeln!(f, "{:indent$}{first}-{last}: {}", "", Content(node.slot(i)))?;
                continue;
            }
            if node.kind() == Kind::Gap {
                let gap = self.index(node.gap(i).number());
                writeln!(f, "{:indent$}largest hole {gap}", "")?;
            }
            self.node(f, node.child(i), (min, max), indent)?;
        }
        Ok(())
    }

    fn graph(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("digraph maple_tree {\n  node [shape=record, fontname=monospace];\n")?;
        match self.tree.root() {
            Root::Empty => f.write_str("  root [label=\"empty\"];\n")?,
            Root::Single(word) => {
                writeln!(f, "  root [label=\"{}: {word:p}\"];", self.index(K::MIN))?;
            }
            Root::Node(root) => self.graph_node(f, root, (K::MIN, K::MAX))?,
        }
        f.write_str("}\n")
    }

    fn graph_node(
        &self,
        f: &mut fmt::Formatter<'_>,
        node: Node<K, S>,
        (min, max): (K, K),
    ) -> fmt::Result {
        let (id, kind) = (node.block().addr(), name(node.kind()));
        write!(f, "  n{id:x} [label=\"{kind}")?;
        for i in 0..node.used() {
            let (first, last) = (node.first(i, min), node.last(i, max));
            write!(f, "|<s{i}>{}-{}", self.index(first), self.index(last))?;
            if node.is_leaf() {
                write!(f, "\\n{}", Content(node.slot(i)))?;
            } else if node.kind() == Kind::Gap {
                write!(f, "\\nhole {}", self.index(node.gap(i).number()))?;
            }
        }
        f.write_str("\"];\n")?;
        if !node.is_leaf() {
            for i in 0..node.used() {
                let child = node.child(i);
                self.graph_node(f, child, (node.first(i, min), node.last(i, max)))?;
                writeln!(f, "  n{id:x}:s{i} -> n{:x};", child.block().addr())?;
            }
        }
        f.write_char('\n')
    }
}
