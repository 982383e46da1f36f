//! Futexes: words in the memory of programs on which threads wait (`futex(2)`).

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};

use samara_mm::{Errno, FileId, MapsLine, VmFlags};
use spin::Mutex;

use super::oom;
use super::thread::Thread;
use super::wait::{self, WaitError, WaitQueue};
use crate::memory::Memory;

/// The identity of a word, equal for all threads that reach the same word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    /// Root table and address of a word in private memory. Its frame does not identify it: the page
    /// moves to another frame when it is written after a fork.
    Private(u64, u64),
    /// File and offset of a word in a shared mapping.
    Shared(FileId, u64),
}

struct Waiter {
    /// The word. `FUTEX_REQUEUE` changes it.
    key: Mutex<Key>,
    bits: u32,
    woken: AtomicBool,
    queue: WaitQueue,
}

static WAITERS: Mutex<VecDeque<Arc<Waiter>>> = Mutex::new(VecDeque::new());

fn key(memory: &Memory, address: u64, private: bool) -> Result<Key, Errno> {
    if !address.is_multiple_of(4) {
        return Err(Errno::EINVAL);
    }
    let own = Key::Private(memory.root(), address);
    if private {
        return Ok(own);
    }
    load(memory, address)?;
    let of_file = |line: &MapsLine<'_>| {
        let is_shared = line.flags.contains(VmFlags::SHARED) && line.start <= address;
        is_shared.then(|| Key::Shared(line.id, address - line.start + line.offset))
    };
    Ok(memory.find(address, of_file).flatten().unwrap_or(own))
}

fn load(memory: &Memory, address: u64) -> Result<u32, Errno> {
    let mut bytes = [0; 4];
    match oom::copy_out(memory, address, &mut bytes) {
        4 => Ok(u32::from_le_bytes(bytes)),
        _ => Err(Errno::EFAULT),
    }
}

/// Waits until the word is woken. Returns at once if the word's value is not `expected`.
///
/// # Errors
///
/// `EAGAIN` if the value is another one; `ETIMEDOUT`, `EINTR`, `EFAULT`, `EINVAL`.
pub fn wait(
    thread: &Thread,
    address: u64,
    private: bool,
    expected: u32,
    bits: u32,
    deadline: Option<u64>,
) -> Result<(), Errno> {
    if bits == 0 {
        return Err(Errno::EINVAL);
    }
    let memory = thread.process.memory();
    let key = key(&memory, address, private)?;
    let waiter = Arc::new(Waiter {
        key: Mutex::new(key),
        bits,
        woken: AtomicBool::new(false),
        queue: WaitQueue::new(),
    });
    // Faults the page in before the lock is taken.
    load(&memory, address)?;
    {
        let mut waiters = WAITERS.lock();
        // The load is under the lock. A thread that changes the word and then wakes either takes
        // the lock later and finds this waiter, or took it earlier, and then this load sees the
        // change.
        if load(&memory, address)? != expected {
            return Err(Errno::EAGAIN);
        }
        waiters.push_back(waiter.clone());
    }
    let result = wait::until(&[&waiter.queue], deadline, || {
        waiter.woken.load(Ordering::SeqCst).then_some(())
    });
    if let Err(ended) = result {
        let mut waiters = WAITERS.lock();
        waiters.retain(|other| !Arc::ptr_eq(other, &waiter));
        if waiter.woken.load(Ordering::SeqCst) {
            return Ok(());
        }
        return Err(match ended {
            WaitError::TimedOut => Errno::ETIMEDOUT,
            WaitError::Interrupted => Errno::EINTR,
        });
    }
    Ok(())
}

/// Wakes up to `count` threads that wait on the word for one of these bits. Returns their number.
///
/// # Errors
///
/// `EFAULT`, `EINVAL`.
pub fn wake(
    memory: &Memory,
    address: u64,
    private: bool,
    count: u32,
    bits: u32,
) -> Result<u32, Errno> {
    Ok(wake_at(key(memory, address, private)?, count, bits))
}

fn wake_at(key: Key, count: u32, bits: u32) -> u32 {
    let mut woken = 0;
    WAITERS.lock().retain(|waiter| {
        let here = woken < count && waiter.bits & bits != 0 && *waiter.key.lock() == key;
        if here {
            woken += 1;
            waiter.woken.store(true, Ordering::SeqCst);
            waiter.queue.wake();
        }
        !here
    });
    woken
}

