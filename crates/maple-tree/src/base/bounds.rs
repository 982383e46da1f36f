//! From any range to the inclusive ones of the core.

use core::ops::{Bound, RangeBounds};

use crate::base::key::Key;

/// `first..=last` of a range, or `None` if it holds no index.
#[inline]
pub(crate) fn inclusive<K: Key>(range: &impl RangeBounds<K>) -> Option<(K, K)> {
    let first = match range.start_bound() {
        Bound::Included(&first) => first,
        Bound::Excluded(&before) => before.successor()?,
        Bound::Unbounded => K::MIN,
    };
    let last = match range.end_bound() {
        Bound::Included(&last) => last,
        Bound::Excluded(&after) => after.predecessor()?,
        Bound::Unbounded => K::MAX,
    };
    (first <= last).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_range() {
        assert_eq!(inclusive(&(3u32..7)), Some((3, 6)));
        assert_eq!(inclusive(&(3u32..=7)), Some((3, 7)));
        assert_eq!(inclusive::<u32>(&..), Some((0, u32::MAX)));
        assert_eq!(inclusive(&(3u32..3)), None);
        assert_eq!(inclusive(&(0u32..0)), None);
        assert_eq!(
            inclusive(&(Bound::Excluded(u32::MAX), Bound::Unbounded)),
            None
        );
        #[expect(clippy::reversed_empty_ranges, reason = "that is what is tried")]
        let backwards = 7u32..=3;
        assert_eq!(inclusive(&backwards), None);
    }
}
