//! Free frames that are set aside for one processor: the one freed last comes out first, since its bytes are still in the cache.

/// How many frames come from the allocator at once, or go back: two lines of the cache hold their counts.
pub(crate) const BATCH: usize = 32;

/// As many as are set aside.
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

    /// Whether there is no room.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.len == ROOM
    }

    /// The frame that was put there last.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u32> {
        let last = self.len.checked_sub(1)?;
        let frame = *self.frames.get(last)?;
        self.len = last;
        Some(frame)
    }

    /// Sets a frame aside; false: there is no room.
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

    /// Takes the frames out that have been there longest, at most a batch; how many.
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
