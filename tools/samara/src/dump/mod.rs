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
use samara_tracer::record::Cut;

use crate::outcome::{complain, distinct, incomplete};
use crate::subject;

#[derive(Debug, Args)]
pub(crate) struct CoreOptions {
    /// A process by its PID, or a recording of `samara trace --record`: FILE@CALL is its state after that call, FILE@0 its start, FILE its end.
    /// The core of a recording has all areas, but of their memory only what is still in files and could not be written to. Other memory and
    /// registers are not recorded.
    subject: OsString,

    /// Write the core to this file, in which pages of zeroes take no room (`-`: to standard output, where they do).
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

/// Runs the command; the value is the exit code.
pub(crate) fn run(options: &CoreOptions) -> i32 {
    match carry_out(options) {
        Ok(None) => 0,
        Ok(Some(cut)) => incomplete(&options.subject, cut),
        Err(text) => complain(&text),
    }
}

/// Returns where the recording was interrupted, if it is one and was.
fn carry_out(options: &CoreOptions) -> Result<Option<Cut>, String> {
    let (subject, output) = (options.subject.as_os_str(), &options.output);
    if let Some(pid) = subject::process(subject)? {
        return live::dump(pid, output).map(|()| None);
    }
    let (file, call) = match subject::at_call(subject) {
        Some((file, call)) => (file, Some(call)),
        None => (subject.as_ref(), None),
    };
    distinct(&[("the recording", file), ("--output", output)])?;
    recorded::dump(file, call, output)
}
