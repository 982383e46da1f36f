//! Hand-made programs.

/// A program header.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Header {
    pub(crate) kind: u32,
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) in_file: u64,
    pub(crate) in_memory: u64,
    pub(crate) flags: u32,
    pub(crate) align: u64,
}

pub(crate) const LOAD: u32 = 1;
pub(crate) const INTERP: u32 = 3;
pub(crate) const GNU_STACK: u32 = 0x6474_e551;

/// `PT_LOAD`.
pub(crate) fn load(offset: u64, address: u64, in_file: u64, in_memory: u64, flags: u32) -> Header {
    Header {
        kind: LOAD,
        offset,
        address,
        in_file,
        in_memory,
        flags,
        align: 0x1000,
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Elf {
    pub(crate) wide: bool,
    pub(crate) moves: bool,
    pub(crate) entry: u64,
    pub(crate) headers: Vec<Header>,
    pub(crate) interpreter: Option<String>,
    /// Length of the file; the header and the program headers are there in any case.
    pub(crate) length: usize,
}

impl Elf {
    /// A file of four pages.
    pub(crate) fn new(moves: bool, headers: &[Header]) -> Self {
        Elf {
            wide: true,
            moves,
            entry: 0x40_0000,
            headers: headers.to_vec(),
            interpreter: None,
            length: 0x4000,
        }
    }

    pub(crate) fn narrow(self) -> Self {
        Elf {
            wide: false,
            ..self
        }
    }

    pub(crate) fn with(self, interpreter: &str) -> Self {
        Elf {
            interpreter: Some(interpreter.into()),
            ..self
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let (header_size, entry_size) = if self.wide { (64, 56) } else { (52, 32) };
        let mut headers = self.headers.clone();
        let count = headers.len() + usize::from(self.interpreter.is_some());
        let path_at = header_size + count * entry_size;
        let mut path = Vec::new();
        if let Some(interpreter) = &self.interpreter {
            path = [interpreter.as_bytes(), &[0]].concat();
            let interp = Header {
                kind: INTERP,
                ..load(
                    path_at as u64,
                    path_at as u64,
                    path.len() as u64,
                    path.len() as u64,
                    4,
                )
            };
            headers.insert(0, interp);
        }
        let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        if !self.wide {
            bytes[4] = 1;
        }
        let half = |bytes: &mut Vec<u8>, n: usize| bytes.extend((n as u16).to_le_bytes());
        let four = |bytes: &mut Vec<u8>, n: u64| bytes.extend((n as u32).to_le_bytes());
        let wide = self.wide;
        let word = |bytes: &mut Vec<u8>, n: u64| {
            if wide {
                bytes.extend(n.to_le_bytes());
            } else {
                bytes.extend((n as u32).to_le_bytes());
            }
        };
        half(&mut bytes, if self.moves { 3 } else { 2 });
        half(&mut bytes, if wide { 62 } else { 3 });
        four(&mut bytes, 1);
        word(&mut bytes, self.entry);
        word(&mut bytes, header_size as u64);
        word(&mut bytes, 0);
        four(&mut bytes, 0);
        for n in [header_size, entry_size, headers.len(), 0, 0, 0] {
            half(&mut bytes, n);
        }
        for header in &headers {
            four(&mut bytes, header.kind.into());
            if wide {
                four(&mut bytes, header.flags.into());
            }
            word(&mut bytes, header.offset);
            word(&mut bytes, header.address);
            word(&mut bytes, header.address);
            word(&mut bytes, header.in_file);
            word(&mut bytes, header.in_memory);
            if !wide {
                four(&mut bytes, header.flags.into());
            }
            word(&mut bytes, header.align);
        }
        bytes.extend(path);
        let length = self.length.max(bytes.len());
        bytes.resize(length, 0);
        bytes
    }
}
