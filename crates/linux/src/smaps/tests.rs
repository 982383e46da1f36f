//! Texts of smaps, whole and damaged.

use super::*;

const ONE: &str = "\
1000-3000 rw-p 00000000 00:00 0                          [anon: a b]
Size:                  8 kB
Rss:                   8 kB
Private_Dirty:         4 kB
Anonymous:             4 kB
Shared_Hugetlb:     2048 kB
Swap:          123456789 kB
ProtectionKey:         3
VmFlags: rd wr mr mw me ac 
";

fn fails(text: &str) -> String {
    Smaps::read(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn an_area_is_read() {
    let smaps = Smaps::read(ONE.as_bytes()).unwrap();
    assert_eq!(smaps.map.name(&smaps.map.areas()[0]), b"[anon: a b]");
    let (flags, figures) = smaps.told[0];
    assert_eq!(flags.key, 3);
    assert_eq!(smaps.letters(flags).trim(), "rd wr mr mw me ac");
    assert_eq!((figures.resident, figures.dirty()), (8 << 10, 4 << 10));
    assert_eq!(figures.swapped, 123_456_789 << 10);
    assert_eq!(figures.huge(), 2 << 20);
}

/// Gives `bytes` bytes at a time.
fn slowly(text: &str, bytes: usize) -> impl BufRead {
    io::BufReader::with_capacity(bytes, text.as_bytes())
}

#[test]
fn every_cut_is_told_with_its_line() {
    let twice = format!("{ONE}{}", ONE.replace("1000-3000", "4000-6000"));
    for bytes in 1..100 {
        let smaps = Smaps::read(slowly(&twice, bytes)).unwrap();
        assert_eq!(smaps.told.len(), 2, "{bytes} bytes at a time");
        assert_eq!(smaps.told[0], smaps.told[1]);
    }
    for length in 1..ONE.len() {
        let text = &ONE[..length];
        let told = fails(text);
        // A cut behind a line is told of the line that is missing.
        let line = text.matches('\n').count() + 1;
        assert!(
            told.starts_with(&format!("line {line} of smaps ")),
            "{told}"
        );
    }
}

#[test]
fn what_makes_no_sense_is_told_with_its_line() {
    assert_eq!(
        fails("Rss:                   8 kB\n"),
        "line 1 of smaps belongs to no area"
    );
    assert_eq!(
        fails("Rss:                   0 kB\n"),
        "line 1 of smaps belongs to no area"
    );
    assert_eq!(fails("VmFlags: rd\n"), "line 1 of smaps belongs to no area");
    assert_eq!(fails("nonsense\n"), "line 1 of smaps is no line of smaps");
    let bad = ONE.replace("       4 kB", "       x kB");
    assert_eq!(
        fails(&bad),
        "line 4 of smaps has no number where one belongs"
    );
    let bad = ONE.replace("123456789", "99999999999999999999");
    assert_eq!(
        fails(&bad),
        "line 7 of smaps has no number where one belongs"
    );
    let bad = ONE.replace("123456789", "18446744073709551615");
    assert_eq!(
        fails(&bad),
        "line 7 of smaps has a number that is too large"
    );
    let twice = format!("{ONE}{ONE}");
    assert!(fails(&twice).starts_with("line 10 of smaps begins an area within"));
    let endless = "1".repeat(2 * LONGEST_LINE);
    assert_eq!(fails(&endless), "line 1 of smaps has no end");
}

#[test]
fn a_line_that_ends_where_another_should_is_none_of_it() {
    let short = ONE.replace(
        "Rss:                   8 kB\n",
        "Rss: 1\nSize:           8 kB\n",
    );
    assert_eq!(Smaps::read(short.as_bytes()).unwrap().told[0].1.resident, 0);
    let cut = ONE.replace(
        "VmFlags: rd wr mr mw me ac \n",
        "VmFlags: rd\nRss:    8 kB\n",
    );
    assert_eq!(fails(&cut), "line 10 of smaps belongs to no area");
}

#[test]
fn an_area_like_others_says_the_same() {
    let mut text = String::new();
    let (mut expected, mut state) = (Vec::new(), 1u64);
    for i in 0..500u64 {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let (kind, start) = ((state >> 33) % 7, 0x10000 + i * 0x1000);
        let body = ONE.split_once('\n').unwrap().1;
        let body = body.replace("       8 kB", &format!("{:>8} kB", kind * 4));
        text += &format!(
            "{start:x}-{:x} rw-p 00000000 00:00 0\n{body}",
            start + 0x1000
        );
        expected.push(kind * 4096);
    }
    let smaps = Smaps::read(text.as_bytes()).unwrap();
    let resident: Vec<u64> = smaps.told.iter().map(|(_, f)| f.resident).collect();
    assert_eq!(resident, expected);
    assert_eq!(Smaps::read(slowly(&text, 1)).unwrap().told, smaps.told);
    let told = fails(&format!("{text}nonsense\n"));
    assert_eq!(told, "line 4501 of smaps is no line of smaps");
}

#[test]
fn random_damage_never_panics() {
    let whole = std::fs::read("/proc/self/smaps").unwrap();
    let mut state = 1u64;
    let mut random = |limit: usize| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 33) as usize % limit
    };
    for _ in 0..2_000 {
        let mut text = whole.clone();
        for _ in 0..random(4) + 1 {
            let at = random(text.len());
            text[at] = random(256) as u8;
        }
        text.truncate(random(text.len()) + 1);
        let _ = Smaps::read(&text[..]);
    }
}

#[test]
fn the_own_one_has_the_areas_of_maps() {
    let smaps = Smaps::of(std::process::id() as Tid).unwrap();
    assert_eq!(smaps.map.areas().len(), smaps.told.len());
    assert!(smaps.told.iter().any(|(_, figures)| figures.resident > 0));
}
