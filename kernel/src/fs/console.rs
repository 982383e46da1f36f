//! The console: a terminal, or plain streams of bytes where standard input of the command that boots the machine is no terminal.
//!
//! As plain streams, input has no end of its own: byte 16 announces one. Byte 16 followed by itself is that byte, followed by `e` it is the end.

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
    /// Nothing but bytes, without a terminal's habits.
    plain: AtomicBool,
    /// The group of processes that signals of the keyboard go to.
    pub pgid: AtomicI32,
    pub sid: AtomicI32,
}

struct State {
    /// What can be read.
    bytes: VecDeque<u8>,
    /// The line that is being typed.
    line: VecDeque<u8>,
    /// Lines that are complete, as their ends in `bytes`; an end of input is a line without bytes.
    lines: VecDeque<usize>,
    settings: termios,
    escaped: bool,
    ended: bool,
    size: [u8; 8],
}

/// As a terminal starts: lines are edited, what is typed is shown, and some characters are signals.
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

    pub fn queue(&self) -> &WaitQueue {
        &self.changed
    }

    pub fn settings(&self) -> termios {
        self.state.lock().settings
    }

    pub fn set_settings(&self, settings: termios) {
        let mut state = self.state.lock();
        if settings.c_lflag & ICANON == 0 {
            // What was typed so far can be read at once.
            let line = core::mem::take(&mut state.line);
            state.bytes.extend(line);
            state.lines.clear();
        } else if state.settings.c_lflag & ICANON == 0 && !state.bytes.is_empty() {
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

    /// SigFrame that can be read.
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