/// Wakes up to `count` threads that wait on the word `from`, and moves up to `moved` others to the
/// word `to`. Returns the number of threads woken or moved.
///
/// # Errors
///
/// `EAGAIN` if `expected` is given and `from` has another value; `EFAULT`, `EINVAL`.
pub fn requeue(
    memory: &Memory,
    from: u64,
    to: u64,
    private: bool,
    count: u32,
    moved: u32,
    expected: Option<u32>,
) -> Result<u32, Errno> {
    let (from_key, to_key) = (key(memory, from, private)?, key(memory, to, private)?);
    if expected.is_some_and(|expected| load(memory, from) != Ok(expected)) {
        return Err(Errno::EAGAIN);
    }
    let mut changed = wake_at(from_key, count, u32::MAX);
    let most = changed.saturating_add(moved);
    for waiter in WAITERS.lock().iter() {
        let mut key = waiter.key.lock();
        if changed < most && *key == from_key {
            *key = to_key;
            changed += 1;
        }
    }
    Ok(changed)
}

const FUTEX_WAITERS: u32 = 0x8000_0000;
const FUTEX_OWNER_DIED: u32 = 0x4000_0000;
const FUTEX_TID_MASK: u32 = 0x3fff_ffff;
/// The most entries of a robust list that are visited, because a list may be circular.
const ROBUST_LIST_LIMIT: usize = 2048;

/// Releases the robust futexes that an exiting thread holds, and clears the word of
/// `set_tid_address(2)`.
pub(super) fn on_thread_exit(thread: &Arc<Thread>) {
    let Some(memory) = thread.process.memory.lock().clone() else {
        return;
    };
    let head = thread.robust_list.swap(0, Ordering::Relaxed);
    if head != 0 {
        let _ = release_robust(thread.tid, &memory, head);
    }
    let at = thread.clear_tid.swap(0, Ordering::Relaxed);
    // This function, the process and the processor hold three references. If there is no other, and
    // no other thread, no thread can see the word again.
    let others =
        thread.process.live_threads.load(Ordering::SeqCst) > 1 || Arc::strong_count(&memory) > 3;
    if at != 0 && others {
        memory.copy_in(at, &[0; 4]);
        let _ = wake(&memory, at, false, 1, u32::MAX);
        let _ = wake(&memory, at, true, 1, u32::MAX);
    }
}

/// Walks a robust list (`get_robust_list(2)`). Its head holds the first entry, the distance from an
/// entry to its word, and the entry of a lock that is being taken or released.
fn release_robust(tid: i32, memory: &Memory, head: u64) -> Result<(), Errno> {
    let word = |at: u64| {
        let mut bytes = [0; 8];
        match oom::copy_out(memory, at, &mut bytes) {
            8 => Ok(u64::from_le_bytes(bytes)),
            _ => Err(Errno::EFAULT),
        }
    };
    let distance = word(head + 8)?;
    let pending = word(head + 16)? & !1;
    let mut entry = word(head)? & !1;
    for _ in 0..ROBUST_LIST_LIMIT {
        if entry == head {
            break;
        }
        if entry != pending {
            release_owned(tid, memory, entry.wrapping_add(distance))?;
        }
        entry = word(entry)? & !1;
    }
    if pending != 0 {
        release_owned(tid, memory, pending.wrapping_add(distance))?;
    }
    Ok(())
}

fn release_owned(tid: i32, memory: &Memory, address: u64) -> Result<(), Errno> {
    let change = |word: &core::sync::atomic::AtomicU32| {
        let now = word.load(Ordering::SeqCst);
        let held = now & FUTEX_TID_MASK == tid as u32;
        if held {
            word.store(now & FUTEX_WAITERS | FUTEX_OWNER_DIED, Ordering::SeqCst);
        }
        held && now & FUTEX_WAITERS != 0
    };
    if memory.atomic_u32(address, change).map_err(|_| Errno::EFAULT)? {
        wake(memory, address, false, 1, u32::MAX)?;
        wake(memory, address, true, 1, u32::MAX)?;
    }
    Ok(())
}
