//! The summary: text for a person, JSON for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

use crate::describe::KINDS;
use crate::destination::Destination;
use crate::kernel::Kernel;
use crate::names::printable;
pub(crate) use crate::quantity::{bytes, grouped};
use crate::quantity::{number_of, plural};
use crate::tally::{FindingKind, SpaceFigures, Tally, Verdict};

/// What the summary is about.
#[derive(Debug, Clone)]
pub(crate) struct Subject<'a> {
    pub(crate) words: &'a [String],
    pub(crate) kernel: &'a Kernel,
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

fn title(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::Result => "First wrong result",
        FindingKind::Prediction => "First wrong prediction of an address",
        FindingKind::Map => "First mismatch of maps",
        FindingKind::Invariant => "First broken invariant of the engine",
    }
}

/// Returns how many programs were started, and of how many the map was predicted, if that is known; nothing if there was none.
fn execs(all: u64, predicted: Option<u64>) -> Option<String> {
    let share = match (all, predicted) {
        (0, _) => return None,
        (_, None) => return Some(number_of(all, "exec")),
        (1, Some(1)) => "predicted".to_owned(),
        (1, Some(_)) => "not predicted".to_owned(),
        (all, Some(predicted)) if all == predicted => "all predicted".to_owned(),
        (_, Some(0)) => "none predicted".to_owned(),
        (_, Some(predicted)) => format!("{} of them predicted", grouped(predicted)),
    };
    Some(format!("{}, {share}", number_of(all, "exec")))
}

/// Joins the parts that there are.
fn joined<const N: usize>(parts: [Option<String>; N]) -> String {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join(" · ")
}

