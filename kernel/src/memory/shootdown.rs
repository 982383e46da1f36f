//! Making processors forget translations: each that runs the address space is interrupted, and the caller waits until all of them have answered.
//!
//! A processor that waits takes interrupts meanwhile, so that two can ask each other. Whoever waits for a lock has them on, too; the few places that have them off
//! hold no lock that somebody who asks could hold, and wait for none.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use samara_paging::{Changed, Context, Invalidate};

use crate::arch::{Arch, Machine};
use crate::process::scheduler::MAX_CPUS;

/// Ranges that samara-paging hands over at once.
const RANGES: usize = 8;

/// What a processor asks the others for. It asks for one thing at a time, and writes it anew only after all have answered.
struct Request {
    /// Processors that have not answered.
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
        // The tables have changed: a processor whose bit is not seen now finds them so.
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

    fn entered(&self, context: &Context, range: Range<u64>, executable: bool) {
        Arch::entered(context, range, executable);
    }
}
// ANCHOR_END: invalidate

/// Answers the other processors' requests: the interrupt of [`Machine::interrupt`].
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
