//! The per-CPU cache of free frames. It is a stack: the frame freed last is reused first, because
//! its bytes are still in the processor's cache.

/// The number of frames moved between a cache and the allocator at once. Their counts fill two
/// cache lines.
pub(crate) const BATCH: usize = 32;

/// The capacity of a cache.
const ROOM: usize = 2 * BATCH;

/// A stack of frames.
#[derive(Debug)]
pub(crate) struct FrameCache {
    len: usize,
    frames: [u32; ROOM],
}

impl FrameCache {
    pub(crate) const fn new() -> Self {
        Self {
            len: 0,
            frames: [0; ROOM],
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns `true` if the cache has no room.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.len == ROOM
    }

    /// Removes the frame that was added last.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u32> {
        let last = self.len.checked_sub(1)?;
        let frame = *self.frames.get(last)?;
        self.len = last;
        Some(frame)
    }

    /// Adds a frame. Returns `false` if the cache is full.
    #[inline]
    pub(crate) fn push(&mut self, frame: u32) -> bool {
        let place = self.frames.get_mut(self.len);
        let found = place.is_some();
        if let Some(place) = place {
            *place = frame;
            self.len += 1;
        }
        found
    }

    /// Removes the frames that were added first, at most one batch, and returns their number.
    pub(crate) fn oldest(&mut self, into: &mut [u32; BATCH]) -> usize {
        let count = self.len.min(BATCH);
        into[..count].copy_from_slice(&self.frames[..count]);
        self.frames.copy_within(count..self.len, 0);
        self.len -= count;
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_comes_out_first_and_the_oldest_go_back() {
        let mut stock = FrameCache::new();
        for frame in 0..ROOM as u32 {
            assert!(stock.push(frame));
        }
        assert!(!stock.push(99));
        assert_eq!(stock.pop(), Some(ROOM as u32 - 1));
        let mut back = [0; BATCH];
        assert_eq!(stock.oldest(&mut back), BATCH);
        assert!(back.iter().copied().eq(0..BATCH as u32));
        assert_eq!(stock.len(), BATCH - 1);
        assert_eq!(stock.oldest(&mut back), BATCH - 1);
        assert!(
            back[..BATCH - 1]
                .iter()
                .copied()
                .eq(BATCH as u32..ROOM as u32 - 1)
        );
        assert_eq!((stock.pop(), stock.oldest(&mut back)), (None, 0));
    }
}
