//! Mappings of a file through an open file that may be the one behind an existing area. For an area
//! from before the trace, the kernel does not say through which open file it was mapped, and that
//! decides if the two merge.

use samara_mm::{AddressSpace, Area, Call, Counted, File, FileArg, Vma};

use crate::counted::counted;
use crate::replica::Replica;

/// Returns the file of an area, if it is not known through which open file it was mapped.
fn file_of(vma: &Vma) -> Option<&Counted<File>> {
    vma.file().filter(|file| file.description.is_none())
}

/// Returns `true` if a mapping of this page of the file at `start` would merge with an area below,
/// or one that ends at `end` with an area above.
fn continues(engine: &AddressSpace, (start, end): (u64, u64), file: &File, page: u64) -> bool {
    let is_same = |area: &Area<'_>| file_of(area.vma).is_some_and(|known| known.id == file.id);
    let goes_on = |at: u64, beside: Option<Area<'_>>| {
        let beside = beside.filter(is_same);
        let expected = page.wrapping_add((at.wrapping_sub(start)) >> 12);
        beside.is_some_and(|area| area.vma.page_offset(at) == expected)
    };
    goes_on(start, engine.lookup(start.wrapping_sub(1))) || goes_on(end, engine.lookup(end))
}

impl Replica {
    /// Returns the same call through the unknown open file of an area next to its range, if there
    /// is one.
    pub(super) fn through_an_unknown_file(&self, call: &Call, returned: i64) -> Option<Call> {
        let mut call = call.clone();
        let Call::Mmap {
            len, file, offset, ..
        } = &mut call
        else {
            return None;
        };
        let FileArg::File(file) = file else {
            return None;
        };
        let start = u64::try_from(returned).ok()?;
        let end = start.checked_add(*len)?.checked_next_multiple_of(0x1000)?;
        let may_join = file.description.is_some()
            && continues(&self.engine, (start, end), file, *offset >> 12);
        if !may_join {
            return None;
        }
        *file = counted(File {
            description: None,
            ..(**file).clone()
        });
        Some(call)
    }
}
