//! The choice of a process to kill without memory (Documentation/filesystems/proc.rst,
//! `proc_pid_oom_score_adj(5)`).

/// Returns the badness of a process in pages: the memory that its end frees, plus as many
/// thousandths of all memory as its `oom_score_adj` says. The process with the largest number is
/// killed. `None` for a process that never is (-1000).
///
/// `pages` are those in memory, swapped out, and in page tables; `total` is all memory and swap.
///
/// ```
/// use samara_mm::observe::badness;
/// assert_eq!(badness(500, 0, 100_000), Some(500));
/// assert_eq!(badness(500, -10, 100_000), Some(-500));
/// assert_eq!(badness(500, -1000, 100_000), None);
/// ```
pub fn badness(pages: u64, adjustment: i32, total: u64) -> Option<i64> {
    if adjustment <= -1000 {
        return None;
    }
    let moved = i64::from(adjustment).saturating_mul(signed(total) / 1000);
    Some(signed(pages).saturating_add(moved))
}

/// Returns the badness as `/proc/PID/oom_score` shows it: at least 0, and 666 for a process without
/// memory and adjustment.
///
/// ```
/// use samara_mm::observe::oom_score;
/// assert_eq!(oom_score(0, 0, 100_000), 666);
/// assert_eq!(oom_score(50_000, 0, 100_000), 1000);
/// assert_eq!(oom_score(50_000, -1000, 100_000), 0);
/// ```
pub fn oom_score(pages: u64, adjustment: i32, total: u64) -> u64 {
    let Some(bad) = badness(pages, adjustment, total) else {
        return 0;
    };
    let thousandths = bad.saturating_mul(1000) / signed(total).max(1);
    let score = (1000 + thousandths).max(0) * 2 / 3;
    score.unsigned_abs()
}

fn signed(pages: u64) -> i64 {
    i64::try_from(pages).unwrap_or(i64::MAX)
}
