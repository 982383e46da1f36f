//! Areas on the heap: one by one, as calls lay them down, or many in one allocation, as a fork makes them.
//!
//! A fork makes all areas of a child at once, and most of them go at once, too, when the child exits or becomes another program. So they are allocated
//! in groups of up to [`GROUP`], in which they lie one behind the other as they do in the map. A group counts its areas, and is freed with the last of
//! them: what a child's areas take that go one by one comes back late, and is never more than the fork took.

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
use crate::space::vma::{AnonVma, Vma};
use crate::space::vma_lock::VmaLock;

/// How many areas are allocated at once, at most: about 3 KiB.
const GROUP: usize = 32;

/// What is on the heap for an area.
struct Cell {
    /// What it was allocated with; `None`: by itself.
    group: Option<NonNull<Group>>,
    vma: Vma,
}

/// The head of an allocation of several areas, which follow it.
struct Group {
    /// How many are there, or may still come.
    areas: AtomicUsize,
    /// How many it was made for.
    room: usize,
}

impl Group {
    /// The layout of a group, and where its areas begin.
    fn layout(room: usize) -> Result<(Layout, usize), LayoutError> {
        Layout::new::<Group>().extend(Layout::array::<Cell>(room)?)
    }

    /// So many areas of it have gone, or do not come.
    ///
    /// # Safety
    /// The group is there, and these are counted in it. The caller uses none of them any more, nor the group.
    #[inline]
    unsafe fn leave(group: NonNull<Group>, areas: usize) {
        // SAFETY: the caller's promise.
        let count = unsafe { &group.as_ref().areas };
        // Release: what was done with these areas comes before the group is freed by whoever is last. Acquire: as the last, after all others. If no other is
        // counted, none can come, and there is nobody to be told.
        let last = count.load(Ordering::Acquire) == areas
            || count.fetch_sub(areas, Ordering::AcqRel) == areas;
        if last {
            // SAFETY: these were the last.
            unsafe { Self::free(group) };
        }
    }

    /// # Safety
    /// Nobody uses the group, nor an area of it.
    #[cold]
    #[inline(never)]
    unsafe fn free(group: NonNull<Group>) {
        // SAFETY: the caller's promise.
        let room = unsafe { group.as_ref().room };
        if let Ok((layout, _)) = Self::layout(room) {
            // SAFETY: allocated in `Batch::begin` with this layout.
            unsafe { dealloc(group.as_ptr().cast(), layout) };
        }
    }
}

/// An area on the heap: a `Box<Vma>`, whose memory may be a part of a group.
pub(crate) struct VmaBox(NonNull<Cell>);

// SAFETY: it owns its area, as a box does; groups are counted by atomic instructions.
unsafe impl Send for VmaBox where Vma: Send {}
// SAFETY: as above.
unsafe impl Sync for VmaBox where Vma: Sync {}

impl VmaBox {
    /// Puts an area on the heap, by itself.
    ///
    /// # Errors
    /// `ENOMEM` when the allocator has nothing; the area is dropped.
    // In line: as an argument, the area would be moved once more.
    #[inline(always)]
    pub(crate) fn try_new(vma: Vma) -> Result<Self, Errno> {
        Ok(UninitVma::try_new()?.fill(vma))
    }

    /// Puts a [copy](Vma::try_clone) of an area on the heap, by itself.
    ///
    /// # Errors
    /// `ENOMEM`.
    #[inline(always)]
    pub(crate) fn try_copy(vma: &Vma) -> Result<Self, Errno> {
        let name = vma.try_name()?;
        Ok(UninitVma::try_new()?.fill(vma.named(name)))
    }
}

/// UninitVma on the heap for an area by itself. It comes before the area, which is then made there, or moved there once: were memory asked for while the area is
/// there, it would be kept elsewhere meanwhile.
pub(crate) struct UninitVma(Box<MaybeUninit<Cell>>);

impl UninitVma {
    /// # Errors
    /// `ENOMEM` when the allocator has nothing.
    #[inline(always)]
    pub(crate) fn try_new() -> Result<Self, Errno> {
        try_room().map(UninitVma)
    }

