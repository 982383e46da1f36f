//! `ioctl(2)`: terminals, and how many bytes a pipe has.

use core::sync::atomic::Ordering;

use samara_mm::Errno;

use super::{Call, Outcome, user};
use crate::files::console::{Console, Settings};
use crate::files::{Device, Kind, O_NONBLOCK, Open};

const TCGETS: u64 = 0x5401;
const TCSETS: u64 = 0x5402;
const TCSETSF: u64 = 0x5404;
const TCSBRK: u64 = 0x5409;
const TCFLSH: u64 = 0x540b;
const TIOCSCTTY: u64 = 0x540e;
const TIOCGPGRP: u64 = 0x540f;
const TIOCSPGRP: u64 = 0x5410;
const TIOCGWINSZ: u64 = 0x5413;
const TIOCSWINSZ: u64 = 0x5414;
const FIONREAD: u64 = 0x541b;
const FIONBIO: u64 = 0x5421;
const TIOCNOTTY: u64 = 0x5422;
const TIOCGSID: u64 = 0x5429;
const FIONCLEX: u64 = 0x5450;
const FIOCLEX: u64 = 0x5451;

pub(super) fn ioctl(call: &Call<'_>, open: &Open) -> Outcome {
    let [descriptor, request, argument, ..] = call.args;
    match (request, &open.node().kind) {
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
    match request {
        TCGETS => user::write(&memory, argument, &console.settings().0)?,
        TCSETS..=TCSETSF => {
            let settings = Settings(user::read(&memory, argument)?);
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
            console.session.store(process.session.load(Ordering::Relaxed), Ordering::Relaxed);
            console.group.store(process.group.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        TIOCNOTTY => {}
        TIOCGPGRP => user::write(&memory, argument, &console.group.load(Ordering::Relaxed))?,
        TIOCSPGRP => console.group.store(user::read(&memory, argument)?, Ordering::Relaxed),
        TIOCGSID => user::write(&memory, argument, &console.session.load(Ordering::Relaxed))?,
        TIOCGWINSZ => user::write(&memory, argument, &console.size())?,
        TIOCSWINSZ => console.set_size(user::read(&memory, argument)?),
        FIONREAD => user::write(&memory, argument, &(console.available() as i32))?,
        _ => return Err(Errno::ENOTTY),
    }
    Ok(0)
}