fn share(good: u64, all: u64) -> String {
    match all {
        0 => "none".to_owned(),
        1 => format!("{good} of 1 agrees"),
        all => format!("{} of {} agree", grouped(good), grouped(all)),
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
    row("kernel", printable(&subject.kernel.to_string()).to_string());
    row(
        "calls",
        format!(
            "{} ({})\n{list}",
            grouped(tally.all_calls()),
            match tally.failing {
                0 => "none failed".to_owned(),
                1 => "1 failed as it should".to_owned(),
                failing => format!("{} failed as they should", grouped(failing)),
            }
        ),
    );
    row(
        "processes",
        joined([
            Some(grouped(tally.processes)),
            (tally.threads > 0).then(|| number_of(tally.threads, "more thread")),
            (tally.forks > 0).then(|| number_of(tally.forks, "fork")),
            execs(
                tally.execs,
                subject.replay.is_none().then_some(tally.execs_predicted),
            ),
        ]),
    );
    let figures = |of: &SpaceFigures| {
        format!(
            "{} now, {} at the peak · {} mapped · {} · tree {}, {}",
            number_of(of.areas, "area"),
            grouped(of.areas_peak),
            bytes(of.mapped),
            match of.gaps {
                0 => "no gaps".to_owned(),
                1 => format!("1 gap of {}", bytes(of.largest_gap)),
                gaps => format!(
                    "{} gaps, the largest {}",
                    grouped(gaps),
                    bytes(of.largest_gap)
                ),
            },
            number_of(of.tree_height, "level"),
            bytes(of.tree_bytes)
        )
    };
    // Of a record that was interrupted, the end of the program is not known.
    if tally.spaces.main.areas_peak > 0 {
        row("main program", figures(&tally.spaces.main));
    }
    if tally.spaces.largest.areas_peak > tally.spaces.main.areas_peak {
        row("largest of all", figures(&tally.spaces.largest));
    }
    row(
        "areas",
        joined([
            Some(number_of(tally.spaces.merges, "merge")),
            Some(number_of(tally.spaces.splits, "split")),
            (tally.grown > 0).then(|| plural(tally.grown, "grown by a fault", "grown by faults")),
        ]),
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
            "{} ({} compared{})",
            share(
                tally.maps - tally.wrong_maps - tally.undecided_maps,
                tally.maps
            ),
            number_of(tally.areas_compared, "area"),
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
    if let Some(number) = tally.on_unknown {
        let depends = "on what strace does not tell (the map, the order of threads)";
        row(
            "start",
            match number {
                0 => format!("unknown: no answer depends {depends}"),
                number => format!(
                    "unknown: {} not compared, of which the answer depends {depends}",
                    plural(number, "call was", "calls were")
                ),
            },
        );
    }
    if let Some(cut) = &tally.interrupted {
        row("recording", cut.to_string());
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
            "call raced with a page fault: the kernel's map told which came first",
            "calls raced with a page fault: the kernel's map told which came first",
        ),
        (
            tally.spaces.given_up,
            "assumption about the order of page faults was given up undecided",
            "assumptions about the order of page faults were given up undecided",
        ),
        (
            tally.random,
            "address (MAP_32BIT) was drawn by lot by the kernel",
            "addresses (MAP_32BIT) were drawn by lot by the kernel",
        ),
        (
            tally.renamed,
            "name had changed while the file was mapped",
            "names had changed while the file was mapped",
        ),
        (
            tally.ended_unseen,
            "address space ended (SIGKILL) before a last comparison",
            "address spaces ended (SIGKILL) before a last comparison",
        ),
        (
            tally.tracers_refused,
            "request to trace another program (ptrace) was refused: it is traced already, so that a debugger cannot follow it here",
            "requests to trace another program (ptrace) were refused: it is traced already, so that a debugger cannot follow it here",
        ),
        (
            tally.unsampled,
            "page was asked for that had not been looked at before the call",
            "pages were asked for that had not been looked at before the call",
        ),
    ];
    for (number, one, many) in asides {
        if number > 0 {
            row("note", plural(number, one, many));
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
        let reasons = tally.not_followed.iter();
        let reasons = reasons.map(|(reason, count)| format!("{} × {reason}", grouped(*count)));
        let cut = tally.interrupted.iter();
        let cut = cut.map(|_| "the rest of the recording, which was interrupted".to_owned());
        reasons.chain(cut).collect::<Vec<_>>().join("; ")
    };
    let disagreements = || {
        let all = [
            (tally.wrong_results, "result"),
            (tally.wrong_predictions, "prediction"),
            (tally.wrong_maps, "map"),
            (tally.broken_invariants, "invariant"),
        ];
        let all = all.into_iter().filter(|(number, _)| *number > 0);
        let all: Vec<_> = all.map(|(number, what)| number_of(number, what)).collect();
        all.join(", ")
    };
    let _ = match tally.verdict() {
        Verdict::Agreed => writeln!(out, "Engine and kernel agree."),
        Verdict::Disagreed => writeln!(out, "Engine and kernel DISAGREE: {}.", disagreements()),
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
        Verdict::Nothing if reasons().is_empty() => {
            writeln!(out, "NOTHING WAS COMPARED: no call and no map was seen.")
        }
        Verdict::Nothing => writeln!(out, "NOTHING WAS COMPARED: {}.", reasons()),
    };
    out
}

/// Returns how many maps and results are undecided, in words.
fn undecided(tally: &Tally) -> String {
    let counted = [
        (tally.undecided_maps, tally.maps, "map"),
        (tally.undecided_results, tally.results, "result"),
    ];
    let told = counted.iter().filter(|(count, ..)| *count > 0);
    told.map(|(count, all, what)| format!("{} of {}", grouped(*count), number_of(*all, what)))
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
        "{} ({}) read in {:.3} s · performed in {:.3} s, {} calls/s ({compared}) · in processor time {:.3} s, {} calls/s · with reading {} calls/s",
        number_of(replay.records as u64, "record"),
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
            "; {} left out behind a disagreement",
            number_of(replay.skipped, "record")
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
        "kernel": subject.kernel.release,
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
    value["kernel_version"] = json!(subject.kernel.version.to_string());
    value["undecided_maps"] = json!(tally.undecided_maps);
    value["maps_compared_in_part"] = json!(tally.parts);
    value["undecided_results"] = json!(tally.undecided_results);
    value["undecided"] = json!(tally.undecided);
    value["on_unknown"] = json!(tally.on_unknown);
    value["interrupted"] = json!(tally.interrupted.map(|cut| cut.to_string()));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::SpaceTotals;

    /// The text about a program of which everything happened `number` times.
    fn told(number: u64) -> String {
        let named = |name: &str| BTreeMap::from([(Box::from(name), number)]);
        let space = SpaceFigures {
            areas: number,
            areas_peak: number,
            gaps: number,
            tree_height: number,
            ..SpaceFigures::default()
        };
        let mut calls = [0; KINDS.len()];
        calls[0] = number;
        let tally = Tally {
            calls,
            failing: number,
            results: number,
            wrong_results: number,
            predictions: number,
            random: number,
            maps: number,
            undecided_maps: number,
            areas_compared: number,
            unmodelled: named("keyctl"),
            on_unknown: Some(number),
            ambiguous: number,
            unsampled: number,
            renamed: number,
            grown: number,
            forks: number,
            execs: number,
            processes: number,
            threads: number,
            ended_unseen: number,
            tracers_refused: number,
            spaces: SpaceTotals {
                given_up: number,
                merges: number,
                splits: number,
                areas_peak: number,
                main: space,
                largest: space,
                ..SpaceTotals::default()
            },
            ..Tally::default()
        };
        let subject = Subject {
            words: &["program".to_owned()],
            kernel: &crate::kernel::Kernel::default(),
            exit_code: Some(0),
            signal: None,
            elapsed: Duration::ZERO,
            recorded: None,
            replay: Some(Replay {
                records: number as usize,
                bytes: 0,
                reading: Duration::ZERO,
                performing: Duration::ZERO,
                processor: Duration::ZERO,
                compared: true,
                skipped: number,
            }),
        };
        text(&subject, &tally)
    }

    /// After `1` no word is in the plural, and no number of things is `0`.
    #[test]
    fn numbers_of_things_are_english() {
        const SINGULAR: [&str; 4] = ["process", "address", "was", "agrees"];
        let one = told(1);
        let words: Vec<&str> = one.split([' ', '\n', '(', ')', ',', ':']).collect();
        for pair in words.windows(2) {
            let [number, word] = *pair else { continue };
            let fits = number != "1" || !word.ends_with('s') || SINGULAR.contains(&word);
            assert!(fits, "{number} {word}: {one}");
        }
        for said in [
            "(1 failed as it should)",
            " · 1 exec\n",
            "1 grown by a fault",
            "1 call raced",
            "DISAGREE: 1 result.",
        ] {
            assert!(one.contains(said), "{said}: {one}");
        }
        let none = told(0);
        for line in none.lines().filter(|line| !line.contains(" s ·")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            for pair in words.windows(2) {
                let counts = pair[0] == "0" && pair[1].starts_with(char::is_alphabetic);
                assert!(!counts || pair[1] == "B", "{line}");
            }
        }
        assert!(none.contains("(none failed)"), "{none}");
        assert_eq!(execs(1, Some(0)).as_deref(), Some("1 exec, not predicted"));
        assert_eq!(execs(2, Some(2)).as_deref(), Some("2 execs, all predicted"));
        assert_eq!(execs(0, Some(0)), None);
        assert!(told(2).contains("2 calls raced") && told(2).contains("DISAGREE: 2 results."));
    }
}
