//! What may be sent to other threads and shared with them, and what may not: values, allocators and locks that are for one thread keep the
//! maps, readers, writers, cursors and iterators over them there.

// Its values, `u32` in place, fit 64-bit machines only.
use std::alloc::Layout;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

use maple_tree::alloc::{Counted, Global, NodeAlloc, Pool, SharedPool};
use maple_tree::{
    ArcRef, Cursor, CursorMut, Holes, Iter, IterMut, MapleTree, Native, Reader, SyncMapleTree,
    Waiting, Writer,
};

/// Whether a type has a trait: an inherent constant goes before one of a trait, where its bounds are met.
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
struct Bound;

// SAFETY: never used.
unsafe impl lock_api::RawMutex for Bound {
    const INIT: Self = Bound;
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

#[test]
fn readers_and_writers() {
    assert_eq!(both!(Reader<'static, u64, u16, Waiting>), (true, true));
    assert!(has!(Send, Writer<'static, u64, u16, Waiting>));
    // Whoever took such a lock releases it.
    assert!(!has!(
        Send,
        Writer<'static, u64, u16, Waiting, SharedPool, Bound>
    ));
    assert_eq!(both!(Shared<u16, SharedPool, Bound>), (true, true));
}
