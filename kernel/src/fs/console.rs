//! The console: a terminal, or a plain stream of bytes if standard input of `cargo xtask kernel` is
//! no terminal.
//!
//! A plain stream has no end of input by itself, so byte 16 is an escape. Byte 16 twice stands for
//! that byte, and byte 16 with `e` for the end of input.

use alloc::collections::VecDeque;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use linux_raw_sys::general::{
    B38400, CREAD, CS8, ECHO, ECHOCTL, ECHOE, ECHOK, ECHOKE, ICANON, ICRNL, IEXTEN, ISIG, ONLCR,
    OPOST, VEOF, VERASE, VINTR, VKILL, VMIN, VQUIT, VSTART, VSTOP, VSUSP, termios,
};
use samara_mm::Errno;
use spin::Mutex;

use super::open_file::Transfer;
use crate::arch::{Arch, Machine};
use crate::process::signals::{self, SigInfo};
use crate::process::wait::WaitQueue;

pub struct Console {
    state: Mutex<State>,
    changed: WaitQueue,
    /// `true` for a plain stream of bytes, without a line discipline.
    plain: AtomicBool,
    /// The foreground process group, which gets the signals of the keyboard.
    pub pgid: AtomicI32,
    pub sid: AtomicI32,
}

struct State {
    /// The bytes that can be read.
    bytes: VecDeque<u8>,
    /// The line that is being edited.
    line: VecDeque<u8>,
    /// The lengths of the complete lines in `bytes`. An end of input is a line of length 0.
    lines: VecDeque<usize>,
    settings: termios,
    escaped: bool,
    ended: bool,
    size: [u8; 8],
}

/// The settings of a new terminal: canonical mode, echo, and characters for signals.
const SETTINGS: termios = {
    let mut characters = [0; 19];
    characters[VINTR as usize] = 3;
    characters[VQUIT as usize] = 28;
    characters[VERASE as usize] = 127;
    characters[VKILL as usize] = 21;
    characters[VEOF as usize] = 4;
    characters[VMIN as usize] = 1;
    characters[VSTART as usize] = 17;
    characters[VSTOP as usize] = 19;
    characters[VSUSP as usize] = 26;
    termios {
        c_iflag: ICRNL,
        c_oflag: OPOST | ONLCR,
        c_cflag: B38400 | CS8 | CREAD,
        c_lflag: ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | IEXTEN,
        c_line: 0,
        c_cc: characters,
    }
};

static CONSOLE: Console = Console {
    state: Mutex::new(State {
        bytes: VecDeque::new(),
        line: VecDeque::new(),
        lines: VecDeque::new(),
        settings: SETTINGS,
        escaped: false,
        ended: false,
        size: [24, 0, 80, 0, 0, 0, 0, 0],
    }),
    changed: WaitQueue::new(),
    plain: AtomicBool::new(false),
    pgid: AtomicI32::new(0),
    sid: AtomicI32::new(0),
};

pub fn get() -> &'static Console {
    &CONSOLE
}

/// Takes the bytes that the device has received, and wakes the threads that wait for them.
pub fn poll() {
    static POLLING: Mutex<()> = Mutex::new(());
    // One processor polls at a time, so that bytes stay in order. It also takes the bytes that come
    // during the loop.
    let Some(_alone) = POLLING.try_lock() else { return };
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

    pub fn queue(&self) -> &WaitQueue {
        &self.changed
    }

    pub fn settings(&self) -> termios {
        self.state.lock().settings
    }

    pub fn set_settings(&self, settings: termios) {
        let mut state = self.state.lock();
        if settings.c_lflag & ICANON == 0 {
            // The line that is being edited can be read at once.
            let line = core::mem::take(&mut state.line);
            state.bytes.extend(line);
            state.lines.clear();
        } else if state.settings.c_lflag & ICANON == 0 && !state.bytes.is_empty() {
            // The unread bytes become a line.
            let len = state.bytes.len();
            state.lines.push_back(len);
        }
        state.settings = settings;
        drop(state);
        self.changed.wake();
    }

    /// Returns the `struct winsize`.
    pub fn size(&self) -> [u8; 8] {
        self.state.lock().size
    }

    pub fn set_size(&self, size: [u8; 8]) {
        self.state.lock().size = size;
    }

    /// Discards unread input.
    pub fn flush_input(&self) {
        let mut state = self.state.lock();
        state.bytes.clear();
        state.line.clear();
        state.lines.clear();
    }

    /// Returns the number of bytes that can be read.
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
        let byte = if byte == b'\r' && settings.c_iflag & ICRNL != 0 { b'\n' } else { byte };
        let is = |which: u32| byte != 0 && byte == settings.c_cc[which as usize];
        if settings.c_lflag & ISIG != 0 {
            let signal = match () {
                () if is(VINTR) => signals::SIGINT,
                () if is(VQUIT) => signals::SIGQUIT,
                () if is(VSUSP) => signals::SIGTSTP,
                () => 0,
            };
            if signal != 0 {
                state.line.clear();
                if settings.c_lflag & ECHO != 0 {
                    Arch::console_write(&[b'^', byte + 64, b'\n']);
                }
                let group = self.pgid.load(Ordering::Relaxed);
                if group > 0 {
                    signals::send_to_group(group, &SigInfo::kernel(signal));
                }
                return;
            }
        }
        let echo = |bytes: &[u8]| {
            if settings.c_lflag & ECHO != 0 {
                Arch::console_write(bytes);
            }
        };
        if settings.c_lflag & ICANON == 0 {
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
        let canonical = self.is_terminal() && state.settings.c_lflag & ICANON != 0;
        let available = if canonical {
            let Some(&line) = state.lines.front() else {
                return Ok(Transfer::WouldBlock);
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
            && (!self.is_terminal() || state.settings.c_cc[VMIN as usize] > 0)
        {
            return Ok(Transfer::WouldBlock);
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

    pub(super) fn has_input(&self) -> bool {
        let state = self.state.lock();
        let canonical = self.is_terminal() && state.settings.c_lflag & ICANON != 0;
        if canonical { !state.lines.is_empty() } else { !state.bytes.is_empty() || state.ended }
    }
}

impl State {
    fn end_line(&mut self) {
        self.lines.push_back(self.line.len());
        self.bytes.append(&mut self.line);
    }
}
