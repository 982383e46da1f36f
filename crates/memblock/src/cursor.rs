//! Walks over two arrays at once: over the parts of the first that the second does not cover.
//!
//! A [`Cursor`] is a position in both, so that a walk can resume where it stopped. [`Cursor::pack`]
//! converts it to the form that Linux's `__next_mem_range` keeps between calls.

use crate::region::{Flags, NodeId, Region};

/// The memory regions that a walk visits.
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    /// The node of the visited regions, or none for all.
    pub nid: NodeId,
    /// The kinds of visited memory.
    ///
    /// [`Flags::MIRROR`] or [`Flags::KHO_SCRATCH`]: only memory with that flag. [`Flags::NOMAP`],
    /// [`Flags::DRIVER_MANAGED`] or [`Flags::HOTPLUG`]: also such memory, which is otherwise
    /// skipped. Hot-pluggable memory is skipped only while `movable_node` is set.
    pub flags: Flags,
    /// `true` if hot-pluggable memory is skipped.
    pub movable_node: bool,
}

impl Filter {
    /// Visits everything, as walks over other arrays than memory do.
    pub const ALL: Filter = Filter {
        nid: NodeId::NONE,
        flags: Flags::HOTPLUG
            .union(Flags::NOMAP)
            .union(Flags::DRIVER_MANAGED),
        movable_node: false,
    };

    /// Returns `true` if a region is skipped.
    #[inline]
    #[must_use]
    pub fn skips(&self, r: &Region) -> bool {
        if self.nid.is_valid() && r.nid != self.nid {
            return true;
        }
        let odd = Flags::HOTPLUG
            .union(Flags::NOMAP)
            .union(Flags::DRIVER_MANAGED)
            .union(Flags::PENDING);
        let only = self
            .flags
            .intersection(Flags::MIRROR.union(Flags::KHO_SCRATCH));
        if !r.flags.intersects(odd) && only.is_empty() {
            return false;
        }
        let without = |flag: Flags| r.flags.contains(flag) && !self.flags.contains(flag);
        (self.movable_node && without(Flags::HOTPLUG))
            || !r.flags.contains(only)
            || without(Flags::NOMAP)
            || without(Flags::DRIVER_MANAGED)
            || r.flags.contains(Flags::PENDING)
    }
}

/// A range of memory that a walk found: `start..end` and its node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Span {
    /// First byte.
    pub start: u64,
    /// First byte after the range.
    pub end: u64,
    /// The node of the memory region that contains it.
    pub nid: NodeId,
}

impl Span {
    /// Returns the page frames that lie entirely in the span, if it is in bytes. The range may be
    /// empty or reversed.
    ///
    /// ```
    /// use samara_memblock::{NodeId, Span};
    /// let piece = Span { start: 0x1800, end: 0x4800, nid: NodeId::NONE };
    /// assert_eq!(piece.frames(), 2..4);
    /// ```
    #[inline]
    #[must_use]
    pub const fn frames(&self) -> core::ops::Range<u64> {
        crate::pfn::contained_frames(self.start, self.end)
    }
}

/// A position in two arrays: `a` counts regions of the first, and `b` counts the gaps of the
/// second.
///
/// Gap 0 is below the first region and gap `len` above the last. Walking down, `a` and `b` are −1
/// once they have passed the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cursor {
    a: i64,
    b: i64,
}

impl Cursor {
    /// The packed form of a finished walk, and of one that begins at the top.
    pub const END: u64 = u64::MAX;

    /// Returns the position before everything.
    #[must_use]
    pub const fn bottom() -> Self {
        Cursor { a: 0, b: 0 }
    }

    /// Returns the position after everything.
    #[must_use]
    pub const fn top(a: &[Region], b: Option<&[Region]>) -> Self {
        let gaps = match b {
            Some(b) => b.len() as i64,
            None => 0,
        };
        Cursor {
            a: a.len() as i64 - 1,
            b: gaps,
        }
    }

    /// Returns where a walk upwards begins if it ignores everything below `start`. O(log n).
    #[inline]
    #[must_use]
    pub(crate) fn upwards_from(a: &[Region], b: &[Region], start: u64) -> Self {
        let at = a.partition_point(|r| r.end() <= start);
        Cursor {
            a: at as i64,
            b: b.partition_point(|r| r.base <= start) as i64,
        }
    }

    /// Returns where a walk downwards begins if it ignores everything from `end` on. O(log n).
    #[inline]
    #[must_use]
    pub(crate) fn downwards_from(a: &[Region], b: &[Region], end: u64) -> Self {
        let at = a.partition_point(|r| r.base < end);
        Cursor {
            a: at as i64 - 1,
            b: b.partition_point(|r| r.end() < end) as i64,
        }
    }

    /// Packs the position as Linux does: `a` in the lower 32 bits, `b` in the upper ones.
    #[must_use]
    pub const fn pack(self) -> u64 {
        (self.a as u32) as u64 | (((self.b as u32) as u64) << 32)
    }

