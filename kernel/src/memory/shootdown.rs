//! TLB shootdown: a processor interrupts all others that run an address space, and waits until each
//! of them has flushed its TLB.
//!
//! A processor that waits here has interrupts on, so that two processors can wait for each other. A
//! processor that waits for a lock of the libraries has them on, too. The few places with
//! interrupts off hold no lock that a waiting processor could hold, and wait for no such lock.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use samara_paging::{Changed, Context, Invalidate};

use crate::arch::{Arch, Machine};
use crate::process::scheduler::MAX_CPUS;

/// The most ranges that samara-paging invalidates at once.
const RANGES: usize = 8;

/// A processor's request to the others. It has one request at a time, and changes it only after all
/// others have answered.
struct Request {
    /// The processors that have not answered, one bit each.
    unanswered: AtomicU64,
    len: AtomicUsize,
    ranges: [[AtomicU64; 2]; RANGES],
}

static REQUESTS: [Request; MAX_CPUS] = [const {
    Request {
        unanswered: AtomicU64::new(0),
        len: AtomicUsize::new(0),
        ranges: [const { [AtomicU64::new(0), AtomicU64::new(0)] }; RANGES],
    }
}; MAX_CPUS];

pub struct Processors;

// ANCHOR: invalidate
impl Invalidate for Processors {
    fn invalidate(&self, context: &Context, ranges: &[Range<u64>], _: Changed) {
        // The page tables have changed before this load. A processor whose bit it does not see
        // loads the root afterwards, and then walks the changed tables.
        fence(Ordering::SeqCst);
        let running = context.cpus().load(Ordering::SeqCst);
        let here = Arch::processor();
        if Arch::TLB_BROADCAST || running & 1 << here != 0 {
            ranges.iter().for_each(|range| Arch::flush_tlb(range.clone()));
        }
        let others = running & !(1 << here);
        if Arch::TLB_BROADCAST || others == 0 {
            return;
        }
        let request = &REQUESTS[here];
        request.len.store(ranges.len(), Ordering::Relaxed);
        for (slot, range) in request.ranges.iter().zip(ranges) {
            slot[0].store(range.start, Ordering::Relaxed);
            slot[1].store(range.end, Ordering::Relaxed);
        }
        request.unanswered.store(others, Ordering::Release);
        (0..MAX_CPUS).filter(|other| others & 1 << other != 0).for_each(Arch::send_ipi);
        while request.unanswered.load(Ordering::Acquire) != 0 {
            core::hint::spin_loop();
        }
    }

    fn notify_mapped(&self, context: &Context, range: Range<u64>, executable: bool) {
        Arch::notify_mapped(context, range, executable);
    }
}
// ANCHOR_END: invalidate

/// Answers the requests of the other processors, in the interrupt that [`Machine::send_ipi`] sends.
pub fn answer() {
    let here = 1 << Arch::processor();
    for request in &REQUESTS {
        if request.unanswered.load(Ordering::Acquire) & here == 0 {
            continue;
        }
        let len = request.len.load(Ordering::Relaxed);
        for [start, end] in request.ranges.iter().take(len) {
            Arch::flush_tlb(start.load(Ordering::Relaxed)..end.load(Ordering::Relaxed));
        }
        request.unanswered.fetch_and(!here, Ordering::Release);
    }
}
