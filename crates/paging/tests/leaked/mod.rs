//! Memory that is never freed.

use std::mem::MaybeUninit;
use std::sync::Mutex;

/// Returns `size` bytes of this value, which are never freed. A leak checker still finds them.
pub(crate) fn leaked(size: usize, value: u8) -> &'static mut [MaybeUninit<u8>] {
    static ALL: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    let memory = Box::leak(vec![MaybeUninit::new(value); size].into_boxed_slice());
    ALL.lock().unwrap().push(memory.as_ptr().addr());
    memory
}
