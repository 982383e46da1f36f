//! The console: a terminal, or plain streams of bytes where standard input of the command that boots the machine is no terminal.
//!
//! As plain streams, input has no end of its own: byte 16 announces one. Byte 16 followed by itself is that byte, followed by `e` it is the end.

use alloc::collections::VecDeque;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use samara_mm::Errno;
use spin::Mutex;

use super::open::Transfer;
use crate::arch::{Arch, Machine};
use crate::process::signals::{self, Info};
use crate::process::wait::Queue;

pub struct Console {
    state: Mutex<State>,
    changed: Queue,
    /// Nothing but bytes, without a terminal's habits.
    plain: AtomicBool,
    /// The group of processes that signals of the keyboard go to.
    pub group: AtomicI32,
    pub session: AtomicI32,
}

struct State {
    /// What can be read.
    bytes: VecDeque<u8>,
    /// The line that is being typed.
    line: VecDeque<u8>,
    /// Lines that are complete, as their ends in `bytes`; an end of input is a line without bytes.
    lines: VecDeque<usize>,
    settings: Settings,
    escaped: bool,
    ended: bool,
    size: [u8; 8],
}

/// `struct termios` of `ioctl_tty(2)`.
#[derive(Clone, Copy)]
pub struct Settings(pub [u8; 36]);

const INPUT: usize = 0;
const LOCAL: usize = 12;
const CHARACTERS: usize = 17;
const ICRNL: u32 = 0o400;
const ISIG: u32 = 1;
const ICANON: u32 = 2;
const ECHO: u32 = 0o10;

/// Places of control characters.
const VINTR: usize = 0;
const VQUIT: usize = 1;
const VERASE: usize = 2;
const VKILL: usize = 3;
const VEOF: usize = 4;
const VMIN: usize = 6;
const VSUSP: usize = 10;

impl Settings {
    const fn new() -> Self {
        let mut bytes = [0; 36];
        // ICRNL; OPOST and ONLCR; 38,400 baud, 8 bits, receiver on; ISIG, ICANON, ECHO and the ways of erasing.
        let words: [u32; 4] = [0o400, 5, 0o277, 0o105_073];
        let mut i = 0;
        while i < 4 {
            let word = words[i].to_le_bytes();
            let mut j = 0;
            while j < 4 {
                bytes[4 * i + j] = word[j];
                j += 1;
            }
            i += 1;
        }
        let characters: [u8; 11] = [3, 28, 127, 21, 4, 0, 1, 0, 17, 19, 26];
        let mut i = 0;
        while i < characters.len() {
            bytes[CHARACTERS + i] = characters[i];
            i += 1;
        }
        Settings(bytes)
    }

    fn has(&self, field: usize, flag: u32) -> bool {
        u32::from_le_bytes(core::array::from_fn(|i| self.0[field + i])) & flag != 0
    }

    fn character(&self, which: usize) -> u8 {
        self.0[CHARACTERS + which]
    }
}

static CONSOLE: Console = Console {
    state: Mutex::new(State {
        bytes: VecDeque::new(),
        line: VecDeque::new(),
        lines: VecDeque::new(),
        settings: Settings::new(),
        escaped: false,
        ended: false,
        size: [24, 0, 80, 0, 0, 0, 0, 0],
    }),
    changed: Queue::new(),
    plain: AtomicBool::new(false),
    group: AtomicI32::new(0),
    session: AtomicI32::new(0),
};

pub fn get() -> &'static Console {
    &CONSOLE
}

/// Takes what has come from the device, and wakes those who wait for it.
pub fn poll() {
    static TAKING: Mutex<()> = Mutex::new(());
    // One processor at a time, so that bytes stay in order. Others leave it what comes meanwhile.
    let Some(_alone) = TAKING.try_lock() else { return };
    let mut came = false;
    while let Some(byte) = Arch::console_read() {
        CONSOLE.take(byte);
        came = true;
    }
    if came {
        CONSOLE.changed.wake();
    }
}

impl Console {
    pub fn set_plain(&self) {
        self.plain.store(true, Ordering::Relaxed);
    }

    pub fn is_terminal(&self) -> bool {
        !self.plain.load(Ordering::Relaxed)
    }

    pub fn queue(&self) -> &Queue {
        &self.changed
    }

    pub fn settings(&self) -> Settings {
        self.state.lock().settings
    }

