//! The machine's pool of huge pages, taken for a while: as root, by one process at a time, and given back whatever becomes of this process.

#[path = "../common/machine.rs"]
mod machine;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// Pages that histories share, and how many more may be made.
const PAGES: u64 = 12;
pub(crate) const SURPLUS: u64 = 2;

/// The time after which use of the pool by other processes counts as lasting.
const OTHERS: Duration = Duration::from_secs(10);
/// The time that killed processes may take to end. On a busy machine it is long, and it passes only
/// if pages are lost.
const OURS: Duration = Duration::from_secs(300);

const DIRECTORY: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

/// Total, free, promised and surplus pages.
pub(crate) type Figures = [u64; 4];

pub(crate) struct Pool {
    /// Pages that were reserved for other processes before, and are kept for them.
    pub(crate) base: u64,
    /// Restores everything as soon as no process holds the other end of its pipe. That includes the
    /// end of this process, for whatever reason.
    keeper: Child,
    pipe: Option<ChildStdin>,
}

fn read(name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("{DIRECTORY}/{name}")).ok()?;
    text.trim().parse().ok()
}

fn write(name: &str, number: u64) -> Option<()> {
    fs::write(format!("{DIRECTORY}/{name}"), number.to_string()).ok()
}

impl Pool {
    /// Waits until no other process has it. Why it cannot be had, else.
    pub(crate) fn take() -> Result<Pool, String> {
        let lock = machine::lock("huge-pages")?;
        let (pages, more) = read("nr_hugepages")
            .zip(read("nr_overcommit_hugepages"))
            .ok_or("the kernel has none")?;
        // No process has pages, and no pages exist except those that were reserved.
        let unused = |figures: Figures| figures[0] == figures[2] && figures[1] == figures[2];
        if !wait(OTHERS, || figures().is_some_and(unused)) {
            return Err("others use it".to_owned());
        }
        let figures = figures().ok_or("the kernel has none")?;
        let base = figures[2];
        let persistent = pages - figures[3].min(pages);
        let script = format!(
            "read none; echo {more} > {DIRECTORY}/nr_overcommit_hugepages; echo {persistent} > {DIRECTORY}/nr_hugepages; echo done >&2"
        );
        // It holds the lock, too, until it has done its work.
        let mut keeper = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::from(lock))
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let pipe = keeper.stdin.take();
        let pool = Pool { base, keeper, pipe };
        write("nr_hugepages", base + PAGES).ok_or("only root may do that")?;
        write("nr_overcommit_hugepages", SURPLUS).ok_or("only root may do that")?;
        match pool.is_settled() {
            true => Ok(pool),
            false => Err("there is not enough memory".to_owned()),
        }
    }

    /// The pool when no history uses it.
    pub(crate) fn unused(&self) -> Figures {
        let all = PAGES + self.base;
        [all, all, self.base, 0]
    }

    /// Waits until it is so: processes that were killed may still be ending.
    pub(crate) fn is_settled(&self) -> bool {
        wait(OURS, || figures() == Some(self.unused()))
    }
}

fn wait(at_most: Duration, mut done: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while began.elapsed() < at_most {
        if done() {
            return true;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    false
}

fn figures() -> Option<Figures> {
    let mut text = Vec::new();
    File::open("/proc/meminfo")
        .ok()?
        .read_to_end(&mut text)
        .ok()?;
    Some(parse(&text))
}

/// The figures in the text of `/proc/meminfo`. Allocates nothing.
pub(crate) fn parse(text: &[u8]) -> Figures {
    let mut figures = [0; 4];
    for line in text.split(|byte| *byte == b'\n') {
        for (figure, label) in figures.iter_mut().zip([
            &b"HugePages_Total:"[..],
            b"HugePages_Free:",
            b"HugePages_Rsvd:",
            b"HugePages_Surp:",
        ]) {
            if let Some(digits) = line.strip_prefix(label) {
                let digits = digits.iter().filter(|byte| byte.is_ascii_digit());
                *figure = digits.fold(0u64, |number, digit| {
                    number
                        .wrapping_mul(10)
                        .wrapping_add(u64::from(digit - b'0'))
                });
            }
        }
    }
    figures
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            let _ = pipe.write_all(b"\n");
        }
        let _ = self.keeper.wait();
    }
}
