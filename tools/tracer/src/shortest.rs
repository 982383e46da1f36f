//! The shortest history that still fails, found by leaving steps out.

/// Leaves out runs of steps, ever shorter ones, as long as `fails` finds that what is left fails too, and says at which step: what follows that is
/// left out likewise. None if the whole does not fail. At the end no single step can be left out. O(n²) histories at worst, O(n log n)
/// where few steps matter.
///
/// Where one step refers to another, `fails` decides what becomes of those that refer to one that was left out.
pub(crate) fn shortest<S: Clone, F>(
    steps: &[S],
    mut fails: impl FnMut(&[S]) -> Option<(usize, F)>,
) -> Option<(Vec<S>, F)> {
    let (last, mut failure) = fails(steps)?;
    let mut best = steps[..=last].to_vec();
    let mut run = best.len().div_ceil(2);
    loop {
        let mut at = 0;
        let mut progress = false;
        while at < best.len() {
            let mut shorter = best.clone();
            shorter.drain(at..(at + run).min(best.len()));
            let found = if shorter.is_empty() {
                None
            } else {
                fails(&shorter)
            };
            match found {
                Some((last, found)) => {
                    shorter.truncate(last + 1);
                    best = shorter;
                    failure = found;
                    progress = true;
                }
                None => at += run,
            }
        }
        if run == 1 && !progress {
            return Some((best, failure));
        }
        run = run.div_ceil(2).min(best.len()).max(1);
    }
}
