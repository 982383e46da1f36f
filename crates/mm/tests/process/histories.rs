//! Random bytes as histories, and those that the fuzzer has kept.

use std::path::Path;

use crate::history::{play, play_beside_walkers, play_under_kernel};

fn random(seed: u64, length: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let bytes = (0..length).map(|_| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 56) as u8
    });
    bytes.collect()
}

#[test]
fn random_bytes() {
    let (count, length) = if cfg!(miri) { (1, 60) } else { (300, 700) };
    for seed in 0..count {
        play(&random(seed, length));
    }
}

#[test]
fn random_bytes_under_a_kernel() {
    let (count, length) = if cfg!(miri) { (1, 60) } else { (150, 700) };
    for seed in 0..count {
        play_under_kernel(&random(seed, length));
    }
}

#[test]
fn random_bytes_beside_walkers() {
    let (count, length) = if cfg!(miri) { (1, 60) } else { (300, 700) };
    for seed in 0..count {
        play_beside_walkers(&random(seed, length));
    }
}

#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn corpus() {
    for target in ["mm_process", "mm_walkers"] {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../fuzz/corpus")
            .join(target);
        // The package may be tested apart from its repository.
        for file in corpus.read_dir().into_iter().flatten() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            match target {
                "mm_process" => play(&bytes),
                _ => play_beside_walkers(&bytes),
            }
        }
    }
}
