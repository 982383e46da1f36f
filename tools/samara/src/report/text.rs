//! The summary as text: a headline, a table with a row for each kind of figure, findings, and the verdict.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};

use super::{Replay, Subject, rate};
use samara_conformance::describe::KINDS;
use samara_conformance::names::printable;
use samara_conformance::tally::{FindingKind, SpaceFigures, Tally, Verdict};
use samara_tracer::quantity::{bytes, grouped, number_of, plural};

fn title(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::Result => "First wrong result",
        FindingKind::Prediction => "First wrong prediction of an address",
        FindingKind::Map => "First mismatch of maps",
        FindingKind::Invariant => "First broken invariant of the engine",
    }
}

/// Returns the number of started programs and, if known, how many maps were predicted. Returns `None` if no program was started.
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

/// Joins the parts that are present.
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

/// Returns the text for a person.
pub(crate) fn text(subject: &Subject<'_>, tally: &Tally) -> String {
    let mut out = headline(subject);
    let mut rows = Rows::new();
    rows.add("kernel", printable(&subject.kernel.to_string()).to_string());
    rows.what_ran(subject, tally);
    rows.spaces(tally);
    rows.comparisons(tally);
    rows.unknowns(tally);
    rows.notes(tally);
    if let Some(replay) = &subject.replay {
        rows.add("replay", replay_line(replay, tally));
    }
    if let Some(size) = subject.recorded {
        rows.add("record", bytes(size));
    }
    out += &rows.text();
    out += &findings(tally);
    out += &verdict(tally);
    out
}

/// Returns the first line: the program, cut to a line's length, and the time.
fn headline(subject: &Subject<'_>) -> String {
    let words = subject.words.join(" ");
    let shown: String = words.chars().take(100).collect();
    let more = if shown.len() < words.len() { "…" } else { "" };
    format!(
        "── samara ── {}{more} ── {:.2} s\n",
        printable(&shown),
        subject.elapsed.as_secs_f64()
    )
}

/// The table of the summary: names, aligned to the right, and values.
struct Rows(Table);

impl Rows {
    fn new() -> Self {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        Self(table)
    }

    fn add(&mut self, name: &str, value: String) {
        self.0.add_row([name.to_owned(), value]);
    }

    /// Adds calls by their kinds, most frequent first, and processes.
    fn what_ran(&mut self, subject: &Subject<'_>, tally: &Tally) {
        let kinds = KINDS.iter().zip(tally.calls);
        let mut calls: Vec<(&str, u64)> = kinds
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| (*name, count))
            .collect();
        calls.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let failing = match tally.failing {
            0 => "none failed".to_owned(),
            1 => "1 failed as it should".to_owned(),
            failing => format!("{} failed as they should", grouped(failing)),
        };
        let all = grouped(tally.all_calls());
        self.add("calls", format!("{all} ({failing})\n{}", counted(calls)));
        self.add(
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
    }

    /// Adds the figures of address spaces.
    fn spaces(&mut self, tally: &Tally) {
        let spaces = &tally.spaces;
        // The end of the program is unknown if its record was interrupted.
        if spaces.main.areas_peak > 0 {
            self.add("main program", figures(&spaces.main));
        }
        if spaces.largest.areas_peak > spaces.main.areas_peak {
            self.add("largest of all", figures(&spaces.largest));
        }
        self.add(
            "areas",
            joined([
                Some(number_of(spaces.merges, "merge")),
                Some(number_of(spaces.splits, "split")),
                (tally.grown > 0)
                    .then(|| plural(tally.grown, "grown by a fault", "grown by faults")),
            ]),
        );
    }

    /// Adds the shares of results, predictions and maps that agree.
    fn comparisons(&mut self, tally: &Tally) {
        let wrong = tally.wrong_results + tally.wrong_predictions + tally.undecided_results;
        self.add("results", share(tally.results - wrong, tally.results));
        let right = tally.predictions - tally.wrong_predictions;
        self.add("predicted addresses", share(right, tally.predictions));
        let right = tally.maps - tally.wrong_maps - tally.undecided_maps;
        let parts = match tally.parts {
            0 => String::new(),
            parts => format!(
                "; {} whole, {} where a call can have changed them",
                grouped(tally.maps - parts),
                grouped(parts)
            ),
        };
        let areas = number_of(tally.areas_compared, "area");
        let maps = share(right, tally.maps);
        self.add("maps", format!("{maps} ({areas} compared{parts})"));
    }

