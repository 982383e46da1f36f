//! The node `/chosen`: the command line and the address of the initial file system.
//!
//! Sources: the Devicetree Specification for `/chosen` and `bootargs`, its schema for
//! `linux,initrd-start` and `linux,initrd-end`.

use core::ops::Range;

use fdt::nodes::AsNode;
use fdt::{Fdt, FdtError};

use super::{DeviceTree, Width, cell};
use crate::firmware::{Entry, Problem, Use};

impl<'a> DeviceTree<'a> {
    /// Returns the size in bytes of the tree that begins with `start`. The first eight bytes
    /// suffice.
    ///
    /// # Errors
    ///
    /// [`Problem::Malformed`] if no tree begins like this.
    pub fn size(start: &[u8]) -> Result<usize, Problem> {
        let size = (cell(start, 0) == Some(Self::MAGIC)).then(|| cell(start, 4));
        size.flatten()
            .map(|size| size as usize)
            .ok_or(Problem::Malformed)
    }

    /// Returns the bytes of a property of `/chosen`, or `None` if there is none or if the tree is
    /// malformed before it.
    fn chosen(self, name: &str) -> Option<&'a [u8]> {
        let search = || {
            let tree = Fdt::new_unaligned_fallible(self.blob)?;
            for node in tree.root()?.as_node().children()?.iter() {
                let node = node?;
                if node.name()?.name == "chosen" {
                    let property = node.raw_property(name)?;
                    return Ok(property.map(|property| property.value));
                }
            }
            Ok::<_, FdtError>(None)
        };
        search().ok().flatten()
    }

    /// Returns the command line (`bootargs`), without its zero byte.
    #[must_use]
    pub fn command_line(self) -> Option<&'a [u8]> {
        let text = self.chosen("bootargs")?;
        text.split(|&byte| byte == 0).next()
    }

    /// Returns the physical addresses of the initial file system, or `None` if there is none or if
    /// [an entry](Entry::checked) could not have these addresses.
    ///
    /// The memory map does not contain them. The caller must reserve them before anything is
    /// allocated.
    ///
    /// ```no_run
    /// # use samara_memblock::{Memblock, Storage};
    /// # use samara_memblock::firmware::{devicetree::DeviceTree, load};
    /// # let blob = [];
    /// # let mut storage: Storage = Storage::new();
    /// # let mut boot = Memblock::new(&mut storage);
    /// let tree = DeviceTree::new(&blob)?;
    /// load(tree, &mut boot, |_| ())?;
    /// if let Some(archive) = tree.initrd() {
    ///     boot.reserve(archive.start, archive.end - archive.start)?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn initrd(self) -> Option<Range<u64>> {
        // One cell or two, whatever the root's cells are.
        let address = |name| {
            let value = self.chosen(name)?;
            Width(value.len() as u32 / 4).only(value)
        };
        let (start, end) = (address("linux,initrd-start")?, address("linux,initrd-end")?);
        let size = end.checked_sub(start)?;
        Entry::sized(start, size, Use::Reserved).ok()?;
        Some(start..end)
    }
}