    pub fn set_settings(&self, settings: Settings) {
        let mut state = self.state.lock();
        if !settings.has(LOCAL, ICANON) {
            // What was typed so far can be read at once.
            let line = core::mem::take(&mut state.line);
            state.bytes.extend(line);
            state.lines.clear();
        } else if !state.settings.has(LOCAL, ICANON) && !state.bytes.is_empty() {
            // What was not read yet counts as a line.
            let len = state.bytes.len();
            state.lines.push_back(len);
        }
        state.settings = settings;
        drop(state);
        self.changed.wake();
    }

    /// `struct winsize`.
    pub fn size(&self) -> [u8; 8] {
        self.state.lock().size
    }

    pub fn set_size(&self, size: [u8; 8]) {
        self.state.lock().size = size;
    }

    /// Drops what was not read.
    pub fn flush_input(&self) {
        let mut state = self.state.lock();
        state.bytes.clear();
        state.line.clear();
        state.lines.clear();
    }

    /// Bytes that can be read.
    pub fn available(&self) -> usize {
        self.state.lock().bytes.len()
    }

    fn take(&self, byte: u8) {
        if self.is_terminal() {
            return self.typed(byte);
        }
        let state = &mut *self.state.lock();
        match (core::mem::take(&mut state.escaped), byte) {
            (false, 16) => state.escaped = true,
            (true, b'e') => state.ended = true,
            _ => state.bytes.push_back(byte),
        }
    }

    fn typed(&self, byte: u8) {
        let state = &mut *self.state.lock();
        let settings = state.settings;
        let byte = if byte == b'\r' && settings.has(INPUT, ICRNL) { b'\n' } else { byte };
        let is = |which: usize| byte != 0 && byte == settings.character(which);
        if settings.has(LOCAL, ISIG) {
            let signal = match () {
                () if is(VINTR) => signals::SIGINT,
                () if is(VQUIT) => signals::SIGQUIT,
                () if is(VSUSP) => signals::SIGTSTP,
                () => 0,
            };
            if signal != 0 {
                state.line.clear();
                if settings.has(LOCAL, ECHO) {
                    Arch::console_write(&[b'^', byte + 64, b'\n']);
                }
                let group = self.group.load(Ordering::Relaxed);
                if group > 0 {
                    signals::send_to_group(group, &Info::kernel(signal));
                }
                return;
            }
        }
        let echo = |bytes: &[u8]| {
            if settings.has(LOCAL, ECHO) {
                Arch::console_write(bytes);
            }
        };
        if !settings.has(LOCAL, ICANON) {
            state.bytes.push_back(byte);
            echo(&[byte]);
            return;
        }
        if is(VERASE) {
            if state.line.pop_back().is_some() {
                echo(b"\x08 \x08");
            }
        } else if is(VKILL) {
            while state.line.pop_back().is_some() {
                echo(b"\x08 \x08");
            }
        } else if is(VEOF) {
            state.end_line();
        } else {
            state.line.push_back(byte);
            echo(&[byte]);
            if byte == b'\n' {
                state.end_line();
            }
        }
    }

    pub(super) fn read(&self, into: &mut [u8]) -> Result<Transfer, Errno> {
        let state = &mut *self.state.lock();
        let canonical = self.is_terminal() && state.settings.has(LOCAL, ICANON);
        let available = if canonical {
            let Some(&line) = state.lines.front() else {
                return Ok(Transfer::Wait);
            };
            line
        } else {
            state.bytes.len()
        };
        let done = available.min(into.len());
        if done == 0
            && !into.is_empty()
            && !canonical
            && !state.ended
            && (self.plain() || state.settings.character(VMIN) > 0)
        {
            return Ok(Transfer::Wait);
        }
        for (to, byte) in into.iter_mut().zip(state.bytes.drain(..done)) {
            *to = byte;
        }
        if canonical {
            if done == available {
                state.lines.pop_front();
            } else if let Some(line) = state.lines.front_mut() {
                *line -= done;
            }
        }
        Ok(Transfer::Done(done))
    }

    fn plain(&self) -> bool {
        !self.is_terminal()
    }

    pub(super) fn has_input(&self) -> bool {
        let state = self.state.lock();
        let canonical = self.is_terminal() && state.settings.has(LOCAL, ICANON);
        if canonical { !state.lines.is_empty() } else { !state.bytes.is_empty() || state.ended }
    }
}

impl State {
    fn end_line(&mut self) {
        self.lines.push_back(self.line.len());
        self.bytes.append(&mut self.line);
    }
}
