//! Temporary: the tree's interface over a sorted vector.
use alloc::vec::Vec;
use core::ops::RangeInclusive;

#[derive(Debug)]
pub(crate) struct MapleTree<V> {
    v: Vec<(u64, u64, V)>,
}
impl<V> MapleTree<V> {
    pub(crate) fn with_gaps() -> Self {
        MapleTree { v: Vec::new() }
    }
    fn idx(&self, k: u64) -> usize {
        self.v.partition_point(|e| e.1 < k)
    }
    pub(crate) fn find(&self, r: RangeInclusive<u64>) -> Option<(RangeInclusive<u64>, &V)> {
        let e = self.v.get(self.idx(*r.start()))?;
        (e.0 <= *r.end()).then_some((e.0..=e.1, &e.2))
    }
    pub(crate) fn find_rev(&self, r: RangeInclusive<u64>) -> Option<(RangeInclusive<u64>, &V)> {
        let i = self.v.partition_point(|e| e.0 <= *r.end());
        let e = self.v.get(i.checked_sub(1)?)?;
        (e.1 >= *r.start()).then_some((e.0..=e.1, &e.2))
    }
    pub(crate) fn get_mut(&mut self, k: u64) -> Option<&mut V> {
        let i = self.idx(k);
        let e = self.v.get_mut(i)?;
        (e.0 <= k).then_some(&mut e.2)
    }
    pub(crate) fn erase_range(&mut self, r: RangeInclusive<u64>) -> Result<(), ()> {
        let (s, e) = (*r.start(), *r.end());
        let a = self.idx(s);
        let mut b = a;
        while b < self.v.len() && self.v[b].0 <= e {
            b += 1;
        }
        let (mut ra, mut rb) = (a, b);
        if ra < rb && self.v[ra].0 < s {
            assert!(self.v[ra].1 <= e, "middle");
            self.v[ra].1 = s - 1;
            ra += 1;
        }
        if ra < rb && self.v[rb - 1].1 > e {
            self.v[rb - 1].0 = e + 1;
            rb -= 1;
        }
        self.v.drain(ra..rb);
        Ok(())
    }
    pub(crate) fn store_range(&mut self, r: RangeInclusive<u64>, value: V) -> Result<(), ()> {
        self.erase_range(r.clone())?;
        let a = self.idx(*r.start());
        self.v.insert(a, (*r.start(), *r.end(), value));
        Ok(())
    }
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (RangeInclusive<u64>, &V)> {
        self.v.iter().map(|e| (e.0..=e.1, &e.2))
    }
    pub(crate) fn gap_up(&self, b: RangeInclusive<u64>, size: u64) -> Option<u64> {
        let mut at = *b.start();
        loop {
            let last = at.checked_add(size - 1)?;
            if last > *b.end() {
                return None;
            }
            match self.find(at..=last) {
                None => return Some(at),
                Some((r, _)) => at = r.end() + 1,
            }
        }
    }
    pub(crate) fn gap_down(&self, b: RangeInclusive<u64>, size: u64) -> Option<u64> {
        let mut last = *b.end();
        loop {
            let at = last.checked_sub(size - 1)?;
            if at < *b.start() {
                return None;
            }
            match self.find_rev(at..=last) {
                None => return Some(at),
                Some((r, _)) => last = r.start().checked_sub(1)?,
            }
        }
    }
}
