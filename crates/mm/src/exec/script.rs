//! Scripts: files that name their interpreter in the first line (`execve(2)`, "Interpreter scripts").

use crate::errno::Errno;

/// Bytes of a file that are looked at.
pub(super) const HEAD: usize = 256;
/// The most times that one file may name another.
pub(super) const DEPTH: u32 = 5;

/// The first line of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Script<'a> {
    pub(super) interpreter: &'a [u8],
    /// All that follows the path, as one argument.
    pub(super) argument: Option<&'a [u8]>,
}

impl<'a> Script<'a> {
    /// Reads the first line. `None` if the file does not begin with `#!`.
    ///
    /// `head` is the start of the file, [`HEAD`] bytes of it unless the file is shorter.
    ///
    /// # Errors
    /// `ENOEXEC` if no path follows, or not the whole of one.
    pub(super) fn read(head: &'a [u8]) -> Result<Option<Self>, Errno> {
        let Some(rest) = head.strip_prefix(b"#!") else {
            return Ok(None);
        };
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let ended = rest.iter().position(|&byte| byte == b'\n');
        // Behind the end of a short file the kernel sees zero bytes.
        let cut = ended.is_none() && head.len() >= HEAD;
        let line = &rest[..ended.unwrap_or(rest.len() - usize::from(cut))];
        let start = line.iter().position(|byte| !is_blank(byte));
        let line = &line[start.unwrap_or(line.len())..];
        let is_end = |byte: &u8| is_blank(byte) || *byte == 0;
        let path_end = line.iter().position(is_end);
        if cut && path_end.is_none() && !head.last().is_some_and(is_end) {
            // The path may go on beyond the bytes that were read.
            return Err(Errno::ENOEXEC);
        }
        let (path, rest) = line.split_at(path_end.unwrap_or(line.len()));
        if path.is_empty() && (cut || ended.is_some()) {
            return Err(Errno::ENOEXEC);
        }
        let rest = match rest.first() {
            Some(0) | None => &[],
            Some(_) => rest,
        };
        let start = rest.iter().position(|byte| !is_blank(byte));
        let argument = start.map(|start| {
            let text = &rest[start..];
            let text = &text[..text.iter().position(|&b| b == 0).unwrap_or(text.len())];
            let end = text.iter().rposition(|byte| !is_blank(byte));
            &text[..end.map_or(0, |end| end + 1)]
        });
        Ok(Some(Script {
            interpreter: path,
            argument: argument.filter(|text| !text.is_empty()),
        }))
    }
}
