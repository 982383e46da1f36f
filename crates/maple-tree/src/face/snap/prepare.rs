//! All of a write that can fail: memory for nodes, and values made once more for leaves that are copied.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use crate::alloc::{AllocError, NodeAlloc, Reserve};
use crate::base::{Duplicate, Key, Shape, each};
use crate::face::snap::level::{Kept, Level};
use crate::face::snap::release::MOST;
use crate::node::{NULL, Word};

/// Three leaves' slots, two parts of entries that are cut, and an entry that is handed out.
const MOST_VALUES: usize = 3 * MOST + 3;

/// What has been prepared and not been used. Dropping it gives everything back: a write that fails, or during which
/// duplicating a value panics, has changed nothing.
pub(super) struct Ready<'a, V: Duplicate, A: NodeAlloc> {
    alloc: &'a A,
    pub(super) reserve: Reserve,
    /// Words of values, those in `given..made` not yet used.
    words: [MaybeUninit<NonNull<()>>; MOST_VALUES],
    made: usize,
    given: usize,
    marker: PhantomData<V>,
}

impl<'a, V: Duplicate, A: NodeAlloc> Ready<'a, V, A> {
    /// Nothing yet.
    #[inline(always)]
    pub(super) fn new(alloc: &'a A) -> Self {
        Self {
            alloc,
            reserve: Reserve::new(),
            words: [const { MaybeUninit::uninit() }; MOST_VALUES],
            made: 0,
            given: 0,
            marker: PhantomData,
        }
    }

    /// Reserves nodes.
    #[inline]
    pub(super) fn nodes(&mut self, count: usize) -> Result<(), AllocError> {
        self.reserve.fill(count, self.alloc)
    }

    /// Makes a value once more. Nothing is done for a hole.
    ///
    /// # Safety
    ///
    /// The word is NULL, or a value's that nobody removes or views exclusively meanwhile.
    pub(super) unsafe fn duplicate(&mut self, word: Word) -> Result<(), AllocError> {
        if let Some(raw) = NonNull::new(word) {
            // SAFETY: the caller's promise.
            let value = V::duplicate(unsafe { V::borrow(raw) }).ok_or(AllocError)?;
            self.words[self.made].write(value.into_raw());
            self.made += 1;
        }
        Ok(())
    }

    /// Makes the values once more that stay in leaves that others see too.
    ///
    /// # Safety
    ///
    /// The nodes are leaves, whose words are values of `V`.
    pub(super) unsafe fn duplicate_kept<K: Key, S: Shape>(
        &mut self,
        level: &Level<K, S>,
    ) -> Result<(), AllocError> {
        let mut all = |(step, slots): Kept<K, S>| {
            if !step.owned {
                for i in slots {
                    // SAFETY: values in a leaf stay while the tree that leads to it is borrowed, as the caller has it.
                    unsafe { self.duplicate(step.node.slot(i)) }?;
                }
            }
            Ok(())
        };
        level.kept_before().try_for_each(&mut all)?;
        level.kept_after().try_for_each(&mut all)
    }

    /// What stands for the value of `word` in the copy: the duplicates come out in the order in which they were made.
    pub(super) fn next(&mut self, word: Word) -> Word {
        if word.is_null() {
            return NULL;
        }
        assert!(
            self.given < self.made,
            "a write used more values than were made"
        );
        // SAFETY: those below `made` are written, and each is given once.
        let raw = unsafe { self.words[self.given].assume_init() };
        self.given += 1;
        raw.as_ptr()
    }

    /// Makes sure that what was prepared is what was used.
    pub(super) fn assert_used_up(&self) {
        let (nodes, values) = (self.reserve.count(), self.made - self.given);
        assert!(
            nodes == 0 && values == 0,
            "a write left {nodes} nodes and {values} values of those that it had counted",
        );
    }
}

impl<V: Duplicate, A: NodeAlloc> Drop for Ready<'_, V, A> {
    fn drop(&mut self) {
        self.reserve.release(self.alloc);
        each(self.given..self.made, |i| {
            // SAFETY: written, not given out, and not looked at again.
            drop(unsafe { V::from_raw(self.words[i].assume_init()) });
        });
    }
}
