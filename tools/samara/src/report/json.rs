//! The summary as JSON.

use serde_json::{Value, json};

use super::{Replay, Subject, rate};
use crate::destination::Destination;
use samara_conformance::describe::KINDS;
use samara_conformance::tally::{Finding, FindingKind, SpaceFigures, Tally, Verdict};

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

fn finding_json(finding: &Finding) -> Value {
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
}

fn replay_json(replay: &Replay, tally: &Tally) -> Value {
    let calls = tally.all_calls();
    json!({
        "records": replay.records,
        "bytes": replay.bytes,
        "reading_seconds": replay.reading.as_secs_f64(),
        "performing_seconds": replay.performing.as_secs_f64(),
        "processor_seconds": replay.processor.as_secs_f64(),
        "calls_per_processor_second": rate(calls, replay.processor),
        "calls_per_second": rate(calls, replay.performing),
        "calls_per_second_with_reading": rate(calls, replay.performing + replay.reading),
        "maps_compared": replay.compared,
        "records_left_out": replay.skipped,
    })
}

/// Returns the summary as JSON.
fn to_json(subject: &Subject<'_>, tally: &Tally) -> Value {
    let calls: serde_json::Map<String, Value> = KINDS
        .iter()
        .zip(tally.calls)
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| ((*name).to_owned(), count.into()))
        .collect();
    let findings: Vec<Value> = tally.findings.iter().map(finding_json).collect();
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
    // The macro's recursion limit allows no more keys at once.
    value["kernel_version"] = json!(subject.kernel.version.to_string());
    value["undecided_maps"] = json!(tally.undecided_maps);
    value["maps_compared_in_part"] = json!(tally.parts);
    value["undecided_results"] = json!(tally.undecided_results);
    value["undecided"] = json!(tally.undecided);
    value["on_unknown"] = json!(tally.on_unknown);
    value["interrupted"] = json!(tally.interrupted);
    value["tracers_refused"] = json!(tally.tracers_refused);
    value["execs_predicted"] = json!(tally.execs_predicted);
    if let (Some(replay), Value::Object(object)) = (&subject.replay, &mut value) {
        object.insert("replay".to_owned(), replay_json(replay, tally));
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
