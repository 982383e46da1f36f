//! The summary: text for a person, JSON for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

use crate::describe::KINDS;
use crate::destination::Destination;
use crate::names::printable;
use crate::tally::{FindingKind, SpaceFigures, Tally, Verdict};

/// What the summary is about.
#[derive(Debug, Clone)]
pub(crate) struct Subject<'a> {
    pub(crate) words: &'a [String],
    pub(crate) kernel: &'a str,
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) elapsed: Duration,
    /// Size of the record that was written, in bytes.
    pub(crate) recorded: Option<u64>,
    pub(crate) replay: Option<Replay>,
}

/// Figures of a replay.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replay {
    pub(crate) records: usize,
    pub(crate) bytes: usize,
    pub(crate) reading: Duration,
    pub(crate) performing: Duration,
    /// Processor time of performing.
    pub(crate) processor: Duration,
    pub(crate) compared: bool,
    pub(crate) skipped: u64,
}

pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A size as people read it.
pub(crate) fn bytes(number: u64) -> String {
    let mut value = number as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            let digits = usize::from(unit != "B");
            return format!("{value:.digits$} {unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

fn title(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::Result => "First wrong result",
        FindingKind::Prediction => "First wrong prediction of an address",
        FindingKind::Map => "First mismatch of maps",
        FindingKind::Invariant => "First broken invariant of the engine",
    }
}

fn share(good: u64, all: u64) -> String {
    if all == 0 {
        "none".to_owned()
    } else {
        format!("{} of {} agree", grouped(good), grouped(all))
    }
}

/// The text for a person.
pub(crate) fn text(subject: &Subject<'_>, tally: &Tally) -> String {
    let mut out = String::new();
    let words = subject.words.join(" ");
    let shown: String = words.chars().take(100).collect();
    let more = if shown.len() < words.len() { "…" } else { "" };
    let _ = writeln!(
        out,
        "── samara ── {}{more} ── {:.2} s",
        printable(&shown),
        subject.elapsed.as_secs_f64()
    );

    let mut calls: Vec<(&str, u64)> = KINDS
        .iter()
        .zip(tally.calls)
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| (*name, count))
        .collect();
    calls.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let list = calls
        .iter()
        .map(|(name, count)| format!("{name} {}", grouped(*count)))
        .collect::<Vec<_>>()
        .join(" · ");

    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let mut row = |name: &str, value: String| {
        table.add_row([name.to_owned(), value]);
    };
    row(
        "calls",
        format!(
            "{} ({} failed as they should)\n{list}",
            grouped(tally.all_calls()),
            grouped(tally.failing)
        ),
    );
    row(
        "processes",
        format!(
            "{} · {} more threads · {} forks · {} execs, {} of them predicted",
            grouped(tally.processes),
            grouped(tally.threads),
            grouped(tally.forks),
            grouped(tally.execs),
            grouped(tally.execs_predicted)
        ),
    );
    let figures = |of: &SpaceFigures| {
        format!(
            "{} areas now, {} at the peak · {} mapped · {} gaps, the largest {} · tree {} levels, {}",
            grouped(of.areas),
            grouped(of.areas_peak),
            bytes(of.mapped),
            grouped(of.gaps),
            bytes(of.largest_gap),
            of.tree_height,
            bytes(of.tree_bytes)
        )
    };
    row("main program", figures(&tally.spaces.main));
    if tally.spaces.largest.areas_peak > tally.spaces.main.areas_peak {
        row("largest of all", figures(&tally.spaces.largest));
    }
    row(
        "areas",
        format!(
            "{} merges · {} splits · {} grown by faults",
            grouped(tally.spaces.merges),
            grouped(tally.spaces.splits),
            grouped(tally.grown)
        ),
    );
    row(
        "results",
        share(
            tally.results - tally.wrong_results - tally.wrong_predictions - tally.undecided_results,
            tally.results,
        ),
    );
    row(
        "predicted addresses",
        share(
            tally.predictions - tally.wrong_predictions,
            tally.predictions,
        ),
    );
    row(
        "maps",
        format!(
            "{} ({} areas compared{})",
            share(
                tally.maps - tally.wrong_maps - tally.undecided_maps,
                tally.maps
            ),
            grouped(tally.areas_compared),
            match tally.parts {
                0 => String::new(),
                parts => format!(
                    "; {} whole, {} where a call can have changed them",
                    grouped(tally.maps - parts),
                    grouped(parts)
                ),
            }
        ),
    );
    if let Some(count) = tally.on_unknown {
        row(
            "start",
            format!(
                "unknown: {} calls were not compared, of which the answer depends on what strace does not tell (the map, the order of threads)",
                grouped(count)
            ),
        );
    }
    let lists: [(&str, &BTreeMap<Box<str>, u64>); 3] = [
        ("not modelled", &tally.unmodelled),
        ("failed outside", &tally.outside),
        ("not followed", &tally.not_followed),
    ];
    for (name, list) in lists {
        if !list.is_empty() {
            row(
                name,
                list.iter()
                    .map(|(name, count)| format!("{name} {}", grouped(*count)))
                    .collect::<Vec<_>>()
                    .join(" · "),
            );
        }
    }
    for (reason, count) in &tally.undecided {
        row("undecided", format!("{}: {reason}", grouped(*count)));
    }
    for (reason, count) in &tally.resyncs {
        row("started anew", format!("{} {reason}", grouped(*count)));
    }
    let asides = [
        (
            tally.ambiguous,
            "calls raced with a page fault: the kernel's map told which came first",
        ),
        (
            tally.spaces.given_up,
            "assumptions about the order of page faults were given up undecided",
        ),
        (tally.random, "addresses (MAP_32BIT) the kernel drew by lot"),
        (tally.renamed, "names had changed while the file was mapped"),
        (
            tally.ended_unseen,
            "address spaces ended (SIGKILL) before a last comparison",
        ),
        (
            tally.tracers_refused,
            "requests to trace another program (ptrace) were refused: it is traced already, so that a debugger cannot follow it here",
        ),
        (
            tally.unsampled,
            "pages were asked for that had not been looked at before the call",
        ),
    ];
    for (count, what) in asides {
        if count > 0 {
            row("note", format!("{} {what}", grouped(count)));
        }
    }
    if let Some(replay) = &subject.replay {
        row("replay", replay_line(replay, tally));
    }
    if let Some(size) = subject.recorded {
        row("record", bytes(size));
    }
    if let Some(column) = table.column_mut(0) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for line in table.lines() {
        let _ = writeln!(out, "{}", line.trim_end());
    }

    for finding in tally.first() {
        let _ = writeln!(
            out,
            "\n{}: after call {} in process {}\n  {}",
            title(finding.kind),
            grouped(finding.call_number),
            finding.process,
            printable(&finding.call)
        );
        for line in finding.detail.lines() {
            let _ = writeln!(out, "  {}", printable(line));
        }
    }
    let reasons = || {
        tally
            .not_followed
            .iter()
            .map(|(reason, count)| format!("{} × {reason}", grouped(*count)))
            .collect::<Vec<_>>()
            .join("; ")
    };
    let _ = match tally.verdict() {
        Verdict::Agreed => writeln!(out, "Engine and kernel agree."),
        Verdict::Disagreed => writeln!(
            out,
            "Engine and kernel DISAGREE: {} results, {} predictions, {} maps, {} invariants.",
            grouped(tally.wrong_results),
            grouped(tally.wrong_predictions),
            grouped(tally.wrong_maps),
            grouped(tally.broken_invariants)
        ),
        Verdict::Undecided => writeln!(
            out,
            "Engine and kernel agree as far as could be decided. UNDECIDED: {}.",
            undecided(tally)
        ),
        Verdict::NotAll => writeln!(
            out,
            "Engine and kernel agree as far as was compared. NOT COMPARED: {}.",
            reasons()
        ),
        Verdict::Nothing if tally.not_followed.is_empty() => {
            writeln!(out, "NOTHING WAS COMPARED: no call and no map was seen.")
        }
        Verdict::Nothing => writeln!(out, "NOTHING WAS COMPARED: {}.", reasons()),
    };
    out
}

