//! Shorter histories that still differ.

use samara_mm::process::ForkMode;

use crate::engine::compare;
use crate::op::Step;
use crate::steady::steadily;

/// The shortest history that still differs, and how.
pub(crate) fn shrink(history: &[Step], mode: ForkMode) -> (Vec<Step>, String) {
    let mut history = history.to_vec();
    let mut what = String::new();
    let mut piece = history.len();
    while piece > 0 {
        let mut at = 0;
        while at < history.len() {
            let mut shorter = history.clone();
            shorter.drain(at..(at + piece).min(history.len()));
            if let Err((number, text)) = steadily(|| compare(&shorter, mode)) {
                shorter.truncate(number + 1);
                history = shorter;
                what = text;
            } else {
                at += piece;
            }
        }
        piece /= 2;
    }
    (history, what)
}
