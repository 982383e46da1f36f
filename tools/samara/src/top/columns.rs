//! The columns of each process, and the order of processes.

use std::cmp::Ordering;

use clap::ValueEnum;
use samara_conformance::names::printable;
use samara_tracer::quantity::{bytes, grouped};

use super::sample::{Process, Sample};
use crate::show::text::microseconds;

/// A figure of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Column {
    Pid,
    User,
    Areas,
    Used,
    Left,
    Gaps,
    Fragments,
    Fork,
    Shared,
    Size,
    Resident,
    Swapped,
    Name,
}

impl Column {
    pub(super) const ALL: [Column; 13] = [
        Column::Pid,
        Column::User,
        Column::Areas,
        Column::Used,
        Column::Left,
        Column::Gaps,
        Column::Fragments,
        Column::Fork,
        Column::Shared,
        Column::Size,
        Column::Resident,
        Column::Swapped,
        Column::Name,
    ];

    pub(super) fn heading(self) -> &'static str {
        match self {
            Column::Pid => "PID",
            Column::User => "USER",
            Column::Areas => "AREAS",
            Column::Used => "USED",
            Column::Left => "LEFT",
            Column::Gaps => "GAPS",
            Column::Fragments => "FRAGMENTS",
            Column::Fork => "FORK",
            Column::Shared => "SHARED",
            Column::Size => "SIZE",
            Column::Resident => "RESIDENT",
            Column::Swapped => "SWAPPED",
            Column::Name => "NAME",
        }
    }

    /// Returns its meaning.
    pub(super) fn meaning(self) -> &'static str {
        match self {
            Column::Pid => "number of the process",
            Column::User => "whose it is",
            Column::Areas => "areas that it has mapped",
            Column::Used => "how much of vm.max_map_count these are",
            Column::Left => "areas more until mmap fails",
            Column::Gaps => "free ranges between areas",
            Column::Fragments => "bytes in gaps below 1 GiB",
            Column::Fork => "what a fork would take now (estimate)",
            Column::Shared => "the same with shared page tables (estimate)",
            Column::Size => "bytes mapped",
            Column::Resident => "bytes in memory",
            Column::Swapped => "bytes swapped out",
            Column::Name => "what it runs",
        }
    }

    pub(super) fn is_number(self) -> bool {
        !matches!(self, Column::User | Column::Name)
    }

    /// Columns with a higher number are left out first where there is no room; those with 0 never.
    pub(super) fn spare(self) -> u8 {
        match self {
            Column::Pid | Column::Areas | Column::Name => 0,
            Column::Fork => 1,
            Column::User => 2,
            Column::Used => 3,
            Column::Fragments => 4,
            Column::Resident => 5,
            Column::Left => 6,
            Column::Shared => 7,
            Column::Gaps => 8,
            Column::Size => 9,
            Column::Swapped => 10,
        }
    }

    /// Returns `true` if the largest come first by default.
    pub(super) fn descends(self) -> bool {
        !matches!(
            self,
            Column::Pid | Column::User | Column::Name | Column::Left
        )
    }

    /// Returns the figure; `None` if it is not known.
    fn number(self, process: &Process, limit: u64) -> Option<f64> {
        let mapped = process.mapped.as_ref();
        Some(match self {
            Column::Pid => f64::from(process.pid),
            Column::Areas | Column::Used => mapped?.areas as f64,
            Column::Left => limit.saturating_sub(mapped?.areas) as f64,
            Column::Gaps => mapped?.gaps.count as f64,
            Column::Fragments => mapped?.gaps.fragment_bytes as f64,
            Column::Fork => mapped?.fork.now_us,
            Column::Shared => mapped?.fork.shared_us,
            Column::Size => process.size as f64,
            Column::Resident => process.resident as f64,
            Column::Swapped => process.swapped as f64,
            Column::User | Column::Name => return None,
        })
    }

    pub(super) fn text(self, process: &Process, limit: u64) -> String {
        let number = self.number(process, limit);
        match (self, number) {
            (Column::Name, _) => printable(&process.name).into_owned(),
            (Column::User, _) => printable(&process.user).into_owned(),
            (_, None) => "–".to_owned(),
            (Column::Pid, _) => process.pid.to_string(),
            (Column::Used, Some(areas)) => {
                format!("{:.1} %", 100.0 * areas / limit.max(1) as f64)
            }
            (Column::Fork | Column::Shared, Some(us)) => microseconds(us),
            (Column::Areas | Column::Left | Column::Gaps, Some(count)) => grouped(count as u64),
            (_, Some(size)) => bytes(size as u64),
        }
    }
}

/// By what processes are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) column: Column,
    pub(super) descending: bool,
}

impl Order {
    pub(super) fn by(column: Column) -> Self {
        Self {
            column,
            descending: column.descends(),
        }
    }

    /// Compares two processes. Unknown values come last in either direction, and equal ones are
    /// ordered by the number of the process.
    fn compare(self, a: &Process, b: &Process, limit: u64) -> Ordering {
        let turned = |order: Ordering| {
            if self.descending {
                order.reverse()
            } else {
                order
            }
        };
        let number = |process| self.column.number(process, limit);
        let order = match (number(a), number(b)) {
            _ if self.column == Column::Name => turned(a.name.cmp(&b.name)),
            _ if self.column == Column::User => turned(a.user.cmp(&b.user)),
            (Some(a), Some(b)) => turned(a.total_cmp(&b)),
            (a, b) => a.is_none().cmp(&b.is_none()),
        };
        order.then(a.pid.cmp(&b.pid))
    }

    pub(super) fn sort(self, sample: &mut Sample) {
        let limit = sample.limit;
        sample
            .processes
            .sort_unstable_by(|a, b| self.compare(a, b, limit));
    }
}
