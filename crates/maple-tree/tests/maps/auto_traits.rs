//! The types that may be sent to other threads and shared with them, and those that may not:
//! values, allocators and locks for one thread keep their maps, readers, writers, cursors and
//! iterators there.

// Its values, `u32` in place, fit 64-bit machines only.
use std::alloc::Layout;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::{Bound, RangeInclusive};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

use maple_tree::alloc::{Counted, Global, NodeAlloc, Pool, SharedPool};
use maple_tree::{
    ArcRef, Between, Cursor, CursorMut, Entry, ExtractIf, Holes, IntoIter, Iter, IterMut,
    MapleTree, Native, OccupiedEntry, Reader, SharedCursorMut, SyncIter, SyncMapleTree,
    VacantEntry, Values, Waiting, Writer,
};

/// Returns `true` if a type has a trait: an inherent constant takes precedence over one of a trait
/// where its bounds are met.
macro_rules! has {
    ($trait:ident, $type:ty) => {{
        #[allow(dead_code, reason = "one of the two is used")]
        trait Otherwise {
            const YES: bool = false;
        }
        struct Probe<T: ?Sized>(PhantomData<T>);
        impl<T: ?Sized> Otherwise for Probe<T> {}
        #[allow(dead_code, reason = "one of the two is used")]
        impl<T: ?Sized + $trait> Probe<T> {
            const YES: bool = true;
        }
        <Probe<$type>>::YES
    }};
}

macro_rules! both {
    ($type:ty) => {
        (has!(Send, $type), has!(Sync, $type))
    };
}

/// An allocator that counts without atomics, behind a handle that may not leave its thread.
#[derive(Clone)]
struct OneThread(Rc<Cell<usize>>);

// SAFETY: passed on to an allocator that keeps the promises.
unsafe impl NodeAlloc for OneThread {
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        self.0.set(self.0.get() + 1);
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { Global.deallocate(block, layout) }
    }
}

/// A lock that only the thread that took it may release.
struct Owned;

// SAFETY: never used.
unsafe impl lock_api::RawMutex for Owned {
    const INIT: Self = Owned;
    type GuardMarker = lock_api::GuardNoSend;

    fn lock(&self) {}

    fn try_lock(&self) -> bool {
        true
    }

    unsafe fn unlock(&self) {}
}

type Plain<V, A = Pool> = MapleTree<u64, V, A>;
type Shared<V, A = SharedPool, L = spin::Mutex<()>> = SyncMapleTree<u64, V, Waiting, A, L>;

/// May be sent, not shared.
type Unshared = Cell<u32>;

