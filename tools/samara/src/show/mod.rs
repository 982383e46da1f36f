//! `samara show`: the memory of a process, as a person would want to see it.
//!
//! | file | concept |
//! |---|---|
//! | `live`, `recorded` | where an address space comes from: a process, a recording at a call |
//! | `smaps` | the kernel's text as numbers |
//! | `ahead` | reading on while that is done |
//! | `kinds` | what areas are to a person |
//! | `snapshot` | an address space at one moment, and what follows from it |
//! | `fork` | what a fork costs, estimated |
//! | `difference` | two of them |
//! | `text`, `json`, `grid` | what is printed |
//! | `picture` | what is drawn |

mod ahead;
mod difference;
pub(crate) mod fork;
pub(crate) mod grid;
mod json;
mod kinds;
pub(crate) mod live;
mod picture;
mod recorded;
pub(crate) mod smaps;
pub(crate) mod snapshot;
pub(crate) mod text;

use std::ffi::{OsStr, OsString};
use std::mem::ManuallyDrop;

use clap::Args;

use crate::outcome::{complain, distinct, print};
use crate::picture::PictureOptions;
use crate::subject;
use grid::Paper;
use snapshot::Snapshot;

#[derive(Debug, Args)]
pub(crate) struct ShowOptions {
    /// A process by its number, or a recording of `samara trace --record` as FILE@CALL (after that call; FILE@0 is its start).
    subject: OsString,

    /// A second one, of which the difference to the first is shown.
    other: Option<OsString>,

    /// List the areas, each with what keeps it apart from the one below it.
    #[arg(long)]
    maps: bool,

    /// List the areas, each with what is in memory of it.
    #[arg(long)]
    smaps: bool,

    /// List the free ranges between areas.
    #[arg(long)]
    gaps: bool,

    /// Show the tree that holds the areas, node by node.
    #[arg(long, conflicts_with = "other")]
    tree: bool,

    /// Tell what a fork would do, and what that costs now and with shared page tables (estimates).
    #[arg(long, conflicts_with = "other")]
    fork: bool,

    /// Print everything as JSON.
    #[arg(long, conflicts_with_all = ["maps", "smaps", "gaps", "tree", "fork"])]
    json: bool,

    #[command(flatten)]
    pictures: PictureOptions,
}

/// Runs the command; the value is the exit code.
pub(crate) fn run(options: &ShowOptions) -> i32 {
    match carry_out(options).and_then(|text| print(&text)) {
        Ok(()) => 0,
        Err(text) => complain(&text),
    }
}

/// A part of what is printed.
type Section = fn(&Snapshot, Paper) -> Result<String, String>;

fn carry_out(options: &ShowOptions) -> Result<String, String> {
    if options.pictures.any() {
        let lists = options.maps || options.smaps || options.gaps || options.tree;
        if options.other.is_some() {
            return Err("a picture is of one process or recording: name one".to_owned());
        }
        if lists || options.fork || options.json {
            return Err("a picture is drawn, and nothing printed: leave out --html and --svg, or what is to be printed".to_owned());
        }
        distinct(&options.pictures.files().collect::<Vec<_>>())?;
        let canvases = options.pictures.open()?;
        canvases.draw(&picture::film(&look(&options.subject)?))?;
        return Ok(String::new());
    }
    // The program ends when all is printed: nobody needs the memory of what is shown back.
    let first = ManuallyDrop::new(look(&options.subject)?);
    let paper = Paper::stdout();
    if let Some(other) = &options.other {
        let second = ManuallyDrop::new(look(other)?);
        return if options.json {
            pretty(&difference::json(&first, &second)?)
        } else {
            Ok(difference::text(&first, &second, options, paper))
        };
    }
    if options.json {
        return pretty(&json::snapshot(&first)?);
    }
    let mut text = text::title(&first);
    let sections = [
        (options.maps, (|s, p| Ok(text::maps(s, p))) as Section),
        (options.smaps, |s, p| Ok(text::smaps(s, p))),
        (options.gaps, |s, p| Ok(text::gaps(s, p))),
        (options.tree, |s, _| text::tree(s)),
        (options.fork, |s, p| Ok(text::fork(s, p))),
    ];
    let mut chosen = sections.iter().filter(|(wanted, _)| *wanted).peekable();
    if chosen.peek().is_none() {
        text += &text::summary(&first, paper);
    }
    for (number, (_, section)) in chosen.enumerate() {
        if number > 0 {
            text.push('\n');
        }
        text += &section(&first, paper)?;
    }
    Ok(text)
}

fn pretty(value: &serde_json::Value) -> Result<String, String> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| format!("cannot write JSON: {error}"))?;
    Ok(text + "\n")
}

/// What a subject names.
fn look(subject: &OsStr) -> Result<Snapshot, String> {
    if let Some(pid) = subject::process(subject)? {
        return live::look(pid);
    }
    match subject::at_call(subject) {
        Some((file, call)) if !file.as_os_str().is_empty() => recorded::look(file, call),
        _ => Err(format!(
            "`{}` is neither the number of a process nor a recording and a call: give PID or FILE@CALL",
            subject.display()
        )),
    }
}
