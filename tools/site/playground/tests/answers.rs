//! The answers that the page reads.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use samara_playground::Play;

/// The entries that an answer names.
fn entries(answer: &str) -> Vec<(u64, u64, u16)> {
    answer
        .lines()
        .filter_map(|line| line.strip_prefix("entry "))
        .map(|line| {
            let words: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
            (words[0], words[1], words[2] as u16)
        })
        .collect()
}

/// Compares random stores and erases with an array, for each fanout, with gaps and without.
#[test]
fn answers_agree_with_an_array() {
    let mut state = 11_u64;
    let mut random = move |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for slots in [4, 8, 16] {
        for gaps in [false, true] {
            let mut play = Play::new(slots, gaps);
            let mut model = [0_u16; 200];
            let mut kinds = std::collections::BTreeSet::new();
            for step in 0..300 {
                let first = random(190);
                let last = first + random(if step % 5 == 0 { 199 - first } else { 3 });
                let value = if random(3) == 0 {
                    0
                } else {
                    1 + random(60_000) as u16
                };
                if value == 0 {
                    play.erase(first, last);
                } else {
                    play.store(first, last, value);
                }
                model[first as usize..=last as usize].fill(value);
                let said = play.said();
                assert!(said.contains("\ncheck passed\n"), "{said}");
                let mut shown = [0; 200];
                for (first, last, value) in entries(said) {
                    shown[first as usize..=last as usize].fill(value);
                }
                assert_eq!(shown, model);
                for event in said
                    .lines()
                    .filter_map(|line| line.strip_prefix("event nodes "))
                {
                    kinds.insert(event.split(' ').next().unwrap().to_owned());
                }
                let place = random(200);
                play.get(place);
                let found = model[place as usize];
                let word = if found == 0 {
                    "a hole at "
                } else {
                    &format!("found {found} at ")
                };
                assert!(play.said().starts_with(word), "{}", play.said());
            }
            for kind in ["kind=Split", "kind=Rebalance", "kind=Spanning"] {
                assert!(slots == 16 || kinds.contains(kind), "{slots}: {kinds:?}");
            }
        }
    }
}

#[test]
fn gaps_are_found_and_nonsense_is_refused() {
    let mut play = Play::new(4, true);
    play.store(10, 19, 1);
    play.store(30, 39, 2);
    play.gap(10, 100, 10, false);
    assert!(play.said().starts_with("room for 10 at 20\n"));
    play.gap(10, 35, 11, false);
    assert!(play.said().starts_with("no room for 11\n"));
    play.gap(0, 100, 10, true);
    assert!(play.said().starts_with("room for 10 at 91\n"));
    play.gap(5, 4, 1, true);
    assert!(play.said().starts_with("nothing to search for\n"));
    play.store(5, 4, 1);
    assert!(play.said().starts_with("the range is empty"));
    play.store(0, u64::MAX, 7);
    assert!(play.said().contains("\nentry 0 18446744073709551615 7\n"));
}
