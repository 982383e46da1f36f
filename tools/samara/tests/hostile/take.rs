//! The expectations of each reader, for any bytes. The fuzz targets `cli_maps`, `cli_smaps`,
//! `cli_records` and `cli_strace` use the same.

use std::io::BufReader;

use samara_cli::input::{self, Recording};

fn lines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte == b'\n').count() + 1
}

/// Text of a `/proc/PID/maps`.
pub(crate) fn maps(bytes: &[u8]) {
    if let Err(line) = input::maps(bytes) {
        assert!((1..=lines(bytes)).contains(&line));
    }
}

/// Text of a `/proc/PID/smaps`, in one piece or several.
pub(crate) fn smaps(bytes: &[u8]) {
    let whole = input::smaps(bytes);
    for capacity in [7, 64] {
        let piecewise = input::smaps(BufReader::with_capacity(capacity, bytes));
        assert_eq!(whole, piecewise);
    }
    if let Err(text) = whole {
        let line = text
            .strip_prefix("line ")
            .and_then(|rest| rest.split(' ').next())
            .and_then(|line| line.parse::<usize>().ok());
        let known = line.is_some_and(|line| (1..=lines(bytes) + 1).contains(&line));
        assert!(known, "{text}");
    }
}

/// Records of this version of the format, in a file that has them whole.
pub(crate) fn records(version: u32, bytes: &[u8]) {
    used(&input::recorded(version, bytes));
}

/// The version in the first byte, one that there is more often than not; then records.
pub(crate) fn any_records(bytes: &[u8]) {
    if let [version, bytes @ ..] = bytes {
        records(u32::from(*version % 6), bytes);
    }
}

/// A recording, or text of strace. What does not look like strace's is taken for a recording, and is none.
pub(crate) fn recording(bytes: &[u8]) {
    used(bytes);
}

/// Performs what is taken, and draws an eighth of that.
fn used(bytes: &[u8]) {
    match Recording::read(bytes) {
        Ok(recording) => {
            let _ = recording.perform(5);
            if bytes.len().is_multiple_of(8) {
                let [page, drawing] = recording.pictures();
                assert!(page.ends_with("</html>\n") && drawing.ends_with("</svg>\n"));
            }
        }
        Err(text) if text.contains("strace: line ") => {
            assert!(text.contains(", column "), "{text}")
        }
        Err(text) => assert!(text.contains(": at byte "), "{text}"),
    }
}
