//! Comparisons that are repeated if the kernel has moved pages during them.
//!
//! Compaction and reclaim take the pages of any process off their lists, hold references to them and put other entries in their places for a while. What a
//! process is told of its memory then is no property of its history. `/proc/vmstat` counts such work (proc_vmstat(5)). So it is with khugepaged, which comes
//! round every ten seconds and makes huge pages of small ones (Documentation/admin-guide/mm/transhuge.rst).

/// The most times that a comparison is made.
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

/// Compares until both sides agree, or differ without pages having been moved, but not for ever.
///
/// # Errors
/// How they differed at last.
pub(crate) fn steadily<T, E>(mut compare: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    for _ in 1..TRIES {
        let before = moved();
        let result = compare();
        if result.is_ok() || moved() == before {
            return result;
        }
    }
    compare()
}
