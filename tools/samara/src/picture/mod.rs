//! Pictures of address spaces over time, from a recording: one self-contained page, or a drawing for papers.
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
mod kind;
mod page;
mod svg;
mod texts;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::report;

pub(crate) use film::Film;

/// What is drawn of a recording.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PictureOptions {
    /// Write the address spaces over time as one self-contained page for a browser (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Draw the program's address space over time for a paper (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

impl PictureOptions {
    /// Is anything to be drawn?
    pub(crate) fn any(&self) -> bool {
        self.html.is_some() || self.svg.is_some()
    }

    /// The files that will be written, with their options.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let html = self.html.as_deref().map(|file| ("--html", file));
        let svg = self.svg.as_deref().map(|file| ("--svg", file));
        html.into_iter().chain(svg)
    }

    /// Creates the files, so that what cannot be written is told before the work.
    ///
    /// # Errors
    /// What to complain of.
    pub(crate) fn create(&self) -> Result<Canvases, String> {
        let create = |option: &str, path: &Option<PathBuf>| {
            path.as_ref()
                .map(|path| Ok::<_, String>((report::create_for(option, path)?, path.clone())))
                .transpose()
        };
        Ok(Canvases {
            html: create("--html", &self.html)?,
            svg: create("--svg", &self.svg)?,
        })
    }
}

/// Files that wait for their pictures.
pub(crate) struct Canvases {
    html: Option<(fs::File, PathBuf)>,
    svg: Option<(fs::File, PathBuf)>,
}

impl Canvases {
    /// Writes the pictures.
    ///
    /// # Errors
    /// What to complain of.
    pub(crate) fn draw(self, film: &Film) -> Result<(), String> {
        let write = |to: Option<(fs::File, PathBuf)>, draw: fn(&Film) -> String| {
            let Some((mut file, path)) = to else {
                return Ok(());
            };
            file.write_all(draw(film).as_bytes())
                .map_err(|error| format!("`{}` cannot be written: {error}", path.display()))
        };
        write(self.html, page::page)?;
        write(self.svg, svg::draw)
    }
}
