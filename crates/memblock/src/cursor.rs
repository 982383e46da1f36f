//! Walking two arrays at once: what of the first the second leaves over.
//!
//! A [`Cursor`] is a position in both, so that a walk is resumed where it stopped; [`Cursor::pack`] gives it the form that
//! Linux's `__next_mem_range` keeps between calls.

use crate::region::{Flags, NodeId, Region};

/// Which memory regions a walk visits.
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    /// Only regions of this node, unless it is none.
    pub nid: NodeId,
    /// [`Flags::MIRROR`]: only mirrored memory; [`Flags::KHO_SCRATCH`]: only such memory. [`Flags::NOMAP`], [`Flags::DRIVER_MANAGED`], [`Flags::HOTPLUG`]: such memory
    /// too, which is otherwise left out (hot-pluggable memory only while `movable_node` is set).
    pub flags: Flags,
    /// Whether hot-pluggable memory is to be left out.
    pub movable_node: bool,
}

impl Filter {
    /// Visits everything, as walks over anything but memory do.
    pub const ALL: Filter = Filter {
        nid: NodeId::NONE,
        flags: Flags::HOTPLUG
            .union(Flags::NOMAP)
            .union(Flags::DRIVER_MANAGED),
        movable_node: false,
    };

    /// Whether a region is left out.
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

/// A piece of memory found by a walk: `start..end` and its node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Span {
    /// First byte.
    pub start: u64,
    /// First byte after it.
    pub end: u64,
    /// The node of the memory region that it is part of.
    pub nid: NodeId,
}

impl Span {
    /// The page frames that lie wholly in the piece, if it is in bytes. The range may be empty or reversed.
    ///
    /// ```
    /// use samara_memblock::{NodeId, Span};
    /// let piece = Span { start: 0x1800, end: 0x4800, nid: NodeId::NONE };
    /// assert_eq!(piece.frames(), 2..4);
    /// ```
    #[inline]
    #[must_use]
    pub const fn frames(&self) -> core::ops::Range<u64> {
        crate::frames::contained_frames(self.start, self.end)
    }
}

/// A position in two arrays: `a` counts regions of the first; `b` counts the gaps of the second, gap 0 being below its first
/// region and gap `len` above its last. Walking down, `a` and `b` are −1 once they have passed the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cursor {
    a: i64,
    b: i64,
}

impl Cursor {
    /// The packed form of a finished walk, and of one that is to begin at the top.
    pub const END: u64 = u64::MAX;

    /// Before everything.
    #[must_use]
    pub const fn bottom() -> Self {
        Cursor { a: 0, b: 0 }
    }

    /// After everything.
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

    /// Where a walk upwards can begin when nothing below `start` matters. O(log n).
    #[inline]
    #[must_use]
    pub(crate) fn upwards_from(a: &[Region], b: &[Region], start: u64) -> Self {
        let at = a.partition_point(|r| r.end() <= start);
        Cursor {
            a: at as i64,
            b: b.partition_point(|r| r.base <= start) as i64,
        }
    }

    /// Where a walk downwards can begin when nothing from `end` on matters. O(log n).
    #[inline]
    #[must_use]
    pub(crate) fn downwards_from(a: &[Region], b: &[Region], end: u64) -> Self {
        let at = a.partition_point(|r| r.base < end);
        Cursor {
            a: at as i64 - 1,
            b: b.partition_point(|r| r.end() < end) as i64,
        }
    }

    /// As Linux packs it: `a` in the lower, `b` in the upper 32 bits.
    #[must_use]
    pub const fn pack(self) -> u64 {
        (self.a as u32) as u64 | (((self.b as u32) as u64) << 32)
    }

    /// The reverse of [`pack`](Self::pack). Halves are read as signed, so that −1 comes back as such.
    #[must_use]
    pub const fn unpack(packed: u64) -> Self {
        Cursor {
            a: (packed as u32) as i32 as i64,
            b: ((packed >> 32) as u32) as i32 as i64,
        }
    }

    /// The next piece of `a` that no region of `b` covers, going up. Without `b`, the next region.
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
                    // A region that was left out may have had many gaps.
                    if b.get(gap).is_some_and(|next| next.base <= r.base) {
                        gap += b[gap..].partition_point(|next| next.base <= r.base);
                    }
                } else if low < high {
                    // (Regions that touch without being one have no gap between them.)
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

    /// The next piece of `a` that no region of `b` covers, going down.
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
        // Beyond the end means: not begun, or the arrays have shrunk since.
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

/// Gap `gap` of an array: what lies between region `gap - 1` and region `gap`.
#[inline]
fn bounds(b: &[Region], gap: usize) -> (u64, u64) {
    let low = gap
        .checked_sub(1)
        .and_then(|i| b.get(i))
        .map_or(0, Region::end);
    let high = b.get(gap).map_or(u64::MAX, |r| r.base);
    (low, high)
}
