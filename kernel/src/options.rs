//! The kernel's command line: words for the kernel, then `--` and the first program with its
//! arguments.
//!
//! A byte that would end a word is written as `%` and two hexadecimal digits.

use alloc::vec::Vec;

use samara_mm::process::ForkMode;

use crate::{fs, log, process, shutdown, trace};

pub struct Options {
    /// `true` if the console passes bytes through, without the line discipline of a terminal.
    pub plain_console: bool,
    program: Vec<Vec<u8>>,
}

/// The directories that are searched for a program whose name has no slash.
const FOLDERS: [&[u8]; 4] = [b"/bin/", b"/sbin/", b"/usr/bin/", b"/usr/sbin/"];

const ENVIRONMENT: [&[u8]; 4] =
    [b"PATH=/bin:/sbin:/usr/bin:/usr/sbin", b"HOME=/", b"TERM=linux", b"PWD=/"];

const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;

impl Options {
    pub fn read(line: &[u8]) -> Self {
        let mut words = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
        let own: Vec<&[u8]> = words.by_ref().take_while(|word| *word != b"--").collect();
        let mut program: Vec<Vec<u8>> = words.map(decoded).collect();
        if program.is_empty() {
            program.push(b"sh".to_vec());
        }
        for (word, mode) in [("fork=copy", ForkMode::Copy), ("fork=share", ForkMode::Share)] {
            if own.contains(&word.as_bytes()) {
                process::set_fork_mode(mode);
            }
        }
        if own.contains(&b"trace".as_slice()) {
            trace::start(&program);
        }
        Options { plain_console: own.contains(&b"console=plain".as_slice()), program }
    }

    /// Starts the first process. If that fails, shuts the machine down with a shell's status for
    /// it.
    pub fn start(self) {
        let name = &self.program[0];
        let path = if name.contains(&b'/') {
            name.clone()
        } else {
            find(name).unwrap_or_else(|| name.clone())
        };
        let arguments: Vec<&[u8]> = self.program.iter().map(Vec::as_slice).collect();
        if let Err(error) = process::start_first(&path, &arguments, &ENVIRONMENT) {
            log!("{}: {}", name.escape_ascii(), error.description());
            let status = if error == samara_mm::Errno::ENOENT { NOT_FOUND } else { NOT_EXECUTABLE };
            shutdown::end(status << 8);
        }
    }
}

fn find(name: &[u8]) -> Option<Vec<u8>> {
    FOLDERS
        .iter()
        .map(|folder| [folder, name].concat())
        .find(|path| fs::find(&fs::root(), path, true).is_ok())
}

fn decoded(word: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let mut bytes = Vec::new();
    let mut rest = word;
    while let [first, after @ ..] = rest {
        match after {
            [high, low, after @ ..]
                if *first == b'%' && digit(*high).is_some() && digit(*low).is_some() =>
            {
                bytes.push(digit(*high).unwrap_or(0) << 4 | digit(*low).unwrap_or(0));
                rest = after;
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    // `%00` alone stands for an empty argument.
    if bytes == [0] { Vec::new() } else { bytes }
}
