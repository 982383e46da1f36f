//! `samara top`: all processes by what they have mapped, again and again.
//!
//! | file | concept |
//! |---|---|
//! | `sample` | what is known of all processes at one moment |
//! | `columns` | figures, and the order of processes |
//! | `users` | names of users |
//! | `view` | the list that is looked at, and what keys do to it |
//! | `screen` | the list on a terminal |
//! | `terminal` | the terminal, and a thread that looks at processes meanwhile |

mod columns;
mod sample;
mod screen;
mod terminal;
mod users;
mod view;

use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use samara_linux::proc_file::MISSING;
use serde_json::{Value, json};

use crate::outcome::{complain, print};
use crate::show::grid::{self, Grid, Paper};
use columns::{Column, Order};
use sample::{Process, Sample, Sampler};

#[derive(Debug, Args)]
pub(crate) struct TopOptions {
    /// Sort by this column.
    #[arg(long, short, value_enum, default_value_t = Column::Areas)]
    sort: Column,

    /// Refresh the list after this many seconds.
    #[arg(long, short, value_name = "SECONDS", default_value_t = 2.0, value_parser = delay)]
    delay: f64,

    /// Print the list once, as text.
    #[arg(long)]
    once: bool,

    /// Print the list once, as JSON.
    #[arg(long)]
    json: bool,
}

fn delay(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("give seconds from 0.1 to 86400".to_owned()),
    }
}

const PROC: &str = "/proc";

/// Runs the command; the value is the exit code.
pub(crate) fn run(options: &TopOptions) -> i32 {
    match carry_out(options) {
        Ok(()) => 0,
        Err(text) => complain(&text),
    }
}

fn carry_out(options: &TopOptions) -> Result<(), String> {
    let order = Order::by(options.sort);
    if !(options.once || options.json) {
        if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
            return Err(
                "top needs a terminal: give --once or --json where there is none".to_owned(),
            );
        }
        return terminal::run(order, Duration::from_secs_f64(options.delay));
    }
    let mut sample = first_look(&mut Sampler::default())?;
    order.sort(&mut sample);
    let text = if options.json {
        let text = serde_json::to_string_pretty(&to_json(&sample));
        text.map_err(|error| format!("cannot write JSON: {error}"))? + "\n"
    } else {
        text(&sample)
    };
    print(&text)
}

/// Returns the first sample. There is always a process, this one: where none is found there is no
/// `/proc`.
fn first_look(sampler: &mut Sampler) -> Result<Sample, String> {
    let sample = sampler
        .look(Path::new(PROC))
        .map_err(|error| format!("{PROC} cannot be read: {error}"))?;
    if sample.processes.is_empty() {
        return Err(MISSING.to_owned());
    }
    Ok(sample)
}

fn text(sample: &Sample) -> String {
    let columns = Column::ALL.map(|column| grid::Column {
        heading: column.heading(),
        right: column.is_number(),
        spare: column.spare(),
        ..grid::Column::text("")
    });
    let mut grid = Grid::new(&columns);
    for process in &sample.processes {
        grid.row(Column::ALL.map(|column| column.text(process, sample.limit)));
    }
    grid.text(Paper::stdout())
}

fn to_json(sample: &Sample) -> Value {
    let process = |process: &Process| {
        let mapped = process.mapped.map(|mapped| {
            let gaps = mapped.gaps;
            json!({
                "areas": mapped.areas,
                "left": sample.limit.saturating_sub(mapped.areas),
                "gaps": gaps.count,
                "largest_gap": gaps.largest,
                "fragments": gaps.fragments,
                "fragment_bytes": gaps.fragment_bytes,
                "fork": mapped.fork,
            })
        });
        json!({
            "pid": process.pid,
            "name": process.name,
            "user": &*process.user,
            "threads": process.threads,
            "size": process.size,
            "resident": process.resident,
            "swapped": process.swapped,
            // Nothing where it may not be looked at.
            "mapped": mapped,
        })
    };
    let processes: Vec<Value> = sample.processes.iter().map(process).collect();
    json!({ "max_map_count": sample.limit, "processes": processes })
}