/// Returns how many maps and results are undecided, in words.
fn undecided(tally: &Tally) -> String {
    let counted = [
        (tally.undecided_maps, tally.maps, "maps"),
        (tally.undecided_results, tally.results, "results"),
    ];
    let told = counted.iter().filter(|(count, ..)| *count > 0);
    told.map(|(count, all, what)| format!("{} of {} {what}", grouped(*count), grouped(*all)))
        .collect::<Vec<_>>()
        .join(", ")
}

fn rate(calls: u64, time: Duration) -> f64 {
    calls as f64 / time.as_secs_f64().max(1e-9)
}

fn replay_line(replay: &Replay, tally: &Tally) -> String {
    let calls = tally.all_calls();
    let compared = if replay.compared {
        "maps compared"
    } else {
        "maps not compared"
    };
    let mut line = format!(
        "{} records ({}) read in {:.3} s · performed in {:.3} s, {} calls/s ({compared}) · in processor time {:.3} s, {} calls/s · with reading {} calls/s",
        grouped(replay.records as u64),
        bytes(replay.bytes as u64),
        replay.reading.as_secs_f64(),
        replay.performing.as_secs_f64(),
        grouped(rate(calls, replay.performing) as u64),
        replay.processor.as_secs_f64(),
        grouped(rate(calls, replay.processor) as u64),
        grouped(rate(calls, replay.performing + replay.reading) as u64),
    );
    if replay.skipped > 0 {
        let _ = write!(
            line,
            "; {} records left out behind a disagreement",
            grouped(replay.skipped)
        );
    }
    line
}

