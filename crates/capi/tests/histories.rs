//! Random histories through the C interface, called from Rust, so that Miri can check them.

#![allow(clippy::unwrap_used, reason = "tests")]

mod history;

use history::play;

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

/// A single test: nodes that wait for readers belong to all trees, so that only a thread that runs
/// alone can count them.
#[test]
fn random_histories() {
    let (count, length) = if cfg!(miri) { (3, 200) } else { (3000, 900) };
    for seed in 0..count {
        play(&random(seed, length));
    }
    let (count, length) = if cfg!(miri) { (1, 300) } else { (30, 60_000) };
    for seed in 0..count {
        play(&random(seed + 1_000_000, length));
    }
    if cfg!(miri) {
        return;
    }
    // The inputs that the fuzzer has kept.
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/maple_c");
    for file in corpus.read_dir().into_iter().flatten() {
        play(&std::fs::read(file.unwrap().path()).unwrap());
    }
}
