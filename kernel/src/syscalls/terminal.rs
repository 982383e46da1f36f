//! `ioctl(2)` on terminals, and on pipes.

use core::sync::atomic::Ordering;

use linux_raw_sys::ioctl::{
    FIOCLEX, FIONBIO, FIONCLEX, FIONREAD, TCFLSH, TCGETS, TCSBRK, TCSETS, TCSETSF, TIOCGPGRP,
    TIOCGSID, TIOCGWINSZ, TIOCNOTTY, TIOCSCTTY, TIOCSPGRP, TIOCSWINSZ,
};
use samara_mm::Errno;

use super::{Call, Outcome, user};
use crate::fs::console::Console;
use crate::fs::{Device, Kind, O_NONBLOCK, OpenFile};

pub(super) fn ioctl(call: &Call<'_>, open: &OpenFile) -> Outcome {
    let [descriptor, request, argument, ..] = call.args;
    let request = request as u32;
    match (request, &open.inode().kind) {
        (FIOCLEX | FIONCLEX, _) => {
            let table = call.thread.process.files.lock().clone();
            table.set_close_on_exec(descriptor, request == FIOCLEX).map(|()| 0)
        }
        (FIONBIO, _) => {
            let on = user::read::<i32>(&call.memory(), argument)? != 0;
            let flags = open.flags.load(Ordering::Relaxed) & !O_NONBLOCK;
            open.flags.store(if on { flags | O_NONBLOCK } else { flags }, Ordering::Relaxed);
            Ok(0)
        }
        (FIONREAD, Kind::Pipe(pipe)) => {
            user::write(&call.memory(), argument, &(pipe.len() as i32)).map(|()| 0)
        }
        (_, Kind::Device(Device::Console(console))) if console.is_terminal() => {
            terminal(call, console)
        }
        _ => Err(Errno::ENOTTY),
    }
}

fn terminal(call: &Call<'_>, console: &Console) -> Outcome {
    let [_, request, argument, ..] = call.args;
    let memory = call.memory();
    let process = &call.thread.process;
    let request = request as u32;
    match request {
        TCGETS => user::write(&memory, argument, &console.settings())?,
        TCSETS..=TCSETSF => {
            let settings = user::read(&memory, argument)?;
            if request == TCSETSF {
                console.flush_input();
            }
            console.set_settings(settings);
        }
        TCSBRK => {}
        TCFLSH => {
            if argument != 1 {
                console.flush_input();
            }
        }
        TIOCSCTTY => {
            console.sid.store(process.sid.load(Ordering::Relaxed), Ordering::Relaxed);
            console.pgid.store(process.pgid.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        TIOCNOTTY => {}
        TIOCGPGRP => user::write(&memory, argument, &console.pgid.load(Ordering::Relaxed))?,
        TIOCSPGRP => console.pgid.store(user::read(&memory, argument)?, Ordering::Relaxed),
        TIOCGSID => user::write(&memory, argument, &console.sid.load(Ordering::Relaxed))?,
        TIOCGWINSZ => user::write(&memory, argument, &console.size())?,
        TIOCSWINSZ => console.set_size(user::read(&memory, argument)?),
        FIONREAD => user::write(&memory, argument, &(console.available() as i32))?,
        _ => return Err(Errno::ENOTTY),
    }
    Ok(0)
}
