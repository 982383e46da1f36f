//! `samara core`: a core file of a live process, or of a recording.
//!
//! | file | concept |
//! |---|---|
//! | `live` | a process: its areas, its notes |
//! | `threads` | stopping a process, its registers |
//! | `memory` | its bytes, and where there are any |
//! | `recorded` | a recording: its areas, and the bytes that can be known |
//! | `out` | the file |

mod live;
mod memory;
mod out;
mod recorded;
mod threads;
mod xsave;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::outcome::{complain, distinct};
use crate::subject;

#[derive(Debug, Args)]
pub(crate) struct CoreOptions {
    /// A process by its number, or a recording of `samara trace --record`: FILE@CALL (after that call; FILE@0 is its start) or FILE (at its end).
    /// Of a recording there are all areas, but of their memory only what is still in files and could not be written to: other memory and registers are not recorded.
    subject: OsString,

    /// Write the core to this file, in which pages of zeroes take no room. `-`: standard output, where they do.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

/// Runs the command; the value is the exit code.
pub(crate) fn run(options: &CoreOptions) -> i32 {
    match carry_out(options) {
        Ok(()) => 0,
        Err(text) => complain(&text),
    }
}

fn carry_out(options: &CoreOptions) -> Result<(), String> {
    let (subject, output) = (options.subject.as_os_str(), &options.output);
    if let Some(pid) = subject::process(subject)? {
        return live::dump(pid, output);
    }
    let (file, call) = match subject::at_call(subject) {
        Some((file, call)) => (file, Some(call)),
        None => (subject.as_ref(), None),
    };
    distinct(&[("the recording", file), ("--output", output)])?;
    recorded::dump(file, call, output)
}
