//! Two threads, each with some of the maps.

use maple_tree::Shape;

use super::super::index::Index;
use super::{Family, MOST_MEMBERS, Member};
use crate::history::Bytes;

impl<K: Index, S: Shape> Family<K, S> {
    /// Some of the maps go to another thread, and come back; both threads write theirs, and take snapshots of one that both look at.
    pub(super) fn threads(&mut self, bytes: &mut Bytes<'_>) {
        let (which, length) = (bytes.byte(), usize::from(bytes.byte() % 64));
        let rest = bytes.0.as_slice();
        let (one, rest) = rest.split_at(length.min(rest.len()));
        let (two, rest) = rest.split_at(length.min(rest.len()));
        *bytes = Bytes::new(rest);
        let common = self
            .members
            .swap_remove(usize::from(which) % self.members.len());
        let mut other = Self {
            members: vec![common.snapshot()],
            nodes: self.nodes.clone(),
            fuel: self.fuel.clone(),
            mint: self.mint.again(),
            middle: self.middle,
            alone: false,
        };
        // The numbers tell who made a value.
        other.mint.next += 1 << 24;
        self.alone = false;
        let half = self.members.len() / 2;
        other.members.extend(self.members.drain(half..));
        self.members.push(common.snapshot());
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| other.side(two, &common));
            self.side(one, &common);
            // Waits until the thread itself is gone, and not only what it does: leak checkers look at what it had.
            thread.join().unwrap();
        });
        self.members.append(&mut other.members);
        self.members.push(common);
        self.mint.next = other.mint.next;
        self.alone = true;
        self.members.truncate(MOST_MEMBERS);
    }

    fn side(&mut self, bytes: &[u8], common: &Member<K, S>) {
        let mut bytes = Bytes::new(bytes);
        while !bytes.is_empty() {
            let code = bytes.byte();
            if code >= 0xf0 && self.members.len() < MOST_MEMBERS {
                common.compare();
                self.members.push(common.snapshot());
            } else {
                self.step(code, &mut bytes);
            }
            self.compare();
        }
    }
}
