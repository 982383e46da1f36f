//! Reading a trace, with the position of whatever is wrong in it.

use std::fmt;
use std::fs;
use std::io::Read;
use std::path::Path;

use super::fields::Fields;
use super::format::{self, MAGIC, Memory, Record, VERSION};

/// A file that cannot be read as a trace: where in it, in bytes from its start, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) position: u64,
    pub(crate) what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.position, self.what)
    }
}

fn damage<T>(position: usize, what: impl Into<String>) -> Result<T, Damage> {
    Err(Damage {
        position: position as u64,
        what: what.into(),
    })
}

/// A trace in memory.
#[derive(Debug)]
pub(crate) struct Reader {
    bytes: Vec<u8>,
    /// The description from the head of the file.
    pub(crate) description: serde_json::Value,
    body: usize,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

impl Reader {
    /// Reads a file and looks at its head.
    pub(crate) fn open(path: &Path) -> Result<Self, Damage> {
        let mut bytes = Vec::new();
        let read = fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
        if let Err(error) = read {
            return damage(bytes.len(), format!("the file cannot be read: {error}"));
        }
        Self::new(bytes)
    }

    fn new(bytes: Vec<u8>) -> Result<Self, Damage> {
        if !bytes.starts_with(MAGIC) {
            return damage(0, "not a trace recorded by `samara trace --record`");
        }
        match word(&bytes, 8) {
            Some(VERSION) => {}
            Some(version) => {
                return damage(
                    8,
                    format!("the trace has format version {version}, this program reads {VERSION}"),
                );
            }
            None => return damage(8, "the file ends within its head"),
        }
        let (Some(length), Some(sum)) = (word(&bytes, 12), word(&bytes, 16)) else {
            return damage(bytes.len(), "the file ends within its head");
        };
        let body = 20 + length as usize;
        let Some(text) = bytes.get(20..body) else {
            return damage(bytes.len(), "the file ends within its description");
        };
        if crc32fast::hash(text) != sum {
            return damage(20, "the description is damaged (check sum)");
        }
        let Ok(description) = serde_json::from_slice(text) else {
            return damage(20, "the description is not JSON");
        };
        Ok(Self {
            bytes,
            description,
            body,
        })
    }

    /// Size of the file in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Decodes all records.
    pub(crate) fn records(&self) -> Result<Vec<Record>, Damage> {
        let mut records = Vec::new();
        let mut memory = Memory::default();
        let mut at = self.body;
        let mut number = 0;
        let mut ended = false;
        while at < self.bytes.len() {
            let (Some(length), Some(sum)) = (word(&self.bytes, at), word(&self.bytes, at + 4))
            else {
                return damage(at, "the file is cut short within the head of a chunk");
            };
            let from = at + 8;
            let Some(chunk) = self.bytes.get(from..from.saturating_add(length as usize)) else {
                return damage(
                    at,
                    format!(
                        "the file is cut short: a chunk of {length} bytes starts here and {} are left",
                        self.bytes.len() - from
                    ),
                );
            };
            let mut hasher = crc32fast::Hasher::new_with_initial(number);
            hasher.update(chunk);
            if hasher.finalize() != sum {
                return damage(
                    at,
                    format!("chunk {number} ({length} bytes) is damaged (check sum)"),
                );
            }
            let mut fields = Fields {
                bytes: chunk,
                at: 0,
            };
            while fields.at < chunk.len() {
                let start = fields.at;
                if ended {
                    return damage(from + start, "records follow the last one");
                }
                match format::record(&mut fields, &mut memory) {
                    Some(Some(record)) => {
                        ended = matches!(record, Record::End { .. });
                        records.push(record);
                    }
                    Some(None) => {}
                    None => {
                        return damage(
                            from + start,
                            format!(
                                "a record of kind {} makes no sense",
                                chunk.get(start).copied().unwrap_or(0)
                            ),
                        );
                    }
                }
            }
            at = from + chunk.len();
            number += 1;
        }
        if !ended {
            return damage(
                at,
                "the file is cut short: its last record is missing (was the recording interrupted?)",
            );
        }
        Ok(records)
    }
}
