//! Statistics of one frame and of all of them.

use super::{ANON, FILE, Frames, KIND, Kind, MAPPINGS, ONE_REFERENCE, PINNED, REFERENCES, TABLE};
use crate::atomic::Ordering;

/// The counts of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameInfo {
    /// The use of the frame.
    pub kind: Kind,
    /// The number of table entries that point to the frame.
    pub mappings: u32,
    /// The number of other references.
    pub references: u32,
}

/// The number of frames in each use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Private memory.
    pub anon: u64,
    /// Files and shared memory, including the zero page.
    pub file: u64,
    /// Tables, including those that wait for a grace period.
    pub tables: u64,
}

impl Frames {
    /// Returns the counts of a frame, or `None` if it is free, holds a table, or is not counted.
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

    /// Returns the number of frames in each use. It reads the word of every frame that was ever
    /// [given out](Self::used): linear in memory, for statistics. Frames that other threads
    /// allocate or free concurrently may be counted in either state.
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

    /// Returns `true` if the frame is private memory. The answer is meaningless for a frame that is
    /// free or not counted.
    pub fn is_private(&self, phys: u64) -> bool {
        self.contains(phys) && self.is_anon(phys)
    }

    /// Returns `true` if the frame is private memory.
    #[inline]
    pub(crate) fn is_anon(&self, phys: u64) -> bool {
        // Of the kinds in use, only pinned frames have a lower number.
        self.word(phys).load(Ordering::Relaxed) < FILE
    }

    /// Returns `true` if a frame holds a table.
    pub(crate) fn is_table(&self, phys: u64) -> bool {
        self.word(phys).load(Ordering::Relaxed) & KIND == TABLE
    }
}