#[test]
fn maps() {
    assert_eq!(both!(Plain<u16>), (true, true));
    assert_eq!(both!(Plain<Box<u32>>), (true, true));
    assert_eq!(both!(Plain<Box<Unshared>>), (true, false));
    assert_eq!(both!(Plain<Box<Rc<u32>>>), (false, false));
    assert_eq!(both!(Plain<Arc<Unshared>>), (false, false));
    assert_eq!(both!(Plain<&'static Unshared>), (false, false));
    assert_eq!(both!(Plain<u16, OneThread>), (false, false));
    assert_eq!(both!(Plain<u16, Pool<OneThread>>), (false, false));
    assert_eq!(
        both!(Plain<u16, &'static Counted<OneThread>>),
        (false, false)
    );
    assert_eq!(both!(Plain<u16, &'static Counted<Global>>), (true, true));
    assert_eq!(both!(Plain<u16, Arc<Pool>>), (true, true));
    assert_eq!(both!(SharedPool<OneThread>), (false, false));
    assert_eq!(both!(Shared<Box<u32>>), (true, true));
    assert_eq!(both!(Shared<Arc<u32>>), (true, true));
}

#[test]
fn views_iterators_and_cursors() {
    assert!(has!(Send, Holes<'static, u64>) && has!(Sync, Holes<'static, u64>));
    assert!(!has!(Send, Iter<'static, u64, Box<Unshared>>));
    assert!(!has!(Send, IterMut<'static, u64, Box<Rc<u32>>>));
    assert!(!has!(Sync, IterMut<'static, u64, Box<Unshared>>));
    assert!(!has!(Send, Cursor<'static, u64, Box<Unshared>>));
    assert!(!has!(
        Send,
        CursorMut<'static, u64, Box<Rc<u32>>, Pool, Native>
    ));
    assert!(!has!(Send, CursorMut<'static, u64, u16, OneThread, Native>));
    assert_eq!(both!(ArcRef<'static, u32>), (true, true));
    assert_eq!(both!(ArcRef<'static, Unshared>), (false, false));
}

/// Types that clients hold across an `.await`, and types that they hand to other threads, are as
/// free as those of `BTreeMap`.
#[test]
fn handles() {
    assert_eq!(both!(Iter<'static, u64, Box<u32>>), (true, true));
    assert_eq!(both!(Iter<'static, u64, Rc<u32>>), (false, false));
    assert_eq!(both!(IterMut<'static, u64, Box<u32>>), (true, true));
    // Exclusive views of what may be sent but not shared.
    assert_eq!(both!(IterMut<'static, u64, Box<Unshared>>), (true, false));
    assert_eq!(both!(SyncIter<'static, u64, Box<u32>>), (true, true));
    assert_eq!(both!(IntoIter<u64, Box<u32>>), (true, true));
    assert_eq!(both!(Values<Iter<'static, u64, Box<u32>>>), (true, true));
    assert_eq!(both!(Cursor<'static, u64, Box<u32>>), (true, true));
    assert_eq!(
        both!(CursorMut<'static, u64, Box<u32>, Pool, Native>),
        (true, true)
    );
    assert_eq!(
        both!(CursorMut<'static, u64, Box<Unshared>, Pool, Native>),
        (true, false)
    );
    assert_eq!(both!(Entry<'static, u64, Box<u32>>), (true, true));
    assert_eq!(both!(Entry<'static, u64, Box<Unshared>>), (true, false));
    assert_eq!(both!(OccupiedEntry<'static, u64, Rc<u32>>), (false, false));
    assert_eq!(
        both!(VacantEntry<'static, u64, u16, OneThread>),
        (false, false)
    );
    type Take = fn(RangeInclusive<u64>, &mut u32) -> bool;
    assert_eq!(both!(ExtractIf<'static, u64, Box<u32>, Take>), (true, true));
    assert_eq!(
        both!(ExtractIf<'static, u64, Box<Unshared>, Take>),
        (true, false)
    );
    // What its closure has taken along may not go.
    assert_eq!(
        both!(ExtractIf<'static, u64, Box<u32>, Rc<u32>>),
        (false, false)
    );
    assert_eq!(
        both!(ExtractIf<'static, u64, u16, Take, OneThread>),
        (false, false)
    );
    // A writer whose lock may be released by any thread may be sent with its cursor. With a lock
    // that may not, it stays.
    assert!(has!(
        Send,
        SharedCursorMut<'static, 'static, u64, u16, Waiting, SharedPool, spin::Mutex<()>, Native>
    ));
    assert!(!has!(
        Send,
        SharedCursorMut<'static, 'static, u64, u16, Waiting, SharedPool, Owned, Native>
    ));
}

/// Each kind of handle in a future that must be `Send`: the compiler looks at what lives across an `.await`.
#[test]
fn held_across_await() {
    fn require<T: Send + Sync>(_: T) {}
    async fn pause() {}
    macro_rules! across {
        ($map:ident => $handle:expr) => {
            require(async {
                #[allow(unused_mut, reason = "not all need it")]
                let mut $map: MapleTree<u64, Box<u32>> = MapleTree::new();
                let _handle = $handle;
                pause().await;
            });
        };
    }
    across!(map => map.iter());
    across!(map => map.range(3..));
    across!(map => map.iter_mut());
    across!(map => map.range_mut(3..));
    across!(map => map.values());
    across!(map => map.values_mut());
    across!(map => map.ranges());
    across!(map => map.holes(..));
    across!(map => map.into_iter());
    across!(map => map.into_values());
    across!(map => map.extract_if(.., |_, _| false));
    across!(map => map.entry(1));
    across!(map => map.cursor(1..));
    across!(map => map.cursor_mut(1..));
    across!(map => map.get(1));
    across!(map => map.first_mut());
    require(async {
        let map: Shared<Box<u32>> = SyncMapleTree::new(Waiting::new());
        let reader = map.read();
        let _all = (reader.iter(), reader.cursor(..), reader.values());
        pause().await;
    });
}

/// Maps, and what reads them, may be taken for those of values that live less long, as std's.
#[test]
fn covariance() {
    #[derive(Clone, Debug, PartialEq)]
    struct Name<'a>(&'a str);
    macro_rules! shrinks {
        ($($shrink:ident: $type:ident<$($life:lifetime)?>)*) => {$(
            fn $shrink<'short, $($life)?>(
                long: $type<$($life,)? u64, Box<Name<'static>>>,
            ) -> $type<$($life,)? u64, Box<Name<'short>>> {
                long
            }
        )*};
    }
    shrinks!(map: MapleTree<> taken: IntoIter<> iter: Iter<'a> cursor: Cursor<'a> between: Between<'a>);
    let long = MapleTree::from([(0..10, Box::new(Name("static")))]);
    let name = String::from("short");
    let mut iters = [iter(long.iter())];
    let borrowed = MapleTree::from([(0..20u64, Box::new(Name(&name)))]);
    iters[0] = borrowed.iter();
    assert_eq!(iters[0].next(), Some((0..=19, &Name("short"))));
    assert!(cursor(long.cursor(..)).find(..).is_some());
    assert!(
        between(long.lower_bound(Bound::Unbounded))
            .peek_next()
            .is_some()
    );
    assert_eq!(taken(map(long).into_iter()).count(), 1);
}

#[test]
fn after_a_panic() {
    use std::panic::{RefUnwindSafe, UnwindSafe};
    assert!(has!(UnwindSafe, Plain<Box<u32>>) && has!(RefUnwindSafe, Plain<Box<u32>>));
    assert!(has!(UnwindSafe, Shared<Box<u32>>) && has!(RefUnwindSafe, Shared<Box<u32>>));
    assert!(!has!(RefUnwindSafe, Plain<Box<Unshared>>));
    // As a client would: nothing has to be asserted.
    let map: Plain<u16> = MapleTree::from([(0..10, 1)]);
    let result = std::panic::catch_unwind(|| {
        let _first = map.iter().next();
        std::panic::resume_unwind(Box::new(()))
    });
    assert!(result.is_err());
    assert_eq!(map.len(), 1);
}

/// As std's: what is only read from can be gone through twice.
#[test]
fn iterators_that_are_cloned() {
    let map: Plain<u16> = MapleTree::from([(0..10, 1), (10..20, 2), (40..50, 3)]);
    let mut iter = map.iter();
    iter.next();
    assert_eq!(iter.clone().count(), 2);
    assert_eq!(
        format!("{:?}", iter.clone()),
        "[(10..=19, 2), (40..=49, 3)]"
    );
    assert_eq!(
        map.values().cycle().take(5).collect::<Vec<_>>(),
        [1, 2, 3, 1, 2]
    );
    assert_eq!(map.holes(..).clone().count(), 2);
    let mut into = map.into_iter();
    assert_eq!(
        (into.len(), into.next().map(|e| e.1), into.len()),
        (3, Some(1), 2)
    );
    assert_eq!(
        (into.next_back().map(|e| e.1), into.size_hint()),
        (Some(3), (1, Some(1)))
    );
    let shared: Shared<u16> = SyncMapleTree::new(Waiting::new());
    shared
        .write()
        .try_extend([(0..10, 1), (10..20, 2)])
        .unwrap();
    let reader = shared.read();
    let mut iter = reader.iter();
    iter.next();
    assert_eq!(iter.clone().next(), iter.next());
}

#[test]
fn readers_and_writers() {
    assert_eq!(both!(Reader<'static, u64, u16, Waiting>), (true, true));
    assert!(has!(Send, Writer<'static, u64, u16, Waiting>));
    // The thread that took such a lock releases it.
    assert!(!has!(
        Send,
        Writer<'static, u64, u16, Waiting, SharedPool, Owned>
    ));
    assert_eq!(both!(Shared<u16, SharedPool, Owned>), (true, true));
}
