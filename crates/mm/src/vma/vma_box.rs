//! VMAs on the heap: one allocation each, as calls make them, or many in one allocation, as a fork
//! makes them.
//!
//! A fork makes all VMAs of a child at once, and most are dropped at once, when the child exits or
//! executes another program. They are allocated in groups of up to [`GROUP`], in which they follow
//! one another as in the map. A group counts its VMAs and is freed with the last one. So the memory
//! of VMAs that are dropped one by one comes back late, but it is never more than the fork
//! allocated.

use alloc::alloc::{Layout, alloc, dealloc};
use alloc::boxed::Box;
use core::alloc::LayoutError;
use core::fmt;
use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use maple_tree::{Value, View};

use crate::errno::Errno;
use crate::flags::VmFlags;
use crate::heap::boxed::try_room;
use crate::vma::vma_lock::VmaLock;
use crate::vma::{AnonVma, Vma};

/// The most VMAs in one allocation: about 3 KiB.
const GROUP: usize = 32;

/// The heap memory of one VMA.
struct Cell {
    /// The group that the VMA was allocated with; `None` for an allocation of its own.
    group: Option<NonNull<Group>>,
    vma: Vma,
}

/// The head of an allocation of several VMAs, which follow it.
struct Group {
    /// The number of VMAs that are in use or that the batch may still make.
    areas: AtomicUsize,
    /// The number of VMAs that there is memory for.
    room: usize,
}

impl Group {
    /// Returns the layout of a group, and the offset of its first VMA.
    fn layout(room: usize) -> Result<(Layout, usize), LayoutError> {
        Layout::new::<Group>().extend(Layout::array::<Cell>(room)?)
    }

    /// Takes `areas` VMAs off the count, because they were dropped or will not be made. Frees the
    /// group with the last one.
    ///
    /// # Safety
    /// The group is live, and counts these VMAs. The caller uses neither them nor the group
    /// afterwards.
    #[inline]
    unsafe fn leave(group: NonNull<Group>, areas: usize) {
        // SAFETY: the caller says that the group is live.
        let count = unsafe { &group.as_ref().areas };
        // Release: uses of these VMAs come before the thread that drops the last one frees the
        // group. Acquire: that thread sees the uses by all others. If no other VMA is counted, no
        // other thread can have one, and a plain comparison is enough.
        let last = count.load(Ordering::Acquire) == areas
            || count.fetch_sub(areas, Ordering::AcqRel) == areas;
        if last {
            // SAFETY: no VMA of the group is left.
            unsafe { Self::free(group) };
        }
    }

    /// # Safety
    /// No thread uses the group or a VMA of it.
    #[cold]
    #[inline(never)]
    unsafe fn free(group: NonNull<Group>) {
        // SAFETY: the caller says that the group is live.
        let room = unsafe { group.as_ref().room };
        if let Ok((layout, _)) = Self::layout(room) {
            // SAFETY: allocated in `Batch::begin` with this layout.
            unsafe { dealloc(group.as_ptr().cast(), layout) };
        }
    }
}

/// A VMA on the heap: a `Box<Vma>` whose memory may be part of a group.
pub(crate) struct VmaBox(NonNull<Cell>);

// SAFETY: it owns its VMA as a box does, and groups are counted by atomic instructions.
unsafe impl Send for VmaBox where Vma: Send {}
// SAFETY: as above.
unsafe impl Sync for VmaBox where Vma: Sync {}

impl VmaBox {
    /// Moves a VMA to the heap, in an allocation of its own.
    ///
    /// # Errors
    /// `ENOMEM` when the allocation fails; the VMA is dropped.
    // Always inlined: as an argument of a call, the VMA would be moved once more.
    #[inline(always)]
    pub(crate) fn try_new(vma: Vma) -> Result<Self, Errno> {
        Ok(UninitVma::try_new()?.fill(vma))
    }

    /// Copies a VMA to the heap, in an allocation of its own.
    ///
    /// # Errors
    /// `ENOMEM`.
    #[inline(always)]
    pub(crate) fn try_copy(vma: &Vma) -> Result<Self, Errno> {
        let name = vma.try_name()?;
        Ok(UninitVma::try_new()?.fill(vma.named(name)))
    }
}

/// Uninitialised heap memory for one VMA.
///
/// It is allocated before the VMA is built, so that the VMA is built in place or moved once. An
/// allocation after the VMA exists would force the compiler to keep it elsewhere.
pub(crate) struct UninitVma(Box<MaybeUninit<Cell>>);

