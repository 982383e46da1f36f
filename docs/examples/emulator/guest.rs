//! The guest: a static program for RV64IMA with two threads and no library.
//!
//! `rustc --edition 2024 --target riscv64imac-unknown-none-elf -O -C target-feature=-c,-zca -C panic=abort -C relocation-model=static
//! -C link-arg=--image-base=0x10000 -C strip=symbols guest.rs -o guest.elf`
//!
//! The first thread gives a page new contents repeatedly, by each of five calls. The second thread loads
//! from it at the same time. Either exits with 1 if it ever loads stale contents.
#![no_std]
#![no_main]

use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicU64, Ordering};

const PAGE: u64 = 4096;
/// The page, and another one after it.
const AT: u64 = 0x2000_0000;

/// Contents up to this number are stale.
static GONE: AtomicU64 = AtomicU64::new(0);
/// Loads of the second thread.
static LOADS: AtomicU64 = AtomicU64::new(0);
static mut STACK: [u64; 512] = [0; 512];

global_asm!(".option norvc", ".balign 4", ".globl _start", "_start:", "mv a0, sp", "andi sp, sp, -16", "call main");

fn call(number: u64, a: [u64; 6]) -> i64 {
    let mut result = a[0];
    // SAFETY: a system call changes no other register.
    unsafe {
        asm!("ecall", inlateout("a0") result, in("a1") a[1], in("a2") a[2], in("a3") a[3], in("a4") a[4],
            in("a5") a[5], in("a7") number);
    }
    result as i64
}

fn exit(code: u64) -> ! {
    call(94, [code, 0, 0, 0, 0, 0]);
    loop {}
}

/// Maps two pages over the existing ones.
fn map() {
    if call(222, [AT, 2 * PAGE, 3, 0x32, u64::MAX, 0]) != AT as i64 {
        exit(2);
    }
}

fn word(at: u64) -> &'static AtomicU64 {
    // SAFETY: mapped, and used by atomic instructions only.
    unsafe { &*(at as *const AtomicU64) }
}

fn second() -> ! {
    loop {
        let before = GONE.load(Ordering::Acquire);
        let found = word(AT + 8).load(Ordering::Relaxed);
        if found != 0 && found <= before {
            exit(1);
        }
        LOADS.fetch_add(1, Ordering::Relaxed);
    }
}

#[unsafe(no_mangle)]
extern "C" fn main(stack: *const u64) -> ! {
    // SAFETY: the number of arguments, and the first of them in digits.
    let (count, mut digits) = unsafe { (*stack, *stack.add(2) as *const u8) };
    let mut rounds = 0;
    // SAFETY: a string with a zero at its end.
    while count > 1 && unsafe { *digits } != 0 {
        // SAFETY: the string has a zero at its end, as above.
        unsafe {
            rounds = rounds * 10 + u64::from(*digits - b'0');
            digits = digits.add(1);
        }
    }
    map();
    // SAFETY: only one thread uses it.
    let top = unsafe { (&raw mut STACK).add(1) as u64 };
    // CLONE_VM, FS, FILES, SIGHAND and THREAD: the child begins at a call on its own stack.
    // SAFETY: the child does not return.
    unsafe {
        asm!("ecall", "bnez a0, 1f", "jalr s2", "1:", inlateout("a0") 0x10f00_u64 => _, in("a1") top, in("a7") 220,
            in("s2") second as extern "Rust" fn() -> !);
    }
    for round in 1..=rounds {
        word(AT + 8).store(round, Ordering::Relaxed);
        match round % 5 {
            0 => map(),
            // Discarded.
            1 => _ = call(233, [AT, 2 * PAGE, 4, 0, 0, 0]),
            // Protected, and mapped again.
            2 => {
                let _ = call(226, [AT, PAGE, 1, 0, 0, 0]);
                map();
            }
            // A child shares the pages for a moment, and the next store copies one.
            3 => {
                let _ = call(220, [17, 0, 0, 0, 0, 0]);
                word(AT + 8).store(0, Ordering::Relaxed);
            }
            _ => {
                let _ = call(226, [AT, PAGE, 1, 0, 0, 0]);
                let _ = call(226, [AT, PAGE, 3, 0, 0, 0]);
                word(AT + 8).store(0, Ordering::Relaxed);
            }
        }
        if word(AT + 8).load(Ordering::Relaxed) != 0 {
            exit(1);
        }
        // The other page gets this page's old frame. A stale translation then loads the first round's contents.
        word(AT + PAGE + 8).store(1, Ordering::Relaxed);
        GONE.store(round, Ordering::Release);
    }
    let text = b"no stale byte\n";
    call(64, [1, text.as_ptr() as u64, text.len() as u64, 0, 0, 0]);
    exit(if LOADS.load(Ordering::Relaxed) > 0 { 0 } else { 3 })
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit(4)
}
