//! Reads a trace, and reports the position of any damage.
//!
//! Each part is checked before the next one is read. So a file that is no trace, or that never
//! ends, is refused at its first invalid byte.

use std::fmt;
use std::fs;
use std::io::{self, BufRead, Read};
use std::path::Path;

use samara_record::{Fields, MAGIC, OLDEST, VERSION};

use super::format::{self, Memory, Record};
use super::strace;
use crate::kernel::Kernel;
use crate::quantity::number_of;

/// The reason why a file cannot be read as a trace, and its position in bytes from the start of the
/// file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) position: u64,
    pub(crate) what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "is not a complete trace: at byte {}: {}",
            self.position, self.what
        )
    }
}

fn damage<T>(position: usize, what: impl Into<String>) -> Result<T, Damage> {
    Err(Damage {
        position: position as u64,
        what: what.into(),
    })
}

/// Reports that the file ends at `position`, within `part`.
fn cut<T>(position: usize, part: &str) -> Result<T, Damage> {
    damage(position, format!("the file is cut short, {part}"))
}

/// The end of a trace whose recording was interrupted. All records before it are whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The end of the last whole chunk, in bytes from the start of the file.
    position: usize,
    /// The number of bytes behind it, of a chunk that was not written completely.
    left: usize,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "was interrupted: complete up to byte {}", self.position)?;
        if self.left > 0 {
            write!(
                f,
                ", {} behind that lost",
                number_of(self.left as u64, "byte")
            )?;
        }
        f.write_str("; up to a second of the program's last calls is missing")
    }
}

/// A trace in memory.
#[derive(Debug)]
pub struct Reader {
    /// The description from the head of the file.
    pub(crate) description: serde_json::Value,
    /// The records, in order.
    pub records: Vec<Record>,
    /// The size of the file in bytes.
    pub length: usize,
    /// `true` for the text of strace: the map with which a program starts is not known.
    pub from_strace: bool,
    /// The place where it was interrupted, if it was.
    pub cut: Option<Cut>,
}

/// A file, and the number of bytes read from it.
struct Source<R> {
    from: R,
    at: usize,
}

impl<R: Read> Source<R> {
    /// Reads the next `length` bytes, or fewer where the file ends.
    fn take(&mut self, length: usize) -> Result<Vec<u8>, Damage> {
        let mut bytes = Vec::new();
        // The length may be damaged, so memory is allocated only for bytes that exist.
        let read = (&mut self.from).take(length as u64).read_to_end(&mut bytes);
        self.at += bytes.len();
        match read {
            Ok(_) => Ok(bytes),
            Err(error) => damage(self.at, format!("reading failed: {error}")),
        }
    }

    /// Reads one little-endian word. Returns `Ok(None)` if the file ends before it, or within it.
    fn word(&mut self) -> Result<Option<u32>, Damage> {
        let bytes = self.take(4)?;
        Ok(<[u8; 4]>::try_from(bytes.as_slice())
            .ok()
            .map(u32::from_le_bytes))
    }
}

impl Reader {
    /// Reads a file (`-` for standard input) and decodes all its records. Also reads the text of
    /// strace. Of an interrupted recording it reads the whole records: see [`cut`](Self::cut).
    ///
    /// # Errors
    /// The rest of a line that begins with the file's name.
    pub fn open(path: &Path) -> Result<Self, String> {
        if path == Path::new("-") {
            return Self::either(io::stdin().lock());
        }
        let unreadable = |error| format!("cannot be read: {error}");
        let file = fs::File::open(path).map_err(unreadable)?;
        if file.metadata().map_err(unreadable)?.is_dir() {
            return Err("is a directory: name a trace in it".to_owned());
        }
        Self::either(io::BufReader::with_capacity(1 << 16, file))
    }

    /// Returns the kernel that the program ran on. For the text of strace, this is the running
    /// kernel.
    pub fn kernel(&self) -> Kernel {
        Kernel::of_record(&self.description)
    }

