//! Writes that start from look-ups, compared with a model: each with the hint of its look-up, near
//! the last write or not, with and without RCU mode.

use crate::support::counting::{Alive, Count};
use crate::support::{Model, Number, Rng};
use maple_tree::alloc::SharedPool;
use maple_tree::{Fanout, Hint, Native, Piece, Shape, SyncMapleTree, Waiting, Writer};

type Map<S> = SyncMapleTree<u64, Box<Alive>, Waiting, SharedPool, spin::Mutex<()>, S>;

/// A piece as the model has it.
fn shown((range, value): Piece<'_, u64, Box<Alive>>) -> (u64, u64, Option<Number>) {
    (
        *range.start(),
        *range.end(),
        value.map(|alive| alive.number),
    )
}

/// Compares a look-up at a key with the model: the piece before, and the pieces from the key on.
fn compare_look<S: Shape>(
    writer: &Writer<'_, u64, Box<Alive>, Waiting, SharedPool, spin::Mutex<()>, S>,
    near: Option<&Hint<u64, S>>,
    model: &Model<u64>,
    key: u64,
) -> Option<Hint<u64, S>> {
    // SAFETY: `near` is forgotten after each write that did not go on from a hint.
    let mut look = unsafe { writer.look(near, key) }?;
    let runs = model.runs();
    let at = runs.iter().position(|run| key <= run.last).unwrap();
    let hint = look.hint();
    let told = |i: usize| (runs[i].first, runs[i].last, runs[i].value);
    assert_eq!(shown(look.here()), told(at));
    let before = look.before().map(shown);
    assert_eq!(before, at.checked_sub(1).map(told));
    // SAFETY: the map has not been changed since.
    let here = unsafe { writer.get_here(&hint) }.map(|alive| alive.number);
    assert_eq!(here, runs[at].value);
    for i in at..runs.len().min(at + 20) {
        assert_eq!(look.next().map(shown), Some(told(i)));
    }
    assert!(at + 20 < runs.len() || look.next().is_none());
    Some(hint)
}

