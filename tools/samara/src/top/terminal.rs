//! The terminal, and a thread that reads processes concurrently, so that keys never wait.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::terminal;
use samara_conformance::names::printable;

use super::PROC;
use super::columns::Order;
use super::sample::{Sample, Sampler};
use super::screen;
use super::view::{Mode, View, Wish};
use crate::show::grid::Paper;
use crate::show::{live, text};

/// Keys are waited for so long before it is asked whether there is something new.
const GLANCE: Duration = Duration::from_millis(100);

/// Terminals with more cells do not exist: their size is a mistake, and memory for their cells would be taken all the same.
const CELLS: u32 = 4_000_000;

/// `true` if the program should end.
static ENDING: AtomicBool = AtomicBool::new(false);

extern "C" fn end(_: libc::c_int) {
    ENDING.store(true, Ordering::Relaxed);
}

/// Shows the list until a person has seen enough. The terminal is left as it was found.
///
/// # Errors
/// What is wrong, in a line.
pub(super) fn run(order: Order, delay: Duration) -> Result<(), String> {
    // The first look comes before the terminal is taken, so that what cannot be read is told on it.
    let mut sampler = Sampler::default();
    let first = super::first_look(&mut sampler)?;
    for signal in [libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler stores to an atomic and does nothing else.
        unsafe {
            libc::signal(
                signal,
                end as extern "C" fn(libc::c_int) as libc::sighandler_t,
            )
        };
    }
    let (stop, stopped) = mpsc::channel::<()>();
    let (send, samples) = mpsc::sync_channel(1);
    let looker = thread::spawn(move || {
        while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(delay) {
            let Ok(sample) = sampler.look(Path::new(PROC)) else {
                continue;
            };
            if send.send(sample).is_err() {
                break;
            }
        }
    });
    let mut view = View::new(order);
    view.refresh(first);
    let told = |error: std::io::Error| format!("the terminal cannot be used: {error}");
    let sized = terminal::size().and_then(|(columns, rows)| believed(columns, rows));
    let terminal = sized.and_then(|()| ratatui::try_init());
    let shown = terminal.map_err(told).and_then(|mut terminal| {
        let shown = show(&mut terminal, &mut view, &samples).map_err(told);
        ratatui::restore();
        shown
    });
    drop((stop, samples));
    let _ = looker.join();
    shown
}

fn show(
    terminal: &mut DefaultTerminal,
    view: &mut View,
    samples: &Receiver<Sample>,
) -> std::io::Result<()> {
    // The process of which all is shown.
    let mut detailed = 0;
    loop {
        if let Ok(sample) = samples.try_recv() {
            view.refresh(sample);
        }
        let size = terminal.size()?;
        believed(size.width, size.height)?;
        terminal.draw(|frame| screen::draw(frame, view))?;
        if ENDING.load(Ordering::Relaxed) {
            return Ok(());
        }
        let ready = match event::poll(GLANCE) {
            // By one of those signals.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            ready => ready?,
        };
        if !ready {
            continue;
        }
        let key = match event::read()? {
            Event::Key(key) => key,
            Event::Resize(columns, _) => {
                if let Mode::Details(_, first) = view.mode {
                    let lines = details(detailed, columns);
                    let last = lines.len().saturating_sub(1);
                    view.mode = Mode::Details(lines, first.min(last));
                }
                continue;
            }
            _ => continue,
        };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        match view.press(key) {
            Wish::Nothing => {}
            Wish::Quit => return Ok(()),
            Wish::Details(pid) => {
                detailed = pid;
                view.mode = Mode::Details(details(pid, size.width), 0);
            }
        }
    }
}

/// Refuses a size that no terminal has.
fn believed(columns: u16, rows: u16) -> std::io::Result<()> {
    if u32::from(columns) * u32::from(rows) <= CELLS {
        return Ok(());
    }
    Err(std::io::Error::other(format!(
        "it says that it has {columns} columns and {rows} rows; `stty columns 80 rows 24` sets its size"
    )))
}

/// Returns the output of `samara show` for a process on a terminal of this many columns.
fn details(pid: i32, columns: u16) -> Vec<String> {
    let paper = Paper::of_width(Some(columns.into()));
    let text = match live::look(pid) {
        Ok(snapshot) => text::title(&snapshot) + "\n" + &text::summary(&snapshot, paper),
        Err(text) => text,
    };
    let printed = |line: &str| printable(line).into_owned();
    text.lines().map(printed).collect()
}
