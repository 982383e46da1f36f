//! The shortest history that still fails, found by leaving steps out.

/// Leaves out ever shorter runs of steps, as long as `fails` finds that the rest still fails.
///
/// `fails` returns the step at which the history fails; the steps after it are left out, too. The
/// result is `None` if the whole history does not fail. At the end no single step can be left out.
/// Tries O(n²) histories at worst, O(n log n) where few steps matter.
///
/// A step may refer to another step. If that one was left out, `fails` decides how to treat the
/// step.
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