    /// Reverses [`pack`](Self::pack). Halves are read as signed, so that −1 stays −1.
    #[must_use]
    pub const fn unpack(packed: u64) -> Self {
        Cursor {
            a: (packed as u32) as i32 as i64,
            b: ((packed >> 32) as u32) as i32 as i64,
        }
    }

    /// Returns the next part of `a` that no region of `b` covers, going up. Without `b`, the next
    /// region.
    ///
    /// ```
    /// use samara_memblock::{Cursor, Filter, Region};
    ///
    /// let region = |base, size| Region { base, size, ..Region::EMPTY };
    /// let (a, b) = ([region(0, 0x3000)], [region(0x1000, 0x1000)]);
    /// let mut at = Cursor::bottom();
    /// while let Some(piece) = at.next(&a, Some(&b), &Filter::ALL) {
    ///     at = Cursor::unpack(at.pack()); // what C code keeps between calls
    ///     assert!(matches!((piece.start, piece.end), (0, 0x1000) | (0x2000, 0x3000)));
    /// }
    /// ```
    #[inline]
    pub fn next(&mut self, a: &[Region], b: Option<&[Region]>, filter: &Filter) -> Option<Span> {
        let mut at = usize::try_from(self.a).ok()?;
        let mut gap = usize::try_from(self.b).unwrap_or(0);
        while let Some(r) = a.get(at) {
            if filter.skips(r) {
                at += 1;
                continue;
            }
            let Some(b) = b else {
                *self = Cursor {
                    a: at as i64 + 1,
                    b: gap as i64,
                };
                return Some(Span {
                    start: r.base,
                    end: r.end(),
                    nid: r.nid,
                });
            };
            while gap <= b.len() {
                let (low, high) = bounds(b, gap);
                if low >= r.end() {
                    break;
                }
                gap += 1;
                if high <= r.base {
                    // A region that was skipped may have contained many gaps.
                    if b.get(gap).is_some_and(|next| next.base <= r.base) {
                        gap += b[gap..].partition_point(|next| next.base <= r.base);
                    }
                } else if low < high {
                    // (Regions that touch and are not merged have no gap between them.)
                    let inside = r.end() <= high;
                    *self = Cursor {
                        a: (at + usize::from(inside)) as i64,
                        b: (gap - usize::from(inside)) as i64,
                    };
                    return Some(Span {
                        start: r.base.max(low),
                        end: r.end().min(high),
                        nid: r.nid,
                    });
                }
            }
            at += 1;
        }
        *self = Cursor {
            a: at as i64,
            b: gap as i64,
        };
        None
    }

    /// Returns the next part of `a` that no region of `b` covers, going down.
    ///
    /// ```
    /// use samara_memblock::{Cursor, Filter, Region};
    ///
    /// let region = |base, size| Region { base, size, ..Region::EMPTY };
    /// let (a, b) = ([region(0, 0x3000)], [region(0x1000, 0x1000)]);
    /// let mut at = Cursor::top(&a, Some(&b));
    /// assert_eq!(at.next_back(&a, Some(&b), &Filter::ALL).map(|p| p.start), Some(0x2000));
    /// assert_eq!(at.next_back(&a, Some(&b), &Filter::ALL).map(|p| p.start), Some(0));
    /// assert_eq!(at.next_back(&a, Some(&b), &Filter::ALL), None);
    /// ```
    #[inline]
    pub fn next_back(
        &mut self,
        a: &[Region],
        b: Option<&[Region]>,
        filter: &Filter,
    ) -> Option<Span> {
        // A position beyond the end: the walk has not begun, or the arrays have shrunk since.
        let mut at = self.a.min(a.len() as i64 - 1);
        let mut gap = self.b.min(b.map_or(0, <[Region]>::len) as i64);
        while let Ok(i) = usize::try_from(at) {
            let r = &a[i];
            if filter.skips(r) {
                at -= 1;
                continue;
            }
            let Some(b) = b else {
                *self = Cursor { a: at - 1, b: gap };
                return Some(Span {
                    start: r.base,
                    end: r.end(),
                    nid: r.nid,
                });
            };
            while let Ok(g) = usize::try_from(gap) {
                let (low, high) = bounds(b, g);
                if high <= r.base {
                    break;
                }
                gap -= 1;
                if r.end() <= low {
                    if g > 1 && b[g - 2].end() >= r.end() {
                        gap = b[..g - 2].partition_point(|last| last.end() < r.end()) as i64;
                    }
                } else if low < high {
                    let inside = low <= r.base;
                    *self = Cursor {
                        a: at - i64::from(inside),
                        b: gap + i64::from(inside),
                    };
                    return Some(Span {
                        start: r.base.max(low),
                        end: r.end().min(high),
                        nid: r.nid,
                    });
                }
            }
            at -= 1;
        }
        *self = Cursor { a: -1, b: gap };
        None
    }
}

/// Returns the bounds of gap `gap` of an array, which is between regions `gap - 1` and `gap`.
#[inline]
fn bounds(b: &[Region], gap: usize) -> (u64, u64) {
    let low = gap
        .checked_sub(1)
        .and_then(|i| b.get(i))
        .map_or(0, Region::end);
    let high = b.get(gap).map_or(u64::MAX, |r| r.base);
    (low, high)
}
