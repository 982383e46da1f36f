//! Memory for the nodes of unit tests.

use core::ptr::NonNull;
use std::boxed::Box;

use crate::base::{Key, Shape};
use crate::node::{Kind, NODE_BYTES, NodeMut};

#[repr(align(256))]
pub(super) struct Memory([u8; NODE_BYTES]);

impl Memory {
    pub(super) fn new() -> Box<Self> {
        Box::new(Self([0; NODE_BYTES]))
    }

    /// Makes a node of it.
    pub(super) fn node<K: Key, S: Shape>(&mut self, kind: Kind) -> NodeMut<K, S> {
        // SAFETY: the memory has the layout of a node, and nobody else uses it.
        unsafe { NodeMut::init(NonNull::from(&mut self.0).cast(), kind) }
    }
}
