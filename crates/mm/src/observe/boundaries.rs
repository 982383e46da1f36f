//! The reasons why neighbouring VMAs do not merge, for a map that comes line by line. The map is
//! not held.

use crate::errno::Errno;
use crate::space::SeedVma;
use crate::space::obstacles::Obstacles;
use crate::vma::{AnonVma, Area, Vma};

/// Takes the lines of a map in ascending order. For each it returns the reasons why it does not
/// merge with the line before ([`Area::obstacles`]). It holds one line.
///
/// ```
/// use samara_mm::observe::Borders;
/// use samara_mm::{Obstacles, SeedVma};
///
/// let line = |start, prot| SeedVma {
///     start,
///     end: start + 0x1000,
///     prot,
///     shared: false,
///     offset: 0,
///     file: None,
///     flags: None,
///     name: None,
///     touched: false,
/// };
/// let mut borders = Borders::new();
/// assert_eq!(borders.next(line(0x1000, 1))?, None);
/// assert_eq!(borders.next(line(0x2000, 0))?, Some(Obstacles::FLAGS));
/// assert_eq!(borders.next(line(0x4000, 0))?, Some(Obstacles::APART));
/// # Ok::<(), samara_mm::Errno>(())
/// ```
#[derive(Debug, Default)]
pub struct Borders {
    last: Option<(u64, u64, Vma)>,
    /// The number of the last owner of private pages.
    owner: u64,
}

impl Borders {
    /// Creates the state before the first line.
    pub const fn new() -> Self {
        Borders {
            last: None,
            owner: 0,
        }
    }

    /// Takes the next line, and returns the reasons why it does not merge with the line before, if
    /// there is one. Each line with private pages counts as their owner. O(1).
    ///
    /// # Errors
    /// `ENOMEM`: the line was not taken.
    pub fn next(&mut self, seed: SeedVma) -> Result<Option<Obstacles>, Errno> {
        let (start, end) = (seed.start, seed.end);
        let anon = seed.touched.then(|| AnonVma::next(&mut self.owner));
        let vma = seed.vma(0, anon)?;
        let upper = Area {
            start,
            end,
            vma: &vma,
        };
        let found = self.last.as_ref().map(|(start, end, vma)| {
            let (start, end) = (*start, *end);
            Area { start, end, vma }.obstacles(&upper)
        });
        self.last = Some((start, end, vma));
        Ok(found)
    }
}
