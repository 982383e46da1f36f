//! Shares the suites of a test with a main function of its own out among two processes: each takes every second suite.

use std::process::{Child, Command, Stdio, exit};

/// Which of the two this process is, in the environment.
const HALF: &str = "SAMARA_TEST_HALF";

/// The part of the suites that this process runs.
#[derive(Clone, Copy)]
pub(crate) struct Half(Option<usize>);

impl Half {
    /// If all suites run, and there are processors for two processes, starts both processes, prints
    /// their output, and ends with them. (They are children of a process that does nothing else,
    /// because tests wait for any child.)
    pub(crate) fn of(all: bool) -> Self {
        let half = std::env::var(HALF).ok().and_then(|half| half.parse().ok());
        let alone = std::thread::available_parallelism().is_ok_and(|n| n.get() == 1);
        if half.is_some() || !all || alone {
            return Half(half);
        }
        let both = [0, 1].map(start);
        let succeeded = both.map(finish);
        exit(if succeeded == [true; 2] { 0 } else { 101 })
    }

    /// Returns `true` if this process runs the suite of this number.
    pub(crate) fn takes(self, index: usize) -> bool {
        self.0.is_none_or(|half| index % 2 == half)
    }

    /// Returns `true` if this is the second of two processes.
    #[allow(dead_code, reason = "not every test asks")]
    pub(crate) fn is_second(self) -> bool {
        self.0 == Some(1)
    }
}

fn start(half: usize) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(std::env::args_os().skip(1));
    command.env(HALF, half.to_string());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("another process")
}

fn finish(half: Child) -> bool {
    let output = half.wait_with_output().unwrap();
    print!("{}", String::from_utf8_lossy(&output.stdout));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    output.status.success()
}
