//! Time. The local APIC's timer ticks a hundred times a second, and the time stamp counter measures
//! time. The 8254 timer calibrates both.

use core::arch::x86_64::_rdtsc;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use x86_64::instructions::port::Port;

use super::local_apic;

/// The frequency of the 8254 in Hz.
const FREQUENCY: u64 = 1_193_182;
const TICKS_A_SECOND: u64 = 100;
/// The periods of the 8254 for which the counters are calibrated: about 5 ms.
const COMPARED: u64 = 5966;

static START: AtomicU64 = AtomicU64::new(0);
/// The time stamp counter's counts in a microsecond, times 2^16.
static RATE: AtomicU64 = AtomicU64::new(0);

/// The APIC timer's counts in a tick.
static TICK: AtomicU32 = AtomicU32::new(0);

pub(in crate::arch) fn counter() -> u64 {
    // SAFETY: every processor with long mode has the counter.
    unsafe { _rdtsc() }
}

/// Calibrates the counters, and starts the ticks.
pub(super) fn start() {
    local_apic::start();
    let (mut command, mut gate) = (Port::<u8>::new(0x43), Port::<u8>::new(0x61));
    let mut counted = Port::<u8>::new(0x42);
    // SAFETY: ports of the 8254. Its third counter counts down once, and then sets bit 5 of the
    // gate's port.
    let (counts, ticks) = unsafe {
        let off = gate.read() & !3;
        gate.write(off);
        command.write(0xb0);
        counted.write(COMPARED as u8);
        counted.write((COMPARED >> 8) as u8);
        gate.write(off | 1);
        let before = (counter(), local_apic::count());
        while gate.read() & 0x20 == 0 {}
        let after = (counter(), local_apic::count());
        gate.write(off);
        (after.0 - before.0, u64::from(before.1 - after.1))
    };
    let microseconds = COMPARED * 1_000_000 / FREQUENCY;
    RATE.store((counts << 16) / microseconds, Ordering::Relaxed);
    START.store(counter(), Ordering::Relaxed);
    TICK.store((ticks * 1_000_000 / TICKS_A_SECOND / microseconds) as u32, Ordering::Relaxed);
    start_here();
}

/// Starts the ticks of this processor.
pub(super) fn start_here() {
    local_apic::start();
    local_apic::start_timer(TICK.load(Ordering::Relaxed));
}

/// Returns the nanoseconds since [`start`].
pub(in crate::arch) fn now() -> u64 {
    let counts = counter().wrapping_sub(START.load(Ordering::Relaxed));
    let rate = RATE.load(Ordering::Relaxed).max(1);
    ((u128::from(counts) << 16) * 1000 / u128::from(rate)) as u64
}

/// Returns the seconds since 1970, from the clock that keeps the time while the machine is off.
pub(in crate::arch) fn wall_clock() -> u64 {
    let (mut index, mut data) = (Port::<u8>::new(0x70), Port::<u8>::new(0x71));
    let mut read = |register: u8| {
        // SAFETY: ports of the clock.
        let value = unsafe {
            index.write(register);
            data.read()
        };
        u64::from(value >> 4) * 10 + u64::from(value & 15)
    };
    let [second, minute, hour, day, month, year] = [0, 2, 4, 7, 8, 9].map(&mut read);
    days(2000 + year, month, day) * 86_400 + hour * 3600 + minute * 60 + second
}

/// Returns the days from 1970 to a date. Its years begin in March, so that the leap day is the
/// last.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    (year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day)
        .saturating_sub(719_469)
}
