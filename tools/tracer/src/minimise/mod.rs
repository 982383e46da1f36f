//! Finds the shortest history that still differs, and writes it as a Rust test and as a C program.
//!
//! A recording cannot be shortened by itself: without one of its calls, the kernel's other answers
//! would have changed. So the calls are performed on the running kernel, in a process made for it,
//! and on an engine that starts from that process's map.
//!
//! ```text
//! record ─→ history (steps, relative addresses) ─→ shortest ─→ both ─→ child (the kernel's side)
//!                                                     └─→ source (Rust, C)
//! ```

mod both;
mod child;
mod history;
mod source;

use std::fs;
use std::path::{Path, PathBuf};

use crate::quantity::number_of;
use crate::record::Record;
use crate::shortest::shortest;

use both::Both;
use history::History;

/// The most differences of a record that are tried on this machine's kernel.
const TRIED: usize = 8;

/// A history that was written.
pub struct Minimised {
    /// The number of its steps.
    pub steps: usize,
    /// The number of steps of the recorded history.
    pub of: usize,
    /// The test and the C program.
    pub files: [PathBuf; 2],
}

/// Finds the shortest history that shows one of the differences at the records `differing`, and
/// writes it to `PREFIX.rs` and `PREFIX.c`. Each entry of `differing` is the index of a record and
/// its address space.
///
/// # Errors
/// A line that says why there is no such history.
pub fn minimise(
    records: &[Record],
    differing: &[(usize, u32)],
    prefix: &Path,
) -> Result<Minimised, String> {
    let mut both = Both::new().map_err(|error| format!("no process to try them in: {error}"))?;
    let mut calls = 0;
    for &(index, space) in differing.iter().take(TRIED) {
        let Some(history) = History::of(records, index, space, &mut both.files) else {
            continue;
        };
        calls = calls.max(history.steps.len());
        both.config = Some(history.config.clone());
        let found = shortest(&history.steps, |steps| {
            both.differs(steps).map(|found| (found.step, found))
        });
        let Some((mut steps, mut found)) = found else {
            continue;
        };
        // A step that was not performed, because it refers to a step that was left out, adds
        // nothing.
        steps.retain(|step| found.results.contains_key(&step.id));
        if let Some(again) = both.differs(&steps) {
            found = again;
        }
        let files = ["rs", "c"].map(|kind| {
            let mut name = prefix.as_os_str().to_owned();
            name.push(".");
            name.push(kind);
            PathBuf::from(name)
        });
        let texts = [
            source::rust(&steps, &found, &both),
            source::c(&steps, &found, &both),
        ];
        for (file, text) in files.iter().zip(texts) {
            fs::write(file, text)
                .map_err(|error| format!("`{}` cannot be written: {error}", file.display()))?;
        }
        return Ok(Minimised {
            steps: steps.len(),
            of: history.steps.len(),
            files,
        });
    }
    Err(format!(
        "none of the differences shows on this machine's kernel ({} tried): there is nothing to minimise",
        number_of(calls as u64, "step")
    ))
}

#[cfg(test)]
mod tests {
    use crate::shortest::shortest;

    /// Fails at the first step that is 7, if a 3 came before.
    fn three_then_seven(steps: &[u32]) -> Option<(usize, usize)> {
        let three = steps.iter().position(|step| *step == 3)?;
        let seven = steps[three..].iter().position(|step| *step == 7)? + three;
        Some((seven, steps.len()))
    }

    #[test]
    fn irrelevant_steps_are_left_out() {
        let steps: Vec<u32> = (0..100).collect();
        assert_eq!(shortest(&steps, three_then_seven), Some((vec![3, 7], 2)));
        assert_eq!(shortest(&[7, 3], three_then_seven), None);
        assert_eq!(shortest(&[], three_then_seven), None);
        assert_eq!(
            shortest(&[1], |steps| Some((0, steps[0]))),
            Some((vec![1], 1))
        );
    }

    #[test]
    fn nothing_more_can_be_left_out_at_the_end() {
        // Each ninth step is needed.
        let steps: Vec<u32> = (0..200).collect();
        let all = |steps: &[u32]| {
            let needed = steps.iter().filter(|step| *step % 9 == 0).count();
            (needed == 23).then(|| (steps.len() - 1, ()))
        };
        let (found, ()) = shortest(&steps, all).unwrap();
        assert_eq!(found.len(), 23);
    }
}