fn history<S: Shape>(seed: u64, cells: usize, steps: usize, gaps: bool, in_rcu: bool) {
    let (cells, steps) = if cfg!(miri) { (40, 40) } else { (cells, steps) };
    let count = Count::default();
    let map: Map<S> = if gaps {
        SyncMapleTree::with_gaps_in(Waiting::new(), SharedPool::new())
    } else {
        SyncMapleTree::new_in(Waiting::new(), SharedPool::new())
    };
    // SAFETY: no other code has the map.
    unsafe { map.set_in_rcu(in_rcu) };
    let mut rng = Rng(seed);
    let mut model = Model::new(0x1000, cells);
    let mut near: Option<(Hint<u64, S>, usize)> = None;
    let mut done_here = 0;
    for step in 0..steps {
        let mut writer = map.write();
        let width = match rng.below(12) {
            0 => rng.below(cells / 2),
            1..4 => rng.below(12),
            _ => rng.below(4),
        };
        // Often where the last one was.
        let from = match near {
            Some((_, key)) if rng.below(2) == 0 => (key + rng.below(6)).min(cells - 1),
            _ => rng.below(cells),
        };
        let to = (from + width).min(cells - 1);
        let (first, last) = (model.key(from), model.key(to));
        let hint = compare_look(&writer, near.as_ref().map(|(hint, _)| hint), &model, first);
        let number = step as Number + 1;
        // The part above the range of an entry that goes on at both ends: where it ends, and its new number.
        let above = model.splits(from, to).then(|| {
            let around = model.cells[from];
            let beyond = (to..cells).find(|&i| model.cells[i] != around);
            (beyond.unwrap_or(cells) - 1, 50_000 + step as Number)
        });
        let twin = above.map(|(_, number)| Alive::boxed(number, &count));
        let way = rng.below(3);
        let done;
        let stored = way < 2;
        match way {
            0 => {
                let value = Alive::boxed(number, &count);
                let refused = match &hint {
                    // SAFETY: the look was at the first index of the range, and nothing has been changed since.
                    Some(hint) => unsafe { writer.store_here(hint, (first, last), value, twin) },
                    None => Err((value, twin)),
                };
                done = refused.is_ok();
                if let Err((value, twin)) = refused {
                    let split = |_: std::ops::RangeInclusive<u64>, _: &Alive| twin;
                    writer
                        .store_range_splitting(first..=last, value, split)
                        .unwrap();
                }
                model.store(from, to, Some(number));
            }
            1 => {
                let refused = match &hint {
                    // SAFETY: as above.
                    Some(hint) => unsafe { writer.erase_here(hint, (first, last), twin) },
                    None => Err(twin),
                };
                done = refused.is_ok();
                if let Err(twin) = refused {
                    let split = |_: std::ops::RangeInclusive<u64>, _: &Alive| twin;
                    writer.erase_range_splitting(first..=last, split).unwrap();
                }
                model.store(from, to, None);
            }
            _ => {
                drop(twin);
                // An entry that touches the range takes it in: the one below, or the one above.
                let runs = model.runs();
                let lower = runs
                    .iter()
                    .find(|run| run.value.is_some() && run.first < first && run.last + 1 >= first);
                let upper = runs
                    .iter()
                    .find(|run| run.value.is_some() && run.last > last && run.first <= last + 1);
                let Some((keeper, run)) = lower
                    .map(|run| (first - 1, run))
                    .or(upper.map(|run| (last + 1, run)))
                else {
                    continue;
                };
                let (from, to) = (run.first.min(first), run.last.max(last));
                // SAFETY: as above; the range begins with the entry below, which ends where the look was, or in it.
                done = hint
                    .as_ref()
                    .is_some_and(|hint| unsafe { writer.grow_here(hint, keeper, (from, to)) });
                if !done {
                    assert_eq!(writer.grow(keeper, from..=to), Ok(true));
                }
                let value = run.value;
                let cell = |key: u64| (key - 0x1000) as usize;
                model.store(cell(from), cell(to), value);
            }
        }
        if let Some((end, number)) = above
            && stored
        {
            model.store(to + 1, end, Some(number));
        }
        near = hint.filter(|_| done).map(|hint| (hint, from));
        done_here += usize::from(done);
        assert!(!(done && in_rcu));
        drop(writer);
        let writer = map.write();
        writer.check().unwrap();
        let entries: Vec<_> = writer
            .iter()
            .map(|(range, alive)| (range, alive.number))
            .collect();
        assert_eq!(entries, model.entries(), "after step {step} of seed {seed}");
    }
    assert!(in_rcu || done_here > steps / 4);
    drop(map);
    assert_eq!(count.get(), 0);
}

#[test]
fn from_hint_to_hint() {
    for seed in 0..if cfg!(miri) { 1 } else { 4 } {
        history::<Native>(seed, 600, 3_000, true, false);
        history::<Native>(seed, 600, 1_500, false, false);
        history::<Fanout<4>>(seed, 200, 2_000, true, false);
        history::<Fanout<5>>(seed, 200, 1_000, false, false);
    }
}

#[test]
fn nothing_is_done_here_beside_readers() {
    history::<Native>(1, 300, 600, true, true);
    history::<Fanout<4>>(1, 100, 600, false, true);
}

/// A twin that no entry needs comes back, whatever the write is; nothing has changed then.
#[test]
fn a_twin_too_many_comes_back() {
    let count = Count::default();
    let value = |number| Alive::boxed(number, &count);
    let map: Map<Native> = SyncMapleTree::new_in(Waiting::new(), SharedPool::new());
    let mut writer = map.write();
    for first in [10, 30, 50] {
        writer.insert_range(first..first + 10, value(1)).unwrap();
    }
    // SAFETY: no thread reads, there is no hint, and nothing is changed after the look-ups.
    unsafe {
        map.set_in_rcu(false);
        let hole = writer.look(None, 22).unwrap().hint();
        let (_, twin) = writer
            .store_here(&hole, (22, 25), value(2), Some(value(3)))
            .unwrap_err();
        assert_eq!(twin.unwrap().number, 3);
        let entry = writer.look(None, 30).unwrap().hint();
        let twin = writer
            .erase_here(&entry, (30, 39), Some(value(4)))
            .unwrap_err();
        assert_eq!(twin.unwrap().number, 4);
    }
    assert_eq!(
        writer.ranges().collect::<Vec<_>>(),
        [10..=19, 30..=39, 50..=59]
    );
    drop(writer);
    drop(map);
    assert_eq!(count.get(), 0);
}