impl UninitVma {
    /// # Errors
    /// `ENOMEM` when the allocation fails.
    #[inline(always)]
    pub(crate) fn try_new() -> Result<Self, Errno> {
        try_room().map(UninitVma)
    }

    #[inline(always)]
    pub(crate) fn fill(self, vma: Vma) -> VmaBox {
        let cell = NonNull::from(Box::leak(self.0)).cast::<Cell>();
        // Each field by itself: as a whole `Cell`, the VMA would be moved twice.
        // SAFETY: the memory is allocated for a `Cell`, and this value owns it.
        unsafe {
            (&raw mut (*cell.as_ptr()).group).write(None);
            (&raw mut (*cell.as_ptr()).vma).write(vma);
        }
        VmaBox(cell)
    }
}

impl Drop for VmaBox {
    #[inline]
    fn drop(&mut self) {
        let cell = self.0.as_ptr();
        // SAFETY: the cell is live, and its owner is being dropped.
        let group = unsafe {
            // Most VMAs own nothing. The test saves the call that would find that out.
            if !(*cell).vma.is_plain() {
                (&raw mut (*cell).vma).drop_in_place();
            }
            (*cell).group
        };
        match group {
            // SAFETY: allocated by [`UninitVma`] with this layout.
            None => unsafe { dealloc(cell.cast(), Layout::new::<Cell>()) },
            // SAFETY: the group counts this VMA, so it is still live.
            Some(group) => unsafe { Group::leave(group, 1) },
        }
    }
}

impl Deref for VmaBox {
    type Target = Vma;

    #[inline]
    fn deref(&self) -> &Vma {
        // SAFETY: the cell lives as long as its owner.
        unsafe { &(*self.0.as_ptr()).vma }
    }
}

impl DerefMut for VmaBox {
    #[inline]
    fn deref_mut(&mut self) -> &mut Vma {
        // SAFETY: as above, and the owner is borrowed exclusively.
        unsafe { &mut (*self.0.as_ptr()).vma }
    }
}

impl fmt::Debug for VmaBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<'a> View<'a> for VmaBox {
    type Ref = &'a Vma;
    type Mut = &'a mut Vma;
}

// SAFETY: the word is the pointer, which is not null; views are those of what it points to.
unsafe impl Value for VmaBox {
    #[inline]
    fn into_raw(self) -> NonNull<()> {
        let cell = self.0.cast();
        core::mem::forget(self);
        cell
    }

    #[inline]
    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        VmaBox(raw.cast())
    }

    #[inline]
    unsafe fn borrow<'a>(raw: NonNull<()>) -> &'a Vma
    where
        Self: 'a,
    {
        // SAFETY: it came from `into_raw`, and no exclusive borrow exists, as the caller says.
        unsafe { &(*raw.cast::<Cell>().as_ptr()).vma }
    }

    #[inline]
    unsafe fn borrow_mut<'a>(slot: NonNull<NonNull<()>>) -> &'a mut Vma
    where
        Self: 'a,
    {
        // SAFETY: the slot holds what came from `into_raw`, and no other borrow exists, as the
        // caller says.
        unsafe { &mut (*slot.read().cast::<Cell>().as_ptr()).vma }
    }
}

/// The attributes of a copy that may differ from those of the original.
pub(crate) struct CopyAttrs {
    pub(crate) flags: VmFlags,
    pub(crate) anon: Option<AnonVma>,
    /// The copy stays registered with the userfaultfd.
    pub(crate) keep_uffd: bool,
}

impl CopyAttrs {
    /// Returns the attributes of an identical copy.
    pub(crate) fn same(vma: &Vma) -> Self {
        CopyAttrs {
            flags: vma.flags,
            anon: vma.anon(),
            keep_uffd: true,
        }
    }
}

/// Makes VMAs one after the other, in groups.
pub(crate) struct Batch {
    /// The group that is being filled.
    group: Option<NonNull<Group>>,
    /// The address of its next VMA, and the number of VMAs that it still has memory for.
    next: *mut Cell,
    room: usize,
    /// The number of VMAs that may still be made and have no group yet.
    left: usize,
}

impl Batch {
    /// Returns a batch for at most `areas` VMAs.
    pub(crate) fn new(areas: usize) -> Self {
        Batch {
            group: None,
            next: core::ptr::null_mut(),
            room: 0,
            left: areas,
        }
    }

