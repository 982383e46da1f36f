//! The areas' stays: the engine's areas after a step, compared with those before.

use std::collections::BTreeMap;

use samara_mm::{AddressSpace, MapsLine};

use super::{Film, Look, Stay};
use crate::kind::Kind;
use crate::picture::reach::Reach;

impl Film {
    /// Ends the stays of areas that have changed with the last step, and begins those of new ones. True if there were any.
    /// O((k + 1) · log n) with k areas in its reach of n.
    pub(super) fn observe(
        &mut self,
        space: u32,
        engine: Option<&AddressSpace>,
        reach: Reach,
    ) -> bool {
        let Some(engine) = engine else { return false };
        let life = self.life(space);
        let program = std::mem::take(&mut life.program);
        let mut now = std::mem::take(&mut life.now);
        let changed = match reach {
            Reach::Everywhere => {
                self.renew(space, &program, &mut now, (0, u64::MAX), engine.maps())
            }
            Reach::Ranges(ranges) => {
                let mut changed = false;
                for (start, end) in ranges {
                    if start < end {
                        let reached = self.widened(engine, &now, (start, end));
                        let lines = lines(engine, reached);
                        changed |= self.renew(space, &program, &mut now, reached, lines);
                    }
                }
                changed
            }
        };
        debug_assert!(
            now.len() == engine.area_count()
                && now
                    .values()
                    .zip(engine.maps())
                    .all(|(&stay, line)| self.is(stay, &line)),
            "an area has changed beyond {reach:x?}"
        );
        let life = self.life(space);
        life.now = now;
        life.program = program;
        life.brk = engine.layout().brk;
        changed
    }

    /// Returns the range that holds all areas which touch this one, those that were and those that
    /// are, as a whole.
    fn widened(
        &self,
        engine: &AddressSpace,
        now: &BTreeMap<u64, u32>,
        (start, end): (u64, u64),
    ) -> (u64, u64) {
        let (mut low, mut high) = (start.saturating_sub(1), end.saturating_add(1));
        let known = |below: u64| {
            let (_, &stay) = now.range(..=below).next_back()?;
            let stay = &self.stays[stay as usize];
            (below < stay.end).then_some((stay.start, stay.end))
        };
        loop {
            let before = (low, high);
            let (first, last) = (engine.lookup(low), engine.lookup(high - 1));
            let first = first.map(|area| area.start).into_iter();
            let last = last.map(|area| area.end).into_iter();
            let first = first.chain(known(low).map(|(start, _)| start));
            let last = last.chain(known(high - 1).map(|(_, end)| end));
            low = first.fold(low, u64::min);
            high = last.fold(high, u64::max);
            if (low, high) == before {
                return before;
            }
        }
    }

    /// Makes the stays of `now` in a range, at whose ends no area goes on, those of `lines`. True if they were not.
    fn renew<'a>(
        &mut self,
        space: u32,
        program: &str,
        now: &mut BTreeMap<u64, u32>,
        (low, high): (u64, u64),
        lines: impl Iterator<Item = MapsLine<'a>>,
    ) -> bool {
        let step = self.last();
        let before: Vec<u32> = now.range(low..high).map(|(_, &stay)| stay).collect();
        let mut old = before.into_iter().peekable();
        let mut fresh = Vec::new();
        let mut ended = Vec::new();
        for line in lines {
            while let Some(stay) = old.next_if(|&stay| self.stays[stay as usize].start < line.start)
            {
                ended.push(stay);
            }
            if old.next_if(|&stay| self.is(stay, &line)).is_none() {
                let look = self.look_of(&line, program);
                fresh.push(self.stays.len() as u32);
                self.stays.push(Stay {
                    space,
                    start: line.start,
                    end: line.end,
                    offset: line.offset,
                    look,
                    born: step,
                    gone: None,
                });
            }
        }
        ended.extend(old);
        for &stay in &ended {
            let stay = &mut self.stays[stay as usize];
            stay.gone = Some(step);
            now.remove(&stay.start);
        }
        now.extend(
            fresh
                .iter()
                .map(|&stay| (self.stays[stay as usize].start, stay)),
        );
        !ended.is_empty() || !fresh.is_empty()
    }

    /// Returns `true` if the area is unchanged.
    fn is(&self, stay: u32, line: &MapsLine<'_>) -> bool {
        let stay = &self.stays[stay as usize];
        let look = &self.looks[stay.look as usize];
        (stay.start, stay.end, stay.offset) == (line.start, line.end, line.offset)
            && (look.perms, look.flags) == (line.perms, line.flags)
            && look.name == line.name
    }

    fn look_of(&mut self, line: &MapsLine<'_>, program: &str) -> u32 {
        let look = Look {
            kind: Kind::of(line, program),
            perms: line.perms,
            name: line.name.to_owned(),
            flags: line.flags,
        };
        self.number_of(look)
    }

    pub(super) fn number_of(&mut self, look: Look) -> u32 {
        if let Some(&number) = self.by_look.get(&look) {
            return number;
        }
        let number = self.looks.len() as u32;
        self.looks.push(look.clone());
        self.by_look.insert(look, number);
        number
    }
}

/// Returns the areas that begin in a range, upwards.
fn lines(
    engine: &AddressSpace,
    (low, high): (u64, u64),
) -> impl Iterator<Item = MapsLine<'_>> + use<'_> {
    let mut at = low;
    std::iter::from_fn(move || {
        let area = engine.find_intersection(at, high)?;
        at = area.end;
        engine.area_at(area.start)
    })
}