    /// Adds what was not compared, and what is undecided, with the reasons.
    fn unknowns(&mut self, tally: &Tally) {
        if let Some(number) = tally.on_unknown {
            let depends = "on what strace does not tell (the map, the order of threads)";
            let start = match number {
                0 => format!("unknown: no answer depends {depends}"),
                number => format!(
                    "unknown: {} not compared, of which the answer depends {depends}",
                    plural(number, "call was", "calls were")
                ),
            };
            self.add("start", start);
        }
        if let Some(cut) = &tally.interrupted {
            self.add("recording", cut.to_string());
        }
        let lists: [(&str, &BTreeMap<Box<str>, u64>); 3] = [
            ("not modelled", &tally.unmodelled),
            ("failed outside", &tally.outside),
            ("not followed", &tally.not_followed),
        ];
        for (name, list) in lists {
            if !list.is_empty() {
                let list = list.iter().map(|(name, count)| (&**name, *count));
                self.add(name, counted(list));
            }
        }
        for (reason, count) in &tally.undecided {
            self.add("undecided", format!("{}: {reason}", grouped(*count)));
        }
        for (reason, count) in &tally.resyncs {
            self.add("started anew", format!("{} {reason}", grouped(*count)));
        }
    }

    /// Adds a note for each event that a reader may want to know of and that is no difference.
    fn notes(&mut self, tally: &Tally) {
        for (number, one, many) in notes(tally) {
            if number > 0 {
                self.add("note", plural(number, one, many));
            }
        }
    }

    fn text(mut self) -> String {
        if let Some(column) = self.0.column_mut(0) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let mut out = String::new();
        for line in self.0.lines() {
            let _ = writeln!(out, "{}", line.trim_end());
        }
        out
    }
}

/// Returns names with their numbers, as "mmap 32 · brk 22".
fn counted<'a>(list: impl IntoIterator<Item = (&'a str, u64)>) -> String {
    let list = list.into_iter();
    let list = list.map(|(name, count)| format!("{name} {}", grouped(count)));
    list.collect::<Vec<_>>().join(" · ")
}

/// Returns the figures of one address space in a line.
fn figures(of: &SpaceFigures) -> String {
    let gaps = match of.gaps {
        0 => "no gaps".to_owned(),
        1 => format!("1 gap of {}", bytes(of.largest_gap)),
        gaps => format!(
            "{} gaps, the largest {}",
            grouped(gaps),
            bytes(of.largest_gap)
        ),
    };
    format!(
        "{} now, {} at the peak · {} mapped · {gaps} · tree {}, {}",
        number_of(of.areas, "area"),
        grouped(of.areas_peak),
        bytes(of.mapped),
        number_of(of.tree_height, "level"),
        bytes(of.tree_bytes)
    )
}

/// Returns the notes: the number, and the text for one and for several.
fn notes(tally: &Tally) -> [(u64, &'static str, &'static str); 7] {
    [
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
    ]
}

/// Returns the first disagreement of each kind, with its call and both answers.
fn findings(tally: &Tally) -> String {
    let mut out = String::new();
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
    out
}

/// Returns the last line.
fn verdict(tally: &Tally) -> String {
    let reasons = reasons(tally);
    match tally.verdict() {
        Verdict::Agreed => "Engine and kernel agree.\n".to_owned(),
        Verdict::Disagreed => {
            format!("Engine and kernel DISAGREE: {}.\n", disagreements(tally))
        }
        Verdict::Undecided => format!(
            "Engine and kernel agree as far as could be decided. UNDECIDED: {}.\n",
            undecided(tally)
        ),
        Verdict::NotAll => {
            format!("Engine and kernel agree as far as was compared. NOT COMPARED: {reasons}.\n")
        }
        Verdict::Nothing if reasons.is_empty() => {
            "NOTHING WAS COMPARED: no call and no map was seen.\n".to_owned()
        }
        Verdict::Nothing => format!("NOTHING WAS COMPARED: {reasons}.\n"),
    }
}

/// Returns the reasons why something was not compared.
fn reasons(tally: &Tally) -> String {
    let reasons = tally.not_followed.iter();
    let reasons = reasons.map(|(reason, count)| format!("{} × {reason}", grouped(*count)));
    let cut = tally.interrupted.iter();
    let cut = cut.map(|_| "the rest of the recording, which was interrupted".to_owned());
    reasons.chain(cut).collect::<Vec<_>>().join("; ")
}

/// Returns the numbers of disagreements by kind.
fn disagreements(tally: &Tally) -> String {
    let all = [
        (tally.wrong_results, "result"),
        (tally.wrong_predictions, "prediction"),
        (tally.wrong_maps, "map"),
        (tally.broken_invariants, "invariant"),
    ];
    let all = all.into_iter().filter(|(number, _)| *number > 0);
    let all: Vec<_> = all.map(|(number, what)| number_of(number, what)).collect();
    all.join(", ")
}

/// Returns the numbers of undecided maps and results, in words.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use samara_conformance::tally::SpaceTotals;

    /// Returns the text about a program in which everything happened `number` times.
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
            kernel: &samara_tracer::kernel::Kernel::default(),
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

    /// Checks that no plural follows `1`, and that no number of things is `0`.
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
