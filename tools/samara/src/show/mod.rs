//! `samara show`: the memory of a process, as a person would want to see it.
//!
//! | file | concept |
//! |---|---|
//! | `live`, `recorded` | where an address space comes from: a process, a recording at a call |
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
pub(crate) mod snapshot;
pub(crate) mod text;

use std::ffi::{OsStr, OsString};
use std::mem::ManuallyDrop;
use std::path::Path;

use clap::Args;
use samara_tracer::record::Cut;

use crate::outcome::{complain, distinct, incomplete, print};
use crate::picture::PictureOptions;
use crate::subject;
use grid::Paper;
use snapshot::Snapshot;

#[derive(Debug, Args)]
pub(crate) struct ShowOptions {
    /// A process by its PID, or a recording of `samara trace --record`: FILE@CALL is its state after that call, FILE@0 its start, FILE its end.
    subject: OsString,

    /// A second process or recording: how it differs from the first is shown.
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

    /// Estimate what a fork would do, and what it would cost now and with shared page tables.
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
    let mut cuts = Vec::new();
    match carry_out(options, &mut cuts).and_then(|text| print(&text)) {
        Ok(()) => cuts
            .into_iter()
            .fold(0, |_, (subject, cut)| incomplete(subject, cut)),
        Err(text) => complain(&text),
    }
}

/// The recordings among the subjects that were interrupted.
type Cuts<'o> = Vec<(&'o OsStr, Cut)>;

/// A part of what is printed.
type Section = fn(&Snapshot, Paper) -> Result<String, String>;

fn carry_out<'o>(options: &'o ShowOptions, cuts: &mut Cuts<'o>) -> Result<String, String> {
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
        canvases.draw(&picture::film(&look(&options.subject, cuts)?))?;
        return Ok(String::new());
    }
    // The program ends when everything is printed: its memory need not be freed.
    let first = ManuallyDrop::new(look(&options.subject, cuts)?);
    let paper = Paper::stdout();
    if let Some(other) = &options.other {
        let second = ManuallyDrop::new(look(other, cuts)?);
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

/// Reads the subject. A recording that was interrupted is added to `cuts`.
fn look<'o>(subject: &'o OsStr, cuts: &mut Cuts<'o>) -> Result<Snapshot, String> {
    if let Some(pid) = subject::process(subject)? {
        return live::look(pid);
    }
    let (file, call) = match subject::at_call(subject) {
        Some((file, call)) if !file.as_os_str().is_empty() => (file, Some(call)),
        _ if Path::new(subject).exists() => (subject.as_ref(), None),
        _ => {
            return Err(format!(
                "`{}` is neither the number of a process nor a recording: give PID, FILE or FILE@CALL",
                subject.display()
            ));
        }
    };
    let (snapshot, cut) = recorded::look(file, call)?;
    cuts.extend(cut.map(|cut| (subject, cut)));
    Ok(snapshot)
}
