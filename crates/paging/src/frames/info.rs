//! What is told of a frame, and of all of them.

use super::{ANON, FILE, Frames, KIND, Kind, MAPPINGS, ONE_REFERENCE, PINNED, REFERENCES, TABLE};
use crate::atomic::Ordering;

/// What is known of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameInfo {
    /// What it is used for.
    pub kind: Kind,
    /// Entries of tables that point to it.
    pub mappings: u32,
    /// Other references.
    pub references: u32,
}

/// How many frames are used for what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Private memory.
    pub anon: u64,
    /// Files and shared memory, the zero page among them.
    pub file: u64,
    /// Tables, also those that wait for walks.
    pub tables: u64,
}

impl Frames {
    /// What is known of a frame; `None` if it is free, holds a table, or is not counted.
    pub fn info(&self, phys: u64) -> Option<FrameInfo> {
        if !self.contains(phys) {
            return None;
        }
        let word = self.word(phys).load(Ordering::Acquire);
        let kind = match word & KIND {
            ANON => Kind::Anon,
            FILE => Kind::File,
            PINNED if word != 0 => Kind::Anon,
            _ => return None,
        };
        Some(FrameInfo {
            kind,
            mappings: word & MAPPINGS,
            references: (word & REFERENCES) / ONE_REFERENCE,
        })
    }

    /// How many frames are used for what, by looking at all that were ever [given out](Self::used): linear in memory, for statistics. Beside allocations
    /// and frees, each frame is counted as it is when it is looked at.
    ///
    /// ```
    /// # use samara_paging::{Arena, Exclusive, Kind, Physical};
    /// # // SAFETY: one thread uses the memory.
    /// # let memory = Physical::new(Arena::on_heap(64)?, unsafe { Exclusive::new() }, 1 << 30, 64)?;
    /// let before = memory.frames().census();
    /// memory.alloc_page(Kind::Anon)?;
    /// let census = memory.frames().census();
    /// assert_eq!((census.anon, census.file, census.tables), (1, before.file, 0));
    /// # Ok::<(), samara_paging::Error>(())
    /// ```
    pub fn census(&self) -> Census {
        let mut census = Census::default();
        for index in self.given_out() {
            let word = self.at(index).load(Ordering::Relaxed);
            match word & KIND {
                ANON => census.anon += 1,
                FILE => census.file += 1,
                TABLE => census.tables += 1,
                _ => census.anon += u64::from(word != 0),
            }
        }
        census
    }

    /// Whether the frame is private memory. Of a frame that is not counted, or free, it says nothing.
    pub fn is_private(&self, phys: u64) -> bool {
        self.contains(phys) && self.is_anon(phys)
    }

    /// Whether the frame is private memory.
    #[inline]
    pub(crate) fn is_anon(&self, phys: u64) -> bool {
        // Of kinds in use, pinned ones are the only others below.
        self.word(phys).load(Ordering::Relaxed) < FILE
    }

    /// Whether a frame holds a table.
    pub(crate) fn is_table(&self, phys: u64) -> bool {
        self.word(phys).load(Ordering::Relaxed) & KIND == TABLE
    }
}
