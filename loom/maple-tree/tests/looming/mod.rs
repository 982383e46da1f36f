//! One writer and one reader of a small tree, in every interleaving.

pub(crate) mod two_leaves;

use std::alloc::Layout;
use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use loom::thread;
use maple_tree::alloc::NodeAlloc;
use maple_tree::{Fanout, SyncMapleTree, Waiting, Writer};

thread_local! {
    /// All blocks of one run of a model. The checker's threads are coroutines on one thread.
    static BLOCKS: RefCell<Vec<(NonNull<u8>, Layout)>> = const { RefCell::new(Vec::new()) };
}

/// An allocator that overwrites freed blocks, and does not reuse them in the same run.
#[derive(Clone, Copy)]
pub(crate) struct Poison;

// SAFETY: the memory comes from the global allocator, and is freed to it when the run is over.
unsafe impl NodeAlloc for Poison {
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the layout is not empty.
        let block = NonNull::new(unsafe { std::alloc::alloc(layout) })?;
        BLOCKS.with_borrow_mut(|blocks| blocks.push((block, layout)));
        Some(block)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the block has this layout, and nothing should read it any more.
        unsafe { block.write_bytes(0xaa, layout.size()) };
    }
}

pub(crate) fn end_of_run() {
    for (block, layout) in BLOCKS.take() {
        // SAFETY: it came from `allocate` with this layout, and the run is over.
        unsafe { std::alloc::dealloc(block.as_ptr(), layout) };
    }
}

pub(crate) type Tree = SyncMapleTree<u32, u32, Waiting, Poison, spin::Mutex<()>, Fanout<4>>;
pub(crate) type Write<'t> = Writer<'t, u32, u32, Waiting, Poison, spin::Mutex<()>, Fanout<4>>;
pub(crate) type Entries = Vec<(RangeInclusive<u32>, u32)>;

pub(crate) fn writer(tree: &Tree) -> Write<'_> {
    // SAFETY: each model has one writing thread at a time.
    unsafe { tree.write_locked() }
}

pub(crate) fn model(
    gaps: bool,
    setup: fn(&mut Write<'_>),
    write: fn(&mut Write<'_>),
    read: fn(&Tree, before: &Entries, after: &Entries),
) {
    let new = move || {
        if gaps {
            Tree::with_gaps_in(Waiting::new(), Poison)
        } else {
            Tree::new_in(Waiting::new(), Poison)
        }
    };
    model_of(new, setup, write, read);
}

/// Runs a model on any tree.
pub(crate) fn model_of(
    empty: impl Fn() -> Tree + Copy + Send + Sync + 'static,
    setup: fn(&mut Write<'_>),
    write: fn(&mut Write<'_>),
    read: fn(&Tree, before: &Entries, after: &Entries),
) {
    let new = move || {
        let tree = empty();
        setup(&mut writer(&tree));
        tree
    };
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 100_000;
    // The contents before and after, without the reader.
    let states: Arc<Mutex<(Entries, Entries)>> = Arc::default();
    let found = states.clone();
    builder.check(move || {
        let tree = new();
        let before = tree.read().iter().collect();
        write(&mut writer(&tree));
        *found.lock().unwrap() = (before, tree.read().iter().collect());
        std::mem::forget(tree);
        end_of_run();
    });
    // `LOOM_MAX_PREEMPTIONS` sets another bound. Without any, the models take minutes.
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    let (before, after) = states.lock().unwrap().clone();
    builder.check(move || {
        let tree = Arc::new(new());
        let reader = {
            let (tree, before, after) = (tree.clone(), before.clone(), after.clone());
            thread::spawn(move || read(&tree, &before, &after))
        };
        write(&mut writer(&tree));
        reader.join().unwrap();
        writer(&tree).check().unwrap();
        // The checker's words are not dropped with the memory, so that the tree must be forgotten.
        std::mem::forget(tree);
        end_of_run();
    });
}

pub(crate) fn at(entries: &Entries, key: u32) -> Option<(RangeInclusive<u32>, u32)> {
    entries.iter().find(|e| e.0.contains(&key)).cloned()
}

/// Looks up one key twice: it finds the old or the new value, and never the old one after the new
/// one.
pub(crate) fn look_up<const KEY: u32>(tree: &Tree, before: &Entries, after: &Entries) {
    let reader = tree.read();
    let (old, new) = (at(before, KEY), at(after, KEY));
    let first = reader.get_range(KEY);
    assert!(first == old || first == new, "{first:?}");
    if first == new && old != new {
        assert_eq!(reader.get_range(KEY), new);
    }
}

/// Iterates over all entries: they are in order, those in both states appear once, and none appears
/// that is in neither.
pub(crate) fn go_through(tree: &Tree, before: &Entries, after: &Entries) {
    let reader = tree.read();
    let seen: Entries = reader.iter().collect();
    for pair in seen.windows(2) {
        assert!(pair[0].0.end() < pair[1].0.end(), "out of order: {seen:?}");
    }
    for entry in &seen {
        assert!(
            before.contains(entry) || after.contains(entry),
            "{entry:?} is in neither"
        );
    }
    for entry in before.iter().filter(|e| after.contains(e)) {
        assert_eq!(
            seen.iter().filter(|e| *e == entry).count(),
            1,
            "{entry:?} in {seen:?}"
        );
    }
}

/// Stores entries of width 2 from 0 upwards.
pub(crate) fn fill<const N: u32>(w: &mut Write<'_>) {
    for i in 0..N {
        w.insert_range(i * 2..=i * 2 + 1, i).unwrap();
    }
}

/// As `fill`, with a gap after each entry.
pub(crate) fn fill_sparse<const N: u32>(w: &mut Write<'_>) {
    for i in 0..N {
        w.insert_range(i * 4..=i * 4 + 1, i).unwrap();
    }
}
