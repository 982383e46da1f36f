//! The layout as text, in the form that Linux prints with `memblock=debug`.

use core::fmt;

use crate::map::PhysMap;
use crate::memblock::Memblock;
use crate::{Kind, RegionType};

/// The text form of all regions, one per line. See [`Memblock::dump`].
pub struct Dump<'a> {
    arrays: [&'a RegionType; 3],
}

impl<M: PhysMap> Memblock<'_, M> {
    /// Returns the layout in Linux's form.
    ///
    /// ```
    /// # use samara_memblock::*;
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// boot.add_node(0x1000, 0x1000, NodeId(0), Flags::HOTPLUG)?;
    /// assert_eq!(
    ///     boot.dump().to_string(),
    ///     "MEMBLOCK configuration:
    ///  memory size = 0x1000 reserved size = 0x0
    ///  memory.cnt  = 0x1
    ///  memory[0x0]\t[0x0000000000001000-0x0000000000001fff], 0x1000 bytes on node 0 flags: 0x1
    ///  reserved.cnt  = 0x0
    /// "
    /// );
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn dump(&self) -> Dump<'_> {
        Dump {
            arrays: Kind::ALL.map(|kind| self.regions(kind)),
        }
    }
}

impl fmt::Display for Dump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [memory, reserved, physmem] = self.arrays;
        writeln!(f, "MEMBLOCK configuration:")?;
        writeln!(
            f,
            " memory size = {:#x} reserved size = {:#x}",
            memory.total_size(),
            reserved.total_size()
        )?;
        for array in [memory, reserved, physmem] {
            if core::ptr::eq(array, physmem) && array.is_empty() {
                continue;
            }
            let name = array.name();
            writeln!(f, " {name}.cnt  = {:#x}", array.len())?;
            for (i, r) in array.iter().enumerate() {
                write!(
                    f,
                    " {name}[{i:#x}]\t[{:#018x}-{:#018x}], {:#x} bytes",
                    r.base,
                    r.end().wrapping_sub(1),
                    r.size
                )?;
                if r.nid.is_valid() {
                    write!(f, " on node {}", r.nid.0)?;
                }
                writeln!(f, " flags: {:#x}", r.flags.bits())?;
            }
        }
        Ok(())
    }
}
