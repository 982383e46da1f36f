//! The data of a page: numbers in LEB128 and texts with their length in front, as base64. What a program chose, names and
//! paths, is nowhere in the page but in here, so that none of it can become part of the page's own text.
//!
//! ```text
//! page   title kernel names-of-kinds looks forms lives
//! look   kind:byte perms:4 bytes name names-of-flags
//! form   a text with marks for numbers (see `texts`)
//! life   number parent+1 born gone+1 name bands steps stays written held (of those that began)
//! band   pages height look*                                         (from address 0, without holes; a look of each name: a gap has none)
//! step   call-number-since-last thread flags:byte form number*      (0 since the last one: it is no call)
//! stay   start-since-last pages offset look born lasted+1           (in pages and the life's own steps; ascending; 0: to the end)
//! written  step-since-last start pages                              (in the life's own steps, and in pages)
//! held   resident-pages dirty-pages swapped-pages                 (of each stay, in their order, or of none)
//! ```
//! Lists have their length in front.

use samara_conformance::names::printable;

use super::bands::bands;
use super::film::Film;
use crate::kind::Kind;

const PAGE: u64 = 4096;

/// Returns the bytes, before base64.
pub(super) fn encode(film: &Film) -> Vec<u8> {
    let mut out = Out::default();
    out.text(&printable(&film.title));
    out.text(&film.kernel);
    out.number(Kind::ALL.len() as u64);
    for kind in Kind::ALL {
        out.text(kind.name());
    }
    out.number(film.looks.len() as u64);
    for look in &film.looks {
        out.0.push(look.kind as u8);
        out.0.extend_from_slice(&look.perms);
        out.text(&printable(&look.name));
        let flags: Vec<_> = look.flags.smaps_names().collect();
        out.text(&flags.join(" "));
    }
    out.number(film.texts.forms().len() as u64);
    for form in film.texts.forms() {
        out.text(form);
    }
    let lives = Lives::of(film);
    out.number(lives.0.len() as u64);
    for life in &lives.0 {
        out.life(film, life);
    }
    out.0
}

/// The data of one address space, in order of time.
pub(super) struct OneLife {
    pub(super) space: u32,
    /// Global numbers, ascending.
    pub(super) steps: Vec<u32>,
    /// Ascending addresses; of one address, ascending steps.
    pub(super) stays: Vec<u32>,
    /// Ascending steps.
    written: Vec<u32>,
}

/// The lives that began.
pub(super) struct Lives(pub(super) Vec<OneLife>);

impl Lives {
    pub(super) fn of(film: &Film) -> Self {
        let mut all: Vec<OneLife> = (0..film.lives.len() as u32)
            .map(|space| OneLife {
                space,
                steps: Vec::new(),
                stays: Vec::new(),
                written: Vec::new(),
            })
            .collect();
        for (number, step) in film.steps.iter().enumerate() {
            if let Some(life) = all.get_mut(step.space as usize) {
                life.steps.push(number as u32);
            }
        }
        for (number, stay) in film.stays.iter().enumerate() {
            if let Some(life) = all.get_mut(stay.space as usize) {
                life.stays.push(number as u32);
            }
        }
        for (number, written) in film.written.iter().enumerate() {
            if let Some(life) = all.get_mut(written.space as usize) {
                life.written.push(number as u32);
            }
        }
        all.retain(|life| film.lives[life.space as usize].born.is_some());
        for life in &mut all {
            life.stays.sort_by_key(|&stay| {
                let stay = &film.stays[stay as usize];
                (stay.start, stay.born)
            });
        }
        Self(all)
    }
}

impl OneLife {
    /// Returns the place of a global step among the life's own.
    pub(super) fn own(&self, step: u32) -> u32 {
        self.steps.partition_point(|&known| known < step) as u32
    }
}

#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    fn life(&mut self, film: &Film, own: &OneLife) {
        let life = &film.lives[own.space as usize];
        let or_none = |number: Option<u32>| number.map_or(0, |number| u64::from(number) + 1);
        self.number(u64::from(own.space));
        self.number(or_none(life.parent));
        self.number(u64::from(life.born.unwrap_or_default()));
        self.number(or_none(life.gone));
        self.text(&printable(&life.program));

        let mut by_birth: Vec<u32> = own.stays.clone();
        by_birth.sort_unstable();
        let bands = bands(
            film,
            by_birth.iter().map(|&stay| &film.stays[stay as usize]),
        );
        self.number(bands.len() as u64);
        for band in bands {
            self.number((band.end - band.start) / PAGE);
            self.number(u64::from(band.height));
            self.number(band.looks.len() as u64);
            for look in band.looks {
                self.number(u64::from(look));
            }
        }

        self.number(own.steps.len() as u64);
        let mut last = 0;
        for &number in &own.steps {
            let step = &film.steps[number as usize];
            self.number(step.call.saturating_sub(last));
            last = last.max(step.call);
            self.number(u64::from(step.thread.unsigned_abs()));
            self.0.push(step.flags);
            self.number(u64::from(step.text.form));
            for &number in film.texts.numbers(step.text) {
                self.number(number);
            }
        }

        self.number(own.stays.len() as u64);
        let mut last = 0;
        for &stay in &own.stays {
            let stay = &film.stays[stay as usize];
            let born = own.own(stay.born);
            self.number((stay.start - last) / PAGE);
            last = stay.start;
            self.number((stay.end - stay.start) / PAGE);
            self.number(stay.offset / PAGE);
            self.number(u64::from(stay.look));
            self.number(u64::from(born));
            self.number(
                stay.gone
                    .map_or(0, |gone| u64::from(own.own(gone) - born) + 1),
            );
        }

        self.number(own.written.len() as u64);
        let mut last = 0;
        for &written in &own.written {
            let written = &film.written[written as usize];
            let step = own.own(written.step);
            self.number(u64::from(step - last));
            last = step;
            self.number(written.start / PAGE);
            self.number((written.end - written.start) / PAGE);
        }

        let held = own
            .stays
            .iter()
            .filter_map(|&stay| film.held.get(stay as usize));
        self.number(held.clone().count() as u64);
        for held in held {
            for bytes in [held.resident, held.dirty, held.swapped] {
                self.number(bytes / PAGE);
            }
        }
    }
}
