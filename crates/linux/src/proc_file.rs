//! Files that the kernel writes while they are read: their length cannot be asked for.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The size of most of them. The standard library would begin with 32 bytes, and double that from one
/// read to the next.
const USUAL: usize = 4096;

/// Advice for where [`ours`] returns `false`.
pub const MISSING: &str =
    "/proc is missing, or shows another PID namespace: mount it with `mount -t proc proc /proc`";

/// Returns `true` if there is a `/proc` that numbers processes as this process's namespace does.
pub fn ours() -> bool {
    let own = std::fs::read_link("/proc/self").ok();
    own.as_deref() == Some(Path::new(&std::process::id().to_string()))
}

/// Returns the whole file.
///
/// # Errors
/// Those of opening and reading.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    read_on(&mut File::open(path)?, &mut bytes)?;
    Ok(bytes)
}

/// Returns a whole long file, such as smaps: the buffer has room for that of a small program.
///
/// # Errors
/// Those of opening and reading.
pub fn read_long(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(8 * USUAL);
    read_on(&mut File::open(path)?, &mut bytes)?;
    Ok(bytes)
}

/// Returns a whole file that the kernel writes in one piece: a read that leaves room has come to
/// its end.
///
/// # Errors
/// Those of opening and reading.
pub fn read_piece(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut bytes = vec![0; USUAL];
    let filled = loop {
        match file.read(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            filled => break filled?,
        }
    };
    bytes.truncate(filled);
    if filled == USUAL {
        read_on(&mut file, &mut bytes)?;
    }
    Ok(bytes)
}

/// Returns the file of [`read_piece`] as text, as [`read_text`] makes it.
///
/// # Errors
/// Those of opening and reading.
pub fn read_text_piece(path: impl AsRef<Path>) -> io::Result<String> {
    read_piece(path).map(text)
}

/// Returns the whole file as text. What is not UTF-8 is replaced: several files hold a process's
/// name, which may have any bytes.
///
/// # Errors
/// Those of opening and reading.
pub fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    read(path).map(text)
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Appends the rest of a file to `bytes`.
///
/// # Errors
/// Those of reading.
pub fn read_on(file: &mut File, bytes: &mut Vec<u8>) -> io::Result<()> {
    bytes.reserve(USUAL);
    // A limit, so that the length is not asked for.
    file.take(u64::MAX).read_to_end(bytes).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_whatever_the_length() {
        let own = std::fs::read_to_string("/proc/self/environ").unwrap();
        assert_eq!(read_text("/proc/self/environ").unwrap(), own);
        // Longer than a page, and than one read gives.
        let smaps = read_text("/proc/self/smaps").unwrap();
        assert!(smaps.len() > USUAL && smaps.ends_with('\n'));
        assert!(smaps.contains("[stack]"));
        let long = read_long("/proc/self/smaps").unwrap();
        assert!(long.len() > USUAL && long.ends_with(b"\n"));
        for name in ["auxv", "environ", "personality", "limits"] {
            let path = format!("/proc/self/{name}");
            assert_eq!(read_piece(&path).unwrap(), read(&path).unwrap());
        }
        assert_eq!(
            read("/proc/0/maps").unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
