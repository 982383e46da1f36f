//! Reservations without an address, which the booting kernel places.
//!
//! Source: the binding of `/reserved-memory` in the Devicetree Specification and its schema.

use core::fmt;

use fdt::FdtError;

use super::{Cells, TreeNode};
use crate::firmware::{Entry, Problem, Use};
use crate::map::PhysMap;
use crate::memblock::{ALLOC_ACCESSIBLE, Memblock};
use crate::pfn::PAGE_SIZE;
use crate::{Error, NodeId};

/// A child of `/reserved-memory` with a size and without an address.
#[derive(Clone, Copy)]
pub struct DynamicReservation<'a> {
    node: TreeNode<'a>,
    /// Its name, without a unit address.
    pub name: &'a str,
    /// Length in bytes, at least 1.
    pub size: u64,
    /// The power of two that divides its address: `alignment`, or the size of a page.
    pub alignment: u64,
    /// `no-map`: it must not be mapped. If it also has `reusable`, which the binding forbids,
    /// `no-map` wins.
    pub no_map: bool,
    /// `reusable`: the system may use it until its driver requests it.
    pub reusable: bool,
    /// Pairs of address and length as in the tree. If empty, any address is allowed.
    ranges: &'a [u8],
    cells: Cells,
}

impl<'a> DynamicReservation<'a> {
    /// Returns the reservation, or its problem, or `None` if the node has an address or no size.
    pub(super) fn of(
        node: TreeNode<'a>,
        cells: Cells,
    ) -> Result<Option<Result<Self, Problem>>, FdtError> {
        // If there are both, `reg` wins.
        let Some(size) = node.raw_property("size")? else {
            return Ok(None);
        };
        if node.raw_property("reg")?.is_some() {
            return Ok(None);
        }
        let name = node.name()?.name;
        let no_map = node.raw_property("no-map")?.is_some();
        let reusable = node.raw_property("reusable")?.is_some();
        let ranges = node
            .raw_property("alloc-ranges")?
            .map_or(&[][..], |p| p.value);
        let size = cells.size.only(size.value);
        let alignment = match node.raw_property("alignment")? {
            None => Some(PAGE_SIZE),
            // Zero means any alignment.
            Some(given) => cells
                .size
                .only(given.value)
                .map(|n| if n == 0 { PAGE_SIZE } else { n }),
        };
        let (Some(size), Some(alignment)) = (size, alignment) else {
            return Ok(Some(Err(Problem::Malformed)));
        };
        let usage = if no_map { Use::NoMap } else { Use::Reserved };
        Ok(Some(if size == 0 {
            let nid = NodeId::NONE;
            Err(Problem::Empty(Entry {
                base: 0,
                size,
                usage,
                nid,
            }))
        } else if !alignment.is_power_of_two() {
            Err(Problem::Alignment { size, alignment })
        } else if cells.ranges(ranges).any(|range| range.is_err()) {
            Err(Problem::Malformed)
        } else {
            Ok(DynamicReservation {
                node,
                name,
                size,
                alignment,
                no_map,
                reusable,
                ranges,
                cells,
            })
        }))
    }

    /// Returns the ranges, as address and length, that `alloc-ranges` allows, the preferred one
    /// first. Without any, all addresses are allowed.
    pub fn alloc_ranges(&self) -> impl Iterator<Item = (u64, u64)> + use<'a> {
        self.cells.ranges(self.ranges).flatten()
    }

    /// Returns the bytes of another property of the node, such as `compatible`, `phandle` or
    /// `linux,cma-default`.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&'a [u8]> {
        let found = self.node.raw_property(name).ok().flatten();
        found.map(|property| property.value)
    }

    /// Allocates memory for the reservation and returns its address.
    ///
    /// The memory comes from the first of its ranges with enough space, below the current limit and
    /// in the direction of allocations. It becomes reserved, or, with `no-map`, whole pages of
    /// memory that must not be mapped. Call this when everything with an address is reserved.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`] if no range has space; [`Error::ArrayFull`].
    pub fn place<M: PhysMap>(&self, boot: &mut Memblock<'_, M>) -> Result<u64, Error> {
        if self.ranges.is_empty() {
            return self.place_within(boot, 0, ALLOC_ACCESSIBLE);
        }
        for (base, length) in self.alloc_ranges() {
            let end = base.saturating_add(length).min(boot.current_limit());
            // The allocator reads such small ends as "no limit". They contain nothing.
            if end <= PAGE_SIZE {
                continue;
            }
            match self.place_within(boot, base, end) {
                Err(Error::NoMemory) => {}
                done => return done,
            }
        }
        Err(Error::NoMemory)
    }

    fn place_within<M: PhysMap>(
        &self,
        boot: &mut Memblock<'_, M>,
        start: u64,
        end: u64,
    ) -> Result<u64, Error> {
        if !self.no_map {
            return boot.phys_alloc_range(self.size, self.alignment, start, end);
        }
        // Only whole pages can be left unmapped.
        let size = self.size.checked_next_multiple_of(PAGE_SIZE);
        let size = size.ok_or(Error::NoMemory)?;
        let found = boot.find_in_range(start, end, size, self.alignment.max(PAGE_SIZE));
        let found = found.ok_or(Error::NoMemory)?;
        boot.mark_nomap(found, size)?;
        Ok(found)
    }
}

impl fmt::Debug for DynamicReservation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamicReservation")
            .field("name", &self.name)
            .field("size", &self.size)
            .field("alignment", &self.alignment)
            .field("no_map", &self.no_map)
            .field("reusable", &self.reusable)
            .finish_non_exhaustive()
    }
}
