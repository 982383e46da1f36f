//! Values that count and panic when told, and the loop around each test: the first, the second, the third … call panics.

mod map;
mod snap;
mod sync;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::support::counting::Countdown;
use super::support::ticks::{survives, tick};

/// The live values and nodes of one attempt.
#[derive(Clone)]
struct Ledger {
    nodes: Arc<Countdown>,
    values: Arc<Mutex<Values>>,
    /// `true` if maps begin with a few entries only.
    few: bool,
}

#[derive(Default)]
struct Values {
    next: u64,
    live: BTreeSet<u64>,
}

impl Ledger {
    fn new() -> Self {
        Self {
            nodes: Arc::new(Countdown::new()),
            values: Arc::default(),
            few: false,
        }
    }

    fn values(&self) -> MutexGuard<'_, Values> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bomb(&self, number: u32) -> Box<Bomb> {
        let mut values = self.values();
        values.next += 1;
        let id = values.next;
        values.live.insert(id);
        Box::new(Bomb {
            id,
            number,
            ledger: self.clone(),
        })
    }

    /// Entries at 10..=15, 20..=25 … 390..=395; of these a few, three levels of them, if that is asked for.
    fn fill(&self, mut insert: impl FnMut(RangeInclusive<u32>, Box<Bomb>)) {
        for i in 1..40 {
            if self.few && ![1, 4, 10, 15, 20, 25, 33, 39].contains(&i) {
                continue;
            }
            insert(i * 10..=i * 10 + 5, self.bomb(i));
        }
    }

    fn assert_live(&self, bomb: &Bomb, context: &str) {
        let live = self.values().live.contains(&bomb.id);
        assert!(live, "{context}: {} was dropped", bomb.number);
    }

    /// All maps are gone.
    fn assert_empty(&self, context: &str) {
        let values = self.values().live.len();
        assert_eq!(
            (values, self.nodes.live()),
            (0, 0),
            "{context}: values and nodes that leak"
        );
    }
}

/// A value whose drop may panic, and so may its clone.
struct Bomb {
    id: u64,
    number: u32,
    ledger: Ledger,
}

impl Clone for Bomb {
    fn clone(&self) -> Self {
        tick();
        *self.ledger.bomb(self.number)
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        if !self.ledger.values().live.remove(&self.id) {
            eprintln!("{} was dropped twice", self.number);
            std::process::abort();
        }
        tick();
    }
}

/// An iterator whose drop may panic.
struct Ends<I>(I);

impl<I: Iterator> Iterator for Ends<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        self.0.next()
    }
}

impl<I> Drop for Ends<I> {
    fn drop(&mut self) {
        tick();
    }
}

/// Lets the first, second, third … call panic until there are no more; under Miri one of the first five, in maps of a few entries.
/// `attempt` tells whether it went through without a panic. Gives how many times it panicked.
fn each_call(name: &str, mut attempt: impl FnMut(usize, &Ledger, &str) -> bool) -> usize {
    let mut panics = 0;
    let mut quiet = if cfg!(miri) { name.len() % 5 } else { 0 };
    loop {
        let context = format!("{name} after {quiet} calls");
        let mut ledger = Ledger::new();
        ledger.few = cfg!(miri);
        let done = attempt(quiet, &ledger, &context);
        ledger.assert_empty(&context);
        panics += usize::from(!done);
        if cfg!(miri) {
            // There were fewer calls: the first, then.
            if !done || quiet == 0 {
                break;
            }
            quiet = 0;
        } else if done {
            break;
        } else {
            quiet += 1;
        }
    }
    panics
}

/// Which of many steps to take: all; under Miri one in `of`, from number `first` on.
fn some<T>(steps: impl IntoIterator<Item = T>, first: usize, of: usize) -> impl Iterator<Item = T> {
    let (first, of) = if cfg!(miri) { (first, of) } else { (0, 1) };
    steps.into_iter().skip(first).step_by(of)
}
