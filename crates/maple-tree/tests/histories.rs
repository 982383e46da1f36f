//! Random histories, and those that the fuzzer has kept.

// The numbers in its maps are too wide to be stored in place on smaller machines.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod history;

use std::path::Path;

fn random(seed: u64, length: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..length)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 56) as u8
        })
        .collect()
}

/// Plays random bytes, and every file of the fuzz target's corpus.
fn replay(name: &str, play: fn(&[u8])) {
    let (count, length) = match () {
        () if cfg!(miri) => (1, 80),
        () if cfg!(sanitized) => (60, 900),
        () => (600, 900),
    };
    for seed in 0..count {
        play(&random(seed, length));
    }
    if cfg!(miri) {
        return;
    }
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(name);
    // The package may be tested apart from its repository.
    for file in corpus.read_dir().into_iter().flatten() {
        play(&std::fs::read(file.unwrap().path()).unwrap());
    }
}

#[test]
fn maple_map() {
    replay("maple_map", history::map::play);
}

#[test]
fn maple_sync() {
    replay("maple_sync", history::sync::play);
}

#[test]
fn maple_cursor() {
    replay("maple_cursor", history::cursor::play);
}

#[test]
fn maple_snap() {
    replay("maple_snap", history::snap::play);
}
