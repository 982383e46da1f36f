//! Everything that a program can tell of a process: its areas, and which frame each of its pages is on.

use std::collections::BTreeMap;

use samara_mm::observe::PagemapWord;
use samara_mm::process::Process;

use crate::memory::Host;
use crate::world::PAGE;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) what: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) areas: Vec<Area>,
    /// The words of pagemap of pages that are there.
    pub(crate) pages: BTreeMap<u64, u64>,
}

impl Look {
    pub(crate) fn at(process: &Process<Host>) -> Self {
        let areas = process.with_space(|space| {
            let all = space.areas().zip(space.maps());
            all.map(|(area, line)| Area {
                start: area.start,
                end: area.end,
                what: format!(
                    "{:?} {} {:?}",
                    area.vma.flags,
                    area.vma.anon().is_some(),
                    line.to_string().split_once(' ')
                ),
            })
            .collect::<Vec<_>>()
        });
        let mut pages = BTreeMap::new();
        for area in &areas {
            let mut words = vec![0; ((area.end - area.start) / PAGE) as usize];
            process.pagemap(area.start, &mut words).unwrap();
            let there = words.into_iter().enumerate().filter(|&(_, word)| word != 0);
            pages.extend(there.map(|(i, word)| (area.start + i as u64 * PAGE, word)));
        }
        Look { areas, pages }
    }

    /// The same, without saying which pages a process has alone.
    pub(crate) fn without_exclusive(&self) -> Self {
        self.without(PagemapWord::EXCLUSIVE)
    }

    /// The same, without saying what a huge page of zeroes loses when it is divided, and no program can tell: it counts as a file's.
    pub(crate) fn without_file(&self) -> Self {
        self.without(PagemapWord::FILE)
    }

    fn without(&self, bits: PagemapWord) -> Self {
        let mut look = self.clone();
        look.pages
            .values_mut()
            .for_each(|word| *word &= !bits.bits());
        look
    }

    /// The first difference of two looks, in words.
    pub(crate) fn differs(&self, other: &Self) -> Option<String> {
        if self.areas != other.areas {
            let only = |these: &[Area], those: &[Area]| {
                let some = these.iter().filter(|area| !those.contains(area));
                some.cloned().collect::<Vec<_>>()
            };
            return Some(format!(
                "areas: {:#x?} instead of {:#x?}",
                only(&other.areas, &self.areas),
                only(&self.areas, &other.areas)
            ));
        }
        let all = self.pages.keys().chain(other.pages.keys());
        let mut different = all.filter(|page| self.pages.get(page) != other.pages.get(page));
        different.next().map(|page| {
            let [was, is] = [self, other].map(|look| look.pages.get(page));
            format!("the page at {page:#x} was {was:x?} and is {is:x?}")
        })
    }
}
