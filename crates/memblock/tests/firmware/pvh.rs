//! The start info of PVH boot.

use samara_memblock::firmware::pvh::StartInfo;
use samara_memblock::firmware::{Problem, Use};

/// Returns memory as a loader writes it: the structure at 64, then two modules, the map and the
/// command line.
fn memory() -> Vec<u8> {
    let mut memory = vec![0; 512];
    let mut put = |at: usize, bytes: &[u8]| memory[at..at + bytes.len()].copy_from_slice(bytes);
    for (at, half) in [(64, 0x336e_c578), (68, 1), (76, 2), (112, 2)] {
        put(at, &u32::to_le_bytes(half));
    }
    for (at, word) in [
        (80, 200),
        (88, 300),
        (104, 400),
        (200, 0x10_0000),
        (208, 0x3000),
        (232, 0x20_0000),
        (240, 0x1000),
        (400, 0),
        (408, 0x9_fc00),
        (424, 0x9_fc00),
        (432, 0x400),
    ] {
        put(at, &u64::to_le_bytes(word));
    }
    put(416, &[1]);
    put(440, &[2]);
    put(300, b"quiet -- /init\0rest");
    memory
}

fn read(memory: &[u8]) -> Result<StartInfo<'_>, Problem> {
    StartInfo::read(64, |at, len| {
        let start = usize::try_from(at).ok()?;
        memory.get(start..start.checked_add(len)?)
    })
}

#[test]
fn start_info_is_read() {
    let memory = memory();
    let info = read(&memory).unwrap();
    assert_eq!(info.command_line(), b"quiet -- /init");
    assert_eq!(info.initrd(), Some(0x10_0000..0x10_3000));
    let entries: Vec<_> = info.entries().map(Result::unwrap).collect();
    let shown = entries
        .iter()
        .map(|entry| (entry.base, entry.size, entry.usage));
    let expected = [(0, 0x9_fc00, Use::Ram), (0x9_fc00, 0x400, Use::Hole)];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
}

#[test]
fn corrupt_start_info_is_refused_or_harmless() {
    let whole = memory();
    for len in 0..whole.len() {
        let _ = read(&whole[..len]);
    }
    for at in 64..whole.len() {
        for byte in [0, 1, 0x7f, 0xff] {
            let mut memory = whole.clone();
            memory[at] = byte;
            if let Ok(info) = read(&memory) {
                assert!(info.entries().count() < 200);
                assert!(info.command_line().len() <= 4096);
            }
        }
    }
    let mut old = whole.clone();
    old[68] = 0;
    assert_eq!(read(&old).unwrap_err(), Problem::Malformed);
    let mut endless = whole;
    endless.truncate(300);
    endless.resize(10_000, b'x');
    endless[112..116].fill(0);
    assert_eq!(read(&endless).unwrap().command_line().len(), 4096);
}