    /// Reads a trace, or the text of strace.
    ///
    /// # Errors
    /// The rest of a line that begins with the file's name.
    pub fn either(mut from: impl BufRead) -> Result<Self, String> {
        let head = from.fill_buf().unwrap_or_default();
        if head.starts_with(MAGIC) || !strace::looks_like(head) {
            return Self::read(from).map_err(|damage| damage.to_string());
        }
        let kernel = Kernel::running();
        let whole = strace::read(from, kernel.version).map_err(|wrong| {
            format!(
                "is not a complete text of strace: line {}, column {}: {} (`strace -f -y -e trace=memory,process -o FILE` writes a readable one)",
                wrong.line, wrong.column, wrong.what
            )
        })?;
        Ok(Self {
            description: serde_json::json!({
                "program": whole.words,
                "kernel": kernel.release,
                "kernel_version": kernel.version.to_string(),
            }),
            records: whole.records,
            length: whole.length,
            from_strace: true,
            cut: None,
        })
    }

    fn read(from: impl Read) -> Result<Self, Damage> {
        let mut source = Source { from, at: 0 };
        let magic = source.take(MAGIC.len())?;
        if !MAGIC.starts_with(&magic) {
            return damage(
                0,
                "neither recorded by `samara trace --record` nor written by `strace -f -o FILE`",
            );
        }
        let head = "within its head";
        if magic.len() < MAGIC.len() {
            return cut(source.at, head);
        }
        let version = match source.word()? {
            Some(version @ OLDEST..=VERSION) => version,
            Some(version) => {
                return damage(
                    8,
                    format!(
                        "the trace has format version {version}, this program reads {OLDEST} to {VERSION}"
                    ),
                );
            }
            None => return cut(source.at, head),
        };
        let (Some(length), Some(sum)) = (source.word()?, source.word()?) else {
            return cut(source.at, head);
        };
        let text = source.take(length as usize)?;
        if text.len() < length as usize {
            return cut(source.at, "within its description");
        }
        if crc32fast::hash(&text) != sum {
            return damage(20, "the description is damaged (check sum)");
        }
        let Ok(description) = serde_json::from_slice::<serde_json::Value>(&text) else {
            return damage(20, "the description is not JSON");
        };
        let memory = Memory {
            kernel: Kernel::of_record(&description).version,
            version,
            ..Memory::default()
        };
        let (records, cut) = records(&mut source, memory)?;
        Ok(Self {
            description,
            records,
            length: source.at,
            from_strace: false,
            cut,
        })
    }
}

/// Decodes the records behind the description. A file that ends within a chunk, or before its last
/// record, was interrupted. Everything else is damage.
fn records(
    source: &mut Source<impl Read>,
    mut memory: Memory,
) -> Result<(Vec<Record>, Option<Cut>), Damage> {
    let mut records = Vec::new();
    let mut number = 0;
    let mut ended = false;
    // The end of the last whole chunk.
    let position = loop {
        let at = source.at;
        let (Some(length), Some(sum)) = (source.word()?, source.word()?) else {
            break at;
        };
        if length == 0 {
            return damage(at, format!("chunk {number} is empty"));
        }
        let from = source.at;
        let chunk = source.take(length as usize)?;
        if chunk.len() < length as usize {
            break at;
        }
        let mut hasher = crc32fast::Hasher::new_with_initial(number);
        hasher.update(&chunk);
        if hasher.finalize() != sum {
            return damage(
                at,
                format!("chunk {number} ({length} bytes) is damaged (check sum)"),
            );
        }
        if ended {
            return damage(from, "records follow the last one");
        }
        ended = records_of_chunk(&chunk, from, &mut memory, &mut records)?;
        number += 1;
    };
    let left = source.at - position;
    if ended && left > 0 {
        return damage(position, "bytes follow the last record");
    }
    Ok((records, (!ended).then_some(Cut { position, left })))
}

/// Decodes the records of a chunk, which begins at `from` in the file. Returns `true` if it contains
/// the last record of the trace.
fn records_of_chunk(
    chunk: &[u8],
    from: usize,
    memory: &mut Memory,
    records: &mut Vec<Record>,
) -> Result<bool, Damage> {
    let mut fields = Fields {
        bytes: chunk,
        at: 0,
    };
    let mut ended = false;
    while let Some(kind) = chunk.get(fields.at) {
        let start = from + fields.at;
        if ended {
            return damage(start, "records follow the last one");
        }
        match format::record(&mut fields, memory) {
            Some(Some(record)) => {
                ended = matches!(record, Record::End { .. });
                records.push(record);
            }
            Some(None) => {}
            None => return damage(start, format!("a record of kind {kind} is invalid")),
        }
    }
    Ok(ended)
}