    /// Copies a VMA for another map. Its lock is open, because that map has calls of its own.
    ///
    /// # Errors
    /// `ENOMEM`.
    #[inline]
    pub(crate) fn copy(&mut self, vma: &Vma, attrs: CopyAttrs) -> Result<VmaBox, Errno> {
        let name = vma.try_name()?;
        let group = match self.group {
            Some(group) => group,
            None => self.begin()?,
        };
        let cell = self.next;
        // SAFETY: the group has memory for at least one more VMA, which only this batch uses.
        unsafe {
            cell.write(Cell {
                group: Some(group),
                vma: Vma {
                    flags: attrs.flags,
                    shift: vma.shift,
                    backing: vma.backing.clone(),
                    anon: attrs.anon.into(),
                    guarded: vma.guarded.get().into(),
                    lock: VmaLock::new(),
                    policy: vma.policy,
                    uffd: vma.uffd.filter(|_| attrs.keep_uffd),
                    name,
                },
            });
            // SAFETY: the address after the last VMA is the end of the allocation.
            self.next = cell.add(1);
            self.room -= 1;
            if self.room == 0 {
                self.group = None;
            }
            Ok(VmaBox(NonNull::new_unchecked(cell)))
        }
    }

    /// Allocates the next group.
    ///
    /// # Errors
    /// `ENOMEM`.
    #[cold]
    #[inline(never)]
    fn begin(&mut self) -> Result<NonNull<Group>, Errno> {
        // At least one: the caller may have promised too few.
        let room = self.left.clamp(1, GROUP);
        let (layout, first) = Group::layout(room).map_err(|_| Errno::ENOMEM)?;
        // SAFETY: the layout is not of size zero.
        let memory = NonNull::new(unsafe { alloc(layout) }).ok_or(Errno::ENOMEM)?;
        let group = memory.cast::<Group>();
        // SAFETY: new memory of this layout.
        unsafe {
            group.write(Group {
                areas: AtomicUsize::new(room),
                room,
            });
            self.next = memory.as_ptr().add(first).cast();
        }
        self.left = self.left.saturating_sub(room);
        self.room = room;
        self.group = Some(group);
        Ok(group)
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // SAFETY: the group counts the VMAs that were not made, so it is live.
            unsafe { Group::leave(group, self.room) };
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use alloc::boxed::Box;
    use alloc::vec::Vec;

    use super::*;
    use crate::object::Object;
    use crate::vma::{Backing, SpecialObject};

    fn vma(name: &SpecialObject) -> Vma {
        Vma::new(VmFlags::READ, 7, Backing::Special(name.clone()))
    }

    #[test]
    fn areas_of_a_group_go_in_any_order() {
        let name = SpecialObject::try_new(Box::from("[area]"), Object::none()).unwrap();
        let original = vma(&name);
        for count in [1, 2, GROUP - 1, GROUP, GROUP + 1, 3 * GROUP] {
            for (promised, step) in [(count, 1), (count + 5, 2), (0, 7), (GROUP, 11)] {
                let mut batch = Batch::new(promised);
                let mut areas: Vec<_> = (0..count)
                    .map(|_| batch.copy(&original, CopyAttrs::same(&original)).unwrap())
                    .collect();
                // Some are dropped before the batch ends, the others after.
                let mut at = 0;
                while areas.len() > count / 2 {
                    at = (at + step) % areas.len();
                    assert_eq!(*areas.swap_remove(at), original);
                }
                drop(batch);
                assert!(areas.iter().all(|area| **area == original));
                assert_eq!(name.handles(), 2 + areas.len());
                while !areas.is_empty() {
                    at = (at + step) % areas.len();
                    areas.swap_remove(at);
                }
                assert_eq!(name.handles(), 2);
            }
        }
    }

    #[test]
    fn threads_drop_areas_of_one_group() {
        let name = SpecialObject::try_new(Box::from("[area]"), Object::none()).unwrap();
        let original = vma(&name);
        let mut batch = Batch::new(GROUP);
        let mut areas: Vec<_> = (0..GROUP - 2)
            .map(|_| batch.copy(&original, CopyAttrs::same(&original)).unwrap())
            .collect();
        let others = areas.split_off(GROUP / 2);
        std::thread::scope(|s| {
            s.spawn(|| drop(areas));
            s.spawn(|| drop(others));
            drop(batch);
        });
        assert_eq!(name.handles(), 2);
    }

    #[test]
    fn a_swapped_vma_stays_in_its_allocation() {
        let name = SpecialObject::try_new(Box::from("[area]"), Object::none()).unwrap();
        let mut batch = Batch::new(2);
        let original = vma(&name);
        let mut grouped = batch.copy(&original, CopyAttrs::same(&original)).unwrap();
        let mut single = VmaBox::try_new(original).unwrap();
        core::mem::swap(&mut *grouped, &mut *single);
        drop(grouped);
        assert_eq!(single.shift, 7);
    }
}