    #[inline(always)]
    pub(crate) fn fill(self, vma: Vma) -> VmaBox {
        let cell = NonNull::from(Box::leak(self.0)).cast::<Cell>();
        // Each by itself: as a cell, the area would be moved twice.
        // SAFETY: the room, which nobody else has.
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
        // SAFETY: the cell is there and this is its owner, who uses the area no more.
        let group = unsafe {
            // Most areas own nothing: to drop one is a call that finds that out.
            if !(*cell).vma.is_plain() {
                (&raw mut (*cell).vma).drop_in_place();
            }
            (*cell).group
        };
        match group {
            // SAFETY: allocated as [`UninitVma`] with this layout.
            None => unsafe { dealloc(cell.cast(), Layout::new::<Cell>()) },
            // SAFETY: the area is counted in its group, which has been there until now.
            Some(group) => unsafe { Group::leave(group, 1) },
        }
    }
}

impl Deref for VmaBox {
    type Target = Vma;

    #[inline]
    fn deref(&self) -> &Vma {
        // SAFETY: the cell is there as long as its owner.
        unsafe { &(*self.0.as_ptr()).vma }
    }
}

impl DerefMut for VmaBox {
    #[inline]
    fn deref_mut(&mut self) -> &mut Vma {
        // SAFETY: as above, and its owner is borrowed exclusively.
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
        // SAFETY: it came from `into_raw`, and nobody has it exclusively (the caller's promise).
        unsafe { &(*raw.cast::<Cell>().as_ptr()).vma }
    }

    #[inline]
    unsafe fn borrow_mut<'a>(slot: NonNull<NonNull<()>>) -> &'a mut Vma
    where
        Self: 'a,
    {
        // SAFETY: the slot holds what came from `into_raw`, and nobody else has it (the caller's promise).
        unsafe { &mut (*slot.read().cast::<Cell>().as_ptr()).vma }
    }
}

/// What a copy of an area has otherwise than the area.
pub(crate) struct CopyAttrs {
    pub(crate) flags: VmFlags,
    pub(crate) anon: Option<AnonVma>,
    /// Whether who watches the area watches the copy, too.
    pub(crate) keep_uffd: bool,
}

impl CopyAttrs {
    /// Nothing differs.
    pub(crate) fn same(vma: &Vma) -> Self {
        CopyAttrs {
            flags: vma.flags,
            anon: vma.anon(),
            keep_uffd: true,
        }
    }
}

/// Makes areas that come one after the other, in groups.
pub(crate) struct Batch {
    /// The group that is being filled, and has room.
    group: Option<NonNull<Group>>,
    /// Where its next area goes, and how many more there are.
    next: *mut Cell,
    room: usize,
    /// How many areas may still come for which there is no group.
    left: usize,
}

impl Batch {
    /// For at most so many areas.
    pub(crate) fn new(areas: usize) -> Self {
        Batch {
            group: None,
            next: core::ptr::null_mut(),
            room: 0,
            left: areas,
        }
    }

    /// A copy of an area for another map, whose calls are others: its lock is open.
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
        // SAFETY: there is room for one at least: memory of the group, which nobody else uses.
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
            // SAFETY: the address after the last is that of the end of the group.
            self.next = cell.add(1);
            self.room -= 1;
            if self.room == 0 {
                self.group = None;
            }
            Ok(VmaBox(NonNull::new_unchecked(cell)))
        }
    }

    /// The next group.
    ///
    /// # Errors
    /// `ENOMEM`.
    #[cold]
    #[inline(never)]
    fn begin(&mut self) -> Result<NonNull<Group>, Errno> {
        // One at least, whatever was said.
        let room = self.left.clamp(1, GROUP);
        let (layout, first) = Group::layout(room).map_err(|_| Errno::ENOMEM)?;
        // SAFETY: the layout is not of size zero.
        let memory = NonNull::new(unsafe { alloc(layout) }).ok_or(Errno::ENOMEM)?;
        let group = memory.cast::<Group>();
        // SAFETY: memory of this layout, which nobody else has.
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
            // SAFETY: those that do not come are counted until now.
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
    use crate::pages::Object;
    use crate::space::vma::{Backing, SpecialObject};

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
                // Some before the batch ends, the others after.
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
    fn what_is_moved_out_of_one_place_stays_in_its_allocation() {
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
