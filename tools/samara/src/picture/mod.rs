//! Pictures of address spaces over time, from a recording, or at one moment: one self-contained page, or a drawing for papers.
//!
//! ```text
//! replay ─→ film (stays and steps) ─→ bands (height of each address) ─→ page (encode, page.html, page.css, *.js)
//!                                                                     └→ svg
//! ```
//!
//! A *step* is a call or something else that happened (an exec, a fork, growth by a fault). A *stay* is an area from the step that gave it its shape to
//! the one that took it. All that is drawn is stays: rectangles of addresses and steps.

mod bands;
mod encode;
mod film;
mod inline;
mod page;
mod reach;
mod svg;
mod texts;

use std::path::{Path, PathBuf};

use clap::Args;
use samara_tracer::record::Reader;
use samara_tracer::replay::{Player, words};

use crate::destination::Destination;

pub(crate) use film::{Film, Held, Shown};

/// The pictures to draw of a recording.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PictureOptions {
    /// Write a picture of what is shown, as one self-contained page for a browser (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Draw the address space as SVG, for a paper (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

impl PictureOptions {
    /// Returns `true` if there is anything to draw.
    pub(crate) fn any(&self) -> bool {
        self.html.is_some() || self.svg.is_some()
    }

    /// Returns the files that will be written, with their options.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let html = self.html.as_deref().map(|file| ("--html", file));
        let svg = self.svg.as_deref().map(|file| ("--svg", file));
        html.into_iter().chain(svg)
    }

    /// Opens the files, so that what cannot be written is told before the work.
    ///
    /// # Errors
    /// What to complain of.
    pub(crate) fn open(&self) -> Result<Canvases, String> {
        let open = |option: &str, path: &Option<PathBuf>| {
            let path = path.as_deref();
            path.map(|path| Destination::open(option, path)).transpose()
        };
        Ok(Canvases {
            html: open("--html", &self.html)?,
            svg: open("--svg", &self.svg)?,
        })
    }
}

/// Performs a whole trace for pictures of it.
pub(crate) fn film(reader: &Reader) -> Film {
    let mut film = Film::new(&words(reader), &reader.kernel().release);
    let mut player = Player::new(true, false);
    for record in &reader.records {
        player.play_for(record, Some(&mut film));
    }
    film
}

/// Returns the page and the drawing.
pub(crate) fn both(film: &Film) -> [String; 2] {
    [page::page(film), svg::draw(film)]
}

/// Files that wait for their pictures.
pub(crate) struct Canvases {
    html: Option<Destination>,
    svg: Option<Destination>,
}

impl Canvases {
    /// Writes the pictures.
    ///
    /// # Errors
    /// What to complain of.
    pub(crate) fn draw(self, film: &Film) -> Result<(), String> {
        let write = |to: Option<Destination>, draw: fn(&Film) -> String| match to {
            Some(to) => to.write(draw(film).as_bytes()),
            None => Ok(()),
        };
        write(self.html, page::page)?;
        write(self.svg, svg::draw)
    }
}
