//! Histories that are performed again if the kernel moved pages meanwhile.
//!
//! Compaction and reclaim take the pages of any process off their lists, hold references to them and put other entries in their places for a while. What a
//! process is told of its memory then is no property of its history. `/proc/vmstat` counts such work (proc_vmstat(5)). So it is with khugepaged, which comes
//! round every ten seconds and makes huge pages of small ones (Documentation/admin-guide/mm/transhuge.rst).

use samara_mm::process::ForkMode;

use crate::engine::compare;
use crate::op::Step;

/// How often a history is performed again at most.
const TRIES: usize = 12;

/// Counts of what moves pages or takes them aside, in any process.
fn moved() -> Vec<u64> {
    const COUNTED: [&str; 4] = ["compact_isolated ", "pgmigrate_", "pgscan_", "thp_split_"];
    const COLLAPSED: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_collapsed";
    let text = std::fs::read_to_string("/proc/vmstat").unwrap();
    let of_interest = |line: &&str| COUNTED.iter().any(|name| line.starts_with(name));
    let lines = text.lines().filter(of_interest);
    let numbers = lines.map(|line| line.split(' ').nth(1).unwrap().parse().unwrap());
    // A kernel without huge pages has no such file.
    let collapsed = std::fs::read_to_string(COLLAPSED).ok();
    let collapsed = collapsed.map(|text| text.trim().parse().unwrap());
    numbers.chain(collapsed).collect()
}

/// Performs a history on both sides until they agree, or differ without pages having been moved, but not for ever.
///
/// # Errors
/// The number of the first step after which they differed at last, and how.
pub(crate) fn compare_steadily(history: &[Step], mode: ForkMode) -> Result<(), (usize, String)> {
    let mut result = Ok(());
    for _ in 0..TRIES {
        let before = moved();
        result = compare(history, mode);
        if result.is_ok() || moved() == before {
            break;
        }
    }
    result
}
