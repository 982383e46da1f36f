//! The cost of a fork: an estimate from areas, pages and the measured cost of each.

use serde::Serialize;

use samara_mm::VmFlags;

use super::live::has_own_pages;
use super::snapshot::Snapshot;

/// Medians of `docs/figures/pages.json`, which `cargo xtask figures --only pages` measures (a test compares them). Nanoseconds.
mod measured {
    /// Linux: an area more (`fork of 4022 areas, an area`).
    pub(super) const AREA: f64 = 322.0;
    /// Linux: a page more (`fork, copying, 1048576 pages`, divided by these).
    pub(super) const PAGE: f64 = 70.0;
    /// Linux: what a fork of a small process takes beyond its areas (`fork of 24 areas, an area`, times 24).
    pub(super) const PROCESS: f64 = 118_000.0;
    /// The engine: a table more that is shared (`fork, sharing, 1048576 pages`, divided by 2,048 tables).
    pub(super) const TABLE: f64 = 14.0;
    /// The engine: the first write to what one shared table maps, above a copied one.
    pub(super) const FIRST_WRITE: f64 = 1_091.0;
}

const PAGE: u64 = 4096;
/// Bytes that a last-level table maps.
const STRETCH: u64 = 2 << 20;

/// The work of a fork, and its approximate time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Fork {
    /// Areas that the child gets.
    pub(crate) areas: u64,
    /// Entries of page tables that are copied to it: pages, and huge pages once each.
    pub(crate) entries: u64,
    /// Last-level tables that these lie in, at most.
    pub(crate) tables: u64,
    /// Microseconds that Linux takes.
    pub(crate) now_us: f64,
    /// The same where tables are shared.
    pub(crate) shared_us: f64,
    /// Microseconds later, if all that was shared is written to by parent or child.
    pub(crate) shared_later_us: f64,
}

impl Fork {
    /// `None` if nothing is known of pages.
    pub(crate) fn of(snapshot: &Snapshot) -> Option<Self> {
        let (mut areas, mut entries, mut tables) = (0, 0, 0u64);
        let mut last = None;
        if !snapshot.known {
            return None;
        }
        for (area, (flags, figures)) in snapshot.map.areas().iter().zip(&snapshot.told) {
            if flags.contains(VmFlags::DONTCOPY) {
                continue;
            }
            areas += 1;
            // A fault can bring back the pages of all others.
            if flags.intersects(VmFlags::WIPEONFORK | VmFlags::SHARED) || !has_own_pages(figures) {
                continue;
            }
            let huge = figures.huge_anonymous.min(figures.resident);
            let small = (figures.resident - huge + figures.swapped) / PAGE;
            entries += small + huge / STRETCH;
            let (first, end) = (area.start / STRETCH, (area.end - 1) / STRETCH + 1);
            let spanned = end - first - u64::from(last == Some(first));
            tables += spanned.min(small);
            last = Some(end - 1);
        }
        if let Some(bytes) = snapshot.table_bytes {
            tables = tables.min(bytes / PAGE);
        }
        Some(Self::counted(areas, entries, tables))
    }

    /// Returns the estimate from counts: of areas that the child gets, of entries that are copied,
    /// and of the tables that these lie in.
    pub(crate) fn counted(areas: u64, entries: u64, tables: u64) -> Self {
        let fixed = measured::PROCESS + areas as f64 * measured::AREA;
        Fork {
            areas,
            entries,
            tables,
            now_us: (fixed + entries as f64 * measured::PAGE) / 1000.0,
            shared_us: (fixed + tables as f64 * measured::TABLE) / 1000.0,
            shared_later_us: tables as f64 * measured::FIRST_WRITE / 1000.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::measured;

    /// The figures may be measured anew on another day; estimates stay of the same order.
    #[test]
    fn the_model_is_what_the_bench_has_measured() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/figures/pages.json");
        // The package may be tested apart from its repository.
        let Ok(text) = std::fs::read_to_string(file) else {
            return;
        };
        let figures: serde_json::Value = serde_json::from_str(&text).unwrap();
        let median = |row: &str, subject: &str| {
            let rows = figures["rows"].as_array().unwrap();
            let row = rows.iter().find(|r| r["name"] == row).unwrap();
            let samples = row["samples"].as_array().unwrap();
            let sample = samples.iter().find(|s| s["subject"] == subject).unwrap();
            sample["median"].as_f64().unwrap()
        };
        let pages = 1_048_576.0;
        let area = median("fork of 4022 areas, an area", "kernel");
        let all = median("fork of 24 areas, an area", "kernel") * 24.0;
        let copying = median("fork, copying, 1048576 pages", "kernel") * 1000.0;
        let sharing = median("fork, sharing, 1048576 pages", "samara") * 1000.0;
        let first = median(
            "first write to a shared stretch, above a copied one",
            "samara",
        );
        for (ours, measured) in [
            (measured::AREA, area),
            (measured::PROCESS, all - 24.0 * area),
            (measured::PAGE, copying / pages),
            (measured::TABLE, sharing / (pages / 512.0)),
            (measured::FIRST_WRITE, first),
        ] {
            let ratio = ours / measured;
            assert!(
                (0.4..2.5).contains(&ratio),
                "{ours} here, {measured} measured"
            );
        }
    }
}