fn figures_json(of: &SpaceFigures) -> Value {
    json!({
        "areas": of.areas,
        "areas_peak": of.areas_peak,
        "gaps": of.gaps,
        "largest_gap": of.largest_gap,
        "mapped": of.mapped,
        "tree_height": of.tree_height,
        "tree_bytes": of.tree_bytes,
    })
}

/// The same as JSON.
pub(crate) fn to_json(subject: &Subject<'_>, tally: &Tally) -> Value {
    let calls: serde_json::Map<String, Value> = KINDS
        .iter()
        .zip(tally.calls)
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| ((*name).to_owned(), count.into()))
        .collect();
    let findings: Vec<Value> = tally
        .findings
        .iter()
        .map(|finding| {
            json!({
                "kind": match finding.kind {
                    FindingKind::Result => "result",
                    FindingKind::Prediction => "prediction",
                    FindingKind::Map => "map",
                    FindingKind::Invariant => "invariant",
                },
                "call_number": finding.call_number,
                "process": finding.process,
                "call": finding.call,
                "detail": finding.detail,
            })
        })
        .collect();
    let mut value = json!({
        "program": subject.words,
        "kernel": subject.kernel,
        "exit_code": subject.exit_code,
        "signal": subject.signal,
        "seconds": subject.elapsed.as_secs_f64(),
        "agreed": tally.verdict() == Verdict::Agreed,
        "verdict": match tally.verdict() {
            Verdict::Agreed => "agree",
            Verdict::Disagreed => "disagree",
            Verdict::Undecided => "undecided",
            Verdict::NotAll => "not all compared",
            Verdict::Nothing => "nothing compared",
        },
        "calls": calls,
        "calls_total": tally.all_calls(),
        "calls_failing": tally.failing,
        "processes": tally.processes,
        "threads": tally.threads,
        "forks": tally.forks,
        "execs": tally.execs,
        "results_compared": tally.results,
        "wrong_results": tally.wrong_results,
        "predictions": tally.predictions,
        "wrong_predictions": tally.wrong_predictions,
        "placed_at_random": tally.random,
        "maps_compared": tally.maps,
        "areas_compared": tally.areas_compared,
        "wrong_maps": tally.wrong_maps,
        "broken_invariants": tally.broken_invariants,
        "not_modelled": tally.unmodelled,
        "failed_outside": tally.outside,
        "not_followed": tally.not_followed,
        "started_anew": tally.resyncs,
        "ambiguous": tally.ambiguous,
        "unsampled": tally.unsampled,
        "renamed": tally.renamed,
        "grown": tally.grown,
        "ended_unseen": tally.ended_unseen,
        "alternatives_performed": tally.spaces.alternatives,
        "alternatives_given_up": tally.spaces.given_up,
        "merges": tally.spaces.merges,
        "splits": tally.spaces.splits,
        "areas_peak": tally.spaces.areas_peak,
        "main": figures_json(&tally.spaces.main),
        "largest": figures_json(&tally.spaces.largest),
        "findings": findings,
        "record_bytes": subject.recorded,
    });
    // The macro takes only so many at once.
    value["undecided_maps"] = json!(tally.undecided_maps);
    value["maps_compared_in_part"] = json!(tally.parts);
    value["undecided_results"] = json!(tally.undecided_results);
    value["undecided"] = json!(tally.undecided);
    value["on_unknown"] = json!(tally.on_unknown);
    value["tracers_refused"] = json!(tally.tracers_refused);
    value["execs_predicted"] = json!(tally.execs_predicted);
    if let (Some(replay), Value::Object(object)) = (&subject.replay, &mut value) {
        object.insert(
            "replay".to_owned(),
            json!({
                "records": replay.records,
                "bytes": replay.bytes,
                "reading_seconds": replay.reading.as_secs_f64(),
                "performing_seconds": replay.performing.as_secs_f64(),
                "processor_seconds": replay.processor.as_secs_f64(),
                "calls_per_processor_second": rate(tally.all_calls(), replay.processor),
                "calls_per_second": rate(tally.all_calls(), replay.performing),
                "calls_per_second_with_reading": rate(tally.all_calls(), replay.performing + replay.reading),
                "maps_compared": replay.compared,
                "records_left_out": replay.skipped,
            }),
        );
    }
    value
}

/// Writes the JSON.
pub(crate) fn write_json(
    to: Destination,
    subject: &Subject<'_>,
    tally: &Tally,
) -> Result<(), String> {
    let mut text = serde_json::to_string_pretty(&to_json(subject, tally))
        .map_err(|error| format!("the summary cannot be told as JSON: {error}"))?;
    text.push('\n');
    to.write(text.as_bytes())
}
